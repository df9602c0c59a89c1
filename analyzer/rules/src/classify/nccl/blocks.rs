//! What is known of the collectives of a run, half hour by half hour: shorter times say too little.

use std::collections::BTreeMap;
use std::ops::Range;

use super::super::judge::Booked;
use super::super::straggler::Member;
use super::super::{Culprit, Thresholds};
use super::matched::{self, Lateness, Matched};
use super::read::{OfRun, Pair, Told, grown};
use goodput_exposition::sample::TimeMs;

/// Half an hour of UTC: with as many collectives as that has, rare lateness is told within 0.05 (own simulations).
pub(super) const BLOCK_MS: i64 = 1_800_000;
/// Share of a rank's time in collectives that matched communicators must have, to stand for all of it: own choice, most of it.
const KNOWN_TIME: f64 = 0.5;
/// The bandwidth that a run reaches is that of its best tenth.
const BEST: f64 = 0.9;

/// Half an hour of a run.
pub(super) struct Block {
    pub(super) time: Range<TimeMs>,
    /// By rank.
    pub(super) ranks: BTreeMap<usize, Shares>,
    pub(super) bandwidth: Option<Bandwidth>,
}

/// Shares of the time of a rank in collectives; the rest is transfer.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    /// It waits for a GPU, or a node, that is always late.
    pub(super) named: Vec<(Culprit, f64)>,
    /// It waits for ranks that are late by turns.
    pub(super) turns: f64,
    /// Seconds in collectives.
    pub(super) seconds: f64,
    /// Collectives that were matched.
    pub(super) collectives: usize,
    /// How often it came last among all ranks.
    pub(super) last: usize,
}

/// Bytes per second on the bus while a transfer goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bandwidth {
    pub(super) now: f64,
    pub(super) best: f64,
}

impl Shares {
    /// The share that is waiting for late ranks.
    pub(super) fn late(&self) -> f64 {
        self.turns + self.named.iter().map(|(_, share)| share).sum::<f64>()
    }
}

/// Those of a window, in order.
pub(super) fn blocks<'s>(
    run: &OfRun<'s>,
    members: &[Member<'_>],
    booked: &[Booked<'_>],
    window: &Range<TimeMs>,
    reach: &Range<TimeMs>,
    t: &Thresholds,
) -> Vec<Block> {
    let (nodes, place) = places(members, booked);
    let matched = run.pairs.iter().filter_map(|(pair, told)| Some((*pair, of_pair(told, *run.ranks.get(pair.0)?, t))));
    let matched: BTreeMap<Pair<'s>, Matched> = matched.collect();
    let times = |range: &Range<TimeMs>| {
        let first = range.start.div_euclid(BLOCK_MS);
        let last = (range.end - 1).div_euclid(BLOCK_MS);
        (first..=last).map(|n| n * BLOCK_MS..(n + 1) * BLOCK_MS)
    };
    let lateness = |time: &Range<TimeMs>| -> BTreeMap<Pair<'s>, Lateness> {
        let of = |(pair, matched): (&Pair<'s>, &Matched)| Some((*pair, matched.lateness(time, &place, t)?));
        matched.iter().filter_map(of).collect()
    };
    let all: Vec<_> = times(reach).map(|time| (lateness(&time), time)).collect();
    let rates: Vec<BTreeMap<Pair<'s>, f64>> = all.iter().map(|(late, time)| bandwidths(run, late, time)).collect();
    let mut blocks = Vec::new();
    for ((late, time), rates_now) in all.iter().zip(&rates) {
        if time.end <= window.start || time.start >= window.end || late.is_empty() {
            continue;
        }
        let named = |culprits: &[usize]| {
            let culprit = |rank: usize| Culprit { node: nodes[place[rank]].to_owned(), gpu: None };
            let gpu = |rank: usize| booked[members[rank].gpu].course.gpu.uuid.clone();
            let first = *culprits.first()?;
            Some(Culprit { gpu: (culprits.len() == 1).then(|| gpu(first)), ..culprit(first) })
        };
        let ranks = (0..members.len()).filter_map(|rank| Some((rank, shares(run, rank, late, time, named)?))).collect();
        let main = late.keys().max_by(|a, b| time_in(run, a, time).total_cmp(&time_in(run, b, time)));
        let bandwidth = main.and_then(|pair| {
            let best = best(rates.iter().filter_map(|rates| rates.get(pair)).copied().collect())?;
            Some(Bandwidth { now: *rates_now.get(pair)?, best })
        });
        blocks.push(Block { time: time.clone(), ranks, bandwidth });
    }
    blocks
}

/// The nodes of a run by name, and which of them each rank is on.
fn places<'b>(members: &[Member<'_>], booked: &[Booked<'b>]) -> (Vec<&'b str>, Vec<usize>) {
    let mut nodes: Vec<&'b str> = Vec::new();
    let mut place = |member: &Member<'_>| {
        let node: &'b str = &booked[member.gpu].course.node.node;
        nodes.iter().position(|known| *known == node).unwrap_or_else(|| {
            nodes.push(node);
            nodes.len() - 1
        })
    };
    let place = members.iter().map(&mut place).collect();
    (nodes, place)
}

