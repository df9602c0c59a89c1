//! Limits of jobs that are met late: tasks, files, shared memory, and who is killed first.

use super::*;
use crate::parse::{cgroup, keyed, limits, mounts, number};
use crate::source::files;

/// With this share of a limit in use, the next pool of threads will reach the limit.
const MUCH_OF_A_LIMIT: f64 = 0.8;

/// The kernel's default for a process without a limit of its own, and systemd's for every service and session.
const DEFAULT_OPEN_FILES: u64 = 1024;

/// The default size that docker and containerd mount.
const DEFAULT_SHM: u64 = 64 << 20;

/// What the kubelet gives the containers of pods without any request: they are killed first.
const BEST_EFFORT: i64 = 1000;

pub(super) static PIDS: Check = Check {
    id: "pids_limit",
    title: "Task limit of the jobs on GPUs",
    reads: "pids.current, pids.max, pids.events of every cgroup with GPU processes and of those above it",
    families: &[&catalog::host::CGROUP_TASKS],
    expected: Expected::always("below 80 % of it, and never met"),
    why: "At the limit the next thread of a loader, of NCCL or of a thread pool cannot be started: the job ends, or hangs \
          with a part of its threads. Container runtimes and systemd set such limits without being asked.",
    fixes: &[
        Fix {
            command: "kubelet: podPidsLimit: 65536",
            restarts: "the kubelet, then the pod",
            who: Who::ClusterAdmin,
            risk: "a job that starts tasks without end takes more of the node's",
            ..Fix::USUAL
        },
        Fix {
            command: "systemd: systemctl set-property --runtime UNIT TasksMax=65536",
            lasting: Some("the same without --runtime"),
            risk: "as above",
            ..Fix::USUAL
        },
    ],
    sources: &[
        kernel("Control Group v2: PID", CGROUP_V2),
        vendor(
            "Kubernetes, Process ID Limits And Reservations",
            "https://kubernetes.io/docs/concepts/policy/pid-limiting/",
        ),
        own("the threshold of 80 %; a limit that was met is a failure"),
    ],
    run: |context, _| {
        let mut tasks = Vec::new();
        for (path, folder) in jobs::folders(context, "pids")? {
            let read = |file: &str| folder.join(file);
            let Some(limit) = files::parse_optional(&read("pids.max"), cgroup::limit)?.flatten() else { continue };
            let Some(current) = files::parse_optional(&read("pids.current"), number)? else { continue };
            let mut met = 0;
            files::parse_optional(&read("pids.events"), |text| {
                keyed::each(text, |key, value| met = if key == "max" { value } else { met })
            })?;
            tasks.push(Tasks { path, current, limit, met });
        }
        Ok(judge_tasks(&tasks))
    },
};

/// One cgroup with a task limit.
struct Tasks {
    path: String,
    current: u64,
    limit: u64,
    /// How often a task could not be started.
    met: u64,
}

fn judge_tasks(groups: &[Tasks]) -> Verdict {
    let status = |group: &Tasks| match (group.met, group.current as f64 >= MUCH_OF_A_LIMIT * group.limit as f64) {
        (1.., _) => Status::Fail,
        (0, true) => Status::Warn,
        (0, false) => Status::Pass,
    };
    let spell = |group: &Tasks| {
        let Tasks { path, current, limit, met } = group;
        format!("{path}: {current} tasks of {limit}, met {met} times")
    };
    match groups.iter().map(status).min() {
        None => Verdict::new(Status::Pass, "no limit"),
        Some(Status::Pass) => Verdict::new(Status::Pass, format!("far from {}", count(groups.len(), "limit"))),
        Some(worst) => {
            let those = groups.iter().filter(|group| status(group) == worst);
            Verdict::new(worst, list(&those.map(spell).collect::<Vec<_>>()))
        }
    }
}

