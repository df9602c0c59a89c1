//! What is advised of a network without a loss: `network_constant` and `network_evidence` of what ports show, and
//! `exchange_too_large` of runs on one node.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr;

use super::super::advisory::Key;
use super::super::intervals::{Entry, Grounds};
use super::super::judge::{Booked, book_cell};
use super::super::phase::Course;
use super::super::straggler::Member;
use super::super::thresholds::confidence::{COUNTED, INFERRED};
use super::super::thresholds::ms;
use super::super::{Advice, Cause, CauseKind, Class, Fact, Thresholds};
use super::evidence::{Evidence, Grade};
use super::exchange::Exchange;
use super::hang::ALL_OF_IT;
use super::{Advised, Costs, Slow, nvlink};
use crate::signal::Signal;
use goodput_exposition::sample::TimeMs;

/// What ports of a run show in the cells of the window, where its cost is not known.
pub(super) fn of_ports(slow: &Slow<'_, '_>, costs: &Costs, booked: &[Booked<'_>], t: &Thresholds) -> Vec<Advised> {
    let run = &slow.exchange;
    let mut all = Vec::new();
    for cell in run.body() {
        let told = slow.told[cell].iter().filter(|found| is_fault(found) && costs.is_unknown(cell, found.kind));
        let told: Vec<&Evidence> = told.collect();
        if told.is_empty() {
            continue;
        }
        let around = Around::of(slow, cell, t);
        for found in told {
            let Some((advice, fact)) = around.advice(run, cell, found, t) else { continue };
            let named = around.named(slow, costs, found.kind);
            let facts = found.facts.iter().copied().chain([fact]).collect();
            all.extend(advised(slow, booked, cell, &Told { advice, found, named, facts }));
        }
    }
    all
}

/// Sound networks show weak evidence too, and a port that is full is sound.
fn is_fault(found: &Evidence) -> bool {
    found.grade != Grade::Weak && found.kind != CauseKind::Saturated
}

/// One advice about a cell of a run.
struct Told<'e> {
    advice: Advice,
    found: &'e Evidence,
    /// The only side, and port or GPU of it, that shows it.
    named: Option<(usize, String)>,
    facts: Vec<Fact>,
}

/// The cells that a cell is compared with, and the time in them.
struct Around {
    cells: Range<usize>,
    /// Cells in which the run holds GPUs.
    held: usize,
    /// Cells of these in which some port shows a fault.
    faulty: usize,
    /// Milliseconds in which ports show a fault, by its kind.
    lasted: BTreeMap<CauseKind, i64>,
}

impl Around {
    fn of(slow: &Slow<'_, '_>, cell: usize, t: &Thresholds) -> Around {
        let (run, told) = (&slow.exchange, &slow.told);
        let cells = run.node(0).around(cell, t.derate_around_seconds);
        let mut around = Around { cells: cells.clone(), held: 0, faulty: 0, lasted: BTreeMap::new() };
        for other in cells.filter(|other| run.at(*other).next().is_some()) {
            around.held += 1;
            around.faulty += usize::from(told[other].iter().any(is_fault));
            let span = &run.cells()[other];
            for found in told[other].iter().filter(|found| is_fault(found)) {
                *around.lasted.entry(found.kind).or_default() += span.end - span.start;
            }
        }
        around
    }

    /// What is advised of it, and the number behind that. What is there for a short time is not advised.
    fn advice(&self, run: &Exchange<'_>, cell: usize, found: &Evidence, t: &Thresholds) -> Option<(Advice, Fact)> {
        let lasted =
            self.lasted.get(&found.kind).copied().filter(|lasted| *lasted >= ms(t.network_evidence_seconds))?;
        let share = self.faulty as f64 / self.held as f64;
        if share >= t.network_constant_ratio {
            let (signal, unit) = ("cells in which a port shows a fault / cells of the run", "ratio");
            return Some((
                Advice::NetworkConstant,
                Fact { signal, unit, value: share, threshold: t.network_constant_ratio },
            ));
        }
        let (signal, unit) = ("time in which a port shows it, of an hour", "seconds");
        let fact = Fact { signal, unit, value: lasted as f64 / 1000.0, threshold: t.network_evidence_seconds };
        (!is_risk(run, cell, found, t)).then_some((Advice::NetworkEvidence, fact))
    }

