//! Every number that a verdict depends on: name, unit, default, allowed range and source, in one place.
//!
//! More than 400 lines: one table.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Seconds of a threshold in milliseconds, as times are.
pub(super) fn ms(seconds: f64) -> i64 {
    (seconds * 1000.0) as i64
}

/// Grades of certainty, our own. They order verdicts; they are not probabilities.
pub mod confidence {
    /// Follows from the definition.
    pub const CERTAIN: f64 = 1.0;
    /// The very thing was counted, for this GPU or job.
    pub const COUNTED: f64 = 0.9;
    /// Inferred from another quantity of this GPU or job.
    pub const INFERRED: f64 = 0.75;
    /// Known for the node only: another job's doing looks the same.
    pub const NODE_WIDE: f64 = 0.6;
    /// A signal that is known to mislead.
    pub const WEAK: f64 = 0.5;
}

/// One threshold, as lists show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed {
    /// Its name in the configuration.
    pub name: &'static str,
    /// The value in force.
    pub value: f64,
    /// The value unless configured.
    pub default: f64,
    /// The least that it may be.
    pub min: f64,
    /// The most that it may be.
    pub max: f64,
    /// What it decides.
    pub doc: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
}

macro_rules! thresholds {
    ($($name:ident = $default:literal $unit:literal in $range:expr, $doc:literal, from $source:literal;)*) => {
        /// The thresholds in force.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Thresholds {
            $(#[doc = $doc] #[doc = concat!("Unit: ", $unit, ". Source: ", $source)] pub $name: f64,)*
        }

        impl Default for Thresholds {
            fn default() -> Self {
                Self { $($name: $default),* }
            }
        }

        impl Thresholds {
            /// All of them, in the order of the rules.
            #[must_use]
            pub fn list(&self) -> Vec<Listed> {
                vec![$({
                    let range: RangeInclusive<f64> = $range;
                    let (min, max) = (*range.start(), *range.end());
                    let (name, value, default) = (stringify!($name), self.$name, $default);
                    Listed { name, value, default, min, max, doc: $doc, unit: $unit, source: $source }
                }),*]
            }

            /// Gives the threshold of this name a value.
            pub fn set(&mut self, name: &str, value: f64) {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => {}
                }
            }

            /// Every value that is out of its range; empty when all are fine.
            #[must_use]
            pub fn problems(&self) -> Vec<String> {
                let bad = self.list().into_iter().filter(|t| !(t.min..=t.max).contains(&t.value));
                bad.map(|t| {
                    format!("thresholds.{}: {} is not within {} to {} {}", t.name, t.value, t.min, t.max, t.unit)
                }).collect()
            }
        }
    };
}

