//! Series in, intervals out: the way in for everyone who wants a verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::advisory;
use super::cell::{self, Part};
use super::energy::{self, Excess};
use super::gang_wait::Holds;
use super::intervals::{Builder, Whose};
use super::outage::outage;
use super::phase::Course;
use super::prepare::{Prepared, prepare};
use super::sampling;
use super::thresholds::confidence::CERTAIN;
use super::thresholds::ms;
use super::{Advisory, Cell, Class, Imbalance, Interval, Paired, Thresholds, paired, straggler};
use crate::events::Told;
use crate::frame::grid::{HOUR_MS, MINUTE_MS};
use crate::frame::{self, Accounts, GpuFrame, MAX_BRIDGE_MS, NodeFrame, Runs, Source, Unjoined};
use crate::sample::{Series, TimeMs};

/// The most that the thresholds of [`around_ms`] may be configured to.
const MAX_AROUND_MS: i64 = 30 * MINUTE_MS;

/// How much data before a window its verdicts may depend on: what is looked at around, and the longest gap that is
/// bridged.
pub const LOOK_BACK_MS: i64 = MAX_AROUND_MS + MAX_BRIDGE_MS;

/// How much data after a window its verdicts may depend on. Until it is there they are provisional.
pub const LOOK_AHEAD_MS: i64 = LOOK_BACK_MS;

/// A vanished GPU stays in capacity, as `no_data`, for so long after its last sample (goodput ledger, identity).
const VANISHED_MS: i64 = 24 * HOUR_MS;

/// A GPU and when it was last heard of: what one judgement hands to the next, so that a GPU does not leave capacity by
/// vanishing.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The UUID.
    pub gpu: String,
    /// The cluster of its node then; empty where series name none.
    pub cluster: String,
    /// Its node then.
    pub node: String,
    /// Its model, where known.
    pub model: Option<String>,
    /// Time of its latest sample.
    pub last_ms: TimeMs,
}

/// How much of the capacity verdicts rest on data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    /// GPU-milliseconds in the window.
    pub total_ms: i64,
    /// Of these, with data.
    pub known_ms: i64,
    /// Of these, by the busy signal that was used.
    pub by_busy_signal: BTreeMap<String, i64>,
}

/// Verdicts of a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judged {
    /// In order of GPU and time; cut at UTC hours.
    pub intervals: Vec<Interval>,
    /// In the same order, and cut alike.
    pub advisories: Vec<Advisory>,
    /// The nodes of each run side by side; by UTC hour, in order of run and node.
    pub paired: Vec<Paired>,
    /// What could not be joined to a node, and why.
    pub unjoined: Vec<Unjoined>,
    /// Per GPU, the signals whose absence kept rules from judging.
    pub missing: BTreeMap<String, BTreeSet<String>>,
    /// How much there was to judge by.
    pub coverage: Coverage,
    /// Since when work is lost by crashes, or starts go on that end in work, within the window: verdicts before it may rest
    /// on them.
    pub restates_from_ms: Option<TimeMs>,
    /// Every GPU of the window, and those that vanished less than 24 h before its end: hand it to [`judge_onward`].
    pub seen: Vec<Seen>,
    /// Time that GPUs were not in capacity for, because they had left within the hour or shortly before it; in no sum.
    pub left: Vec<Interval>,
}

/// The books of a cell cannot be right: a defect of the judgement, reported and never clamped away.
#[derive(Debug, thiserror::Error)]
#[error("gpu {gpu}, cell at {start_ms} ms: {source}")]
pub struct JudgeError {
    /// The UUID.
    pub gpu: String,
    /// Start of the cell.
    pub start_ms: TimeMs,
    /// What is wrong with them.
    pub source: Defect,
}

