//! Sequences that stand still on all ranks of a run: no collective is completed, though ranks have records of them.

use std::collections::BTreeSet;
use std::ops::Range;

use super::read::OfRun;
use crate::frame::STALENESS_MS;
use goodput_exposition::sample::{Sample, TimeMs};

/// A time in which no rank completed a collective.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Still {
    pub(super) time: Range<TimeMs>,
    pub(super) operation: String,
    /// The ranks that completed fewer than others: they are not in the collective. None where all completed as many.
    pub(super) behind: Vec<usize>,
}

/// The times of at least `least_ms` in which at least `known` ranks tell that nothing is completed.
pub(super) fn still(run: &OfRun<'_>, least_ms: i64, known: f64) -> Vec<Still> {
    let all = || run.pairs.values().flat_map(|told| told.sequences.values());
    let mut changes: BTreeSet<TimeMs> = all().flat_map(|samples| changed(samples)).collect();
    let values = || all().flat_map(|samples| samples.iter()).filter(|s| s.value.is_finite()).map(|s| s.time_ms);
    let (Some(first), Some(last)) = (values().min(), values().max()) else { return Vec::new() };
    changes.extend([first, last]);
    let changes: Vec<TimeMs> = changes.into_iter().collect();
    let spans = changes.windows(2).map(|pair| pair[0]..pair[1]).filter(|span| span.end - span.start >= least_ms);
    spans.filter_map(|span| one(run, span, known)).collect()
}

/// When a number is first told after another one.
fn changed(samples: &[Sample]) -> Vec<TimeMs> {
    let finite: Vec<&Sample> = samples.iter().filter(|s| s.value.is_finite()).collect();
    finite.windows(2).filter(|pair| pair[0].value != pair[1].value).map(|pair| pair[1].time_ms).collect()
}

fn one(run: &OfRun<'_>, time: Range<TimeMs>, known: f64) -> Option<Still> {
    // What a rank tells at the end, before anything changes.
    let told = |samples: &&[Sample]| {
        let within = samples.iter().rev().filter(|s| s.value.is_finite() && s.time_ms >= time.start);
        let last = within.into_iter().find(|s| s.time_ms <= time.end && s.time_ms > time.end - STALENESS_MS)?;
        let before = samples.iter().rfind(|s| s.value.is_finite() && s.time_ms < time.end && s.time_ms >= time.start);
        Some(before.unwrap_or(last).value)
    };
    let mut ranks: BTreeSet<usize> = BTreeSet::new();
    let mut found: Option<(TimeMs, &str, Vec<usize>)> = None;
    for ((_, operation), pair) in &run.pairs {
        let numbers: Vec<(usize, f64)> =
            pair.sequences.iter().filter_map(|(rank, samples)| Some((*rank, told(samples)?))).collect();
        ranks.extend(numbers.iter().map(|(rank, _)| *rank));
        let most = numbers.iter().map(|(_, number)| *number).fold(f64::NEG_INFINITY, f64::max);
        let behind: Vec<usize> = numbers.iter().filter(|(_, number)| *number < most).map(|(rank, _)| *rank).collect();
        let moved = |samples: &&[Sample]| changed(samples).into_iter().rfind(|at| *at <= time.start);
        let last = pair.sequences.values().filter_map(moved).max().unwrap_or(TimeMs::MIN);
        // The one in which ranks differ, else the one that was completed last.
        if !numbers.is_empty()
            && found.as_ref().is_none_or(|(at, _, others)| (!behind.is_empty(), last) > (!others.is_empty(), *at))
        {
            found = Some((last, operation, behind));
        }
    }
    let (_, operation, behind) = found.filter(|_| ranks.len() as f64 >= known)?;
    Some(Still { time, operation: operation.to_owned(), behind })
}
