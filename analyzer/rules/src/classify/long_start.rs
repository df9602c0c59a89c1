//! Starts that last longer than rules look around a cell: a job that holds its GPUs for hours until it has all of them, a
//! model that takes an hour to load.
//!
//! Only its end tells a start from idleness: sustained work of the same owner. So where a GPU has rested for longer than
//! starts usually take since it was taken, it is looked hours to either side, in few signals, when its owner took it, took
//! others, and worked at last. An hour in which such a start ends has the hours before it judged again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rayon::prelude::*;

use super::run::Run;
use super::thresholds::ms;
use super::work::{self, grows, is_sustained, work};
use super::{Cell, Node, Thresholds};
use crate::frame::grid::MINUTE_MS;
use crate::frame::{self, Framed, GpuFrame, Runs, Source};
use crate::signal::{Entity, Signal};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{HOUR_MS, Instance};

/// The most that `long_start_seconds` may be configured to: how far to either side of an hour starts may change its
/// verdicts.
pub const LONG_START_REACH_MS: i64 = 4 * HOUR_MS;

/// All that long starts are seen by: who held what, and what was work.
pub const LONG_START_SIGNALS: &[Signal] = &[
    Signal::GpuObserved,
    Signal::GpuBusy,
    Signal::GrEngineActive,
    Signal::SmActive,
    Signal::GpuUtilization,
    Signal::GpuPower,
    Signal::GpuEnergy,
    Signal::GpuOwner,
    Signal::GpuInfo,
    Signal::NodeInfo,
    Signal::JobInfo,
    Signal::PodController,
    Signal::JobController,
];

/// Those of them that name owners: wherever any signal names the owner, one of these does.
const NAMING: [Signal; 5] =
    [Signal::GpuOwner, Signal::GpuUtilization, Signal::GrEngineActive, Signal::SmActive, Signal::GpuPower];

/// A series that begins no later than this after what is looked at went on before, perhaps behind a hole.
const UNSEEN_MS: i64 = 10 * MINUTE_MS;

/// Starts that last longer than `cold_start_seconds` and end in work, by GPU.
#[derive(Debug, Default)]
pub(crate) struct LongStarts(BTreeMap<String, Vec<LongStart>>);

/// One of them, on one GPU.
#[derive(Debug)]
pub(crate) struct LongStart {
    instance: Option<Instance>,
    owner: String,
    /// From when the owner took the GPU to its first sustained work.
    span: Range<TimeMs>,
    /// When its run took others of its GPUs within.
    joined_ms: Vec<TimeMs>,
}

impl LongStarts {
    /// The one of the cell's owner on the cell's GPU that the cell is a part of.
    pub(super) fn of(&self, cell: &Cell<'_>) -> Option<&LongStart> {
        let owner = cell.owner?;
        let is_own = |start: &&LongStart| start.instance == cell.gpu.instance && start.owner == owner;
        self.0.get(&cell.gpu.uuid)?.iter().filter(is_own).find(|start| start.has(cell))
    }

    /// When the first of them began.
    pub(super) fn first_ms(&self) -> Option<TimeMs> {
        self.0.values().flatten().map(LongStart::begun_ms).min()
    }

    /// Since when verdicts may rest on starts that end within the range.
    pub(super) fn reach_back(&self, range: &Range<TimeMs>) -> Option<TimeMs> {
        let ended =
            self.0.values().flatten().map(|start| &start.span).filter(|s| range.start < s.end && s.end <= range.end);
        ended.map(|span| span.start).min()
    }
}

impl LongStart {
    /// Is the cell, of the GPU and the owner, a part of it?
    pub(super) fn has(&self, cell: &Cell<'_>) -> bool {
        let span = &cell.node.cells[cell.index];
        self.span.start < span.end && span.start < self.span.end
    }

    /// When the owner took the GPU.
    pub(super) fn begun_ms(&self) -> TimeMs {
        self.span.start
    }

    /// GPUs that the owner takes later than that, before it works.
    pub(super) fn to_come(&self, after: TimeMs) -> usize {
        self.joined_ms.iter().filter(|joined| **joined >= after).count()
    }

