//! `numa`: memory, allocations, CPUs and distances of each NUMA node, and the node of each GPU.

use std::path::Path;

use super::*;
use crate::parse::{ParseError, bus_id, cpus, keyed, meminfo, number};
use crate::source::nodes::{self, Nodes};
use crate::source::nvml::Gpu;
use crate::source::{files, process};
use goodput_catalog::host::*;

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Numa>(
    "numa",
    "Memory, allocations, distances and balancing of NUMA nodes, the node of each GPU and where its processes may run; 5 files per NUMA node, 2 per GPU, 1 per GPU process.",
    1,
);

/// Reads `/sys/devices/system/node`, the GPUs' PCI folders, their processes' affinity, and NUMA balancing.
#[derive(Default)]
pub struct Numa;

impl Collector for Numa {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let roots = &context.roots;
        let count = nodes(&nodes::folder(roots), out);
        balancing(context, out);
        let nodes = context.common.nodes(roots);
        for gpu in &context.gpus.gpus {
            gpu_place(&roots.sys.join("bus/pci/devices"), gpu, out);
            allowed_cpus(context, nodes, gpu, out);
        }
        if count > 0 || !context.gpus.gpus.is_empty() {
            return Ok(Done::Ok);
        }
        Ok(Done::NotApplicable("no node folder in /sys/devices/system/node: kernel without CONFIG_NUMA".to_owned()))
    }
}

fn nodes(folder: &Path, out: &mut Families) -> usize {
    let ids = nodes::ids(folder);
    let online = files::get(&folder.join("online"), cpus::ranges).map(|ranges| numbers(&ranges));
    let columns = online.as_ref().unwrap_or(&ids);
    for id in &ids {
        node(&folder.join(format!("node{id}")), &id.to_string(), columns, out);
    }
    ids.len()
}

/// The numbers in a list of nodes; a kernel has at most 1024 (`MAX_NUMNODES`).
fn numbers(ranges: &[(u32, u32)]) -> Vec<u32> {
    ranges.iter().flat_map(|(first, last)| *first..=*last).take(1024).collect()
}

fn node(folder: &Path, id: &str, columns: &[u32], out: &mut Families) {
    if let Some(memory) = files::get(&folder.join("meminfo"), meminfo::parse) {
        out.push(&NUMA_MEMORY_TOTAL, &[id], memory.total.map(|n| n as f64));
        out.push(&NUMA_MEMORY_FREE, &[id], memory.free.map(|n| n as f64));
        out.push(&NUMA_MEMORY_USED, &[id], memory.used.map(|n| n as f64));
    }
    files::get(&folder.join("numastat"), |text| {
        keyed::each(text, |key, pages| {
            if let Some(metric) = numastat_row(key) {
                out.push(metric, &[id], pages as f64);
            }
        })
    });
    let cpus = nodes::read_cpus(folder, "cpulist", "cpumap");
    out.push(&NUMA_CPUS, &[id], cpus.map(|cpus| cpus::count(&cpus) as f64));
    distances(folder, id, columns, out)
}

fn numastat_row(key: &str) -> Option<&'static Metric> {
    Some(match key {
        "numa_hit" => &NUMA_HIT,
        "numa_miss" => &NUMA_MISS,
        "numa_foreign" => &NUMA_FOREIGN,
        "interleave_hit" => &NUMA_INTERLEAVE,
        "local_node" => &NUMA_LOCAL,
        "other_node" => &NUMA_OTHER,
        _ => return None,
    })
}

/// The kernel prints one distance per online node, in order, whether or not that node's folder can be seen. When the
/// numbers cannot be told apart, there are none.
fn distances(folder: &Path, id: &str, columns: &[u32], out: &mut Families) {
    let parse = |text: &str| text.split_ascii_whitespace().map(number::<u32>).collect::<Result<Vec<_>, ParseError>>();
    let distances = files::get(&folder.join("distance"), parse).unwrap_or_default();
    if distances.len() == columns.len() {
        for (to, distance) in columns.iter().zip(distances) {
            out.push(&NUMA_DISTANCE, &[id, &to.to_string()], f64::from(distance));
        }
    }
}

fn balancing(context: &Context, out: &mut Families) {
    let proc = &context.roots.proc;
    let mode = files::get(&proc.join("sys/kernel/numa_balancing"), number::<u32>);
    out.push(&NUMA_BALANCING, &[], mode.map(f64::from));
    context.common.get(&proc.join("vmstat"), |text| {
        keyed::each(text, |key, count| {
            if let Some(metric) = vmstat_row(key) {
                out.push(metric, &[], count as f64);
            }
        })
    });
}

fn vmstat_row(key: &str) -> Option<&'static Metric> {
    Some(match key {
        "numa_pte_updates" => &NUMA_PTE_UPDATES,
        "numa_hint_faults" => &NUMA_HINT_FAULTS,
        "numa_hint_faults_local" => &NUMA_HINT_FAULTS_LOCAL,
        "numa_pages_migrated" => &NUMA_MIGRATED,
        _ => return None,
    })
}

/// Where the GPU's processes may run tells placement before anything is slow: a job pinned off its GPU's node has no
/// allowed CPU on it.
fn allowed_cpus(context: &Context, nodes: &Nodes, gpu: &Gpu, out: &mut Families) {
    let Ok(processes) = &gpu.processes else { return };
    let Some(cpus) = process::allowed_cpus(&context.roots, &context.common, processes.iter().map(|p| p.pid)) else {
        return;
    };
    for (node, count) in nodes.count_of(&cpus) {
        out.push(&GPU_ALLOWED_CPUS, &[&gpu.index.to_string(), &gpu.uuid, &node.to_string()], count as f64);
    }
}

fn gpu_place(devices: &Path, gpu: &Gpu, out: &mut Families) {
    let Some(name) = bus_id::sysfs_name(&gpu.pci_bus_id) else { return };
    let folder = devices.join(name);
    let index = gpu.index.to_string();
    // -1: the firmware does not say, as on most virtual machines. That is unknown, not far away.
    let node = files::get(&folder.join("numa_node"), number::<i64>).filter(|node| *node >= 0);
    if let Some(node) = node {
        out.push(&GPU_NUMA, &[&index, &gpu.uuid, &node.to_string()], 1.0);
    }
    let cpus = nodes::read_cpus(&folder, "local_cpulist", "local_cpus");
    out.push(&GPU_LOCAL_CPUS, &[&index, &gpu.uuid], cpus.map(|cpus| cpus::count(&cpus) as f64));
}
