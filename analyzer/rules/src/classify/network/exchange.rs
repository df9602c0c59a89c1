//! The nodes of a run side by side, as one exchange between them sees them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::ptr;

use super::super::judge::Booked;
use super::super::run::Run;
use super::super::straggler::Member;
use super::super::{Node, storage};
use super::nvlink;
use super::ports::Ports;
use crate::frame::GpuFrame;
use crate::signal::Signal;
use goodput_exposition::sample::TimeMs;

/// A run of several GPUs, on one node or more.
pub(super) struct Exchange<'a> {
    pub(super) sides: Vec<Side<'a>>,
}

/// A node of the run.
pub(super) struct Side<'a> {
    pub(super) node: &'a Node,
    pub(super) ports: Ports<'a>,
    /// Who holds its GPUs, cell by cell.
    held: Vec<Held>,
    /// The names of the run on the node.
    owners: BTreeSet<&'a str>,
    /// Bytes per second of network file systems, read and written, cell by cell.
    storage: Vec<[f64; 2]>,
    /// Is it the run's only node, so that the exchange is what goes over NVLink?
    is_alone: bool,
}

/// GPUs of a node in a cell.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    by_run: usize,
    by_others: usize,
}

impl<'a> Exchange<'a> {
    /// `None` where neither the RDMA ports of several nodes are known nor NVLinks.
    pub(super) fn of(run: &Run, members: &[Member<'_>], booked: &[Booked<'a>]) -> Option<Exchange<'a>> {
        let mut nodes: Vec<&'a Node> = Vec::new();
        for node in members.iter().map(|member| booked[member.gpu].course.node) {
            if !nodes.iter().any(|known| ptr::eq(*known, node)) {
                nodes.push(node);
            }
        }
        Self::between(run, nodes)
    }

    /// The same of these nodes. The one with the finest grid stands first.
    pub(super) fn between(run: &Run, mut nodes: Vec<&'a Node>) -> Option<Exchange<'a>> {
        nodes.sort_by_key(|node| (Reverse(node.cells.len()), node.cluster.as_str(), node.node.as_str()));
        let is_alone = nodes.len() == 1;
        let side = |node: &'a Node| {
            let (held, owners) = held(node, run);
            Side { node, ports: Ports::of(node), held, owners, storage: storage_bytes(node), is_alone }
        };
        let has_links = nodes.iter().any(|node| node.gpus.iter().any(|gpu| gpu.tracks.has(Signal::NvlinkUp)));
        let sides: Vec<Side<'_>> = nodes.into_iter().map(side).collect();
        let has_ports = !is_alone && sides.iter().any(|side| !side.ports.rdma.is_empty());
        (has_ports || has_links && !sides.is_empty()).then_some(Exchange { sides })
    }

    pub(super) fn has_several_nodes(&self) -> bool {
        self.sides.len() > 1
    }

    /// The grid of the first node, by which all is looked at.
    pub(super) fn cells(&self) -> &'a [Range<TimeMs>] {
        &self.sides[0].node.cells
    }

    /// The cells of the window.
    pub(super) fn body(&self) -> Range<usize> {
        self.sides[0].node.body.clone()
    }

    pub(super) fn node(&self, side: usize) -> &'a Node {
        self.sides[side].node
    }

    /// Which side the node is.
    pub(super) fn side_of(&self, node: &Node) -> Option<usize> {
        self.sides.iter().position(|side| ptr::eq(side.node, node))
    }

    /// The cell of the first node that has the middle of this one.
    pub(super) fn cell_of(&self, node: &Node, index: usize) -> Option<usize> {
        at(self.cells(), &node.cells[index])
    }

    /// The cell of a node that has the middle of this one of the first.
    pub(super) fn index_at(&self, node: &Node, cell: usize) -> Option<usize> {
        at(&node.cells, &self.cells()[cell])
    }

    /// The cell that has the middle of this one of the first node, of each side on which the run holds a GPU then.
    pub(super) fn at(&self, cell: usize) -> impl Iterator<Item = (usize, &Side<'a>, usize)> {
        let span = &self.cells()[cell];
        let all = self.sides.iter().enumerate();
        let there = all.filter_map(move |(n, side)| Some((n, side, at(&side.node.cells, span)?)));
        there.filter(|(_, side, index)| side.held[*index].by_run > 0)
    }
}

