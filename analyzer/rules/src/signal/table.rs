//! One row per metric name and label condition.
//!
//! Names that our own exporter writes, both of dcgm-exporter's generations among them, come from its catalog, so that a
//! removed metric breaks the build. node_exporter's are those of release 1.
//!
//! More than 400 lines: one table.

use std::sync::LazyLock;

use goodput_catalog::{
    self, Kind, Metric, Unit, cpu as cpus, dcgm, driver, gpu, health, host, irq, kubelet, memory, mig, owner, process,
    xid,
};

use super::Signal;
use super::{demand, nccl, network, servers, storage};
use goodput_exposition::sample::Labels;

/// What an entity has several of, each with a reading of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Split {
    /// Nothing.
    Whole,
    /// NUMA nodes: the label `node` of a series is one, and not the node's name.
    NumaNode,
    /// RDMA ports: the labels `device` and `port`.
    Port,
    /// Physical network interfaces: the label `device`.
    Interface,
    /// Priorities of these: the label `priority`, else the digit that the metric's name has.
    Priority,
    /// Network file systems: the label `mount`, else `export`, of Lustre `filesystem`.
    Mount,
    /// Storage targets of Lustre: the labels `filesystem` and `target`.
    Target,
    /// Mount points of an export: the labels `export` and `mountpoint`, else `mount`.
    MountPoint,
    /// Disks: the label `device`.
    Disk,
}

/// A metric, the label value under which it means the signal, and how to read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) metric: &'static str,
    only: Option<(&'static str, &'static str)>,
    but_for: Option<(&'static str, &'static str)>,
    whole: Option<&'static str>,
    pub(super) signal: Signal,
    pub(super) sum_over: &'static [&'static str],
    pub(super) split: Split,
    pub(super) summed_with: Option<&'static str>,
    pub(super) of_server: bool,
    pub(super) of_any_node: bool,
    pub(super) of_container: bool,
    pub(super) matcher: Option<&'static str>,
    pub(super) scale: f64,
}

impl Row {
    pub(super) fn applies(&self, labels: &Labels) -> bool {
        let has = |(name, value)| labels.get(name) == Some(value);
        self.only.is_none_or(has)
            && !self.but_for.is_some_and(has)
            && self.whole.and_then(|name| labels.get(name)).is_none_or(str::is_empty)
            && (!self.of_container || is_of_a_container(labels))
            && (!matches!(self.split, Split::Interface | Split::Priority)
                || labels.get("device").is_some_and(network::is_physical))
    }

    /// The row holds only for series whose label has the value.
    pub(super) const fn only(self, name: &'static str, value: &'static str) -> Row {
        Row { only: Some((name, value)), ..self }
    }

    /// The row holds for no series whose label has the value.
    pub(super) const fn but_for(self, name: &'static str, value: &'static str) -> Row {
        Row { but_for: Some((name, value)), ..self }
    }

    /// The row holds for the series without a value of the label: those with one are parts of it.
    pub(super) const fn whole(self, name: &'static str) -> Row {
        Row { whole: Some(name), ..self }
    }

    /// Series of one entity that differ in these labels are parts, to be summed.
    pub(super) const fn sum_over(self, labels: &'static [&'static str]) -> Row {
        Row { sum_over: labels, ..self }
    }

    pub(super) const fn by(self, split: Split) -> Row {
        Row { split, ..self }
    }

    const fn by_numa_node(self) -> Row {
        self.by(Split::NumaNode)
    }

    /// The metric and this one, of the same exporter, are parts of one signal, to be summed.
    pub(super) const fn summed_with(self, metric: &'static str) -> Row {
        Row { summed_with: Some(metric), ..self }
    }

    /// The series is a server's own, which names neither node nor owner as exporters do.
    pub(super) const fn of_server(self) -> Row {
        Row { of_server: true, ..self }
    }

    /// One target reports all nodes.
    const fn of_any_node(self) -> Row {
        Row { of_any_node: true, ..self }
    }

    /// The row holds for containers of pods, not for the cgroups above them, which contain them.
    const fn of_container(self) -> Row {
        Row { of_container: true, ..self }
    }

    /// A server is asked for these series alone: there are others for every pod of a cluster, which say nothing.
    pub(super) const fn asked_for(self, matcher: &'static str) -> Row {
        Row { matcher: Some(matcher), ..self }
    }

    /// The sample's unit, in base units; of buckets, the unit of their bounds.
    pub(super) const fn times(self, scale: f64) -> Row {
        Row { scale, ..self }
    }
}

