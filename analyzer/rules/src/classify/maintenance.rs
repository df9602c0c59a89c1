//! `maintenance`: the GPU was out of use on purpose. Its Kubernetes node takes no pods, or the configuration says so.
//!
//! An owner that holds a GPU then keeps its time: only time without an owner is maintenance.

use std::ops::Range;

use glob::Pattern;

use super::capacity::has_vanished;
use super::outage::Outage;
use super::phase::Course;
use super::thresholds::confidence::{CERTAIN, COUNTED};
use super::{Cell, Class, Energy, Fact, Interval, Thresholds, Verdict, Version, held};
use crate::apportion;
use crate::signal::Signal;
use goodput_exposition::sample::TimeMs;

pub(super) const OUTAGE: Outage = Outage { class: Class::Maintenance, judge };

fn judge(course: &Course<'_>, index: usize, t: &Thresholds) -> Verdict {
    let cell = Cell::of(course.node, course.gpu, None, index);
    let Some(closed) = cell.mean(Signal::NodeUnschedulable) else {
        return Verdict::without(&[Signal::NodeUnschedulable]);
    };
    let free = if course.state(index).held.is_no() { 1.0 } else { held::free_share(&cell, t) };
    let max_share = closed.min(free);
    if max_share < t.claim_floor {
        return Verdict::No;
    }
    let facts = vec![Fact::of(Signal::NodeUnschedulable, closed, t.claim_floor)];
    Verdict::Claim { max_share, confidence: COUNTED, facts }
}

/// Maintenance that the configuration declares.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// Names of nodes.
    pub node: Pattern,
    /// Names of clusters; any, and none, without.
    pub cluster: Option<Pattern>,
    /// UUIDs of GPUs; all of them without.
    pub gpu: Option<Pattern>,
    /// When.
    pub span: Range<TimeMs>,
}

impl Declared {
    fn is_of(&self, interval: &Interval) -> bool {
        let cluster = interval.cluster.as_deref().unwrap_or_default();
        self.node.matches(&interval.node)
            && self.gpu.as_ref().is_none_or(|gpu| gpu.matches(&interval.gpu))
            && self.cluster.as_ref().is_none_or(|pattern| pattern.matches(cluster))
    }
}

/// The time without data of GPUs that left capacity while maintenance of them was declared: they stay.
#[must_use]
pub fn stay_declared(left: &[Interval], declared: &[Declared]) -> Vec<Interval> {
    let is_kept = |interval: &&Interval| {
        let overlaps = |d: &Declared| d.span.start < interval.end_ms && interval.start_ms < d.span.end;
        declared.iter().any(|d| d.is_of(interval) && overlaps(d))
    };
    left.iter().filter(is_kept).cloned().collect()
}

/// The intervals; time without an owner, data or not, is booked as maintenance where that is declared. An interval is
/// cut where maintenance begins or ends, and its milliseconds are shared out by length, so that sums stay as they are.
#[must_use]
pub fn declare(intervals: Vec<Interval>, declared: &[Declared]) -> Vec<Interval> {
    intervals.into_iter().flat_map(|interval| cut(interval, declared)).collect()
}

