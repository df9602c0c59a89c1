//! Signals on the grid: typed readings per GPU, node and job for every cell, derived from samples.
//!
//! A frame covers one window, which never reaches over a UTC hour, and some cells before and after it that rules look
//! at. It depends on samples up to [`MAX_BRIDGE_MS`] around those cells and on nothing else, so that hours judged one by
//! one and a week judged at once are the same.

mod accounts;
mod apart;
mod away;
mod contested;
mod epochs;
mod exporters;
mod failed;
mod failed_node;
mod frozen;
mod gpu;
pub(crate) mod grid;
mod hosts;
mod identity;
mod levels;
mod members;
mod mig;
mod piece;
mod place;
mod runs;
mod scrapes;
mod track;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rayon::prelude::*;

use crate::caught::caught;
use crate::signal::{Entity, Meaning, Signal, resolve};
use crate::told::Told;
pub(crate) use accounts::Accounts;
pub use failed_node::FailedNode;
use goodput_exposition::sample::{Labels, Sample, Series, TimeMs, is_stale};
use goodput_verdict::owner::owner_of;
pub use gpu::GpuFrame;
pub(crate) use gpu::{Depths, Extremes, Work};
pub(crate) use identity::Target;
pub use identity::Unjoined;
use identity::{Directory, NodeId};
pub use levels::{Levels, levels};
pub(crate) use levels::{NodeSources, by_name};
use members::{Grid, Members, Nodes, by_node};
pub use mig::{Cut, Layout};
pub(crate) use piece::growth;
pub use piece::union_ms;
pub use piece::{MAX_BRIDGE_MS, Reading, STALENESS_MS};
use piece::{Piece, pieces};
pub(crate) use runs::Runs;
pub use scrapes::{Scraped, Scrapes};
pub use track::Tracks;
pub(crate) use track::sum;

/// The node's name in the intervals of a GPU whose series name none.
pub const UNJOINED_NODE: &str = "unjoined";

/// Scrape interval assumed of a series with a single sample: Prometheus' default `scrape_interval`.
const DEFAULT_INTERVAL_MS: i64 = 60_000;

/// One node, its GPUs and their owners over one window.
#[derive(Debug)]
pub struct NodeFrame {
    /// Its cluster; empty where series name none.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The grid, in order, without holes; the cells of the window and those around it.
    pub cells: Vec<Range<TimeMs>>,
    /// Which cells are the window's.
    pub body: Range<usize>,
    /// Signals of the node.
    pub host: Tracks,
    /// Signals of each owner of GPUs.
    pub jobs: BTreeMap<String, Tracks>,
    /// Its GPUs, in order of UUID; those that are cut up with their instances behind them.
    pub gpus: Vec<GpuFrame>,
    /// What jobs told, of all nodes.
    pub told: Arc<Told>,
    /// Which owners are one run, in its cluster.
    pub(crate) runs: Arc<Runs>,
    /// The accounts that their time counts to, in its cluster.
    pub(crate) accounts: Arc<Accounts>,
    /// CPUs that the node uses whatever its jobs do; none until the frame is judged.
    pub(crate) background_cores: f64,
    /// What the rest of each owner's run has, on other nodes for the most part, cell by cell.
    pub elsewhere: BTreeMap<Arc<str>, Vec<Elsewhere>>,
}

/// GPUs that the rest of an owner's run has in a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Elsewhere {
    /// Those that it holds.
    pub held: usize,
    /// Of these, those that have kernels for the most of it.
    pub busy: usize,
    /// What the least busy rank of the whole run does, among those that work.
    pub(crate) late: Option<Activity>,
}

/// What a GPU does in a cell, as shares of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Activity {
    /// With kernels.
    pub(crate) busy: f64,
    /// Of the tensor cores, device memory and the multiprocessors, as far as they are measured.
    pub(crate) of: [Option<f64>; 3],
}

/// The cluster as verdicts have it: absent where series name none.
pub(crate) fn named(cluster: &str) -> Option<String> {
    (!cluster.is_empty()).then(|| cluster.to_owned())
}

