//! What is noted of every cell of every GPU before rules are asked, for they compare a cell with many others.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::busy::{Busy, busy};
use super::loaders::Load;
use super::{Cell, Node, Thresholds, cpu, depth, power};
use crate::frame::{Extremes, GpuFrame, Work};
use crate::signal::{LADDER, Signal};

/// How much of the cell was work, and how that went. `None` where no signal says anything.
#[inline]
pub(super) fn work(cell: &Cell<'_>, t: &Thresholds) -> Option<Work> {
    cell.gpu.work.get(cell.index).map_or_else(|| look(cell, t), |noted| *noted)
}

/// A share of the cell that only passes while the GPU is busy, of that time; `None` where it is not busy enough to tell.
pub(super) fn per_busy(cell: &Cell<'_>, signal: Signal, t: &Thresholds) -> Option<f64> {
    let busy = Some(work(cell, t)?.ratio).filter(|ratio| *ratio >= t.derate_busy_ratio)?;
    Some((active(cell, signal)? / profiled_busy(cell, busy, t)).min(1.0))
}

/// The share of time with kernels, in the windows of the profiling counters: as gauges they cover a part of a cell's time,
/// and the busy time is counted over all of it. Engine and multiprocessors have the same windows.
pub(super) fn profiled_busy(cell: &Cell<'_>, busy: f64, t: &Thresholds) -> f64 {
    cell.mean(Signal::GrEngineActive).filter(|engine| *engine > t.idle_busy_ratio).unwrap_or(busy)
}

/// The mean of a signal of a GPU that works. Some multiprocessor is at work then: where none is, the profiling counters stand
/// still.
pub(super) fn active(cell: &Cell<'_>, signal: Signal) -> Option<f64> {
    use Signal::{DramActive, SmActive, SmOccupancy, TensorActive};
    let is_profiled = matches!(signal, SmActive | SmOccupancy | TensorActive | DramActive);
    let stands_still = is_profiled && cell.mean(SmActive).is_some_and(|mean| mean <= 0.0);
    cell.mean(signal).filter(|_| !stands_still)
}

/// Does sustained work go on in the cell: work that goes on in the next one, as far as that is known? `busy` tells how much of
/// a cell was work.
pub(super) fn is_sustained(busy: impl Fn(usize) -> Option<f64>, cell: usize, t: &Thresholds) -> bool {
    let is_work = |busy: f64| busy >= t.sustained_busy_ratio;
    busy(cell).is_some_and(is_work) && busy(cell + 1).is_none_or(is_work)
}

/// Is there more work in the cell after it?
pub(super) fn grows(busy: impl Fn(usize) -> Option<f64>, cell: usize, t: &Thresholds) -> bool {
    busy(cell).zip(busy(cell + 1)).is_some_and(|(now, next)| next >= now + t.sustained_busy_ratio)
}

/// Notes it in the frame.
pub(super) fn note(node: &mut Node, t: &Thresholds) {
    let idle_watts: Vec<Option<f64>> = node.gpus.iter().map(|gpu| idle_watts(node, gpu, t)).collect();
    node.gpus.iter_mut().zip(idle_watts).for_each(|(gpu, watts)| gpu.idle_watts = watts);
    let cells = |gpu| (0..node.cells.len()).map(move |index| (gpu, index));
    let noted: Vec<Vec<Option<Work>>> = (node.gpus.iter())
        .map(|gpu| cells(gpu).map(|(gpu, index)| look(&Cell::of(node, gpu, None, index), t)).collect())
        .collect();
    node.background_cores = cpu::background(node, t);
    for (gpu, noted) in node.gpus.iter_mut().zip(noted) {
        (gpu.extremes, gpu.work) = (extremes(gpu, &noted), noted);
    }
    let owners: BTreeSet<&Arc<str>> =
        node.gpus.iter().flat_map(|gpu| gpu.owners.iter().flatten()).map(|(o, _)| o).collect();
    let empty = || node.cells.iter().map(|_| Load::default()).collect();
    node.loads = owners.into_iter().map(|owner| (Arc::clone(owner), empty())).collect();
}

fn extremes(gpu: &GpuFrame, noted: &[Option<Work>]) -> Extremes {
    let told = || noted.iter().flatten();
    let watts = (0..noted.len()).filter_map(|index| gpu.tracks.read(Signal::GpuPower, index));
    let span = |measure: usize| {
        let depths = || told().filter_map(|work| work.depths[measure]);
        depths().reduce(f64::min).zip(depths().reduce(f64::max))
    };
    Extremes {
        clock: told().filter_map(|work| work.clock).reduce(f64::max),
        watts: watts.map(|reading| reading.max).reduce(f64::max),
        depths: [0, 1, 2, 3].map(span),
    }
}

/// What the board draws with a context and without work. Memory in use shows the context, and no busy signal shows work.
fn idle_watts(node: &Node, gpu: &GpuFrame, t: &Thresholds) -> Option<f64> {
    let rests = |index| {
        let cell = Cell::of(node, gpu, None, index);
        let most =
            LADDER.into_iter().filter_map(|signal| cell.read(signal)).map(|reading| reading.max).reduce(f64::max)?;
        cell.read(Signal::FbUsed).filter(|used| used.min >= t.held_fb_bytes)?;
        Some((most, *cell.read(Signal::GpuPower)?))
    };
    power::own_idle((0..node.cells.len()).filter_map(rests))
}

fn look(cell: &Cell<'_>, t: &Thresholds) -> Option<Work> {
    let Busy { ratio, spun, .. } = busy(cell, t)?;
    if ratio < t.derate_busy_ratio {
        return Some(Work { ratio, spun, clock: None, depths: Default::default() });
    }
    Some(Work { ratio, spun, clock: cell.mean(Signal::SmClock), depths: depth::depths(cell, ratio, t) })
}
