//! Signs that switches hold the exchange back: pauses, notices of congestion, and ticks in which ports had to wait; and ports
//! that are full.
//!
//! Pauses are counted in seconds. Notices and ticks are not, and sound ports have them too: they count only where there are
//! many times as many as the run has in its best cells, and never for more than the deficit.

use super::super::{CauseKind, Fact, Thresholds};
use super::evidence::{Evidence, Grade};
use super::exchange::Exchange;
use super::ports::Port;
use crate::signal::Signal;

/// The last value of a counter of 32 bits, at which it stays.
pub(super) const FULL: f64 = 4_294_967_295.0;

/// Interfaces whose peers asked them to send nothing. One that carries much itself may have paused for storage; what goes over
/// RDMA is not counted by it.
pub(super) fn paused(run: &Exchange<'_>, cell: usize, t: &Thresholds) -> Option<Evidence> {
    let mut at = Vec::new();
    for (n, side, index) in run.at(cell) {
        for (name, cells) in &side.ports.interfaces {
            let interface = cells[index];
            let own = interface.sent.into_iter().chain(interface.received).fold(0.0, f64::max);
            let held = interface.paused.filter(|share| *share >= t.pause_ratio && own < t.tcp_exchange_bytes);
            at.extend(held.map(|share| (n, (*name).to_owned(), share)));
        }
    }
    let most = at.iter().map(|(.., share)| *share).reduce(f64::max)?;
    let facts = vec![Fact::of(Signal::InterfacePause, most, t.pause_ratio)];
    Some(Evidence { kind: CauseKind::Congested, bound: Some(most), stays: 0.0, grade: Grade::Counted, at, facts })
}

/// Ports that carry nearly their line rate for the whole cell. Nothing is broken: the exchange is as large as its network. What is
/// not the run's alone, or comes from storage in good part, may be other bytes than its exchange.
pub(super) fn saturated(run: &Exchange<'_>, cell: usize, t: &Thresholds) -> Option<Evidence> {
    let mut at = Vec::new();
    for (n, side, index) in run.at(cell).filter(|(_, side, index)| side.has_own_bytes(*index)) {
        for (name, cells) in &side.ports.rdma {
            let share = cells[index].bytes().zip(cells[index].speed).map(|(bytes, speed)| bytes / speed);
            at.extend(share.filter(|share| *share >= t.port_busy_ratio).map(|share| (n, (*name).to_owned(), share)));
        }
    }
    let most = at.iter().map(|(.., share)| *share).reduce(f64::max)?;
    let facts =
        vec![Fact { signal: "bytes of a port / line rate", unit: "ratio", value: most, threshold: t.port_busy_ratio }];
    let (kind, bound) = (CauseKind::Saturated, Some(most.min(1.0)));
    Some(Evidence { kind, bound, stays: 0.0, grade: Grade::Inferred, at, facts })
}

/// Signs of congestion of all ports of the run in a cell, for each gigabyte that they carried.
#[derive(Clone, Copy, Debug, Default)]
struct Signs {
    notices: Option<f64>,
    /// Ticks of waiting.
    ticks: Option<f64>,
}

/// What the run has in its best quarter of cells. Faults that last must not become the norm, so it is not the median.
pub(super) struct Usual(Signs);

impl Usual {
    pub(super) fn of(run: &Exchange<'_>, t: &Thresholds) -> Usual {
        let all: Vec<Signs> = (0..run.cells().len()).filter_map(|cell| signs(run, cell, t)).collect();
        let quarter = |of: fn(&Signs) -> Option<f64>| {
            let mut known: Vec<f64> = all.iter().filter_map(of).collect();
            known.sort_by(f64::total_cmp);
            known.get(known.len() / 4).copied()
        };
        Usual(Signs { notices: quarter(|signs| signs.notices), ticks: quarter(|signs| signs.ticks) })
    }

    /// Does the run have many times as many in the cell? Which ports have them says little of where the switch is that is
    /// full, so none is named.
    pub(super) fn exceeded(&self, run: &Exchange<'_>, cell: usize, t: &Thresholds) -> Option<Evidence> {
        let Signs { notices, ticks } = signs(run, cell, t)?;
        let above = |value: Option<f64>, usual: Option<f64>, least: f64, signal, unit| {
            let threshold = (usual? * t.congestion_ratio).max(least);
            value.filter(|value| *value >= threshold).map(|value| Fact { signal, unit, value, threshold })
        };
        let notices =
            above(notices, self.0.notices, LEAST_NOTICES, "port_congestion / gigabyte", "notices per gigabyte");
        let ticks = || above(ticks, self.0.ticks, LEAST_TICKS, "port_wait / gigabyte", "ticks per gigabyte");
        let facts = vec![notices.or_else(ticks)?];
        let (kind, at) = (CauseKind::Congested, Vec::new());
        Some(Evidence { kind, bound: None, stays: 0.0, grade: Grade::Weak, at, facts })
    }
}

/// Notices for each gigabyte below which they say nothing (own choice: as `retransmits_per_gigabyte`).
const LEAST_NOTICES: f64 = 1.0;
/// Ticks for each gigabyte below which they say nothing (own choice: at 8 bytes a tick a gigabyte takes 125 million of them).
const LEAST_TICKS: f64 = 1e6;

fn signs(run: &Exchange<'_>, cell: usize, t: &Thresholds) -> Option<Signs> {
    let (mut bytes, mut notices, mut ticks, mut least) = (0.0, None, None, 0.0);
    for (_, side, index) in run.at(cell) {
        let seconds = (side.node.cells[index].end - side.node.cells[index].start) as f64 / 1000.0;
        least += t.exchange_bytes * seconds;
        for cells in side.ports.rdma.values() {
            bytes += cells[index].bytes().unwrap_or(0.0) * seconds;
            add(&mut notices, cells[index].congestion.map(|rate| rate * seconds));
            add(&mut ticks, held_back(cells, index));
        }
    }
    let per_gigabyte = |count: Option<f64>| count.map(|count| count * 1e9 / bytes);
    (bytes > 0.0 && bytes >= least).then(|| Signs { notices: per_gigabyte(notices), ticks: per_gigabyte(ticks) })
}

fn add(sum: &mut Option<f64>, value: Option<f64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0.0) + value);
    }
}

/// Ticks of a port within the cell; `None` where its counter is full, or was set back.
fn held_back(cells: &[Port], index: usize) -> Option<f64> {
    let (before, now) = (cells[index.checked_sub(1)?].waited?, cells[index].waited?);
    (now < FULL && now >= before).then_some(now - before)
}