pub(super) const fn row(metric: &'static str, signal: Signal) -> Row {
    Row {
        metric,
        only: None,
        but_for: None,
        whole: None,
        signal,
        sum_over: &[],
        split: Split::Whole,
        summed_with: None,
        of_server: false,
        of_any_node: false,
        of_container: false,
        matcher: None,
        scale: 1.0,
    }
}

/// A row of our own exporter's metric.
const fn own(metric: &'static Metric, signal: Signal) -> Row {
    row(metric.name, signal)
}

/// A row of a DCGM field as dcgm-exporter up to 4.8 spells it.
const fn legacy(field: &'static dcgm::Row, signal: Signal) -> Row {
    own(&field.legacy, signal).times(base(field.legacy.unit))
}

/// A row of a DCGM field as dcgm-exporter 4.9 spells it.
const fn current(field: &'static dcgm::Row, signal: Signal) -> Row {
    own(&field.current, signal).times(base(field.current.unit))
}

/// The unit, in base units.
const fn base(unit: Unit) -> f64 {
    match unit {
        Unit::Percent => 0.01,
        Unit::Millijoules => 0.001,
        Unit::Mebibytes => 1_048_576.0,
        Unit::Megahertz | Unit::MegabytesPerSecond => 1e6,
        Unit::Nanoseconds => 1e-9,
        _ => 1.0,
    }
}

const fn cpu(metric: &'static str, mode: &'static str, signal: Signal) -> Row {
    row(metric, signal).only("mode", mode).sum_over(&["cpu", "mode"])
}

/// A metric of one file system, whose part says which: device, type and where it is mounted.
const fn file_system(metric: &'static str, signal: Signal) -> Row {
    row(metric, signal).sum_over(&["device", "fstype", "mountpoint"])
}

/// XIDs by what NVIDIA says to do, by the names of `goodput_catalog::xid_codes::Action`.
const fn errors(action: &'static str, signal: Signal) -> Row {
    own(&xid::ERRORS, signal).only("action", action).sum_over(&["xid", "action"])
}

/// A metric of the containers of a pod, which is wherever its GPUs are. Those of one pod are summed. The names are those of
/// cAdvisor's and of kube-state-metrics' list of metrics.
const fn container(metric: &'static str, signal: Signal) -> Row {
    row(metric, signal).sum_over(&["container", "exported_container", "cpu", "device"]).of_server().of_container()
}

/// cAdvisor reports every cgroup: a pod's has no container's name, and the one that holds a pod's network is `POD`.
fn is_of_a_container(labels: &Labels) -> bool {
    // Where the target has labels of these names, Prometheus renames the series' own.
    let name = if labels.get("exported_pod").is_some() { "exported_container" } else { "container" };
    labels.get(name).is_some_and(|container| !container.is_empty() && container != "POD")
}

const NODE_CPU: &str = "node_cpu_seconds_total";
/// Bytes of a page, which node_exporter does not tell: 4 KiB, or more on some ARM kernels, where this tells too little.
const SMALLEST_PAGE: f64 = 4096.0;

/// The rows, and one more after each counter of DCGM, for OpenTelemetry's exporters end the names of counters in `_total`, and
/// two after each row of vLLM, for Ray has names of its own.
pub(super) static ALL: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let counters: Vec<&str> = goodput_catalog::all().filter(|m| m.kind == Kind::Counter).map(|m| m.name).collect();
    let is_renamed = |metric: &str| metric.starts_with("DCGM_") && !metric.ends_with("_total");
    let mut all = Vec::with_capacity(2 * ROWS.len());
    for row in rows() {
        all.push(*row);
        if is_renamed(row.metric) && (counters.contains(&row.metric) || row.signal.kind() == super::Kind::Counter) {
            // The table lives as long as the program.
            all.push(Row { metric: format!("{}_total", row.metric).leak(), ..*row });
        }
        let of_ray = row.metric.strip_prefix("vllm:").map(|name| servers::OF_RAY.map(|ray| format!("{ray}{name}")));
        all.extend(of_ray.into_iter().flatten().map(|name| Row { metric: name.leak(), ..*row }));
    }
    all
});

