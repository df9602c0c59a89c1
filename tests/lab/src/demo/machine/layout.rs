//! What the node is: its sockets, devices and memory, and which parts of them a job has.

use std::ops::Range;
use std::sync::LazyLock;

use crate::demo::script::{Job, Second, Turn};

/// CPUs, even ones on node 0 and odd ones on node 1, as in the recorded tree.
pub(super) const CPUS: u32 = 112;
/// NUMA nodes.
pub(super) const NODES: usize = 2;
/// NVMe disks.
pub(super) const DISKS: usize = 4;
/// Rows of interrupts of one NIC and of one disk.
pub(super) const ROWS_PER_NIC: f64 = 4.0;
pub(super) const ROWS_PER_DISK: f64 = 8.0;

/// PCI addresses of the GPUs in the order of NVML, four on each node.
pub(super) const GPUS: [&str; 8] = [
    "0000:19:00.0",
    "0000:3b:00.0",
    "0000:4c:00.0",
    "0000:5d:00.0",
    "0000:9b:00.0",
    "0000:bb:00.0",
    "0000:cb:00.0",
    "0000:db:00.0",
];

/// Their UUIDs, of no real board.
pub(super) const UUIDS: [&str; 8] = [
    "GPU-9d975b84-96e1-dcd7-9eab-2aa719fcb565",
    "GPU-5f7458c6-99b7-1278-b427-cb099e9ec99e",
    "GPU-7ff7c3fb-1990-e930-f61c-2086be1ee870",
    "GPU-955a3cee-2d6d-2b18-1e36-3a17455cb742",
    "GPU-f53bb1e9-b917-5d96-dace-8157218e4426",
    "GPU-fb6e69d9-0df1-b660-ab96-9ee7a319d9a9",
    "GPU-8302b3a3-e7b4-53d1-09d6-2b60a08d9213",
    "GPU-c280796c-fb84-d9b5-f8ae-25a49705adca",
];

/// The NIC next to each GPU.
const NICS: [&str; 8] = [
    "0000:1a:00.0",
    "0000:3c:00.0",
    "0000:4d:00.0",
    "0000:5e:00.0",
    "0000:9c:00.0",
    "0000:bc:00.0",
    "0000:cc:00.0",
    "0000:dc:00.0",
];

const NVME: [&str; DISKS] = ["0000:18:00.0", "0000:3a:00.0", "0000:9a:00.0", "0000:ba:00.0"];

/// The NUMA node of a GPU.
pub(super) fn node_of_gpu(gpu: usize) -> usize {
    gpu / 4
}

/// What makes a row of interrupts rise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Source {
    Gpu(usize),
    Nic(usize),
    Disk(usize),
}

/// A row of `/proc/interrupts`.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) number: u32,
    pub(super) device: &'static str,
    pub(super) vector: &'static str,
    pub(super) action: &'static str,
    /// The CPU that takes it.
    pub(super) cpu: u32,
    pub(super) source: Source,
}

/// Every row, in order of its number.
pub(super) fn rows() -> &'static [Row] {
    static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
        let text = include_str!("../../../fixtures/demo-node/interrupts.txt");
        text.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
    });
    &ROWS
}

fn row(line: &'static str) -> Option<Row> {
    let mut words = line.split_ascii_whitespace();
    let number = words.next()?.parse().ok()?;
    let (device, vector, action) = (words.next()?, words.next()?, words.next()?);
    let place = |devices: &[&str]| devices.iter().position(|d| *d == device);
    let source = (place(&GPUS).map(Source::Gpu))
        .or_else(|| place(&NICS).map(Source::Nic))
        .or_else(|| place(&NVME).map(Source::Disk))?;
    Some(Row { number, device, vector, action, cpu: words.next()?.parse().ok()?, source })
}

/// The CPU at a position of a node.
fn cpu(node: usize, position: u32) -> u32 {
    2 * position + node as u32
}

/// CPUs as the kernel lists them; no two of ours follow each other.
fn list(cpus: impl Iterator<Item = u32>) -> String {
    cpus.map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(",")
}

