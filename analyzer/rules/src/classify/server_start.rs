//! `cold_start` of a server: from the claim of the GPU, or the end of the server before, until the server tells of requests.
//! Pulling the image, loading weights and warming up are parts of it, and so is the work of warming up.

use super::phase::{Course, Phase, nothing};
use super::{Cell, Class, Fact, Thresholds};
use crate::signal::Signal;

pub(super) const PHASE: Phase = Phase { class: Class::ColdStart, takes_work: true, mark, missing: nothing };

fn mark(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let owner = course.owner(index)?;
    let at = |index| Cell { node: course.node, gpu: course.gpu, owner: Some(owner), index };
    let is_silent = |i: &usize| course.owner(*i) == Some(owner) && !answers_scrapes(&at(*i));
    if !is_silent(&index) {
        return None;
    }
    let first = (0..index).rev().take_while(is_silent).last().unwrap_or(index);
    let answers = (index + 1..course.node.cells.len()).find(|i| !is_silent(i))?;
    let ms = course.node.cells[answers].start - course.node.cells[first].start;
    if course.owner(answers) != Some(owner) || ms as f64 > t.cold_start_seconds * 1000.0 {
        return None;
    }
    // A server that is merely not scraped keeps its weights.
    let used = |i: usize| at(i).read(Signal::FbUsed);
    let loaded = used(answers)?.mean;
    let least = (first..answers).filter_map(used).map(|used| used.min).reduce(f64::min)?;
    let fact = Fact::of(Signal::FbUsed, least, loaded * t.server_loaded_ratio);
    (fact.value < fact.threshold).then(|| vec![fact])
}

/// Is there a sample of the server itself? A level goes on over a gap of minutes.
fn answers_scrapes(cell: &Cell<'_>) -> bool {
    cell.read(Signal::JobRequestsOpen).is_some_and(|open| open.samples > 0)
}
