//! What the machine does in one slot of time: a pure function of the script.
//!
//! A job goes as fast as the least of what it is given: cores, bytes of its volume, memory, and for each GPU the way to
//! it. What it lacks shows where a kernel counts it. The rates of a slot are constant, so that totals do not depend on
//! when anyone looks.

use crate::demo::script::{Job, NodeTurn, SLOT_SECONDS, Script, Second, Turn};

use super::layout::{self, CPUS, DISKS};
use super::noise::around_one;

/// How long the ups and downs of a job last, in slots: 5 minutes.
const CALM_SLOTS: u64 = 30;
/// A GPU that is never kept waiting is between kernels for the rest.
const FULL: f64 = 0.96;
/// Speed of a GPU whose process and pinned buffers are on the other socket.
const FAR: f64 = 0.55;
/// Quota periods per second (`cpu.max` with the usual 100 ms).
const PERIODS: f64 = 10.0;
/// What a volume and a disk give when nothing is wrong with them.
const DISK_BYTES_PER_SECOND: f64 = 3e9;
/// Bytes of one request.
const REQUEST: f64 = 131_072.0;
/// Cores that the system itself takes.
const SYSTEM_CORES: f64 = 1.5;
const PAGE: f64 = 4096.0;

/// How a GPU is used during a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    /// Held, without work.
    Rest,
    /// Kernels at this level, all the time.
    Steady(f64),
    /// At work for this share of the slot, waiting for the rest.
    Burst(f64),
}

macro_rules! totals {
    ($(#[$meta:meta])* $name:ident { $($field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        pub(super) struct $name {
            $(pub(super) $field: f64,)*
        }

        impl $name {
            /// Adds what rates bring in a time.
            pub(super) fn add(&mut self, rates: &Self, seconds: f64) {
                $(self.$field += rates.$field * seconds;)*
            }
        }
    };
}

totals! {
    /// What a kernel counts for one cgroup; as rates, per second. Times are in seconds.
    JobTotals {
        cpu, periods, throttled_periods, throttled,
        cpu_some, cpu_full, memory_some, memory_full, io_some, io_full,
        read_bytes, written_bytes, faults, major_faults, refaults, limit_hits,
    }
}

totals! {
    /// What a kernel counts for the node.
    NodeTotals {
        user, system, idle, iowait, irq, softirq,
        cpu_some, memory_some, memory_full, io_some, io_full,
        swapped_in, swapped_out, faults, major_faults, refaults, reclaim_stalls, huge_pages, hint_faults, migrated,
    }
}

totals! {
    /// What a kernel counts for one disk.
    DiskTotals { reads, read_bytes, read_seconds, writes, written_bytes, write_seconds, busy, }
}

/// One slot of one job.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) rates: JobTotals,
    /// In the order of the job's GPUs.
    pub(super) loads: Vec<Load>,
}

/// One slot of the machine.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// Of each job of the script; `None` while it does not run.
    pub(super) jobs: Vec<Option<Flow>>,
    pub(super) node: NodeTotals,
    pub(super) disks: [DiskTotals; DISKS],
    /// Interrupts per second of each row, and whether its CPU's neighbour on the other NUMA node takes them.
    pub(super) interrupts: Vec<(f64, bool)>,
}

/// What a job is up to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Starting,
    Working,
    Saving,
    Resting,
}

/// The slot with this number.
pub(super) fn slot(script: &Script, number: u64) -> Slot {
    let at = number * SLOT_SECONDS;
    let share = share_of_pool(script, at);
    let runs = |job: &Job| job.span.contains(&at);
    let jobs: Vec<_> = script.jobs.iter().map(|job| runs(job).then(|| flow(job, number, share))).collect();
    let disks = disks(script, &jobs, at);
    let node = node(script, &jobs, at);
    let interrupts = interrupts(script, &jobs, &disks, at);
    Slot { jobs, node, disks, interrupts }
}

