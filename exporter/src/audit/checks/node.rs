//! The kernel as it was started, what it has been through, and what is left of its own limits.

use super::*;
use crate::parse::{ParseError, number, pressure};
use crate::source::files;

/// With this share of a limit of the whole kernel in use, the next large job will reach the limit.
const MUCH_OF_A_LIMIT: f64 = 0.8;

pub(super) static CGROUP_VERSION: Check = Check {
    id: "cgroup_version",
    title: "Version of control groups",
    reads: "cgroup.controllers at the root of the cgroup mount",
    families: &[],
    expected: Expected::always("version 2, with the controllers cpu, cpuset, io, memory and pids"),
    why: "Only version 2 tells how long a job waits for CPU, memory and storage (pressure), slows a job down before it \
          kills it (memory.high), and counts buffered writes against the job that made them. Kubernetes and systemd \
          no longer develop for version 1.",
    fixes: &[Fix {
        command: "kernel parameters: systemd.unified_cgroup_hierarchy=1, without cgroup_disable=",
        restarts: "the node",
        risk: "container runtime, kubelet and Slurm have to be new enough and told so (cgroup driver systemd, \
               CgroupPlugin=cgroup/v2)",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("Control Group v2", CGROUP_V2),
        vendor("Kubernetes, About cgroup v2", "https://kubernetes.io/docs/concepts/architecture/cgroups/"),
    ],
    run: |context, _| {
        let root = &context.roots.cgroup;
        let words = |text: &str| Ok::<_, ParseError>(text.split_ascii_whitespace().map(str::to_owned).collect());
        let controllers: Option<Vec<String>> = files::parse_optional(&root.join("cgroup.controllers"), words)?;
        match (controllers, files::list(root)?.is_some_and(|names| !names.is_empty())) {
            (Some(controllers), _) => Ok(judge_controllers(&controllers)),
            (None, true) => Ok(Verdict::new(Status::Warn, "version 1")),
            (None, false) => Err(Unread::Absent("no control groups here".to_owned())),
        }
    },
};

fn judge_controllers(there: &[String]) -> Verdict {
    let wanted = ["cpu", "cpuset", "io", "memory", "pids"].map(str::to_owned);
    let missing: Vec<String> = wanted.into_iter().filter(|name| !there.contains(name)).collect();
    match missing.is_empty() {
        true => Verdict::new(Status::Pass, "version 2"),
        false => Verdict::new(Status::Warn, format!("version 2 without {}", list(&missing))),
    }
}

pub(super) static PSI: Check = Check {
    id: "psi",
    title: "Pressure stall information",
    reads: "/proc/pressure/memory, /proc/sys/kernel/osrelease",
    families: &[&catalog::host::PRESSURE_WAITING],
    expected: Expected::always("there"),
    why: "It is the only file in which the kernel says how long tasks waited for CPU, memory and storage. Without it a job \
          that starves beside its GPU looks like one that has nothing to do.",
    fixes: &[Fix {
        command: "kernel parameter: psi=1",
        restarts: "the node",
        risk: "some nanoseconds per wake-up, which is why some distributions leave it off",
        ..Fix::USUAL
    }],
    sources: &[kernel("PSI, Pressure Stall Information", "https://docs.kernel.org/accounting/psi.html")],
    run: |context, _| {
        let there = files::parse_optional(&context.roots.proc.join("pressure/memory"), pressure::parse)?.is_some();
        let release = files::read(&context.roots.proc.join("sys/kernel/osrelease"))?;
        Ok(judge_psi(there, release.trim()))
    },
};

fn judge_psi(there: bool, release: &str) -> Verdict {
    let mut parts = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = parts.next().zip(parts.next());
    match (there, version) {
        (true, _) => Verdict::new(Status::Pass, "there"),
        // It came with 4.20.
        (false, Some(version)) if version < (4, 20) => {
            Verdict::new(Status::NotApplicable, format!("kernel {release} has none"))
        }
        (false, _) => Verdict::new(Status::Warn, "switched off"),
    }
}

pub(super) static TAINT: Check = Check {
    id: "kernel_taint",
    title: "What the kernel has been through",
    reads: "/proc/sys/kernel/tainted",
    families: &[],
    expected: Expected::always("no oops, bad page, machine check or soft lockup since boot; other bits are not judged"),
    why: "After an oops or a corrupted page the kernel goes on with a part of it broken: locks that nobody holds, memory \
          that is lost. Jobs then hang in ways that no log of theirs explains.",
    fixes: &[Fix {
        command: "read the kernel log for the first such event, drain the node, then: systemctl reboot",
        restarts: "the node",
        risk: "jobs that are not drained are lost",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("Tainted kernels", "https://docs.kernel.org/admin-guide/tainted-kernels.html"),
        own("oopses and bad pages are failures, machine checks and lockups that were survived are warnings"),
    ],
    run: |context, _| Ok(judge_taint(files::parse(&context.roots.proc.join("sys/kernel/tainted"), number)?)),
};

/// The bits that tell of damage; those for modules that are not from the kernel's sources are set with any NVIDIA driver.
const TAINTS: [(u32, &str, Status); 4] = [
    (7, "an oops", Status::Fail),
    (5, "a bad page", Status::Fail),
    (4, "a machine check", Status::Warn),
    (14, "a soft lockup", Status::Warn),
];

fn judge_taint(bits: u64) -> Verdict {
    let set: Vec<_> = TAINTS.iter().filter(|(bit, ..)| bits >> bit & 1 == 1).collect();
    match set.iter().map(|(.., status)| *status).min() {
        None => Verdict::new(Status::Pass, format!("nothing that counts ({bits})")),
        Some(status) => Verdict::new(status, list(&set.iter().map(|(_, n, _)| (*n).to_owned()).collect::<Vec<_>>())),
    }
}

pub(super) static PARAMETERS: Check = Check {
    id: "kernel_parameters",
    title: "Kernel parameters that are left over",
    reads: "/proc/cmdline",
    families: &[],
    expected: Expected::always("none that hides memory, CPUs or NUMA nodes, or that is for debugging"),
    why: "What somebody added for one experiment stays for years, and is in the image of every node by then. Nothing else \
          shows why half of the memory or of the CPUs is missing.",
    fixes: &[Fix {
        command: "remove PARAMETER from GRUB_CMDLINE_LINUX in /etc/default/grub, then: update-grub",
        restarts: "the node",
        risk: "it may have been there for a device that fails without it",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("Kernel parameters", "https://docs.kernel.org/admin-guide/kernel-parameters.html"),
        own("which of them are worth a word on a node with GPUs"),
    ],
    run: |context, _| Ok(judge_parameters(&files::read(&context.roots.proc.join("cmdline"))?)),
};

/// A word or how it begins, what it does, and how bad that is.
const PARAMETER_FAULTS: [(&str, &str, Status); 12] = [
    ("numa=off", "hides the NUMA nodes", Status::Fail),
    ("acpi=off", "hides NUMA nodes, CPUs and interrupts", Status::Fail),
    ("nosmp", "leaves one CPU", Status::Fail),
    ("pci=nomsi", "one interrupt line for all queues of a device", Status::Fail),
    ("maxcpus=", "leaves CPUs out", Status::Warn),
    ("nr_cpus=", "leaves CPUs out", Status::Warn),
    ("mem=", "leaves memory out", Status::Warn),
    ("pcie_aspm=force", "links fall asleep against the devices' word", Status::Warn),
    ("page_poison=1", "every page is filled when it is freed", Status::Warn),
    ("debug_pagealloc=on", "every page is unmapped when it is freed", Status::Warn),
    ("slub_debug", "every object is checked", Status::Warn),
    ("slab_debug", "every object is checked", Status::Warn),
];

fn judge_parameters(text: &str) -> Verdict {
    let fault = |word: &&str| {
        let is = |name: &str| {
            if name.ends_with('=') { word.starts_with(name) } else { word.split(',').next() == Some(name) }
        };
        let debug = |name: &str| name.ends_with("_debug") && word.split('=').next() == Some(name);
        PARAMETER_FAULTS.iter().find(|(name, ..)| is(name) || debug(name))
    };
    // What follows -- is for init.
    let words = text.split_ascii_whitespace().take_while(|word| *word != "--");
    let found: Vec<(&str, &(&str, &str, Status))> = words.filter_map(|word| Some((word, fault(&word)?))).collect();
    let Some(worst) = found.iter().map(|(_, (.., status))| *status).min() else {
        return Verdict::new(Status::Pass, "none");
    };
    let read: Vec<String> = found.iter().map(|(word, (_, what, _))| format!("{word} ({what})")).collect();
    let words: Vec<&str> = found.iter().map(|(word, _)| *word).collect();
    let command =
        format!("remove {} from GRUB_CMDLINE_LINUX in /etc/default/grub, then: update-grub", words.join(" and "));
    Verdict::new(worst, list(&read)).with(vec![command])
}

pub(super) static TASKS: Check = Check {
    id: "task_limit",
    title: "Room for more tasks",
    reads: "/proc/loadavg, /proc/sys/kernel/{pid_max,threads-max}",
    families: &[],
    expected: Expected::always("fewer than 80 % of either limit in use"),
    why: "At either limit no process of any job can start a thread. Eight ranks with sixteen loaders each, all with a \
          thread pool as wide as the machine, are tens of thousands of tasks.",
    fixes: &[Fix {
        command: "sysctl -w kernel.pid_max=4194304 kernel.threads-max=4194304",
        lasting: Some("the same lines in /etc/sysctl.d/90-gpu-tasks.conf"),
        risk: "a job that starts tasks without end is stopped later: limit it by its own pids.max",
        ..Fix::USUAL
    }],
    sources: &[kernel("sysctl/kernel: pid_max, threads-max", SYSCTL_KERNEL), own("the threshold of 80 %")],
    run: |context, _| {
        let tasks = files::parse(&context.roots.proc.join("loadavg"), tasks)?;
        let limit = |name: &str| files::parse(&context.roots.proc.join("sys/kernel").join(name), number::<u64>);
        Ok(judge_share(tasks, limit("pid_max")?.min(limit("threads-max")?), "tasks"))
    },
};

/// The number behind the slash of `0.20 0.18 0.12 1/80 11206`.
fn tasks(text: &str) -> Result<u64, ParseError> {
    let word = text.split_ascii_whitespace().nth(3).and_then(|word| word.split_once('/'));
    word.and_then(|(_, all)| all.parse().ok()).ok_or_else(|| ParseError::new(1, "loads, then running/all tasks", text))
}

fn judge_share(used: u64, limit: u64, what: &str) -> Verdict {
    let status = if used as f64 >= MUCH_OF_A_LIMIT * limit as f64 { Status::Warn } else { Status::Pass };
    Verdict::new(status, format!("{used} {what} of {limit}"))
}

pub(super) static FILES: Check = Check {
    id: "file_handles",
    title: "Room for more open files",
    reads: "/proc/sys/fs/file-nr",
    families: &[],
    expected: Expected::always("fewer than 80 % of fs.file-max in use"),
    why: "At the limit no process of any job but root's can open a file, a socket or a shared-memory segment.",
    fixes: &[Fix {
        command: "sysctl -w fs.file-max=9223372036854775807",
        lasting: Some("echo 'fs.file-max = 9223372036854775807' > /etc/sysctl.d/90-gpu-files.conf"),
        risk: "a program that leaks files is stopped by its own limit only",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("sysctl/fs: file-max and file-nr", "https://docs.kernel.org/admin-guide/sysctl/fs.html"),
        own("the threshold of 80 %"),
    ],
    run: |context, _| {
        let (used, limit) = files::parse(&context.roots.proc.join("sys/fs/file-nr"), handles)?;
        Ok(judge_share(used, limit, "open files"))
    },
};

/// Open files and their limit; the number between was free ones, long ago.
fn handles(text: &str) -> Result<(u64, u64), ParseError> {
    let numbers: Vec<u64> = text.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    match numbers.as_slice() {
        [used, _, limit] => Ok((*used, *limit)),
        _ => Err(ParseError::new(1, "three numbers", text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Fail, NotApplicable, Pass, Warn};

    #[test]
    fn controllers() {
        let there = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(judge_controllers(&there("cpuset cpu io memory hugetlb pids")).status, Pass);
        let verdict = judge_controllers(&there("cpuset cpu pids"));
        assert_eq!((verdict.status, verdict.read.as_str()), (Warn, "version 2 without io, memory"));
    }

    #[test]
    fn pressure() {
        for (there, release, status) in [
            (true, "6.8.0-45-generic", Pass),
            (false, "6.8.0-45-generic", Warn),
            (false, "4.18.0-553.el8", NotApplicable),
            (false, "4.20.0", Warn),
            (false, "5.4-rc1", Warn),
            (false, "custom", Warn),
        ] {
            assert_eq!(judge_psi(there, release).status, status, "{there} {release}");
        }
    }

    #[test]
    fn taints() {
        // Proprietary, out of tree, unsigned.
        assert_eq!(judge_taint(1 | 1 << 12 | 1 << 13).status, Pass);
        assert_eq!(judge_taint(1 << 4 | 1 << 14).read, "a machine check, a soft lockup");
        assert_eq!(judge_taint(1 << 4).status, Warn);
        assert_eq!(judge_taint(1 << 7 | 1 << 4).status, Fail);
    }

    #[test]
    fn parameters() {
        for (text, status) in [
            ("root=/dev/sda quiet iommu=pt crashkernel=512M\n", Pass),
            ("quiet -- mem=4G", Pass),
            ("memmap=4G$8G slub_debugger", Pass),
            ("mem=4G", Warn),
            ("slub_debug=FZP", Warn),
            ("slub_debug", Warn),
            ("pci=nomsi,noaer", Fail),
            ("maxcpus=8 numa=off", Fail),
        ] {
            assert_eq!(judge_parameters(text).status, status, "{text}");
        }
        let verdict = judge_parameters("mem=4G quiet numa=off");
        assert_eq!(verdict.read, "mem=4G (leaves memory out), numa=off (hides the NUMA nodes)");
        assert!(verdict.commands[0].starts_with("remove mem=4G and numa=off from"), "{:?}", verdict.commands);
    }

    #[test]
    fn shares() {
        assert_eq!(tasks("0.20 0.18 0.12 1/80 11206\n"), Ok(80));
        assert!(tasks("0.20 0.18").is_err());
        assert_eq!(handles("9000\t0\t100000\n"), Ok((9000, 100_000)));
        assert!(handles("9000 0").is_err());
        assert_eq!(judge_share(79, 100, "tasks").status, Pass);
        assert_eq!(judge_share(80, 100, "tasks").read, "80 tasks of 100");
        assert_eq!(judge_share(80, 100, "tasks").status, Warn);
    }
}
