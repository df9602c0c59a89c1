//! Small segments into larger ones, by spans of six hours: which ones, and the merge itself. The writer puts the result
//! into the index.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::StoreError;
use super::catalogue::SeriesId;
use super::segment::{self, Encoder};
use super::segments::{self, Name, Segment, settle};
use crate::sample::{Sample, TimeMs};

/// Merged segments end at 00:00, 06:00, 12:00 and 18:00 UTC. A read of some hours decodes all of a segment's samples of
/// the series that it wants, so segments are not much longer than what judging reads at once; and a day is whole spans, so
/// that retention removes whole days.
const SPAN_MS: TimeMs = 6 * 3_600_000;

/// How many small segments of a span that is not over make a merge worth while: each sample is then rewritten about
/// once per factor of eight in size.
const FAN_IN: usize = 8;

/// Segments that one merge reads at most.
const MAX_INPUTS: usize = 16;

/// About how many samples are decoded at once: 16 MiB.
const SAMPLES_AT_ONCE: usize = 1 << 20;

/// What makes a merge worth while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Inputs of one merge together, and so about the largest segment that a merge makes.
    pub(super) segment_bytes: u64,
    /// Segments with later samples in the write-ahead's order are left alone: they are not judged, and a restart has to
    /// know from when on.
    pub(super) judged: i64,
    /// Spans that end here or before are over: nothing is added to them in the normal course.
    pub(super) over_until: TimeMs,
    /// Merge what can be merged, however little.
    pub(super) eager: bool,
}

/// The segments to merge next, in the order of `segments`; none when nothing is worth it.
///
/// Either some of them reach over the end of a span and the merge cuts them there, or they become one: so merging ends.
/// One alone is left as it is, also those that earlier releases made of whole days.
pub(super) fn plan(segments: &[Arc<Segment>], rules: Rules) -> Vec<Arc<Segment>> {
    let mut spans: BTreeMap<TimeMs, Vec<&Arc<Segment>>> = BTreeMap::new();
    let small = |s: &&Arc<Segment>| s.bytes <= rules.segment_bytes / 2 && s.seq <= rules.judged;
    for segment in segments.iter().filter(small) {
        spans.entry(span_of(segment.first_ms)).or_default().push(segment);
    }
    for (span, mut small) in spans {
        let over = (span + 1).saturating_mul(SPAN_MS) <= rules.over_until;
        let enough = if over || rules.eager { 2 } else { FAN_IN };
        small.sort_by_key(|segment| segment.bytes);
        let mut bytes = 0;
        let fits = |segment: &&&Arc<Segment>| {
            // One that is much larger than all smaller ones together is not rewritten for their sake.
            let worth = enough == 2 || bytes == 0 || segment.bytes <= bytes * FAN_IN as u64;
            bytes += segment.bytes;
            worth && bytes <= rules.segment_bytes
        };
        let chosen: Vec<i64> = small.iter().take_while(fits).take(MAX_INPUTS).map(|segment| segment.id).collect();
        if chosen.len() >= enough {
            return segments.iter().filter(|segment| chosen.contains(&segment.id)).cloned().collect();
        }
    }
    Vec::new()
}

fn span_of(time: TimeMs) -> i64 {
    time.div_euclid(SPAN_MS)
}

/// Why there is no merged segment.
#[derive(Debug)]
pub(super) enum Failure {
    /// An input cannot be read.
    Bad(Arc<Segment>, String),
    /// The outputs cannot be written.
    Failed(StoreError),
    /// It was told to stop.
    Cancelled,
}

