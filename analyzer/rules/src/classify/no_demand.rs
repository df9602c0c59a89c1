//! `no_demand`: a server held the GPU, and no request was open.
//!
//! Pauses of minutes are a phase: that no request is open when it is looked proves little of the time between; that besides
//! none waits or was answered, and the GPU did nothing, proves it. Shorter ones follow from the server's own clock.

use super::phase::{Course, Phase, nothing};
use super::server_clock::{self, split};
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict, idle_held};
use crate::signal::Signal;

pub(super) const PHASE: Phase = Phase { class: Class::NoDemand, takes_work: false, mark, missing: nothing };

/// Where no request is open, nothing else is what the GPU waits for.
pub(super) const RULE: Rule = Rule {
    class: Class::NoDemand,
    explains: &[
        Class::CollectiveWait,
        Class::LaunchBound,
        Class::CpuThrottled,
        Class::CrossNuma,
        Class::IrqPlacement,
        Class::HostNoise,
        Class::ThpCompaction,
        Class::MemoryPressure,
        Class::PcieDegraded,
        Class::HostToDevice,
        Class::ServingHost,
    ],
    judge,
};

/// Cells at either end that go with those that are proven: one in which work ends or begins, and the next one.
const BORDER: usize = 2;

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let Some(split) = split(cell, t) else { return server_clock::untold(cell) };
    Verdict::Claim { max_share: split.without_requests, confidence: split.confidence, facts: vec![split.active] }
}

fn mark(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    idle_held::idles(course, index, t)?;
    // The cells in which idleness begins and ends go with what is between them: a level holds until the next scrape.
    let near = index.saturating_sub(BORDER)..(index + BORDER + 1).min(course.node.cells.len());
    near.filter(|i| idle_held::is_idle(course, *i, t)).find_map(|i| nothing_asked(course, i))
}

/// The requests of the cell, where they are known and there were none.
fn nothing_asked(course: &Course<'_>, index: usize) -> Option<Vec<Fact>> {
    let cell = Cell::of(course.node, course.gpu, course.owner(index), index);
    let most = |signal: Signal| Some(Fact::of(signal, cell.read(signal)?.max, 0.0));
    let open = most(Signal::JobRequestsOpen)?;
    // A server that does not report waiting requests reports how many it answered between two scrapes, one perhaps
    // earlier.
    let other = most(Signal::JobRequestsWaiting).or_else(|| most(Signal::JobRequests))?;
    let facts = vec![open, other];
    facts.iter().all(|fact| fact.value == 0.0).then_some(facts)
}