impl<'a> Side<'a> {
    /// The GPUs that the run holds in the cell.
    pub(super) fn gpus_of_run(&self, index: usize) -> impl Iterator<Item = &'a GpuFrame> + use<'_, 'a> {
        let whole = self.node.gpus.iter().filter(|gpu| gpu.instance.is_none());
        whole.filter(move |gpu| gpu.owners[index].iter().any(|(owner, _)| self.owners.contains(&**owner)))
    }

    /// GPUs of the run in the cell.
    pub(super) fn gpus(&self, index: usize) -> usize {
        self.held[index].by_run
    }

    /// Bytes per second that the node exchanges with others, without those of network file systems: over RDMA, else over
    /// its interfaces the direction that has less, for an exchange goes both ways and storage does not. `None` where others
    /// hold GPUs of the node too, whose bytes these may be. Of the only node, the bytes over NVLink of the GPU that has the
    /// most: those whose links are down leave the others theirs.
    pub(super) fn exchanged(&self, index: usize) -> Option<f64> {
        if self.is_alone {
            let has_links = |gpu: &GpuFrame| gpu.tracks.read(Signal::NvlinkUp, index).is_some_and(|up| up.max > 0.0);
            self.gpus_of_run(index).find(|gpu| has_links(gpu))?;
            return self.gpus_of_run(index).filter_map(|gpu| nvlink::bytes(gpu, index)).reduce(f64::max);
        }
        if self.held[index].by_others > 0 {
            return None;
        }
        let (rdma, tcp) = (self.ports.rdma_bytes(index), self.tcp(index));
        rdma.into_iter().chain(tcp).reduce(f64::max)
    }

    /// Is what its ports carry the run's exchange, but for a tenth at most?
    pub(super) fn has_own_bytes(&self, index: usize) -> bool {
        let of_storage: f64 = self.storage[index].into_iter().sum();
        self.held[index].by_others == 0 && self.ports.rdma_bytes(index).is_some_and(|bytes| 10.0 * of_storage <= bytes)
    }

    /// The same over its interfaces alone.
    pub(super) fn tcp(&self, index: usize) -> Option<f64> {
        let (sent, received) = self.ports.interface_bytes(index)?;
        let [read, written] = self.storage[index];
        Some((sent - written).min(received - read).max(0.0))
    }
}

fn storage_bytes(node: &Node) -> Vec<[f64; 2]> {
    let bytes = |signal, index| storage::summed(node, signal, index).map_or(0.0, |reading| reading.mean);
    (0..node.cells.len()).map(|index| [Signal::MountRead, Signal::MountWritten].map(|s| bytes(s, index))).collect()
}

/// How many GPUs of the node the run holds in each cell, and others; and the owners that are the run.
fn held<'a>(node: &'a Node, run: &Run) -> (Vec<Held>, BTreeSet<&'a str>) {
    let mut held = vec![Held::default(); node.cells.len()];
    let mut known: HashMap<&str, bool> = HashMap::new();
    for gpu in node.gpus.iter().filter(|gpu| gpu.instance.is_none()) {
        for (cell, owners) in held.iter_mut().zip(&gpu.owners) {
            let (mut own, mut other) = (false, false);
            for (owner, _) in owners {
                let is_own = *known.entry(owner).or_insert_with(|| Run::of(node, owner) == *run);
                (own, other) = (own || is_own, other || !is_own);
            }
            cell.by_run += usize::from(own);
            cell.by_others += usize::from(other);
        }
    }
    (held, known.into_iter().filter(|(_, is_own)| *is_own).map(|(owner, _)| owner).collect())
}

fn at(cells: &[Range<TimeMs>], span: &Range<TimeMs>) -> Option<usize> {
    let middle = span.start + (span.end - span.start) / 2;
    let index = cells.partition_point(|cell| cell.end <= middle);
    cells.get(index).filter(|cell| cell.contains(&middle)).map(|_| index)
}
