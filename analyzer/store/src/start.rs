//! What opening a data directory finds: it refuses what looks like another state of the directory, indexes again what the
//! index has lost, keeps what it does not know, and says what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::{error, info, warn};

use super::acknowledged::{self, Record};
use super::embedded::Shared;
use super::index::Missing;
use super::orphans::{Known, Orphan, What};
use super::quarantine::segments_hole;
use super::rollup::Rolling;
use super::segments::{Segment, Unreadable, id_of};
use super::{Options, StoreError, aside, away, backup, database, write_ahead};
use goodput_exposition::sample::TimeMs;

/// Where the writer goes on.
#[derive(Debug)]
pub(super) struct Begun {
    /// The last sequence number of the write-ahead that was ever given.
    pub(super) seq: i64,
    /// The head holds the write-ahead rows after this one.
    pub(super) after: i64,
    /// Verdicts of an earlier release that are not rolled up.
    pub(super) rolling: Option<Rolling>,
}

/// Creates the data directory when it is absent.
pub(super) fn create(dir: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(dir).map_err(|error| StoreError::Io { path: dir.to_owned(), error })
}

/// Refuses a directory that has segments and no database, before a new one is made. Changes nothing.
pub(super) async fn check(options: &Options) -> Result<(), StoreError> {
    backup::check_restored(&options.dir)?;
    let (path, dir) = (options.database(), options.dir.clone());
    if !database::is_new(&path).await? {
        return Ok(());
    }
    match segment_files(&options.segments())? {
        0 => Ok(()),
        segments => Err(StoreError::NoIndex { path, dir, segments }),
    }
}

fn segment_files(dir: &Path) -> Result<usize, StoreError> {
    let failed = |error| StoreError::Io { path: dir.to_owned(), error };
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        entries => entries.map_err(failed)?,
    };
    let mut count = 0;
    for entry in entries {
        count += usize::from(id_of(&entry.map_err(failed)?.file_name().to_string_lossy()).is_some());
    }
    Ok(count)
}

impl Shared {
    /// Fills catalogue, segment index and head.
    pub(super) async fn load(&self) -> Result<Begun, StoreError> {
        let orphans = self.orphans().await?;
        self.refuse(&orphans).await?;
        self.database.raise_generation().await;
        self.load_catalogue().await?;
        for orphan in orphans {
            self.settle_orphan(orphan).await?;
        }
        self.count_unknown();
        let (last_segment, raw_from) = self.query(self.database.upkeep()).await?;
        let highest = id_in_use(&self.options).max(last_segment);
        self.last_segment.store(highest, Ordering::Relaxed);
        let holes = self.query(self.database.holes()).await?;
        {
            let state = &mut *self.state.write();
            (state.raw_from, state.holes) = (raw_from, holes);
        }
        self.totals.lock().quarantined = self.query(self.database.quarantined()).await?;
        self.query(self.load_bad_rows()).await?;
        self.last_event.store(self.query(self.database.last_event()).await?, Ordering::Release);
        if let Some(time) = self.query(self.database.events_unjudged_from()).await? {
            self.totals.lock().note_unjudged(time);
        }
        let judged = self.query(self.database.judged()).await?.unwrap_or(i64::MAX);
        for segment in self.query(self.database.segments()).await? {
            let segment = if segment.is_sound { segment } else { self.repaired(segment).await };
            self.take_segment(Arc::new(segment), judged).await;
        }
        self.replay(judged).await
    }

    /// Files that the index does not know; creates the segments' directory where none is expected to be there.
    async fn orphans(&self) -> Result<Vec<Orphan>, StoreError> {
        let dir = self.options.segments();
        let segments = self.query(self.database.segments()).await?;
        let retired = self.query(self.database.retired()).await?;
        if segments.is_empty() {
            create(&dir)?;
        }
        let known = Known {
            dir: &dir,
            directory: &self.database.directory,
            generation: self.database.generation(),
            segments: segments.iter().map(|segment| (segment.id, segment)).collect(),
            retired: &retired,
        };
        let found = known.orphans();
        let orphans = match found {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            found => found.map_err(|error| StoreError::Io { path: dir.clone(), error })?,
        };
        let replaced: BTreeSet<i64> = orphans.iter().flat_map(Orphan::replaces).copied().collect();
        let kept = segments.iter().filter(|segment| !replaced.contains(&segment.id));
        let missing = kept.filter(|segment| segment.is_absent(&dir)).count();
        if missing * 2 > segments.len() {
            let (dir, all) = (self.options.dir.clone(), segments.len());
            away::note(&dir);
            return Err(StoreError::SegmentsAbsent { path: self.options.segments(), dir, missing, all });
        }
        Ok(orphans)
    }

