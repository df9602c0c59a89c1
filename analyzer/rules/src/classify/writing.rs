//! What the job writes, else its node: what a save looks like, and what an idle GPU may wait for.

use super::loaders::is_alone;
use super::thresholds::confidence::{INFERRED, NODE_WIDE, WEAK};
use super::work::work;
use super::{Cell, Thresholds, storage};
use crate::frame::Reading;
use crate::signal::Signal;

/// What tells the writing; any of them is enough.
pub(super) const WRITTEN: [Signal; 3] = [Signal::JobWritten, Signal::NodeDiskWritten, Signal::MountWritten];

/// How far time of writing and time of work may seem to overlap because scrapes of both do not fall together: a scrape of
/// 15 s in a cell of 60 s.
const SMEAR: f64 = 0.25;

/// A rate of writing.
#[derive(Clone, Copy)]
pub(super) struct Writing {
    pub(super) signal: Signal,
    pub(super) reading: Reading,
    pub(super) confidence: f64,
}

impl Writing {
    fn or_higher(self, other: Option<Writing>) -> Writing {
        other.filter(|other| other.reading.max > self.reading.max).unwrap_or(self)
    }
}

/// What is known best of a cell. Of the job, block devices count what reaches them, and processes what they hand to the
/// kernel, for network file systems too: the higher rate is taken. Where processes are not told, what the node writes to
/// network file systems may be the job's, if one owner has all GPUs that are held, and where block devices tell nothing either,
/// what it writes to its disks.
pub(super) fn writing(cell: &Cell<'_>) -> Option<Writing> {
    let of_processes = told(cell, Signal::JobStorageWritten);
    let of_disks = told(cell, Signal::JobWritten);
    if let Some(writing) = of_processes {
        return Some(writing.or_higher(of_disks));
    }
    let of_mounts = told(cell, Signal::MountWritten).filter(|_| is_alone(cell));
    let best = of_disks.or_else(|| told(cell, Signal::NodeDiskWritten));
    best.map(|writing| writing.or_higher(of_mounts)).or(of_mounts)
}

/// The rate that a signal tells.
pub(super) fn told(cell: &Cell<'_>, signal: Signal) -> Option<Writing> {
    let (reading, confidence) = match signal {
        Signal::MountWritten => (storage::summed(cell.node, signal, cell.index)?, NODE_WIDE),
        Signal::NodeDiskWritten => (*cell.read(signal)?, WEAK),
        _ => (*cell.read(signal)?, INFERRED),
    };
    Some(Writing { signal, reading, confidence })
}

/// Do all GPUs of the node that are held stop for the writing, and does one owner hold them? Its share of the cell and that
/// of their work fit next to each other.
pub(super) fn all_stop(cell: &Cell<'_>, written: &Reading, t: &Thresholds) -> bool {
    if written.max <= 0.0 || !is_alone(cell) {
        return false;
    }
    let share = written.mean / written.max;
    let held = cell.node.gpus.iter().filter(|gpu| !gpu.owners[cell.index].is_empty());
    let mut works = held.filter_map(|gpu| Some(work(&Cell { gpu, ..*cell }, t)?.ratio));
    works.all(|ratio| ratio + share <= 1.0 + SMEAR)
}

/// Does the GPU stop for as long as is written, where one owner has all GPUs that are held? One rank may save for all, and the
/// kernels of the others spin meanwhile, which looks like work where nothing tells how deep they work.
pub(super) fn stops_meanwhile(cell: &Cell<'_>, written: &Reading, t: &Thresholds) -> bool {
    let share = written.mean / written.max;
    is_alone(cell) && work(cell, t).is_some_and(|work| (1.0 - work.ratio - share).abs() <= SMEAR)
}