/// Our own names stand before others' for the same signal: the first wins where both are equally well covered.
static ROWS: &[Row] = &[
    own(&gpu::BUSY, Signal::GpuBusy),
    own(&gpu::OBSERVED, Signal::GpuObserved),
    own(&gpu::PROCESSES, Signal::GpuProcesses),
    own(&mig::MIG_BUSY, Signal::GpuBusy),
    own(&mig::MIG_OBSERVED, Signal::GpuObserved),
    own(&mig::MIG_PROCESSES, Signal::GpuProcesses),
    own(&mig::SLICES, Signal::MigSlices),
    own(&mig::CAPACITY, Signal::MigCapacity),
    own(&owner::GPU_OWNER, Signal::GpuOwner),
    legacy(&dcgm::PROF_GR_ENGINE_ACTIVE, Signal::GrEngineActive),
    current(&dcgm::PROF_GR_ENGINE_ACTIVE, Signal::GrEngineActive),
    legacy(&dcgm::PROF_SM_ACTIVE, Signal::SmActive),
    current(&dcgm::PROF_SM_ACTIVE, Signal::SmActive),
    legacy(&dcgm::PROF_SM_OCCUPANCY, Signal::SmOccupancy),
    current(&dcgm::PROF_SM_OCCUPANCY, Signal::SmOccupancy),
    legacy(&dcgm::PROF_TENSOR_ACTIVE, Signal::TensorActive),
    current(&dcgm::PROF_TENSOR_ACTIVE, Signal::TensorActive),
    legacy(&dcgm::PROF_DRAM_ACTIVE, Signal::DramActive),
    current(&dcgm::PROF_DRAM_ACTIVE, Signal::DramActive),
    legacy(&dcgm::GPU_UTIL, Signal::GpuUtilization),
    current(&dcgm::GPU_UTIL, Signal::GpuUtilization),
    legacy(&dcgm::MEM_COPY_UTIL, Signal::MemoryCopyUtilization),
    current(&dcgm::MEM_COPY_UTIL, Signal::MemoryCopyUtilization),
    legacy(&dcgm::POWER_USAGE, Signal::GpuPower),
    current(&dcgm::POWER_USAGE, Signal::GpuPower),
    legacy(&dcgm::TOTAL_ENERGY, Signal::GpuEnergy),
    current(&dcgm::TOTAL_ENERGY, Signal::GpuEnergy),
    legacy(&dcgm::ENFORCED_POWER_LIMIT, Signal::GpuPowerLimit),
    current(&dcgm::ENFORCED_POWER_LIMIT, Signal::GpuPowerLimit),
    legacy(&dcgm::POWER_LIMIT, Signal::GpuPowerLimit),
    current(&dcgm::POWER_LIMIT, Signal::GpuPowerLimit),
    legacy(&dcgm::POWER_LIMIT_DEFAULT, Signal::GpuPowerLimitDefault),
    current(&dcgm::POWER_LIMIT_DEFAULT, Signal::GpuPowerLimitDefault),
    legacy(&dcgm::SM_CLOCK, Signal::SmClock),
    current(&dcgm::SM_CLOCK, Signal::SmClock),
    legacy(&dcgm::MAX_SM_CLOCK, Signal::SmMaxClock),
    current(&dcgm::MAX_SM_CLOCK, Signal::SmMaxClock),
    own(&health::CLOCK_EVENT, Signal::GpuThermalSlowdown).only("reason", "sw_thermal").sum_over(&["reason"]),
    own(&health::CLOCK_EVENT, Signal::GpuThermalSlowdown).only("reason", "hw_thermal").sum_over(&["reason"]),
    legacy(&dcgm::THERMAL_VIOLATION, Signal::GpuThermalSlowdown),
    own(&health::CLOCK_EVENT, Signal::GpuPowerCapped).only("reason", "power_cap"),
    legacy(&dcgm::POWER_VIOLATION, Signal::GpuPowerCapped),
    current(&dcgm::POWER_VIOLATION, Signal::GpuPowerCapped),
    own(&health::CLOCK_EVENT, Signal::GpuPowerBrake).only("reason", "hw_power_brake"),
    legacy(&dcgm::FB_USED, Signal::FbUsed),
    current(&dcgm::FB_USED, Signal::FbUsed),
    legacy(&dcgm::FB_FREE, Signal::FbFree),
    current(&dcgm::FB_FREE, Signal::FbFree),
    legacy(&dcgm::FB_TOTAL, Signal::FbTotal),
    current(&dcgm::FB_TOTAL, Signal::FbTotal),
    legacy(&dcgm::PROF_PCIE_RX, Signal::PcieReceive),
    own(&health::PCIE_DEGRADED, Signal::PcieDegraded).only("against", "max").sum_over(&["aspect"]),
    legacy(&dcgm::PCIE_LINK_GEN, Signal::PcieGeneration),
    legacy(&dcgm::PCIE_LINK_WIDTH, Signal::PcieWidth),
    legacy(&dcgm::PCIE_MAX_LINK_GEN, Signal::PcieMaxGeneration),
    legacy(&dcgm::PCIE_MAX_LINK_WIDTH, Signal::PcieMaxWidth),
    legacy(&dcgm::PROF_NVLINK_RX, Signal::NvlinkRate),
    legacy(&dcgm::NVLINK_BANDWIDTH, Signal::NvlinkRate),
    current(&dcgm::NVLINK_BANDWIDTH, Signal::NvlinkRate),
    own(&gpu::NVLINK_BYTES, Signal::NvlinkReceived).only("direction", "rx"),
    own(&gpu::INFO, Signal::GpuInfo),
    own(&gpu::STATE, Signal::GpuLost).only("state", "lost"),
    own(&health::RESET_REQUIRED, Signal::GpuResetRequired).sum_over(&["kind"]),
    own(&gpu::RECOVERY_ACTION, Signal::GpuRecoveryAction),
    legacy(&dcgm::RECOVERY_ACTION, Signal::GpuRecoveryAction),
    current(&dcgm::RECOVERY_ACTION, Signal::GpuRecoveryAction),
    legacy(&dcgm::XID_ERRORS, Signal::GpuXid),
    current(&dcgm::XID_ERRORS, Signal::GpuXid),
    errors("restart_app", Signal::GpuXidRestartApp),
    errors("reset_gpu", Signal::GpuXidReset),
    errors("restart_vm", Signal::GpuXidReset),
    errors("restart_node", Signal::GpuXidReset),
    own(&xid::ERRORS, Signal::GpuXidOther).sum_over(&["xid", "action"]),
    legacy(&dcgm::ECC_SBE_VOL, Signal::GpuEccCorrected),
    legacy(&dcgm::ECC_SBE_AGG, Signal::GpuEccCorrected),
    legacy(&dcgm::ECC_DBE_VOL, Signal::GpuEccUncorrected),
    legacy(&dcgm::ECC_DBE_AGG, Signal::GpuEccUncorrected),
    legacy(&dcgm::ROW_REMAP_PENDING, Signal::GpuRemapPending),
    legacy(&dcgm::ROW_REMAP_FAILURE, Signal::GpuRemapFailed),
    current(&dcgm::ROW_REMAP_FAILURE, Signal::GpuRemapFailed),
    legacy(&dcgm::UNCORRECTABLE_REMAPPED_ROWS, Signal::GpuRemappedRows),
    current(&dcgm::UNCORRECTABLE_REMAPPED_ROWS, Signal::GpuRemappedRows),
    own(&health::ROW_REMAP_BANKS, Signal::GpuSpentBanks).only("spare", "none"),
    legacy(&dcgm::REMAP_NONE, Signal::GpuSpentBanks),
    current(&dcgm::REMAP_NONE, Signal::GpuSpentBanks),
    legacy(&dcgm::RETIRED_SBE, Signal::GpuRetiredSingle),
    current(&dcgm::RETIRED_SBE, Signal::GpuRetiredSingle),
    legacy(&dcgm::RETIRED_DBE, Signal::GpuRetiredDouble),
    current(&dcgm::RETIRED_DBE, Signal::GpuRetiredDouble),
    own(&health::RETIRED_PENDING, Signal::GpuRetiredPending),
    legacy(&dcgm::PCIE_REPLAY, Signal::PcieReplays),
    current(&dcgm::PCIE_REPLAY, Signal::PcieReplays),
    own(&health::NVLINK_ERRORS, Signal::NvlinkCrcErrors).only("kind", "crc_flit"),
    legacy(&dcgm::NVLINK_CRC_FLIT, Signal::NvlinkCrcErrors),
    current(&dcgm::NVLINK_CRC_FLIT, Signal::NvlinkCrcErrors),
    own(&health::NVLINK_ERRORS, Signal::NvlinkErrors).only("kind", "recovery"),
    legacy(&dcgm::NVLINK_RECOVERY, Signal::NvlinkErrors),
    current(&dcgm::NVLINK_RECOVERY, Signal::NvlinkErrors),
    own(&health::NVLINK_LINKS, Signal::NvlinkUp).only("state", "up"),
    own(&health::NVLINK_LINKS, Signal::NvlinkDown).only("state", "down"),
    own(&health::FABRIC_STATE, Signal::FabricFailed).only("state", "failed"),
    own(&xid::SWITCH_ERRORS, Signal::SwitchErrors).sum_over(&["pci_bus_id", "sxid", "severity"]),
    own(&host::GPU_NUMA, Signal::GpuNuma).by_numa_node(),
    own(&host::GPU_ALLOWED_CPUS, Signal::GpuAllowedCpus).by_numa_node(),
    own(&host::NODE_INFO, Signal::NodeInfo),
    row("node_uname_info", Signal::NodeInfo),
    own(&host::NODE_BOOT_TIME, Signal::NodeBootTime),
    row("node_boot_time_seconds", Signal::NodeBootTime),
    own(&host::PRESSURE_WAITING, Signal::NodeCpuPressure).only("resource", "cpu"),
    own(&host::PRESSURE_WAITING, Signal::NodeIoPressure).only("resource", "io"),
    own(&host::PRESSURE_WAITING, Signal::NodeMemoryPressure).only("resource", "memory"),
    row("node_pressure_cpu_waiting_seconds_total", Signal::NodeCpuPressure),
    row("node_pressure_io_waiting_seconds_total", Signal::NodeIoPressure),
    own(&host::PRESSURE_STALLED, Signal::NodeIoStalled).only("resource", "io"),
    row("node_pressure_io_stalled_seconds_total", Signal::NodeIoStalled),
    row("node_pressure_memory_waiting_seconds_total", Signal::NodeMemoryPressure),
    // The modes guest and guest_nice are left out: user and nice contain them (proc_stat(5)).
    cpu(host::NODE_CPU_SECONDS.name, "user", Signal::NodeCpuBusy),
    cpu(host::NODE_CPU_SECONDS.name, "nice", Signal::NodeCpuBusy),
    cpu(host::NODE_CPU_SECONDS.name, "system", Signal::NodeCpuBusy),
    cpu(host::NODE_CPU_SECONDS.name, "irq", Signal::NodeCpuBusy),
    cpu(host::NODE_CPU_SECONDS.name, "softirq", Signal::NodeCpuBusy),
    cpu(host::NODE_CPU_SECONDS.name, "steal", Signal::NodeCpuSteal),
    cpu(host::NODE_CPU_SECONDS.name, "idle", Signal::NodeCpuIdle),
    cpu(host::NODE_CPU_SECONDS.name, "iowait", Signal::NodeCpuIowait),
    cpu(NODE_CPU, "user", Signal::NodeCpuBusy),
    cpu(NODE_CPU, "nice", Signal::NodeCpuBusy),
    cpu(NODE_CPU, "system", Signal::NodeCpuBusy),
    cpu(NODE_CPU, "irq", Signal::NodeCpuBusy),
    cpu(NODE_CPU, "softirq", Signal::NodeCpuBusy),
    cpu(NODE_CPU, "steal", Signal::NodeCpuSteal),
    cpu(NODE_CPU, "idle", Signal::NodeCpuIdle),
    cpu(NODE_CPU, "iowait", Signal::NodeCpuIowait),
    own(&cpus::CPU_SECONDS, Signal::NodeIrqTime).only("mode", "irq").sum_over(&["mode"]).by_numa_node(),
    own(&cpus::CPU_SECONDS, Signal::NodeIrqTime).only("mode", "softirq").sum_over(&["mode"]).by_numa_node(),
    own(&cpus::CPU_BUSIEST_SOFTIRQ, Signal::NodeBusiestSoftirq),
    own(&irq::IRQ_MOVABLE, Signal::NodeInterrupts),
    own(&memory::COMPACTION_STALLS, Signal::NodeCompactionStalls),
    row("node_vmstat_compact_stall", Signal::NodeCompactionStalls),
    own(&memory::RECLAIM_STALLS, Signal::NodeReclaimStalls),
    own(&host::NODE_MEMORY_TOTAL, Signal::NodeMemoryTotal),
    row("node_memory_MemTotal_bytes", Signal::NodeMemoryTotal),
    own(&host::NODE_MEMORY_AVAILABLE, Signal::NodeMemoryAvailable),
    row("node_memory_MemAvailable_bytes", Signal::NodeMemoryAvailable),
    row("node_memory_MemFree_bytes", Signal::NodeMemoryFree),
    row("node_memory_Inactive_file_bytes", Signal::NodeMemoryInactiveFile),
    file_system("node_filesystem_size_bytes", Signal::FsSize),
    file_system("node_filesystem_avail_bytes", Signal::FsAvailable),
    file_system("node_filesystem_files", Signal::FsInodes),
    file_system("node_filesystem_files_free", Signal::FsInodesFree),
    file_system("node_filesystem_readonly", Signal::FsReadOnly),
    own(&memory::SWAP_IN, Signal::NodeSwapIn),
    row("node_vmstat_pswpin", Signal::NodeSwapIn).times(SMALLEST_PAGE),
    own(&host::DISK_READ_BYTES, Signal::NodeDiskRead).sum_over(&["device"]),
    row("node_disk_read_bytes_total", Signal::NodeDiskRead).sum_over(&["device"]),
    own(&host::DISK_WRITTEN_BYTES, Signal::NodeDiskWritten).sum_over(&["device"]),
    row("node_disk_written_bytes_total", Signal::NodeDiskWritten).sum_over(&["device"]),
    own(&host::DISK_IO_TIME, Signal::NodeDiskBusy).sum_over(&["device"]),
    row("node_disk_io_time_seconds_total", Signal::NodeDiskBusy).sum_over(&["device"]),
    own(&driver::DRIVER_DAEMON, Signal::NodeMps).only("daemon", "nvidia-cuda-mps-control"),
    row("kube_node_spec_unschedulable", Signal::NodeUnschedulable).of_any_node(),
    row("up", Signal::Up),
    legacy(&dcgm::APP_SM_CLOCK, Signal::GpuSetting),
    own(&host::GPU_LOCAL_CPUS, Signal::GpuSetting),
    own(&mig::MODE, Signal::GpuSetting),
    own(&mig::MIG_INFO, Signal::GpuSetting),
    own(&host::AUDIT_STATUS, Signal::NodeSetting),
    own(&gpu::DRIVER_INFO, Signal::NodeSetting),
    own(&driver::DRIVER_INFO, Signal::NodeSetting),
    own(&driver::DRIVER_MODULE, Signal::NodeSetting),
    own(&driver::DRIVER_PARAMETER, Signal::NodeSetting),
    own(&driver::DRIVER_FIRMWARE, Signal::NodeSetting),
    own(&driver::DRIVER_EXCLUDED, Signal::NodeSetting),
    own(&memory::THP, Signal::NodeSetting),
    own(&memory::KHUGEPAGED_DEFRAG, Signal::NodeSetting),
    own(&memory::KHUGEPAGED_SCAN_PAGES, Signal::NodeSetting),
    own(&memory::KHUGEPAGED_SLEEP, Signal::NodeSetting),
    own(&memory::COMPACTION_PROACTIVENESS, Signal::NodeSetting),
    own(&memory::SWAPPINESS, Signal::NodeSetting),
    own(&memory::ZSWAP_ENABLED, Signal::NodeSetting),
    own(&host::NUMA_BALANCING, Signal::NodeSetting),
    own(&host::NODE_CPUS, Signal::NodeSetting),
    own(&cpus::CPU_GOVERNOR, Signal::NodeSetting),
    own(&cpus::CPU_SMT, Signal::NodeSetting),
    own(&cpus::CPU_ISOLATED, Signal::NodeSetting),
    own(&cpus::CPU_TICKLESS, Signal::NodeSetting),
    own(&kubelet::KUBELET_INFO, Signal::NodeSetting),
    own(&kubelet::KUBELET_RESERVED_CPUS, Signal::NodeSetting),
    own(&irq::IRQBALANCE_RUNNING, Signal::NodeSetting),
    own(&goodput_catalog::network::RDMA_PORTS, Signal::NodeSetting),
    own(&host::OWNER, Signal::JobInfo),
    row("kube_pod_owner", Signal::PodController).of_server().asked_for("owner_kind=~\".*Job|JobSet\""),
    row("kube_job_owner", Signal::JobController).of_server().asked_for("owner_kind=~\".*Job|JobSet\""),
    row("slurm_job_memory_usage", Signal::JobAccount).of_server().asked_for("account!=\"\""),
    own(&host::CGROUP_CPU_USAGE, Signal::JobCpuUsage),
    own(&process::PROCESS_SATURATED_WORKERS, Signal::JobSaturatedWorkers),
    own(&process::PROCESS_WORKERS, Signal::JobWorkers),
    own(&process::PROCESS_HOLDERS_CPU, Signal::JobHolderCpu),
    own(&host::CGROUP_CPU_LIMIT, Signal::JobCpuLimit),
    own(&host::CGROUP_ALLOWED_CPUS, Signal::JobAllowedCpus),
    own(&host::CGROUP_CPU_PERIODS, Signal::JobCpuPeriods),
    own(&host::CGROUP_CPU_THROTTLED_PERIODS, Signal::JobCpuThrottledPeriods),
    own(&host::CGROUP_CPU_THROTTLED, Signal::JobCpuThrottled),
    own(&host::CGROUP_PRESSURE_WAITING, Signal::JobCpuPressure).only("resource", "cpu"),
    own(&host::CGROUP_PRESSURE_WAITING, Signal::JobIoPressure).only("resource", "io"),
    own(&host::CGROUP_PRESSURE_STALLED, Signal::JobIoStalled).only("resource", "io"),
    own(&host::CGROUP_PRESSURE_WAITING, Signal::JobMemoryPressure).only("resource", "memory"),
    own(&irq::IRQ_OWNER_CPUS, Signal::JobInterrupts),
    own(&host::CGROUP_MAJOR_FAULTS, Signal::JobMajorFaults),
    own(&host::CGROUP_REFAULTS, Signal::JobRefaults).sum_over(&["kind"]),
    own(&host::CGROUP_READ_BYTES, Signal::JobRead),
    own(&host::CGROUP_WRITTEN_BYTES, Signal::JobWritten),
    own(&process::PROCESS_STATE, Signal::JobUninterruptible).only("state", "uninterruptible"),
    own(&process::PROCESS_WRITTEN, Signal::JobStorageWritten),
    own(&process::PROCESS_CALLS_READ, Signal::JobCallsRead),
    own(&host::CGROUP_MEMORY_CURRENT, Signal::JobMemoryCurrent),
    own(&host::CGROUP_MEMORY_MAX, Signal::JobMemoryMax),
    own(&host::CGROUP_MEMORY_WORKING_SET, Signal::JobMemoryWorkingSet),
    own(&host::CGROUP_MEMORY_OOM_KILLS, Signal::JobOomKills),
    own(&host::CGROUP_NUMA_ALLOWED_CPUS, Signal::JobNumaAllowedCpus).by_numa_node(),
    own(&host::CGROUP_NUMA_ANON_SHMEM, Signal::JobNumaMemory).by_numa_node(),
    container("container_cpu_usage_seconds_total", Signal::JobCpuUsage),
    container("kube_pod_container_resource_limits", Signal::JobCpuLimit).only("resource", "cpu"),
    container("container_cpu_cfs_periods_total", Signal::JobCpuPeriods),
    container("container_cpu_cfs_throttled_periods_total", Signal::JobCpuThrottledPeriods),
    container("container_cpu_cfs_throttled_seconds_total", Signal::JobCpuThrottled),
    container("container_pressure_cpu_waiting_seconds_total", Signal::JobCpuPressure),
    container("container_pressure_io_waiting_seconds_total", Signal::JobIoPressure),
    container("container_pressure_io_stalled_seconds_total", Signal::JobIoStalled),
    container("container_pressure_memory_waiting_seconds_total", Signal::JobMemoryPressure),
    container("container_memory_failures_total", Signal::JobMajorFaults).only("failure_type", "pgmajfault"),
    container("container_fs_reads_bytes_total", Signal::JobRead),
    container("container_fs_writes_bytes_total", Signal::JobWritten),
    container("container_memory_usage_bytes", Signal::JobMemoryCurrent),
    container("kube_pod_container_resource_limits", Signal::JobMemoryMax).only("resource", "memory"),
    container("container_memory_working_set_bytes", Signal::JobMemoryWorkingSet),
    container("container_oom_events_total", Signal::JobOomKills),
];

