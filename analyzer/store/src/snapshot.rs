//! The samples of a data directory as they are at one instant, read while another process has it open.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::catalogue::{Catalogue, SeriesId};
use super::database::Database;
use super::options::database_path;
use super::segments::{self, Segment, settle};
use super::{Options, Selection, StoreError, database, write_ahead};
use goodput_exposition::sample::{Sample, Series, TimeMs};

/// A server may merge or remove a segment before it is held; then a newer snapshot names its successor.
const ATTEMPTS: usize = 10;

/// All that was acknowledged when it was taken, of a range of time. Holds the catalogue and what is not in a segment yet,
/// about as much memory as the process that has the directory; and the segments' files, so that they stay readable when
/// that process merges or removes them.
pub struct Snapshot {
    segments_dir: PathBuf,
    catalogue: Catalogue,
    segments: Vec<Arc<Segment>>,
    recent: HashMap<SeriesId, Vec<Sample>>,
}

impl Snapshot {
    /// Takes one of what lies in the range; nothing in the directory is changed.
    pub async fn take(dir: &Path, range: &Range<TimeMs>) -> Result<Self, StoreError> {
        let mut absent = None;
        for _ in 0..ATTEMPTS {
            let snapshot = Self::look(dir).await?;
            let Some(path) = snapshot.hold(range)? else { return Ok(snapshot) };
            if absent.as_ref() == Some(&path) {
                // A newer index names it too, so it was not merged or removed.
                return Err(StoreError::Io { path, error: ErrorKind::NotFound.into() });
            }
            absent = Some(path);
        }
        let reason = "segments were merged or removed faster than they were opened; try when less comes in";
        Err(StoreError::NotStored { reason: reason.to_owned() })
    }

    pub(super) async fn look(dir: &Path) -> Result<Self, StoreError> {
        let database = Database::look(database_path(dir)).await?;
        let snapshot = Self::load(dir, &database).await;
        database.close().await;
        snapshot
    }

    /// Opens every segment of the range; the path of the first one that is not there any more, if any.
    pub(super) fn hold(&self, range: &Range<TimeMs>) -> Result<Option<PathBuf>, StoreError> {
        for segment in self.segments.iter().filter(|segment| segment.overlaps(range)) {
            let held = segment.hold(&self.segments_dir);
            let path = || self.segments_dir.join(segment.file_name());
            if !held.map_err(|error| StoreError::Io { path: path(), error })? {
                return Ok(Some(path()));
            }
        }
        Ok(None)
    }

    async fn load(dir: &Path, database: &Database) -> Result<Self, StoreError> {
        let failed = |error| database.failed(error);
        let mut catalogue = Catalogue::default();
        for (id, labels) in database.series().await.map_err(failed)? {
            catalogue.insert(id, labels);
        }
        let segments = database.segments().await.map_err(failed)?.into_iter().map(Arc::new).collect();
        let (mut recent, mut last): (HashMap<SeriesId, Vec<Sample>>, _) = (HashMap::new(), 0);
        while let Some((seq, checksum, bytes)) =
            database::write_ahead_after(&database.read, last).await.map_err(failed)?
        {
            last = seq;
            let rows = write_ahead::open(checksum, &bytes).map_err(|reason| StoreError::WriteAhead {
                path: database_path(dir),
                seq,
                reason,
            })?;
            rows.into_iter().for_each(|(id, sample)| recent.entry(id).or_default().push(sample));
        }
        let segments_dir = Options::new(dir, |_| true).segments();
        Ok(Self { segments_dir, catalogue, segments, recent })
    }

    /// Roughly how many samples of all series lie in the range: those of whole segments, and the recent ones.
    #[must_use]
    pub fn estimate(&self, range: &Range<TimeMs>) -> usize {
        let stored: usize = self.segments.iter().filter(|s| s.overlaps(range)).map(|s| s.rows()).sum();
        stored + self.recent.values().map(Vec::len).sum::<usize>()
    }

    /// Reads series within the snapshot's range, in order of labels; each at most once, samples in order of time, no duplicates. Blocks.
    pub fn select(&self, selection: &Selection) -> Result<Vec<Series>, StoreError> {
        let (ids, range) = (self.catalogue.matching(selection), &selection.range);
        let overlapping: Vec<_> = self.segments.iter().filter(|s| s.overlaps(range)).cloned().collect();
        let found = segments::read(&self.segments_dir, &overlapping, &ids, range)?;
        if let Some((segment, reason)) = found.bad.into_iter().next() {
            return Err(StoreError::Segment { path: self.segments_dir.join(segment.file_name()), reason });
        }
        let mut series = Vec::new();
        for (id, mut samples) in ids.into_iter().zip(found.samples) {
            let recent = self.recent.get(&id).into_iter().flatten();
            samples.extend(recent.filter(|sample| range.contains(&sample.time_ms)));
            settle(&mut samples);
            let labels = self.catalogue.labels(id).filter(|_| !samples.is_empty());
            series.extend(labels.map(|labels| Series { labels: labels.clone(), samples }));
        }
        series.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(series)
    }
}