pub(super) static OPEN_FILES: Check = Check {
    id: "open_files",
    title: "Open-file limit of GPU processes",
    reads: "/proc/PID/limits \"Max open files\" of every GPU process",
    families: &[],
    expected: Expected::always("more than 1024"),
    why: "PyTorch hands every tensor of a loader to the trainer as an open file, and NCCL opens sockets to every peer. At \
          the default limit the job ends with \"too many open files\", often only at scale.",
    fixes: &[
        Fix {
            command: "systemd unit of the job, the container runtime or slurmd: [Service] LimitNOFILE=1048576",
            restarts: "that service and the job",
            risk: "programs that use select(2) fail with descriptors above 1023; raise the hard limit alone and let the \
                   job raise its own",
            ..Fix::USUAL
        },
        Fix {
            command: "in the job: ulimit -n 65536",
            restarts: "the job",
            who: Who::User,
            risk: "as above",
            ..Fix::USUAL
        },
    ],
    sources: &[
        vendor(
            "PyTorch, torch.multiprocessing: file descriptor sharing strategy",
            "https://docs.pytorch.org/docs/stable/multiprocessing.html",
        ),
        own("a warning: a job without loaders and with few peers does not care"),
    ],
    run: |context, _| {
        let processes = jobs::read(context, "limits", |text| limits::max_open_files(text).map(Some))?;
        let limits: Vec<_> = processes.into_iter().filter_map(|process| Some((process.pid, process.value?))).collect();
        Ok(judge_open_files(&limits))
    },
};

fn judge_open_files(limits: &[(u32, u64)]) -> Verdict {
    let low = limits.iter().filter(|(_, limit)| *limit <= DEFAULT_OPEN_FILES);
    let lowest = limits.iter().map(|(_, limit)| *limit).min();
    let right = lowest.map_or("unlimited".to_owned(), |lowest| format!("at least {lowest}"));
    Verdict::listing(Status::Warn, low.map(|(pid, limit)| format!("{limit} for pid {pid}")).collect(), right)
}

