//! A merge: reads its inputs, writes one new segment per span of six hours. The writer puts the result into the index.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::StoreError;
use super::catalogue::SeriesId;
use super::compact::span_of;
use super::segment::about::{self, About};
use super::segment::{self, Encoder};
use super::segments::{self, Segment, Unreadable, settle};
use goodput_exposition::sample::{Labels, Sample, TimeMs};

/// About how many samples are decoded at once: 16 MiB.
const SAMPLES_AT_ONCE: usize = 1 << 20;

/// Why there is no merged segment.
#[derive(Debug)]
pub(super) enum Failure {
    /// An input cannot be read.
    Bad(Arc<Segment>, Unreadable),
    /// The outputs cannot be written.
    Failed(StoreError),
    /// It was told to stop.
    Cancelled,
}

/// Merges the inputs into one new segment per span. The files are on disk when this returns, and count only once they are
/// in the index; after a failure or a panic there are none. Blocks.
pub(super) fn merge(
    dir: &Path,
    inputs: &[Arc<Segment>],
    cancel: &AtomicBool,
    labels: impl Fn(SeriesId) -> Option<Labels>,
    mut next: impl FnMut() -> About,
) -> Result<Vec<Segment>, Failure> {
    let merge = Merge::open(dir, inputs, cancel)?;
    let mut outputs = Outputs { dir, segments: Vec::new() };
    merge.write(dir, &labels, &mut next, &mut outputs.segments)?;
    Ok(std::mem::take(&mut outputs.segments))
}

/// Files of a merge that is not over. They go with this.
struct Outputs<'a> {
    dir: &'a Path,
    segments: Vec<Segment>,
}

impl Drop for Outputs<'_> {
    fn drop(&mut self) {
        for output in &self.segments {
            // What stays is superfluous, which the next start finds out: its inputs are all there.
            let _ = fs::remove_file(self.dir.join(output.file_name()));
        }
    }
}

struct Merge<'a> {
    inputs: &'a [Arc<Segment>],
    /// The bytes of each.
    files: Vec<Vec<u8>>,
    /// Stretches of series that are decoded together.
    batches: Vec<Range<u32>>,
    cancel: &'a AtomicBool,
}

impl<'a> Merge<'a> {
    fn open(dir: &Path, inputs: &'a [Arc<Segment>], cancel: &'a AtomicBool) -> Result<Self, Failure> {
        let load = |segment: &Arc<Segment>| segment.load(dir).map_err(|error| Failure::Bad(Arc::clone(segment), error));
        let files = inputs.iter().map(load).collect::<Result<_, _>>()?;
        Ok(Self { inputs, files, batches: batches(inputs), cancel })
    }

    fn write(
        &self,
        dir: &Path,
        labels: &impl Fn(SeriesId) -> Option<Labels>,
        next: &mut impl FnMut() -> About,
        outputs: &mut Vec<Segment>,
    ) -> Result<(), Failure> {
        let seq = self.inputs.iter().map(|segment| segment.seq).max().unwrap_or(0);
        let inputs: Vec<i64> = self.inputs.iter().map(|segment| segment.id).collect();
        let replaces = self.replaces();
        for encoder in self.encode()?.into_values() {
            self.go_on()?;
            let about = About { seq, inputs: inputs.clone(), replaces: replaces.clone(), ..next() };
            let written = segments::write(dir, &about, encoder, labels);
            outputs.extend(written.map_err(Failure::Failed)?);
        }
        Ok(())
    }

