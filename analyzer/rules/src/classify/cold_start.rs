//! `cold_start`: from the claim of a GPU to its first sustained work.

use std::ops::RangeInclusive;

use super::phase::{Course, Phase, nothing};
use super::work::{grows, is_sustained};
use super::{Cell, Class, Fact, Thresholds, gang_wait};
use crate::signal::Signal;

pub(super) const PHASE: Phase = Phase { class: Class::ColdStart, takes_work: false, mark, missing: nothing };

/// What tells reading a model from compiling and from waiting for images and drivers.
const TELLING: [Signal; 3] = [Signal::JobRead, Signal::JobCpuUsage, Signal::FbUsed];

fn mark(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let cell = Cell::of(course.node, course.gpu, course.owner(index), index);
    if starting_since(course, index, t).is_none() && !goes_on(&cell, t) {
        return None;
    }
    let told = TELLING.into_iter().filter_map(|signal| Some(Fact::of(signal, cell.mean(signal)?, 0.0)));
    Some(told.collect())
}

/// Is the cell part of a long start, soon after the last of the owner's GPUs had come or while the owner works for it?
pub(super) fn goes_on(cell: &Cell<'_>, t: &Thresholds) -> bool {
    let Some(start) = cell.node.long_starts.of(cell) else { return false };
    let span = &cell.node.cells[cell.index];
    let complete_ms = start.complete_ms();
    let is_soon = complete_ms <= span.start && span.end - complete_ms <= (t.cold_start_seconds * 1000.0) as i64;
    // What the work takes that follows is no part of it.
    let until_now = cell.node.around(cell.index, t.idle_window_seconds).start..=cell.index;
    let mut starts = until_now.map(|index| Cell { index, ..*cell }).filter(|near| start.has(near));
    is_soon || starts.any(|near| prepares(&near, t))
}

/// Does the owner do more than wait?
fn prepares(cell: &Cell<'_>, t: &Thresholds) -> bool {
    gang_wait::activity(cell, t).is_some_and(|facts| facts.iter().any(|fact| fact.value > fact.threshold))
}

/// The cell in which the GPU was taken, if there was no sustained work since.
pub(super) fn starting_since(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<usize> {
    let cells = &course.node.cells;
    let limit_ms = (t.cold_start_seconds * 1000.0) as i64;
    let held = (0..=index).rev().take_while(|i| course.is_held(*i));
    let begun = held.take_while(|i| cells[index].end - cells[*i].start <= limit_ms).find(|i| begins(course, *i))?;
    if waits_after_work(course, begun..=index, t) {
        return None;
    }
    if (begun..index).any(|i| works(course, i, t)) || works(course, index, t) && !gets_going(course, index, t) {
        return None;
    }
    Some(begun)
}

/// Did kernels spin once there had been any work? Other ranks are waited for then, and the start is over.
fn waits_after_work(course: &Course<'_>, cells: RangeInclusive<usize>, t: &Thresholds) -> bool {
    let worked = |index: &usize| course.busy(*index).is_some_and(|busy| busy > t.idle_busy_ratio);
    let spins = |index: usize| course.state(index).busy.as_ref().is_some_and(|b| b.spun >= t.sustained_busy_ratio);
    cells.skip_while(|index| !worked(index)).any(spins)
}

/// Was the GPU free or another owner's until this cell, and taken in it? After a hole in the data this is unknown.
fn begins(course: &Course<'_>, cell: usize) -> bool {
    let Some(before) = cell.checked_sub(1) else { return false };
    let owners = (course.owner(before), course.owner(cell));
    let changed = matches!(owners, (Some(before), Some(now)) if before != now);
    changed || course.state(before).held.is_no()
}

/// Does sustained work go on in the cell: work that goes on in the next one, as far as that is known?
pub(super) fn works(course: &Course<'_>, cell: usize, t: &Thresholds) -> bool {
    is_sustained(|index| course.busy(index), cell, t) || is_utilised(course, cell, t)
}

/// Does the driver see kernels for the most of two cells in a row, that do not spin? The count of engines is low where
/// kernels are small.
fn is_utilised(course: &Course<'_>, cell: usize, t: &Thresholds) -> bool {
    let utilised = |index: usize| {
        let told = Cell::of(course.node, course.gpu, None, index).mean(Signal::GpuUtilization);
        let spins = course.state(index).busy.as_ref().is_some_and(|busy| busy.spun > 0.0);
        !spins && told.is_some_and(|share| share >= t.derate_busy_ratio)
    };
    utilised(cell) && cell + 1 < course.node.cells.len() && utilised(cell + 1)
}

/// Does work begin within the cell, so that there is more of it in the next? What is before is still the start.
pub(super) fn gets_going(course: &Course<'_>, cell: usize, t: &Thresholds) -> bool {
    grows(|index| course.busy(index), cell, t)
}
