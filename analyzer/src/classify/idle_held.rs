//! `idle_held`: held and without work for so long that it is no pause.

use super::phase::{Course, Phase};
use super::{Class, Fact, Thresholds};

pub(super) const PHASE: Phase =
    Phase { class: Class::IdleHeld, mark: |course, cell, t| is_idle(course, cell, t).then(Vec::<Fact>::new) };

/// Is the cell one of a run without work that lasts for the idle window?
pub(super) fn is_idle(course: &Course<'_>, cell: usize, t: &Thresholds) -> bool {
    let rests = |i: &usize| course.is_held(*i) && course.busy(*i).is_some_and(|busy| busy <= t.idle_busy_ratio);
    let before = (0..cell).rev().take_while(rests);
    let after = (cell + 1..course.node.cells.len()).take_while(rests);
    let ms: i64 = before.chain(after).chain([cell]).map(|i| course.gpu.known_ms[i]).sum();
    rests(&cell) && ms as f64 >= t.idle_window_seconds * 1000.0
}