    /// The inputs, and what they were merged from.
    fn replaces(&self) -> Vec<i64> {
        let before = self.files.iter().filter_map(|bytes| about::about(bytes)).flat_map(|about| about.replaces);
        let mut all: Vec<i64> = self.inputs.iter().map(|segment| segment.id).chain(before).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// All samples, decoded once, by the span that they are of.
    fn encode(&self) -> Result<BTreeMap<i64, Encoder>, Failure> {
        let mut spans: BTreeMap<i64, Encoder> = BTreeMap::new();
        let mut push = |id, samples: &[Sample]| {
            let encoder = match spans.entry(span_of(samples[0].time_ms)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(Encoder::new()?),
            };
            encoder.push(id, samples)
        };
        let mut decoded = 0;
        for batch in &self.batches {
            for (id, samples) in self.decode(batch, &mut decoded)? {
                for part in samples.chunk_by(|a, b| span_of(a.time_ms) == span_of(b.time_ms)) {
                    push(id, part).map_err(not_stored)?;
                }
            }
        }
        let expected: usize = self.inputs.iter().map(|segment| segment.rows()).sum();
        if decoded == expected {
            return Ok(spans);
        }
        Err(not_stored(format!("{decoded} samples of {expected} were found in the segments to merge")))
    }

    /// The samples of these series, in order; of several at one time the one of the first input stays.
    fn decode(&self, batch: &Range<u32>, decoded: &mut usize) -> Result<Vec<(SeriesId, Vec<Sample>)>, Failure> {
        self.go_on()?;
        let ids: Vec<SeriesId> = batch.clone().map(SeriesId).collect();
        let mut samples = vec![Vec::new(); ids.len()];
        for (segment, bytes) in self.inputs.iter().zip(&self.files) {
            segment::decode(bytes, &segment.groups, &ids, &(TimeMs::MIN..TimeMs::MAX), &mut samples)
                .map_err(|reason| Failure::Bad(Arc::clone(segment), Unreadable::Damaged(reason)))?;
        }
        *decoded += samples.iter().map(Vec::len).sum::<usize>();
        samples.iter_mut().for_each(settle);
        Ok(ids.into_iter().zip(samples).collect())
    }

    fn go_on(&self) -> Result<(), Failure> {
        if self.cancel.load(Ordering::Relaxed) { Err(Failure::Cancelled) } else { Ok(()) }
    }
}

fn not_stored(reason: String) -> Failure {
    Failure::Failed(StoreError::NotStored { reason })
}

/// All series of the segments, cut where row groups end that hold about [`SAMPLES_AT_ONCE`].
fn batches(segments: &[Arc<Segment>]) -> Vec<Range<u32>> {
    let groups = || segments.iter().flat_map(|segment| &segment.groups);
    let mut ends: Vec<(u32, usize)> = groups().map(|g| (g.last_series.0.saturating_add(1), g.rows)).collect();
    ends.sort_unstable();
    let last = ends.last().map(|(end, _)| *end);
    let mut start = groups().map(|group| group.first_series.0).min().unwrap_or(0);
    let (mut batches, mut samples) = (Vec::new(), 0);
    for (end, rows) in ends {
        samples += rows;
        if start < end && (samples >= SAMPLES_AT_ONCE || Some(end) == last) {
            batches.push(start..end);
            (start, samples) = (end, 0);
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::SPAN_MS;
    use crate::segment::RowGroup;

    #[test]
    fn batches_cover_every_series_once() {
        let group = |first: u32, last: u32| RowGroup {
            first_row: 0,
            rows: SAMPLES_AT_ONCE / 2,
            first_series: SeriesId(first),
            last_series: SeriesId(last),
            first_ms: 0,
            last_ms: 1,
        };
        let of = |id, groups| {
            let mut segment = Segment::of(id, 1, 0..2);
            segment.groups = groups;
            Arc::new(segment)
        };
        let segments = [of(1, vec![group(2, 5), group(5, 9)]), of(2, vec![group(3, 7), group(7, 7), group(8, 20)])];
        assert_eq!(batches(&segments), [2..8, 8..10, 10..21]);
    }

    fn write(dir: &Path, id: i64, rows: &[(u32, TimeMs, f64)]) -> Arc<Segment> {
        let mut encoder = Encoder::new().unwrap();
        for (id, time_ms, value) in rows {
            encoder.push(SeriesId(*id), &[Sample { time_ms: *time_ms, value: *value }]).unwrap();
        }
        Arc::new(segments::write(dir, &About { seq: id, ..of_id(id) }, encoder, no_labels).unwrap().unwrap())
    }

    fn of_id(id: i64) -> About {
        About { id, ..About::default() }
    }

    fn no_labels(_: SeriesId) -> Option<Labels> {
        None
    }

    #[test]
    fn a_merge_is_cut_where_spans_end_settled_and_complete() {
        let dir = tempfile::tempdir().unwrap();
        let inputs = [
            write(dir.path(), 1, &[(1, 5, 1.0), (1, SPAN_MS - 1, 2.0), (3, SPAN_MS, 3.0)]),
            write(dir.path(), 2, &[(1, 5, 9.0), (1, 6, 4.0), (2, SPAN_MS + 1, 5.0)]),
        ];
        let mut ids = 10..;
        let next = || of_id(ids.next().unwrap());
        let outputs = merge(dir.path(), &inputs, &AtomicBool::new(false), no_labels, next).unwrap();
        let outputs: Vec<_> = outputs.into_iter().map(Arc::new).collect();
        let of = |segment: &Arc<Segment>| {
            let ids: Vec<_> = (0..5).map(SeriesId).collect();
            let one = std::slice::from_ref(segment);
            let found = segments::read(dir.path(), one, &ids, &(TimeMs::MIN..TimeMs::MAX)).unwrap();
            found.samples.iter().map(|s| s.iter().map(|s| (s.time_ms, s.value)).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        assert_eq!(outputs.iter().map(|s| (s.id, s.seq)).collect::<Vec<_>>(), [(10, 2), (11, 2)]);
        assert_eq!(of(&outputs[0]), [vec![], vec![(5, 1.0), (6, 4.0), (SPAN_MS - 1, 2.0)], vec![], vec![], vec![]]);
        assert_eq!(of(&outputs[1]), [vec![], vec![], vec![(SPAN_MS + 1, 5.0)], vec![(SPAN_MS, 3.0)], vec![]]);
    }

    #[test]
    fn a_sample_of_long_ago_is_a_segment_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let long_ago = -300_000 * SPAN_MS;
        let inputs = [write(dir.path(), 1, &[(1, long_ago, 1.0), (1, 5, 2.0)]), write(dir.path(), 2, &[(1, 6, 3.0)])];
        let mut ids = 10..;
        let merged =
            merge(dir.path(), &inputs, &AtomicBool::new(false), no_labels, || of_id(ids.next().unwrap())).unwrap();
        let spans: Vec<_> = merged.iter().map(|segment| (segment.first_ms, segment.last_ms)).collect();
        assert_eq!(spans, [(long_ago, long_ago), (5, 6)]);
    }

    #[test]
    fn many_row_groups_come_through() {
        let dir = tempfile::tempdir().unwrap();
        let rows = |from: TimeMs| {
            (0..90_000_u32).map(move |i| (i / 3, from + i64::from(i % 3), f64::from(i))).collect::<Vec<_>>()
        };
        let inputs = [write(dir.path(), 1, &rows(0)), write(dir.path(), 2, &rows(3))];
        let merged = merge(dir.path(), &inputs, &AtomicBool::new(false), no_labels, || of_id(3)).unwrap();
        assert!(merged.len() == 1 && merged[0].rows() == 180_000);
        let cancelled = merge(dir.path(), &inputs, &AtomicBool::new(true), no_labels, || of_id(4));
        assert!(matches!(cancelled, Err(Failure::Cancelled)), "{cancelled:?}");
    }

    #[test]
    fn a_merge_that_panics_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let inputs = [write(dir.path(), 1, &[(1, 1, 1.0), (1, SPAN_MS, 1.0)]), write(dir.path(), 2, &[(1, 2, 1.0)])];
        let mut ids = 3..;
        let next = || of_id(ids.next().filter(|id| *id < 4).unwrap());
        let merge = || merge(dir.path(), &inputs, &AtomicBool::new(false), no_labels, next);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(merge)).unwrap_err();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the first of its two files was written");
    }

    #[test]
    fn a_bad_input_is_named_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let inputs = [write(dir.path(), 1, &[(1, 1, 1.0)]), write(dir.path(), 2, &[(1, 2, 1.0)])];
        fs::write(dir.path().join(inputs[1].file_name()), b"x").unwrap();
        let failed = merge(dir.path(), &inputs, &AtomicBool::new(false), no_labels, || of_id(3));
        assert!(matches!(&failed, Err(Failure::Bad(segment, _)) if segment.id == 2), "{failed:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