fn of_pair(told: &Told<'_>, ranks: usize, t: &Thresholds) -> Matched {
    let once =
        |((rank, _), [sequences, seconds]): (&(usize, &str), &[&[_]; 2])| matched::once(*rank, sequences, seconds);
    Matched::of(told.sampled.iter().flat_map(once).collect(), ranks, t)
}

/// Where the time of a rank in collectives went; `None` where too little of it was matched.
fn shares(
    run: &OfRun<'_>,
    rank: usize,
    late: &BTreeMap<Pair<'_>, Lateness>,
    time: &Range<TimeMs>,
    named: impl Fn(&[usize]) -> Option<Culprit>,
) -> Option<Shares> {
    let (mut all, mut known, mut shares) = (0.0, 0.0, Shares::default());
    let mut by_culprit: BTreeMap<Culprit, f64> = BTreeMap::new();
    for (pair, told) in &run.pairs {
        let Some(seconds) = told.seconds.get(&rank).and_then(|samples| grown(samples, time)) else { continue };
        all += seconds;
        let Some(lateness) = late.get(pair) else { continue };
        let Some(waits) = lateness.waits(rank) else { continue };
        known += seconds;
        shares.turns += seconds * waits.turns;
        shares.collectives += lateness.collectives;
        shares.last += lateness.last(rank);
        if let Some(culprit) = named(&lateness.culprits).filter(|_| waits.named > 0.0) {
            *by_culprit.entry(culprit).or_default() += seconds * waits.named;
        }
    }
    if known <= 0.0 || known < KNOWN_TIME * all {
        return None;
    }
    let named = by_culprit.into_iter().map(|(culprit, seconds)| (culprit, seconds / known)).collect();
    Some(Shares { named, turns: shares.turns / known, seconds: all, ..shares })
}

/// Seconds of all ranks in collectives of a pair.
fn time_in(run: &OfRun<'_>, pair: &Pair<'_>, time: &Range<TimeMs>) -> f64 {
    let told = run.pairs.get(pair).into_iter().flat_map(|told| told.seconds.values());
    told.filter_map(|samples| grown(samples, time)).sum()
}

/// Bytes per second on the bus of each pair, while ranks do not wait for late ones.
fn bandwidths<'s>(
    run: &OfRun<'s>,
    late: &BTreeMap<Pair<'s>, Lateness>,
    time: &Range<TimeMs>,
) -> BTreeMap<Pair<'s>, f64> {
    let one = |(pair, lateness): (&Pair<'s>, &Lateness)| {
        let bytes = run.pairs.get(pair)?.bytes.values().filter_map(|samples| grown(samples, time)).sum::<f64>();
        let transfer = (1.0 - lateness.share()) * time_in(run, pair, time);
        Some((*pair, bytes / transfer)).filter(|(_, rate)| rate.is_finite() && *rate > 0.0)
    };
    late.iter().filter_map(one).collect()
}

/// The best tenth of several.
fn best(mut rates: Vec<f64>) -> Option<f64> {
    rates.sort_by(f64::total_cmp);
    let at = (BEST * rates.len() as f64).ceil() as usize;
    rates.get(at.checked_sub(1)?).copied().filter(|_| rates.len() > 1)
}
