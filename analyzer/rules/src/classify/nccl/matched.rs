//! The same collectives on all ranks of a communicator: which share of the time in them is waiting for late ranks, and for whom.
//!
//! A rank is in a collective from the moment it comes until it has its result, so the one that needs least came last, and what
//! the others need beyond it is waiting. The number of a collective is alike on all ranks, wherever they are; those of every
//! 16th are kept by all of them. Sums over time do not tell the same: ranks that are late by turns wait alike.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::Thresholds;
use super::super::thresholds::ms;
use crate::frame::grid::MINUTE_MS;
use goodput_exposition::sample::{Sample, TimeMs};

/// Collectives that are needed, so that lateness of one step in ten is not missed: own choice, none of 100 has it once in 40,000
/// times.
const LEAST: usize = 100;
/// A share that is known less well is none: own choice. One step in ten that is ten times as late has 0.046 with 280 collectives,
/// 0.026 with 900 (own simulations).
const MOST_ERROR: f64 = 0.05;
/// A rank came last if it needed at most this share of the time of the next one: as the exporter has it on one node.
const LAST: f64 = 0.9;

/// By how many standard errors a rank that is named needs less than any other: own choice, once in 740 by chance.
const STANDARD_ERRORS: f64 = 3.0;

/// A collective on one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) rank: usize,
    pub(super) sequence: u64,
    pub(super) seconds: f64,
    /// When it was first read.
    pub(super) time_ms: TimeMs,
}

/// The collectives of one slot of a rank, each once, by two series with the same times. A slot is read again and again until a
/// later collective takes it. Numbers that fall are those of a file that is read from its begin again.
pub(super) fn once(rank: usize, sequences: &[Sample], seconds: &[Sample]) -> Vec<Told> {
    let (mut told, mut last, mut at) = (Vec::new(), None, 0);
    for Sample { time_ms, value } in sequences.iter().filter(|s| s.value.is_finite() && s.value >= 0.0) {
        let sequence = *value as u64;
        at += seconds[at..].partition_point(|s| s.time_ms < *time_ms);
        let there = seconds.get(at).filter(|s| s.time_ms == *time_ms && s.value.is_finite() && s.value > 0.0);
        if let Some(there) = there.filter(|_| last.is_none_or(|last| sequence > last)) {
            last = Some(sequence);
            told.push(Told { rank, sequence, seconds: there.value, time_ms: *time_ms });
        }
    }
    told
}

/// Collectives of a communicator and an operation, matched over its ranks.
pub(super) struct Matched {
    /// By the time at which the first rank had it.
    collectives: Vec<(TimeMs, Vec<(usize, f64)>)>,
    /// Ranks of the communicator.
    ranks: usize,
}

impl Matched {
    /// Those that at least this share of its ranks tell.
    pub(super) fn of(mut told: Vec<Told>, ranks: usize, t: &Thresholds) -> Matched {
        told.sort_unstable_by_key(|told| (told.sequence, told.rank, told.time_ms));
        told.dedup_by_key(|told| (told.sequence, told.rank));
        let is_known = |ranks_told: usize| {
            ranks_told > 1 && ranks_told <= ranks && ranks_told as f64 >= t.straggler_known_ratio * ranks as f64
        };
        let same = told.chunk_by(|a, b| a.sequence == b.sequence).filter(|same| is_known(same.len()));
        let time = |same: &[Told]| same.iter().map(|told| told.time_ms).min().unwrap_or_default();
        let times = |same: &[Told]| same.iter().map(|told| (told.rank, told.seconds)).collect();
        Matched { collectives: same.map(|same| (time(same), times(same))).collect(), ranks }
    }

    /// What they say of some time; nothing where too few minutes of it have one. `place` is the node of each rank.
    pub(super) fn lateness(&self, time: &Range<TimeMs>, place: &[usize], t: &Thresholds) -> Option<Lateness> {
        let mut within: Vec<_> = self.collectives.iter().filter(|(at, _)| time.contains(at)).collect();
        within.sort_unstable_by_key(|(at, _)| *at);
        let minutes: BTreeSet<TimeMs> = within.iter().map(|(at, _)| at.div_euclid(MINUTE_MS)).collect();
        let span_ms = within.last()?.0 - within.first()?.0;
        let told_ms = span_ms.min(minutes.len() as i64 * MINUTE_MS);
        if within.len() < LEAST || told_ms < ms(t.nccl_matched_seconds) {
            return None;
        }
        let mut lateness = Lateness { collectives: within.len(), ..Lateness::default() };
        within.iter().for_each(|(_, times)| lateness.add(times));
        if standard_error(&within, lateness.share()) > MOST_ERROR {
            return None;
        }
        if let Some((culprits, next)) = lateness.stand_out(place, self.ranks, t)
            && is_sure(&within, culprits[0], next)
        {
            lateness.culprits = culprits;
        }
        Some(lateness)
    }
}

