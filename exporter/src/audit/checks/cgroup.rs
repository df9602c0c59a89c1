//! What the jobs on GPUs are limited to.

use std::collections::BTreeMap;

use super::*;
use crate::attribute::{Owner, Place};
use crate::collect::cgroup::{self, Group};
use crate::context::Context;
use crate::parse::cpus;
use crate::source::blocks::Stacked;

const POD_RESOURCES: &str = "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/";

/// kubernetes-mixin's alert CPUThrottlingHigh fires at this share of periods.
const MUCH_THROTTLING: f64 = 0.25;

/// What is left below the limit has to hold the next checkpoint's buffers.
const NEAR_LIMIT: f64 = 0.9;

pub(super) static CPU_QUOTA: Check = Check {
    id: "cpu_quota",
    title: "CPU quota of the jobs on GPUs",
    reads: "cpu.max, cpu.stat, cpuset.cpus.effective of every cgroup with GPU processes and of those above it, or their v1 \
            counterparts",
    families: &[
        &catalog::host::CGROUP_CPU_LIMIT,
        &catalog::host::CGROUP_CPU_PERIODS,
        &catalog::host::CGROUP_CPU_THROTTLED_PERIODS,
    ],
    expected: Expected::always("no quota below the allowed CPUs that is ever reached"),
    why: "A job that reaches its quota stands still until the next period, all threads at once: loaders, the thread \
          that launches kernels, NCCL's. The GPU waits up to 100 ms, often.",
    fixes: &[
        Fix {
            command: "pod: raise resources.limits.cpu to what it uses at its peak, requests equal to limits",
            restarts: "the pod",
            who: Who::User,
            risk: "it needs more of the node to be scheduled",
            ..Fix::USUAL
        },
        Fix {
            command: "systemd: systemctl set-property --runtime UNIT CPUQuota=",
            lasting: Some("the same without --runtime"),
            risk: "the job may take CPU time from its neighbours",
            ..Fix::USUAL
        },
    ],
    sources: &[
        kernel("CFS bandwidth control", "https://docs.kernel.org/scheduler/sched-bwc.html"),
        practice(
            "kubernetes-mixin, CPUThrottlingHigh: 25 % of periods",
            "https://github.com/kubernetes-monitoring/kubernetes-mixin",
        ),
        own("any throttling is a warning"),
    ],
    run: |context, _| {
        let Groups { jobs, above } = groups(context)?;
        let quotas = jobs.iter().map(|(owner, group)| Quota::new(&owner.id, group));
        Ok(judge_quotas(&quotas.chain(above.iter().map(|(path, group)| Quota::new(path, group))).collect::<Vec<_>>()))
    },
};

/// The CPU quota of one job or of a cgroup above it, in CPUs, and the periods in which it reached it of those in which it
/// ran.
struct Quota {
    owner: String,
    limit: Option<f64>,
    allowed: Option<u64>,
    throttled: Option<(u64, u64)>,
}

impl Quota {
    fn new(owner: &str, group: &Group) -> Self {
        Self {
            owner: owner.to_owned(),
            limit: group.cpu_limit,
            allowed: group.allowed_cpus.as_deref().map(cpus::count),
            throttled: group.throttled_periods.zip(group.periods),
        }
    }

    fn throttled_share(&self) -> f64 {
        self.throttled.filter(|(_, periods)| *periods > 0).map_or(0.0, |(some, all)| some as f64 / all as f64)
    }

    fn status(&self) -> Status {
        let below = self.limit.is_some_and(|limit| self.allowed.is_none_or(|allowed| limit < allowed as f64));
        match self.throttled_share() {
            share if below && share >= MUCH_THROTTLING => Status::Fail,
            share if below && share > 0.0 => Status::Warn,
            _ => Status::Pass,
        }
    }

    fn spell(&self) -> String {
        let Self { owner, limit, allowed, .. } = self;
        let limit = limit.map_or("no quota".to_owned(), |limit| format!("quota {limit:.1} CPUs"));
        let allowed = allowed.map(|cpus| format!(" of {cpus}")).unwrap_or_default();
        format!("{owner}: {limit}{allowed}, throttled in {:.1} % of periods", 100.0 * self.throttled_share())
    }
}

fn judge_quotas(quotas: &[Quota]) -> Verdict {
    worst(quotas, Quota::status, Quota::spell, "throttled")
}

