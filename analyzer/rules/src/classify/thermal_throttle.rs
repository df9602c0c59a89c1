//! `thermal_throttle`: the GPU was too hot for the clocks that similar GPUs had under similar load.

use super::derate::{Derate, clock, lost_share, usual_clock};
use super::thresholds::confidence::INFERRED;
use super::{Cell, Class, Fact, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const DERATE: Derate = Derate { class: Class::ThermalThrottle, judge };

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let Some(hot) = cell.mean(Signal::GpuThermalSlowdown) else {
        return Verdict::without(&[Signal::GpuThermalSlowdown]);
    };
    if hot < t.claim_floor {
        return Verdict::No;
    }
    let is_cool = |cell: &Cell<'_>| cell.mean(Signal::GpuThermalSlowdown).is_some_and(|hot| hot < t.claim_floor);
    let (Some(clock), Some(usual)) = (clock(cell, t), usual_clock(cell, t, is_cool)) else {
        return Verdict::without(&[Signal::SmClock]);
    };
    Verdict::Claim {
        max_share: lost_share(hot, clock, usual),
        confidence: INFERRED,
        facts: vec![Fact::of(Signal::GpuThermalSlowdown, hot, t.claim_floor), Fact::of(Signal::SmClock, clock, usual)],
    }
}
