//! One row per metric name and label condition.
//!
//! Names of our own exporter come from its catalog, so that a removed metric breaks the build. dcgm-exporter's are those
//! of its legacy generation (releases up to 4.8), node_exporter's those of release 1.

use super::Signal;
use crate::sample::Labels;

/// Our exporter's names.
mod ours {
    use goodput_exporter::catalog::host;

    pub(super) const GPU_BUSY: &str = "goodput_gpu_busy_seconds_total";
    pub(super) const GPU_OBSERVED: &str = "goodput_gpu_observed_seconds_total";
    pub(super) const GPU_PROCESSES: &str = "goodput_gpu_processes";
    pub(super) const GPU_OWNER: &str = "goodput_gpu_owner_info";
    pub(super) const OWNER: &str = "goodput_owner_info";
    pub(super) const NODE: &str = "goodput_node_info";
    pub(super) const NODE_CPU: &str = "goodput_node_cpu_seconds_total";
    pub(super) const DISK_READ: &str = "goodput_disk_read_bytes_total";
    pub(super) const DISK_BUSY: &str = "goodput_disk_io_time_seconds_total";
    pub(super) const PRESSURE: &str = host::PRESSURE_WAITING.name;
    pub(super) const JOB_CPU_USAGE: &str = "goodput_cgroup_cpu_usage_seconds_total";
    pub(super) const JOB_CPU_LIMIT: &str = "goodput_cgroup_cpu_limit_cores";
    pub(super) const JOB_ALLOWED_CPUS: &str = "goodput_cgroup_allowed_cpus";
    pub(super) const JOB_CPU_PERIODS: &str = "goodput_cgroup_cpu_periods_total";
    pub(super) const JOB_THROTTLED_PERIODS: &str = "goodput_cgroup_cpu_throttled_periods_total";
    pub(super) const JOB_THROTTLED: &str = "goodput_cgroup_cpu_throttled_seconds_total";
    pub(super) const JOB_PRESSURE: &str = "goodput_cgroup_pressure_waiting_seconds_total";
    pub(super) const JOB_READ: &str = "goodput_cgroup_io_read_bytes_total";
    pub(super) const JOB_MEMORY: &str = "goodput_cgroup_memory_current_bytes";
    pub(super) const JOB_MEMORY_MAX: &str = "goodput_cgroup_memory_max_bytes";
    pub(super) const JOB_WORKING_SET: &str = "goodput_cgroup_memory_working_set_bytes";
}

/// A metric, the label value under which it means the signal, and how to read it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) metric: &'static str,
    only: Option<(&'static str, &'static str)>,
    pub(super) signal: Signal,
    pub(super) sum_over: &'static [&'static str],
    pub(super) scale: f64,
}

impl Row {
    pub(super) fn applies(&self, labels: &Labels) -> bool {
        self.only.is_none_or(|(name, value)| labels.get(name) == Some(value))
    }

    /// The row holds only for series whose label has the value.
    const fn only(self, name: &'static str, value: &'static str) -> Row {
        Row { only: Some((name, value)), ..self }
    }

    /// Series of one entity that differ in these labels are parts, to be summed.
    const fn sum_over(self, labels: &'static [&'static str]) -> Row {
        Row { sum_over: labels, ..self }
    }

    /// The sample's unit, in base units.
    const fn times(self, scale: f64) -> Row {
        Row { scale, ..self }
    }
}

const fn row(metric: &'static str, signal: Signal) -> Row {
    Row { metric, only: None, signal, sum_over: &[], scale: 1.0 }
}

const fn cpu(metric: &'static str, mode: &'static str, signal: Signal) -> Row {
    row(metric, signal).only("mode", mode).sum_over(&["cpu", "mode"])
}

const NODE_CPU: &str = "node_cpu_seconds_total";
const PERCENT: f64 = 0.01;
const MEBIBYTES: f64 = 1_048_576.0;