pub(super) static MEMORY_LIMIT: Check = Check {
    id: "memory_limit",
    title: "Memory limit of the jobs on GPUs",
    reads: "memory.max, memory.current, memory.stat inactive_file, memory.events oom_kill of every cgroup with GPU \
            processes and of those above it, or their v1 counterparts",
    families: &[
        &catalog::host::CGROUP_MEMORY_MAX,
        &catalog::host::CGROUP_MEMORY_WORKING_SET,
        &catalog::host::CGROUP_MEMORY_OOM_KILLS,
    ],
    expected: Expected::always("a limit, a working set below 90 % of it, no OOM kills"),
    why: "One worker killed at its limit ends or hangs the whole distributed job, often days in. Without a limit the \
          node's memory is the limit, and the kernel kills whatever it finds largest, whoever caused it.",
    fixes: &[Fix {
        command: "set the limit to the measured peak (memory.peak) over a checkpoint plus headroom, and the request to \
                  the limit",
        restarts: "the job",
        who: Who::User,
        risk: "a limit that is too tight kills late. Leaving it out is no way round: a pod without limits is not \
               Guaranteed, so it loses whole CPUs and NUMA alignment and is killed first",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("Control Group v2: memory", CGROUP_V2),
        vendor("Kubernetes, Resource management for pods and containers", POD_RESOURCES),
        own("the threshold of 90 %; a job without a limit is a warning when it is a pod or shares the node's GPUs"),
    ],
    run: |context, _| {
        let Groups { jobs, above } = groups(context)?;
        let alone = jobs.len() == 1;
        // A limit that cannot be read is not the absence of one.
        let may_limit = |group: &Group| group.memory_max.is_some() || group.is_memory_max_unread;
        let limited = |owner: &Owner| parents(owner).any(|p| above.get(&p.path).is_some_and(may_limit));
        let mut limits: Vec<Memory> = Vec::new();
        for (owner, group) in &jobs {
            let needs_limit = (owner.pod_uid.is_some() || !alone) && !may_limit(group) && !limited(owner);
            let oom_kills = group.oom_kills.unwrap_or_default();
            limits.push(Memory { oom_kills, needs_limit, ..Memory::new(&owner.id, group) });
        }
        // Whom the kernel killed in a cgroup above may have been anybody.
        limits.extend(above.iter().map(|(path, group)| Memory::new(path, group)));
        Ok(judge_memory(&limits))
    },
};

/// Memory of one job or of a cgroup above it.
struct Memory {
    owner: String,
    limit: Option<u64>,
    working_set: Option<u64>,
    oom_kills: u64,
    needs_limit: bool,
}

impl Memory {
    fn new(owner: &str, group: &Group) -> Self {
        Self {
            owner: owner.to_owned(),
            limit: group.memory_max,
            working_set: group.working_set(),
            oom_kills: 0,
            needs_limit: false,
        }
    }

    fn status(&self) -> Status {
        let share = self.limit.zip(self.working_set).map(|(limit, used)| used as f64 / limit as f64);
        match (self.oom_kills, self.limit, share) {
            (1.., ..) => Status::Fail,
            (_, None, _) if self.needs_limit => Status::Warn,
            (_, _, Some(share)) if share >= NEAR_LIMIT => Status::Warn,
            _ => Status::Pass,
        }
    }

    fn spell(&self) -> String {
        let used = self.working_set.map_or("unknown use".to_owned(), |used| format!("uses {}", bytes(used)));
        let limit = self.limit.map_or("no limit".to_owned(), |limit| format!("limit {}", bytes(limit)));
        format!("{}: {used}, {limit}, {} OOM kills", self.owner, self.oom_kills)
    }
}

fn judge_memory(jobs: &[Memory]) -> Verdict {
    worst(jobs, Memory::status, Memory::spell, "near a limit")
}

pub(super) static CPUS_PER_GPU: Check = Check {
    id: "cpus_per_gpu",
    title: "CPUs of a job for each of its GPUs",
    reads: "cpu.max, cpuset.cpus.effective of every cgroup with GPU processes, or their v1 counterparts",
    families: &[&catalog::host::CGROUP_CPU_LIMIT, &catalog::host::CGROUP_ALLOWED_CPUS],
    expected: Expected::always("at least one CPU per GPU"),
    why: "Each GPU has one thread that launches its kernels and keeps it fed. With fewer CPUs than GPUs these threads take \
          turns, before a single loader has run.",
    fixes: &[Fix {
        command: "raise the job's CPUs to more than one CPU per GPU, with loaders to what they use at their peak",
        restarts: "the job",
        who: Who::User,
        risk: "it needs more of the node to be scheduled",
        ..Fix::USUAL
    }],
    sources: &[own("one thread per GPU is certain; how many more it takes differs from job to job: see cpu_quota")],
    run: |context, _| {
        let holds = |owner: &Owner, uuid: &str| context.owners.of_gpu(uuid).iter().any(|other| other.id == owner.id);
        let mut jobs = Vec::new();
        for owner in jobs::owners(context)? {
            let group = read(context, owner)?;
            let allowed = group.allowed_cpus.as_deref().map(|allowed| cpus::count(allowed) as f64);
            let gpus = context.gpus.gpus.iter().filter(|gpu| holds(owner, &gpu.uuid)).count();
            let cpus = group.cpu_limit.into_iter().chain(allowed).reduce(f64::min);
            jobs.extend(cpus.map(|cpus| (owner.id.clone(), cpus, gpus)));
        }
        Ok(judge_cpus(&jobs))
    },
};

/// By job: its CPUs and its GPUs.
fn judge_cpus(jobs: &[(String, f64, usize)]) -> Verdict {
    let few = jobs.iter().filter(|(_, cpus, gpus)| *cpus < *gpus as f64);
    let spell =
        |(owner, cpus, gpus): &(String, f64, usize)| format!("{owner}: {cpus:.1} CPUs for {}", count(*gpus, "GPU"));
    Verdict::listing(Status::Warn, few.map(spell).collect(), format!("enough for {}", count(jobs.len(), "job")))
}

/// The worst status, and those jobs that have it.
fn worst<T>(jobs: &[T], status: fn(&T) -> Status, spell: fn(&T) -> String, trouble: &str) -> Verdict {
    let worst = jobs.iter().map(status).min().unwrap_or(Status::Pass);
    match worst {
        Status::Pass => Verdict::new(worst, format!("none of {} {trouble}", count(jobs.len(), "job"))),
        _ => {
            let those: Vec<String> = jobs.iter().filter(|job| status(job) == worst).map(spell).collect();
            Verdict::new(worst, list(&those))
        }
    }
}

/// The cgroups of those who hold a GPU, and by path those above them, which limit them as well.
struct Groups<'a> {
    jobs: Vec<(&'a Owner, Group)>,
    above: BTreeMap<String, Group>,
}

fn groups(context: &Context) -> Result<Groups<'_>, Unread> {
    let mut jobs = Vec::new();
    let mut above: BTreeMap<String, Owner> = BTreeMap::new();
    for owner in jobs::owners(context)? {
        jobs.push((owner.as_ref(), read(context, owner)?));
        for place in parents(owner) {
            let nobody = || Owner { places: Vec::new(), pids: Vec::new(), ..owner.as_ref().clone() };
            let parent = above.entry(place.path.clone()).or_insert_with(nobody);
            if !parent.places.contains(&place) {
                parent.places.push(place);
            }
        }
    }
    let above = above.into_iter().map(|(path, parent)| Ok((path, read(context, &parent)?)));
    Ok(Groups { jobs, above: above.collect::<Result<_, Unread>>()? })
}

