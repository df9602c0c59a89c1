//! `cold_start` of a server: from the claim of the GPU, or the end of the server before, until the server reports requests.
//! Pulling the image, loading weights and warming up are parts of it, and so is the work of warming up.

use super::phase::{Course, Phase, nothing};
use super::{Cell, Class, Fact, Thresholds};
use crate::signal::Signal;

pub(super) const PHASE: Phase = Phase { class: Class::ColdStart, takes_work: true, mark, missing: nothing };

fn mark(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let owner = course.owner(index)?;
    let cells = &course.node.cells;
    let at = |index| Cell::of(course.node, course.gpu, Some(owner), index);
    let is_silent = |i: &usize| course.owner(*i) == Some(owner) && !answers_scrapes(&at(*i));
    let near = course.node.around(index, t.cold_start_seconds);
    let answers =
        (index..near.end).find(|i| !is_silent(i)).filter(|i| *i > index && course.owner(*i) == Some(owner))?;
    let loaded = at(answers).read(Signal::FbUsed)?.mean * t.server_loaded_ratio;
    // Who works before the weights are there does something else.
    let rests = |i: usize| course.busy(i).is_some_and(|busy| busy < t.sustained_busy_ratio);
    let is_empty = |i: &usize| rests(*i) && at(*i).read(Signal::FbUsed).is_some_and(|used| used.min < loaded);
    // A server that is merely not scraped keeps its weights.
    let last_empty = (near.start..answers).rev().take_while(is_silent).find(is_empty)?;
    let first = (near.start..=last_empty).rev().take_while(|i| is_silent(i) && is_empty(i)).last()?;
    let warms_up_for = cells[answers].start - cells[last_empty].end;
    if index < first || warms_up_for as f64 > t.server_warm_up_seconds * 1000.0 {
        return None;
    }
    Some(vec![Fact::of(Signal::FbUsed, at(last_empty).read(Signal::FbUsed)?.min, loaded)])
}

/// Is there a sample of the server itself? A level goes on over a gap of minutes.
fn answers_scrapes(cell: &Cell<'_>) -> bool {
    cell.read(Signal::JobRequestsOpen).is_some_and(|open| open.samples > 0)
}
