//! The list of signals: what each says, whose it is, and how its samples are read. A new one is a row of `signals!` and
//! a row of `table` per metric that gives it.
//!
//! More than 400 lines: one table.

use serde::{Deserialize, Serialize};

/// How samples of a signal become a reading of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Grows while its source lives; a reading is its rate per second.
    Counter,
    /// A level; a reading is its time-weighted mean.
    Gauge,
    /// A mean over the time since the sample before, as DCGM's profiling fields are; a reading is its time-weighted mean.
    Average,
    /// A level that only a change of state alters, such as who holds a GPU.
    State,
}

/// Whose signal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// One GPU.
    Gpu,
    /// The whole node.
    Node,
    /// One owner of GPUs on a node: a container, job or unit.
    Job,
}

macro_rules! signals {
    ($($(#[$attr:meta])* $variant:ident $name:literal $scope:ident $kind:ident $unit:literal $(from $min:literal)? up to $max:literal,)*) => {
        /// What a series says about a GPU, a node or a job.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Signal {
            $($(#[$attr])* $variant,)*
        }

        impl Signal {
            /// Every signal.
            pub const ALL: &'static [Signal] = &[$(Signal::$variant),*];

            /// The name in evidence and in lists of what is missing.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Signal::$variant => $name),* }
            }

            /// Whose it is.
            #[must_use]
            #[inline]
            pub const fn scope(self) -> Scope {
                match self { $(Signal::$variant => Scope::$scope),* }
            }

            /// How samples become readings.
            #[must_use]
            #[inline]
            pub fn kind(self) -> Kind {
                match self { $(Signal::$variant => Kind::$kind),* }
            }

            /// Unit of a reading; of a counter, the unit of its rate.
            #[must_use]
            pub fn unit(self) -> &'static str {
                match self { $(Signal::$variant => $unit),* }
            }

            /// Can a sample have this value, in base units? DCGM's blank values (2^31, 2^47 and 2^63, less a few),
            /// which leak into scrapes, cannot; neither can NaN. What rules divide by has a lowest value above 0: a limit
            /// of 1e-305 cores is none.
            #[must_use]
            #[inline]
            pub fn admits(self, value: f64) -> bool {
                let (min, max) = self.range();
                (min..=max).contains(&value)
            }

            /// The lowest is 0 unless the row says otherwise.
            #[inline]
            fn range(self) -> (f64, f64) {
                match self { $(Signal::$variant => (0.0 $(+ $min)?, $max)),* }
            }
        }
    };
}

signals! {
    /// Time in which the GPU ran a kernel, as the driver's own samples tell.
    GpuBusy "gpu_busy" Gpu Counter "seconds per second" up to 1e11,
    /// Time that the exporter has driver samples for.
    GpuObserved "gpu_observed" Gpu Counter "seconds per second" up to 1e11,
    /// Share of time in which the graphics or compute engine was active.
    GrEngineActive "gr_engine_active" Gpu Average "ratio" up to 1.0,
    /// Share of time, averaged over SMs, with at least one warp assigned.
    SmActive "sm_active" Gpu Average "ratio" up to 1.0,
    /// Warps on the SMs, as a share of the most there can be, averaged over SMs and time.
    SmOccupancy "sm_occupancy" Gpu Average "ratio" up to 1.0,
    /// Share of cycles in which the tensor cores were at work.
    TensorActive "tensor_active" Gpu Average "ratio" up to 1.0,
    /// Share of cycles in which device memory was sending or receiving.
    DramActive "dram_active" Gpu Average "ratio" up to 1.0,
    /// NVML's utilisation: share of time in which any kernel ran, whatever it did.
    GpuUtilization "gpu_utilization" Gpu Gauge "ratio" up to 1.0,
    /// Share of time in which device memory was read or written.
    MemoryCopyUtilization "memory_copy_utilization" Gpu Gauge "ratio" up to 1.0,
    /// Power drawn by the board.
    GpuPower "gpu_power" Gpu Gauge "watts" from 1.0 up to 1e4,
    /// Energy that the board drew since the driver was loaded.
    GpuEnergy "gpu_energy" Gpu Counter "watts" up to 1e11,
    /// Power that the board may draw.
    GpuPowerLimit "gpu_power_limit" Gpu Gauge "watts" from 1.0 up to 1e4,
    /// Power that the board may draw as it was made.
    GpuPowerLimitDefault "gpu_power_limit_default" Gpu Gauge "watts" from 1.0 up to 1e4,
    /// Clock of the SMs.
    SmClock "sm_clock" Gpu Gauge "hertz" up to 1e10,
    /// Highest clock of the SMs.
    SmMaxClock "sm_max_clock" Gpu Gauge "hertz" from 1e6 up to 1e10,
    /// Time at lowered clocks because of heat, of either of the driver's two kinds.
    GpuThermalSlowdown "gpu_thermal_slowdown" Gpu Counter "seconds per second" up to 1e11,
    /// Time at lowered clocks because the board was at its power limit.
    GpuPowerCapped "gpu_power_capped" Gpu Counter "seconds per second" up to 1e11,
    /// Time at lowered clocks because the power supply asked for it.
    GpuPowerBrake "gpu_power_brake" Gpu Counter "seconds per second" up to 1e11,
    /// Device memory in use, without what the driver reserves.
    FbUsed "fb_used" Gpu Gauge "bytes" up to 1e13,
    /// Device memory that can still be had: neither in use nor reserved by the driver.
    FbFree "fb_free" Gpu Gauge "bytes" up to 1e13,
    /// Device memory.
    FbTotal "fb_total" Gpu Gauge "bytes" from 1e6 up to 1e13,
    /// Processes that hold a context on the GPU.
    GpuProcesses "gpu_processes" Gpu State "processes" up to 1e6,
    /// Who holds the GPU; the content is in the labels.
    GpuOwner "gpu_owner" Gpu State "info" up to 1.0,
    /// PCIe traffic towards the GPU.
    PcieReceive "pcie_receive" Gpu Average "bytes per second" up to 1e12,
    /// PCIe link below what GPU and slot can do, in generation or width, when the GPU was last seen busy.
    PcieDegraded "pcie_degraded" Gpu State "flags" up to 2.0,
    /// Generation of the PCIe link.
    PcieGeneration "pcie_generation" Gpu Gauge "generation" from 1.0 up to 16.0,
    /// Lanes of the PCIe link.
    PcieWidth "pcie_width" Gpu Gauge "lanes" from 1.0 up to 64.0,
    /// Highest generation that GPU and slot can do.
    PcieMaxGeneration "pcie_max_generation" Gpu Gauge "generation" from 1.0 up to 16.0,
    /// Most lanes that GPU and slot can do.
    PcieMaxWidth "pcie_max_width" Gpu Gauge "lanes" from 1.0 up to 64.0,
    /// Rate of data that the GPU exchanges with other GPUs over NVLink, in one direction or in both.
    NvlinkRate "nvlink_rate" Gpu Average "bytes per second" up to 1e13,
    /// Data that the GPU received from other GPUs over NVLink.
    NvlinkReceived "nvlink_received" Gpu Counter "bytes per second" up to 1e19,
    /// The NUMA node that the GPU hangs on; the content is which node the series is of.
    GpuNuma "gpu_numa" Gpu State "info" up to 1.0,
    /// Slices of the GPU that an instance of it has.
    MigSlices "mig_slices" Gpu State "slices" up to 64.0,
    /// Slices that the GPU can be cut into, told while it is in MIG mode.
    MigCapacity "mig_capacity" Gpu State "slices" from 1.0 up to 64.0,
    /// Identity of the GPU; the content is in the labels.
    GpuInfo "gpu_info" Gpu State "info" up to 1.0,
    /// The driver does not get an answer from the GPU, or lists it no more.
    GpuLost "gpu_lost" Gpu State "ratio" up to 1.0,
    /// The driver says that the GPU has to be reset, or drained and reset.
    GpuResetRequired "gpu_reset_required" Gpu State "flags" up to 2.0,
    /// What the driver wants done to the GPU, by NVML's numbers.
    GpuRecoveryAction "gpu_recovery_action" Gpu State "action" up to 100.0,
    /// The last XID.
    GpuXid "gpu_xid" Gpu State "code" up to 1e4,
    /// XIDs since the exporter's start after which the program has to be started again.
    GpuXidRestartApp "gpu_xid_restart_app" Gpu State "errors" up to 1e12,
    /// XIDs since the exporter's start after which the GPU has to be reset, or the machine to be started again.
    GpuXidReset "gpu_xid_reset" Gpu State "errors" up to 1e12,
    /// XIDs since the exporter's start after which neither is to be done at once.
    GpuXidOther "gpu_xid_other" Gpu State "errors" up to 1e12,
    /// Single-bit ECC errors, which were corrected.
    GpuEccCorrected "gpu_ecc_corrected" Gpu Counter "errors per second" up to 1e15,
    /// Double-bit ECC errors, which were not.
    GpuEccUncorrected "gpu_ecc_uncorrected" Gpu Counter "errors per second" up to 1e15,
    /// A row of memory waits for a reset to be replaced.
    GpuRemapPending "gpu_remap_pending" Gpu State "ratio" up to 1.0,
    /// A row of memory could not be replaced.
    GpuRemapFailed "gpu_remap_failed" Gpu State "ratio" up to 1.0,
    /// Rows of memory replaced after uncorrectable errors, over the board's life.
    GpuRemappedRows "gpu_remapped_rows" Gpu Counter "rows per second" up to 1e6,
    /// Banks of memory without spare rows.
    GpuSpentBanks "gpu_spent_banks" Gpu State "banks" up to 1e6,
    /// Pages of memory retired after single-bit errors, before Ampere.
    GpuRetiredSingle "gpu_retired_single" Gpu State "pages" up to 1e6,
    /// Pages of memory retired after double-bit errors, before Ampere.
    GpuRetiredDouble "gpu_retired_double" Gpu State "pages" up to 1e6,
    /// Pages of memory wait for a reboot to be retired.
    GpuRetiredPending "gpu_retired_pending" Gpu State "ratio" up to 1.0,
    /// Packets of PCIe that had to be sent again.
    PcieReplays "pcie_replays" Gpu Counter "replays per second" up to 1e15,
    /// Checksum errors of NVLink, which are corrected by sending again.
    NvlinkCrcErrors "nvlink_crc_errors" Gpu Counter "errors per second" up to 1e15,
    /// Recoveries of NVLink after errors that sending again did not fix.
    NvlinkErrors "nvlink_errors" Gpu Counter "errors per second" up to 1e15,
    /// NVLinks of the GPU that are up.
    NvlinkUp "nvlink_up" Gpu State "links" up to 1e3,
    /// NVLinks of the GPU that are down.
    NvlinkDown "nvlink_down" Gpu State "links" up to 1e3,
    /// The GPU could not be registered with the NVLink fabric.
    FabricFailed "fabric_failed" Gpu State "ratio" up to 1.0,
    /// CPUs of one NUMA node that the GPU's processes may run on.
    GpuAllowedCpus "gpu_allowed_cpus" Gpu State "cores" up to 1e6,
    /// How the GPU is set up; the content is in [`settings`].
    GpuSetting "gpu_setting" Gpu State "setting" up to 1e16,

    /// The node's name; the content is in the labels.
    NodeInfo "node_info" Node State "info" up to 1.0,
    /// When the node's kernel started, since the epoch.
    NodeBootTime "node_boot_time" Node Gauge "seconds" up to 1e11,
    /// CPU time spent in any mode but idle, iowait and steal.
    NodeCpuBusy "node_cpu_busy" Node Counter "cores" up to 1e13,
    /// CPU time that the hypervisor gave to others while a task of this node was ready to run.
    NodeCpuSteal "node_cpu_steal" Node Counter "cores" up to 1e13,
    /// CPU time spent idle, with no I/O outstanding.
    NodeCpuIdle "node_cpu_idle" Node Counter "cores" up to 1e13,
    /// CPU time spent idle while a task of that CPU waited for I/O.
    NodeCpuIowait "node_cpu_iowait" Node Counter "cores" up to 1e13,
    /// CPU time in interrupts and softirqs, of the CPUs of one NUMA node.
    NodeIrqTime "node_irq_time" Node Counter "cores" up to 1e13,
    /// Time in softirqs of the CPU that spent most in them.
    NodeBusiestSoftirq "node_busiest_softirq" Node Counter "cores" up to 1e11,
    /// Interrupts of devices that can be placed elsewhere.
    NodeInterrupts "node_interrupts" Node Counter "interrupts per second" up to 1e15,
    /// Allocations that compacted memory themselves.
    NodeCompactionStalls "node_compaction_stalls" Node Counter "stalls per second" up to 1e15,
    /// Allocations that reclaimed memory themselves.
    NodeReclaimStalls "node_reclaim_stalls" Node Counter "stalls per second" up to 1e15,
    /// PSI some of the node: at least one task waited for a CPU.
    NodeCpuPressure "node_cpu_pressure" Node Counter "seconds per second" up to 1e11,
    /// PSI some of the node: at least one task waited for I/O.
    NodeIoPressure "node_io_pressure" Node Counter "seconds per second" up to 1e11,
    /// PSI full of the node: tasks waited for I/O and no task ran.
    NodeIoStalled "node_io_stalled" Node Counter "seconds per second" up to 1e11,
    /// PSI some of the node: at least one task waited for memory.
    NodeMemoryPressure "node_memory_pressure" Node Counter "seconds per second" up to 1e11,
    /// Memory of the node.
    NodeMemoryTotal "node_memory_total" Node Gauge "bytes" from 1e6 up to 1e15,
    /// Memory that new work can have without swapping, as the kernel estimates it.
    NodeMemoryAvailable "node_memory_available" Node Gauge "bytes" up to 1e15,
    /// Unused memory.
    NodeMemoryFree "node_memory_free" Node Gauge "bytes" up to 1e15,
    /// File pages that were not used lately.
    NodeMemoryInactiveFile "node_memory_inactive_file" Node Gauge "bytes" up to 1e15,
    /// Space of a file system.
    FsSize "fs_size" Node Gauge "bytes" from 4096.0 up to 1e19,
    /// Space of a file system that programs other than root's can have.
    FsAvailable "fs_available" Node Gauge "bytes" up to 1e19,
    /// Inodes of a file system.
    FsInodes "fs_inodes" Node Gauge "inodes" from 1.0 up to 1e19,
    /// Inodes of a file system that are free.
    FsInodesFree "fs_inodes_free" Node Gauge "inodes" up to 1e19,
    /// The file system is mounted for reading alone.
    FsReadOnly "fs_read_only" Node State "ratio" up to 1.0,
    /// Memory read back from swap.
    NodeSwapIn "node_swap_in" Node Counter "bytes per second" up to 1e19,
    /// Bytes read from the node's disks.
    NodeDiskRead "node_disk_read" Node Counter "bytes per second" up to 1e19,
    /// Bytes written to the node's disks.
    NodeDiskWritten "node_disk_written" Node Counter "bytes per second" up to 1e19,
    /// Time in which a disk had requests in flight, summed over disks.
    NodeDiskBusy "node_disk_busy" Node Counter "seconds per second" up to 1e13,
    /// An RDMA port's link is up and set up: 1; less is not.
    PortActive "port_active" Node State "ratio" up to 2.0,
    /// Line rate of an RDMA port.
    PortSpeed "port_speed" Node Gauge "bytes per second" from 1e6 up to 1e12,
    /// Data that an RDMA port received.
    PortReceived "port_received" Node Counter "bytes per second" up to 1e19,
    /// Data that an RDMA port sent.
    PortSent "port_sent" Node Counter "bytes per second" up to 1e19,
    /// Times that an RDMA port waited for an acknowledgement and got none.
    PortTimeouts "port_timeouts" Node Counter "timeouts per second" up to 1e15,
    /// Times that an RDMA port was asked to send again, or did so of its own.
    PortRetransmits "port_retransmits" Node Counter "retransmissions per second" up to 1e15,
    /// Times that the link of an RDMA port went down or recovered from errors; the counter stops at 255.
    PortLinkChanges "port_link_changes" Node Counter "changes per second" up to 254.0,
    /// Events above the link of an RDMA port that ended a connection.
    PortFatal "port_fatal" Node Counter "events per second" up to 1e15,
    /// Damaged symbols on the link of an RDMA port; the counter stops at 65535.
    PortSymbolErrors "port_symbol_errors" Node Counter "errors per second" up to 65534.0,
    /// Packets that an RDMA port received damaged; the counter stops at 65535.
    PortReceiveErrors "port_receive_errors" Node Counter "errors per second" up to 65534.0,
    /// Packets that an RDMA port could not send and dropped; the counter stops at 65535.
    PortDiscards "port_discards" Node Counter "packets per second" up to 65534.0,
    /// Times that an RDMA port had more local errors than its limit; the counter stops at 15.
    PortIntegrityErrors "port_integrity_errors" Node Counter "errors per second" up to 14.0,
    /// Times that the receive buffer of an RDMA port overran; the counter stops at 15.
    PortOverruns "port_overruns" Node Counter "errors per second" up to 14.0,
    /// Notices of congestion that an RDMA port got or sent, or packets that a switch had marked with it.
    PortCongestion "port_congestion" Node Counter "notices per second" up to 1e15,
    /// Ticks in which an RDMA port was held back; where the counter has 32 bits it stops at the last of them.
    PortWait "port_wait" Node State "ticks" up to 1e19,
    /// Data that a network interface received; RDMA goes past it.
    InterfaceReceived "interface_received" Node Counter "bytes per second" up to 1e19,
    /// Data that a network interface sent; RDMA goes past it.
    InterfaceSent "interface_sent" Node Counter "bytes per second" up to 1e19,
    /// Time in which a network interface sent nothing of one priority because its peer asked it to pause.
    InterfacePause "interface_pause" Node Counter "seconds per second" up to 1e11,
    /// Times that the link of a network interface came up or went down.
    InterfaceCarrierChanges "interface_carrier_changes" Node Counter "changes per second" up to 1e12,
    /// SXids of the node's NVSwitches since the exporter's start.
    SwitchErrors "switch_errors" Node State "errors" up to 1e12,
    /// Reads that the node asked the server of a network file system for.
    MountReads "mount_reads" Node Counter "requests per second" up to 1e15,
    /// Time that these took, from making a request to its end.
    MountReadTime "mount_read_time" Node Counter "requests in flight" up to 1e13,
    /// Time of these on the wire and at the server; the rest is waiting at the node.
    MountReadTrip "mount_read_trip" Node Counter "requests in flight" up to 1e13,
    /// Other requests, for metadata for the most part.
    MountOthers "mount_others" Node Counter "requests per second" up to 1e15,
    /// Time that these took, from making a request to its end.
    MountOtherTime "mount_other_time" Node Counter "requests in flight" up to 1e13,
    /// Data that the node read from a network file system.
    MountRead "mount_read" Node Counter "bytes per second" up to 1e19,
    /// Data that the node wrote to a network file system.
    MountWritten "mount_written" Node Counter "bytes per second" up to 1e19,
    /// Where an export is mounted; the content is in the labels.
    MountPoint "mount_point" Node State "info" up to 1.0,
    /// Requests to the server of a network file system that were sent again because no answer came.
    MountRetransmissions "mount_retransmissions" Node Counter "requests per second" up to 1e15,
    /// The same of all network file systems of the node.
    NodeNfsRetransmissions "node_nfs_retransmissions" Node Counter "requests per second" up to 1e15,
    /// Requests that a storage target of a Lustre file system answered.
    TargetRequests "target_requests" Node Counter "requests per second" up to 1e15,
    /// Time from sending these to their answers.
    TargetTime "target_time" Node Counter "requests in flight" up to 1e13,
    /// Reads and writes that GPUDirect Storage completed between storage and the memory of GPUs.
    GdsOperations "gds_operations" Node Counter "operations per second" up to 1e15,
    /// Processes that have GPUDirect Storage open.
    GdsProcesses "gds_processes" Node State "processes" up to 1e9,
    /// Reads that a disk completed.
    DiskReads "disk_reads" Node Counter "reads per second" up to 1e15,
    /// Time that these took.
    DiskReadTime "disk_read_time" Node Counter "requests in flight" up to 1e13,
    /// The control daemon of CUDA MPS runs.
    NodeMps "node_mps" Node State "ratio" up to 1.0,
    /// Kubernetes gives the node no more pods.
    NodeUnschedulable "node_unschedulable" Node State "ratio" up to 1.0,
    /// How the node is set up, and how checks of that ended; the content is in [`settings`].
    NodeSetting "node_setting" Node State "setting" up to 1e16,
    /// Did the scrape of the node's target succeed?
    Up "up" Node Gauge "ratio" up to 1.0,

    /// Identity of an owner; the content is in the labels.
    JobInfo "job_info" Job State "info" up to 1.0,
    /// Who made the pod; the content is in the labels.
    PodController "pod_controller" Job State "info" up to 1.0,
    /// Who made the job that made pods; the content is in the labels.
    JobController "job_controller" Job State "info" up to 1.0,
    /// To which account the job counts; the content is in the labels.
    JobAccount "job_account" Job State "info" up to 1e15,
    /// CPU time used by the job.
    JobCpuUsage "job_cpu_usage" Job Counter "cores" up to 1e13,
    /// Processes of the job without a GPU, usually its loaders' workers, that computed nearly all of the time.
    JobSaturatedWorkers "job_saturated_workers" Job Average "processes" up to 1e6,
    /// Processes of the job without a GPU, usually the workers of its data loaders.
    JobWorkers "job_workers" Job Gauge "processes" up to 1e6,
    /// CPU time of the processes that hold the job's GPUs themselves, without their workers.
    JobHolderCpu "job_holder_cpu" Job Counter "cores" up to 1e13,
    /// CPU quota over its period.
    JobCpuLimit "job_cpu_limit" Job Gauge "cores" from 0.001 up to 1e6,
    /// CPUs in the job's effective cpuset.
    JobAllowedCpus "job_allowed_cpus" Job Gauge "cores" from 1.0 up to 1e6,
    /// Quota periods that passed while the job was runnable.
    JobCpuPeriods "job_cpu_periods" Job Counter "periods per second" up to 1e15,
    /// Quota periods in which the job used its quota up.
    JobCpuThrottledPeriods "job_cpu_throttled_periods" Job Counter "periods per second" up to 1e15,
    /// Time spent throttled, summed over the job's CPUs.
    JobCpuThrottled "job_cpu_throttled" Job Counter "seconds per second" up to 1e13,
    /// PSI some of the job: at least one task waited for a CPU.
    JobCpuPressure "job_cpu_pressure" Job Counter "seconds per second" up to 1e11,
    /// PSI some of the job: at least one task waited for I/O.
    JobIoPressure "job_io_pressure" Job Counter "seconds per second" up to 1e11,
    /// PSI full of the job: tasks waited for I/O and no task ran.
    JobIoStalled "job_io_stalled" Job Counter "seconds per second" up to 1e11,
    /// Processes of the job in uninterruptible sleep, which usually wait for storage.
    JobUninterruptible "job_uninterruptible" Job Gauge "processes" up to 1e6,
    /// PSI some of the job: at least one task waited for memory.
    JobMemoryPressure "job_memory_pressure" Job Counter "seconds per second" up to 1e11,
    /// Interrupts, of devices that can be placed elsewhere, on CPUs that the job may run on.
    JobInterrupts "job_interrupts" Job Counter "interrupts per second" up to 1e15,
    /// Page faults of the job that had to read from storage.
    JobMajorFaults "job_major_faults" Job Counter "faults per second" up to 1e15,
    /// Pages that the job needed again soon after they were reclaimed.
    JobRefaults "job_refaults" Job Counter "pages per second" up to 1e15,
    /// Bytes that the job read from block devices.
    JobRead "job_read" Job Counter "bytes per second" up to 1e19,
    /// Bytes that the job wrote to block devices.
    JobWritten "job_written" Job Counter "bytes per second" up to 1e19,
    /// Bytes that the job's processes gave the kernel to write, to block devices and network file systems.
    JobStorageWritten "job_storage_written" Job Counter "bytes per second" up to 1e19,
    /// Bytes that the job's processes got from read system calls, page cache included.
    JobCallsRead "job_calls_read" Job Counter "bytes per second" up to 1e19,
    /// Memory charged to the job.
    JobMemoryCurrent "job_memory_current" Job Gauge "bytes" up to 1e15,
    /// The job's memory limit.
    JobMemoryMax "job_memory_max" Job Gauge "bytes" from 4096.0 up to 1e15,
    /// Memory charged to the job without inactive file pages.
    JobMemoryWorkingSet "job_memory_working_set" Job Gauge "bytes" up to 1e15,
    /// Processes of the job that the kernel killed for lack of memory.
    JobOomKills "job_oom_kills" Job Counter "kills per second" up to 1e9,
    /// Requests that the server works on or, where it does not tell those that wait apart, has not answered yet.
    JobRequestsOpen "job_requests_open" Job Gauge "requests" up to 1e9,
    /// Requests that wait for the server to begin with them.
    JobRequestsWaiting "job_requests_waiting" Job Gauge "requests" up to 1e9,
    /// Requests that the server answered.
    JobRequests "job_requests" Job Counter "requests per second" up to 1e15,
    /// Share of the memory for keys and values that requests in work have.
    ServerKvUse "server_kv_use" Job Gauge "ratio" up to 1.5,
    /// Requests that lost their place in the engine, for lack of that memory.
    ServerPreemptions "server_preemptions" Job Counter "requests per second" up to 1e15,
    /// Steps of the server's engine that gave tokens; of several engines the mean.
    ServerSteps "server_steps" Job Counter "steps per second" up to 1e15,
    /// Tokens that came after another one of the same request.
    ServerTokens "server_tokens" Job Counter "tokens per second" up to 1e15,
    /// Time from each of these tokens back to the one before it, summed over tokens.
    ServerTokenTime "server_token_time" Job Counter "tokens in work" up to 1e13,
    /// Time that requests were in their prefill, noted at their end; of several engines the mean.
    ServerPrefillTime "server_prefill_time" Job Counter "requests in work" up to 1e13,
    /// Time from the arrival of requests to their last token, noted at their end; of several engines the mean.
    ServerRequestTime "server_request_time" Job Counter "requests in work" up to 1e13,
    /// Time that requests waited for the engine, noted at their end; of several engines the mean.
    ServerQueueTime "server_queue_time" Job Counter "requests in work" up to 1e13,
    /// Time that requests were in the engine, noted at their end; of several engines the mean.
    ServerInferenceTime "server_inference_time" Job Counter "requests in work" up to 1e13,
    /// Time in which the engine's scheduler had no request; of several engines the mean.
    ServerIdle "server_idle" Job Counter "seconds per second" up to 1e11,
    /// Time of the scheduler's stages in which the GPU had no step, without those in which it had nothing to do.
    ServerScheduling "server_scheduling" Job Counter "seconds per second" up to 1e11,
    /// Time of the engine's steps that compute prompts; of several engines the mean.
    ServerExtendTime "server_extend_time" Job Counter "seconds per second" up to 1e11,
    /// Tokens of prompts that were computed.
    ServerPrefillTokens "server_prefill_tokens" Job Counter "tokens per second" up to 1e15,
    /// The same without those that were computed again, because their request had lost its place in memory.
    ServerFirstTokens "server_first_tokens" Job Counter "tokens per second" up to 1e15,
    /// Tokens of prompts, with those that a cache had.
    ServerPromptTokens "server_prompt_tokens" Job Counter "tokens per second" up to 1e15,
    /// Tokens of prompts that a cache had.
    ServerCachedTokens "server_cached_tokens" Job Counter "tokens per second" up to 1e15,
    /// Tokens of answers.
    ServerGenerationTokens "server_generation_tokens" Job Counter "tokens per second" up to 1e15,
    /// Requests whose first token came within the bucket's bound.
    ServerTimeToFirstToken "server_time_to_first_token" Job Counter "requests per second" up to 1e15,
    /// Requests whose tokens came, on average, within the bucket's bound of each other.
    ServerTimePerOutputToken "server_time_per_output_token" Job Counter "requests per second" up to 1e15,
    /// Requests that were answered within the bucket's bound.
    ServerEndToEnd "server_end_to_end" Job Counter "requests per second" up to 1e15,
    /// The most that the job may read from a disk, by the lowest limit of its cgroup and those above it.
    JobReadLimit "job_read_limit" Job State "bytes per second" from 1.0 up to 1e15,
    /// The most that it may write.
    JobWriteLimit "job_write_limit" Job State "bytes per second" from 1.0 up to 1e15,
    /// The most reads that the job may have from a disk.
    JobReadsLimit "job_reads_limit" Job State "operations per second" from 1.0 up to 1e15,
    /// The most writes.
    JobWritesLimit "job_writes_limit" Job State "operations per second" from 1.0 up to 1e15,
    /// Reads of the job from block devices.
    JobReads "job_reads" Job Counter "operations per second" up to 1e15,
    /// Writes of the job to block devices.
    JobWrites "job_writes" Job Counter "operations per second" up to 1e15,
    /// CPUs of one NUMA node that the job may run on.
    JobNumaAllowedCpus "job_numa_allowed_cpus" Job State "cores" up to 1e6,
    /// Anonymous and shared memory of the job on one NUMA node.
    JobNumaMemory "job_numa_memory" Job Gauge "bytes" up to 1e15,
    /// Time that collectives of a communicator took on a rank, waiting for late ranks included.
    CollectiveSeconds "collective_seconds" Job Counter "collectives in flight" up to 1e12,
    /// Bytes that these moved, as NCCL counts bus bandwidth.
    CollectiveBytes "collective_bytes" Job Counter "bytes per second" up to 1e19,
    /// Number of the last collective that a rank completed.
    CollectiveSequence "collective_sequence" Job State "number" up to 1e19,
    /// Number of a collective that all ranks have.
    SampledSequence "sampled_sequence" Job State "number" up to 1e19,
    /// Time that it took on a rank.
    SampledSeconds "sampled_seconds" Job State "seconds" up to 1e6,
    /// How many ranks a communicator has; the content is in the labels.
    Communicator "communicator" Job State "info" up to 1.0,
    /// What a container of a pod asks for of a resource.
    PodRequest "pod_request" Job State "of the resource" up to 1e16,
    /// What an init container of a pod asks for of a resource.
    PodInitRequest "pod_init_request" Job State "of the resource" up to 1e16,
    /// The pod waits to be scheduled, or for its containers to start.
    PodPending "pod_pending" Job State "ratio" up to 1.0,
    /// Containers of the pod run.
    PodRunning "pod_running" Job State "ratio" up to 1.0,
    /// The scheduler found no node for the pod.
    PodUnschedulable "pod_unschedulable" Job State "ratio" up to 1.0,
    /// When the pod was made, since the epoch.
    PodCreated "pod_created" Job State "seconds" up to 1e11,
    /// What pods may have of a resource of a node.
    NodeAllocatable "node_allocatable" Job State "of the resource" up to 1e16,
    /// Workloads that wait in a queue of Kueue and are tried again.
    QueuePending "queue_pending" Job State "workloads" up to 1e9,
    /// Workloads that a queue of Kueue does not admit until something changes, such as its quota.
    QueueHeld "queue_held" Job State "workloads" up to 1e9,
    /// What workloads that wait in a queue of Kueue ask for of a resource.
    QueueResource "queue_resource" Job State "of the resource" up to 1e9,
    /// Jobs that wait in a partition of Slurm, those on hold included.
    PartitionPending "partition_pending" Job State "jobs" up to 1e9,
    /// Of these, those on hold.
    PartitionHeld "partition_held" Job State "jobs" up to 1e9,
    /// GPUs that jobs wait for.
    PendingGpus "pending_gpus" Job State "GPUs" up to 1e9,
}

impl Signal {
    pub(super) fn is_a_setting(self) -> bool {
        matches!(self, Signal::GpuSetting | Signal::NodeSetting)
    }

    /// Does it say by its labels alone who an owner belongs to, on whatever node, so that it has no reading?
    pub(crate) fn is_of_belonging(self) -> bool {
        matches!(self, Signal::PodController | Signal::JobController | Signal::JobAccount)
    }

    /// Is it of the ranks of communicators, which are matched with each other and not laid on the grid?
    pub(crate) fn is_of_collectives(self) -> bool {
        use Signal as S;
        matches!(
            self,
            S::CollectiveSeconds
                | S::CollectiveBytes
                | S::CollectiveSequence
                | S::SampledSequence
                | S::SampledSeconds
                | S::Communicator
        )
    }

    /// Does it say who waits for GPUs, which is read cluster by cluster and not laid on the grid?
    pub(crate) fn is_of_demand(self) -> bool {
        use Signal as S;
        matches!(
            self,
            S::PodRequest
                | S::PodInitRequest
                | S::PodPending
                | S::PodRunning
                | S::PodUnschedulable
                | S::PodCreated
                | S::NodeAllocatable
                | S::QueuePending
                | S::QueueHeld
                | S::QueueResource
                | S::PartitionPending
                | S::PartitionHeld
                | S::PendingGpus
        )
    }

    /// Is a reading the mean of a server's engines, and not their sum? Each has a clock of its own.
    pub(crate) fn is_mean_of_engines(self) -> bool {
        use Signal as S;
        matches!(
            self,
            S::ServerKvUse
                | S::ServerSteps
                | S::ServerPrefillTime
                | S::ServerRequestTime
                | S::ServerQueueTime
                | S::ServerInferenceTime
                | S::ServerIdle
                | S::ServerExtendTime
        )
    }

    /// Is it of the clock of one server, which means nothing of several together?
    pub(crate) fn is_of_a_servers_clock(self) -> bool {
        use Signal as S;
        self.is_mean_of_engines()
            || matches!(
                self,
                S::ServerTokens
                    | S::ServerTokenTime
                    | S::ServerScheduling
                    | S::ServerPrefillTokens
                    | S::ServerFirstTokens
            )
    }

    /// Is it one per RDMA port or network interface?
    #[must_use]
    pub fn is_by_port(self) -> bool {
        use Signal as S;
        matches!(
            self,
            S::PortActive
                | S::PortSpeed
                | S::PortReceived
                | S::PortSent
                | S::PortTimeouts
                | S::PortRetransmits
                | S::PortLinkChanges
                | S::PortCongestion
                | S::PortWait
                | S::InterfaceReceived
                | S::InterfaceSent
                | S::InterfacePause
                | S::PortFatal
                | S::PortSymbolErrors
                | S::PortReceiveErrors
                | S::PortDiscards
                | S::PortIntegrityErrors
                | S::PortOverruns
                | S::InterfaceCarrierChanges
        )
    }

    /// Does the report count it, and no rule use it?
    pub(super) fn is_counted_alone(self) -> bool {
        use Signal as S;
        matches!(
            self,
            S::ServerPromptTokens
                | S::ServerCachedTokens
                | S::ServerGenerationTokens
                | S::ServerTimeToFirstToken
                | S::ServerTimePerOutputToken
                | S::ServerEndToEnd
        )
    }

    /// Do forecasts use it, and no rule?
    pub(super) fn is_of_forecasts_alone(self) -> bool {
        use Signal as S;
        matches!(
            self,
            S::GpuEccCorrected
                | S::GpuEccUncorrected
                | S::GpuRemapPending
                | S::GpuRemapFailed
                | S::GpuRemappedRows
                | S::GpuSpentBanks
                | S::GpuRetiredSingle
                | S::GpuRetiredDouble
                | S::GpuRetiredPending
                | S::PcieReplays
                | S::NvlinkCrcErrors
                | S::NvlinkErrors
                | S::NvlinkDown
                | S::PortFatal
                | S::PortSymbolErrors
                | S::PortReceiveErrors
                | S::PortDiscards
                | S::PortIntegrityErrors
                | S::PortOverruns
                | S::InterfaceCarrierChanges
                | S::SwitchErrors
                | S::NodeMemoryFree
                | S::NodeMemoryInactiveFile
                | S::FsSize
                | S::FsAvailable
                | S::FsInodes
                | S::FsInodesFree
                | S::FsReadOnly
        )
    }
}

/// The signals that say how much a GPU works, the best first. The last is a mean over multiprocessors: how deep the GPU
/// works. The share of time is no less than that, and more is not known.
pub(crate) const LADDER: [Signal; 4] =
    [Signal::GpuBusy, Signal::GrEngineActive, Signal::GpuUtilization, Signal::SmActive];

#[cfg(test)]
mod tests;
