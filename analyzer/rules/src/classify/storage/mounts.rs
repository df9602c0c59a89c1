//! Network file systems of a node: which there are, whose lookups are waited for, and which a job saves to.

use std::collections::{BTreeMap, BTreeSet};

use super::super::loaders::is_alone;
use super::super::writing::writing;
use super::super::{Cell, Node, Thresholds};
use super::rate;
use crate::frame::{Reading, sum};
use crate::signal::{Mounted, Signal};

/// Mounts of a node that are looked at, at most: as many as there may be series of.
pub(super) const MOST_MOUNTS: usize = 64;
/// Rates of the same thing agree within this factor, for scrapes of both do not fall together.
const AGREES: f64 = 2.0;

/// Is it a Lustre file system, which is told by its name alone?
pub(super) fn is_lustre(mount: &str) -> bool {
    !mount.contains(['/', ':'])
}

/// May it be told under its mount point too?
fn is_export(mount: &str) -> bool {
    !mount.starts_with('/') && !is_lustre(mount)
}

/// The mounts that a signal has in a cell, each file system once: where two exporters tell the same mounts, one by mount
/// point and one by export, those by mount point; of mounts of one export, which share their counts, the first.
pub(super) fn distinct(node: &Node, signal: Signal, index: usize) -> Vec<(&str, &Reading)> {
    let has_points = node.host.split(signal, index).any(|(name, _)| name.starts_with('/'));
    let all = node.host.split(signal, index).filter(|(name, _)| !has_points || !is_export(name));
    let mut found: Vec<(&str, &Reading)> = Vec::new();
    for (name, reading) in all.take(MOST_MOUNTS) {
        let is_known = |(_, other): &(&str, &Reading)| reading.mean > 0.0 && other.mean == reading.mean;
        if !found.iter().any(is_known) {
            found.push((name, reading));
        }
    }
    found
}

/// The network file systems of the node that have requests, each once, as in [`distinct`].
pub(super) fn names(node: &Node) -> impl Iterator<Item = &str> {
    let signals = [Signal::MountReads, Signal::MountOthers, Signal::MountWritten];
    let all: BTreeSet<&str> =
        signals.iter().flat_map(|signal| node.host.splits(*signal)).map(|(name, _)| name).collect();
    let has_points = all.iter().any(|name| name.starts_with('/'));
    let mut exports = BTreeSet::new();
    all.into_iter()
        .filter(move |name| !has_points || !is_export(name))
        .filter(move |name| export_of(node, name).is_none_or(|export| exports.insert(export)))
        .take(MOST_MOUNTS)
}

/// The signal of all network file systems of the node together; `None` where none is told.
pub(in super::super) fn summed(node: &Node, signal: Signal, index: usize) -> Option<Reading> {
    distinct(node, signal, index).into_iter().map(|(_, reading)| *reading).reduce(sum)
}

/// Bytes a second that are read from the network file system that most is read from; `None` where none is told.
pub(in super::super) fn most_read(node: &Node, index: usize) -> Option<f64> {
    distinct(node, Signal::MountRead, index).into_iter().map(|(_, reading)| reading.mean).reduce(f64::max)
}

/// Where mounts are mounted, as far as that is told.
fn mounted(node: &Node) -> impl Iterator<Item = Mounted<'_>> {
    node.host.splits(Signal::MountPoint).filter_map(|(of, _)| Mounted::parse(of))
}

/// The mount point of an export, where it is told.
pub(super) fn point_of<'a>(node: &'a Node, mount: &'a str) -> &'a str {
    mounted(node).find(|known| known.export == mount).map_or(mount, |known| known.point)
}

/// What is mounted there, as far as that is told.
pub(super) fn export_of<'a>(node: &'a Node, mount: &'a str) -> Option<&'a str> {
    if !mount.starts_with('/') {
        return Some(mount);
    }
    mounted(node).find(|known| known.point == mount).map(|known| known.export)
}

/// The time after which its requests are sent again, as far as that is told.
pub(super) fn timeout_seconds(node: &Node, mount: &str) -> Option<f64> {
    mounted(node).filter(|known| known.point == mount).find_map(|known| known.timeout_seconds)
}

/// The node's only NFS mount, under whatever names it is told.
pub(super) fn only_mount(node: &Node) -> Option<&str> {
    let nfs = node.host.splits(Signal::MountReads).filter(|(mount, _)| !is_lustre(mount));
    let mut mounts = nfs.map(|(mount, _)| point_of(node, mount));
    let first = mounts.next()?;
    mounts.all(|mount| mount == first).then_some(first)
}

/// The mount with the most time of requests other than reads and writes, and how many of them are in flight: at least
/// `io_waiting_ratio` in the mean, and several for each read.
pub(in super::super) fn looked_up<'a>(cell: &Cell<'a>, t: &Thresholds) -> Option<(&'a str, f64)> {
    let all = distinct(cell.node, Signal::MountOtherTime, cell.index).into_iter();
    let (mount, in_flight) =
        all.map(|(mount, reading)| (mount, reading.mean)).max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let (others, reads) = (rate(cell, Signal::MountOthers, mount)?, rate(cell, Signal::MountReads, mount)?);
    (others >= t.metadata_ratio * reads && in_flight >= t.io_waiting_ratio).then_some((mount, in_flight))
}

/// The mount that gets most of what is written around the cell, where that is the job's: one owner has all GPUs of the node that
/// are held, or its processes write as much.
pub(super) fn saved_to<'a>(cell: &Cell<'a>, t: &Thresholds) -> Option<&'a str> {
    let last = cell.node.cells.len() - 1;
    let near = || (cell.index.saturating_sub(1)..=(cell.index + 1).min(last)).map(|index| Cell { index, ..*cell });
    let mut mounts: BTreeMap<&str, f64> = BTreeMap::new();
    for (mount, reading) in near().flat_map(|cell| distinct(cell.node, Signal::MountWritten, cell.index)) {
        *mounts.entry(mount).or_default() += reading.mean;
    }
    let (mount, most) = mounts.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let written: f64 = near().filter_map(|cell| writing(&cell)).map(|writing| writing.reading.mean).sum();
    let of_processes: f64 = near().filter_map(|cell| cell.mean(Signal::JobStorageWritten)).sum();
    let is_its = is_alone(cell) || (of_processes >= most / AGREES && of_processes <= most * AGREES);
    (is_its && most >= written / AGREES && most >= t.idle_written_bytes).then_some(mount)
}