thresholds! {
    confidence_floor = 0.5 "ratio" in 0.0..=1.0,
        "A claim less sure than this is not made; the time stays unexplained.",
        from "own choice: more likely than not";
    claim_floor = 0.02 "ratio" in 0.0..=1.0,
        "Share of a cell below which a claim is noise: a change at a cell's border smears by up to one scrape into the next.",
        from "own: one scrape of 1 s in a cell of 60 s is 1.7 %";
    power_check_ratio = 0.5 "ratio" in 0.0..=1.0,
        "Power is asked whether the GPU really works when it seems busy for at least this share of the cell.",
        from "own choice: below, the mean power of a cell says little about its busy part";
    power_near_idle_ratio = 0.075 "ratio of idle to limit" in 0.0..=1.0,
        "Power above idle, as a share of the range from idle to the limit, below which a busy GPU waits and does not work.",
        from "8xH100 training that waits for one rank: 150 to 156 W at 98 % utilisation, 6 to 7 %; a working A100 at 99 %: 94 W or more, 9 % (JUWELS job 9482789)";
    spinning_power_ratio = 0.33 "ratio of idle to limit" in 0.0..=1.0,
        "Power above the board's own idle power, as a share of the range to its limit, below which kernels may spin and do nothing else, where tensor cores and memory are at rest too.",
        from "8xH100 training that waits for one rank: 6 to 7 %; boards of a model differ by 9 %, and models by more; kernels that compute in registers alone draw over half of the range, since the clocked multiprocessors take most of it";
    contradicted_power_ratio = 0.6 "ratio of the limit" in 0.3..=1.0,
        "Power, as a share of the board's limit, that no board draws without work: what says that it rests is not believed.",
        from "idle contexts: 16 % of the limit on H100 and A100, 27 % on L40S, up to 50 % on L4 and T4 at their highest clocks (72 and 70 W)";
    contradicted_busy_ratio = 0.5 "ratio" in 0.1..=1.0,
        "Utilisation that no sample of a cell is below, from which a count of work that stands at zero is not believed.",
        from "own choice: most of the time; the T4 whose engine is least active for its utilisation has 16 % at 91 % (dcgm-exporter, Ericsson)";
    frozen_seconds = 600.0 "seconds" in 60.0..=1800.0,
        "For so long no value of a GPU changes in its last bit before they are taken for old ones, where one of them has to move.",
        from "own choice: 20 scrapes of 30 s; power is told in milliwatts, and of a board at work no two readings in a row agree in recorded data";
    held_fb_bytes = 268435456.0 "bytes" in 0.0..=1e12,
        "Device memory in use above which something holds the GPU.",
        from "bare A100, H100 and L4: 0 MiB, bare MIG instances: 98 to 153 MiB; an idle process on an A100: 0.42 GB (JUWELS job 9482789)";
    idle_busy_ratio = 0.01 "ratio" in 0.0..=1.0,
        "A held GPU busy for no more than this share of a cell did no work in it.",
        from "own choice: 0.6 s a minute; above the noise of engine activity on an idle A100 (0.00006), below any training or serving seen";
    idle_window_seconds = 300.0 "seconds" in 10.0..=1800.0,
        "A held GPU without work for this long is idle_held; shorter pauses are left to the other rules.",
        from "7 times the longest loader stall in the MLPerf Storage traces (40 s); gpu-pruner acts after 30 min, omnistat separates phases at 30 s";
    keep_alive_least_busy_ratio = 0.02 "ratio" in 0.0..=1.0,
        "A cell busy for at least this share, at little more power than idle, has a burst that keeps the GPU from looking idle.",
        from "own choice: 1.2 s a minute; for less, power cannot tell bursts that work from those that do not";
    keep_alive_most_busy_ratio = 0.15 "ratio" in 0.0..=1.0,
        "A GPU busy for more than this share of a cell does more than keep itself from looking idle.",
        from "own choice: 9 s a minute; above what a reaper needs to see, below a job that starves";
    keep_alive_power_ratio = 0.01 "ratio of idle to limit" in 0.0..=1.0,
        "Power above the model's idle power, as a share of the range from idle to the limit, that idle GPUs differ by; bursts without work add to it their share of power_near_idle_ratio.",
        from "idle vLLM pod on an H100: 113.6 W for 115 W, idle contexts on an A100: 65 to 70 W, 1.5 % of the range; a burst of 2 % at 60 % of the range adds 1.2 %";
    idle_power_spread_ratio = 0.1 "ratio" in 0.0..=1.0,
        "Idle power of a board above its model's, as a share of that, up to which it is taken for its own idle power.",
        from "own choice: eight H100s of one node with an idle context: 113.6 W on average for 115 W; bare, they differ by 9 % (65.7 to 71.8 W)";
    keep_alive_bursts = 3.0 "cells" in 1.0..=60.0,
        "Cells with a burst, within the idle window before and after, from which the bursts are kept up.",
        from "own choice: one is a warm-up or a health check";
    keep_alive_cores = 1.0 "cores" in 0.0..=1e6,
        "CPU use of the owner above which it does more than launch such bursts.",
        from "own choice: the thread that launches them; a loader or a server at work keeps more busy";
    background_cpu_ratio = 0.02 "ratio of CPUs" in 0.0..=1.0,
        "Share of a node's CPUs that its daemons may use all the time; without metrics of the job, use up to this is not counted as the job's.",
        from "own choice: 2 to 5 CPUs of the 96 to 256 of a node with eight GPUs, for a kubelet, a network plugin, exporters and agents";
    gang_wait_cores = 1.0 "cores" in 0.0..=1e6,
        "CPU use of the owner above which it prepares its start and does not wait for its other GPUs.",
        from "own choice: processes that ask now and then whether the others are there keep less busy; imports and compilers keep a core";
    gang_wait_read_bytes = 1e6 "bytes per second" in 0.0..=1e12,
        "Reading of the owner above which it loads and does not wait for its other GPUs.",
        from "own choice: models load at hundreds of MB/s, polling reads next to nothing";
    sustained_busy_ratio = 0.05 "ratio" in 0.0..=1.0,
        "A GPU busy for at least this share of two cells in a row is at work.",
        from "own choice: 3 s a minute, above warm-up bursts; omnistat's 20 % would leave out a job that starves";
    cold_start_seconds = 1200.0 "seconds" in 60.0..=1800.0,
        "The longest that a start lasts: what comes after without work is idle.",
        from "initialisation took 5 to 20 min on Meta's research clusters (revisiting reliability, 2024)";
    long_start_seconds = 14400.0 "seconds" in 60.0..=14400.0,
        "The longest that a start lasts in which the job works for it or waits for others of its GPUs, and which ends in work of the GPU.",
        from "own choice: as far as lost_work_reach_seconds; a job without a gang scheduler may wait for hours";
    around_seconds = 1200.0 "seconds" in 300.0..=1800.0,
        "How far around a cell it is looked whether a GPU is ever used, and at which rate its owner usually writes.",
        from "own choice: longer than an evaluation or a save; gpu-pruner acts on GPUs unused for 30 min";
    down_xid_seconds = 1800.0 "seconds" in 60.0..=1800.0,
        "How long after an XID that takes a reset a GPU that does nothing is down, where the driver itself does not say that it wants a reset.",
        from "own choice: as far as any rule looks; which XIDs take a reset: NVIDIA's XID catalogue (docs/reference/xid.md)";
    throttled_periods_ratio = 0.25 "ratio of periods" in 0.0..=1.0,
        "Share of quota periods with throttling above which the quota holds the job up.",
        from "kubernetes-mixin CPUThrottlingHigh: 25 %";
    quota_period_seconds = 0.1 "seconds" in 0.001..=1.0,
        "The longest that one throttled period can have held the job up.",
        from "Linux Documentation/scheduler/sched-bwc: cpu.cfs_period_us and cpu.max default to 100 ms";
    io_waiting_ratio = 0.1 "seconds per second" in 0.0..=1.0,
        "Share of time with a task waiting for I/O (PSI some) above which reads are late.",
        from "TraceML: input wait of 10 % of the step is a warning; awesome-prometheus-alerts: iowait over 10 %";
    io_limit_ratio = 0.9 "ratio" in 0.5..=1.0,
        "Share of a limit on reads or writes from which a job has reached it.",
        from "own choice: the kernel counts out a limit over slices of time, so that a job at its limit is within a tenth of it";
    slow_mount_ratio = 2.0 "ratio" in 1.0..=1e3,
        "Reads of a mount or a disk are slow that take this many times as long as in its own best quarter of cells, or, of a mount, on other nodes, or as those of the fastest mount of the node.",
        from "own choice: the latency of a sound server differs by less from minute to minute";
    slow_mount_seconds = 0.005 "seconds" in 0.0..=60.0,
        "Reads that take less are not slow.",
        from "own choice: a disk that seeks takes as long";
    slow_target_ratio = 2.0 "ratio" in 1.0..=1e3,
        "A storage target of a Lustre file system is slow whose requests take this many times the median of the file system's targets.",
        from "own choice: files are striped over targets, so that sound ones get alike requests";
    free_seconds = 300.0 "seconds" in 60.0..=600.0,
        "For so long before a run begins GPUs have to be free that it could have had in place of its own.",
        from "own choice: a job that has just ended may hold them in the scheduler's eyes";
    scattered_told_seconds = 900.0 "seconds" in 60.0..=1100.0,
        "For so long after a run began it is said that a set of GPUs that is closer together was free.",
        from "own choice: what was free before the start has to be within what is looked at around a cell";
    demand_bridge_seconds = 660.0 "seconds" in 0.0..=1800.0,
        "For so long what a source said last of who waits for GPUs stands, where it is silent.",
        from "own choice: ten minutes of silence, and an interval between scrapes";
    gds_read_bytes = 1e8 "bytes per second" in 1e6..=1e12,
        "What a job reads from a network file system from which GPUDirect Storage should be seen at work.",
        from "own choice: a tenth of what one such reader reaches";
    slow_disk_seconds = 0.002 "seconds" in 0.0..=60.0,
        "Reads of a disk that take less are not slow.",
        from "own choice: a sound solid-state disk answers in a fraction of it; one whose reads a limit holds back may seem to take this long";
    small_read_bytes = 65536.0 "bytes" in 512.0..=1e9,
        "Reads with fewer bytes than this in the mean are small.",
        from "own choice: half of what the kernel reads ahead by default (128 KiB, read_ahead_kb)";
    mount_excess_ratio = 0.3 "ratio" in 0.05..=1.0,
        "Share of all time of reads by which a mount or a disk is above what its reads take at best, from which it is named.",
        from "own simulations: the share by which waits fell when the slow mount was made fast differs from it by 0.09 at most";
    metadata_ratio = 3.0 "requests per read" in 1.0..=1e6,
        "Other requests for each read of a mount, from which the job waits for lookups and not for data.",
        from "own choice: opening a file takes a lookup, an open and a close";
    iowait_cores = 0.5 "cores" in 0.0..=1e6,
        "CPU time in iowait above which reads are late, where the kernel has no PSI.",
        from "own choice: one task waiting half of the time; proc_stat(5) calls iowait unreliable, hence more than for PSI";
    storage_cpu_ratio = 0.5 "ratio of allowed CPUs" in 0.0..=1.0,
        "CPU use of the job (or node) below which its workers wait and do not compute.",
        from "own choice: half; what lies between this and cpu_busy_ratio is left unexplained";
    waiting_share_ratio = 0.5 "ratio" in 0.0..=1.0,
        "Share of the time of a job's loaders, as far as they wait for reads or compute, that is waiting, from which reads are what is late.",
        from "definition: more than half, so that without the wait a batch would take less than half of the time";
    like_batch_ratio = 1.5 "ratio" in 1.0..=100.0,
        "How much more CPU time or bytes than usual a batch may take before the batches are others.",
        from "own choice: half as much again; batches of real data sets differ by less in the mean of a minute";
    writes_over_reads_ratio = 10.0 "ratio" in 1.0..=1e6,
        "How much more than it reads a job writes where its tasks wait for their writes and not for reads.",
        from "own choice: an order of magnitude; who both reads batches and writes logs or samples reads more";
    input_read_bytes = 1e6 "bytes per second" in 0.0..=1e12,
        "Reading of a job from which it may feed its GPUs.",
        from "as gang_wait_read_bytes: polling reads next to nothing; batches of images or tokens are read at MB/s";
    input_bytes = 1e8 "bytes per second of work" in 0.0..=1e12,
        "Bytes over PCIe for each second of a GPU's work, from which they are input and not commands.",
        from "own choice: 70,000 launches a second are as much, for an H200 received 1.4 kB for each of PyTorch; kernels that leave most multiprocessors free are not judged by it";
    cpu_busy_ratio = 0.85 "ratio of allowed CPUs" in 0.0..=1.0,
        "CPU use of the job above which its workers cannot go faster.",
        from "node mixin alerts at 90 % of a node; less here, for workers pause between batches";
    saturated_workers = 1.0 "processes" in 0.0..=1e6,
        "Workers that compute nearly all of the time, from which on the loader cannot go faster though CPUs are free.",
        from "own choice: one is enough, for batches are taken in the order of the workers";
    surely_workers = 2.0 "processes" in 1.0..=1e6,
        "Processes without a GPU that compute nearly all of the time, from which they are workers even while the GPU does nothing.",
        from "own choice: more than one; a single child of a notebook or a server computes for itself";
    computing_cores = 0.85 "cores per GPU" in 0.1..=8.0,
        "CPU time of the processes that hold a job's GPUs, per GPU, from which one thread of each computes nearly all of the time.",
        from "definition: a thread has one core at most; less what goodput-exporter leaves a saturated worker";
    holders_cpu_ratio = 0.8 "ratio" in 0.0..=1.0,
        "Share of a job's CPU time that the processes on its GPUs use themselves, from which they prepare its batches, if anyone does.",
        from "own choice: PyTorch's workers use more than the process that they work for; a job's other processes use little";
    cpu_waiting_ratio = 0.2 "seconds per second" in 0.0..=1.0,
        "Share of time with a runnable task of the job waiting for a CPU (PSI some) above which CPUs are short.",
        from "xprof and TraceML: 20 % of the step is high";
    wakeup_seconds = 0.000133 "seconds" in 0.0..=0.01,
        "The longest that a task waits for a CPU after a page came back for it, though no other task runs there.",
        from "Linux drivers/idle/intel_idle.c, skx_cstates: to leave C6 takes 133 us; PSI counts a task as waiting from when it is woken";
    steal_ratio = 0.1 "ratio" in 0.0..=1.0,
        "Share of the time with something to run that the hypervisor gave to others, above which it holds the job up.",
        from "awesome-prometheus-alerts HostCpuStealNoisyNeighbor: steal over 10 %";
    irq_cpu_ratio = 0.1 "cores" in 0.0..=1000.0,
        "Time in interrupts, of the busiest CPU and taken from the job's CPUs, above which they hold its loaders up.",
        from "articles on GPU hosts: interrupts over 10 % of a CPU of the job's cpuset";
    memory_waiting_ratio = 0.1 "seconds per second" in 0.0..=1.0,
        "Share of time with a task waiting for memory (PSI some) above which memory is short.",
        from "as io_waiting_ratio: TraceML warns of input wait from 10 % of the step; systemd-oomd kills at 60 %";
    memory_limit_ratio = 0.95 "ratio of the limit" in 0.0..=1.0,
        "Memory of the job's group, as a share of its limit, from which it is at the limit and drops pages to read others.",
        from "own choice: reclaim frees a few dozen pages at a time; a group that read by chance from a file three times its limit stayed at 99.9 % of it (tests/traces/live-memory_pressure)";
    compaction_stalls = 10.0 "stalls per second" in 0.0..=1e9,
        "Allocations that compact memory themselves above which the wait for memory is taken for that.",
        from "own choice: each takes milliseconds, so that fewer do not make a tenth of the time; none is published";
    refault_pages = 100.0 "pages per second" in 0.0..=1e9,
        "Pages coming back after reclaim above which the wait for memory is taken for thrashing.",
        from "own choice: 100 random reads a second keep a disk of spinning rust busy; none is published";
    major_faults = 500.0 "faults per second" in 0.0..=1e9,
        "Page faults that read from storage above which the wait for memory is taken for thrashing.",
        from "node mixin NodeMemoryMajorPagesFaults: 500 a second";
    swap_in_bytes = 65536.0 "bytes per second" in 0.0..=1e12,
        "Memory read back from swap above which the wait for memory is taken for swapping.",
        from "handbook on AI systems: any sustained swap-in is severe; 16 pages of 4 KiB a second are above the odd one";
    checkpoint_bytes = 5e7 "bytes per second" in 1.0..=1e12,
        "Rate of writing from which a burst is taken for the saving of a job's state.",
        from "own choice: the state of 1 GB within 20 s; logs and metrics stay below 1 MB/s";
    idle_written_bytes = 1e6 "bytes per second" in 0.0..=1e12,
        "Rate of writing of a job from which its idle GPUs wait for that and are not idle_held.",
        from "as checkpoint_bytes: logs and metrics stay below 1 MB/s";
    checkpoint_burst_ratio = 3.0 "ratio" in 1.0..=1000.0,
        "How much higher than the usual rate around it a burst of writing is.",
        from "own choice: above the ups and downs of steady writing";
    forecast_window_seconds = 7200.0 "seconds" in 1800.0..=86400.0,
        "How far back the forecast of memory looks.",
        from "own choice: several epochs or checkpoints of the jobs in the traces; longer would see a leak too late";
    forecast_horizon_seconds = 14400.0 "seconds" in 600.0..=604800.0,
        "How far ahead the forecast of memory warns.",
        from "own choice: twice the window; node mixin extrapolates 6 h of disk use to 4 h and to 24 h";
    forecast_growth_ratio = 0.01 "ratio of the limit" in 0.0001..=1.0,
        "Growth over the window, at the flattest slope that fits, below which memory does not grow.",
        from "own choice: TraceML takes a creep of 1 GiB for confirmed, 1.2 % of 80 GiB";
    forecast_swing_ratio = 0.03 "ratio of the limit" in 0.0001..=1.0,
        "Ups and downs smaller than this do not tell a sawtooth from a leak.",
        from "own choice: above what is allocated and freed within a step; it names the shape and decides nothing";
    forecast_restart_ratio = 0.25 "ratio" in 0.0..=0.9,
        "A fall to this share of the previous peak means that the program was replaced or restarted.",
        from "own choice: what garbage collection and caches give back leaves more";
    disk_available_ratio = 0.4 "ratio of the size" in 0.0..=1.0,
        "Available space or inodes of a file system from which no disk is told to fill up, however fast it does.",
        from "node mixin NodeFilesystemSpaceFillingUp: warns below 40 %";
    eviction_memory_bytes = 104857600.0 "bytes" in 0.0..=1e13,
        "Available memory below which the kubelet evicts pods, as its evictionHard has it; 0 where it does not.",
        from "Kubernetes documentation, Node-pressure Eviction: memory.available<100Mi";
    eviction_nodefs_ratio = 0.1 "ratio of the size" in 0.0..=1.0,
        "Available space of the kubelet's file system below which it evicts pods; 0 where it does not.",
        from "Kubernetes documentation, Node-pressure Eviction: nodefs.available<10%";
    eviction_inodes_ratio = 0.05 "ratio of the inodes" in 0.0..=1.0,
        "Free inodes of the kubelet's file system below which it evicts pods; 0 where it does not.",
        from "Kubernetes documentation, Node-pressure Eviction: nodefs.inodesFree<5%";
    eviction_imagefs_ratio = 0.15 "ratio of the size" in 0.0..=1.0,
        "Available space of the container runtime's file system below which the kubelet evicts pods; 0 where it does not.",
        from "Kubernetes documentation, Node-pressure Eviction: imagefs.available<15%";
    ecc_corrected_errors = 100.0 "errors per hour" in 1.0..=1e9,
        "Corrected ECC errors of a GPU within an hour from which it is watched; NVIDIA takes one for nothing.",
        from "alert rules for dcgm-exporter in use: more than 100 an hour; NVIDIA publishes none";
    remapped_rows = 512.0 "rows" in 1.0..=1e5,
        "Rows replaced after uncorrectable errors from which a GPU is watched however long ago they were.",
        from "DCGM health watch of memory: warns from 512";
    retired_pages = 63.0 "pages" in 1.0..=1e5,
        "Retired pages from which a GPU before Ampere is to be replaced.",
        from "DCGM health watch of memory: 63 pages";
    pcie_error_ratio = 1e-12 "errors per bit" in 1e-18..=1.0,
        "Errors per bit that a PCIe link may have; replays beyond, at all that it can carry, are too many.",
        from "DCGM health watch of PCIe: bit error rate of 1e-12, some 16 replays a minute of generation 4 by 16 lanes";
    nvlink_crc_errors = 100.0 "errors per second" in 0.01..=1e9,
        "Checksum errors of a GPU's NVLinks from which it is watched.",
        from "DCGM health watch of NVLink: 100 a second";
    nvlink_errors = 1.0 "errors" in 1.0..=1e9,
        "Recoveries of a GPU's NVLinks within the forecast's window from which it is watched.",
        from "DCGM health watch of NVLink: any error but of checksums";
    link_down_seconds = 120.0 "seconds" in 0.0..=1800.0,
        "Time that NVLinks or an RDMA port must be down, or slow, for that to be a risk.",
        from "own choice: a reset of a GPU, or new training of a link, takes seconds";
    rdma_link_changes = 4.0 "changes" in 1.0..=1e6,
        "Times within ten minutes that the link of an RDMA port came or went from which something has to be done.",
        from "NVSentinel: default of its check of link flapping";
    rdma_link_recoveries = 5.0 "recoveries per minute" in 0.01..=1e6,
        "Recoveries of an RDMA port's link, in the mean of ten minutes, from which it is watched.",
        from "NVSentinel: default of link_error_recovery, 5 a minute";
    rdma_symbol_errors = 10.0 "errors per second" in 0.001..=1e9,
        "Damaged symbols on an RDMA port's link, in the mean of ten minutes, from which it is watched.",
        from "NVSentinel: default of symbol_error, 10 a second; links with PAM4 have some at all times";
    rdma_receive_errors = 10.0 "errors per second" in 0.001..=1e9,
        "Packets that an RDMA port received damaged, in the mean of ten minutes, from which it is watched.",
        from "NVSentinel: default of port_rcv_errors, 10 a second";
    rdma_discards = 100.0 "packets per second" in 0.001..=1e9,
        "Packets that an RDMA port could not send, in the mean of ten minutes, from which it is watched.",
        from "NVSentinel: default of port_xmit_discards, 100 a second";
    rdma_timeouts = 1.0 "timeouts per second" in 0.001..=1e9,
        "Times that an RDMA port waited for an acknowledgement and got none, in the mean of five minutes, from which it is watched.",
        from "NVSentinel: default of local_ack_timeout_err, 1 a second";
    server_near_seconds = 60.0 "seconds" in 0.0..=300.0,
        "How far around a cell, to either side, the clocks of a server and of its GPU are compared: their scrapes do not fall together.",
        from "own choice: two scrapes of 30 s";
    server_far_seconds = 120.0 "seconds" in 60.0..=600.0,
        "The same where few tokens came.",
        from "own choice: with the cell itself 300 s, as long as a request of thousands of tokens takes";
    server_tokens = 20.0 "tokens" in 1.0..=1e6,
        "Tokens from which the mean time between two of them tells how long a server's steps take.",
        from "own simulation of continuous batching: with 20, the share of time in which the engine worked is off by 2 points in the mean";
    server_host_ratio = 0.1 "ratio" in 0.0..=1.0,
        "Share of time by which a server's engine seems to work for longer than its GPU, from which its CPU side is late.",
        from "own simulation: full batches weigh too much in the mean time between tokens, by 8 to 13 points in bursts";
    server_loaded_ratio = 0.5 "ratio" in 0.0..=1.0,
        "Device memory in use, as a share of what a server has when it answers, below which its weights are not loaded.",
        from "own choice: weights are most of what a server takes before it sets memory for keys and values aside";
    server_warm_up_seconds = 600.0 "seconds" in 0.0..=1800.0,
        "The longest that a server warms up for with its weights loaded: kernels of a longer time are work that was not seen.",
        from "own choice: capturing graphs and compiling takes minutes";
    server_front_requests = 0.1 "requests" in 0.0..=1e6,
        "Requests outside the engine, in the mean, from which a server's front end is late.",
        from "definition: a tenth of the time with one request, as server_host_ratio; tokenising takes milliseconds";
    server_queue_requests = 5.0 "requests" in 1.0..=1e6,
        "Requests that wait for a server, in the mean, from which it has too few seats or too little memory for them.",
        from "llm-d Workload Variant Autoscaler: queueLengthThreshold";
    server_kv_ratio = 0.8 "ratio" in 0.1..=1.0,
        "Share of a server's KV cache in use from which it is full.",
        from "llm-d Workload Variant Autoscaler: kvCacheThreshold";
    derate_busy_ratio = 0.5 "ratio" in 0.0..=1.0,
        "Clocks of cells busy for at least this share are compared; an idle GPU lowers its own.",
        from "own choice: most of the cell";
    derate_around_seconds = 1800.0 "seconds" in 60.0..=1800.0,
        "How far around a cell, to either side, GPUs of the same model are looked at for the clocks that are usual.",
        from "own choice: as far as any rule looks";
    hollow_ratio = 0.5 "ratio" in 0.0..=1.0,
        "By how much utilisation exceeds work, in the mean of three cells, before a GPU is held to have kernels and not to wait.",
        from "a T4 at 91 % utilisation whose engine is active for 16 % (dcgm-exporter, Ericsson); less is the chance of gauges scraped once a minute";
    slow_copy_bytes = 6e9 "bytes per second" in 1e8..=1e12,
        "Rate of the slowest copy to the GPU that is plausible: copies explain no more time than they would take at it.",
        from "NVIDIA's bandwidthTest on PCIe 4 x16: some 6 GB/s from pageable memory, 25 GB/s from pinned";
    link_full_ratio = 0.5 "ratio of the link's rate" in 0.1..=1.0,
        "Bytes received, as a share of what the PCIe link carries, from which copies take most of the time.",
        from "definition: at its full rate the link is then busy for half of the time; NVIDIA's bandwidthTest reaches 80 to 90 % of it from pinned memory";
    copying_ratio = 0.1 "ratio" in 0.0..=1.0,
        "Share of a cell that its copies would take at the slowest rate, from which a GPU that rests waits for them.",
        from "as io_waiting_ratio: TraceML warns of input wait from 10 % of the step";
    shallow_ratio = 0.15 "ratio" in 0.01..=1.0,
        "How far below its usual depth a busy GPU's SM activity or power is, before part of its busy time is taken for waiting.",
        from "own choice: above the ups and downs of batches that differ in size; TraceML warns of waiting from 10 % of the step";
    spinning_sm_ratio = 0.25 "ratio" in 0.0..=0.9,
        "Share of the multiprocessors that spinning kernels of a collective occupy at most; power has to confirm it.",
        from "NCCL: a thread block for each of up to 32 channels; an H100 has 132 multiprocessors";
    spinning_dram_ratio = 0.05 "ratio" in 0.0..=0.9,
        "Share of cycles of device memory that kernels of a collective take at most while they wait, where other measures tell of them too.",
        from "own choice: an exchange at the 50 GB/s of a 400 Gb/s adapter per GPU reads and writes each byte three times, 4.5 % of an H100's 3.35 TB/s";
    depth_floor_ratio = 0.05 "ratio" in 0.0..=1.0,
        "Activity of tensor cores or device memory per busy time which a program must reach at its usual depth for it to tell how deep it works.",
        from "own choice: above what kernels of other programs take (a T4 that runs no mixed precision: tensor cores 0.6 %; dcgm-exporter, Ericsson)";
    deep_cells = 3.0 "cells" in 1.0..=60.0,
        "Cells of usual depth that there must be around to compare with.",
        from "own choice: one may be a warm-up or a benchmark";
    shallow_clock_ratio = 0.95 "ratio" in 0.0..=1.0,
        "SM clock, as a share of that of the cells of usual depth, below which a GPU is slowed and does not wait.",
        from "own choice: a GPU that waits draws less and clocks rather higher";
    exchange_bytes = 1e6 "bytes per second" in 0.0..=1e12,
        "NVLink traffic of a GPU from which it exchanges data with others of its run.",
        from "own choice: a GPU that works alone has none; the gradients of a model of 1 million parameters once a second are 2 MB";
    straggler_ratio = 0.1 "ratio" in 0.01..=1.0,
        "Share of a cell that one GPU of a run keeps another waiting, as far as its own cause or its longer work explains it, from which the wait is charged to it; and by which it exceeds every other GPU of the run.",
        from "TraceML: a straggler from 10 % of the step of the rank that waits";
    network_wait_ratio = 0.1 "ratio" in 0.01..=1.0,
        "A GPU that waits in collectives for less than this share of a cell did not wait for the network.",
        from "TraceML: waiting is looked at from 10 % of the step";
    network_clean_cells = 3.0 "cells" in 1.0..=60.0,
        "Cells of a run without evidence of a slow network that are needed to tell what its bytes take on a sound one.",
        from "own choice: as deep_cells";
    tcp_exchange_bytes = 1e8 "bytes per second" in 1e6..=1e12,
        "Bytes that a node sends and receives alike, from which they are an exchange between GPUs.",
        from "own choice: a sixth of 10 Gbit/s; storage goes one way, and control traffic is far below";
    rdma_idle_ratio = 0.01 "ratio" in 0.0..=1.0,
        "RDMA ports that carry less than this share of what Ethernet does are idle.",
        from "own choice: keep-alives of the job's connections remain";
    rail_idle_ratio = 0.1 "ratio" in 0.0..=1.0,
        "A port that carries less than this share of the busiest of its node is left out of the exchange.",
        from "own choice: rails of one collective carry alike within a tenth";
    port_errors = 1.0 "errors" in 1.0..=1e6,
        "Timeouts, retransmissions or changes of its link in a cell, from which a port has errors.",
        from "definition: sound links have none";
    retransmits_per_gigabyte = 1.0 "retransmissions per gigabyte" in 0.0..=1e6,
        "Retransmissions for each gigabyte sent, from which a port loses packets.",
        from "own simulations: chance alone named a sound port in none of 12,000 cases, a port with 2 was named in all";
    port_errors_ratio = 5.0 "ratio" in 1.0..=1e3,
        "A port is named where it has this many times the errors of any other port of the run.",
        from "own simulations, as retransmits_per_gigabyte";
    congestion_ratio = 5.0 "ratio" in 1.5..=1e3,
        "Notices of congestion, or ticks of waiting, for each gigabyte, as a multiple of those in the run's best quarter of cells, from which switches hold the exchange back.",
        from "own choice, as port_errors_ratio";
    port_busy_ratio = 0.8 "ratio" in 0.3..=1.0,
        "Share of its line rate that a port carries in the mean of a cell, from which it is full.",
        from "own choice: a collective reaches 0.8 to 0.9 of the line rate while it runs, so that little but exchange is left of the cell";
    pause_ratio = 0.05 "ratio" in 0.0..=1.0,
        "Share of a cell in which an interface was asked to pause, from which the network holds it back.",
        from "own choice: short pauses are how a lossless priority works";
    network_constant_ratio = 0.8 "ratio" in 0.1..=1.0,
        "Share of a run's cells within derate_around_seconds whose ports show a fault, from which nothing sound is left to compare with.",
        from "own choice: of an hour 12 cells are left, as many as a cell is compared with";
    network_evidence_seconds = 900.0 "seconds" in 60.0..=3600.0,
        "For how long, within derate_around_seconds, ports of a run show a fault before it is advised without a loss.",
        from "own choice: three times idle_window_seconds, longer than a flap of a link and what follows it";
    exchange_large_ratio = 0.2 "ratio" in 0.01..=1.0,
        "Share of the time that a run on one node holds its GPUs for which they wait in collectives, from which its exchange is large.",
        from "AI Systems Performance Engineering (early release): on more nodes, over InfiniBand, exchanges take 20 to 30 % of the time";
    straggler_known_ratio = 0.8 "ratio of GPUs" in 0.0..=1.0,
        "No straggler is named while less than this share of a run's GPUs is known: it may be one of the others.",
        from "TraceML: the cause of a straggler is named from a coverage of 80 %";
    nccl_matched_seconds = 900.0 "seconds" in 900.0..=1800.0,
        "Time of a half hour, by minutes with a collective that all ranks have, that is needed to split waiting in collectives.",
        from "own simulations: one step in ten that is ten times as late is off by 0.05 in half an hour with 900 collectives, by 0.5 in a minute";
    nccl_slow_ratio = 0.8 "ratio" in 0.3..=1.0,
        "Bus bandwidth of a run's collectives without waiting for late ranks, as a share of that of its best half hour around, below which the exchange is slow.",
        from "own choice: jitter alone leaves it within 0.02";
    launching_cores = 0.75 "cores per GPU" in 0.1..=8.0,
        "CPUs per GPU beyond what loaders need for the batches done, from which a thread is busy with launching kernels.",
        from "definition: kernels are launched by one thread per process, and one core is all it can use; less a quarter for cells that begin in the middle";
    timeslice_cores = 0.5 "cores" in 0.0..=8.0,
        "CPU use of each of several owners of a GPU from which it is at work on it and not idle with a context.",
        from "own choice: a thread that launches kernels and waits for them keeps about one core busy, an idle program none";
    stock_power_ratio = 0.98 "ratio" in 0.5..=1.0,
        "A power limit below this share of the stock one has been lowered.",
        from "own choice: limits are set in whole watts; the least useful step on a 700 W board is larger than 14 W";
    power_capped_ratio = 0.5 "seconds per second" in 0.0..=1.0,
        "Share of time at the stock power limit from which the report mentions it, outside the ledger.",
        from "own choice: most of the cell";
    locked_clock_ratio = 0.95 "ratio" in 0.5..=1.0,
        "A fixed SM clock, as a share of the usual one or of the highest there is, below which it is taken for a lock.",
        from "own choice: boards of one model differ by less at the same load";
    clock_step_hertz = 1.5e7 "hertz" in 0.0..=1e9,
        "An SM clock that moves no more than this stands still.",
        from "nvidia-smi -q -d SUPPORTED_CLOCKS: steps of 15 MHz from Volta on";
    sm_effective_ratio = 0.5 "ratio" in 0.0..=1.0,
        "SM activity per busy time below which kernels have no work for most multiprocessors.",
        from "DCGM user guide, profiling metrics: an SM activity below 0.5 likely indicates ineffective use";
    tensor_unused_ratio = 0.01 "ratio" in 0.0..=1.0,
        "Activity of tensor cores per busy time below which they are not used.",
        from "own choice: a T4 that runs no mixed precision: 0.6 % (dcgm-exporter, Ericsson)";
    tensor_bound_ratio = 0.3 "ratio" in 0.0..=1.0,
        "Activity of tensor cores per busy time from which kernels make good use of them.",
        from "own choice: well-tuned training on an H100 keeps them at work for a third to a half of the time; none is published";
    memory_bound_ratio = 0.6 "ratio" in 0.0..=1.0,
        "Activity of device memory per busy time from which kernels wait for it.",
        from "DCGM user guide, profiling metrics: in practice 0.8 is the most; three quarters of that";
    low_occupancy_ratio = 0.25 "ratio" in 0.0..=1.0,
        "Warps on multiprocessors at work, as a share of the most there can be, below which they have few to choose from.",
        from "handbook on AI systems: below 25 %, look at the launch configuration";
    small_batch_memory_ratio = 0.5 "ratio" in 0.0..=1.0,
        "Device memory in use, as a share of what can be had, up to which there is room for larger batches.",
        from "Gao et al., An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024): batch too small where at most 50 % of memory is used";
    oversized_busy_ratio = 0.15 "ratio" in 0.0..=1.0,
        "Share of an hour up to which a GPU is busy that is too large for what it does.",
        from "jobstats, jobs for which MIG is advised: utilisation of at most 15 %";
    oversized_memory_bytes = 1e10 "bytes" in 0.0..=1e12,
        "Device memory in use below which an instance of the GPU has enough.",
        from "jobstats, jobs for which MIG is advised: less than 10 GB, as the smallest instance of an A100 with 80 GB has";
    lost_work_seconds = 1800.0 "seconds" in 60.0..=1800.0,
        "How long after a crash a start is the crash's doing.",
        from "own choice: as far as any rule looks";
    lost_work_reach_seconds = 14400.0 "seconds" in 60.0..=14400.0,
        "How long before a crash work is called lost, where the job told nothing and nothing was seen to be saved since.",
        from "own choice: jobs save every few hours at the most (revisiting reliability, 2024, reckons with hourly); what was done earlier is lost too, and stays productive";
    lost_work_memory_ratio = 0.97 "ratio" in 0.5..=1.0,
        "Device memory in use, as a share of what is available; a job that ends above it ran out of memory.",
        from "own choice: what does not fit any more is seldom over 2 GB of 80; programs that take nearly all at once do not grow";
    cross_numa_cpus_ratio = 0.1 "ratio of allowed CPUs" in 0.0..=0.5,
        "Share of its allowed CPUs on the GPU's NUMA node below which a process is elsewhere; above the rest to one it is there.",
        from "own choice: affinity masks are whole nodes in practice, so that shares are near 0, a half or 1; none is published";
    cross_numa_memory_ratio = 0.5 "ratio of bytes" in 0.0..=1.0,
        "Share of the owner's anonymous and shared memory on the GPU's NUMA node below which its memory is elsewhere.",
        from "own choice: less than an even spread over two nodes; none is published";
    cross_numa_behind_ratio = 0.1 "ratio" in 0.0..=1.0,
        "How much more of a cell an on-node GPU of the same owner works before the placement is charged with the difference.",
        from "TraceML: input wait of 10 % of the step is a warning";
}

#[cfg(test)]
mod tests;