/// What can be wrong with the books of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// The milliseconds do not sum up.
    #[error(transparent)]
    Time(#[from] Imbalance),
    /// The energy is more than there can be.
    #[error(transparent)]
    Energy(#[from] Excess),
}

/// Judges a window. `series` should reach from [`LOOK_BACK_MS`] before it to [`LOOK_AHEAD_MS`] after it, those of
/// [`CRASH_SIGNALS`](super::CRASH_SIGNALS) [`LOST_REACH_MS`](super::LOST_REACH_MS) further, and those of both these and
/// [`LONG_START_SIGNALS`](super::LONG_START_SIGNALS) [`LONG_START_REACH_MS`](super::LONG_START_REACH_MS) further to either side, each in order of time. A GPU counts from the UTC hour on in which its first sample lies, or from the start of the window within it.
pub fn judge_series(series: &[Series], window: Range<TimeMs>, thresholds: &Thresholds) -> Result<Judged, JudgeError> {
    judge_onward(series, &[], window, thresholds)
}

/// The same, knowing which GPUs were there before: judging hour by hour, each with the `seen` of the one before, gives
/// what judging all of them at once gives.
pub fn judge_onward(
    series: &[Series],
    seen: &[Seen],
    window: Range<TimeMs>,
    thresholds: &Thresholds,
) -> Result<Judged, JudgeError> {
    judge_told(series, seen, Told::default(), window, thresholds)
}

/// The same, knowing what jobs told of every run that goes on in the window or does so on both sides of it.
pub fn judge_told<'a>(
    series: impl IntoIterator<Item = &'a Series>,
    seen: &[Seen],
    told: Told,
    window: Range<TimeMs>,
    thresholds: &Thresholds,
) -> Result<Judged, JudgeError> {
    let seen = seen.iter().map(|s| (s.gpu.clone(), s.clone())).collect();
    Run { seen, told: Arc::new(told), ..Run::default() }.through(series, window, thresholds)
}

impl JudgeError {
    fn of(gpu: &GpuFrame, start_ms: TimeMs, source: impl Into<Defect>) -> Self {
        JudgeError { gpu: gpu.uuid.clone(), start_ms, source: source.into() }
    }
}

/// [`judge_series`], but every interval is one cell: what neighbouring cells have in common is not joined.
pub fn judge_cells(series: &[Series], window: Range<TimeMs>, thresholds: &Thresholds) -> Result<Judged, JudgeError> {
    Run { by_cell: true, ..Run::default() }.through(series, window, thresholds)
}

/// How far rules look beyond a cell, to either side.
pub(super) fn around_ms(t: &Thresholds) -> i64 {
    let others =
        [t.cold_start_seconds, t.around_seconds, t.derate_around_seconds, t.lost_work_seconds, t.down_xid_seconds];
    ms(others.into_iter().fold(t.idle_window_seconds, f64::max))
}

/// A GPU with samples near a window.
struct Near {
    seen: Seen,
    /// When it left capacity, if it is not there at the end of the window.
    left_ms: Option<TimeMs>,
}

/// Notes the GPU with the node that it was seen on last.
fn note(near: &mut BTreeMap<String, Near>, node: &NodeFrame, gpu: &GpuFrame, last_ms: TimeMs, window: &Range<TimeMs>) {
    let is_here = gpu.here.iter().any(|span| span.contains(&(window.end - 1)));
    let ended = gpu.here.iter().map(|span| span.end).filter(|end| *end <= window.end).max();
    let left_ms = if is_here { None } else { Some(ended.unwrap_or(window.start)) };
    let (cluster, name, model) = (node.cluster.clone(), node.node.clone(), gpu.model.clone());
    let seen = Seen { gpu: gpu.uuid.clone(), cluster, node: name, model, last_ms };
    let Some(known) = near.get_mut(&gpu.uuid) else {
        near.insert(gpu.uuid.clone(), Near { seen, left_ms });
        return;
    };
    if (is_here, last_ms) >= (known.left_ms.is_none(), known.seen.last_ms) {
        known.seen = seen;
    }
    known.left_ms = known.left_ms.zip(left_ms).map(|(one, other)| one.max(other));
}

/// A judgement in progress, hour by hour.
#[derive(Default)]
struct Run {
    /// Are intervals left as cells?
    by_cell: bool,
    intervals: Vec<Interval>,
    advisories: Vec<Advisory>,
    paired: Vec<Paired>,
    unjoined: BTreeSet<Unjoined>,
    seen: BTreeMap<String, Seen>,
    left: Vec<Interval>,
    told: Arc<Told>,
    restates_from_ms: Option<TimeMs>,
}