fn cut(interval: Interval, declared: &[Declared]) -> Vec<Interval> {
    let (start, end) = (interval.start_ms, interval.end_ms);
    let is_nobodys = matches!(interval.class, Class::NoData | Class::Down | Class::StrandedMig | Class::Unallocated);
    let spans: Vec<&Range<TimeMs>> = declared
        .iter()
        .filter(|d| is_nobodys && d.is_of(&interval) && d.span.start < end && start < d.span.end)
        .map(|d| &d.span)
        .collect();
    if spans.is_empty() {
        return vec![interval];
    }
    let mut borders: Vec<TimeMs> = spans.iter().flat_map(|s| [s.start, s.end]).chain([start, end]).collect();
    borders.retain(|border| (start..=end).contains(border));
    borders.sort_unstable();
    borders.dedup();
    let pieces: Vec<Range<TimeMs>> = borders.windows(2).map(|pair| pair[0]..pair[1]).collect();
    let lengths: Vec<f64> = pieces.iter().map(|p| (p.end - p.start) as f64).collect();
    let share = |whole: i64| apportion(whole, &lengths);
    let ms = share(interval.ms);
    let energy = interval.energy.map(|e| [e.mj, e.ms, e.counted_ms].map(share));
    let variance_ms2 = interval.variance_ms2.map(share);
    let piece = |(n, span): (usize, Range<TimeMs>)| {
        let is_declared = spans.iter().any(|s| s.contains(&span.start));
        let energy = energy.as_ref().map(|[mj, ms, counted]| Energy { mj: mj[n], ms: ms[n], counted_ms: counted[n] });
        let energy = energy.filter(|energy| energy.ms > 0);
        let variance_ms2 = variance_ms2.as_ref().map(|shares| shares[n]);
        let (start_ms, end_ms, ms) = (span.start, span.end, ms[n]);
        let piece = Interval { start_ms, end_ms, ms, energy, variance_ms2, ..interval.clone() };
        if !is_declared {
            return piece;
        }
        let (class, version) = (Class::Maintenance, Some(Version::of(Class::Maintenance)));
        // That nothing was heard of the GPU stays to be seen.
        let evidence = if has_vanished(&piece) { piece.evidence.clone() } else { Vec::new() };
        Interval { class, cause: None, confidence: CERTAIN, evidence, missing: Vec::new(), version, ..piece }
    };
    pieces.into_iter().enumerate().map(piece).filter(|piece| piece.ms > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_testing::bare;

    const MINUTE: TimeMs = 60_000;

    fn hour(class: Class, ms: i64) -> Interval {
        Interval {
            node: "gpu-03".into(),
            ms,
            energy: Some(Energy { mj: 70 * ms + 1, ms, counted_ms: 0 }),
            ..bare(class, 0..60 * MINUTE)
        }
    }

    fn declared(node: &str, gpu: Option<&str>, minutes: Range<TimeMs>) -> Declared {
        let pattern = |text: &str| Pattern::new(text).unwrap();
        let span = minutes.start * MINUTE..minutes.end * MINUTE;
        Declared { node: pattern(node), cluster: None, gpu: gpu.map(pattern), span }
    }

    fn parts(intervals: &[Interval]) -> Vec<(Class, TimeMs, i64)> {
        intervals.iter().map(|i| (i.class, i.start_ms / MINUTE, i.ms / MINUTE)).collect()
    }

    #[test]
    fn another_cluster_is_not_in_maintenance() {
        let of =
            |cluster: Option<&str>| Interval { cluster: cluster.map(str::to_owned), ..hour(Class::Down, 60 * MINUTE) };
        let east = Declared { cluster: Some(Pattern::new("ea*").unwrap()), ..declared("*", None, 0..60) };
        let classes = |cluster| declare(vec![of(cluster)], std::slice::from_ref(&east))[0].class;
        assert_eq!([Some("east"), Some("west"), None].map(classes), [Class::Maintenance, Class::Down, Class::Down]);
    }

    #[test]
    fn what_is_nobodys_is_cut_where_maintenance_begins_and_ends() {
        for class in [Class::NoData, Class::Down, Class::StrandedMig, Class::Unallocated] {
            let whole = hour(class, 60 * MINUTE);
            let cut =
                declare(vec![whole.clone()], &[declared("gpu-0[1-4]", None, 10..20), declared("*", None, 15..30)]);
            let maintained: i64 = cut.iter().filter(|i| i.class == Class::Maintenance).map(|i| i.ms).sum();
            assert_eq!(maintained, 20 * MINUTE, "{cut:?}");
            assert_eq!((cut[0].class, cut.last().unwrap().class), (class, class));
            let energy = cut.iter().fold(None, |sum, i| Energy::sum(sum, i.energy));
            assert_eq!(energy, whole.energy, "nothing is lost of it");
            let version = |i: &Interval| i.version == (i.class == Class::Maintenance).then(|| Version::of(i.class));
            assert!(cut.iter().all(version), "what is declared now is by the rules of now: {cut:?}");
        }
    }

    #[test]
    fn an_interval_that_fills_a_part_of_its_span_gives_its_share() {
        let cut = declare(vec![hour(Class::Unallocated, 30 * MINUTE)], &[declared("gpu-03", None, -5..30)]);
        assert_eq!(parts(&cut), [(Class::Maintenance, 0, 15), (Class::Unallocated, 30, 15)]);
    }

    #[test]
    fn held_time_other_nodes_other_gpus_and_other_times_stay() {
        let held = hour(Class::IdleHeld, 60 * MINUTE);
        assert_eq!(declare(vec![held.clone()], &[declared("*", None, 0..60)]), [held]);
        let free = hour(Class::Unallocated, 60 * MINUTE);
        let others = [
            declared("gpu-04", None, 0..60),
            declared("*", Some("GPU-b*"), 0..60),
            declared("*", None, 60..90),
            declared("*", None, -30..0),
        ];
        assert_eq!(declare(vec![free.clone()], &others), [free]);
    }
}
