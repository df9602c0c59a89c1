//! `clock_locked`: the GPU worked at a clock that was fixed below the clocks of similar GPUs under similar load.
//!
//! No signal reports a lock. It is inferred for a busy GPU whose clock stays at one value, below what is possible,
//! while neither heat nor power limits it. A clock as high as those of similar GPUs costs nothing, and is an advisory
//! where it is below the highest that the GPU can do.

use super::advisory::Adviser;
use super::derate::{Derate, clock, is_usual_clock, usual_clock};
use super::intervals::Grounds;
use super::thresholds::confidence::INFERRED;
use super::{Advice, Cell, Class, Fact, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const DERATE: Derate = Derate { class: Class::ClockLocked, judge };
pub(super) const ADVISER: Adviser =
    Adviser { advice: Advice::ClockLocked, charged_as: &[Class::ClockLocked], judge: advise };

/// What else lowers clocks; the last is not known everywhere.
const LIMITS: [Signal; 3] = [Signal::GpuThermalSlowdown, Signal::GpuPowerCapped, Signal::GpuPowerBrake];

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let missing: Vec<Signal> = LIMITS[..2].iter().copied().filter(|limit| cell.mean(*limit).is_none()).collect();
    if !missing.is_empty() {
        return Verdict::Abstain { missing };
    }
    let Some(fixed) = fixed_clock(cell, t) else { return Verdict::No };
    if is_usual_clock(cell, t, |usual| fixed >= usual * t.locked_clock_ratio) == Some(true) {
        return Verdict::No;
    }
    let Some(usual) = usual_clock(cell, t, |_| true) else { return Verdict::without(&[Signal::SmClock]) };
    let facts = vec![Fact::of(Signal::SmClock, fixed, usual)];
    Verdict::Claim { max_share: 1.0 - fixed / usual, confidence: INFERRED, facts }
}

fn advise(cell: &Cell<'_>, t: &Thresholds) -> Option<Grounds> {
    LIMITS[..2].iter().all(|limit| cell.mean(*limit).is_some()).then_some(())?;
    let (fixed, highest) = (fixed_clock(cell, t)?, cell.mean(Signal::SmMaxClock)?);
    let facts = vec![Fact::of(Signal::SmClock, fixed, highest * t.locked_clock_ratio)];
    (fixed < highest * t.locked_clock_ratio).then_some(Grounds { confidence: INFERRED, facts, missing: Vec::new() })
}

/// The clock, in hertz, of a busy GPU that nothing limits and that has the same one in this cell and in an adjacent
/// one.
fn fixed_clock(cell: &Cell<'_>, t: &Thresholds) -> Option<f64> {
    let is_limited = LIMITS.iter().any(|limit| cell.mean(*limit).is_some_and(|share| share >= t.claim_floor));
    let reading = cell.read(Signal::SmClock)?;
    let here = clock(cell, t).filter(|_| !is_limited && reading.max - reading.min <= t.clock_step_hertz)?;
    let beside = [cell.index.checked_sub(1), Some(cell.index + 1).filter(|i| *i < cell.node.cells.len())];
    let mut beside = beside.into_iter().flatten().filter_map(|index| clock(&Cell { index, ..*cell }, t));
    beside.any(|clock| (clock - here).abs() <= t.clock_step_hertz).then_some(here)
}
