//! What the job writes, else its node: what a save looks like, and what an idle GPU may wait for.

use super::thresholds::confidence::{INFERRED, NODE_WIDE};
use super::work::work;
use super::{Cell, Thresholds};
use crate::frame::Reading;
use crate::signal::Signal;

/// What tells the writing, best first.
pub(super) const WRITTEN: [Signal; 2] = [Signal::JobWritten, Signal::NodeDiskWritten];

/// How far time of writing and time of work may seem to overlap because scrapes of both do not fall together: a scrape of
/// 15 s in a cell of 60 s.
const SMEAR: f64 = 0.25;

/// A rate of writing.
#[derive(Clone, Copy)]
pub(super) struct Writing<'a> {
    pub(super) signal: Signal,
    pub(super) reading: &'a Reading,
    pub(super) confidence: f64,
}

/// What is known best of a cell. Of the job, block devices count what reaches them, and processes what they hand to the
/// kernel, for network file systems too: the higher rate is taken. What a node writes may be anyone's, so that it tells
/// nothing of a job that is known to write nothing.
pub(super) fn writing<'a>(cell: &Cell<'a>) -> Option<Writing<'a>> {
    let read = |signal, confidence| Some(Writing { signal, reading: cell.read(signal)?, confidence });
    let of_job = [Signal::JobWritten, Signal::JobStorageWritten].into_iter().filter_map(|s| read(s, INFERRED));
    let highest = of_job.reduce(|one, other| if other.reading.max > one.reading.max { other } else { one });
    highest.or_else(|| read(Signal::NodeDiskWritten, NODE_WIDE))
}

/// Do all GPUs of the node that are held stop for the writing? Its share of the cell and that of their work fit next to
/// each other.
pub(super) fn all_stop(cell: &Cell<'_>, written: &Reading, t: &Thresholds) -> bool {
    if written.max <= 0.0 {
        return false;
    }
    let share = written.mean / written.max;
    let held = cell.node.gpus.iter().filter(|gpu| !gpu.owners[cell.index].is_empty());
    let mut works = held.filter_map(|gpu| Some(work(&Cell { gpu, ..*cell }, t)?.ratio));
    works.all(|ratio| ratio + share <= 1.0 + SMEAR)
}
