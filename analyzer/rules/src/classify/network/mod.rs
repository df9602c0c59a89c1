//! `network_slow`: the GPU waited in a collective longer than its bytes take on a sound network, and a port shows why.
//!
//! This is the third pass, after `straggler`: a rank that is late is no network. The nodes of each run are laid side by
//! side ([`exchange`]), for an exchange is as fast as its slowest link: what a port of any node shows counts for all GPUs of
//! the run. [`evidence`] says what ports show and how much of the waiting it can explain at most, [`deficit`] by how much
//! the waiting is above that of cells without evidence. No milliseconds move from row to row. [`hang`] marks waiting in which
//! nothing is exchanged at all: that is no slow network. What ports show without a loss is advised: [`advice`].

mod advice;
mod before;
mod congestion;
mod deficit;
mod evidence;
mod exchange;
mod hang;
mod nvlink;
mod ports;
mod used;

use std::collections::BTreeSet;
use std::ops::Range;

use rayon::prelude::*;

use super::advisory;
use super::cell::Part;
use super::intervals::Entry;
use super::judge::Booked;
use super::nccl::Collectives;
use super::run::Run;
use super::straggler::{self, Member};
use super::{Capacity, Cause, CauseKind, Class, Culprit, Node, PortUse, Thresholds};
use crate::frame::Source;
pub use before::NETWORK_SIGNALS;
use congestion::Usual;
use deficit::{Cost, Deficit, Lost};
pub(super) use deficit::{SOUND, SOUND_ON_NODE};
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

/// What is advised of one cell of a GPU.
struct Advised {
    gpu: usize,
    /// Which of its booked cells.
    index: usize,
    entry: Entry<advisory::Key>,
}

/// What the network took of a run, as far as it is known.
#[derive(Default)]
struct Costs {
    charges: Vec<Charge>,
    /// Who has what is shown in each cell, in the order of the evidence.
    named: Vec<Vec<Option<(usize, String)>>>,
    /// Cells, by the first node's grid, and causes that took nothing of a GPU that waited.
    known: BTreeSet<(usize, CauseKind)>,
    /// The same where it is not known what they took.
    unknown: BTreeSet<(usize, CauseKind)>,
}

/// A run with evidence in the window.
struct Slow<'r, 'a> {
    run: &'r Run,
    members: &'r [Member<'a>],
    exchange: Exchange<'a>,
    /// Cell by cell of the first node.
    told: Vec<Vec<Evidence>>,
}