    /// Who shows it in most of the cells in which someone does.
    fn named(&self, slow: &Slow<'_, '_>, costs: &Costs, kind: CauseKind) -> Option<(usize, String)> {
        let (mut cells, mut by_place) = (0, BTreeMap::new());
        for other in self.cells.clone() {
            let Some(n) = slow.told[other].iter().position(|found| found.kind == kind && is_fault(found)) else {
                continue;
            };
            cells += 1;
            if let Some(place) = &costs.named[other][n] {
                *by_place.entry(place).or_insert(0) += 1;
            }
        }
        let (place, count) = by_place.into_iter().max_by_key(|(_, count)| *count)?;
        (2 * count > cells).then(|| place.clone())
    }
}

/// Is it a hardware risk of the port or the GPU, which is told with its place already?
fn is_risk(run: &Exchange<'_>, cell: usize, found: &Evidence, t: &Thresholds) -> bool {
    let is_risk_of_port = |(side, which, _): &(usize, String, f64)| {
        let (side, cells) = (&run.sides[*side], run.cells());
        let index = run.index_at(side.node, cell);
        let port = index.and_then(|index| side.ports.rdma.get(which.as_str())?.get(index));
        let seconds = (cells[cell].end - cells[cell].start) as f64 / 1000.0;
        port.is_some_and(|port| {
            port.link_changes.is_some_and(|changes| changes >= t.port_errors)
                || port.timeouts.is_some_and(|timeouts| timeouts >= t.rdma_timeouts * seconds)
        })
    };
    match found.kind {
        CauseKind::NvlinkDown | CauseKind::Link => true,
        CauseKind::Errors => found.at.iter().all(is_risk_of_port),
        _ => false,
    }
}

