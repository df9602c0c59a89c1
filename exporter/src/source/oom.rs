//! Processes that the OOM killer ended since the exporter's start, by whose they were and what ran out.

use std::collections::BTreeMap;

use crate::parse::oom::{Constraint, Kill};
use crate::parse::owner::Identity;

/// Distinct kinds kept: a node runs about ten jobs, and one that is killed is rarely killed for two reasons.
const KINDS: usize = 64;

/// Whose limit ran out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The victim's own, or that of a cgroup below it.
    Own,
    /// That of a cgroup above the victim's, by the id of its owner: others used it up with the victim.
    Above(String),
    /// The node's memory.
    Node,
    /// The memory of the NUMA nodes that the victim's cpuset allows.
    Cpuset,
    /// The memory of the NUMA nodes that a memory policy allows.
    MemoryPolicy,
}

impl Reason {
    /// The value of the label.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Own => "own_limit",
            Self::Above(_) => "limit_above",
            Self::Node => "node",
            Self::Cpuset => "cpuset",
            Self::MemoryPolicy => "memory_policy",
        }
    }

    fn of(kill: &Kill<'_>, victim: &Identity) -> Self {
        match (kill.constraint, kill.limit) {
            (Constraint::Cpuset, _) => Self::Cpuset,
            (Constraint::MemoryPolicy, _) => Self::MemoryPolicy,
            (Constraint::Cgroup, Some(limit)) if is_within(limit, &victim.cgroup) => Self::Own,
            (Constraint::Cgroup, Some(limit)) => Self::Above(Identity::of(limit).id()),
            (Constraint::Cgroup, None) | (Constraint::Node, _) => Self::Node,
        }
    }
}

/// Is the cgroup the other one, or below it?
fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What was heard.
#[derive(Clone, Debug, Default)]
pub struct Kills {
    /// Victims by the id of their owner and what ran out.
    pub counts: BTreeMap<(String, Reason), u64>,
    /// Victims beyond the kinds that are kept apart.
    pub others: u64,
}

impl Kills {
    /// Is the owner of this id a victim, or one whose limit ran out?
    #[must_use]
    pub fn speak_of(&self, id: &str) -> bool {
        let is_limit = |reason: &Reason| if let Reason::Above(limit) = reason { limit == id } else { false };
        self.counts.keys().any(|(owner, reason)| owner == id || is_limit(reason))
    }

    /// Counts one, and names it in the log.
    pub fn hear(&mut self, kill: &Kill<'_>) {
        let victim = Identity::of(kill.cgroup);
        let reason = Reason::of(kill, &victim);
        let owner = victim.id();
        let (task, pid, limit) = (kill.task, kill.pid, kill.limit.unwrap_or_default());
        tracing::info!(owner, task, pid, limit, reason = reason.name(), "the kernel's OOM killer chose a process");
        let room = self.counts.len() < KINDS;
        match self.counts.get_mut(&(owner.clone(), reason.clone())) {
            Some(count) => *count += 1,
            None if room => drop(self.counts.insert((owner, reason), 1)),
            None => self.others += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kill<'a>(constraint: Constraint, limit: Option<&'a str>, cgroup: &'a str) -> Kill<'a> {
        Kill { constraint, limit, cgroup, task: "python", pid: 7 }
    }

    #[test]
    fn limits_are_the_victims_own_or_of_those_above() {
        let step = "/system.slice/slurmstepd.scope/job_5/step_0/user/task_0";
        for (constraint, limit, name) in [
            (Constraint::Cgroup, Some("/system.slice/slurmstepd.scope/job_5/step_0"), "own_limit"),
            (Constraint::Cgroup, Some("/system.slice/slurmstepd.scope/job_5"), "own_limit"),
            (Constraint::Cgroup, Some("/system.slice/slurmstepd.scope"), "limit_above"),
            (Constraint::Node, None, "node"),
            (Constraint::Cpuset, None, "cpuset"),
            (Constraint::MemoryPolicy, None, "memory_policy"),
        ] {
            let mut kills = Kills::default();
            kills.hear(&kill(constraint, limit, step));
            let counted: Vec<_> =
                kills.counts.iter().map(|((owner, reason), n)| (&**owner, reason.name(), *n)).collect();
            assert_eq!(counted, [("slurm-5", name, 1)], "{limit:?}");
        }
        assert!(is_within("/a/b", "/a/b") && is_within("/a/b/c", "/a/b") && !is_within("/a/bc", "/a/b"));
    }

    #[test]
    fn what_is_counted_apart_is_bounded() {
        let mut kills = Kills::default();
        for job in 0..KINDS + 3 {
            for _ in 0..2 {
                kills.hear(&kill(Constraint::Node, None, &format!("/slurm/uid_0/job_{job}")));
            }
        }
        assert_eq!((kills.counts.len(), kills.others), (KINDS, 6));
        assert!(kills.counts.values().all(|count| *count == 2));
    }
}
