//! Small segments into larger ones, by spans of six hours: which ones. Pure; `merge` merges them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::segment::FORMAT_NUMBER;
use super::segments::Segment;
use goodput_exposition::sample::TimeMs;

/// Merged segments end at 00:00, 06:00, 12:00 and 18:00 UTC. A read of some hours decodes all of a segment's samples of
/// the series that it wants, so segments are not much longer than what judging reads at once; and a day is whole spans, so
/// that retention removes whole days.
pub(super) const SPAN_MS: TimeMs = 6 * 3_600_000;

/// How many small segments of a span that is not over make a merge worth while: each sample is then rewritten about
/// once per factor of eight in size.
const FAN_IN: usize = 8;

/// Segments that one merge reads at most.
const MAX_INPUTS: usize = 16;

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
/// One alone is left as it is, unless it is of a format that does not name its series: then it is written again, once.
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
    let is_old = |segment: &&Arc<Segment>| {
        segment.format < FORMAT_NUMBER && segment.bytes <= rules.segment_bytes && segment.seq <= rules.judged
    };
    segments.iter().find(is_old).cloned().into_iter().collect()
}

pub(super) fn span_of(time: TimeMs) -> i64 {
    time.div_euclid(SPAN_MS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;

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
    fn one_of_an_old_format_is_written_again_once_nothing_else_is_to_do() {
        let old = |id| {
            let mut segment = Segment::of(id, 10, 10 * SPAN_MS..10 * SPAN_MS + 1);
            segment.format = 2;
            Arc::new(segment)
        };
        assert_eq!(planned(&[old(1), old(101), segment(2, 10, 0..1)], RULES), [1], "the other is not judged");
        assert!(planned(&[segment(1, 10, 0..1)], RULES).is_empty());
    }
}