/// No metric here has a `node` label of its own (NUMA families do): in this table that label is the node's name.
/// Our own names stand before others' for the same signal: the first wins where both are equally well covered.
pub(super) static ROWS: &[Row] = &[
    row(ours::GPU_BUSY, Signal::GpuBusy),
    row(ours::GPU_OBSERVED, Signal::GpuObserved),
    row(ours::GPU_PROCESSES, Signal::GpuProcesses),
    row(ours::GPU_OWNER, Signal::GpuOwner),
    row("DCGM_FI_PROF_GR_ENGINE_ACTIVE", Signal::GrEngineActive),
    row("DCGM_FI_PROF_SM_ACTIVE", Signal::SmActive),
    row("DCGM_FI_DEV_GPU_UTIL", Signal::GpuUtilization).times(PERCENT),
    row("DCGM_FI_DEV_MEM_COPY_UTIL", Signal::MemoryCopyUtilization).times(PERCENT),
    row("DCGM_FI_DEV_POWER_USAGE", Signal::GpuPower),
    row("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", Signal::GpuPowerLimit),
    row("DCGM_FI_DEV_POWER_MGMT_LIMIT", Signal::GpuPowerLimit),
    row("DCGM_FI_DEV_FB_USED", Signal::FbUsed).times(MEBIBYTES),
    row("DCGM_FI_DEV_FB_TOTAL", Signal::FbTotal).times(MEBIBYTES),
    row("DCGM_FI_PROF_PCIE_RX_BYTES", Signal::PcieReceive),
    row(ours::NODE, Signal::NodeInfo),
    row("node_uname_info", Signal::NodeInfo),
    row(ours::PRESSURE, Signal::NodeCpuPressure).only("resource", "cpu"),
    row(ours::PRESSURE, Signal::NodeIoPressure).only("resource", "io"),
    row(ours::PRESSURE, Signal::NodeMemoryPressure).only("resource", "memory"),
    row("node_pressure_cpu_waiting_seconds_total", Signal::NodeCpuPressure),
    row("node_pressure_io_waiting_seconds_total", Signal::NodeIoPressure),
    row("node_pressure_memory_waiting_seconds_total", Signal::NodeMemoryPressure),
    // The modes guest and guest_nice are left out: user and nice contain them (proc_stat(5)).
    cpu(ours::NODE_CPU, "user", Signal::NodeCpuBusy),
    cpu(ours::NODE_CPU, "nice", Signal::NodeCpuBusy),
    cpu(ours::NODE_CPU, "system", Signal::NodeCpuBusy),
    cpu(ours::NODE_CPU, "irq", Signal::NodeCpuBusy),
    cpu(ours::NODE_CPU, "softirq", Signal::NodeCpuBusy),
    cpu(ours::NODE_CPU, "steal", Signal::NodeCpuBusy),
    cpu(ours::NODE_CPU, "idle", Signal::NodeCpuIdle),
    cpu(ours::NODE_CPU, "iowait", Signal::NodeCpuIowait),
    cpu(NODE_CPU, "user", Signal::NodeCpuBusy),
    cpu(NODE_CPU, "nice", Signal::NodeCpuBusy),
    cpu(NODE_CPU, "system", Signal::NodeCpuBusy),
    cpu(NODE_CPU, "irq", Signal::NodeCpuBusy),
    cpu(NODE_CPU, "softirq", Signal::NodeCpuBusy),
    cpu(NODE_CPU, "steal", Signal::NodeCpuBusy),
    cpu(NODE_CPU, "idle", Signal::NodeCpuIdle),
    cpu(NODE_CPU, "iowait", Signal::NodeCpuIowait),
    row(ours::DISK_READ, Signal::NodeDiskRead).sum_over(&["device"]),
    row("node_disk_read_bytes_total", Signal::NodeDiskRead).sum_over(&["device"]),
    row(ours::DISK_BUSY, Signal::NodeDiskBusy).sum_over(&["device"]),
    row("node_disk_io_time_seconds_total", Signal::NodeDiskBusy).sum_over(&["device"]),
    row("up", Signal::Up),
    row(ours::OWNER, Signal::JobInfo),
    row(ours::JOB_CPU_USAGE, Signal::JobCpuUsage),
    row(ours::JOB_CPU_LIMIT, Signal::JobCpuLimit),
    row(ours::JOB_ALLOWED_CPUS, Signal::JobAllowedCpus),
    row(ours::JOB_CPU_PERIODS, Signal::JobCpuPeriods),
    row(ours::JOB_THROTTLED_PERIODS, Signal::JobCpuThrottledPeriods),
    row(ours::JOB_THROTTLED, Signal::JobCpuThrottled),
    row(ours::JOB_PRESSURE, Signal::JobCpuPressure).only("resource", "cpu"),
    row(ours::JOB_PRESSURE, Signal::JobIoPressure).only("resource", "io"),
    row(ours::JOB_PRESSURE, Signal::JobMemoryPressure).only("resource", "memory"),
    row(ours::JOB_READ, Signal::JobRead),
    row(ours::JOB_MEMORY, Signal::JobMemoryCurrent),
    row(ours::JOB_MEMORY_MAX, Signal::JobMemoryMax),
    row(ours::JOB_WORKING_SET, Signal::JobMemoryWorkingSet),
];