impl NodeFrame {
    /// The cells that are no further from this one than `seconds`.
    #[must_use]
    pub fn around(&self, cell: usize, seconds: f64) -> Range<usize> {
        let ms = (seconds * 1000.0) as i64;
        let (from, to) = (self.cells[cell].start - ms, self.cells[cell].end + ms);
        self.cells.partition_point(|c| c.start < from)..self.cells.partition_point(|c| c.end <= to)
    }
}

/// A series that a signal uses.
#[derive(Debug)]
pub struct Source<'a> {
    pub(crate) labels: &'a Labels,
    pub(crate) samples: &'a [Sample],
    pub(crate) meaning: Arc<Meaning<'a>>,
    pub(crate) target: Target<'a>,
    /// Its label `pod` names the exporter, not who holds the GPU.
    names_exporter: bool,
    /// Is a marker among its samples, or among those that they are a part of?
    has_markers: bool,
    /// When scrapes of the target failed, in order.
    failed: Arc<[TimeMs]>,
    /// Time between its samples; `None` with fewer than two.
    interval_ms: OnceLock<Option<i64>>,
    /// What [`Source::pieces`] made of the samples, until it is forgotten.
    pieces: Mutex<Option<Arc<Vec<Piece>>>>,
}

/// Resolves the series; those that no signal uses are left out.
pub fn sources<'a>(series: impl IntoIterator<Item = &'a Series>) -> Vec<Source<'a>> {
    let mut sources = Vec::new();
    for Series { labels, samples } in series {
        if let Some(meaning) = resolve(labels) {
            let source = Source::of(labels, samples, Arc::new(meaning), Target::of(labels));
            sources.push(Source { has_markers: samples.iter().any(|s| is_stale(s.value)), ..source });
        }
    }
    apart::tell(&mut sources);
    exporters::note(&mut sources);
    sources
}

/// The frames of a window, and what could not be joined.
#[derive(Debug, Default)]
pub struct Framed {
    /// In order of cluster and name.
    pub nodes: Vec<NodeFrame>,
    /// What could not be joined to a node.
    pub unjoined: BTreeSet<Unjoined>,
    /// Nodes that could not be laid on the grid.
    pub failed: Vec<FailedNode>,
}

/// How far rules look beyond the window, to either side, and for how long values stand still that are taken for old.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// Milliseconds that rules look beyond the window, to either side.
    pub ms: i64,
    /// A value that stands still for longer is taken for old.
    pub frozen_ms: i64,
}

impl From<i64> for Around {
    /// Without a look at values that stand still: a part of the signals does not show it.
    fn from(ms: i64) -> Self {
        Around { ms, frozen_ms: i64::MAX }
    }
}

/// Lays the sources on the grid.
pub fn frames<'s, 'a: 's>(
    sources: impl Iterator<Item = &'s Source<'a>>,
    window: &Range<TimeMs>,
    around: impl Into<Around>,
) -> Framed {
    frames_of(sources, window, around.into(), |_, _| true)
}

/// The same, only of nodes on which an owner releases a GPU.
pub(crate) fn frames_of_ends<'s, 'a: 's>(
    sources: impl Iterator<Item = &'s Source<'a>>,
    window: &Range<TimeMs>,
    around: impl Into<Around>,
) -> Framed {
    frames_of(sources, window, around.into(), |members, cells| members.let_go(cells))
}