    /// A database that is older than the segments knows neither them nor which names it has given.
    async fn refuse(&self, orphans: &[Orphan]) -> Result<(), StoreError> {
        let count = |wanted: fn(&What) -> bool| orphans.iter().filter(|orphan| wanted(&orphan.what)).count();
        let old = |segments, reason: &str| StoreError::OldDatabase {
            path: self.options.database(),
            dir: self.options.dir.clone(),
            segments,
            reason: reason.to_owned(),
        };
        let later = count(|what| matches!(what, What::Later));
        if later > 0 {
            return Err(old(later, "which were written after this copy of it"));
        }
        let unknown = count(|what| matches!(what, What::Unknown(_)));
        let indexed = self.query(self.database.segments()).await?.len();
        if unknown > indexed.max(1) {
            return Err(old(unknown, &format!("and knows only {indexed} others")));
        }
        Ok(())
    }

    async fn settle_orphan(&self, Orphan { path, what }: Orphan) -> Result<(), StoreError> {
        let shown = path.display();
        match what {
            What::Superfluous(reason) => self.remove(&path, reason),
            What::Lost(described, segment) => self.readopt(&path, &described, segment).await,
            What::Later => {}
            What::Unknown(reason) => self.keep_unknown(&path, &reason),
            What::Unreadable(error) => {
                self.totals.lock().read_errors += 1;
                warn!(path = %shown, %error, "cannot read a segment file that the index does not know; it stays");
            }
        }
        Ok(())
    }

    fn remove(&self, path: &Path, reason: &str) {
        match fs::remove_file(path) {
            Ok(()) => info!(path = %path.display(), reason, "superfluous file removed"),
            Err(error) => {
                warn!(path = %path.display(), reason, %error, "cannot remove a superfluous file; the next start tries again")
            }
        }
    }

    /// A segment of this directory that the index does not have: a flush was interrupted, or the journal is damaged. Its
    /// write-ahead rows leave the database in the same transaction.
    async fn readopt(&self, path: &Path, described: &super::segment::about::Described, segment: Segment) {
        match self.adopt(described, &segment).await {
            Ok(()) => {
                warn!(path = %path.display(), rows = segment.rows(), "segment indexed that the index did not have")
            }
            Err(reason) => self.keep_unknown(path, &reason),
        }
    }

    fn keep_unknown(&self, path: &Path, reason: &str) {
        match aside::move_into(path, &self.options.unknown()) {
            Ok(to) => {
                warn!(path = %to.display(), reason, "segment file moved that the index does not know; `store unquarantine` checks it")
            }
            Err(error) => {
                self.totals.lock().read_errors += 1;
                error!(path = %path.display(), reason, %error, "cannot move a segment file that the index does not know; it stays");
            }
        }
    }

    pub(super) fn count_unknown(&self) {
        match aside::count(&self.options.unknown()) {
            Ok(count) => self.totals.lock().unknown_files = count,
            Err(error) => warn!(%error, "cannot count the files in unknown/"),
        }
    }

    /// A damaged entry is made again from its file, which says itself what it holds.
    async fn repaired(&self, damaged: Segment) -> Segment {
        let path = self.options.segments().join(damaged.file_name());
        let described = fs::read(&path).map_err(|error| error.to_string()).and_then(|bytes| {
            let described = super::segment::about::describe(&bytes)?;
            let is_its = described.about.id == damaged.id && described.about.directory == self.database.directory;
            let segment = Segment::entry(&described.about, described.groups, &bytes);
            segment.filter(|_| is_its).ok_or_else(|| "the file is another segment's".to_owned())
        });
        match described {
            Ok(segment) => {
                let noted = self.query(self.database.repair_segment(&segment)).await;
                warn!(path = %path.display(), noted = noted.is_ok(), "damaged index entry made again from its segment");
                segment
            }
            Err(reason) => {
                self.totals.lock().read_errors += 1;
                error!(path = %path.display(), reason, "damaged index entry cannot be made again; it is used as it is");
                damaged
            }
        }
    }

    /// Serves a segment of the index, unless its file is absent or damaged.
    async fn take_segment(&self, segment: Arc<Segment>, judged: i64) {
        let path = self.options.segments().join(segment.file_name());
        match segment.check(&self.options.segments()) {
            Err(Unreadable::Io(error)) if error.kind() == ErrorKind::NotFound => {
                return self.take_absent(segment, &path).await;
            }
            Err(Unreadable::Io(error)) => self.note_read_error(&StoreError::Io { path, error }),
            Err(Unreadable::Damaged(reason)) => {
                self.state.write().add(Arc::clone(&segment));
                return self.quarantine_segment(&segment, &reason).await;
            }
            Ok(()) => {}
        }
        if segment.seq > judged {
            self.totals.lock().note_unjudged(segment.first_ms);
        }
        self.state.write().add(segment);
    }

