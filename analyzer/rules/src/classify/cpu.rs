//! CPU use against the CPUs there are, for the rules that ask whether workers compute or wait.

use super::depth::HeldGpus;
use super::thresholds::confidence::{COUNTED, NODE_WIDE};
use super::{Cell, Fact, Node, Thresholds};
use crate::frame::Tracks;
use crate::signal::Signal;

/// CPU time used over CPU time allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CpuUse {
    pub(super) ratio: f64,
    /// Of the job itself, or only of its node.
    pub(super) confidence: f64,
    signal: &'static str,
}

/// What it takes to tell.
pub(super) const SIGNALS: [Signal; 3] = [Signal::JobCpuUsage, Signal::JobAllowedCpus, Signal::NodeCpuBusy];

/// The modes that a CPU is in.
pub(super) const MODES: [Signal; 4] =
    [Signal::NodeCpuBusy, Signal::NodeCpuSteal, Signal::NodeCpuIdle, Signal::NodeCpuIowait];

impl CpuUse {
    /// The job's use of the least of its quota, its cpuset and its node; without the job's, the node's.
    pub(super) fn of(cell: &Cell<'_>) -> Option<CpuUse> {
        let node = node_cores(cell);
        let limits = [cell.mean(Signal::JobCpuLimit), cell.mean(Signal::JobAllowedCpus), node];
        let allowed = limits.into_iter().flatten().reduce(f64::min);
        if let (Some(used), Some(allowed)) = (cell.mean(Signal::JobCpuUsage), allowed.filter(|a| *a > 0.0)) {
            let signal = "job_cpu_usage / allowed CPUs";
            return Some(CpuUse { ratio: used / allowed, confidence: COUNTED, signal });
        }
        let ratio = cell.mean(Signal::NodeCpuBusy)? / node.filter(|n| *n > 0.0)?;
        Some(CpuUse { ratio, confidence: NODE_WIDE, signal: "node_cpu_busy / CPUs" })
    }

    pub(super) fn fact(self, threshold: f64) -> Fact {
        Fact { signal: self.signal, unit: "ratio", value: self.ratio, threshold }
    }
}

/// CPU time of the processes that hold the job's GPUs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holders {
    /// CPUs per GPU that the job holds on the node.
    pub(super) cores: f64,
    /// Of all that the job uses.
    pub(super) ratio: f64,
}

impl Holders {
    /// What it takes to tell.
    pub(super) const SIGNALS: [Signal; 2] = [Signal::JobHolderCpu, Signal::JobCpuUsage];

    pub(super) fn of(cell: &Cell<'_>) -> Option<Holders> {
        let (used, all) = (cell.mean(Signal::JobHolderCpu)?, cell.mean(Signal::JobCpuUsage).filter(|all| *all > 0.0)?);
        let cores = used / f64::from(HeldGpus::around(cell).by_owner.max(1));
        Some(Holders { cores, ratio: used / all })
    }

    /// As evidence that a thread of each computes and the rest of the job does little, if so.
    pub(super) fn facts(self, least_cores: f64, t: &Thresholds) -> Option<[Fact; 2]> {
        let cores =
            Fact { signal: "job_holder_cpu per GPU", ..Fact::of(Signal::JobHolderCpu, self.cores, least_cores) };
        let signal = "job_holder_cpu / job_cpu_usage";
        let ratio = Fact { signal, unit: "ratio", value: self.ratio, threshold: t.holders_cpu_ratio };
        (self.cores >= least_cores && self.ratio >= t.holders_cpu_ratio).then_some([cores, ratio])
    }
}

/// Seconds a second that tasks of the job may wait for a CPU though no other task runs there: PSI counts a task as
/// waiting from its wakeup until it runs (kernel/sched/psi.c), and a task that waits for a page is woken once it is
/// there.
pub(super) fn waking(cell: &Cell<'_>, t: &Thresholds) -> f64 {
    let pages = [Signal::JobRefaults, Signal::JobMajorFaults].into_iter().filter_map(|signal| cell.mean(signal));
    pages.fold(0.0, f64::max) * t.wakeup_seconds
}

/// What daemons of the node use, as far as no signal is about its jobs alone: the least that the node uses in any cell,
/// and no more than daemons use on any node.
pub(super) fn background(node: &Node, t: &Thresholds) -> f64 {
    let used = (0..node.cells.len()).filter_map(|index| node.host.read(Signal::NodeCpuBusy, index));
    let Some(least) = used.map(|reading| reading.mean).reduce(f64::min) else { return 0.0 };
    let cores = (0..node.cells.len()).find_map(|index| cores(&node.host, index)).unwrap_or(0.0);
    least.min(cores * t.background_cpu_ratio)
}

/// Every CPU is in one mode at any time, so that the modes' rates sum to the number of CPUs.
pub(super) fn node_cores(cell: &Cell<'_>) -> Option<f64> {
    cores(&cell.node.host, cell.index)
}

fn cores(host: &Tracks, index: usize) -> Option<f64> {
    MODES.into_iter().map(|mode| host.read(mode, index).map(|reading| reading.mean)).sum()
}
