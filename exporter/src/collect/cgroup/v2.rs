//! The files of a v2 group. On a hybrid host only some of them are there.

use std::path::Path;
use std::time::Duration;

use super::Group;
use crate::collect::pressure::RESOURCES;
use crate::parse::{cgroup, keyed, number, pressure};
use crate::source::files::get;

pub(super) fn read(folder: &Path, is_stacked: impl FnMut(&str) -> bool, group: &mut Group) {
    cpu(folder, group);
    memory(folder, group);
    if let Some(io) = get(&folder.join("io.stat"), |text| cgroup::io_stat(text, is_stacked)) {
        group.read_bytes = io.read_bytes;
        group.written_bytes = io.written_bytes;
        group.reads = io.reads;
        group.writes = io.writes;
    }
    group.tasks = get(&folder.join("pids.current"), number);
    for resource in RESOURCES {
        if let Some(total) = get(&folder.join(format!("{resource}.pressure")), pressure::parse) {
            group.pressure.push((resource, total));
        }
    }
}

fn cpu(folder: &Path, group: &mut Group) {
    get(&folder.join("cpu.stat"), |text| {
        keyed::each(text, |key, value| match key {
            "usage_usec" => group.cpu_usage = Some(Duration::from_micros(value)),
            "nr_periods" => group.periods = Some(value),
            "nr_throttled" => group.throttled_periods = Some(value),
            "throttled_usec" => group.throttled = Some(Duration::from_micros(value)),
            _ => {}
        })
    });
    group.cpu_limit = get(&folder.join("cpu.max"), cgroup::cpu_max).flatten();
}

fn memory(folder: &Path, group: &mut Group) {
    group.memory_current = get(&folder.join("memory.current"), number);
    group.read_memory_max(&folder.join("memory.max"));
    group.swap = get(&folder.join("memory.swap.current"), number);
    get(&folder.join("memory.stat"), |text| {
        keyed::each(text, |key, value| {
            let field = match key {
                "anon" => &mut group.anon,
                "anon_thp" => &mut group.anon_thp,
                "file" => &mut group.file,
                "shmem" => &mut group.shmem,
                "inactive_file" => &mut group.inactive_file,
                "pgmajfault" => &mut group.major_faults,
                "workingset_refault_anon" => &mut group.refaults_anon,
                // Before 5.9 only file pages were tracked, under the name without a kind.
                "workingset_refault_file" | "workingset_refault" => &mut group.refaults_file,
                _ => return,
            };
            *field = Some(value);
        })
    });
    get(&folder.join("memory.events"), |text| {
        keyed::each(text, |key, value| {
            let field = match key {
                "high" => &mut group.high_events,
                "max" => &mut group.max_events,
                "oom" => &mut group.oom_events,
                "oom_kill" => &mut group.oom_kills,
                _ => return,
            };
            *field = Some(value);
        })
    });
    group.numa_bytes = get(&folder.join("memory.numa_stat"), cgroup::numa_stat).unwrap_or_default();
}
