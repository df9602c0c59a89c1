//! `lost_work`: what a job did between its last save and its crash, and its start afterwards.
//!
//! Where the job tells of its crash or of its next attempt, that is the loss: from the last checkpoint it marked on. Else
//! a crash is seen as the owner letting go of the GPU right after its device memory, which had been growing, was full, or
//! after the kernel killed a process of it for lack of memory; unless the job told that it ended. A job that marks its
//! checkpoints is taken at its word; of any other, any writing fast enough to be a save ends the loss, so that too little
//! rather than too much is called lost.

use std::ops::Range;

use super::cold_start::{gets_going, starting_since, works};
use super::derate::Derate;
use super::phase::{Course, Phase, holder};
use super::thresholds::confidence::{COUNTED, INFERRED};
use super::{Cell, Class, Fact, Thresholds, Verdict, checkpoint};
use crate::events::Loss;
use crate::sample::TimeMs;
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
    told(cell).unwrap_or_else(|| inferred(cell, t))
}

/// The loss that the job told of.
fn told(cell: &Cell<'_>) -> Option<Verdict> {
    let span = &cell.node.cells[cell.index];
    let (loss, ms) = cell.node.told.lost(cell.who(), span)?;
    let max_share = ms as f64 / (span.end - span.start) as f64;
    Some(Verdict::Claim { max_share, confidence: COUNTED, facts: vec![fact(loss)] })
}

fn fact(loss: &Loss) -> Fact {
    let signal = if loss.is_saved { "crash after the last checkpoint told" } else { "crash after the begin told" };
    Fact { signal, unit: "seconds", value: (loss.until_ms - loss.from_ms) as f64 / 1000.0, threshold: 0.0 }
}

fn inferred(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let reach = cell.node.around(cell.index, t.lost_work_seconds);
    let holds = |index: &usize| Cell { index: *index, ..*cell }.is_held_by_owner();
    let Some(last) = (cell.index..reach.end).take_while(holds).last() else { return Verdict::No };
    let Some(facts) = crash(&Cell { index: last, ..*cell }, &reach, t) else { return Verdict::No };
    let claim = |max_share| Verdict::Claim { max_share, confidence: INFERRED, facts };
    if let Some(saved) = cell.node.told.saved(cell.who(), cell.node.cells[last].end) {
        let share = unsaved(&cell.node.cells[cell.index], saved);
        return if share > 0.0 { claim(share) } else { Verdict::No };
    }
    let mut cells = (cell.index..=last).map(|index| Cell { index, ..*cell });
    match cells.try_fold(false, |saved, cell| Some(saved || saves(&cell, t)?)) {
        None => Verdict::Abstain { missing: checkpoint::WRITTEN.to_vec() },
        Some(true) => Verdict::No,
        Some(false) => claim(1.0),
    }
}

/// How much of the span is after the checkpoint.
fn unsaved(span: &Range<TimeMs>, saved: TimeMs) -> f64 {
    (span.end - saved).clamp(0, span.end - span.start) as f64 / (span.end - span.start) as f64
}

fn mark(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    starts_again(course, index, t).or_else(|| {
        let begun = starting_since(course, index, t)?;
        let reach = course.node.around(index, t.lost_work_seconds);
        let cell = |index| Cell { node: course.node, gpu: course.gpu, owner: course.owner(begun), index };
        let last = (reach.start..begun).rev().find(|i| cell(*i).is_held_by_owner())?;
        crash(&cell(last), &reach, t)
    })
}

/// Is it the time after a crash that the job told of, or after the begin of the attempt that follows it, and was there no
/// sustained work since?
fn starts_again(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let cells = &course.node.cells;
    let cell = Cell { node: course.node, gpu: course.gpu, owner: course.owner(index), index };
    let ms = |seconds: f64| (seconds * 1000.0) as i64;
    let (after_crash, after_begin) = (ms(t.lost_work_seconds), ms(t.cold_start_seconds));
    let range = cells[index].end - after_crash.max(after_begin)..cells[index].end;
    let since = |loss: &Loss| {
        let again = loss.again.as_ref().map(|(time, _)| (*time, after_begin));
        let times = again.into_iter().chain([(loss.until_ms, after_crash)]);
        times
            .filter(|(time, reach)| *time < cells[index].end && cells[index].end <= time + reach)
            .map(|(time, _)| time)
            .max()
    };
    let rests = |since: TimeMs| {
        let first = cells.partition_point(|cell| cell.start < since);
        !(first..index).any(|i| works(course, i, t)) && (!works(course, index, t) || gets_going(course, index, t))
    };
    let mut crashes = course.node.told.crashes(cell.who(), &range);
    crashes.find(|loss| since(loss).is_some_and(rests)).map(|loss| vec![fact(loss)])
}

/// Did the owner, whose last cell on the GPU this is, end for lack of memory? Nothing outside of `reach` is looked at.
fn crash(last: &Cell<'_>, reach: &Range<usize>, t: &Thresholds) -> Option<Vec<Fact>> {
    let is_known = |index: usize| reach.contains(&index) && last.gpu.known_ms[index] > 0;
    if !is_known(last.index + 1) || last.index <= reach.start {
        return None;
    }
    let near = last.node.cells[last.index - 1].start..last.node.cells[last.index + 1].end;
    if last.node.told.ends(last.who(), &near) {
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