/// Of the share, as of a ratio of two sums over collectives.
fn standard_error(collectives: &[&(TimeMs, Vec<(usize, f64)>)], share: f64) -> f64 {
    let sums = |(_, times): &&(TimeMs, Vec<(usize, f64)>)| {
        let all = times.iter().map(|(_, seconds)| seconds).sum::<f64>();
        let least = times.iter().map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min);
        (all - least * times.len() as f64, all)
    };
    let count = collectives.len() as f64;
    let (squares, all) = collectives
        .iter()
        .map(sums)
        .fold((0.0, 0.0), |(squares, sum), (late, all)| (squares + (late - share * all).powi(2), sum + all));
    (squares / (count * (count - 1.0))).sqrt() / (all / count)
}

/// Is it no chance that one rank needs less than another, collective by collective?
fn is_sure(collectives: &[&(TimeMs, Vec<(usize, f64)>)], less: usize, more: usize) -> bool {
    let of = |times: &[(usize, f64)], rank| times.iter().find(|(other, _)| *other == rank).map(|(_, seconds)| *seconds);
    let differ = |(_, times): &&(TimeMs, Vec<(usize, f64)>)| Some(of(times, more)? - of(times, less)?);
    let differ: Vec<f64> = collectives.iter().filter_map(differ).collect();
    let count = differ.len() as f64;
    let mean = differ.iter().sum::<f64>() / count;
    let variance = differ.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0);
    mean > STANDARD_ERRORS * (variance / count).sqrt()
}

/// Where the time of a rank in collectives went.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    collectives: usize,
    seconds: f64,
    /// Beyond the least of all ranks.
    late: f64,
    /// Times that it came last.
    last: usize,
}

/// Who is late, and how late.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    ranks: BTreeMap<usize, Sums>,
    /// Collectives that were matched.
    pub(super) collectives: usize,
    /// The rank that is always late, or all ranks of a node that are; none where ranks are late by turns.
    pub(super) culprits: Vec<usize>,
}

/// Shares of the time of a rank in collectives; the rest is transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Waits {
    /// It waits for those that are always late.
    pub(super) named: f64,
    /// It waits for others, each of them late now and then.
    pub(super) turns: f64,
}

impl Lateness {
    fn add(&mut self, times: &[(usize, f64)]) {
        let mut least = (usize::MAX, f64::INFINITY);
        let mut next = f64::INFINITY;
        for (rank, seconds) in times {
            if *seconds < least.1 {
                (least, next) = ((*rank, *seconds), least.1);
            } else {
                next = next.min(*seconds);
            }
        }
        for (rank, seconds) in times {
            let sums = self.ranks.entry(*rank).or_default();
            sums.collectives += 1;
            sums.seconds += seconds;
            sums.late += seconds - least.1;
            sums.last += usize::from(*rank == least.0 && least.1 <= LAST * next);
        }
    }

    /// Share of the time that is waiting for late ranks, over all ranks.
    pub(super) fn share(&self) -> f64 {
        let sum = |of: fn(&Sums) -> f64| self.ranks.values().map(of).sum::<f64>();
        sum(|sums| sums.late) / sum(|sums| sums.seconds)
    }

    /// How often the rank came last.
    pub(super) fn last(&self, rank: usize) -> usize {
        self.ranks.get(&rank).map_or(0, |sums| sums.last)
    }

    /// Where the time of the rank went; `None` where nothing of it was matched.
    pub(super) fn waits(&self, rank: usize) -> Option<Waits> {
        let own = self.ranks.get(&rank)?;
        let late = own.late / own.seconds;
        // As long as it waits, those that are always late wait for others.
        let others = self.culprits.iter().filter_map(|culprit| self.beyond(*culprit)).reduce(f64::max);
        let each = own.seconds / own.collectives as f64;
        let turns = others.map_or(late, |others| (others / each).min(late));
        Some(Waits { named: late - turns, turns })
    }

    /// Seconds that the rank waits in the mean of a collective.
    fn beyond(&self, rank: usize) -> Option<f64> {
        self.ranks.get(&rank).map(|sums| sums.late / sums.collectives as f64)
    }

    /// The ranks that wait least, if it is one, or all those of a node, and every other one waits longer by far; and the next.
    fn stand_out(&self, place: &[usize], all: usize, t: &Thresholds) -> Option<(Vec<usize>, usize)> {
        let sum = |of: fn(&Sums) -> f64| self.ranks.values().map(of).sum::<f64>();
        let far = t.straggler_ratio * sum(|sums| sums.seconds) / sum(|sums| sums.collectives as f64);
        let mut ranks: Vec<(f64, usize)> =
            self.ranks.keys().filter_map(|rank| Some((self.beyond(*rank)?, *rank))).collect();
        ranks.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (least, first) = *ranks.first()?;
        let alike = ranks.iter().take_while(|(waits, _)| waits - least < far).map(|(_, rank)| *rank);
        let alike: Vec<usize> = alike.collect();
        let (_, next) = *ranks.get(alike.len()).filter(|_| alike.len() < all)?;
        let node = place.get(first);
        let on_node = self.ranks.keys().filter(|rank| place.get(**rank) == node).count();
        let is_node = alike.len() == on_node && alike.iter().all(|rank| place.get(*rank) == node);
        (alike.len() == 1 || is_node).then_some((alike, next))
    }
}

#[cfg(test)]
mod tests;
