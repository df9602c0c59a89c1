//! Does anything hold the GPU?

use super::thresholds::confidence::{COUNTED, INFERRED};
use super::{Cell, Fact, Thresholds, power};
use crate::signal::Signal;

/// Whether something holds the GPU for most of what is known of the cell, and what says so.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Held {
    Yes { confidence: f64, fact: Option<Fact> },
    No { confidence: f64, fact: Fact },
    Unknown,
}

impl Held {
    /// Is it known that nothing holds it?
    pub(super) fn is_no(&self) -> bool {
        matches!(self, Held::No { .. })
    }
}

/// What would tell, when it is not known.
pub(super) const SIGNALS: [Signal; 4] = [Signal::GpuOwner, Signal::GpuProcesses, Signal::FbUsed, Signal::GpuPower];

/// A scheduler's or the exporter's claim first, then processes, then memory in use, then power. The absence of an owner
/// proves nothing: attribution may not be set up.
pub(super) fn held(cell: &Cell<'_>, t: &Thresholds) -> Held {
    let owned_ms: i64 = cell.gpu.owners[cell.index].iter().map(|(_, ms)| ms).sum();
    if owned_ms > 0 && 2 * owned_ms >= cell.gpu.known_ms[cell.index] {
        return Held::Yes { confidence: COUNTED, fact: None };
    }
    let verdict = |signal, yes: bool, value, threshold, confidence| {
        let fact = Fact::of(signal, value, threshold);
        if yes { Held::Yes { confidence, fact: Some(fact) } } else { Held::No { confidence, fact } }
    };
    let most_of_the_time = |signal, floor: f64, confidence| {
        let reading = cell.read(signal)?;
        // A cell in which it was held for a part only has a level near zero too: the mean over the other is the share.
        let for_a_part = reading.max >= floor && 2.0 * reading.mean >= reading.max;
        let yes = reading.min >= floor || for_a_part;
        Some(verdict(signal, yes, reading.mean, floor, confidence))
    };
    let draws_power = || {
        let (watts, context) = (cell.mean(Signal::GpuPower)?, power::model(cell)?.context?);
        Some(verdict(Signal::GpuPower, watts >= context, watts, context, INFERRED))
    };
    most_of_the_time(Signal::GpuProcesses, ONE_PROCESS, COUNTED)
        .or_else(|| most_of_the_time(Signal::FbUsed, t.held_fb_bytes, INFERRED))
        .or_else(draws_power)
        .unwrap_or(Held::Unknown)
}

const ONE_PROCESS: f64 = 1.0;
