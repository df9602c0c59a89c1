//! The kernel's own files about a cgroup and the node, read by other code than the exporter's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use goodput_lab::cgroup::JobCgroup;

/// What the kernel says of a group, by the exporter's name of it.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// Where a figure is in v1 and in v2 (controller, file, key or nothing where the file is the number), and what makes the
/// exporter's unit of it.
struct Figure(&'static str, (&'static str, &'static str, &'static str), (&'static str, &'static str), [f64; 2]);

const COUNTERS: [Figure; 9] = [
    Figure(
        "goodput_cgroup_cpu_usage_seconds_total",
        ("cpuacct", "cpuacct.usage", ""),
        ("cpu.stat", "usage_usec"),
        [1e9, 1e6],
    ),
    Figure("goodput_cgroup_cpu_periods_total", ("cpu", "cpu.stat", "nr_periods"), ("cpu.stat", "nr_periods"), [1.0; 2]),
    Figure(
        "goodput_cgroup_cpu_throttled_periods_total",
        ("cpu", "cpu.stat", "nr_throttled"),
        ("cpu.stat", "nr_throttled"),
        [1.0; 2],
    ),
    Figure(
        "goodput_cgroup_cpu_throttled_seconds_total",
        ("cpu", "cpu.stat", "throttled_time"),
        ("cpu.stat", "throttled_usec"),
        [1e9, 1e6],
    ),
    Figure(
        "goodput_cgroup_memory_max_events_total",
        ("memory", "memory.failcnt", ""),
        ("memory.events", "max"),
        [1.0; 2],
    ),
    Figure(
        "goodput_cgroup_memory_oom_kills_total",
        ("memory", "memory.oom_control", "oom_kill"),
        ("memory.events", "oom_kill"),
        [1.0; 2],
    ),
    Figure(
        "goodput_cgroup_major_faults_total",
        ("memory", "memory.stat", "total_pgmajfault"),
        ("memory.stat", "pgmajfault"),
        [1.0; 2],
    ),
    Figure(
        "goodput_cgroup_refault_pages_total",
        ("memory", "memory.stat", "total_workingset_refault_file"),
        ("memory.stat", "workingset_refault_file"),
        [1.0; 2],
    ),
    Figure("goodput_cgroup_memory_max_bytes", ("memory", "memory.limit_in_bytes", ""), ("memory.max", ""), [1.0; 2]),
];

/// The group's counters; one whose file is not there is left out.
pub(crate) fn counters(group: &JobCgroup) -> Figures {
    let found = COUNTERS.iter().filter_map(|Figure(name, v1, v2, unit)| {
        let (file, key, unit) = match group.is_v2() {
            true => (group.file("", v2.0), v2.1, unit[1]),
            false => (group.file(v1.0, v1.1), v1.2, unit[0]),
        };
        Some((*name, number(&file, key)? / unit))
    });
    found.chain(io(group)).collect()
}

/// Bytes of all devices together; without a device, there is no figure.
fn io(group: &JobCgroup) -> Vec<(&'static str, f64)> {
    let names = ["goodput_cgroup_io_read_bytes_total", "goodput_cgroup_io_written_bytes_total"];
    let sum = |file: PathBuf, sum_of: fn(&str, &str) -> Option<f64>, keys: [&str; 2]| -> Vec<_> {
        let Ok(text) = std::fs::read_to_string(file) else { return Vec::new() };
        let total = |key: &str| text.lines().filter_map(|line| sum_of(line, key)).reduce(|a, b| a + b);
        names.into_iter().zip(keys).filter_map(|(name, key)| Some((name, total(key)?))).collect()
    };
    match group.is_v2() {
        true => sum(group.file("", "io.stat"), |line, key| word(line.split(key).nth(1)?, 0), ["rbytes=", "wbytes="]),
        false => sum(
            group.file("blkio", "blkio.throttle.io_service_bytes"),
            |line, key| line.contains(key).then(|| word(line, 2))?,
            [" Read ", " Write "],
        ),
    }
}

/// A number of a file of `key number` lines, or the number that the file is.
pub(crate) fn number(file: &Path, key: &str) -> Option<f64> {
    let text = std::fs::read_to_string(file).ok()?;
    if key.is_empty() {
        return text.trim().parse().ok();
    }
    let line = text.lines().find(|line| line.split([' ', ':']).next() == Some(key))?;
    word(line, 1)
}

fn word(line: &str, at: usize) -> Option<f64> {
    line.split_ascii_whitespace().nth(at)?.parse().ok()
}
