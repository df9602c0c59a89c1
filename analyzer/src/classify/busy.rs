//! How much of a cell the GPU worked, from the best signal there is.

use super::thresholds::confidence::{COUNTED, INFERRED, WEAK};
use super::{Cell, Fact, Thresholds, power, sampling};
use crate::signal::{Signal, named_in};

pub(super) const VERSION: u32 = 1;

/// The share of a cell that was work.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Busy {
    /// 0 to 1.
    pub(super) ratio: f64,
    /// The share in which kernels ran and did no work: they spun, as kernels of a collective do until all ranks are
    /// there.
    pub(super) spun: f64,
    /// The rung of the ladder that said so.
    pub(super) rung: &'static str,
    pub(super) confidence: f64,
    pub(super) facts: Vec<Fact>,
    /// Variance of the busy time by sampling, in ms².
    pub(super) variance_ms2: f64,
}

/// The signals of the ladder: what is missing when none of them is there.
pub(crate) const LADDER: [Signal; 4] =
    [Signal::GpuBusy, Signal::GrEngineActive, Signal::SmActive, Signal::GpuUtilization];

/// The name of the lowest rung when power agrees with it.
const CORROBORATED: &str = "gpu_utilization_and_power";

/// The signals behind a rung, as [`Interval::busy_signal`](super::Interval::busy_signal) names it.
#[must_use]
pub fn busy_signals(rung: &str) -> Vec<Signal> {
    if rung == CORROBORATED { vec![Signal::GpuUtilization, Signal::GpuPower] } else { named_in(rung) }
}

/// Climbs down the ladder. `None` where no signal says anything.
pub(super) fn busy(cell: &Cell<'_>, t: &Thresholds) -> Option<Busy> {
    let told = |signal| if signal == Signal::GpuBusy { exporter(cell) } else { cell.mean(signal) };
    let mut rungs = LADDER.into_iter().zip([COUNTED, COUNTED, INFERRED, WEAK]);
    let (signal, ratio, confidence) =
        rungs.find_map(|(signal, confidence)| Some((signal, told(signal)?, confidence)))?;
    let fact = Fact { signal: signal.name(), unit: "ratio", value: ratio, threshold: t.idle_busy_ratio };
    let variance_ms2 = sampling::variance_ms2(cell, signal);
    let busy = Busy { ratio, spun: 0.0, rung: signal.name(), confidence, facts: vec![fact], variance_ms2 };
    Some(asked_of_power(busy, cell, t))
}

/// The exporter's busy time over the time that it had driver samples for.
fn exporter(cell: &Cell<'_>) -> Option<f64> {
    let observed = cell.mean(Signal::GpuObserved).filter(|o| *o > 0.0)?;
    let ratio = cell.mean(Signal::GpuBusy)? / observed;
    (ratio <= 1.0 + ROUNDING).then_some(ratio.min(1.0))
}

/// Two counters that grew alike differ by rounding only; a ratio above this is a contradiction, not a reading.
const ROUNDING: f64 = 1e-6;

/// Kernels that spin in a collective keep the engine and the utilisation at 100 %, but hardly draw power.
fn asked_of_power(busy: Busy, cell: &Cell<'_>, t: &Thresholds) -> Busy {
    let needed = power::working_watts(cell, busy.ratio, t.power_near_idle_ratio);
    let (Some((signal, watts)), Some(needed)) = (power::drawn(cell), needed) else { return busy };
    let corroborated = if busy.rung == Signal::GpuUtilization.name() {
        Busy { rung: CORROBORATED, confidence: INFERRED, ..busy }
    } else {
        busy
    };
    if corroborated.ratio < t.power_check_ratio || watts >= needed {
        return corroborated;
    }
    let mut facts = corroborated.facts;
    facts.push(Fact::of(signal, watts, needed));
    Busy { ratio: 0.0, spun: corroborated.ratio, confidence: INFERRED, facts, ..corroborated }
}