/// The share of the cores it wants that everyone without cores of its own gets.
fn share_of_pool(script: &Script, at: Second) -> f64 {
    let running = || script.jobs.iter().filter(|job| job.span.contains(&at));
    let own: u32 = running().filter_map(|job| job.cores.as_ref()).flatten().map(|cores| cores.len() as u32).sum();
    let shared: f64 = running().filter(|job| job.cores.is_none()).map(|job| wanted_cores(job, at)).sum();
    let pool = f64::from(CPUS - own);
    (pool / (shared + neighbours(script, at) + SYSTEM_CORES)).min(1.0)
}

fn neighbours(script: &Script, at: Second) -> f64 {
    let cores = |turn: &NodeTurn| if let NodeTurn::Neighbours { cores } = turn { *cores } else { 0.0 };
    script.node_turns(at).map(cores).sum()
}

fn phase(job: &Job, at: Second) -> Phase {
    let since = at - job.span.start;
    let saves = |turn: &Turn| matches!(turn, Turn::Saves { every_seconds, for_seconds } if since % every_seconds < *for_seconds);
    if since < job.start_seconds {
        Phase::Starting
    } else if job.turns(at).any(|turn| *turn == Turn::Rest) {
        Phase::Resting
    } else if job.turns(at).any(saves) {
        Phase::Saving
    } else {
        Phase::Working
    }
}

/// Cores that the job would use if nothing held it up.
fn wanted_cores(job: &Job, at: Second) -> f64 {
    let factor = |turn: &Turn| if let Turn::Batches { factor } = turn { Some(*factor) } else { None };
    let factor: f64 = job.turns(at).filter_map(factor).product();
    match phase(job, at) {
        Phase::Working => job.needs.cores * factor,
        Phase::Starting => 1.5,
        Phase::Saving => 1.0,
        Phase::Resting => 0.02,
    }
}

/// What a job gets, as shares of what it wants; `1` is enough.
struct Given {
    cores: f64,
    quota: Option<f64>,
    storage: f64,
    memory: f64,
}

impl Given {
    fn of(job: &Job, at: Second, share_of_pool: f64) -> Given {
        let wanted = wanted_cores(job, at);
        let own = job.cores.as_ref().map(|cores| cores.iter().map(|c| c.len() as f64).sum::<f64>());
        let quota = job.turns(at).find_map(|t| if let Turn::Quota { cores } = t { Some(*cores) } else { None });
        let volume = job.turns(at).find_map(|t| match t {
            Turn::Storage { bytes_per_second } => Some(*bytes_per_second),
            _ => None,
        });
        let storage = volume.map_or(1.0, |bytes| (bytes / job.needs.read_bytes_per_second).min(1.0));
        let cores = own.map_or(share_of_pool, |own| (own / wanted).min(1.0));
        let quota = quota.map(|quota| (quota / wanted).min(1.0));
        Given { cores, quota, storage, memory: layout::resident_share(job, at) }
    }

    /// The least of them.
    fn speed(&self) -> f64 {
        self.cores.min(self.quota.unwrap_or(1.0)).min(self.storage).min(self.memory)
    }
}

fn flow(job: &Job, number: u64, share_of_pool: f64) -> Flow {
    let at = number * SLOT_SECONDS;
    let given = Given::of(job, at, share_of_pool);
    let calm = around_one(&job.owner, number / CALM_SLOTS, 0.015);
    let speed = given.speed();
    let rates = match phase(job, at) {
        Phase::Working => working(job, at, &given, calm * around_one(&job.owner, number, 0.02)),
        Phase::Starting => JobTotals {
            cpu: 1.5,
            read_bytes: 0.3 * job.needs.device_bytes / 300.0,
            io_some: 0.05,
            io_full: 0.03,
            faults: 5_000.0,
            major_faults: 20.0,
            ..JobTotals::default()
        },
        Phase::Saving => JobTotals {
            cpu: 1.0,
            written_bytes: 0.6e9 * job.gpus.len() as f64 * calm,
            io_some: 0.35,
            io_full: 0.2,
            faults: 500.0,
            ..JobTotals::default()
        },
        Phase::Resting => JobTotals { cpu: 0.02, faults: 5.0, ..JobTotals::default() },
    };
    let works = phase(job, at) == Phase::Working;
    let load = |gpu: &usize| if works { load(job, *gpu, at, speed, calm) } else { Load::Rest };
    Flow { rates, loads: job.gpus.iter().map(load).collect() }
}

