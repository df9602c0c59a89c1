//! Limits of jobs that are met late: tasks, files, shared memory, swap, and who is killed first.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::super::text::{bytes, count, list};
use super::super::{Check, Expected, Fix, Status, Unread, Verdict, Who, jobs};
use super::{kernel, own, swap, vendor};
use crate::attribute::Place;
use crate::collect::Context;
use crate::parse::{cgroup, keyed, limits, mounts, number};
use crate::source::{cgroupfs, files};

const CGROUP_V2: &str = "https://docs.kernel.org/admin-guide/cgroup-v2.html";

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
    expected: Expected::always("below 80 % of it, and never met"),
    why: "At the limit the next thread of a loader, of NCCL or of a thread pool cannot be started: the job ends, or hangs \
          with a part of its threads. Container runtimes and systemd set such limits without being asked.",
    fixes: &[
        Fix {
            command: "kubelet: podPidsLimit: 65536",
            lasting: None,
            restarts: "the kubelet, then the pod",
            who: Who::ClusterAdmin,
            risk: "a job that starts tasks without end takes more of the node's",
            gain: None,
        },
        Fix {
            command: "systemd: systemctl set-property --runtime UNIT TasksMax=65536",
            lasting: Some("the same without --runtime"),
            restarts: "nothing",
            who: Who::Root,
            risk: "as above",
            gain: None,
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
        for (path, folder) in folders(context, "pids")? {
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

/// The cgroups of those who hold a GPU, and those above them, once each: their path, and their folder in the hierarchy
/// of this controller; without a controller, in that of version 2.
fn folders(context: &Context, controller: &str) -> Result<BTreeSet<(String, PathBuf)>, Unread> {
    let places = jobs::owners(context)?.into_iter().flat_map(|owner| &owner.places).flat_map(jobs::with_parents);
    Ok(places.filter_map(|place| Some((place.path.clone(), folder(context, &place, controller)?))).collect())
}

fn folder(context: &Context, place: &Place, controller: &str) -> Option<PathBuf> {
    let Place { controllers, path } = place;
    if controllers.is_empty() {
        return Some(cgroupfs::group(&cgroupfs::v2_root(&context.roots), path));
    }
    let here = controllers.split(',').any(|name| name == controller);
    here.then(|| cgroupfs::v1_group(&context.roots, controllers, controller, path)).flatten()
}

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
    expected: Expected::always("more than 1024"),
    why: "PyTorch hands every tensor of a loader to the trainer as an open file, and NCCL opens sockets to every peer. At \
          the default limit the job ends with \"too many open files\", often only at scale.",
    fixes: &[
        Fix {
            command: "systemd unit of the job, the container runtime or slurmd: [Service] LimitNOFILE=1048576",
            lasting: None,
            restarts: "that service and the job",
            who: Who::Root,
            risk: "programs that use select(2) fail with descriptors above 1023; raise the hard limit alone and let the \
                   job raise its own",
            gain: None,
        },
        Fix {
            command: "in the job: ulimit -n 65536",
            lasting: None,
            restarts: "the job",
            who: Who::User,
            risk: "as above",
            gain: None,
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
    match low.map(|(pid, limit)| format!("{limit} for pid {pid}")).collect::<Vec<_>>() {
        none if none.is_empty() => match limits.iter().map(|(_, limit)| *limit).min() {
            Some(lowest) => Verdict::new(Status::Pass, format!("at least {lowest}")),
            None => Verdict::new(Status::Pass, "unlimited"),
        },
        low => Verdict::new(Status::Warn, list(&low)),
    }
}

pub(super) static SHM: Check = Check {
    id: "shm_size",
    title: "Shared memory of GPU processes",
    reads: "/proc/PID/mounts of every GPU process: the size of /dev/shm",
    expected: Expected::always("more than the 64 MiB that container runtimes give by default"),
    why: "Loaders pass batches, and NCCL messages between GPUs, through /dev/shm. When it is full a worker dies with a bus \
          error, or NCCL fails to start.",
    fixes: &[
        Fix {
            command: "pod: mount an emptyDir with medium: Memory and a sizeLimit at /dev/shm",
            lasting: None,
            restarts: "the pod",
            who: Who::User,
            risk: "what is in it counts against the pod's memory limit",
            gain: None,
        },
        Fix {
            command: "docker run --ipc=host, or --shm-size=16g",
            lasting: None,
            restarts: "the container",
            who: Who::User,
            risk: "--ipc=host shares it with every other such container",
            gain: None,
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
    match small.map(|(pid, size)| format!("{} for pid {pid}", bytes(*size))).collect::<Vec<_>>() {
        none if none.is_empty() => match sizes.iter().map(|(_, size)| *size).min() {
            Some(least) => Verdict::new(Status::Pass, format!("at least {}", bytes(least))),
            None => Verdict::new(Status::Pass, "half of the memory"),
        },
        small => Verdict::new(Status::Warn, list(&small)),
    }
}

pub(super) static OOM_PRIORITY: Check = Check {
    id: "oom_priority",
    title: "Who is killed first when memory runs out",
    reads: "/proc/PID/oom_score_adj of every GPU process",
    expected: Expected::always("less than 1000"),
    why: "At 1000 the kernel kills the process before all others, however small it is: a pod without any request or limit \
          has that. A distributed job ends with its first rank.",
    fixes: &[Fix {
        command: "pod: set resources.requests and limits of CPU and memory, equal to each other (QoS class Guaranteed)",
        lasting: None,
        restarts: "the pod",
        who: Who::User,
        risk: "it needs that much of the node to be scheduled",
        gain: None,
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
    match first.map(|(pid, score)| format!("pid {pid} has {score}")).collect::<Vec<_>>() {
        none if none.is_empty() => {
            let most = scores.iter().map(|(_, score)| *score).max().unwrap_or_default();
            Verdict::new(Status::Pass, format!("at most {most}"))
        }
        first => Verdict::new(Status::Warn, list(&first)),
    }
}

pub(super) static HIGH: Check = Check {
    id: "memory_high",
    title: "Jobs that are slowed down at their memory limit",
    reads: "memory.high, memory.events high of every v2 cgroup with GPU processes and of those above it",
    expected: Expected::always("no memory.high that is ever passed"),
    why: "Above memory.high every allocation of the job has to free pages first, and is delayed besides. Nothing fails and \
          nothing is logged: the loaders get slow, and the GPU waits.",
    fixes: &[Fix {
        command: "systemctl set-property --runtime UNIT MemoryHigh=infinity",
        lasting: Some("the same without --runtime; in Kubernetes it comes from the feature MemoryQoS"),
        restarts: "nothing",
        who: Who::Root,
        risk: "the job reaches its hard limit instead, and is killed there: raise that to the measured peak",
        gain: None,
    }],
    sources: &[kernel("Control Group v2: memory.high", CGROUP_V2), own("a warning")],
    run: |context, _| {
        let mut passed = Vec::new();
        for (path, folder) in folders(context, "")? {
            let limit = files::parse_optional(&folder.join("memory.high"), cgroup::limit)?.flatten();
            let mut times = 0;
            files::parse_optional(&folder.join("memory.events"), |text| {
                keyed::each(text, |key, value| times = if key == "high" { value } else { times })
            })?;
            passed.extend(limit.map(|limit| (path, limit, times)));
        }
        Ok(judge_high(&passed))
    },
};

/// Every cgroup with such a limit, and how often it was passed.
fn judge_high(groups: &[(String, u64, u64)]) -> Verdict {
    let passed = groups.iter().filter(|(.., times)| *times > 0);
    let spell = |(path, limit, times): &(String, u64, u64)| format!("{path}: {} passed {times} times", bytes(*limit));
    match passed.map(spell).collect::<Vec<_>>() {
        none if none.is_empty() => Verdict::new(Status::Pass, "none passed"),
        passed => Verdict::new(Status::Warn, list(&passed)),
    }
}

pub(super) static SWAP: Check = Check {
    id: "job_swap",
    title: "Jobs that may be swapped out",
    reads: "memory.swap.max of every v2 cgroup with GPU processes, /proc/swaps",
    expected: Expected::always("0, or no swap device"),
    why: "A limit of memory alone does not keep a job in memory: at the limit the kernel swaps it out where there is room, \
          and the job runs on, at the speed of a disk.",
    fixes: &[Fix {
        command: "systemctl set-property --runtime UNIT MemorySwapMax=0",
        lasting: Some("the same without --runtime; kubelet: memorySwap.swapBehavior: NoSwap"),
        restarts: "nothing",
        who: Who::Root,
        risk: "a job at its memory limit is killed instead of slowed down",
        gain: None,
    }],
    sources: &[
        kernel("Control Group v2: memory.swap.max", CGROUP_V2),
        own("a warning: swap_use tells whether it happens"),
    ],
    run: |context, _| {
        if swap::devices(context)?.is_empty() {
            return Err(Unread::Absent("no swap device".to_owned()));
        }
        let mut limits = Vec::new();
        for owner in jobs::owners(context)? {
            for folder in owner.places.iter().filter_map(|place| folder(context, place, "")) {
                let limit = files::parse_optional(&folder.join("memory.swap.max"), cgroup::limit)?;
                limits.extend(limit.map(|limit| (owner.id.clone(), limit)));
            }
        }
        judge_swap(&limits)
    },
};

fn judge_swap(limits: &[(String, Option<u64>)]) -> Result<Verdict, Unread> {
    if limits.is_empty() {
        return Err(Unread::Absent("no job with a cgroup of version 2 that counts swap holds a GPU".to_owned()));
    }
    let spell = |(owner, limit): &(String, Option<u64>)| match limit {
        None => format!("{owner} without limit"),
        Some(limit) => format!("{owner} up to {}", bytes(*limit)),
    };
    let may = limits.iter().filter(|(_, limit)| *limit != Some(0));
    Ok(match may.map(spell).collect::<Vec<_>>() {
        none if none.is_empty() => Verdict::new(Status::Pass, format!("none of {}", count(limits.len(), "job"))),
        may => Verdict::new(Status::Warn, list(&may)),
    })
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

    #[test]
    fn memory() {
        let high = |times| [("/a".to_owned(), 1 << 30, times)];
        assert_eq!(said(&judge_high(&high(3))), (Warn, "/a: 1 GiB passed 3 times"));
        assert_eq!((judge_high(&high(0)).status, judge_high(&[]).status), (Pass, Pass));
        let swap = |limit| judge_swap(&[("a".to_owned(), limit)]).unwrap();
        assert_eq!(said(&swap(None)), (Warn, "a without limit"));
        assert_eq!(said(&swap(Some(1 << 30))), (Warn, "a up to 1 GiB"));
        assert_eq!(said(&swap(Some(0))), (Pass, "none of 1 job"));
        assert!(judge_swap(&[]).is_err());
    }
}
