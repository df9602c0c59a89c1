//! GPUs that left: the machine was given back, and its targets with it. Prometheus then ends the series of `up` with a
//! marker, which it does for nothing else: a scrape that fails has an `up` of 0. Our own discovery does the same.
//!
//! Where every target that was there ends at that moment, the scraping was stopped: the GPUs are still there. Silence
//! without a marker proves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::identity::{Directory, NodeId, Target};
use super::piece::STALENESS_MS;
use super::{Nodes, Source};
use crate::signal::Signal;
use goodput_exposition::sample::{TimeMs, is_stale};

/// When a target was not there, in order.
type Away = Vec<Range<TimeMs>>;

/// Takes the time from each GPU in which all of its targets were gone.
pub(super) fn note<'a>(nodes: &mut Nodes<'_, 'a>, sources: &[Source<'a>], directory: &Directory<'a>) {
    let ups: Vec<Up<'_, 'a>> =
        sources.iter().filter(|s| s.meaning.signal == Signal::Up).map(|source| Up::of(source, directory)).collect();
    if ups.iter().all(|up| up.ends.is_empty()) {
        return;
    }
    for (id, members) in nodes {
        for (uuid, sources) in &members.gpus {
            let targets: BTreeSet<Target<'a>> = sources.iter().map(|s| s.target).collect();
            let away = targets.iter().map(|target| away(*target, id, &ups)).reduce(|a, b| both(&a, &b));
            if let (Some(away), Some(here)) = (away, members.here.get_mut(uuid)) {
                *here = without(here, &away);
            }
        }
    }
}

/// The `up` of a target.
struct Up<'s, 'a> {
    source: &'s Source<'a>,
    node: Option<NodeId<'a>>,
    /// From each marker to the next value.
    ends: Away,
}

impl<'s, 'a> Up<'s, 'a> {
    fn of(source: &'s Source<'a>, directory: &Directory<'a>) -> Self {
        let mut ends: Away = Vec::new();
        for sample in source.samples {
            match (is_stale(sample.value), ends.last_mut().filter(|end| end.end == TimeMs::MAX)) {
                (true, None) => ends.push(sample.time_ms..TimeMs::MAX),
                (false, Some(end)) => end.end = sample.time_ms,
                _ => {}
            }
        }
        Up { source, node: directory.node_of(source.target, &source.meaning, source.labels), ends }
    }

    /// Has it a value in the span?
    fn is_told(&self, span: Range<TimeMs>) -> bool {
        let first = self.source.samples.partition_point(|s| s.time_ms < span.start);
        self.source.samples[first..].iter().take_while(|s| s.time_ms < span.end).any(|s| !is_stale(s.value))
    }
}

/// When the target was gone; never where there is no `up` of it, or several that do not agree.
fn away(target: Target<'_>, node: &NodeId<'_>, ups: &[Up<'_, '_>]) -> Away {
    let own = ups.iter().filter(|up| up.source.target == target);
    let ends = own.map(|up| up.ends.clone()).reduce(|a, b| both(&a, &b)).unwrap_or_default();
    ends.into_iter().filter(|end| others_go_on(end.start, node, ups)).collect()
}

/// Of the targets of other nodes that were there at that moment, did one go on? Where there was none, the marker alone
/// tells.
fn others_go_on(time: TimeMs, node: &NodeId<'_>, ups: &[Up<'_, '_>]) -> bool {
    let others = ups.iter().filter(|up| up.node.as_ref() != Some(node) && up.source.target.cluster == node.cluster);
    let mut there = others.filter(|up| up.is_told(time - STALENESS_MS..time)).peekable();
    there.peek().is_none() || there.any(|up| up.is_told(time..time + 2 * STALENESS_MS))
}

/// When both are so.
fn both(one: &[Range<TimeMs>], other: &[Range<TimeMs>]) -> Away {
    let overlap = |a: &Range<TimeMs>, b: &Range<TimeMs>| a.start.max(b.start)..a.end.min(b.end);
    let all = one.iter().flat_map(|a| other.iter().map(move |b| overlap(a, b)));
    let mut all: Away = all.filter(|span| span.start < span.end).collect();
    all.sort_unstable_by_key(|span| span.start);
    all
}

/// The spans without the others.
fn without(spans: &[Range<TimeMs>], others: &[Range<TimeMs>]) -> Away {
    let edges: BTreeMap<TimeMs, TimeMs> = others.iter().map(|span| (span.start, span.end)).collect();
    let starts = [TimeMs::MIN].into_iter().chain(edges.values().copied());
    let ends = edges.keys().copied().chain([TimeMs::MAX]);
    let gaps: Away = starts.zip(ends).map(|(start, end)| start..end).collect();
    both(spans, &gaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_cut() {
        let (pair, across) = ([0..10, 20..30], std::slice::from_ref(&(5..25)));
        assert_eq!(both(&pair, across), [5..10, 20..25]);
        assert_eq!(without(&pair, across), [0..5, 25..30]);
        assert_eq!(without(&pair, &[]), pair);
    }
}
