//! What the kernel's OOM killer says in the kernel log, on one line per victim (`dump_oom_summary` in mm/oom_kill.c, from
//! 5.0 on):
//!
//! `oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=…,mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,task=python,pid=7,uid=0`
//!
//! Without a limit of a cgroup it has `global_oom` in the place of `oom_memcg=`. Where `memory.oom.group` is set, the other
//! processes of the cgroup that end with the victim have no such line.

/// What ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Constraint {
    /// Memory of the node.
    Node,
    /// Memory of the NUMA nodes that a cpuset allows.
    Cpuset,
    /// Memory of the NUMA nodes that a memory policy allows, as of `numactl --membind`.
    MemoryPolicy,
    /// The limit of a cgroup.
    Cgroup,
}

/// A process that the kernel has chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill<'a> {
    /// What ran out.
    pub constraint: Constraint,
    /// The cgroup whose limit ran out.
    pub limit: Option<&'a str>,
    /// The cgroup of the process.
    pub cgroup: &'a str,
    /// Its name, up to 15 characters.
    pub task: &'a str,
    /// Its id in the first pid namespace.
    pub pid: u32,
}

impl<'a> Kill<'a> {
    /// Reads one record; `None` for anything else, and where the kernel has no memory cgroups.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let rest = text.trim().strip_prefix("oom-kill:constraint=")?;
        let (constraint, rest) = rest.split_once(',')?;
        let constraint = match constraint {
            "CONSTRAINT_NONE" => Constraint::Node,
            "CONSTRAINT_CPUSET" => Constraint::Cpuset,
            "CONSTRAINT_MEMORY_POLICY" => Constraint::MemoryPolicy,
            "CONSTRAINT_MEMCG" => Constraint::Cgroup,
            _ => return None,
        };
        let (before, rest) = rest.split_once(",task_memcg=")?;
        let limit = before.split_once(",oom_memcg=").map(|(_, path)| path);
        // A process may call itself what it likes: its cgroup ends at the first key behind it, its id is behind the last.
        let (cgroup, rest) = rest.split_once(",task=")?;
        let (rest, _uid) = rest.rsplit_once(",uid=")?;
        let (task, pid) = rest.rsplit_once(",pid=")?;
        let is_path = |path: &str| path.starts_with('/');
        let plausible =
            is_path(cgroup) && limit.is_none_or(is_path) && (constraint == Constraint::Cgroup) == limit.is_some();
        plausible.then_some(Self { constraint, limit, cgroup, task, pid: pid.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_constraint_is_understood() {
        let line = |constraint: &str, limit: &str| {
            format!(
                "oom-kill:constraint={constraint},nodemask=(null),cpuset=job_5,mems_allowed=0-1{limit},\
                 task_memcg=/slurm/job_5/step_0,task=python,pid=4711,uid=1000"
            )
        };
        let kill =
            |constraint, limit| Kill { constraint, limit, cgroup: "/slurm/job_5/step_0", task: "python", pid: 4711 };
        for (text, constraint, limit) in [
            (line("CONSTRAINT_MEMCG", ",oom_memcg=/slurm/job_5"), Constraint::Cgroup, Some("/slurm/job_5")),
            (line("CONSTRAINT_NONE", ",global_oom"), Constraint::Node, None),
            (line("CONSTRAINT_CPUSET", ",global_oom"), Constraint::Cpuset, None),
            (line("CONSTRAINT_MEMORY_POLICY", ",global_oom"), Constraint::MemoryPolicy, None),
        ] {
            assert_eq!(Kill::parse(&text), Some(kill(constraint, limit)), "{text}");
        }
    }

    /// Recorded of a group with a limit, a group below it and a process in that, on kernel 6.18.
    #[test]
    fn a_recorded_line() {
        let text = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/x-oom-check,\
                    task_memcg=/x-oom-check/job_5,task=python3,pid=6157,uid=0";
        let kill = Kill {
            constraint: Constraint::Cgroup,
            limit: Some("/x-oom-check"),
            cgroup: "/x-oom-check/job_5",
            task: "python3",
            pid: 6157,
        };
        assert_eq!(Kill::parse(text), Some(kill));
    }

    #[test]
    fn a_process_cannot_name_itself_into_another_cgroup() {
        let text = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a,task_memcg=/a/b,task=x,pid=1,uid=0,pid=7,uid=0";
        let kill = Kill::parse(text).unwrap();
        assert_eq!((kill.cgroup, kill.task, kill.pid), ("/a/b", "x,pid=1,uid=0", 7));
        let text = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a,task_memcg=/a/b,task=,task=/c,pid=7,uid=0";
        assert_eq!(Kill::parse(text).unwrap().cgroup, "/a/b");
    }

    #[test]
    fn what_others_say_is_nothing() {
        for text in [
            "Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB, anon-rss:1kB",
            "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            "systemd[1]: oom-kill:constraint=CONSTRAINT_NONE,global_oom,task_memcg=/a,task=b,pid=1,uid=0",
            "oom-kill:constraint=CONSTRAINT_NEW,global_oom,task_memcg=/a,task=b,pid=1,uid=0",
            "oom-kill:constraint=CONSTRAINT_NONE,global_oom,task_memcg=/a,task=b,pid=-1,uid=0",
            "oom-kill:constraint=CONSTRAINT_MEMCG,global_oom,task_memcg=/a,task=b,pid=1,uid=0",
            "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=b,pid=1,uid=0",
        ] {
            assert_eq!(Kill::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "(oom-kill:constraint=CONSTRAINT_(MEMCG|NONE),)?(\\PC|,task_memcg=/|,oom_memcg=/|,task=|,pid=|,uid=){0,12}") {
            let _ = Kill::parse(&text);
        }
    }
}
