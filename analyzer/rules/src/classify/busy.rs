//! How much of a cell the GPU worked, from the best signal there is that the others do not contradict.

use super::contradiction::{self, Found};
use super::thresholds::confidence::{COUNTED, INFERRED, WEAK};
use super::{Cell, Fact, Thresholds, power, sampling, spinning};
use crate::signal::{LADDER, Signal, named_in};

/// The share of a cell that was work.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Busy {
    /// 0 to 1.
    pub(super) ratio: f64,
    /// The share in which kernels ran and did no work: they spun, as kernels of a collective do until all ranks are
    /// there.
    pub(super) spun: f64,
    /// Is `ratio` the least that was work, and nothing known of the rest?
    pub(super) is_least: bool,
    /// The rung of the ladder that said so.
    pub(super) rung: &'static str,
    pub(super) confidence: f64,
    pub(super) facts: Vec<Fact>,
    /// Variance of the busy time by sampling, in ms².
    pub(super) variance_ms2: f64,
}

const CONFIDENCES: [f64; 4] = [COUNTED, COUNTED, WEAK, INFERRED];

/// The name of the rung of utilisation when power agrees with it.
const CORROBORATED: &str = "gpu_utilization_and_power";

/// What tells the share of time that multiprocessors do not: what is missing where they alone tell.
pub(super) const OF_TIME: [Signal; 3] = [Signal::GpuBusy, Signal::GrEngineActive, Signal::GpuUtilization];

/// The signals behind a rung, as [`Interval::busy_signal`](super::Interval::busy_signal) names it.
#[must_use]
pub fn busy_signals(rung: &str) -> Vec<Signal> {
    if rung == CORROBORATED { vec![Signal::GpuUtilization, Signal::GpuPower] } else { named_in(rung) }
}

/// One signal of the ladder in a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rung {
    pub(super) signal: Signal,
    /// The share of time that it tells, in the mean.
    pub(super) ratio: f64,
    /// The least and the most of its samples.
    pub(super) least: f64,
    pub(super) most: f64,
    confidence: f64,
}

/// Climbs down the ladder. `None` where no signal says anything, or those that do contradict each other.
pub(super) fn busy(cell: &Cell<'_>, t: &Thresholds) -> Option<Busy> {
    let rungs = rungs(cell);
    let Found { believed, facts } = contradiction::find(cell, &rungs, t);
    let rung = believed?;
    let Rung { signal, ratio, confidence, .. } = rung;
    let fact = Fact { signal: signal.name(), unit: "ratio", value: ratio, threshold: t.idle_busy_ratio };
    let confidence = if facts.is_empty() { confidence } else { confidence.min(INFERRED) };
    let busy = Busy {
        ratio,
        spun: 0.0,
        is_least: signal == Signal::SmActive && ratio > t.idle_busy_ratio,
        rung: signal.name(),
        confidence,
        facts: [fact].into_iter().chain(facts).collect(),
        variance_ms2: sampling::variance_ms2(cell, signal),
    };
    Some(asked_of_power(busy, cell, t))
}

/// What speaks against the signals of the ladder, where they contradict each other so that none is believed.
pub(super) fn doubts(cell: &Cell<'_>, t: &Thresholds) -> Vec<Fact> {
    contradiction::find(cell, &rungs(cell), t).facts
}

/// What is there of the ladder.
fn rungs(cell: &Cell<'_>) -> Vec<Rung> {
    let told = |(signal, confidence)| match signal {
        Signal::GpuBusy => {
            let ratio = exporter(cell)?;
            Some(Rung { signal, ratio, least: ratio, most: ratio, confidence })
        }
        _ => {
            let reading = cell.read(signal)?;
            Some(Rung { signal, ratio: reading.mean, least: reading.min, most: reading.max, confidence })
        }
    };
    LADDER.into_iter().zip(CONFIDENCES).filter_map(told).collect()
}

/// The exporter's busy time over the time that it had driver samples for.
fn exporter(cell: &Cell<'_>) -> Option<f64> {
    let observed = cell.mean(Signal::GpuObserved).filter(|o| *o > 0.0)?;
    let ratio = cell.mean(Signal::GpuBusy)? / observed;
    (ratio <= 1.0 + ROUNDING).then_some(ratio.min(1.0))
}

/// Two counters that grew alike differ by rounding only; a ratio above this is a contradiction, not a reading.
const ROUNDING: f64 = 1e-6;

/// Kernels that spin in a collective keep the engine and the utilisation at 100 %, but draw little power.
fn asked_of_power(busy: Busy, cell: &Cell<'_>, t: &Thresholds) -> Busy {
    let needed = power::working_watts(cell, busy.ratio, t.power_near_idle_ratio);
    let (Some((signal, watts)), Some(needed)) = (power::drawn(cell), needed) else {
        return spinning::asked(busy, cell, t);
    };
    let corroborated = if busy.rung == Signal::GpuUtilization.name() {
        Busy { rung: CORROBORATED, confidence: INFERRED, ..busy }
    } else {
        busy
    };
    if corroborated.ratio < t.power_check_ratio || watts >= needed {
        return spinning::asked(corroborated, cell, t);
    }
    let mut facts = corroborated.facts;
    facts.push(Fact::of(signal, watts, needed));
    Busy { ratio: 0.0, spun: corroborated.ratio, confidence: INFERRED, facts, ..corroborated }
}