/// The CPUs of the job's cpuset.
pub(super) fn cpuset(job: &Job) -> String {
    let Some(cores) = &job.cores else { return format!("0-{}", CPUS - 1) };
    list(cores.iter().enumerate().flat_map(|(node, cores)| cores.clone().map(move |at| cpu(node, at))))
}

/// The CPUs that the rank of a GPU may run on: those of its GPU's node, unless it is bound elsewhere.
pub(super) fn affinity(job: &Job, gpu: usize, at: Second) -> String {
    let node = node_of_rank(job, gpu, at);
    let all: Range<u32> = 0..CPUS / NODES as u32;
    let cores = job.cores.as_ref().map_or(all, |cores| cores[node].clone());
    list(cores.map(|at| cpu(node, at)))
}

fn node_of_rank(job: &Job, gpu: usize, at: Second) -> usize {
    let bound = job.turns(at).find_map(|turn| if let Turn::Bound { node } = turn { Some(*node) } else { None });
    bound.unwrap_or_else(|| node_of_gpu(gpu))
}

/// Memory of a job, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) anon: f64,
    /// File pages that are in use, and those that are not.
    pub(super) active_file: f64,
    pub(super) inactive_file: f64,
    pub(super) limit: f64,
    /// Of all of it, on each NUMA node, as shares.
    pub(super) on_node: [f64; NODES],
    /// Of each GPU.
    pub(super) device: f64,
}

impl Memory {
    /// What is charged to the cgroup.
    pub(super) fn current(&self) -> f64 {
        self.anon + self.active_file + self.inactive_file
    }
}

/// What a bare CUDA context takes of an H100.
const CONTEXT_BYTES: f64 = 520e6;

/// The memory of a job at that moment.
pub(super) fn memory(job: &Job, at: Second) -> Memory {
    let limit = limit(job, at);
    let started = (at - job.span.start) as f64 / job.start_seconds as f64;
    let (anon, hot) = (anon(job, at) * started.min(1.0), job.needs.file_bytes);
    let room = (limit - anon).max(0.0);
    let active_file = hot.min(0.98 * room);
    let inactive_file = (2.0 * hot).min(room - active_file);
    let nodes = job.gpus.iter().map(|gpu| node_of_rank(job, *gpu, at));
    let far = nodes.filter(|node| *node == 1).count() as f64 / job.gpus.len() as f64;
    let device = if started < 1.0 { CONTEXT_BYTES } else { job.needs.device_bytes + leaked(job, at, device_leak) };
    Memory { anon, active_file, inactive_file, limit, on_node: [1.0 - far, far], device }
}

fn limit(job: &Job, at: Second) -> f64 {
    let other = job.turns(at).find_map(|turn| if let Turn::Limit { bytes } = turn { Some(*bytes) } else { None });
    other.unwrap_or(job.needs.limit_bytes)
}

fn anon(job: &Job, at: Second) -> f64 {
    job.needs.anon_bytes + leaked(job, at, leak)
}

fn leak(turn: &Turn) -> Option<f64> {
    if let Turn::Leak { bytes_per_second } = turn { Some(*bytes_per_second) } else { None }
}

fn device_leak(turn: &Turn) -> Option<f64> {
    if let Turn::DeviceLeak { bytes_per_second } = turn { Some(*bytes_per_second) } else { None }
}

/// What has leaked so far.
fn leaked(job: &Job, at: Second, rate: fn(&Turn) -> Option<f64>) -> f64 {
    let seconds = |span: &Range<Second>| at.clamp(span.start, span.end) - span.start;
    job.turns.iter().filter_map(|(span, turn)| Some(rate(turn)? * seconds(span) as f64)).sum()
}

/// How fast a job goes with the memory it has: pages that do not fit are read again and again, each much slower than
/// memory, so that a few of them cost much.
pub(super) fn resident_share(job: &Job, at: Second) -> f64 {
    let needed = anon(job, at) + job.needs.file_bytes;
    let lacks = (1.0 - limit(job, at) / needed).max(0.0);
    (1.0 - 3.5 * lacks).max(0.1)
}
