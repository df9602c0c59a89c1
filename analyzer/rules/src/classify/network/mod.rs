//! `network_slow`: the GPU waited in a collective longer than its bytes take on a sound network, and a port shows why.
//!
//! This is the third pass, after `straggler`: a rank that is late is no network. The nodes of each run are laid side by
//! side ([`exchange`]), for an exchange is as fast as its slowest link: what a port of any node shows counts for all GPUs of
//! the run. [`evidence`] says what ports show and how much of the waiting it can explain at most, [`deficit`] by how much
//! the waiting is above that of cells without evidence. No milliseconds move from row to row.

mod deficit;
mod evidence;
mod exchange;
mod ports;

use super::cell::Part;
use super::judge::Booked;
use super::straggler::{self, Member};
use super::thresholds::confidence::{COUNTED, INFERRED};
use super::{Cause, CauseKind, Class, Culprit, Fact, Thresholds};
use deficit::Deficit;
use evidence::Evidence;
use exchange::Exchange;

/// What is said of one cell of a GPU.
struct Charge {
    gpu: usize,
    /// Which of its booked cells.
    index: usize,
    owner: String,
    /// Share of the owner's time in the cell.
    share: f64,
    part: Slow,
}

/// Why, and who.
struct Slow {
    cause: Cause,
    charged_to: Option<Culprit>,
    confidence: f64,
    facts: Vec<Fact>,
}

/// Charges to the network what GPUs waited in collectives for it.
pub(super) fn charge(booked: &mut [Booked<'_>], t: &Thresholds) {
    let runs = straggler::runs(booked);
    let charges: Vec<Charge> = runs.into_values().flat_map(|members| charges(&members, booked, t)).collect();
    charges.into_iter().for_each(|charge| charge.book(booked));
}

fn charges(members: &[Member<'_>], booked: &[Booked<'_>], t: &Thresholds) -> Vec<Charge> {
    let Some(run) = Exchange::of(members, booked) else { return Vec::new() };
    let told: Vec<Vec<Evidence>> = (0..run.cells().len()).map(|cell| evidence::told(&run, cell, t)).collect();
    if told[run.body()].iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let named: Vec<Option<(usize, String)>> = evidence::named(&run, &told, t);
    let mut charges = Vec::new();
    for member in members {
        let mut deficit = Deficit::of(*member, booked, &run, &told, t);
        let own = &booked[member.gpu];
        for index in own.course.node.body.clone() {
            let Some(cell) = run.cell_of(own.course.node, index) else { continue };
            let Some(found) = told[cell].first() else { continue };
            let Some((share, confidence, facts)) = deficit.lost(index, cell, found, t) else { continue };
            let at = named[cell].clone();
            let charged_to = at.as_ref().map(|(side, _)| Culprit { node: run.node(*side).node.clone(), gpu: None });
            let cause = Cause { kind: found.kind, which: at.map(|(_, which)| which) };
            let facts = facts.into_iter().chain(found.facts.iter().copied()).collect();
            let part = Slow { cause, charged_to, confidence, facts };
            let (gpu, owner) = (member.gpu, member.owner.to_owned());
            charges.push(Charge { gpu, index: index - own.course.node.body.start, owner, share, part });
        }
    }
    charges
}

/// Is it waiting that a slow network explains? Threads that spin in a collective look like threads that launch: where a
/// port's state says that the exchange is slow, it is that.
fn waits(part: &Part, owner: &str, kind: CauseKind) -> bool {
    let is_waiting =
        part.class == Class::CollectiveWait || part.class == Class::LaunchBound && evidence::is_state(kind);
    is_waiting && part.owner.as_deref() == Some(owner)
}

impl Charge {
    fn book(self, booked: &mut [Booked<'_>]) {
        let Charge { gpu, index, owner, share, part: Slow { cause, charged_to, confidence, facts } } = self;
        let parts = &mut booked[gpu].cells[index];
        let owned: i64 = parts.iter().filter(|(part, _)| part.owner.as_deref() == Some(&owner)).map(|(_, ms)| ms).sum();
        let mut left = (share * owned as f64).round() as i64;
        let mut slow = Vec::new();
        for (part, ms) in parts.iter_mut().filter(|(part, _)| waits(part, &owner, cause.kind)) {
            let taken = left.min(*ms);
            (left, *ms) = (left - taken, *ms - taken);
            let facts = part.facts.iter().chain(&facts).copied().collect();
            let (charged_to, cause) = (charged_to.clone(), Some(cause.clone()));
            let confidence = part.confidence.min(confidence);
            slow.push((
                Part { class: Class::NetworkSlow, charged_to, cause, confidence, facts, ..part.clone() },
                taken,
            ));
        }
        parts.extend(slow);
        parts.retain(|(_, ms)| *ms > 0);
    }
}

/// How sure a claim is that rests on this evidence.
fn grade(found: &Evidence) -> f64 {
    if found.is_counted { COUNTED } else { INFERRED }
}
