//! `no_demand`: a server held the GPU, and there were no requests for it.
//!
//! That no request is open when it is looked proves little of the time between; that besides none waits or was answered,
//! and the GPU did nothing, proves it.

use super::phase::{Course, Phase, nothing};
use super::{Cell, Class, Fact, Thresholds, idle_held};
use crate::signal::Signal;

pub(super) const PHASE: Phase = Phase { class: Class::NoDemand, takes_work: false, mark, missing: nothing };

/// Cells at either end that go with those that are proven: one in which work ends or begins, and the next one.
const BORDER: usize = 2;

fn mark(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    idle_held::mark(course, index, t)?;
    // The cells in which idleness begins and ends go with what is between them: a level holds until the next scrape.
    let near = index.saturating_sub(BORDER)..(index + BORDER + 1).min(course.node.cells.len());
    near.filter(|i| idle_held::is_idle(course, *i, t)).find_map(|i| nothing_asked(course, i))
}

/// The requests of the cell, where they are known and there were none.
fn nothing_asked(course: &Course<'_>, index: usize) -> Option<Vec<Fact>> {
    let cell = Cell { node: course.node, gpu: course.gpu, owner: course.owner(index), index };
    let most = |signal: Signal| Some(Fact::of(signal, cell.read(signal)?.max, 0.0));
    let open = most(Signal::JobRequestsOpen)?;
    // A server that does not report waiting requests reports how many it answered between two scrapes, one perhaps
    // earlier.
    let other = most(Signal::JobRequestsWaiting).or_else(|| most(Signal::JobRequests))?;
    let facts = vec![open, other];
    facts.iter().all(|fact| fact.value == 0.0).then_some(facts)
}