    /// When the owner had all of its GPUs.
    pub(super) fn complete_ms(&self) -> TimeMs {
        self.joined_ms.iter().copied().max().unwrap_or(self.span.start)
    }
}

/// The long starts that verdicts on the window rest on. `nodes` are the frames of the window.
pub(super) fn find(sources: &[Source<'_>], nodes: &[Node], window: &Range<TimeMs>, t: &Thresholds) -> LongStarts {
    let reach = ms(t.long_start_seconds);
    let gpus = worth_a_look(sources, &resting(nodes, t), window.start - reach, window.end + reach);
    if gpus.is_empty() {
        return LongStarts::default();
    }
    let seen_by = sources.iter().filter(|source| {
        let is_wanted = gpu_of(source).is_none_or(|gpu| gpus.contains(gpu));
        is_wanted && LONG_START_SIGNALS.contains(&source.meaning.signal)
    });
    let Framed { nodes, .. } = frame::frames(seen_by, window, reach);
    let mut nodes: Vec<Node> = nodes.into_iter().map(Node::from).collect();
    nodes.par_iter_mut().for_each(|node| work::note(node, t));
    let mut by_run: BTreeMap<Run, Vec<Hold<'_>>> = BTreeMap::new();
    for hold in nodes.iter().flat_map(|node| node.gpus.iter().flat_map(|gpu| Hold::all(node, gpu))) {
        by_run.entry(Run::of(hold.node, hold.owner)).or_default().push(hold);
    }
    let mut starts = LongStarts::default();
    for holds in by_run.values() {
        let mut by_gpu: BTreeMap<&str, Vec<&Hold<'_>>> = BTreeMap::new();
        for hold in holds {
            by_gpu.entry(&hold.gpu.uuid).or_default().push(hold);
        }
        for (gpu, own) in &by_gpu {
            let long = own.iter().filter_map(|hold| hold.long_start(&by_gpu, t)).collect::<Vec<_>>();
            if !long.is_empty() {
                starts.0.entry((*gpu).to_owned()).or_default().extend(long);
            }
        }
    }
    starts
}

fn gpu_of<'a>(source: &Source<'a>) -> Option<&'a str> {
    match source.meaning.entity {
        Entity::Gpu(uuid) | Entity::MigInstance(uuid, _) => Some(uuid),
        _ => None,
    }
}

/// GPUs that rested under one owner in the window for longer than starts usually take, and these owners.
fn resting<'n>(nodes: &'n [Node], t: &Thresholds) -> BTreeSet<(&'n str, &'n str)> {
    let mut resting = BTreeSet::new();
    for (node, gpu) in nodes.iter().flat_map(|node| node.gpus.iter().map(move |gpu| (node, gpu))) {
        let rests = |index: usize| {
            let owner = gpu.main_owner(index)?;
            work(&Cell::of(node, gpu, Some(owner), index), t)
                .filter(|work| work.ratio < t.sustained_busy_ratio)
                .map(|_| owner)
        };
        let mut first = 0;
        while first < node.cells.len() {
            let owner = rests(first);
            let end = (first + 1..node.cells.len()).find(|index| rests(*index) != owner).unwrap_or(node.cells.len());
            let lasts_ms = node.cells[end - 1].end - node.cells[first].start;
            let is_of_window = first < node.body.end && node.body.start < end;
            let long = owner.filter(|_| is_of_window && lasts_ms > ms(t.cold_start_seconds));
            resting.extend(long.map(|owner| (gpu.uuid.as_str(), owner)));
            first = end;
        }
    }
    resting
}

