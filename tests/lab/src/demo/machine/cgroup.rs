//! The files of a job: its cgroup as cgroup v2 shows it, and its processes.

use crate::demo::script::{Job, Second, Turn};

use super::layout::{self, Memory};
use super::model::JobTotals;
use super::proc::pressure;

/// Path and text of every file of the cgroup and the processes below it, from the roots' parent.
pub(super) fn files(job: &Job, at: Second, totals: &JobTotals, rates: &JobTotals) -> Vec<(String, String)> {
    let memory = layout::memory(job, at);
    let group = [
        ("cpu.stat", cpu_stat(totals)),
        ("cpu.max", cpu_max(job, at)),
        ("cpu.pressure", pressure([totals.cpu_some, totals.cpu_full], [rates.cpu_some, rates.cpu_full])),
        ("cpuset.cpus.effective", line(layout::cpuset(job))),
        ("memory.current", line(memory.current() as u64)),
        ("memory.max", line(memory.limit as u64)),
        ("memory.swap.current", line(0)),
        ("memory.stat", memory_stat(&memory, totals)),
        (
            "memory.events",
            format!("low 0\nhigh 0\nmax {}\noom 0\noom_kill 0\noom_group_kill 0\n", whole(totals.limit_hits)),
        ),
        ("memory.numa_stat", numa_stat(&memory)),
        ("memory.pressure", pressure([totals.memory_some, totals.memory_full], [rates.memory_some, rates.memory_full])),
        ("io.stat", io_stat(totals)),
        ("io.pressure", pressure([totals.io_some, totals.io_full], [rates.io_some, rates.io_full])),
        ("pids.current", line(1 + 12 * job.gpus.len())),
    ];
    let group = group.into_iter().map(|(name, text)| (format!("{}/{name}", folder(job)), text));
    let processes = job.ranks().flat_map(|(gpu, pid)| process(job, gpu, pid, at));
    group.chain(processes).collect()
}

/// The job's cgroup, from the roots' parent.
pub(super) fn folder(job: &Job) -> String {
    format!("cgroup{}", job.cgroup)
}

fn line(value: impl ToString) -> String {
    value.to_string() + "\n"
}

/// What is counted so far: units that are not whole yet are not seen.
pub(super) fn whole(total: f64) -> u64 {
    total as u64
}

fn micros(seconds: f64) -> u64 {
    whole(seconds * 1e6)
}

fn cpu_stat(t: &JobTotals) -> String {
    let (used, system) = (micros(t.cpu), micros(0.11 * t.cpu));
    format!(
        "usage_usec {used}\nuser_usec {}\nsystem_usec {system}\nnr_periods {}\nnr_throttled {}\nthrottled_usec {}\nnr_bursts 0\nburst_usec 0\n",
        used - system,
        whole(t.periods),
        whole(t.throttled_periods),
        micros(t.throttled),
    )
}

fn cpu_max(job: &Job, at: Second) -> String {
    let quota = job.turns(at).find_map(|turn| if let Turn::Quota { cores } = turn { Some(*cores) } else { None });
    quota.map_or("max 100000\n".to_owned(), |cores| format!("{} 100000\n", (cores * 1e5) as u64))
}

fn memory_stat(memory: &Memory, t: &JobTotals) -> String {
    let figures = [
        ("anon", 0.97 * memory.anon),
        ("file", memory.active_file + memory.inactive_file + 0.03 * memory.anon),
        ("shmem", 0.03 * memory.anon),
        ("anon_thp", 0.4 * memory.anon),
        ("inactive_file", memory.inactive_file),
        ("active_file", memory.active_file),
        ("workingset_refault_anon", 0.0),
        ("workingset_refault_file", t.refaults),
        ("pgfault", t.faults),
        ("pgmajfault", t.major_faults),
    ];
    figures.iter().map(|(key, value)| format!("{key} {}\n", whole(*value))).collect()
}

fn numa_stat(memory: &Memory) -> String {
    let row = |key: &str, bytes: f64| {
        let [near, far] = memory.on_node.map(|share| whole(share * bytes));
        format!("{key} N0={near} N1={far}\n")
    };
    let file = memory.active_file + memory.inactive_file + 0.03 * memory.anon;
    row("anon", 0.97 * memory.anon) + &row("file", file) + &row("shmem", 0.03 * memory.anon)
}

fn io_stat(t: &JobTotals) -> String {
    let (read, written) = (whole(t.read_bytes), whole(t.written_bytes));
    format!("259:0 rbytes={read} wbytes={written} rios={} wios={} dbytes=0 dios=0\n", read >> 17, written >> 17)
}

const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units     
Max open files            1048576              1048576              files     
Max locked memory         unlimited            unlimited            bytes     
";

fn process(job: &Job, gpu: usize, pid: u32, at: Second) -> [(String, String); 3] {
    let status = format!(
        "Name:\tpython3\nState:\tS (sleeping)\nTgid:\t{pid}\nPid:\t{pid}\nVmSwap:\t       0 kB\nThreads:\t12\nCpus_allowed_list:\t{}\nMems_allowed_list:\t0-1\n",
        layout::affinity(job, gpu, at)
    );
    [
        (format!("proc/{pid}/cgroup"), format!("0::{}{}\n", job.cgroup, job.leaf)),
        (format!("proc/{pid}/status"), status),
        (format!("proc/{pid}/limits"), LIMITS.to_owned()),
    ]
}
