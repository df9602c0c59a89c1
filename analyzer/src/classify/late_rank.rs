//! What the rank that comes last says of the others. Ranks of a run do the same work in each step. One that is late has
//! kernels for a part of the time only, and its part is what the work takes. A rank that has kernels for longer, and does no
//! more with them, waited for the rest of its time.
//!
//! Both are looked at in the same cell, so that waiting from the first step to the last is seen.

use super::depth::{Lost, exchanged};
use super::thresholds::confidence::INFERRED;
use super::work::work;
use super::{Cell, Fact, Thresholds};

/// The share of its busy time for which the GPU waited, by the least busy rank on the node that did the same work.
pub(super) fn lost(cell: &Cell<'_>, others: &[Cell<'_>], t: &Thresholds) -> Option<Lost> {
    let own = work(cell, t)?.ratio;
    let busy = |other: &Cell<'_>| work(other, t).filter(|work| work.spun == 0.0).map(|work| work.ratio);
    let late =
        others.iter().filter(|other| other.gpu.model == cell.gpu.model).filter_map(|other| Some((busy(other)?, other)));
    let late = late.filter(|(busy, _)| (t.sustained_busy_ratio..=own - t.straggler_ratio).contains(busy));
    let (busy, facts) = late
        .filter_map(|(busy, other)| Some((busy, exchanged(cell, other, own - busy, t)?)))
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    let fact = Fact { signal: "busy of a rank that did the same work", unit: "ratio", value: busy, threshold: own };
    let facts = [fact].into_iter().chain(facts).collect();
    Some(Lost { share: 1.0 - busy / own, confidence: INFERRED, facts })
}
