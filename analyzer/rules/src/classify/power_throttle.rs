//! `power_throttle`: the GPU was kept below the clocks of similar GPUs, by a power limit below the stock one or by the
//! board's power brake.
//!
//! At the stock limit the power cap is how the GPU is meant to work under full load, and no loss.

use super::advisory::Adviser;
use super::derate::{Derate, clock, lost_share, usual_clock};
use super::intervals::Grounds;
use super::thresholds::confidence::{COUNTED, INFERRED};
use super::{Advice, Cell, Class, Fact, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const DERATE: Derate = Derate { class: Class::PowerThrottle, judge };
pub(super) const ADVISER: Adviser =
    Adviser { advice: Advice::PowerCapped, charged_as: &[Class::PowerThrottle], judge: advise };

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let (brake, capped) = (cell.mean(Signal::GpuPowerBrake), cell.mean(Signal::GpuPowerCapped));
    let lowered = lowered(cell, t);
    let held_down = match (brake, capped, lowered) {
        (Some(brake), _, _) if brake >= t.claim_floor => Fact::of(Signal::GpuPowerBrake, brake, t.claim_floor),
        (_, Some(capped), Some(_)) if capped >= t.claim_floor => {
            Fact::of(Signal::GpuPowerCapped, capped, t.claim_floor)
        }
        (None, None, _) => return Verdict::without(&[Signal::GpuPowerCapped]),
        _ => return Verdict::No,
    };
    let is_free = |cell: &Cell<'_>| {
        let brake = cell.mean(Signal::GpuPowerBrake).unwrap_or_default();
        brake < t.claim_floor && self::lowered(cell, t).is_none()
    };
    let (Some(clock), Some(usual)) = (clock(cell, t), usual_clock(cell, t, is_free)) else {
        return Verdict::without(&[Signal::SmClock]);
    };
    Verdict::Claim {
        max_share: lost_share(held_down.value, clock, usual),
        confidence: INFERRED,
        facts: [Some(held_down), lowered, Some(Fact::of(Signal::SmClock, clock, usual))]
            .into_iter()
            .flatten()
            .collect(),
    }
}

/// At the stock limit for most of the time at work.
fn advise(cell: &Cell<'_>, t: &Thresholds) -> Option<Grounds> {
    clock(cell, t)?;
    cell.mean(Signal::GpuPowerLimitDefault)?;
    let capped = cell.mean(Signal::GpuPowerCapped)?;
    let facts = vec![Fact::of(Signal::GpuPowerCapped, capped, t.power_capped_ratio)];
    let is_advised = capped >= t.power_capped_ratio && lowered(cell, t).is_none();
    is_advised.then_some(Grounds { confidence: COUNTED, facts, missing: Vec::new() })
}

/// That the limit in force is below the stock one.
fn lowered(cell: &Cell<'_>, t: &Thresholds) -> Option<Fact> {
    let (limit, stock) = (cell.mean(Signal::GpuPowerLimit)?, cell.mean(Signal::GpuPowerLimitDefault)?);
    let floor = stock * t.stock_power_ratio;
    (limit < floor).then(|| Fact::of(Signal::GpuPowerLimit, limit, floor))
}
