//! What the rank that comes last says of the others. Ranks of a run do the same work in each step. One that is late has
//! kernels for a part of the time only, and its part is what the work takes. A rank that has kernels for longer, and does no
//! more with them, waited for the rest of its time.
//!
//! Both are looked at in the same cell, so that waiting from the first step to the last is seen.

use super::depth::Lost;
use super::thresholds::confidence::INFERRED;
use super::work::work;
use super::{Cell, Fact, Thresholds};
use crate::frame::Activity;
use crate::signal::Signal;

/// What shows work, in the order of [`Activity::of`].
const SIGNALS: [Signal; 3] = [Signal::TensorActive, Signal::DramActive, Signal::SmActive];

/// The share of its busy time for which the GPU waited, by the least busy rank of its run that did the same work: on its
/// node one of the same model.
pub(super) fn lost(cell: &Cell<'_>, others: &[Cell<'_>], t: &Thresholds) -> Option<Lost> {
    let own = activity(cell, t)?;
    let alike = others.iter().filter(|other| other.gpu.model == cell.gpu.model);
    let ranks = alike.filter_map(|other| activity(other, t)).chain(cell.elsewhere().late);
    let late = ranks.filter(|rank| rank.busy <= own.busy - t.straggler_ratio && is_same_work(own, *rank, t));
    let late = late.reduce(|a, b| if b.busy < a.busy { b } else { a })?;
    let ratio = |signal, value, threshold| Fact { signal, unit: "ratio", value, threshold };
    let told = SIGNALS.into_iter().zip(own.of).zip(late.of);
    let told = told.filter_map(|((signal, own), other)| Some(ratio(signal.name(), own?, other?)));
    let facts = [ratio("busy of a rank that did the same work", late.busy, own.busy)].into_iter().chain(told).collect();
    Some(Lost { share: 1.0 - late.busy / own.busy, confidence: INFERRED, facts })
}

/// What the GPU does, if it works and does not only spin.
pub(super) fn activity(cell: &Cell<'_>, t: &Thresholds) -> Option<Activity> {
    let busy = work(cell, t).filter(|work| work.spun == 0.0 && work.ratio >= t.sustained_busy_ratio)?.ratio;
    Some(Activity { busy, of: SIGNALS.map(|signal| cell.mean(signal)) })
}

/// The less busy of both.
pub(super) fn later(one: Option<Activity>, other: Option<Activity>) -> Option<Activity> {
    let both = one.into_iter().chain(other);
    both.reduce(|a, b| if b.busy < a.busy { b } else { a })
}

/// Do both do the same work, by every measure that both have, though the first has kernels for longer? What these show if
/// they spin is allowed for.
fn is_same_work(own: Activity, late: Activity, t: &Thresholds) -> bool {
    let spinning = [0.0, t.spinning_dram_ratio, t.spinning_sm_ratio].map(|most| most * (own.busy - late.busy));
    let pairs = own.of.into_iter().zip(late.of).zip(spinning);
    let pairs = pairs.filter_map(|((own, late), spinning)| Some((own?, late?, spinning)));
    let (mut count, mut same) = (0, 0);
    for (own, late, spinning) in pairs.filter(|(own, late, _)| own.max(*late) >= t.depth_floor_ratio) {
        count += 1;
        let is_same = own - spinning <= late * (1.0 + t.shallow_ratio) && own >= late * (1.0 - t.shallow_ratio);
        same += usize::from(is_same);
    }
    count > 0 && same == count
}
