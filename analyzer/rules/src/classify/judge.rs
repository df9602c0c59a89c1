//! Series in, intervals out: the way in for everyone who wants a verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::capacity::{Capacity, Seen, absent};
use super::cell::{self, Part, State};
use super::failed::Failed;
use super::gang_wait::Holds;
use super::intervals::{Builder, Entry, Whose};
use super::outage::outage;
use super::phase::Course;
use super::prepare::{Prepared, prepare};
use super::thresholds::ms;
use super::{
    Advisory, Cell, Class, CollectiveUse, Demand, Imbalance, Interval, MountUse, Node, Paired, PortUse, Thresholds,
    advisory, energy, nccl, paired, sampling, scattered, storage, straggler, waiting,
};
use crate::caught::caught;
use crate::frame::grid::MINUTE_MS;
use crate::frame::{self, FailedNode, GpuFrame, MAX_BRIDGE_MS, Source, Unjoined};
use crate::told::Told;
use goodput_exposition::sample::{Series, TimeMs};
use goodput_verdict::HOUR_MS;

/// The most that the thresholds of [`around_ms`] may be configured to.
const MAX_AROUND_MS: i64 = 30 * MINUTE_MS;

/// How much data before a window its verdicts may depend on: what is looked at around, and the longest gap that is
/// bridged.
pub const LOOK_BACK_MS: i64 = MAX_AROUND_MS + MAX_BRIDGE_MS;

/// How much data after a window its verdicts may depend on. Until it is there they are provisional.
pub const LOOK_AHEAD_MS: i64 = LOOK_BACK_MS;

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
    /// What ports did in UTC hours in which their run waited for the network.
    pub ports: Vec<PortUse>,
    /// What network file systems did in UTC hours in which their run waited for one.
    pub mounts: Vec<MountUse>,
    /// What GPUs did in collectives, where NCCL's Inspector tells it; by UTC hour.
    pub collectives: Vec<CollectiveUse>,
    /// GPUs that were waited for, where a source of demand tells it; by UTC hour.
    pub demand: Vec<Demand>,
    /// What could not be joined to a node, and why.
    pub unjoined: Vec<Unjoined>,
    /// Per GPU, the signals whose absence kept rules from judging.
    pub missing: BTreeMap<String, BTreeSet<String>>,
    /// How much there was to judge by.
    pub coverage: Coverage,
    /// Since when work is lost by crashes, or starts go on that end in work, within the window: verdicts before it may rest
    /// on them.
    pub restates_from_ms: Option<TimeMs>,
    /// Nodes that could not be judged, and why; none of their GPUs is among the intervals.
    pub failed: Vec<FailedNode>,
    /// Every GPU of the window, and those that vanished less than 24 h before its end: hand it to [`judge_onward`].
    pub seen: Vec<Seen>,
    /// Time that GPUs were not in capacity for, because they had left within the hour or shortly before it; in no sum.
    pub left: Vec<Interval>,
}

/// A node cannot be judged: a defect of the judgement, reported and never clamped away.
#[derive(Debug, thiserror::Error)]
#[error("node {}: {}", .0.node, .0.reason)]
pub struct JudgeError(pub FailedNode);

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
    strict(judge_told(series, seen, Told::default(), window, thresholds))
}

/// The same, with the reports of jobs about every run that goes on in the window or does so on both sides of it. Nodes
/// that fail are named, and cost no other.
pub fn judge_told<'a>(
    series: impl IntoIterator<Item = &'a Series>,
    seen: &[Seen],
    told: Told,
    window: Range<TimeMs>,
    thresholds: &Thresholds,
) -> Judged {
    Run { capacity: seen.iter().cloned().collect(), told: Arc::new(told), ..Run::default() }
        .through(series, window, thresholds)
}

/// [`judge_series`], but every interval is one cell: what neighbouring cells have in common is not joined.
pub fn judge_cells(series: &[Series], window: Range<TimeMs>, thresholds: &Thresholds) -> Result<Judged, JudgeError> {
    strict(Run { by_cell: true, ..Run::default() }.through(series, window, thresholds))
}

