//! Which sources are about which node, and its frame made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::gpu::{self, GpuFrame};
use super::identity::{Directory, NodeId, Unjoined};
use super::piece::{MAX_BRIDGE_MS, STALENESS_MS};
use super::place::{self, ALWAYS, Stay};
use super::{Around, DEFAULT_INTERVAL_MS, NodeFrame, Source, Tracks, UNJOINED_NODE, grid};
use crate::signal::{Entity, Signal};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::owner::servers_named;

/// The sources of one node, by what they are about.
#[derive(Default)]
pub(super) struct Members<'s, 'a> {
    pub(super) host: Vec<&'s Source<'a>>,
    pub(super) jobs: BTreeMap<&'a str, Vec<&'s Source<'a>>>,
    pub(super) gpus: BTreeMap<&'a str, Vec<&'s Source<'a>>>,
    /// When each GPU is this node's and in capacity, in order.
    pub(super) here: BTreeMap<&'a str, Vec<Range<TimeMs>>>,
}

/// The cells of a node, and which of them are the window's.
pub(super) struct Grid {
    pub(super) cells: Vec<Range<TimeMs>>,
    pub(super) body: Range<usize>,
    /// From when on all is known about a sample and its neighbours.
    pub(super) known_from: TimeMs,
    pub(super) frozen_ms: i64,
}

pub(super) type Nodes<'s, 'a> = BTreeMap<NodeId<'a>, Members<'s, 'a>>;

pub(super) fn by_node<'s, 'a>(
    sources: &'s [Source<'a>],
    directory: &Directory<'a>,
) -> (Nodes<'s, 'a>, BTreeSet<Unjoined>) {
    let mut nodes = Nodes::new();
    let mut unjoined = BTreeSet::new();
    let mut gpus: BTreeMap<&str, Vec<&Source<'a>>> = BTreeMap::new();
    for source in sources.iter().filter(|s| s.meaning.entity != Entity::Server) {
        if let Entity::Gpu(uuid) | Entity::MigInstance(uuid, _) = source.meaning.entity {
            gpus.entry(uuid).or_default().push(source);
        } else if let Some(id) = directory.node_of(source.target, &source.meaning, source.labels) {
            nodes.entry(id).or_default().add_host(source);
        } else if source.meaning.signal != Signal::Up {
            unjoined.insert(Unjoined::HostWithoutName { target: source.target.to_string() });
        }
    }
    for (uuid, sources) in gpus {
        let stays = place::stays(uuid, &sources, directory).unwrap_or_else(|reason| {
            unjoined.insert(reason);
            vec![Stay { node: NodeId::of("", UNJOINED_NODE), sources, here: ALWAYS }]
        });
        for Stay { node, sources, here } in stays {
            let members = nodes.entry(node).or_default();
            members.gpus.insert(uuid, sources);
            members.here.insert(uuid, vec![here]);
        }
    }
    (nodes, unjoined)
}

impl<'s, 'a> Members<'s, 'a> {
    pub(super) fn add_host(&mut self, source: &'s Source<'a>) {
        match source.meaning.entity {
            Entity::Job(owner) => self.jobs.entry(owner).or_default().push(source),
            _ => self.host.push(source),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &&'s Source<'a>> {
        self.host.iter().chain(self.jobs.values().flatten()).chain(self.gpus.values().flatten())
    }

    pub(super) fn grid(&self, window: &Range<TimeMs>, Around { ms: around_ms, frozen_ms }: Around) -> Grid {
        let cell_ms = grid::cell_ms(self.interval_ms());
        let mut cells = grid::cells(window.start - around_ms..window.start, cell_ms);
        let first = cells.len();
        cells.extend(grid::cells(window.clone(), cell_ms));
        let body = first..cells.len();
        cells.extend(grid::cells(window.end..window.end + around_ms, cell_ms));
        let known_from = window.start - around_ms - MAX_BRIDGE_MS + STALENESS_MS;
        Grid { cells, body, known_from, frozen_ms }
    }

    /// Is there a GPU that an owner holds in a cell and does not hold in the next?
    pub(super) fn let_go(&self, cells: &[Range<TimeMs>]) -> bool {
        self.gpus.values().any(|sources| gpu::is_let_go(sources, cells))
    }

    pub(super) fn frame(
        &self,
        id: NodeId<'_>,
        servers: &[&'s Source<'a>],
        window: &Range<TimeMs>,
        grid: Grid,
    ) -> NodeFrame {
        let here = |uuid: &str| self.here.get(uuid).map_or(&[][..], Vec::as_slice);
        let mut names = gpu::Names::new();
        let of_gpu = |(uuid, s): (&&str, &Vec<_>)| GpuFrame::all(uuid, &mut names, s, here(uuid), &grid, window.end);
        let gpus: Vec<GpuFrame> = self.gpus.iter().flat_map(of_gpu).collect();
        let Grid { cells, body, .. } = grid;
        let mut jobs: BTreeMap<&str, Vec<&Source<'a>>> = self.jobs.iter().map(|(o, s)| (*o, s.clone())).collect();
        for server in servers.iter().filter(|s| s.target.cluster == id.cluster) {
            let names = servers_named(server.labels);
            let holders: BTreeSet<&str> = gpus.iter().flat_map(|gpu| gpu.holders()).collect();
            for holder in holders.into_iter().filter(|holder| names.iter().any(|name| name == holder)) {
                jobs.entry(holder).or_default().push(server);
            }
        }
        jobs.values_mut().for_each(of_one_server);
        let jobs = jobs.into_iter().map(|(o, s)| (o.to_owned(), Tracks::of(&s, &cells, |_| None))).collect();
        NodeFrame {
            cluster: id.cluster.to_string(),
            node: id.shown(),
            host: Tracks::of(&self.host, &cells, |_| None),
            jobs,
            gpus,
            told: Arc::default(),
            runs: Arc::default(),
            accounts: Arc::default(),
            background_cores: 0.0,
            elsewhere: BTreeMap::new(),
            body,
            cells,
        }
    }

    /// Scrape interval of the node's GPUs: the median over their series.
    fn interval_ms(&self) -> i64 {
        let mut all: Vec<i64> = self.gpus.values().flatten().filter_map(|s| s.interval_ms()).collect();
        let middle = all.len() / 2;
        if all.is_empty() { DEFAULT_INTERVAL_MS } else { *all.select_nth_unstable(middle).1 }
    }
}

/// Takes the clocks out where several servers of the owner have one at the same time: which GPU is whose is not known.
fn of_one_server(sources: &mut Vec<&Source<'_>>) {
    let is_clock = |source: &&Source<'_>| source.meaning.signal.is_of_a_servers_clock();
    let mut spans: BTreeMap<&str, Range<TimeMs>> = BTreeMap::new();
    for source in sources.iter().filter(|source| is_clock(source)) {
        let (Some(first), Some(last)) = (source.samples.first(), source.samples.last()) else { continue };
        let span =
            spans.entry(source.labels.get("instance").unwrap_or_default()).or_insert(first.time_ms..last.time_ms);
        *span = span.start.min(first.time_ms)..span.end.max(last.time_ms);
    }
    let mut spans: Vec<Range<TimeMs>> = spans.into_values().collect();
    spans.sort_unstable_by_key(|span| span.start);
    if spans.windows(2).any(|pair| pair[1].start <= pair[0].end) {
        sources.retain(|source| !is_clock(source));
    }
}