/// Every row, those of networks, of storage, of collectives, of demand and of servers last.
pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    let of_nodes = ROWS.iter().chain(network::ROWS).chain(storage::ROWS);
    of_nodes.chain(nccl::ROWS).chain(demand::ROWS).chain(servers::ROWS)
}

/// Labels of a series for each row, with the factor to base units: one GPU, one owner, two NUMA nodes.
#[cfg(test)]
pub(super) fn examples() -> Vec<(Signal, f64, Labels)> {
    use super::Scope;
    let labels = |row: &Row, numa: &'static str| {
        let mut all = vec![("__name__", row.metric), ("job", "j"), ("instance", "i:1")];
        all.extend(row.only);
        match row.signal.scope() {
            Scope::Gpu => all.extend([("UUID", "GPU-1"), ("Hostname", "n1"), ("modelName", "NVIDIA H100 80GB HBM3")]),
            Scope::Node if row.of_any_node => all.push(("node", "n1")),
            Scope::Node => all.push(("nodename", "n1")),
            Scope::Job if row.of_server => all.extend([("pod", "train"), ("container", "main")]),
            Scope::Job => {}
        }
        if !row.of_server && matches!(row.signal.scope(), Scope::Job) || row.signal == Signal::GpuOwner {
            all.push(("owner", "train"));
        }
        match row.split {
            Split::Whole => {}
            Split::NumaNode => all.push(("node", numa)),
            Split::Port => all.extend([("device", "mlx5_0"), ("port", "1")]),
            Split::Interface => all.push(("device", "eth0")),
            Split::Priority => all.extend([("device", "eth0"), ("priority", "3")]),
            Split::Mount => all.push(("export", "filer:/data")),
            Split::Target => all.extend([("filesystem", "scratch"), ("target", "OST0003")]),
            Split::MountPoint => all.extend([("export", "filer:/data"), ("mountpoint", "/data")]),
            Split::Disk => all.push(("device", "nvme0n1")),
        }
        (row.signal, row.scale, Labels::new(all))
    };
    let numa = |row: &Row| if row.split == Split::NumaNode { &["0", "1"][..] } else { &["0"] };
    rows().flat_map(|row| numa(row).iter().map(move |node| labels(row, node))).collect()
}