/// The cells of the run's GPUs that the advice is about: those of the node that shows it, where some do, of an NVLink its GPU.
fn advised(slow: &Slow<'_, '_>, booked: &[Booked<'_>], cell: usize, told: &Told<'_>) -> Vec<Advised> {
    let run = &slow.exchange;
    let is_gpu = told.found.kind == CauseKind::NvlinkDown;
    let mut all = Vec::new();
    for member in slow.members {
        let course = booked[member.gpu].course;
        let is_side = |side: usize| ptr::eq(run.node(side), course.node);
        let is_its = match &told.named {
            Some((side, which)) => is_side(*side) && (!is_gpu || *which == course.gpu.uuid),
            None => told.found.at.is_empty() || told.found.at.iter().any(|(side, ..)| is_side(*side)),
        };
        let index =
            run.index_at(course.node, cell).filter(|index| is_its && course.gpu.is_held_by(member.owner, *index));
        let Some(n) = index.and_then(|index| index.checked_sub(course.node.body.start)) else { continue };
        let which = told.named.as_ref().filter(|_| !is_gpu).map(|(_, which)| which.clone());
        let key = (told.advice, Some(member.owner.to_owned()), Some(Cause { kind: told.found.kind, which }), None);
        let confidence = if told.found.grade == Grade::Counted { COUNTED } else { INFERRED };
        if n < booked[member.gpu].cells.len() {
            let entry = entry(key, confidence, told.facts.clone(), &run.cells()[cell]);
            all.push(Advised { gpu: member.gpu, index: n, entry });
        }
    }
    all
}

fn entry(key: Key, confidence: f64, facts: Vec<Fact>, span: &Range<TimeMs>) -> Entry<Key> {
    let grounds = Grounds { confidence, facts, missing: Vec::new() };
    Entry { key, grounds, ms: span.end - span.start, energy: None, variance_ms2: 0 }
}

/// The cells of a run on one node in which, and around which, its GPUs wait long in collectives. On more nodes the same exchange
/// takes longer.
pub(super) fn large(members: &[Member<'_>], booked: &[Booked<'_>], t: &Thresholds) -> Vec<Advised> {
    let node = booked[members[0].gpu].course.node;
    if members.iter().any(|member| !ptr::eq(booked[member.gpu].course.node, node)) {
        return Vec::new();
    }
    let mut known: BTreeMap<usize, Waited> = BTreeMap::new();
    let mut all = Vec::new();
    for index in node.body.clone() {
        let own = *known.entry(index).or_insert_with(|| Waited::of(members, booked, index, t));
        if own.gpus < 2 || !is_large(own.share(), t) || is_silent(members, booked, index, t) {
            continue;
        }
        let around = node.around(index, t.idle_window_seconds);
        let sum = around.map(|other| *known.entry(other).or_insert_with(|| Waited::of(members, booked, other, t)));
        let value = sum.fold(Waited::default(), Waited::plus).share();
        if is_large(value, t) {
            let (signal, threshold) = ("collective_wait / time that the run holds its GPUs", t.exchange_large_ratio);
            let fact = Fact { signal, unit: "ratio", value, threshold };
            all.extend(members.iter().filter_map(|member| holds(*member, booked, index, fact)));
        }
    }
    all
}

/// Ranks that do nothing but wait may hang.
fn is_large(waiting: f64, t: &Thresholds) -> bool {
    (t.exchange_large_ratio..ALL_OF_IT).contains(&waiting)
}

/// Time of a run in a cell.
#[derive(Clone, Copy, Debug, Default)]
struct Waited {
    gpus: usize,
    ms: i64,
    held_ms: i64,
}

impl Waited {
    /// Outside the window no rank is looked for that comes late.
    fn of(members: &[Member<'_>], booked: &[Booked<'_>], index: usize, t: &Thresholds) -> Waited {
        let mut sum = Waited::default();
        for member in members {
            let own = &booked[member.gpu];
            let in_window = index.checked_sub(own.course.node.body.start).and_then(|n| own.cells.get(n));
            let outside = if in_window.is_none() { book_cell(&own.course, index, t).ok() } else { None };
            let Some(parts) = in_window.or(outside.as_ref()) else { continue };
            let mut held_ms = 0;
            for (part, ms) in parts.iter().filter(|(part, _)| part.owner.as_deref() == Some(member.owner)) {
                held_ms += ms;
                let waits = part.class == Class::CollectiveWait && part.cause.is_none();
                sum.ms += if waits { *ms } else { 0 };
            }
            sum.gpus += usize::from(held_ms > 0);
            sum.held_ms += held_ms;
        }
        sum
    }

    fn plus(self, other: Waited) -> Waited {
        Waited { gpus: self.gpus.max(other.gpus), ms: self.ms + other.ms, held_ms: self.held_ms + other.held_ms }
    }

    fn share(self) -> f64 {
        if self.held_ms > 0 { self.ms as f64 / self.held_ms as f64 } else { 0.0 }
    }
}

/// Do NVLinks say that nothing is exchanged? Then one rank is waited for.
fn is_silent(members: &[Member<'_>], booked: &[Booked<'_>], index: usize, t: &Thresholds) -> bool {
    let gpus = members.iter().map(|member| booked[member.gpu].course.gpu);
    let with_links = gpus.filter(|gpu| gpu.tracks.read(Signal::NvlinkUp, index).is_some_and(|up| up.max > 0.0));
    let most = with_links.filter_map(|gpu| nvlink::bytes(gpu, index)).reduce(f64::max);
    most.is_some_and(|bytes| bytes < t.exchange_bytes)
}

fn holds(member: Member<'_>, booked: &[Booked<'_>], index: usize, fact: Fact) -> Option<Advised> {
    let Course { node, gpu, .. } = booked[member.gpu].course;
    let key = (Advice::ExchangeTooLarge, Some(member.owner.to_owned()), None, None);
    let entry = entry(key, INFERRED, vec![fact], &node.cells[index]);
    let is_held = gpu.is_held_by(member.owner, index);
    is_held.then(|| Advised { gpu: member.gpu, index: index - node.body.start, entry })
}
