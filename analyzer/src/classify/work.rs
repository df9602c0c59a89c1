//! What is noted of every cell of every GPU before rules are asked, for they compare a cell with many others.

use super::busy::{Busy, busy};
use super::{Cell, Thresholds, depth};
use crate::frame::{NodeFrame, Work};
use crate::signal::Signal;

/// How much of the cell was work, and how that went. `None` where no signal says anything.
pub(super) fn work(cell: &Cell<'_>, t: &Thresholds) -> Option<Work> {
    cell.gpu.work.get(cell.index).map_or_else(|| look(cell, t), |noted| *noted)
}

/// A share of the cell that only passes while the GPU is busy, of that time; `None` where it is not busy enough to tell.
pub(super) fn per_busy(cell: &Cell<'_>, signal: Signal, t: &Thresholds) -> Option<f64> {
    let busy = Some(work(cell, t)?.ratio).filter(|ratio| *ratio >= t.derate_busy_ratio)?;
    Some((cell.mean(signal)? / busy).min(1.0))
}

/// Notes it in the frame.
pub(super) fn note(node: &mut NodeFrame, t: &Thresholds) {
    let cells = |gpu| (0..node.cells.len()).map(move |index| (gpu, index));
    let noted: Vec<Vec<Option<Work>>> = (node.gpus.iter())
        .map(|gpu| cells(gpu).map(|(gpu, index)| look(&Cell { node, gpu, owner: None, index }, t)).collect())
        .collect();
    node.gpus.iter_mut().zip(noted).for_each(|(gpu, noted)| gpu.work = noted);
}

fn look(cell: &Cell<'_>, t: &Thresholds) -> Option<Work> {
    let Busy { ratio, spun, .. } = busy(cell, t)?;
    if ratio < t.derate_busy_ratio {
        return Some(Work { ratio, spun, clock: None, depths: Default::default() });
    }
    Some(Work { ratio, spun, clock: cell.mean(Signal::SmClock), depths: depth::depths(cell, ratio, t) })
}
