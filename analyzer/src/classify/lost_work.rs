//! `lost_work`: what a job did between its last save and its crash, and its start afterwards.
//!
//! A crash is seen as the owner letting go of the GPU right after its device memory, which had been growing, was full, or
//! after the kernel killed a process of it for lack of memory. Any writing fast enough to be a save ends the loss, so
//! that too little rather than too much is called lost.

use std::ops::Range;

use super::cold_start::starting_since;
use super::derate::Derate;
use super::phase::{Course, Phase, holder};
use super::thresholds::confidence::INFERRED;
use super::{Cell, Class, Fact, Thresholds, Verdict, checkpoint};
use crate::signal::Signal;

/// Work before the crash.
pub(super) const DERATE: Derate = Derate { class: Class::LostWork, judge };

/// The start after it.
pub(super) const PHASE: Phase = Phase { class: Class::LostWork, takes_work: false, mark, missing };

/// A crash for lack of memory is seen by either.
const CRASH: [Signal; 3] = [Signal::JobOomKills, Signal::FbUsed, Signal::FbFree];

fn missing(cell: &Cell<'_>) -> Vec<Signal> {
    let [kills, used, free] = CRASH.map(|signal| cell.mean(signal).is_some());
    let crash = if kills || used && free { &[][..] } else { &CRASH };
    holder(cell).into_iter().chain(crash.iter().copied()).collect()
}

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let reach = cell.node.around(cell.index, t.lost_work_seconds);
    let holds = |index: &usize| Cell { index: *index, ..*cell }.is_held_by_owner();
    let Some(last) = (cell.index..reach.end).take_while(holds).last() else { return Verdict::No };
    let Some(facts) = crash(&Cell { index: last, ..*cell }, &reach, t) else { return Verdict::No };
    let mut cells = (cell.index..=last).map(|index| Cell { index, ..*cell });
    match cells.try_fold(false, |saved, cell| Some(saved || saves(&cell, t)?)) {
        None => Verdict::Abstain { missing: checkpoint::WRITTEN.to_vec() },
        Some(true) => Verdict::No,
        Some(false) => Verdict::Claim { max_share: 1.0, confidence: INFERRED, facts },
    }
}

fn mark(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let begun = starting_since(course, index, t)?;
    let reach = course.node.around(index, t.lost_work_seconds);
    let cell = |index| Cell { node: course.node, gpu: course.gpu, owner: course.owner(begun), index };
    let last = (reach.start..begun).rev().find(|i| cell(*i).is_held_by_owner())?;
    crash(&cell(last), &reach, t)
}

/// Did the owner, whose last cell on the GPU this is, end for lack of memory? Nothing outside of `reach` is looked at.
fn crash(last: &Cell<'_>, reach: &Range<usize>, t: &Thresholds) -> Option<Vec<Fact>> {
    let is_known = |index: usize| reach.contains(&index) && last.gpu.known_ms[index] > 0;
    if !is_known(last.index + 1) || last.index <= reach.start {
        return None;
    }
    let ends = [last.index - 1, last.index].map(|index| Cell { index, ..*last });
    let killed = ends.iter().filter_map(|cell| cell.mean(Signal::JobOomKills)).fold(0.0, f64::max);
    if killed > 0.0 {
        return Some(vec![Fact::of(Signal::JobOomKills, killed, 0.0)]);
    }
    let before = last.node.around(last.index, t.idle_window_seconds).start.max(reach.start);
    let then = Cell { index: before, ..*last };
    let (used, free) = (then.mean(Signal::FbUsed)?, then.mean(Signal::FbFree)?);
    let most = ends.iter().filter_map(|cell| Some(cell.read(Signal::FbUsed)?.max)).reduce(f64::max)?;
    let (full, grown) = (t.lost_work_memory_ratio * (used + free), used + t.forecast_growth_ratio * (used + free));
    let has_grown = then.is_held_by_owner() && most >= grown;
    (has_grown && most >= full).then(|| {
        vec![
            Fact::of(Signal::FbUsed, most, full),
            Fact { signal: "fb_used before", ..Fact::of(Signal::FbUsed, used, most) },
        ]
    })
}

/// Could the cell's writing be a save? `None` where nobody tells what is written.
fn saves(cell: &Cell<'_>, t: &Thresholds) -> Option<bool> {
    let written = checkpoint::WRITTEN.into_iter().find_map(|signal| cell.read(signal))?;
    Some(written.max >= t.checkpoint_bytes)
}