/// Each rank goes at its own speed: they share no step.
fn load(job: &Job, gpu: usize, at: Second, speed: f64, calm: f64) -> Load {
    let unused = job.turns(at).any(|turn| *turn == Turn::Unused { gpu });
    let far = job.turns(at).any(|turn| matches!(turn, Turn::Bound { node } if *node != layout::node_of_gpu(gpu)));
    let level = (FULL * calm).min(1.0) * if far { FAR } else { 1.0 };
    match speed {
        _ if unused => Load::Rest,
        // From afar every copy is late, many times a second: the GPU is never idle for long, and never quite busy.
        1.0 => Load::Steady(level),
        share => Load::Burst(share * level),
    }
}

/// What the kernel counts for a job that works with what it is given.
fn working(job: &Job, at: Second, given: &Given, noise: f64) -> JobTotals {
    let (wanted, speed) = (wanted_cores(job, at), given.speed() * noise.min(1.0));
    let quota_lacks = given.quota.map_or(0.0, |quota| 1.0 - quota);
    // Throttled tasks count as waiting for a CPU, and so do those behind others on a core.
    let cpu_some = if given.cores.min(given.quota.unwrap_or(1.0)) < 1.0 { 0.94 * noise.min(1.0) } else { 0.02 * noise };
    let io_some = if given.storage < 1.0 { 0.4 + 0.6 * (1.0 - speed) } else { 0.03 * noise };
    let memory_lacks = 1.0 - given.memory;
    let refaults = memory_lacks * 40_000.0 * noise;
    let periods = if given.quota.is_some() { PERIODS } else { 0.0 };
    JobTotals {
        cpu: wanted * speed,
        periods,
        throttled_periods: if quota_lacks > 0.0 { 0.97 * periods } else { 0.0 },
        throttled: quota_lacks * wanted,
        cpu_some,
        cpu_full: 0.3 * cpu_some * quota_lacks,
        memory_some: 1.05 * memory_lacks,
        memory_full: 0.6 * memory_lacks,
        io_some: io_some.max(0.5 * memory_lacks).min(0.99),
        io_full: 0.6 * io_some,
        read_bytes: job.needs.read_bytes_per_second * speed + refaults * PAGE,
        written_bytes: 150e3 * noise,
        faults: 3_000.0 * speed,
        major_faults: refaults / 16.0,
        refaults,
        limit_hits: memory_lacks * 100.0,
    }
}

/// Pages per second that others have swapped out and in again.
fn swapping(script: &Script, at: Second) -> f64 {
    let pages = |turn: &NodeTurn| {
        if let NodeTurn::Swapping { bytes_per_second } = turn { bytes_per_second / PAGE } else { 0.0 }
    };
    script.node_turns(at).map(pages).sum()
}

/// Pressure of the node: the chance that any of the jobs waits, if each waits by itself.
fn any(jobs: &[Option<Flow>], of: impl Fn(&JobTotals) -> f64, others: f64) -> f64 {
    1.0 - jobs.iter().flatten().map(|flow| 1.0 - of(&flow.rates).min(1.0)).product::<f64>() * (1.0 - others)
}

