//! `lost_work`: what a job did between its last save and its crash, and its start afterwards.
//!
//! Where the job reports its crash or its next attempt, that is the loss: from the last checkpoint it marked on.
//! Otherwise `crash` finds crashes by what ends programs. A job that marks its checkpoints is taken at its word; of any
//! other, any writing fast enough to be a save ends the loss, so that too little rather than too much is called lost.

use super::cold_start::{gets_going, goes_on, works};
use super::derate::Derate;
use super::phase::{Course, Phase, holder};
use super::thresholds::confidence::{COUNTED, INFERRED};
use super::thresholds::ms;
use super::{Cell, Class, Fact, Thresholds, Verdict, writing};
use crate::signal::Signal;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::event::Loss;

/// Work before the crash.
pub(super) const DERATE: Derate = Derate { class: Class::LostWork, judge };

/// The start after it.
pub(super) const PHASE: Phase = Phase { class: Class::LostWork, takes_work: false, mark, missing };

/// Any of these shows a crash. Without signals of memory, the commonest reason, the verdict says that some are not
/// seen.
const CRASH: [Signal; 5] =
    [Signal::JobOomKills, Signal::FbUsed, Signal::FbFree, Signal::GpuXid, Signal::GpuXidRestartApp];

fn missing(cell: &Cell<'_>) -> Vec<Signal> {
    let [kills, used, free, ..] = CRASH.map(|signal| cell.mean(signal).is_some());
    let crash = if kills || used && free { &[][..] } else { &CRASH };
    holder(cell).into_iter().chain(crash.iter().copied()).collect()
}

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    told(cell).unwrap_or_else(|| inferred(cell, t))
}

/// The loss that the job reported.
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
    let span = &cell.node.cells[cell.index];
    let Some(crash) = cell.node.crashes.ahead(cell).filter(|_| cell.is_held_by_owner()) else { return Verdict::No };
    if crash.until_ms - span.start > ms(t.lost_work_reach_seconds) {
        return Verdict::No;
    }
    let saved = cell.node.told.saved(cell.who(), crash.until_ms);
    let ms = (span.end.min(crash.until_ms) - saved.unwrap_or(crash.from_ms)).clamp(0, span.end - span.start);
    if ms == 0 && saved.is_none() && crash.is_blind {
        return Verdict::without(&writing::WRITTEN);
    }
    let max_share = ms as f64 / (span.end - span.start) as f64;
    let facts = crash.facts.clone();
    if ms > 0 { Verdict::Claim { max_share, confidence: INFERRED, facts } } else { Verdict::No }
}

fn mark(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let long = || starts_long_after(course, index, t);
    starts_again(course, index, t).or_else(|| starts_after(course, index, t)).or_else(long)
}

/// Did the owner take the GPU soon after a crash, on whatever GPU that was, and was there no sustained work since?
fn starts_after(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let (node, cells, owner) = (course.node, &course.node.cells, course.owner(index)?);
    let earliest = cells[index].end - ms(t.cold_start_seconds) - ms(t.lost_work_seconds);
    let crash = node.crashes.last(node, owner, &(earliest..cells[index].start))?;
    let holds = |i: &usize| Cell::of(node, course.gpu, Some(owner), *i).is_held_by_owner();
    let begun = (cells.partition_point(|cell| cell.start < crash.until_ms)..=index).find(holds)?;
    let is_soon = cells[begun].start - crash.until_ms <= ms(t.lost_work_seconds)
        && cells[index].end - cells[begun].start <= ms(t.cold_start_seconds);
    (is_soon && rests_since(course, begun, index, t)).then(|| crash.facts.clone())
}

/// Is it part of a long start that the owner began soon after a crash?
fn starts_long_after(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let cell = Cell::of(course.node, course.gpu, course.owner(index), index);
    let begun_ms = cell.node.long_starts.of(&cell)?.begun_ms();
    let earliest = begun_ms - ms(t.lost_work_seconds);
    let signalled = cell.node.crashes.last(cell.node, cell.owner?, &(earliest..begun_ms)).map(|c| c.facts.clone());
    // The next attempt reports its begin some time after it has the GPU.
    let end = cell.node.cells[index].end;
    let near = earliest..end.max(begun_ms + ms(t.cold_start_seconds));
    let told = || {
        let mut crashes = cell.node.told.crashes(cell.who(), &near);
        crashes.find(|loss| loss.until_ms < end).map(|loss| vec![fact(loss)])
    };
    signalled.or_else(told).filter(|_| goes_on(&cell, t))
}

/// Was there no sustained work from one cell to another, but for what begins in that?
fn rests_since(course: &Course<'_>, first: usize, index: usize, t: &Thresholds) -> bool {
    !(first..index).any(|i| works(course, i, t)) && (!works(course, index, t) || gets_going(course, index, t))
}

/// Is it the time after a crash that the job reported, or after the begin of the attempt that follows it, and was there
/// no sustained work since?
fn starts_again(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let cells = &course.node.cells;
    let cell = Cell::of(course.node, course.gpu, course.owner(index), index);
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
    let rests = |since: TimeMs| rests_since(course, cells.partition_point(|cell| cell.start < since), index, t);
    let mut crashes = course.node.told.crashes(cell.who(), &range);
    crashes.find(|loss| since(loss).is_some_and(rests)).map(|loss| vec![fact(loss)])
}
