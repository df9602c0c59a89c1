//! `no_demand`: a server held the GPU, and there were no requests for it.
//!
//! That no request is open when it is looked proves little of the time between; that besides none waits or was answered,
//! and the GPU did nothing, proves it.

use super::phase::{Course, Phase, nothing};
use super::{Cell, Class, Fact, Thresholds, idle_held};
use crate::signal::Signal;

pub(super) const PHASE: Phase = Phase { class: Class::NoDemand, takes_work: false, mark, missing: nothing };

fn mark(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    idle_held::mark(course, index, t)?;
    // The cells in which idleness begins and ends go with what is between them.
    let is_idle = |i: usize| i < course.node.cells.len() && idle_held::is_idle(course, i, t);
    let beside = || [index.checked_sub(1), Some(index + 1)].into_iter().flatten().filter(|i| is_idle(*i));
    if is_idle(index) { nothing_asked(course, index) } else { beside().find_map(|i| nothing_asked(course, i)) }
}

/// The requests of the cell, where they are known and there were none.
fn nothing_asked(course: &Course<'_>, index: usize) -> Option<Vec<Fact>> {
    let cell = Cell { node: course.node, gpu: course.gpu, owner: course.owner(index), index };
    let most = |signal: Signal| Some(Fact::of(signal, cell.read(signal)?.max, 0.0));
    let open = most(Signal::JobRequestsOpen)?;
    let others: Vec<Fact> = [Signal::JobRequestsWaiting, Signal::JobRequests].into_iter().filter_map(most).collect();
    let facts: Vec<Fact> = [open].into_iter().chain(others).collect();
    (facts.len() > 1 && facts.iter().all(|fact| fact.value == 0.0)).then_some(facts)
}
