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
pub(super) fn signals(cell: &Cell<'_>) -> &'static [Signal] {
    let is_cut = !cell.gpu.cut.layouts(cell.index).is_empty();
    if is_cut { &[Signal::MigSlices, Signal::MigCapacity] } else { &SIGNALS }
}

const SIGNALS: [Signal; 4] = [Signal::GpuOwner, Signal::GpuProcesses, Signal::FbUsed, Signal::GpuPower];

/// No owner holds the part of a cut GPU that no instance has; `Unknown` where its size is unknown. `None` for an
/// instance, and where the GPU is whole. Switching takes a reset, so that no owner holds the GPU around that either.
pub(super) fn rest_of_cut(cell: &Cell<'_>) -> Option<Held> {
    let (layouts, slices) = (cell.gpu.cut.layouts(cell.index), cell.gpu.cut.slices);
    let whole: i64 = layouts.iter().map(|layout| layout.ms).sum();
    if whole == 0 {
        return None;
    }
    let taken: Option<f64> = layouts.iter().map(|layout| Some(f64::from(layout.slices?) * layout.ms as f64)).sum();
    let no = |(taken, slices): (f64, u32)| Held::No {
        confidence: COUNTED,
        fact: Fact::of(Signal::MigSlices, taken / whole as f64, f64::from(slices)),
    };
    Some(taken.zip(slices).map_or(Held::Unknown, no))
}

/// Whether something holds it, if only for the part of the cell that [`free_share`] leaves.
pub(super) fn held(cell: &Cell<'_>, t: &Thresholds) -> Held {
    match for_the_most(cell, t) {
        Held::No { .. } if free_share(cell, t) > 0.0 => Held::Yes { confidence: COUNTED, fact: None },
        held => held,
    }
}

/// The share of what is known of the cell in which no owner held it, because its owner came or went within.
pub(super) fn free_share(cell: &Cell<'_>, t: &Thresholds) -> f64 {
    let (owned_ms, known_ms) = (owned_ms(cell), cell.gpu.known_ms[cell.index]);
    if owned_ms == 0 || owned_ms >= known_ms {
        return 0.0;
    }
    let beside = [cell.index.checked_sub(1), Some(cell.index + 1).filter(|index| *index < cell.node.cells.len())];
    let is_free = |index| {
        let beside = Cell { index, ..*cell };
        self::owned_ms(&beside) == 0 && for_the_most(&beside, t).is_no()
    };
    if beside.into_iter().flatten().any(is_free) { 1.0 - owned_ms as f64 / known_ms as f64 } else { 0.0 }
}

fn owned_ms(cell: &Cell<'_>) -> i64 {
    cell.gpu.owners[cell.index].iter().map(|(_, ms)| ms).sum()
}

/// A scheduler's or the exporter's claim first, then processes, then memory in use, then power. The absence of an owner
/// proves nothing: attribution may not be set up.
fn for_the_most(cell: &Cell<'_>, t: &Thresholds) -> Held {
    let owned_ms = owned_ms(cell);
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