fn strict(mut judged: Judged) -> Result<Judged, JudgeError> {
    judged.failed.pop().map_or(Ok(judged), |failed| Err(JudgeError(failed)))
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
fn note(near: &mut BTreeMap<String, Near>, node: &Node, gpu: &GpuFrame, last_ms: TimeMs, window: &Range<TimeMs>) {
    let is_here = gpu.here.iter().any(|span| span.contains(&(window.end - 1)));
    let ended = gpu.here.iter().map(|span| span.end).filter(|end| *end <= window.end).max();
    let left_ms = if is_here { None } else { Some(ended.unwrap_or(window.start)) };
    let (cluster, name, model) = (node.cluster.clone(), node.node.clone(), gpu.model.clone());
    let seen = Seen { gpu: gpu.uuid.clone(), cluster, node: name, model, last_ms, sound: None };
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
    unjoined: BTreeSet<Unjoined>,
    capacity: Capacity,
    told: Arc<Told>,
    /// What came of the hours so far.
    judged: Judged,
}

impl Run {
    fn through<'a>(
        mut self,
        series: impl IntoIterator<Item = &'a Series>,
        window: Range<TimeMs>,
        t: &Thresholds,
    ) -> Judged {
        let sources = frame::sources(series);
        let mut start = window.start;
        while start < window.end {
            let end = ((start.div_euclid(HOUR_MS) + 1) * HOUR_MS).min(window.end);
            self.hour(&sources, start..end, t);
            start = end;
        }
        self.finish(window.end)
    }

    /// A node that fails costs itself: the others are judged without it.
    fn hour(&mut self, sources: &[Source<'_>], window: Range<TimeMs>, t: &Thresholds) {
        let Prepared { nodes, crashes, long_starts, unjoined, failed } = prepare(sources, &self.told, &window, t);
        let restated = crashes.reach_back(&window).into_iter().chain(long_starts.reach_back(&window));
        self.judged.restates_from_ms = self.judged.restates_from_ms.into_iter().chain(restated).min();
        self.unjoined.extend(unjoined);
        let mut failed = Failed::of(failed);
        let mut near = BTreeMap::new();
        for (node, gpu) in nodes.iter().flat_map(|node| node.gpus.iter().map(move |gpu| (node, gpu))) {
            let Some(last_ms) = gpu.last_seen_ms else { continue };
            note(&mut near, node, gpu, last_ms, &window);
        }
        let holds = Holds::of(&nodes);
        let states: Vec<_> = nodes.par_iter().map(|node| caught(|| cell::states(node, t))).collect();
        let mut booked = book(&nodes, &states, &holds, &mut failed, t);
        self.judged.mounts.extend(storage::name(&mut booked, window.start, t));
        straggler::charge(&mut booked, t);
        scattered::advise(&mut booked, t);
        let paired = paired::paired(&booked, t).into_iter();
        self.judged.paired.extend(paired.filter(|p| p.slowdown.is_finite() && p.next.is_finite()));
        let (ports, collectives) = nccl::charge(&mut booked, sources, &self.capacity, &window, t);
        self.judged.ports.extend(ports);
        self.judged.collectives.extend(collectives);
        self.judged.demand.extend(waiting::split(&mut booked, sources, &window, t));
        let finished: Vec<_> = by_gpu(booked).into_par_iter().map(|gpu| finished(gpu, self.by_cell, t)).collect();
        for (node, finished) in &finished {
            finished.as_ref().err().into_iter().for_each(|reason| failed.add(node, reason));
        }
        let before = self.judged.intervals.len();
        for (_, finished) in finished.into_iter().filter(|(node, _)| !failed.has(node)) {
            let (intervals, advisories) = finished.unwrap_or_default();
            self.judged.intervals.extend(intervals);
            self.judged.advisories.extend(advisories);
        }
        let is_there = |seen: &Seen| near.contains_key(&seen.gpu) || failed.has_place(seen);
        let vanished = self.capacity.vanished(&window, is_there);
        self.capacity.note(&self.judged.intervals[before..]);
        self.judged.intervals.extend(vanished);
        for Near { seen, left_ms } in near.into_values().filter(|near| !failed.has_place(&near.seen)) {
            let left = left_ms.map(|left_ms| absent(&seen, &(left_ms.max(window.start)..window.end), Vec::new()));
            self.judged.left.extend(left.into_iter().flatten());
        }
        self.judged.failed.extend(failed.into_nodes());
    }

    fn finish(self, end: TimeMs) -> Judged {
        let mut judged = self.judged;
        let hour = |ms: TimeMs| ms.div_euclid(HOUR_MS);
        // Stable: within a GPU and an hour the order is that of the builder.
        judged.intervals.sort_by(|a, b| (&a.gpu, hour(a.start_ms)).cmp(&(&b.gpu, hour(b.start_ms))));
        judged.advisories.sort_by(|a, b| (&a.gpu, hour(a.start_ms)).cmp(&(&b.gpu, hour(b.start_ms))));
        judged.unjoined = self.unjoined.into_iter().collect();
        judged.seen = self.capacity.at(end).collect();
        let Judged { intervals, coverage, missing, .. } = &mut judged;
        for interval in &*intervals {
            coverage.total_ms += interval.ms;
            coverage.known_ms += if interval.class == Class::NoData { 0 } else { interval.ms };
            if let Some(signal) = &interval.busy_signal {
                *coverage.by_busy_signal.entry(signal.clone()).or_default() += interval.ms;
            }
            if !interval.missing.is_empty() {
                missing.entry(interval.gpu.clone()).or_default().extend(interval.missing.iter().cloned());
            }
        }
        judged
    }
}

/// Why a cell's books cannot be right.
fn in_cell(gpu: &GpuFrame, start_ms: TimeMs, why: impl Display) -> String {
    format!("gpu {}, cell at {start_ms} ms: {why}", gpu.uuid)
}

/// A GPU whose cells of the window are booked, each as far as its own node tells.
pub(super) struct Booked<'a> {
    pub(super) course: Course<'a>,
    /// What the cells of the window went into, in order.
    pub(super) cells: Vec<Vec<(Part, i64)>>,
    /// What is advised of the GPU by what the rest of its run shows, by the same cells.
    pub(super) advised: BTreeMap<usize, Vec<Entry<advisory::Key>>>,
}

