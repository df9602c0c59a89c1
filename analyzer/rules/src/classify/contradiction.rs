//! Signals of one GPU that cannot all be true: a count of work that stands still while the board draws the power of work,
//! or that is full while every sample of the utilisation is zero. The first signal of the ladder is not believed
//! for that alone.

use super::busy::Rung;
use super::{Cell, Fact, Thresholds, power};
use crate::signal::{LEAST_WATTS, Signal};

/// Which signal of the ladder is believed, and what contradicts it or those before it.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) believed: Option<Rung>,
    pub(super) facts: Vec<Fact>,
}

/// Share of every sample's time from which a count of work is full, so that utilisation cannot be zero each time that it is
/// read: by chance it is in one cell of a hundred with two samples.
const FULL: f64 = 0.9;

/// Share of the multiprocessors or tensor cores at work from which engine and utilisation cannot be at zero throughout:
/// they are no less than either, by definition (DCGM user guide, profiling metrics).
const SOME: f64 = 0.05;

/// Names of what contradicts, as evidence has them.
fn name(signal: Signal) -> &'static str {
    match signal {
        Signal::GpuBusy => "gpu_busy contradicts",
        Signal::GrEngineActive => "gr_engine_active contradicts",
        Signal::GpuUtilization => "gpu_utilization contradicts",
        Signal::SmActive => "sm_active contradicts",
        Signal::TensorActive => "tensor_active contradicts",
        Signal::GpuEnergy => "gpu_energy contradicts",
        _ => "gpu_power contradicts",
    }
}

fn fact(signal: Signal, value: f64, threshold: f64) -> Fact {
    Fact { signal: name(signal), unit: signal.unit(), value, threshold }
}

/// Holds the rungs against each other and against power. Their order is that of the ladder.
pub(super) fn find(cell: &Cell<'_>, rungs: &[Rung], t: &Thresholds) -> Found {
    let Some(first) = rungs.first().copied() else { return Found::default() };
    let mut found = match first {
        _ if first.ratio <= t.idle_busy_ratio => at_rest(cell, first, &rungs[1..], t),
        _ if first.least >= FULL => at_work(cell, first, &rungs[1..], t),
        _ => Found { believed: Some(first), facts: Vec::new() },
    };
    found.facts.extend(stuck_energy(cell));
    found
}

/// The first says that the GPU rests.
fn at_rest(cell: &Cell<'_>, first: Rung, others: &[Rung], t: &Thresholds) -> Found {
    let watts = working(cell, t);
    let active: Vec<Fact> = others.iter().filter_map(|other| is_active(first, *other, t)).collect();
    let tensor = cell.read(Signal::TensorActive).filter(|reading| counts_all(first.signal) && reading.min >= SOME);
    let mut facts: Vec<Fact> = active;
    facts.extend(tensor.map(|reading| fact(Signal::TensorActive, reading.mean, SOME)));
    if let Some(watts) = watts {
        // The board works, whatever is said. Who says so too is believed.
        let believed = others.iter().find(|other| is_share_of_time(other.signal) && other.ratio > t.idle_busy_ratio);
        facts.push(watts);
        return Found { believed: believed.copied(), facts };
    }
    let is_contradicted = !facts.is_empty() && !draws_nothing(cell, t);
    Found { believed: (!is_contradicted).then_some(first), facts }
}

/// The first says that the GPU works all the time.
fn at_work(cell: &Cell<'_>, first: Rung, others: &[Rung], t: &Thresholds) -> Found {
    let idle = others.iter().filter(|other| other.most <= t.idle_busy_ratio && is_share_of_time(other.signal));
    let facts: Vec<Fact> = idle.map(|other| fact(other.signal, other.ratio, t.idle_busy_ratio)).collect();
    let is_believed = facts.is_empty() || working(cell, t).is_some();
    Found { believed: is_believed.then_some(first), facts }
}

/// Does the other signal say that the GPU cannot have rested, as the first has it?
fn is_active(first: Rung, other: Rung, t: &Thresholds) -> Option<Fact> {
    let needed = match other.signal {
        // Of samples alone none says what was between them.
        _ if !counts_all(first.signal) => FULL,
        Signal::SmActive => SOME,
        _ => t.contradicted_busy_ratio,
    };
    (other.least >= needed).then(|| fact(other.signal, other.ratio, needed))
}

/// Is it of all the time, and not of moments?
fn counts_all(signal: Signal) -> bool {
    signal != Signal::GpuUtilization
}

fn is_share_of_time(signal: Signal) -> bool {
    signal != Signal::SmActive
}

/// That the board draws what none draws without work.
fn working(cell: &Cell<'_>, t: &Thresholds) -> Option<Fact> {
    let needed = power::limit(cell)? * t.contradicted_power_ratio;
    let counted = power::counted(cell).map(|reading| (Signal::GpuEnergy, reading.mean));
    let (signal, watts) = counted.or_else(|| Some((Signal::GpuPower, cell.read(Signal::GpuPower)?.min)))?;
    (watts >= needed).then(|| fact(signal, watts, needed))
}

/// Does the board draw so little that it cannot be at work?
fn draws_nothing(cell: &Cell<'_>, t: &Thresholds) -> bool {
    let needed = power::working_watts(cell, t.contradicted_busy_ratio, t.power_near_idle_ratio);
    power::drawn(cell).zip(needed).is_some_and(|((_, watts), needed)| watts < needed)
}

/// That the energy counter stands still though the board draws power.
fn stuck_energy(cell: &Cell<'_>) -> Option<Fact> {
    let counted = cell.mean(Signal::GpuEnergy).filter(|watts| *watts < LEAST_WATTS)?;
    cell.mean(Signal::GpuPower)?;
    Some(fact(Signal::GpuEnergy, counted, LEAST_WATTS))
}