impl Run {
    fn through<'a>(
        mut self,
        series: impl IntoIterator<Item = &'a Series>,
        window: Range<TimeMs>,
        t: &Thresholds,
    ) -> Result<Judged, JudgeError> {
        let sources = frame::sources(series);
        let mut start = window.start;
        while start < window.end {
            let end = ((start.div_euclid(HOUR_MS) + 1) * HOUR_MS).min(window.end);
            self.hour(&sources, start..end, t)?;
            start = end;
        }
        Ok(self.finish(window.end))
    }

    fn hour(&mut self, sources: &[Source<'_>], window: Range<TimeMs>, t: &Thresholds) -> Result<(), JudgeError> {
        let Prepared { nodes, crashes, long_starts, unjoined } = prepare(sources, &self.told, &window, t);
        let restated = crashes.reach_back(&window).into_iter().chain(long_starts.reach_back(&window));
        self.restates_from_ms = self.restates_from_ms.into_iter().chain(restated).min();
        self.unjoined.extend(unjoined);
        let mut near = BTreeMap::new();
        let holds = Holds::of(&nodes);
        let states: Vec<_> = nodes.par_iter().map(|node| cell::states(node, t)).collect();
        let mut courses = Vec::new();
        for (node, states) in nodes.iter().zip(&states) {
            for course in Course::all(node, states, &holds) {
                let Some(last_ms) = course.gpu.last_seen_ms else { continue };
                note(&mut near, node, course.gpu, last_ms, &window);
                courses.push(course);
            }
        }
        let mut booked = courses.into_par_iter().map(|c| Booked::of(c, t)).collect::<Result<Vec<_>, JudgeError>>()?;
        straggler::charge(&mut booked, t);
        self.paired.extend(paired::paired(&booked, t));
        let finish = |gpu| finish(gpu, self.by_cell, t);
        let finished = by_gpu(booked).into_par_iter().map(finish).collect::<Result<Vec<_>, JudgeError>>()?;
        for (intervals, advisories) in finished {
            self.intervals.extend(intervals);
            self.advisories.extend(advisories);
        }
        let vanished =
            self.seen.values().filter(|s| !near.contains_key(&s.gpu) && window.start - s.last_ms < VANISHED_MS);
        self.intervals.extend(vanished.flat_map(|s| absent(s, &window)));
        for (gpu, Near { seen, left_ms }) in near {
            match left_ms {
                Some(left_ms) => {
                    self.seen.remove(&gpu);
                    self.left.extend(absent(&seen, &(left_ms.max(window.start)..window.end)));
                }
                None => {
                    self.seen.insert(gpu, seen);
                }
            }
        }
        Ok(())
    }

    fn finish(mut self, end: TimeMs) -> Judged {
        // Stable: within a GPU and an hour the order is that of the builder.
        self.intervals
            .sort_by(|a, b| (&a.gpu, a.start_ms.div_euclid(HOUR_MS)).cmp(&(&b.gpu, b.start_ms.div_euclid(HOUR_MS))));
        self.advisories
            .sort_by(|a, b| (&a.gpu, a.start_ms.div_euclid(HOUR_MS)).cmp(&(&b.gpu, b.start_ms.div_euclid(HOUR_MS))));
        let mut judged = Judged {
            unjoined: self.unjoined.into_iter().collect(),
            seen: self.seen.into_values().filter(|s| end - s.last_ms < VANISHED_MS).collect(),
            ..Judged::default()
        };
        for interval in &self.intervals {
            let coverage = &mut judged.coverage;
            coverage.total_ms += interval.ms;
            coverage.known_ms += if interval.class == Class::NoData { 0 } else { interval.ms };
            if let Some(signal) = &interval.busy_signal {
                *coverage.by_busy_signal.entry(signal.clone()).or_default() += interval.ms;
            }
            if !interval.missing.is_empty() {
                judged.missing.entry(interval.gpu.clone()).or_default().extend(interval.missing.iter().cloned());
            }
        }
        judged.intervals = self.intervals;
        judged.advisories = self.advisories;
        judged.paired = self.paired;
        judged.left = self.left;
        judged.restates_from_ms = self.restates_from_ms;
        judged
    }
}

/// A GPU whose cells of the window are booked, each as far as its own node tells.
pub(super) struct Booked<'a> {
    pub(super) course: Course<'a>,
    /// What the cells of the window went into, in order.
    pub(super) cells: Vec<Vec<(Part, i64)>>,
}

