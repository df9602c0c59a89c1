//! What the records of NCCL's Inspector say about waiting in collectives: how much of it is for late ranks, and for which, and
//! how much is the exchange itself.
//!
//! This is a pass between `straggler` and `network_slow`. The time that ranks spend in collectives is split by matched samples
//! ([`matched`]), half hour by half hour ([`blocks`]); what the ledger has as waiting is split alike, for seconds in collectives
//! may overlap computing and are never booked themselves. No milliseconds move from row to row. Without such series nothing
//! changes.

mod blocks;
mod book;
mod matched;
mod read;
mod still;

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;

use super::judge::Booked;
use super::straggler::{self, Member};
use super::thresholds::ms;
use super::{Capacity, CollectiveUse, PortUse, Thresholds, network};
use crate::frame::grid::MINUTE_MS;
use crate::frame::{Source, named};
use blocks::{Block, blocks};
use goodput_exposition::sample::TimeMs;
use still::{Still, still};

/// How far around a window bandwidths are compared: a half hour to either side.
const AROUND_MS: i64 = 30 * MINUTE_MS;

/// Charges waiting for late ranks to them, what the network took to it, and says what the rest is. Gives what ports did in runs
/// that waited for the network, and what GPUs did in collectives.
pub(super) fn charge(
    booked: &mut [Booked<'_>],
    sources: &[Source<'_>],
    capacity: &Capacity,
    window: &Range<TimeMs>,
    t: &Thresholds,
) -> (Vec<PortUse>, Vec<CollectiveUse>) {
    let collectives = Collectives::of(booked, sources, window, t);
    collectives.charge(booked, t);
    let ports = network::charge(booked, sources, capacity, &collectives, window, t);
    collectives.mark(booked, t);
    let used = collectives.used(booked, window);
    (ports, used)
}

/// A member of a run, by its GPU among the booked ones and its owner.
type Who = (usize, String);

/// What is known of the collectives of runs.
#[derive(Default)]
pub(super) struct Collectives {
    runs: Vec<OfRun>,
    /// Which run, and which of its ranks, a member is.
    places: HashMap<Who, (usize, usize)>,
}

/// What is known of one run.
struct OfRun {
    cluster: String,
    name: String,
    members: Vec<Who>,
    blocks: Vec<Block>,
    still: Vec<Still>,
}

impl Collectives {
    /// What the series say about the runs of a window.
    pub(super) fn of(booked: &[Booked<'_>], sources: &[Source<'_>], window: &Range<TimeMs>, t: &Thresholds) -> Self {
        let told: Vec<&Source<'_>> = sources.iter().filter(|s| s.meaning.signal.is_of_collectives()).collect();
        if told.is_empty() {
            return Self::default();
        }
        let runs: Vec<_> = straggler::runs(booked).into_iter().collect();
        let members: Vec<&[Member<'_>]> = runs.iter().map(|(_, members)| members.as_slice()).collect();
        let reach = window.start - AROUND_MS..window.end + AROUND_MS;
        let read = read::by_run(&members, booked, told.into_iter(), &reach);
        let one = |(n, told): (usize, &read::OfRun<'_>)| {
            let (run, members) = &runs[n];
            OfRun {
                cluster: run.cluster().to_owned(),
                name: run.name().to_owned(),
                members: members.iter().map(|member| (member.gpu, member.owner.to_owned())).collect(),
                blocks: blocks(told, members, booked, window, &reach, t),
                still: still(told, ms(t.idle_window_seconds), t.straggler_known_ratio * members.len() as f64),
            }
        };
        let runs: Vec<OfRun> = read.par_iter().enumerate().map(one).collect();
        let mut places = HashMap::new();
        for (n, run) in runs.iter().enumerate() {
            places.extend(run.members.iter().enumerate().map(|(rank, who)| (who.clone(), (n, rank))));
        }
        Collectives { runs, places }
    }

    /// By which share transfers of the member's run take longer than they did around, and which share of its time in collectives
    /// is transfer; `None` where they are not slow, or that is not known.
    pub(super) fn slower(&self, gpu: usize, owner: &str, at: TimeMs, t: &Thresholds) -> Option<f64> {
        let (run, rank) = self.places.get(&(gpu, owner.to_owned()))?;
        let block = self.runs[*run].blocks.iter().find(|block| block.time.contains(&at))?;
        let bandwidth = block.bandwidth.filter(|found| found.now < t.nccl_slow_ratio * found.best)?;
        let transfer = 1.0 - block.ranks.get(rank)?.late();
        Some(transfer * (1.0 - bandwidth.now / bandwidth.best))
    }

    /// What ranks did in collectives in the window, node by node.
    pub(super) fn used(&self, booked: &[Booked<'_>], window: &Range<TimeMs>) -> Vec<CollectiveUse> {
        let mut all: Vec<CollectiveUse> = Vec::new();
        for run in &self.runs {
            for block in run.blocks.iter().filter(|block| window.contains(&block.time.start)) {
                for (rank, shares) in &block.ranks {
                    let course = booked[run.members[*rank].0].course;
                    let of_gpu = CollectiveUse {
                        cluster: named(&run.cluster),
                        node: course.node.node.clone(),
                        owner: run.name.clone(),
                        gpu: course.gpu.uuid.clone(),
                        start_ms: window.start,
                        seconds: shares.seconds,
                        late_seconds: shares.seconds * shares.late(),
                        collectives: shares.collectives as u64,
                        last: shares.last as u64,
                    };
                    match all.iter_mut().find(|known| known.gpu == of_gpu.gpu && known.owner == of_gpu.owner) {
                        Some(known) => known.add(&of_gpu),
                        None => all.push(of_gpu),
                    }
                }
            }
        }
        all
    }
}
