//! `idle_held`: held and without work for so long that it is no pause, and not because the job writes.

use super::phase::{Course, Phase, nothing};
use super::writing::{all_stop, writing};
use super::{Cell, Class, Fact, Thresholds, server_clock};
use crate::signal::{Scope, Signal};

pub(super) const PHASE: Phase = Phase { class: Class::IdleHeld, takes_work: false, mark, missing: nothing };

/// A server that tells how long it had requests is judged by that, and one with open requests is not idle by its owner's doing.
fn mark(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let cell = Cell::of(course.node, course.gpu, course.owner(index), index);
    let has_requests = [Signal::JobRequestsOpen, Signal::JobRequestsWaiting]
        .iter()
        .any(|signal| cell.read(*signal).is_some_and(|requests| requests.max > 0.0));
    idles(course, index, t).filter(|_| !has_requests && server_clock::split(&cell, t).is_none())
}

/// Is it held without work for so long that it is no pause, and not because the job writes?
pub(super) fn idles(course: &Course<'_>, cell: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let is_it = is_idle(course, cell, t) || is_border(course, cell, t);
    (is_it && !writes(course, cell, t)).then(Vec::new)
}

/// Does the job write its results or its state? Who reaps it then loses them. What a node writes may be its holder's where
/// the GPUs stop for it, and this one worked shortly before.
fn writes(course: &Course<'_>, index: usize, t: &Thresholds) -> bool {
    let cell = Cell::of(course.node, course.gpu, course.owner(index), index);
    let of_job = [Signal::JobWritten, Signal::JobStorageWritten].into_iter().filter_map(|signal| cell.mean(signal));
    if of_job.reduce(f64::max).is_some_and(|written| written >= t.idle_written_bytes) {
        return true;
    }
    let Some(found) = writing(&cell).filter(|found| found.signal.scope() == Scope::Node) else { return false };
    let worked = |i: usize| course.busy(i).is_some_and(|busy| busy >= t.sustained_busy_ratio);
    let before = course.node.around(index, t.around_seconds).start..index;
    found.reading.mean >= t.checkpoint_bytes && all_stop(&cell, &found.reading, t) && before.into_iter().any(worked)
}

/// Does work end in the cell and the run without work begin, or the other way round? On its other side there is more
/// work than in it.
fn is_border(course: &Course<'_>, cell: usize, t: &Thresholds) -> bool {
    let (before, after) = (cell.checked_sub(1), Some(cell + 1).filter(|i| *i < course.node.cells.len()));
    let (Some(before), Some(after), Some(own)) = (before, after, course.busy(cell)) else { return false };
    let idles = |i: usize| is_idle(course, i, t);
    let works = |i: usize| course.busy(i).is_some_and(|busy| busy >= own + t.sustained_busy_ratio);
    idles(before) && works(after) || idles(after) && works(before)
}

/// Is the cell one of a run without work that lasts for the idle window?
pub(super) fn is_idle(course: &Course<'_>, cell: usize, t: &Thresholds) -> bool {
    let rests = |i: &usize| course.is_held(*i) && course.rests(*i, t) == Some(true);
    let before = (0..cell).rev().take_while(rests);
    let after = (cell + 1..course.node.cells.len()).take_while(rests);
    let ms: i64 = before.chain(after).chain([cell]).map(|i| course.gpu.known_ms[i]).sum();
    rests(&cell) && ms as f64 >= t.idle_window_seconds * 1000.0
}