fn frames_of<'s, 'a: 's>(
    sources: impl Iterator<Item = &'s Source<'a>>,
    window: &Range<TimeMs>,
    around: Around,
    wanted: impl Fn(&Members<'_, '_>, &[Range<TimeMs>]) -> bool + Sync,
) -> Framed {
    let reach = around.ms + MAX_BRIDGE_MS;
    let range = window.start - reach..window.end + reach;
    let is_laid = |signal: Signal| !signal.is_of_collectives() && !signal.is_of_demand();
    let laid = sources.filter(|source| is_laid(source.meaning.signal));
    let mut sources = epochs::cut(laid.filter_map(|s| s.within(&range)).collect());
    exporters::note(&mut sources);
    let failed = failed::scrapes(&sources);
    for (source, times) in sources.iter_mut().filter_map(|s| failed.get(&s.target).map(|times| (s, times))) {
        source.failed = Arc::clone(times);
    }
    let mut directory = Directory::default();
    for source in &sources {
        directory.add(source.target, &source.meaning, source.labels);
    }
    let contested = contested::find(&sources);
    directory.contest(contested.keys().copied());
    let (mut members, mut unjoined) = by_node(&sources, &directory);
    unjoined.extend(contested::told(&contested));
    away::note(&mut members, &sources, &directory);
    let members: Vec<_> = members.into_iter().filter(|(_, members)| !members.gpus.is_empty()).collect();
    let is_server = |s: &&Source<'_>| s.meaning.entity == Entity::Server && !s.meaning.signal.is_of_belonging();
    let servers: Vec<&Source<'_>> = sources.iter().filter(is_server).collect();
    let (runs, accounts) = (Runs::of(sources.iter()), Accounts::of(sources.iter()));
    let lay = |(id, members): &(NodeId<'_>, Members<'_, '_>)| {
        let grid = members.grid(window, around);
        let runs = runs.get(id.cluster).cloned().unwrap_or_default();
        let accounts = accounts.get(id.cluster).cloned().unwrap_or_default();
        let frame = wanted(members, &grid.cells).then(|| members.frame(*id, &servers, window, grid));
        let frame = frame.map(|frame| NodeFrame { runs, accounts, ..frame });
        members.all().for_each(|source| source.forget_pieces());
        frame
    };
    let lay = |member: &(NodeId<'_>, Members<'_, '_>)| {
        let id = member.0;
        caught(|| lay(member)).map_err(|reason| FailedNode::new(id.cluster, &id.shown(), reason))
    };
    let (mut nodes, mut failed) = (Vec::new(), Vec::new());
    for laid in members.par_iter().map(lay).collect::<Vec<_>>() {
        match laid {
            Ok(frame) => nodes.extend(frame),
            Err(node) => failed.push(node),
        }
    }
    for frame in nodes.iter().filter(|f| f.host.is_silent() && f.jobs.is_empty() && f.node != UNJOINED_NODE) {
        let without = |g: &GpuFrame| Unjoined::GpuWithoutHost { gpu: g.uuid.clone(), node: frame.node.clone() };
        unjoined.extend(frame.gpus.iter().map(without));
    }
    Framed { nodes, unjoined, failed }
}

impl<'a> Source<'a> {
    fn of(labels: &'a Labels, samples: &'a [Sample], meaning: Arc<Meaning<'a>>, target: Target<'a>) -> Self {
        let (failed, interval_ms, pieces) = (Arc::default(), OnceLock::new(), Mutex::default());
        let (names_exporter, has_markers) = (false, false);
        Source { labels, samples, meaning, target, names_exporter, has_markers, failed, interval_ms, pieces }
    }

    /// The same with the samples of the range only; `None` if there are none.
    fn within(&self, range: &Range<TimeMs>) -> Option<Source<'a>> {
        let at = |time| self.samples.partition_point(|s| s.time_ms < time);
        let samples = &self.samples[at(range.start)..at(range.end)];
        let source = || Source::of(self.labels, samples, Arc::clone(&self.meaning), self.target);
        (!samples.is_empty()).then(|| Source { has_markers: self.has_markers, ..source() })
    }

    fn interval_ms(&self) -> Option<i64> {
        *self.interval_ms.get_or_init(|| grid::interval_ms(self.samples))
    }

    /// The owner that it names.
    pub(crate) fn owner(&self) -> Option<String> {
        owner_of(self.labels, self.names_exporter)
    }

    /// Its samples, without the markers of scrapes that failed.
    fn told(&self) -> Cow<'a, [Sample]> {
        failed::without_markers(self.samples, &self.failed)
    }

    /// Its step function, for which several ask.
    fn pieces(&self) -> Arc<Vec<Piece>> {
        let mut kept = self.pieces.lock();
        let make = || {
            let interval = self.interval_ms().unwrap_or(DEFAULT_INTERVAL_MS);
            Arc::new(pieces(self.meaning.signal, &self.told(), self.meaning.scale, interval))
        };
        Arc::clone(kept.get_or_insert_with(make))
    }

    /// Frees it: those of a whole fleet at once are several times as much as its samples.
    fn forget_pieces(&self) {
        *self.pieces.lock() = None;
    }
}
