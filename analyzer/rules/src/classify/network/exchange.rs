//! The nodes of a run side by side, as one exchange between them sees them.

use std::ops::Range;
use std::ptr;

use super::super::Node;
use super::super::judge::Booked;
use super::super::straggler::Member;
use super::ports::Ports;
use crate::signal::Signal;
use goodput_exposition::sample::TimeMs;

/// A run on several nodes.
pub(super) struct Exchange<'a> {
    pub(super) sides: Vec<Side<'a>>,
}

/// A node of the run.
pub(super) struct Side<'a> {
    pub(super) node: &'a Node,
    pub(super) ports: Ports<'a>,
    /// GPUs of the run on it.
    pub(super) gpus: usize,
}

impl<'a> Exchange<'a> {
    /// `None` where the run is on one node, or where no port of it is known.
    pub(super) fn of(members: &[Member<'_>], booked: &[Booked<'a>]) -> Option<Exchange<'a>> {
        let mut nodes: Vec<(&'a Node, usize)> = Vec::new();
        for node in members.iter().map(|member| booked[member.gpu].course.node) {
            match nodes.iter_mut().find(|(known, _)| ptr::eq(*known, node)) {
                Some((_, gpus)) => *gpus += 1,
                None => nodes.push((node, 1)),
            }
        }
        Self::between(nodes)
    }

    /// Of nodes with how many GPUs the run has on each.
    pub(super) fn between(nodes: Vec<(&'a Node, usize)>) -> Option<Exchange<'a>> {
        if nodes.len() < 2 {
            return None;
        }
        let sides = nodes.into_iter().map(|(node, gpus)| Side { node, ports: Ports::of(node), gpus });
        let sides: Vec<Side<'_>> = sides.collect();
        sides.iter().any(|side| !side.ports.rdma.is_empty()).then_some(Exchange { sides })
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

    /// The cell of each side that has the middle of this one of the first node.
    pub(super) fn at(&self, cell: usize) -> impl Iterator<Item = (usize, &Side<'a>, usize)> {
        let span = &self.cells()[cell];
        let all = self.sides.iter().enumerate();
        all.filter_map(move |(n, side)| Some((n, side, at(&side.node.cells, span)?)))
    }
}

impl Side<'_> {
    /// Bytes per second that the node exchanges with others, without those of network file systems: over RDMA, else over
    /// its interfaces the direction that has less, for an exchange goes both ways and storage does not.
    pub(super) fn exchanged(&self, index: usize) -> Option<f64> {
        let (rdma, tcp) = (self.ports.rdma_bytes(index), self.tcp(index));
        rdma.into_iter().chain(tcp).reduce(f64::max)
    }

    /// The same over its interfaces alone.
    pub(super) fn tcp(&self, index: usize) -> Option<f64> {
        let (sent, received) = self.ports.interface_bytes(index)?;
        let nfs = |signal| self.node.host.read(signal, index).map_or(0.0, |reading| reading.mean);
        let (read, written) = (nfs(Signal::NodeNfsRead), nfs(Signal::NodeNfsWritten));
        Some((sent - written).min(received - read).max(0.0))
    }
}

fn at(cells: &[Range<TimeMs>], span: &Range<TimeMs>) -> Option<usize> {
    let middle = span.start + (span.end - span.start) / 2;
    let index = cells.partition_point(|cell| cell.end <= middle);
    cells.get(index).filter(|cell| cell.contains(&middle)).map(|_| index)
}