impl<'a> Booked<'a> {
    fn of(course: Course<'a>, t: &Thresholds) -> Result<Self, String> {
        let cells = course.node.body.clone().map(|index| book_cell(&course, index, t)).collect::<Result<_, _>>()?;
        Ok(Booked { course, cells, advised: BTreeMap::new() })
    }

    /// What sampling leaves unknown of the parts of a cell.
    fn variances(&self, n: usize, index: usize) -> Vec<i64> {
        let Course { node, gpu, .. } = self.course;
        sampling::split(&Cell::of(node, gpu, None, index), self.course.state(index), &self.cells[n])
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

/// A cell of the frame, of the window or not.
pub(super) fn book_cell(course: &Course<'_>, index: usize, t: &Thresholds) -> Result<Vec<(Part, i64)>, String> {
    let Course { node, gpu, .. } = *course;
    let cell = Cell::of(node, gpu, None, index);
    let error = |source: Imbalance| in_cell(gpu, node.cells[index].start, source);
    let taken = outage(course, index, t);
    cell::book(&cell, course.state(index), taken, course.mark(index, t).as_ref(), t).map_err(error)
}

/// The GPUs of all nodes that do not fail, booked.
fn book<'a>(
    nodes: &'a [Node],
    states: &'a [Result<Vec<Vec<State>>, String>],
    holds: &'a Holds<'a>,
    failed: &mut Failed,
    t: &Thresholds,
) -> Vec<Booked<'a>> {
    let mut courses = Vec::new();
    for (node, states) in nodes.iter().zip(states) {
        match states {
            Ok(states) => {
                let all = Course::all(node, states, holds);
                courses.extend(all.filter(|course| course.gpu.last_seen_ms.is_some()));
            }
            Err(reason) => failed.add(node, reason),
        }
    }
    let booked = |course: Course<'a>| (course.node, caught(|| Booked::of(course, t)).and_then(|booked| booked));
    let mut sound = Vec::with_capacity(courses.len());
    for (node, booked) in courses.into_par_iter().map(booked).collect::<Vec<_>>() {
        match booked {
            Ok(booked) => sound.push(booked),
            Err(reason) => failed.add(node, reason),
        }
    }
    sound.retain(|booked| !failed.has(booked.course.node));
    sound
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

/// [`finish`], with its node; the reason where that fails or panics.
fn finished<'a>(gpu: Vec<Booked<'a>>, by_cell: bool, t: &Thresholds) -> (&'a Node, Result<Finished, String>) {
    let node = gpu[0].course.node;
    (node, caught(|| finish(gpu, by_cell, t)).and_then(|finished| finished))
}

/// What comes of a GPU.
type Finished = (Vec<Interval>, Vec<Advisory>);

/// The intervals of a GPU and of its instances, which share what the board drew, and what is advised.
fn finish(mut gpu: Vec<Booked<'_>>, by_cell: bool, t: &Thresholds) -> Result<Finished, String> {
    let Some(board) = gpu.first().map(|booked| booked.course) else { return Ok(Default::default()) };
    let node = board.node;
    let (mut judged, mut advised) = (Vec::new(), Builder::new());
    let mut builders: Vec<Builder<_>> = gpu.iter().map(|_| Builder::new()).collect();
    for (n, index) in node.body.clone().enumerate() {
        let (span, cell) = (&node.cells[index], Cell::of(node, board.gpu, None, index));
        let of_run = gpu[0].advised.remove(&n).unwrap_or_default();
        advised.add(span, advisory::advise(&cell, board.state(index), &gpu[0].cells[n], t).into_iter().chain(of_run));
        let counts: Vec<usize> = gpu.iter().map(|booked| booked.cells[n].len()).collect();
        let variances: Vec<i64> = gpu.iter().flat_map(|booked| booked.variances(n, index)).collect();
        let parts: Vec<(Part, i64)> = gpu.iter_mut().flat_map(|booked| mem::take(&mut booked.cells[n])).collect();
        let energy = energy::split(&cell, &parts).map_err(|source| in_cell(board.gpu, span.start, source))?;
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