pub(super) static SHM: Check = Check {
    id: "shm_size",
    title: "Shared memory of GPU processes",
    reads: "/proc/PID/mounts of every GPU process: the size of /dev/shm",
    families: &[],
    expected: Expected::always("more than the 64 MiB that container runtimes give by default"),
    why: "Loaders pass batches, and NCCL messages between GPUs, through /dev/shm. When it is full a worker dies with a bus \
          error, or NCCL fails to start.",
    fixes: &[
        Fix {
            command: "pod: mount an emptyDir with medium: Memory and a sizeLimit at /dev/shm",
            restarts: "the pod",
            who: Who::User,
            risk: "what is in it counts against the pod's memory limit",
            ..Fix::USUAL
        },
        Fix {
            command: "docker run --ipc=host, or --shm-size=16g",
            restarts: "the container",
            who: Who::User,
            risk: "--ipc=host shares it with every other such container",
            ..Fix::USUAL
        },
    ],
    sources: &[
        vendor(
            "NCCL, Troubleshooting: shared memory",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
        own("a warning: a server of one process may need none"),
    ],
    run: |context, _| {
        let size = |text: &str| {
            let mounts = mounts::parse(text);
            // A mount that cannot be read may be the one that counts.
            mounts.left_out.first.map_or(Ok(Some(shm_size(&mounts.value))), Err)
        };
        let processes = jobs::read(context, "mounts", size)?;
        let sizes: Vec<_> = processes.into_iter().filter_map(|process| Some((process.pid, process.value?))).collect();
        Ok(judge_shm(&sizes))
    },
};

/// The size of what is mounted last at /dev/shm; `None` when it has the default of half of the memory.
fn shm_size(mounts: &[mounts::Mount<'_>]) -> Option<u64> {
    let shm = mounts.iter().rfind(|mount| mount.point == "/dev/shm" && mount.kind == "tmpfs")?;
    shm.option("size").and_then(mounts::tmpfs_size)
}

fn judge_shm(sizes: &[(u32, u64)]) -> Verdict {
    let small = sizes.iter().filter(|(_, size)| *size <= DEFAULT_SHM);
    let least = sizes.iter().map(|(_, size)| *size).min();
    let right = least.map_or("half of the memory".to_owned(), |least| format!("at least {}", bytes(least)));
    Verdict::listing(Status::Warn, small.map(|(pid, size)| format!("{} for pid {pid}", bytes(*size))).collect(), right)
}

pub(super) static OOM_PRIORITY: Check = Check {
    id: "oom_priority",
    title: "Who is killed first when memory runs out",
    reads: "/proc/PID/oom_score_adj of every GPU process",
    families: &[],
    expected: Expected::always("less than 1000"),
    why: "At 1000 the kernel kills the process before all others, however small it is: a pod without any request or limit \
          has that. A distributed job ends with its first rank.",
    fixes: &[Fix {
        command: "pod: set resources.requests and limits of CPU and memory, equal to each other (QoS class Guaranteed)",
        restarts: "the pod",
        who: Who::User,
        risk: "it needs that much of the node to be scheduled",
        ..Fix::USUAL
    }],
    sources: &[
        vendor(
            "Kubernetes, Node-pressure Eviction: node out of memory behavior",
            "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",
        ),
        kernel("filesystems/proc: oom_score_adj", "https://docs.kernel.org/filesystems/proc.html"),
    ],
    run: |context, _| {
        let processes = jobs::read(context, "oom_score_adj", |text| number::<i64>(text).map(Some))?;
        Ok(judge_oom(&processes.iter().map(|process| (process.pid, process.value)).collect::<Vec<_>>()))
    },
};

fn judge_oom(scores: &[(u32, i64)]) -> Verdict {
    let first = scores.iter().filter(|(_, score)| *score >= BEST_EFFORT);
    let first = first.map(|(pid, score)| format!("pid {pid} has {score}"));
    let most = scores.iter().map(|(_, score)| *score).max().unwrap_or_default();
    Verdict::listing(Status::Warn, first.collect(), format!("at most {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Fail, Pass, Warn};

    fn said(verdict: &Verdict) -> (Status, &str) {
        (verdict.status, &verdict.read)
    }

    #[test]
    fn tasks() {
        let tasks = |path: &str, current, limit, met| Tasks { path: path.to_owned(), current, limit, met };
        assert_eq!(said(&judge_tasks(&[])), (Pass, "no limit"));
        assert_eq!(said(&judge_tasks(&[tasks("/a", 79, 100, 0)])), (Pass, "far from 1 limit"));
        let near = [tasks("/a", 80, 100, 0), tasks("/b", 1, 100, 0)];
        assert_eq!(said(&judge_tasks(&near)), (Warn, "/a: 80 tasks of 100, met 0 times"));
        let met = [tasks("/a", 80, 100, 0), tasks("/b", 1, 100, 7)];
        assert_eq!(said(&judge_tasks(&met)), (Fail, "/b: 1 tasks of 100, met 7 times"));
    }

    #[test]
    fn limits_of_processes() {
        assert_eq!(said(&judge_open_files(&[(7, 1024), (8, 65536)])), (Warn, "1024 for pid 7"));
        assert_eq!(said(&judge_open_files(&[(7, 4096), (8, 65536)])), (Pass, "at least 4096"));
        assert_eq!(said(&judge_open_files(&[])), (Pass, "unlimited"));
        assert_eq!(said(&judge_oom(&[(7, -997), (8, 1000)])), (Warn, "pid 8 has 1000"));
        assert_eq!(said(&judge_oom(&[(7, -997), (8, 999)])), (Pass, "at most 999"));
    }

    #[test]
    fn shared_memory() {
        let size = |text: &str| shm_size(&mounts::parse(text).value);
        assert_eq!(size("shm /dev/shm tmpfs rw,size=65536k 0 0\n"), Some(64 << 20));
        assert_eq!(size("shm /dev/shm tmpfs rw,size=65536k 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n"), None, "mounted over");
        assert_eq!(size("tmpfs /run tmpfs rw,size=65536k 0 0\n"), None);
        assert_eq!(said(&judge_shm(&[(7, 64 << 20), (8, 1 << 34)])), (Warn, "64 MiB for pid 7"));
        assert_eq!(said(&judge_shm(&[(8, 1 << 34)])), (Pass, "at least 16 GiB"));
        assert_eq!(said(&judge_shm(&[])), (Pass, "half of the memory"));
    }
}