impl<'a> Booked<'a> {
    fn of(course: Course<'a>, t: &Thresholds) -> Result<Self, JudgeError> {
        let Course { node, gpu, .. } = course;
        let book = |index: usize| {
            let cell = Cell { node, gpu, owner: None, index };
            let error = |source: Imbalance| JudgeError::of(gpu, node.cells[index].start, source);
            let taken = outage(&course, index, t);
            cell::book(&cell, course.state(index), taken, course.mark(index, t).as_ref(), t).map_err(error)
        };
        let cells = node.body.clone().map(book).collect::<Result<_, _>>()?;
        Ok(Booked { course, cells })
    }

    /// What sampling leaves unknown of the parts of a cell.
    fn variances(&self, n: usize, index: usize) -> Vec<i64> {
        let Course { node, gpu, .. } = self.course;
        sampling::split(&Cell { node, gpu, owner: None, index }, self.course.state(index), &self.cells[n])
    }

    fn whose(&self) -> Whose<'a> {
        let Course { node, gpu, .. } = self.course;
        Whose {
            gpu: &gpu.uuid,
            instance: gpu.instance.as_ref(),
            cluster: &node.cluster,
            node: &node.node,
            model: gpu.model.as_deref(),
            runs: &node.runs,
            accounts: &node.accounts,
        }
    }
}

/// A GPU and its instances, one behind another.
fn by_gpu(booked: Vec<Booked<'_>>) -> Vec<Vec<Booked<'_>>> {
    let mut gpus: Vec<Vec<Booked<'_>>> = Vec::new();
    for one in booked {
        match gpus.last_mut().filter(|_| one.course.gpu.instance.is_some()) {
            Some(gpu) => gpu.push(one),
            None => gpus.push(vec![one]),
        }
    }
    gpus
}

/// The intervals of a GPU and of its instances, which share what the board drew, and what is advised.
fn finish(
    mut gpu: Vec<Booked<'_>>,
    by_cell: bool,
    t: &Thresholds,
) -> Result<(Vec<Interval>, Vec<Advisory>), JudgeError> {
    let Some(board) = gpu.first().map(|booked| booked.course) else { return Ok(Default::default()) };
    let node = board.node;
    let (mut judged, mut advised) = (Vec::new(), Builder::new());
    let mut builders: Vec<Builder<_>> = gpu.iter().map(|_| Builder::new()).collect();
    for (n, index) in node.body.clone().enumerate() {
        let (span, cell) = (&node.cells[index], Cell { node, gpu: board.gpu, owner: None, index });
        advised.add(span, advisory::advise(&cell, board.state(index), &gpu[0].cells[n], t));
        let counts: Vec<usize> = gpu.iter().map(|booked| booked.cells[n].len()).collect();
        let variances: Vec<i64> = gpu.iter().flat_map(|booked| booked.variances(n, index)).collect();
        let parts: Vec<(Part, i64)> = gpu.iter_mut().flat_map(|booked| mem::take(&mut booked.cells[n])).collect();
        let energy = energy::split(&cell, &parts).map_err(|source| JudgeError::of(board.gpu, span.start, source))?;
        let known = parts.into_iter().zip(energy).zip(variances);
        let mut entries = known.map(|(((part, ms), energy), variance_ms2)| part.entry(ms, energy, variance_ms2));
        for ((builder, booked), count) in builders.iter_mut().zip(&gpu).zip(counts) {
            builder.add(span, entries.by_ref().take(count));
            if by_cell {
                judged.extend(mem::replace(builder, Builder::new()).finish(&booked.whose()));
            }
        }
    }
    judged.extend(builders.into_iter().zip(&gpu).flat_map(|(builder, booked)| builder.finish(&booked.whose())));
    Ok((judged, advised.advisories(node, board.gpu)))
}

/// A GPU without any sample within reach of the window.
fn absent(seen: &Seen, window: &Range<TimeMs>) -> Vec<Interval> {
    let mut builder = Builder::new();
    builder.add(window, [Part::bare(Class::NoData, CERTAIN).entry(window.end - window.start, None, 0)]);
    builder.finish(&Whose {
        gpu: &seen.gpu,
        instance: None,
        cluster: &seen.cluster,
        node: &seen.node,
        model: seen.model.as_deref(),
        runs: &Runs::default(),
        accounts: &Accounts::default(),
    })
}