/// All GPUs of runs with an owner that took a resting GPU within the time looked at: an owner that had its GPU before
/// rests on and on.
fn worth_a_look<'a>(
    sources: &[Source<'a>],
    resting: &BTreeSet<(&str, &str)>,
    from: TimeMs,
    until: TimeMs,
) -> BTreeSet<&'a str> {
    if resting.is_empty() {
        return BTreeSet::new();
    }
    let runs = Runs::of(sources.iter());
    let mut gpus: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for source in sources.iter().filter(|source| NAMING.contains(&source.meaning.signal)) {
        let first = source.samples.get(source.samples.partition_point(|sample| sample.time_ms < from));
        let Some(first_ms) = first.map(|sample| sample.time_ms).filter(|time| *time < until) else { continue };
        let (Some(gpu), Some(owner)) = (gpu_of(source), source.owner()) else { continue };
        let cluster = source.target.cluster;
        let run = (cluster, runs.get(cluster).map_or(owner.as_str(), |runs| runs.name(&owner)).to_owned());
        if first_ms > from + UNSEEN_MS && resting.contains(&(gpu, owner.as_str())) {
            taken.insert(run.clone());
        }
        gpus.entry(run).or_default().insert(gpu);
    }
    taken.into_iter().filter_map(|run| gpus.remove(&run)).flatten().collect()
}

/// Cells in a row in which an owner held a GPU.
struct Hold<'n> {
    node: &'n Node,
    gpu: &'n GpuFrame,
    owner: &'n str,
    cells: Range<usize>,
}

impl<'n> Hold<'n> {
    fn all(node: &'n Node, gpu: &'n GpuFrame) -> impl Iterator<Item = Hold<'n>> {
        let holds = |index: usize, owner: &str| gpu.is_held_by(owner, index);
        let begin = move |first: usize| {
            let begun = gpu.owners[first].iter().map(|(owner, _)| &**owner);
            let begun = begun.filter(move |owner| first.checked_sub(1).is_none_or(|before| !holds(before, owner)));
            begun.map(move |owner| {
                let end = (first..node.cells.len()).find(|index| !holds(*index, owner)).unwrap_or(node.cells.len());
                Hold { node, gpu, owner, cells: first..end }
            })
        };
        (0..node.cells.len()).flat_map(begin)
    }

    fn start_ms(&self) -> TimeMs {
        self.node.cells[self.cells.start].start
    }

    fn end_ms(&self) -> TimeMs {
        self.node.cells[self.cells.end - 1].end
    }

    /// Was the GPU seen without the owner right before?
    fn is_start_seen(&self) -> bool {
        self.cells.start.checked_sub(1).is_some_and(|before| self.gpu.known_ms[before] > 0)
    }

    /// The share of a cell of the frame that was work.
    fn busy(&self, index: usize, t: &Thresholds) -> Option<f64> {
        let cell = Cell::of(self.node, self.gpu, Some(self.owner), index);
        (index < self.node.cells.len()).then(|| work(&cell, t)).flatten().map(|work| work.ratio)
    }

    /// When sustained work begins. In the cell in which it does, what is before it is still the start.
    fn works_from_ms(&self, t: &Thresholds) -> Option<TimeMs> {
        let busy = |index| self.busy(index, t);
        let first = self.cells.clone().find(|index| is_sustained(busy, *index, t))?;
        let cell = &self.node.cells[first];
        Some(if grows(busy, first, t) { cell.end } else { cell.start })
    }

    /// Its start, if that is a long one, given the run's holds of each GPU.
    fn long_start(&self, run: &BTreeMap<&str, Vec<&Hold<'_>>>, t: &Thresholds) -> Option<LongStart> {
        let span = self.start_ms()..self.works_from_ms(t)?;
        let lasts_ms = span.end - span.start;
        if !self.is_start_seen() || lasts_ms <= ms(t.cold_start_seconds) || lasts_ms > ms(t.long_start_seconds) {
            return None;
        }
        let joins = |holds: &[&Hold<'_>]| {
            // A GPU that it held and released within the span was not the missing one.
            let first = holds.iter().filter(|hold| span.start < hold.end_ms()).min_by_key(|hold| hold.start_ms());
            let start_ms = first.filter(|hold| hold.is_start_seen())?.start_ms();
            (span.start < start_ms && start_ms <= span.end).then_some(start_ms)
        };
        let others = run.iter().filter(|(gpu, _)| **gpu != self.gpu.uuid);
        Some(LongStart {
            instance: self.gpu.instance.clone(),
            owner: self.owner.to_owned(),
            joined_ms: others.filter_map(|(_, holds)| joins(holds)).collect(),
            span,
        })
    }
}