fn node(script: &Script, jobs: &[Option<Flow>], at: Second) -> NodeTotals {
    let sum = |of: fn(&JobTotals) -> f64| jobs.iter().flatten().map(|flow| of(&flow.rates)).sum::<f64>();
    let share = share_of_pool(script, at);
    let busy = sum(|r| r.cpu) + (neighbours(script, at) + SYSTEM_CORES) * share;
    let swapped = swapping(script, at);
    let iowait = (3.0 * sum(|r| r.io_some)).min(f64::from(CPUS) - busy).max(0.0);
    let storms = script.node_turns(at).filter(|turn| matches!(turn, NodeTurn::Storm { .. })).count() as f64;
    let busy_parts = busy - storms.min(busy);
    NodeTotals {
        user: 0.86 * busy_parts,
        system: 0.12 * busy_parts,
        irq: 0.005 * busy_parts + 0.3 * storms,
        softirq: 0.015 * busy_parts + 0.7 * storms,
        iowait,
        idle: f64::from(CPUS) - busy - iowait,
        cpu_some: any(jobs, |r| r.cpu_some, if share < 1.0 { 0.95 } else { 0.01 }),
        memory_some: any(jobs, |r| r.memory_some, if swapped > 0.0 { 0.25 } else { 0.0 }),
        memory_full: if swapped > 0.0 { 0.05 } else { 0.0 },
        io_some: any(jobs, |r| r.io_some, if swapped > 0.0 { 0.3 } else { 0.005 }),
        io_full: 0.02 * sum(|r| r.io_full),
        swapped_in: swapped,
        swapped_out: 1.1 * swapped,
        faults: 2_000.0 + sum(|r| r.faults),
        major_faults: sum(|r| r.major_faults) + swapped / 8.0,
        refaults: sum(|r| r.refaults),
        reclaim_stalls: sum(|r| r.limit_hits) + swapped / 100.0,
        huge_pages: 0.002 * sum(|r| r.faults),
        hint_faults: 400.0 + 0.05 * sum(|r| r.faults),
        migrated: 20.0,
    }
}

/// Jobs read from the first two disks and write to the third; the last one holds the swap.
fn disks(script: &Script, jobs: &[Option<Flow>], at: Second) -> [DiskTotals; DISKS] {
    let sum = |of: fn(&JobTotals) -> f64| jobs.iter().flatten().map(|flow| of(&flow.rates)).sum::<f64>();
    let slow =
        script.jobs.iter().any(|j| j.span.contains(&at) && j.turns(at).any(|t| matches!(t, Turn::Storage { .. })));
    let swapped = swapping(script, at) * PAGE;
    let read = sum(|r| r.read_bytes) / 2.0;
    [
        disk(read, 0.0, slow),
        disk(read, 0.0, slow),
        disk(0.0, sum(|r| r.written_bytes) + 200e3, false),
        disk(swapped, 1.1 * swapped, false),
    ]
}

/// A slow disk is never done, and its requests take a hundred times as long.
fn disk(read_bytes: f64, written_bytes: f64, slow: bool) -> DiskTotals {
    let seconds = if slow { 0.02 } else { 0.000_2 };
    let (reads, writes) = (read_bytes / REQUEST, written_bytes / REQUEST);
    let used = ((read_bytes + written_bytes) / DISK_BYTES_PER_SECOND).min(1.0);
    DiskTotals {
        reads,
        read_bytes,
        read_seconds: reads * seconds,
        writes,
        written_bytes,
        write_seconds: writes * seconds,
        busy: if slow { 0.98 } else { used },
    }
}

/// GPUs interrupt while they work, NICs as their GPU's job talks, disks by request.
fn interrupts(script: &Script, jobs: &[Option<Flow>], disks: &[DiskTotals; DISKS], at: Second) -> Vec<(f64, bool)> {
    let mut busy = [0.0; layout::GPUS.len()];
    for (job, flow) in script.jobs.iter().zip(jobs) {
        for (gpu, load) in job.gpus.iter().zip(flow.iter().flat_map(|flow| &flow.loads)) {
            busy[*gpu] = match load {
                Load::Rest => 0.0,
                Load::Steady(level) | Load::Burst(level) => *level,
            };
        }
    }
    let rate = |row: &layout::Row| match row.source {
        layout::Source::Gpu(gpu) => 5.0 + 300.0 * busy[gpu],
        layout::Source::Nic(gpu) => 20.0 + 2_500.0 * busy[gpu],
        layout::Source::Disk(disk) => (disks[disk].reads + disks[disk].writes) / layout::ROWS_PER_DISK,
    };
    let storm = |row: &layout::Row| {
        script.node_turns(at).find_map(|turn| match turn {
            NodeTurn::Storm { device, per_second } if row.device == *device => Some(*per_second),
            _ => None,
        })
    };
    let rows = layout::rows().iter();
    rows.map(|row| storm(row).map_or((rate(row), false), |per_second| (per_second / layout::ROWS_PER_NIC, true)))
        .collect()
}
