//! What the jobs on GPUs are limited to.

use std::sync::Arc;

use super::super::text::{bytes, count, list};
use super::super::{Check, Expected, Fix, Status, Unread, Verdict, Who, jobs};
use super::{kernel, own, practice, vendor};
use crate::attribute::Owner;
use crate::collect::Context;
use crate::collect::cgroup::{Cgroup, Group};
use crate::parse::cpus;

const CGROUP_V2: &str = "https://docs.kernel.org/admin-guide/cgroup-v2.html";
const POD_RESOURCES: &str = "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/";

/// kubernetes-mixin's alert CPUThrottlingHigh fires at this share of periods.
const MUCH_THROTTLING: f64 = 0.25;

/// What is left below the limit has to hold the next checkpoint's buffers.
const NEAR_LIMIT: f64 = 0.9;

pub(super) static CPU_QUOTA: Check = Check {
    id: "cpu_quota",
    title: "CPU quota of the jobs on GPUs",
    reads: "cpu.max, cpu.stat, cpuset.cpus.effective of every cgroup with GPU processes, or their v1 counterparts",
    expected: Expected::always("no quota below the allowed CPUs that is ever reached"),
    why: "A job that reaches its quota stands still until the next period, all threads at once: loaders, the thread \
          that launches kernels, NCCL's. The GPU waits up to 100 ms, often.",
    fixes: &[
        Fix {
            command: "pod: raise resources.limits.cpu to what it uses at its peak, requests equal to limits",
            lasting: None,
            restarts: "the pod",
            who: Who::User,
            risk: "it needs more of the node to be scheduled",
            gain: None,
        },
        Fix {
            command: "systemd: systemctl set-property --runtime UNIT CPUQuota=",
            lasting: Some("the same without --runtime"),
            restarts: "nothing",
            who: Who::Root,
            risk: "the job may take CPU time from its neighbours",
            gain: None,
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
        let quotas = groups(context)?.into_iter().map(|(owner, group)| Quota {
            owner: owner.id.clone(),
            limit: group.cpu_limit,
            allowed: group.allowed_cpus.as_deref().map(cpus::count),
            throttled: group.throttled_periods.zip(group.periods),
        });
        Ok(judge_quotas(&quotas.collect::<Vec<_>>()))
    },
};

/// One job's CPU quota, in CPUs, and the periods in which it reached it of those in which it ran.
struct Quota {
    owner: String,
    limit: Option<f64>,
    allowed: Option<u64>,
    throttled: Option<(u64, u64)>,
}

impl Quota {
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
            processes, or their v1 counterparts",
    expected: Expected::always("a limit, a working set below 90 % of it, no OOM kills"),
    why: "One worker killed at its limit ends or hangs the whole distributed job, often days in. Without a limit the \
          node's memory is the limit, and the kernel kills whatever it finds largest, whoever caused it.",
    fixes: &[Fix {
        command: "set the limit to the measured peak (memory.peak) over a checkpoint plus headroom, and the request to \
                  the limit",
        lasting: None,
        restarts: "the job",
        who: Who::User,
        risk: "a limit that is too tight kills late. Leaving it out is no way round: a pod without limits is not \
               Guaranteed, so it loses whole CPUs and NUMA alignment and is killed first",
        gain: None,
    }],
    sources: &[
        kernel("Control Group v2: memory", CGROUP_V2),
        vendor("Kubernetes, Resource management for pods and containers", POD_RESOURCES),
        own("the threshold of 90 %; a job without a limit is a warning when it is a pod or shares the node's GPUs"),
    ],
    run: |context, _| {
        let groups = groups(context)?;
        let alone = groups.len() == 1;
        let limits = groups.into_iter().map(|(owner, group)| Memory {
            owner: owner.id.clone(),
            limit: group.memory_max,
            working_set: group.working_set(),
            oom_kills: group.oom_kills.unwrap_or_default(),
            needs_limit: owner.pod_uid.is_some() || !alone,
        });
        Ok(judge_memory(&limits.collect::<Vec<_>>()))
    },
};

/// One job's memory.
struct Memory {
    owner: String,
    limit: Option<u64>,
    working_set: Option<u64>,
    oom_kills: u64,
    needs_limit: bool,
}

impl Memory {
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

/// The cgroups of those who hold a GPU. Whoever has none of his own is not limited by one.
fn groups(context: &Context) -> Result<Vec<(Arc<Owner>, Group)>, Unread> {
    jobs::gpus(context)?;
    let mut groups = Vec::new();
    for owner in context.owners.all().iter().filter(|owner| !owner.places.is_empty()) {
        let mut group = Group::default();
        Cgroup::default().read(&context.roots, owner, &mut group)?;
        groups.push((Arc::clone(owner), group));
    }
    match groups.is_empty() {
        true => Err(Unread::Absent("no job with a cgroup of its own holds a GPU".to_owned())),
        false => Ok(groups),
    }
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
