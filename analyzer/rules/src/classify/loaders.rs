//! What the loaders of a job do: compute, or wait for reads. PSI says when a task waits, not how many do, so their number is
//! bounded from both sides here.

use std::sync::OnceLock;

use super::depth::HeldGpus;
use super::spinning::GAPLESS;
use super::work::work;
use super::{Cell, Thresholds, fed};
use crate::median::median;
use crate::signal::Signal;

/// What rules ask of a cell for each of the cells around it: found out when the first of them does.
#[derive(Debug, Default)]
pub(super) struct Load {
    cores: OnceLock<Option<f64>>,
    worked: OnceLock<Option<f64>>,
}

/// CPUs that the job's loaders use, in the cell: what it uses beyond threads that spin while their GPU works.
pub(super) fn cores(cell: &Cell<'_>, t: &Thresholds) -> Option<f64> {
    cell.load().map_or_else(|| look_for_cores(cell, t), |load| *load.cores.get_or_init(|| look_for_cores(cell, t)))
}

fn look_for_cores(cell: &Cell<'_>, t: &Thresholds) -> Option<f64> {
    let of_node = || Some((cell.mean(Signal::NodeCpuBusy)? - cell.node.background_cores).max(0.0));
    let working = working_gpus(cell, t);
    let spinning = cell.mean(Signal::JobHolderCpu).map_or(working, |holders| holders.min(working));
    Some((cell.mean(Signal::JobCpuUsage).or_else(of_node)? - spinning).max(0.0))
}

/// GPUs that work, in the mean of the cell: of the owner where its CPU use is told, else of the node.
pub(super) fn working_gpus(cell: &Cell<'_>, t: &Thresholds) -> f64 {
    let is_told = cell.mean(Signal::JobCpuUsage).is_some();
    let gpus = cell.node.gpus.iter().map(|gpu| Cell { gpu, ..*cell });
    let held = gpus.filter(|gpu| if is_told { gpu.is_held_by_owner() } else { !gpu.gpu.owners[cell.index].is_empty() });
    held.filter_map(|gpu| work(&gpu, t)).map(|work| work.ratio.max(work.spun)).sum()
}

/// Are all GPUs of the node that are held the owner's?
pub(super) fn is_alone(cell: &Cell<'_>) -> bool {
    let HeldGpus { by_anyone, by_owner } = HeldGpus::around(cell);
    by_anyone == by_owner
}

/// Do the known CPU use and waiting belong to a job that reads? Those of the node do only where no other owner holds a GPU.
pub(super) fn are_told(cell: &Cell<'_>, t: &Thresholds) -> bool {
    let is_whose = cell.mean(Signal::JobCpuUsage).is_some() || is_alone(cell);
    is_whose && fed::reads(cell, t).or_else(|| fed::node_reads(cell, t)).is_some()
}

/// The tasks that may wait for I/O, in the mean: the largest of several bounds. If each waits independently of the others, some of N
/// that each wait for a share w of their time do so for 1 - (1 - w)^N, so that N w is no more than -ln(1 - some), however
/// many there are. If they wait all at once there are more: as many as CPUs that are idle meanwhile (iowait), or as processes
/// in uninterruptible sleep.
fn waiting(cell: &Cell<'_>) -> Option<f64> {
    let some = [Signal::JobIoPressure, Signal::NodeIoPressure].into_iter().find_map(|signal| cell.mean(signal))?;
    let independently = -(1.0 - some.clamp(0.0, 1.0)).ln();
    let iowait = cell.mean(Signal::NodeCpuIowait).filter(|_| is_alone(cell));
    let told = [iowait, cell.mean(Signal::JobUninterruptible)];
    told.into_iter().flatten().chain([independently]).reduce(f64::max)
}

/// The share of the cell for which the GPU waited: the pauses beyond those that its kernels leave where it is fed.
pub(super) fn late_share(cell: &Cell<'_>, t: &Thresholds) -> f64 {
    let Some(here) = work(cell, t).map(|work| work.ratio.max(work.spun)) else { return 0.0 };
    let mut busy: Vec<f64> =
        at_work_around(cell, t).filter_map(|cell| work(&cell, t)).map(|work| work.ratio.max(work.spun)).collect();
    busy.sort_by(|a, b| b.total_cmp(a));
    let fed = busy.get((busy.len() / 10).max(t.deep_cells as usize)).copied();
    1.0 - (here / fed.filter(|fed| *fed >= GAPLESS).unwrap_or(1.0)).min(1.0)
}

/// How many worker processes there are.
pub(super) fn count(cell: &Cell<'_>) -> Option<f64> {
    cell.mean(Signal::JobWorkers).filter(|workers| *workers >= 1.0)
}

/// Of the tasks that compute or may wait for reads, the share that computes: all, where nothing waits. `None` is not known.
pub(super) fn computing_share(cell: &Cell<'_>, cores: f64) -> Option<f64> {
    let waiting = waiting(cell)?;
    (cores > 0.0).then(|| cores / (cores + waiting))
}

/// The fewest loaders that there are: as many as computed at once in several minutes around in which the GPU worked.
pub(super) fn at_least(cell: &Cell<'_>, t: &Thresholds) -> Option<f64> {
    let mut computed: Vec<f64> = at_work_around(cell, t).filter_map(|cell| cores(&cell, t)).collect();
    computed.sort_by(|a, b| b.total_cmp(a));
    computed.get((t.deep_cells as usize).saturating_sub(1)).copied()
}

/// CPU time of loaders for each second in which a GPU of the owner works.
pub(super) fn cores_per_work(cell: &Cell<'_>, t: &Thresholds) -> Option<f64> {
    Some(cores(cell, t)? / worked(cell, t)?)
}

/// Is no more read for each second of work than in the minutes around? A start reads besides, and computes.
pub(super) fn reads_as_usual(cell: &Cell<'_>, t: &Thresholds) -> bool {
    let signals = [fed::READ[0], fed::READ[1], Signal::NodeDiskRead];
    let Some(signal) = signals.into_iter().find(|signal| cell.mean(*signal).is_some()) else { return false };
    let per_work = |cell: &Cell<'_>| Some(cell.mean(signal)? / worked(cell, t)?);
    let usual = median(at_work_around(cell, t).filter_map(|cell| per_work(&cell)).collect());
    per_work(cell).zip(usual).is_some_and(|(here, usual)| here <= usual * t.like_batch_ratio)
}

/// GPUs of the owner on the node that work, in the mean of the cell.
fn worked(cell: &Cell<'_>, t: &Thresholds) -> Option<f64> {
    cell.load().map_or_else(|| look_for_worked(cell, t), |load| *load.worked.get_or_init(|| look_for_worked(cell, t)))
}

fn look_for_worked(cell: &Cell<'_>, t: &Thresholds) -> Option<f64> {
    let own = cell.node.gpus.iter().map(|gpu| Cell { gpu, ..*cell }).filter(Cell::is_held_by_owner);
    let worked: f64 = own.filter_map(|gpu| work(&gpu, t)).map(|work| work.ratio).sum();
    (worked > 0.0).then_some(worked)
}

/// The owner's cells around in which the GPU worked, this one with them.
pub(super) fn at_work_around<'a>(cell: &Cell<'a>, t: &Thresholds) -> impl Iterator<Item = Cell<'a>> {
    let around = cell.node.around(cell.index, t.derate_around_seconds).map(|index| Cell { index, ..*cell });
    let held = around.filter(Cell::is_held_by_owner);
    held.filter(|cell| work(cell, t).is_some_and(|work| work.ratio >= t.sustained_busy_ratio))
}
