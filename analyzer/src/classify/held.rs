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

/// What would tell, when it is not known.
pub(super) const SIGNALS: [Signal; 4] = [Signal::GpuOwner, Signal::GpuProcesses, Signal::FbUsed, Signal::GpuPower];

/// A scheduler's or the exporter's claim first, then processes, then memory in use, then power. The absence of an owner
/// proves nothing: attribution may not be set up.
pub(super) fn held(cell: &Cell<'_>, t: &Thresholds) -> Held {
    let owned_ms: i64 = cell.gpu.owners[cell.index].iter().map(|(_, ms)| ms).sum();
    if owned_ms > 0 && 2 * owned_ms >= cell.gpu.known_ms[cell.index] {
        return Held::Yes { confidence: COUNTED, fact: None };
    }
    let threshold = |signal, above: f64, confidence| {
        let value = cell.mean(signal)?;
        let fact = Fact::of(signal, value, above);
        Some(if value >= above { Held::Yes { confidence, fact: Some(fact) } } else { Held::No { confidence, fact } })
    };
    let context = power::model(cell).and_then(|m| m.context);
    threshold(Signal::GpuProcesses, HALF_OF_THE_TIME, COUNTED)
        .or_else(|| threshold(Signal::FbUsed, t.held_fb_bytes, INFERRED))
        .or_else(|| threshold(Signal::GpuPower, context?, INFERRED))
        .unwrap_or(Held::Unknown)
}

/// Mean number of processes that one process makes which is there for half of the time.
const HALF_OF_THE_TIME: f64 = 0.5;
