//! `cold_start`: from the claim of a GPU to its first sustained work.

use super::phase::{Course, Phase, nothing};
use super::{Cell, Class, Fact, Thresholds};
use crate::signal::Signal;

pub(super) const VERSION: u32 = 2;

pub(super) const PHASE: Phase = Phase { class: Class::ColdStart, takes_work: false, mark, missing: nothing };

/// What tells reading a model from compiling and from waiting for images and drivers.
const TELLING: [Signal; 3] = [Signal::JobRead, Signal::JobCpuUsage, Signal::FbUsed];

fn mark(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    starting_since(course, index, t)?;
    let cell = Cell { node: course.node, gpu: course.gpu, owner: course.owner(index), index };
    let told = TELLING.into_iter().filter_map(|signal| Some(Fact::of(signal, cell.mean(signal)?, 0.0)));
    Some(told.collect())
}

/// The cell in which the GPU was taken, if there was no sustained work since.
pub(super) fn starting_since(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<usize> {
    let cells = &course.node.cells;
    let limit_ms = (t.cold_start_seconds * 1000.0) as i64;
    let held = (0..=index).rev().take_while(|i| course.is_held(*i));
    let begun = held.take_while(|i| cells[index].end - cells[*i].start <= limit_ms).find(|i| begins(course, *i))?;
    if (begun..index).any(|i| works(course, i, t)) || works(course, index, t) && !gets_going(course, index, t) {
        return None;
    }
    Some(begun)
}

/// Was the GPU taken in this cell, from nobody or from another owner? Behind a hole in the data nobody knows.
fn begins(course: &Course<'_>, cell: usize) -> bool {
    let Some(before) = cell.checked_sub(1) else { return false };
    let owners = (course.owner(before), course.owner(cell));
    let changed = matches!(owners, (Some(before), Some(now)) if before != now);
    changed || course.state(before).held.is_no()
}

/// Does sustained work go on in the cell: work that goes on in the next one, as far as that is known?
pub(super) fn works(course: &Course<'_>, cell: usize, t: &Thresholds) -> bool {
    let is_work = |busy: f64| busy >= t.sustained_busy_ratio;
    course.busy(cell).is_some_and(is_work) && course.busy(cell + 1).is_none_or(is_work)
}

/// Does work begin within the cell, so that there is more of it in the next? What is before is still the start.
pub(super) fn gets_going(course: &Course<'_>, cell: usize, t: &Thresholds) -> bool {
    let (now, next) = (course.busy(cell), course.busy(cell + 1));
    now.zip(next).is_some_and(|(now, next)| next >= now + t.sustained_busy_ratio)
}
