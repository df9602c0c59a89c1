//! `network_slow`: the GPU waited in a collective longer than its bytes take on a sound network, and a port shows why.
//!
//! This is the third pass, after `straggler`: a rank that is late is no network. The nodes of each run are laid side by
//! side ([`exchange`]), for an exchange is as fast as its slowest link: what a port of any node shows counts for all GPUs of
//! the run. [`evidence`] says what ports show and how much of the waiting it can explain at most, [`deficit`] by how much
//! the waiting is above that of cells without evidence. No milliseconds move from row to row.

mod before;
mod deficit;
mod evidence;
mod exchange;
mod ports;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::cell::Part;
use super::judge::Booked;
use super::run::Run;
use super::straggler::{self, Member};
use super::{Cause, Class, Culprit, Thresholds};
use crate::frame::Source;
pub use before::NETWORK_SIGNALS;
use deficit::{Deficit, Lost};
use evidence::Evidence;
use exchange::Exchange;
use goodput_exposition::sample::TimeMs;

/// What is said of one cell of a GPU.
struct Charge {
    gpu: usize,
    /// Which of its booked cells.
    index: usize,
    owner: String,
    cause: Cause,
    charged_to: Option<Culprit>,
    lost: Lost,
}

/// Charges to the network what GPUs waited in collectives for it.
pub(super) fn charge(booked: &mut [Booked<'_>], sources: &[Source<'_>], window: &Range<TimeMs>, t: &Thresholds) {
    let runs = straggler::runs(booked);
    let before = |run: &Run, gpus: &BTreeSet<&str>| before::rates(sources, run, gpus, window, t);
    let charges = runs.into_iter().flat_map(|(run, members)| charges(&run, &members, booked, &before, t));
    let charges: Vec<Charge> = charges.collect();
    charges.into_iter().for_each(|charge| charge.book(booked));
}

fn charges(
    name: &Run,
    members: &[Member<'_>],
    booked: &[Booked<'_>],
    before: &impl Fn(&Run, &BTreeSet<&str>) -> BTreeMap<String, f64>,
    t: &Thresholds,
) -> Vec<Charge> {
    let Some(run) = Exchange::of(members, booked) else { return Vec::new() };
    let told: Vec<Vec<Evidence>> = (0..run.cells().len()).map(|cell| evidence::told(&run, cell, t)).collect();
    if told[run.body()].iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let is_clean = |cell: &&Vec<Evidence>| cell.is_empty();
    let lasts = (told.iter().filter(is_clean).count() as f64) < t.network_clean_cells + told.len() as f64 / 2.0;
    let gpus = || members.iter().map(|member| booked[member.gpu].course.gpu.uuid.as_str()).collect();
    // Only what lasts is compared with what was hours ago, for that is costly.
    let rates = if lasts { before(name, &gpus()) } else { BTreeMap::new() };
    let named = evidence::named(&run, &told, t);
    let mut charges = Vec::new();
    for member in members {
        let own = &booked[member.gpu];
        let Some(mut deficit) = Deficit::of(*member, booked, &run, &told, &rates) else { continue };
        for index in own.course.node.body.clone() {
            let Some(cell) = run.cell_of(own.course.node, index) else { continue };
            let Some(found) = told[cell].first() else { continue };
            let Some(mut lost) = deficit.lost(index, cell, found, t) else { continue };
            lost.facts.extend(&found.facts);
            let at = named[cell].clone();
            let charged_to = at.as_ref().map(|(side, _)| Culprit { node: run.node(*side).node.clone(), gpu: None });
            let cause = Cause { kind: found.kind, which: at.map(|(_, which)| which) };
            let (gpu, index) = (member.gpu, index - own.course.node.body.start);
            charges.push(Charge { gpu, index, owner: member.owner.to_owned(), cause, charged_to, lost });
        }
    }
    charges
}

impl Charge {
    /// Is it time that a slow network explains? Threads that spin in a collective look like threads that launch: where a
    /// port's state says that the exchange is slow, it is that.
    fn takes(&self, part: &Part) -> bool {
        let is_its = match part.class {
            Class::CollectiveWait => true,
            Class::LaunchBound => evidence::is_state(self.cause.kind),
            Class::Productive => self.lost.of_work,
            _ => false,
        };
        is_its && part.owner.as_deref() == Some(&self.owner)
    }

    fn book(self, booked: &mut [Booked<'_>]) {
        let parts = &mut booked[self.gpu].cells[self.index];
        let owned = parts.iter().filter(|(part, _)| part.owner.as_ref() == Some(&self.owner));
        let mut left = (self.lost.share * owned.map(|(_, ms)| *ms).sum::<i64>() as f64).round() as i64;
        let mut slow = Vec::new();
        // Waiting first: what looks like work only for the rest.
        parts.sort_by_key(|(part, _)| part.class == Class::Productive);
        for (part, ms) in parts.iter_mut().filter(|(part, _)| self.takes(part)) {
            let taken = left.min(*ms);
            (left, *ms) = (left - taken, *ms - taken);
            slow.push((self.part(part), taken));
        }
        parts.extend(slow);
        parts.retain(|(_, ms)| *ms > 0);
    }

    /// The same time as a loss to the network.
    fn part(&self, of: &Part) -> Part {
        Part {
            class: Class::NetworkSlow,
            charged_to: self.charged_to.clone(),
            cause: Some(self.cause.clone()),
            confidence: of.confidence.min(self.lost.confidence),
            facts: of.facts.iter().chain(&self.lost.facts).copied().collect(),
            ..of.clone()
        }
    }
}