/// Merges the inputs into one new segment per span. The files are on disk when this returns, and count only once they are
/// in the index; after a failure there are none. Blocks.
pub(super) fn merge(
    dir: &Path,
    inputs: &[Arc<Segment>],
    cancel: &AtomicBool,
    mut next_id: impl FnMut() -> i64,
) -> Result<Vec<Segment>, Failure> {
    let merge = Merge::open(dir, inputs, cancel)?;
    let mut outputs = Vec::new();
    let written = merge.write(dir, &mut next_id, &mut outputs);
    if let Err(failure) = written {
        for output in &outputs {
            // What stays is an orphan, which the next start removes.
            let _ = fs::remove_file(dir.join(output.file_name()));
        }
        return Err(failure);
    }
    Ok(outputs)
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
        let load =
            |segment: &Arc<Segment>| segment.load(dir).map_err(|reason| Failure::Bad(Arc::clone(segment), reason));
        let files = inputs.iter().map(load).collect::<Result<_, _>>()?;
        Ok(Self { inputs, files, batches: batches(inputs), cancel })
    }

    fn write(&self, dir: &Path, next_id: &mut impl FnMut() -> i64, outputs: &mut Vec<Segment>) -> Result<(), Failure> {
        let seq = self.inputs.iter().map(|segment| segment.seq).max().unwrap_or(0);
        for encoder in self.encode()?.into_values() {
            self.go_on()?;
            let written = segments::write(dir, Name { id: next_id(), seq }, encoder);
            outputs.extend(written.map_err(Failure::Failed)?);
        }
        Ok(())
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
                .map_err(|reason| Failure::Bad(Arc::clone(segment), reason))?;
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
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::store::segment::RowGroup;

    const RULES: Rules = Rules { segment_bytes: 1000, judged: 100, over_until: 10 * SPAN_MS, eager: false };

    fn segment(id: i64, bytes: u64, times: Range<TimeMs>) -> Arc<Segment> {
        Arc::new(Segment::of(id, bytes, times))
    }

    fn planned(segments: &[Arc<Segment>], rules: Rules) -> Vec<i64> {
        plan(segments, rules).iter().map(|segment| segment.id).collect()
    }

    #[test]
    fn a_span_that_is_over_is_merged_at_once_and_an_open_one_when_it_is_worth_it() {
        let open = 10 * SPAN_MS;
        let mut segments: Vec<_> = (1..8).map(|id| segment(id, 10, open + id..open + id + 1)).collect();
        assert!(planned(&segments, RULES).is_empty());
        assert_eq!(planned(&segments, Rules { eager: true, ..RULES }).len(), 7);
        segments.push(segment(8, 10, open + 8..open + 9));
        assert_eq!(planned(&segments, RULES), [1, 2, 3, 4, 5, 6, 7, 8]);
        let before = [segment(1, 10, open - 5..open - 4), segment(2, 10, open - 3..open - 2)];
        assert_eq!(planned(&before, RULES), [1, 2]);
        assert!(planned(&before[..1], RULES).is_empty());
        let apart = [segment(1, 10, 0..1), segment(2, 10, SPAN_MS..SPAN_MS + 1)];
        assert!(planned(&apart, RULES).is_empty(), "one per span");
    }

    #[test]
    fn large_and_unjudged_ones_are_left_alone_and_no_merge_is_too_large() {
        let large = [segment(1, 501, 0..1), segment(2, 10, 1..2)];
        assert!(planned(&large, RULES).is_empty());
        let fresh = [segment(1, 10, 0..1), segment(101, 10, 1..2)];
        assert!(planned(&fresh, RULES).is_empty());
        let many: Vec<_> = (1..=5).map(|id| segment(id, 300, id..id + 1)).collect();
        assert_eq!(planned(&many, RULES), [1, 2, 3]);
        let tiny: Vec<_> = (1..=50).map(|id| segment(id, 1, id..id + 1)).collect();
        assert_eq!(planned(&tiny, RULES).len(), MAX_INPUTS);
    }

    #[test]
    fn one_that_has_grown_is_not_rewritten_for_a_few_small_ones() {
        let open = 10 * SPAN_MS;
        let mut segments: Vec<_> = (1..=8).map(|id| segment(id, 1, open + id..open + id + 1)).collect();
        segments.push(segment(9, 400, open..open + 9));
        assert_eq!(planned(&segments, RULES), [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    /// What a merge makes of the inputs: a segment in each span that they touch.
    fn merged_into(inputs: &[Arc<Segment>], next_id: &mut i64) -> Vec<Arc<Segment>> {
        let spans: BTreeSet<i64> = inputs.iter().flat_map(|s| span_of(s.first_ms)..=span_of(s.last_ms)).collect();
        let bytes = inputs.iter().map(|segment| segment.bytes).sum::<u64>() / spans.len() as u64;
        let one = |span: &i64| {
            *next_id += 1;
            segment(*next_id, bytes, span * SPAN_MS..(span + 1) * SPAN_MS)
        };
        spans.iter().map(one).collect()
    }

    proptest! {
        /// Whatever lies there, also segments of whole days, as earlier releases merged them.
        #[test]
        fn merging_ends(
            found in proptest::collection::vec((1_u64..600, 0_i64..60, prop_oneof![1_i64..9, Just(24_i64)]), 0..60),
            eager in any::<bool>(),
        ) {
            let hour = SPAN_MS / 6;
            let of = |(id, (bytes, from, hours))| segment(id, bytes, from * hour..(from + hours) * hour);
            let mut segments: Vec<_> = (1..).zip(found).map(of).collect();
            let mut next_id = segments.len() as i64;
            let rules = Rules { judged: i64::MAX, over_until: 5 * SPAN_MS, eager, ..RULES };
            let measure = |segments: &[Arc<Segment>]| {
                let cut = segments.iter().filter(|s| span_of(s.first_ms) < span_of(s.last_ms));
                (cut.count(), segments.len())
            };
            loop {
                let inputs = plan(&segments, rules);
                prop_assert!(inputs.len() != 1, "one alone is left as it is");
                if inputs.is_empty() {
                    break;
                }
                let before = measure(&segments);
                segments.retain(|segment| inputs.iter().all(|input| input.id != segment.id));
                segments.extend(merged_into(&inputs, &mut next_id));
                prop_assert!(measure(&segments) < before, "each merge leaves fewer to cut, or as many and fewer at all");
            }
        }
    }

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
        Arc::new(segments::write(dir, Name { id, seq: id }, encoder).unwrap().unwrap())
    }

    #[test]
    fn a_merge_is_cut_where_spans_end_settled_and_complete() {
        let dir = tempfile::tempdir().unwrap();
        let inputs = [
            write(dir.path(), 1, &[(1, 5, 1.0), (1, SPAN_MS - 1, 2.0), (3, SPAN_MS, 3.0)]),
            write(dir.path(), 2, &[(1, 5, 9.0), (1, 6, 4.0), (2, SPAN_MS + 1, 5.0)]),
        ];
        let mut ids = 10..;
        let next_id = || ids.next().unwrap();
        let outputs = merge(dir.path(), &inputs, &AtomicBool::new(false), next_id).unwrap();
        let outputs: Vec<_> = outputs.into_iter().map(Arc::new).collect();
        let of = |segment: &Arc<Segment>| {
            let ids: Vec<_> = (0..5).map(SeriesId).collect();
            let one = std::slice::from_ref(segment);
            let found = segments::read(dir.path(), one, &ids, &(TimeMs::MIN..TimeMs::MAX));
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
        let merged = merge(dir.path(), &inputs, &AtomicBool::new(false), || ids.next().unwrap()).unwrap();
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
        let merged = merge(dir.path(), &inputs, &AtomicBool::new(false), || 3).unwrap();
        assert!(merged.len() == 1 && merged[0].rows() == 180_000);
        let cancelled = merge(dir.path(), &inputs, &AtomicBool::new(true), || 4);
        assert!(matches!(cancelled, Err(Failure::Cancelled)), "{cancelled:?}");
    }

    #[test]
    fn a_bad_input_is_named_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let inputs = [write(dir.path(), 1, &[(1, 1, 1.0)]), write(dir.path(), 2, &[(1, 2, 1.0)])];
        fs::write(dir.path().join(inputs[1].file_name()), b"x").unwrap();
        let failed = merge(dir.path(), &inputs, &AtomicBool::new(false), || 3);
        assert!(matches!(&failed, Err(Failure::Bad(segment, _)) if segment.id == 2), "{failed:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