/// Charges to the network what GPUs waited in collectives for it.
/// `capacity` has what verdicts before the window said of its GPUs. Gives what the ports of these runs did.
pub(super) fn charge(
    booked: &mut [Booked<'_>],
    sources: &[Source<'_>],
    capacity: &Capacity,
    collectives: &Collectives,
    window: &Range<TimeMs>,
    t: &Thresholds,
) -> Vec<PortUse> {
    let runs = straggler::runs(booked);
    let exchanges = runs.par_iter().filter_map(|(run, members)| {
        let exchange = Exchange::of(run, members, booked)?;
        let hung = hang::hung(&exchange, members, booked, t);
        Some((hung, Slow::of(run, members, exchange, t)))
    });
    let (hung, slow): (Vec<_>, Vec<_>) = exchanges.unzip();
    let slow: Vec<Slow<'_, '_>> = slow.into_iter().flatten().collect();
    let lasting: BTreeSet<&str> = slow.iter().filter(|slow| slow.lasts(t)).flat_map(Slow::gpus).collect();
    // Only what lasts is compared with what was hours ago, for that is costly.
    let before = if lasting.is_empty() { Vec::new() } else { before::nodes(sources, &lasting, window) };
    let costs: Vec<Costs> =
        slow.par_iter().map(|slow| slow.costs(booked, &before, (capacity, collectives), t)).collect();
    let advised: Vec<Advised> =
        slow.par_iter().zip(&costs).flat_map_iter(|(slow, costs)| advice::of_ports(slow, costs, booked, t)).collect();
    let charged = slow.iter().zip(&costs).filter(|(_, costs)| !costs.charges.is_empty());
    let used = charged.flat_map(|(slow, costs)| used::used(slow, &costs.charges, window.start, t)).collect();
    costs.into_iter().flat_map(|costs| costs.charges).for_each(|charge| charge.book(booked));
    hung.iter().flatten().for_each(|hung| hung.mark(booked));
    let large: Vec<Advised> = runs.par_iter().flat_map_iter(|(_, members)| advice::large(members, booked, t)).collect();
    advised.into_iter().chain(large).for_each(|advised| advised.add(booked));
    used
}

impl<'r, 'a> Slow<'r, 'a> {
    fn of(run: &'r Run, members: &'r [Member<'a>], exchange: Exchange<'a>, t: &Thresholds) -> Option<Self> {
        let usual = Usual::of(&exchange, t);
        let told: Vec<Vec<Evidence>> =
            (0..exchange.cells().len()).map(|cell| evidence::told(&exchange, &usual, cell, t)).collect();
        let is_told = told[exchange.body()].iter().any(|found| !found.is_empty());
        is_told.then_some(Slow { run, members, exchange, told })
    }

    /// Does it last for so long that there may be too few cells without evidence around some of the window?
    fn lasts(&self, t: &Thresholds) -> bool {
        let clean = self.told.iter().filter(|found| evidence::is_clean(found)).count();
        (clean as f64) < t.network_clean_cells + self.told.len() as f64 / 2.0
    }

    /// The GPUs of its nodes.
    fn gpus(&self) -> impl Iterator<Item = &'a str> {
        self.exchange.sides.iter().flat_map(|side| side.node.gpus.iter().map(|gpu| gpu.uuid.as_str()))
    }

    fn costs(
        &self,
        booked: &[Booked<'a>],
        before: &[Node],
        (capacity, collectives): (&Capacity, &Collectives),
        t: &Thresholds,
    ) -> Costs {
        let Slow { run, members, exchange, told } = self;
        let rates = before::rates(before, exchange, told, run, t);
        let least = deficit::least(members, booked, exchange, told);
        let named = evidence::named(exchange, told, t);
        let mut costs = Costs { named, ..Costs::default() };
        for member in *members {
            let own = &booked[member.gpu];
            let sound = rates.get(&own.course.node.node).copied();
            let on_node = !exchange.has_several_nodes();
            let sound = sound.or_else(|| {
                capacity.sound(
                    &own.course.gpu.uuid,
                    member.owner,
                    on_node,
                    own.course.node.cells[own.course.node.body.start].start,
                )
            });
            let deficit = Deficit::of(*member, booked, exchange, told, sound, &least, collectives);
            let Some(mut deficit) = deficit else { continue };
            for index in own.course.node.body.clone() {
                let Some(cell) = exchange.cell_of(own.course.node, index) else { continue };
                let charged = told[cell].iter().enumerate().find_map(|(n, found)| {
                    let lost = costs.note(cell, found.kind, deficit.cost(index, cell, found, t))?;
                    Some((found, costs.named[cell][n].clone(), lost))
                });
                let Some((found, at, mut lost)) = charged else { continue };
                lost.facts.extend(&found.facts);
                let node = |(side, _): &(usize, String)| exchange.node(*side).node.clone();
                let (node, which) = (at.as_ref().map(node), at.map(|(_, which)| which));
                // The link has no name of its own: it is the GPU's.
                let is_gpu = found.kind == CauseKind::NvlinkDown;
                let (gpu, which) = if is_gpu { (which, None) } else { (None, which) };
                let charged_to = node.map(|node| Culprit { node, gpu });
                let cause = Cause { kind: found.kind, which };
                let (gpu, index) = (member.gpu, index - own.course.node.body.start);
                costs.charges.push(Charge { gpu, index, owner: member.owner.to_owned(), cause, charged_to, lost });
            }
        }
        costs
    }
}

impl Costs {
    /// Notes what the cause took of a GPU's cell. Returns what it lost.
    fn note(&mut self, cell: usize, kind: CauseKind, cost: Cost) -> Option<Lost> {
        match cost {
            Cost::Lost(lost) => return Some(lost),
            Cost::Nothing => self.known.insert((cell, kind)),
            Cost::Unknown => self.unknown.insert((cell, kind)),
        };
        None
    }

    /// Is it unknown of the cell what the cause took of any GPU, and did it take nothing of the window that is known?
    fn is_unknown(&self, cell: usize, kind: CauseKind) -> bool {
        let is_charged = self.charges.iter().any(|charge| charge.cause.kind == kind);
        self.unknown.contains(&(cell, kind)) && !self.known.contains(&(cell, kind)) && !is_charged
    }
}

impl Advised {
    fn add(self, booked: &mut [Booked<'_>]) {
        booked[self.gpu].advised.entry(self.index).or_default().push(self.entry);
    }
}

/// Is it known that it waited for late ranks?
fn is_late(part: &Part) -> bool {
    part.cause.as_ref().is_some_and(|cause| cause.kind == CauseKind::LateRanks)
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
        is_its && !is_late(part) && part.owner.as_deref() == Some(&self.owner)
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
