//! CPUs that are given to jobs and cannot do the jobs' work well: tickless ones, shared cores, too few for the loaders.

use std::collections::{BTreeMap, BTreeSet};

use super::cpu::cpu_list;
use super::*;
use crate::context::Context;
use crate::parse::{ParseError, cpus, number, status};
use crate::source::nodes::Ranges;
use crate::source::{files, process};

const SYSFS_CPU: &str = "https://docs.kernel.org/admin-guide/abi-testing.html";
const CPU_POLICIES: &str = "https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/";

pub(super) static TICKLESS: Check = Check {
    id: "tickless_cpus",
    title: "CPUs without a scheduler tick",
    reads: "/sys/devices/system/cpu/nohz_full, /proc/PID/status Cpus_allowed_list of every GPU process",
    families: &[&catalog::cpu::CPU_TICKLESS],
    expected: Expected::always("no GPU process on the CPUs of nohz_full="),
    why: "A CPU of nohz_full= stops its timer tick only while one task runs on it. In return every system call and every \
          wake-up on it costs more. Training processes and their loaders make many of both.",
    fixes: &[Fix {
        command: "remove nohz_full= and rcu_nocbs= from the kernel parameters, or give the job other CPUs",
        restarts: "the node, or the job",
        risk: "programs that poll without system calls, such as DPDK, are interrupted by the tick again",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("NO_HZ: Reducing Scheduling-Clock Ticks", "https://docs.kernel.org/timers/no_hz.html"),
        own("a warning: the cost depends on how many system calls the job makes"),
    ],
    run: |context, _| {
        let tickless = cpu_list(context, "nohz_full")?;
        let tickless = tickless.ok_or_else(|| Unread::Absent("the kernel has no nohz_full".to_owned()))?;
        if tickless.is_empty() {
            return Ok(judge_tickless(&tickless, &[]));
        }
        Ok(judge_tickless(&tickless, &allowed(context)?))
    },
};

/// The CPUs of every GPU process.
fn allowed(context: &Context) -> Result<Vec<(u32, Ranges)>, Unread> {
    let processes = jobs::read(context, "status", status::cpus_allowed)?;
    Ok(processes.into_iter().map(|process| (process.pid, process.value)).collect())
}

fn judge_tickless(tickless: &Ranges, allowed: &[(u32, Ranges)]) -> Verdict {
    if tickless.is_empty() {
        return Verdict::new(Status::Pass, "none");
    }
    let on = allowed.iter().filter(|(_, cpus)| cpus::count_common(cpus, tickless) > 0);
    let on: Vec<String> = on.map(|(pid, cpus)| format!("pid {pid} may run on CPUs {}", ranges(cpus))).collect();
    match on.is_empty() {
        true => Verdict::new(Status::Pass, format!("{}, no GPU process on them", ranges(tickless))),
        false => Verdict::new(Status::Warn, format!("tickless {}: {}", ranges(tickless), list(&on))),
    }
}

pub(super) static SMT: Check = Check {
    id: "smt_cores",
    title: "Cores whose hardware threads belong to two jobs",
    reads: "/sys/devices/system/cpu/smt/{active,control}, /sys/devices/system/cpu/cpu*/topology/thread_siblings_list, \
            /proc/PID/status Cpus_allowed_list of every GPU process",
    families: &[&catalog::cpu::CPU_SMT],
    expected: Expected::always("each core belongs to one job, or SMT is off"),
    why: "With SMT two CPUs are one core with one set of execution units and one cache. Two jobs that are pinned to one CPU \
          of a core each slow each other down, although no CPU is in both cpusets.",
    fixes: &[
        Fix {
            command: "kubelet: cpuManagerPolicyOptions: {full-pcpus-only: \"true\"} with cpuManagerPolicy: static",
            restarts: "the kubelet, after a drain and without its cpu_manager_state file",
            who: Who::ClusterAdmin,
            risk: "pods whose CPUs do not fill whole cores are rejected",
            ..Fix::USUAL
        },
        Fix {
            command: "Slurm: SelectTypeParameters=CR_Core_Memory in slurm.conf, which gives out whole cores",
            restarts: "slurmctld and slurmd",
            who: Who::ClusterAdmin,
            risk: "a job that asks for one CPU gets two",
            ..Fix::USUAL
        },
    ],
    sources: &[
        kernel("ABI: /sys/devices/system/cpu/smt", SYSFS_CPU),
        kernel("How CPU topology info is exported via sysfs", "https://docs.kernel.org/admin-guide/cputopology.html"),
        vendor("Kubernetes, CPU management policies: full-pcpus-only", CPU_POLICIES),
        own("a warning; whether SMT itself helps depends on the work, so on and off are both fine"),
    ],
    run: |context, _| {
        let folder = context.roots.sys.join("devices/system/cpu/smt");
        let active = files::parse_optional(&folder.join("active"), number::<u32>)?;
        let control =
            files::parse_optional(&folder.join("control"), |text| Ok::<_, ParseError>(text.trim().to_owned()))?;
        match active {
            None => Err(Unread::Absent("the kernel does not say whether SMT is on".to_owned())),
            Some(0) => Ok(Verdict::new(Status::Pass, format!("SMT is off ({})", control.unwrap_or_default()))),
            Some(_) => {
                let jobs = by_owner(context, &allowed(context)?);
                Ok(judge_smt(&jobs, &siblings(context, &jobs)?))
            }
        }
    },
};

/// The CPUs of each job's own processes; processes that belong to no job are left out.
fn by_owner(context: &Context, allowed: &[(u32, Ranges)]) -> BTreeMap<String, Ranges> {
    let mut jobs: BTreeMap<String, Ranges> = BTreeMap::new();
    for owner in context.owners.all().iter().filter(|owner| !owner.places.is_empty()) {
        let of_owner = allowed.iter().filter(|(pid, _)| owner.pids.contains(pid)).flat_map(|(_, cpus)| cpus.clone());
        let of_owner = cpus::union(of_owner.collect());
        if !of_owner.is_empty() {
            jobs.insert(owner.id.clone(), of_owner);
        }
    }
    jobs
}

/// The CPUs of the core of every CPU of the jobs. Of one job there is nothing to compare.
fn siblings(context: &Context, jobs: &BTreeMap<String, Ranges>) -> Result<BTreeMap<u32, Ranges>, Unread> {
    let mut siblings = BTreeMap::new();
    if jobs.len() < 2 {
        return Ok(siblings);
    }
    let folder = context.roots.sys.join("devices/system/cpu");
    for cpu in jobs.values().flatten().flat_map(|(first, last)| *first..=*last) {
        let path = folder.join(format!("cpu{cpu}/topology/thread_siblings_list"));
        if let Some(core) = files::parse_optional(&path, cpus::ranges)? {
            siblings.insert(cpu, core);
        }
    }
    Unread::unless(!siblings.is_empty(), "the kernel does not say which CPUs are one core")?;
    Ok(siblings)
}

fn judge_smt(jobs: &BTreeMap<String, Ranges>, siblings: &BTreeMap<u32, Ranges>) -> Verdict {
    let pairs = jobs.iter().flat_map(|a| jobs.range::<String, _>(a.0..).skip(1).map(move |b| (a, b)));
    // Jobs that have CPUs in common are not pinned apart in the first place.
    let apart = pairs.filter(|(a, b)| cpus::count_common(a.1, b.1) == 0);
    let mut shared = Vec::new();
    for ((a, own), (b, others)) in apart {
        let reaches = |cpu: &u32, mine: &Ranges, theirs: &Ranges| {
            let core = siblings.get(cpu).map_or(&[][..], Vec::as_slice);
            cpus::count_common(&[(*cpu, *cpu)], mine) > 0 && cpus::count_common(core, theirs) > 0
        };
        let both: BTreeSet<u32> =
            siblings.keys().filter(|cpu| reaches(cpu, own, others) || reaches(cpu, others, own)).copied().collect();
        if !both.is_empty() {
            let both = cpus::union(both.into_iter().map(|cpu| (cpu, cpu)).collect());
            shared.push(format!("{a} and {b} share the cores of CPUs {}", ranges(&both)));
        }
    }
    match shared.is_empty() {
        true if jobs.len() < 2 => Verdict::new(Status::Pass, "SMT is on, for fewer than two jobs"),
        true => Verdict::new(Status::Pass, format!("SMT is on, no core is split between {} jobs", jobs.len())),
        false => Verdict::new(Status::Warn, list(&shared)),
    }
}

pub(super) static LOADERS: Check = Check {
    id: "loader_cpus",
    title: "CPUs of the processes that GPU processes started",
    reads: "/proc/PID/task/*/children of every GPU process, /proc/PID/status Cpus_allowed_list of these children",
    families: &[],
    expected: Expected::always("as many CPUs as workers"),
    why: "A data loader inherits the CPUs of the process that starts it. Where a launcher or an OpenMP library has bound that \
          process to one core, all of its loaders run there too, and the GPU waits for them however many there are.",
    fixes: &[
        Fix {
            command: "start the ranks without binding them to cores: mpirun --bind-to none or --map-by numa, srun --cpu-bind=none, \
                      and without KMP_AFFINITY and OMP_PROC_BIND in the environment",
            restarts: "the job",
            who: Who::User,
            risk: "bind to the NUMA node of the GPU instead (see job_cpus), or ranks move between sockets",
            ..Fix::USUAL
        },
        Fix {
            command: "fewer workers: DataLoader(num_workers=N), N at most the CPUs of the process",
            restarts: "the job",
            who: Who::User,
            risk: "loading is slower where workers mostly wait for storage",
            ..Fix::USUAL
        },
    ],
    sources: &[
        kernel(
            "cpusets: a child process has the CPUs of its parent",
            "https://docs.kernel.org/admin-guide/cgroup-v1/cpusets.html",
        ),
        vendor(
            "PyTorch, DataLoader: warns of more workers than CPUs that the process may use",
            "https://docs.pytorch.org/docs/stable/data.html",
        ),
        own(
            "one CPU for several workers is a failure, fewer CPUs than workers a warning: some of them may be idle helpers",
        ),
    ],
    run: |context, _| {
        let holders: Vec<u32> = allowed(context)?.into_iter().map(|(pid, _)| pid).collect();
        let mut all = Vec::new();
        for pid in &holders {
            let Some(children) = process::children(&context.roots, *pid) else { continue };
            let workers: Vec<u32> = children.into_iter().filter(|child| !holders.contains(child)).collect();
            all.push(workers_of(context, *pid, &workers)?);
        }
        Unread::unless(!all.is_empty(), "the kernel does not say which processes GPU processes started")?;
        Ok(judge_loaders(&all))
    },
};

/// Most workers of one process that are looked at: as many as the `process` collector follows in all.
const MOST_WORKERS: usize = 256;

/// A GPU process, how many workers it has, and the CPUs that these may run on.
struct Workers {
    pid: u32,
    workers: usize,
    cpus: Ranges,
}

fn workers_of(context: &Context, pid: u32, children: &[u32]) -> Result<Workers, Unread> {
    let (mut workers, mut all) = (0, Vec::new());
    for child in children.iter().take(MOST_WORKERS) {
        let path = context.roots.proc.join(child.to_string()).join("status");
        if let Some(cpus) = files::parse_optional(&path, status::cpus_allowed)?.flatten() {
            workers += 1;
            all.extend(cpus);
        }
    }
    Ok(Workers { pid, workers, cpus: cpus::union(all) })
}

impl Workers {
    fn status(&self) -> Status {
        match (self.workers, cpus::count(&self.cpus)) {
            (..2, _) => Status::Pass,
            (_, 1) => Status::Fail,
            (workers, cpus) if workers as u64 > cpus => Status::Warn,
            _ => Status::Pass,
        }
    }
}

fn judge_loaders(all: &[Workers]) -> Verdict {
    let worst = all.iter().map(Workers::status).min().unwrap_or(Status::Pass);
    let those = all.iter().filter(|of| of.status() == worst);
    match worst {
        Status::Pass => {
            let workers = all.iter().map(|of| of.workers).sum();
            Verdict::new(worst, format!("CPUs for all of {}", count(workers, "worker")))
        }
        _ => {
            let spell = |of: &Workers| format!("{} workers of pid {} on CPUs {}", of.workers, of.pid, ranges(&of.cpus));
            Verdict::new(worst, list(&those.map(spell).collect::<Vec<_>>()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Fail, Pass, Warn};

    #[test]
    fn ticks() {
        let tickless = vec![(4, 7)];
        for (allowed, status) in [(vec![(0, 3)], Pass), (vec![(0, 7)], Warn), (vec![(4, 4)], Warn)] {
            assert_eq!(judge_tickless(&tickless, &[(7, allowed.clone())]).status, status, "{allowed:?}");
        }
        assert_eq!(judge_tickless(&tickless, &[(7, vec![(0, 4)])]).read, "tickless 4-7: pid 7 may run on CPUs 0-4");
        assert_eq!(judge_tickless(&Vec::new(), &[]).read, "none");
    }

    /// Eight CPUs; N and N + 4 are one core.
    fn eight() -> BTreeMap<u32, Ranges> {
        (0..8).map(|cpu| (cpu, vec![(cpu % 4, cpu % 4), (cpu % 4 + 4, cpu % 4 + 4)])).collect()
    }

    #[test]
    fn cores() {
        let jobs = |sets: &[&[(u32, u32)]]| {
            let named = sets.iter().enumerate().map(|(at, set)| (format!("job-{at}"), set.to_vec()));
            judge_smt(&named.collect(), &eight())
        };
        let shared = jobs(&[&[(0, 3)], &[(4, 7)]]);
        assert_eq!((shared.status, shared.read.as_str()), (Warn, "job-0 and job-1 share the cores of CPUs 0-7"));
        let one = jobs(&[&[(0, 1), (4, 4)], &[(2, 3), (5, 7)]]);
        assert_eq!((one.status, one.read.as_str()), (Warn, "job-0 and job-1 share the cores of CPUs 1,5"));
        assert_eq!(jobs(&[&[(0, 1), (4, 5)], &[(2, 3), (6, 7)]]).status, Pass);
        assert_eq!(jobs(&[&[(0, 7)], &[(0, 7)]]).status, Pass, "jobs that are not pinned");
        assert_eq!(jobs(&[&[(0, 3)]]).status, Pass, "one job");
        assert_eq!(jobs(&[&[(0, 0)], &[(1, 1)], &[(4, 4)]]).read, "job-0 and job-2 share the cores of CPUs 0,4");
    }

    #[test]
    fn loaders() {
        let of = |workers, cpus: &[(u32, u32)]| Workers { pid: 7, workers, cpus: cpus.to_vec() };
        for (workers, cpus, status) in
            [(0, &[][..], Pass), (1, &[(3, 3)], Pass), (2, &[(3, 3)], Fail), (8, &[(0, 7)], Pass), (8, &[(0, 6)], Warn)]
        {
            assert_eq!(judge_loaders(&[of(workers, cpus)]).status, status, "{workers} on {cpus:?}");
        }
        let worst = judge_loaders(&[of(8, &[(0, 6)]), of(16, &[(3, 3)])]);
        assert_eq!((worst.status, worst.read.as_str()), (Fail, "16 workers of pid 7 on CPUs 3"));
    }
}