fn read(context: &Context, owner: &Owner) -> Result<Group, Unread> {
    let mut group = Group::default();
    cgroup::read(context, owner, &Stacked::default(), &mut group);
    Ok(group)
}

fn parents(owner: &Owner) -> impl Iterator<Item = Place> {
    owner.places.iter().flat_map(|place| jobs::with_parents(place).skip(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Fail, Pass, Warn};

    #[test]
    fn quotas() {
        for (limit, allowed, throttled, status) in [
            (None, Some(64), Some((0, 0)), Pass),
            (Some(16.0), Some(64), Some((0, 1000)), Pass),
            (Some(16.0), Some(64), Some((1, 1000)), Warn),
            (Some(16.0), Some(64), Some((250, 1000)), Fail),
            (Some(16.0), None, Some((250, 1000)), Fail),
            (Some(64.0), Some(64), Some((250, 1000)), Pass),
            (Some(16.0), Some(64), None, Pass),
        ] {
            let quota = Quota { owner: "slurm-1".to_owned(), limit, allowed, throttled };
            assert_eq!(quota.status(), status, "{}", quota.spell());
        }
    }

    #[test]
    fn only_the_worst_jobs_are_named() {
        let quota = |owner: &str, throttled| Quota {
            owner: owner.to_owned(),
            limit: Some(2.0),
            allowed: Some(8),
            throttled: Some((throttled, 100)),
        };
        let verdict = judge_quotas(&[quota("a", 0), quota("b", 50), quota("c", 3)]);
        assert_eq!(
            (verdict.status, verdict.read.as_str()),
            (Fail, "b: quota 2.0 CPUs of 8, throttled in 50.0 % of periods")
        );
        assert_eq!(judge_quotas(&[quota("a", 0)]).read, "none of 1 job throttled");
    }

    #[test]
    fn cpus_for_gpus() {
        let job = |cpus, gpus| [("a".to_owned(), cpus, gpus)];
        assert_eq!(judge_cpus(&job(4.0, 4)).read, "enough for 1 job");
        let verdict = judge_cpus(&job(3.5, 4));
        assert_eq!((verdict.status, verdict.read.as_str()), (Warn, "a: 3.5 CPUs for 4 GPUs"));
    }

    #[test]
    fn memory() {
        for (limit, working_set, oom_kills, needs_limit, status) in [
            (Some(100), Some(50), 0, true, Pass),
            (Some(100), Some(90), 0, true, Warn),
            (Some(100), Some(50), 1, true, Fail),
            (Some(100), None, 0, true, Pass),
            (None, Some(50), 0, true, Warn),
            (None, Some(50), 0, false, Pass),
            (Some(0), Some(0), 0, true, Pass),
        ] {
            let memory = Memory { owner: "slurm-1".to_owned(), limit, working_set, oom_kills, needs_limit };
            assert_eq!(memory.status(), status, "{}", memory.spell());
        }
    }
}
