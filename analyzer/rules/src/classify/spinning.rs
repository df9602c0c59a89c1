//! Kernels that keep the GPU at work without a pause and do nothing: those of a collective, until the other ranks are there.
//! Tensor cores are at rest, device memory nearly so, and the board draws little more than with an idle context.
//!
//! No comparison with other cells is needed: what lasts for hours is seen in its last minute as in its first.

use super::busy::Busy;
use super::thresholds::confidence::INFERRED;
use super::{Cell, Fact, Thresholds, power};
use crate::frame::Reading;
use crate::signal::Signal;

/// Share of the cell from which kernels leave no pause. Those of a collective are on the GPU until the last rank has come;
/// the rest is the scrape that reads a counter earlier than another.
pub(super) const GAPLESS: f64 = 0.9;

/// The same, with time in which kernels did nothing taken from the work.
pub(super) fn asked(busy: Busy, cell: &Cell<'_>, t: &Thresholds) -> Busy {
    let Some(told) = facts(&busy, cell, t) else { return busy };
    let facts = busy.facts.iter().copied().chain(told).collect();
    Busy { ratio: 0.0, spun: busy.ratio, confidence: busy.confidence.min(INFERRED), facts, ..busy }
}

/// What says that kernels did nothing in the whole cell, if every sample does.
fn facts(busy: &Busy, cell: &Cell<'_>, t: &Thresholds) -> Option<Vec<Fact>> {
    if !is_gapless(cell, busy.ratio) {
        return None;
    }
    let most = |signal, threshold| {
        let reading = cell.read(signal)?;
        (reading.max <= threshold).then(|| Fact::of(signal, reading.mean, threshold))
    };
    let mut facts =
        vec![most(Signal::TensorActive, t.tensor_unused_ratio)?, most(Signal::DramActive, t.spinning_dram_ratio)?];
    if cell.read(Signal::SmActive).is_some() {
        facts.push(most(Signal::SmActive, t.spinning_sm_ratio)?);
    }
    let (signal, watts) = power::drawn(cell)?;
    let line = power::level(cell, t.spinning_power_ratio)?;
    facts.push(Fact::of(signal, watts, line));
    (watts < line).then_some(facts)
}

/// Did kernels run without a pause, by the busy signal and by every sample of the utilisation?
pub(super) fn is_gapless(cell: &Cell<'_>, busy: f64) -> bool {
    let is_full = |reading: &Reading| reading.min >= GAPLESS;
    busy >= GAPLESS && cell.read(Signal::GpuUtilization).is_none_or(is_full)
}
