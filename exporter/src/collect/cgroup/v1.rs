//! The files of a v1 group, controller by controller.

use std::path::Path;
use std::time::Duration;

use super::Group;
use crate::parse::cgroup::{self, NodeMemory};
use crate::parse::{Parsed, keyed, number};
use crate::source::files::get;

pub(super) fn read(controller: &str, folder: &Path, group: &mut Group) {
    match controller {
        "cpu" => cpu(folder, group),
        "cpuacct" => {
            group.cpu_usage = get(&folder.join("cpuacct.usage"), number).map(Duration::from_nanos);
        }
        "memory" => memory(folder, group),
        "blkio" => blkio(folder, group),
        "pids" => {
            group.tasks = get(&folder.join("pids.current"), number);
        }
        _ => {}
    }
}

fn cpu(folder: &Path, group: &mut Group) {
    get(&folder.join("cpu.stat"), |text| {
        keyed::each(text, |key, value| match key {
            "nr_periods" => group.periods = Some(value),
            "nr_throttled" => group.throttled_periods = Some(value),
            "throttled_time" => group.throttled = Some(Duration::from_nanos(value)),
            _ => {}
        })
    });
    let quota = get(&folder.join("cpu.cfs_quota_us"), number::<i64>);
    let period = get(&folder.join("cpu.cfs_period_us"), number::<u64>);
    // A quota of -1 is none.
    group.cpu_limit = quota.zip(period).filter(|(q, p)| *q > 0 && *p > 0).map(|(q, p)| q as f64 / p as f64);
}

fn memory(folder: &Path, group: &mut Group) {
    group.memory_current = get(&folder.join("memory.usage_in_bytes"), number);
    group.read_memory_max(&folder.join("memory.limit_in_bytes"));
    group.max_events = get(&folder.join("memory.failcnt"), number);
    get(&folder.join("memory.stat"), |text| memory_stat(text, group));
    get(&folder.join("memory.oom_control"), |text| {
        keyed::each(text, |key, value| {
            if key == "oom_kill" {
                group.oom_kills = Some(value);
            }
        })
    });
    let pages = get(&folder.join("memory.numa_stat"), cgroup::numa_stat_v1).unwrap_or_default();
    let bytes = |pages: Option<u64>| Some(pages?.saturating_mul(procfs::page_size()));
    group.numa_bytes = pages
        .into_iter()
        .map(|(node, m)| (node, NodeMemory { anon_shmem: bytes(m.anon_shmem), file: bytes(m.file) }))
        .collect();
}

/// The `total_` lines include the groups below, as every line of v2 does.
fn memory_stat(text: &str, group: &mut Group) -> Parsed<()> {
    keyed::each(text, |key, value| {
        let field = match key {
            "total_rss" => &mut group.anon,
            "total_rss_huge" => &mut group.anon_thp,
            "total_swap" => &mut group.swap,
            "total_cache" => &mut group.file,
            "total_shmem" => &mut group.shmem,
            "total_inactive_file" => &mut group.inactive_file,
            "total_pgmajfault" => &mut group.major_faults,
            "total_workingset_refault_anon" => &mut group.refaults_anon,
            "total_workingset_refault_file" | "total_workingset_refault" => &mut group.refaults_file,
            _ => return,
        };
        *field = Some(value);
    })
}

fn blkio(folder: &Path, group: &mut Group) {
    [group.read_bytes, group.written_bytes] = recursive(folder, "blkio.throttle.io_service_bytes");
    [group.reads, group.writes] = recursive(folder, "blkio.throttle.io_serviced");
}

/// Kernels from 4.16 on can sum a file over the groups below.
fn recursive(folder: &Path, file: &str) -> [Option<u64>; 2] {
    let sums = get(&folder.join(format!("{file}_recursive")), cgroup::blkio);
    sums.or_else(|| get(&folder.join(file), cgroup::blkio)).flatten().unwrap_or_default()
}
