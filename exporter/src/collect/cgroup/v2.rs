//! The files of a v2 group. On a hybrid host only some of them are there.

use std::path::Path;
use std::time::Duration;

use super::Group;
use crate::collect::pressure::RESOURCES;
use crate::parse::{cgroup, keyed, number, pressure};
use crate::source::files::{FileError, parse_optional};

pub(super) fn read(folder: &Path, group: &mut Group) -> Result<(), FileError> {
    cpu(folder, group)?;
    memory(folder, group)?;
    if let Some(io) = parse_optional(&folder.join("io.stat"), cgroup::io_stat)? {
        group.read_bytes = Some(io.read_bytes);
        group.written_bytes = Some(io.written_bytes);
        group.reads = Some(io.reads);
        group.writes = Some(io.writes);
    }
    group.tasks = parse_optional(&folder.join("pids.current"), number)?;
    for resource in RESOURCES {
        if let Some(total) = parse_optional(&folder.join(format!("{resource}.pressure")), pressure::parse)? {
            group.pressure.push((resource, total));
        }
    }
    Ok(())
}

fn cpu(folder: &Path, group: &mut Group) -> Result<(), FileError> {
    parse_optional(&folder.join("cpu.stat"), |text| {
        keyed::each(text, |key, value| match key {
            "usage_usec" => group.cpu_usage = Some(Duration::from_micros(value)),
            "nr_periods" => group.periods = Some(value),
            "nr_throttled" => group.throttled_periods = Some(value),
            "throttled_usec" => group.throttled = Some(Duration::from_micros(value)),
            _ => {}
        })
    })?;
    group.cpu_limit = parse_optional(&folder.join("cpu.max"), cgroup::cpu_max)?.flatten();
    Ok(())
}

fn memory(folder: &Path, group: &mut Group) -> Result<(), FileError> {
    group.memory_current = parse_optional(&folder.join("memory.current"), number)?;
    group.memory_max = parse_optional(&folder.join("memory.max"), cgroup::limit)?.flatten();
    group.swap = parse_optional(&folder.join("memory.swap.current"), number)?;
    parse_optional(&folder.join("memory.stat"), |text| {
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
    })?;
    parse_optional(&folder.join("memory.events"), |text| {
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
    })?;
    group.numa_bytes = parse_optional(&folder.join("memory.numa_stat"), cgroup::numa_stat)?.unwrap_or_default();
    Ok(())
}