    async fn take_absent(&self, segment: Arc<Segment>, path: &Path) {
        let aside = self.options.quarantine().join(segment.file_name());
        if aside.try_exists().unwrap_or(false) {
            // An earlier start moved it, and was cut short before its row left.
            return self.note_segment(&segment, &aside, "set aside by an earlier start").await;
        }
        error!(path = %path.display(), rows = segment.rows(), first_ms = segment.first_ms, last_ms = segment.last_ms,
            "segment file is absent: its samples are not served until it is back; its verdicts stay");
        away::note(&self.options.dir);
        self.note_hole(segments_hole(&segment, (self.options.now)()));
        let state = &mut *self.state.write();
        state.seq = state.seq.max(segment.seq);
        state.absent.push(segment);
    }

    async fn replay(&self, judged: i64) -> Result<Begun, StoreError> {
        let records = self.acknowledged();
        let times = |seq: i64| records.get(&seq).map(|record| (record.first_ms, record.last_ms));
        let (mut last, mut first) = (i64::MIN, None);
        while let Some((seq, checksum, bytes)) =
            self.query(database::write_ahead_after(&self.database.read, last)).await?
        {
            last = seq;
            first = first.or(Some(seq));
            match write_ahead::open(checksum, &bytes) {
                Ok(rows) => {
                    let mut totals = self.totals.lock();
                    totals.write_ahead_bytes += bytes.len() as u64;
                    if seq > judged {
                        rows.iter().for_each(|(_, sample)| totals.note_unjudged(sample.time_ms));
                    }
                    let head = &mut self.state.write().head;
                    rows.into_iter().for_each(|(id, sample)| head.insert(id, sample));
                }
                Err(reason) => self.quarantine_write_ahead(seq, &bytes, &reason, times(seq)).await?,
            }
        }
        let known = self.query(self.database.last_seq()).await?.max(last).max(self.state.read().seq);
        let seq = self.note_missing(&records, known).await?;
        self.state.write().seq = seq;
        let rolling = self.query(Rolling::begin(&self.database)).await?;
        Ok(Begun { seq, after: first.map_or(seq, |first| first - 1), rolling })
    }

    /// What was acknowledged, by the file outside the database.
    fn acknowledged(&self) -> BTreeMap<i64, Record> {
        let path = self.options.acknowledged();
        match acknowledged::read(&path) {
            Ok((records, bad)) => {
                if bad > 0 {
                    warn!(path = %path.display(), bad, "torn or damaged records of acknowledged commits; the others are used");
                }
                records.into_iter().map(|record| (record.seq, record)).collect()
            }
            Err(error) => {
                warn!(path = %path.display(), %error, "cannot read which commits were acknowledged");
                BTreeMap::new()
            }
        }
    }

    /// Notes the commits that were acknowledged after the last one that the database knows. Returns the last of all.
    async fn note_missing(&self, records: &BTreeMap<i64, Record>, known: i64) -> Result<i64, StoreError> {
        let lost: Vec<&Record> = records.range(known.saturating_add(1)..).map(|(_, record)| record).collect();
        let (Some(first), Some(last)) = (lost.first(), lost.last()) else { return Ok(known) };
        let with_samples = || lost.iter().filter(|record| record.samples > 0);
        let missing = Missing {
            first_seq: first.seq,
            last_seq: last.seq,
            samples: with_samples().map(|record| record.samples).sum(),
            first_ms: with_samples().map(|record| record.first_ms).min().unwrap_or(TimeMs::MAX),
            last_ms: with_samples().map(|record| record.last_ms).max().unwrap_or(TimeMs::MIN),
        };
        error!(
            samples = missing.samples,
            commits = lost.len(),
            first_ms = missing.first_ms,
            last_ms = missing.last_ms,
            "acknowledged samples are missing: goodput.db has lost its last commits, as by damage of its journal"
        );
        if let Some(problem) = self.query(self.database.quick_check()).await? {
            let error = sqlx::Error::Protocol(problem);
            return Err(StoreError::DamagedDatabase { path: self.options.database(), error });
        }
        self.totals.lock().missing_samples = missing.samples;
        let now = (self.options.now)();
        self.query(self.database.note_missing(&missing, now)).await?;
        let name = format!("commits {} to {}", missing.first_seq, missing.last_seq);
        self.note_hole(super::Hole { name, first_ms: missing.first_ms, last_ms: missing.last_ms, found_ms: now });
        Ok(last.seq)
    }
}

/// The highest id among the files of segments, wherever they were moved: none of them is given again.
fn id_in_use(options: &Options) -> i64 {
    let mut highest = 0;
    for dir in [options.segments(), options.quarantine(), options.unknown()] {
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => {
                warn!(path = %dir.display(), %error, "cannot list a directory of segment files");
                continue;
            }
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let stem = name.split_once('.').map_or(&*name, |(stem, _)| stem);
            highest = highest.max(id_of(&format!("{stem}.parquet")).unwrap_or(0));
        }
    }
    highest
}
