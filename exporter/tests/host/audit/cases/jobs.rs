//! Limits of the jobs on GPUs.

use goodput_exporter::audit::Status;

use super::{Case, Odd, case};

pub(super) const TUNED: &[(&str, &str)] = &[
    ("proc/100/oom_score_adj", "-997\n"),
    ("proc/200/oom_score_adj", "-997\n"),
    ("proc/100/maps", "7f00-7f01 r-xp 00000000 08:01 917 /usr/lib/x86_64-linux-gnu/libjemalloc.so.2\n"),
    ("proc/200/maps", "7f00-7f01 r-xp 00000000 08:01 917 /usr/lib/x86_64-linux-gnu/libjemalloc.so.2\n"),
    ("proc/100/mounts", "shm /dev/shm tmpfs rw,nosuid,size=67108864k 0 0\n"),
    ("proc/200/mounts", "shm /dev/shm tmpfs rw,nosuid,size=67108864k 0 0\n"),
    ("sys/fs/cgroup/system.slice/slurmstepd.scope/job_100/pids.current", "300\n"),
    ("sys/fs/cgroup/system.slice/slurmstepd.scope/job_100/pids.max", "max\n"),
    ("sys/fs/cgroup/system.slice/slurmstepd.scope/job_100/memory.high", "max\n"),
    ("sys/fs/cgroup/system.slice/slurmstepd.scope/job_100/memory.swap.max", "0\n"),
    ("sys/fs/cgroup/system.slice/slurmstepd.scope/job_200/memory.swap.max", "0\n"),
    ("sys/fs/cgroup/system.slice/slurmstepd.scope/pids.current", "600\n"),
    ("sys/fs/cgroup/system.slice/slurmstepd.scope/pids.max", "100000\n"),
    ("sys/fs/cgroup/system.slice/slurmstepd.scope/pids.events", "max 0\n"),
    ("sys/fs/cgroup/system.slice/slurmstepd.scope/cpu.max", "max 100000\n"),
    ("sys/fs/cgroup/system.slice/slurmstepd.scope/cpu.stat", "usage_usec 1\nnr_periods 100\nnr_throttled 90\n"),
    ("sys/fs/cgroup/system.slice/slurmstepd.scope/memory.current", "120000000000\n"),
    ("sys/fs/cgroup/system.slice/slurmstepd.scope/memory.stat", "inactive_file 0\n"),
    ("sys/fs/cgroup/system.slice/slurmstepd.scope/memory.max", "max\n"),
    ("sys/fs/cgroup/system.slice/memory.high", "200000000000\n"),
    ("sys/fs/cgroup/system.slice/memory.events", "low 0\nhigh 0\nmax 0\n"),
];

/// The first two are the limits of a cgroup above the job's own.
pub(super) const WRONG: &[Case] = &[
    case(
        "cpu_quota",
        "sys/fs/cgroup/system.slice/slurmstepd.scope/cpu.max",
        "300000 100000\n",
        Status::Fail,
        "/system.slice/slurmstepd.scope: quota 3.0 CPUs, throttled in 90.0 % of periods",
        "resources.limits.cpu",
    ),
    case(
        "memory_limit",
        "sys/fs/cgroup/system.slice/slurmstepd.scope/memory.max",
        "125000000000\n",
        Status::Warn,
        "/system.slice/slurmstepd.scope: uses 112 GiB, limit 116 GiB",
        "memory.peak",
    ),
    case(
        "pids_limit",
        "sys/fs/cgroup/system.slice/slurmstepd.scope/pids.max",
        "700\n",
        Status::Warn,
        "/system.slice/slurmstepd.scope: 600 tasks of 700",
        "podPidsLimit",
    ),
    case(
        "open_files",
        "proc/200/limits",
        "Max locked memory 65536 65536 bytes\nMax open files 1024 1048576 files\n",
        Status::Warn,
        "1024 for pid 200",
        "LimitNOFILE",
    ),
    case(
        "shm_size",
        "proc/200/mounts",
        "shm /dev/shm tmpfs rw,size=65536k 0 0\n",
        Status::Warn,
        "64 MiB for pid 200",
        "emptyDir",
    ),
    case("oom_priority", "proc/200/oom_score_adj", "1000\n", Status::Warn, "pid 200 has 1000", "Guaranteed"),
    case(
        "memory_high",
        "sys/fs/cgroup/system.slice/memory.events",
        "low 0\nhigh 12\nmax 0\n",
        Status::Warn,
        "/system.slice: 186 GiB passed 12 times",
        "MemoryHigh=infinity",
    ),
    case(
        "job_swap",
        "sys/fs/cgroup/system.slice/slurmstepd.scope/job_200/memory.swap.max",
        "max\n",
        Status::Warn,
        "slurm-200 without limit",
        "MemorySwapMax=0",
    ),
    case(
        "cpus_per_gpu",
        "sys/fs/cgroup/system.slice/slurmstepd.scope/job_200/cpu.max",
        "50000 100000\n",
        Status::Warn,
        "slurm-200: 0.5 CPUs for 1 GPU",
        "one CPU per GPU",
    ),
];

pub(super) const ODD: &[Odd] = &[
    ("cpu_quota", "sys/fs/cgroup/system.slice/slurmstepd.scope/cpu.max", Some("3\n"), Status::Error),
    ("pids_limit", "sys/fs/cgroup/system.slice/slurmstepd.scope/pids.max", None, Status::Pass),
    ("pids_limit", "sys/fs/cgroup/system.slice/slurmstepd.scope/pids.events", Some("max 3\n"), Status::Fail),
    ("pids_limit", "sys/fs/cgroup/system.slice/slurmstepd.scope/pids.max", Some("few\n"), Status::Error),
    ("open_files", "proc/100/limits", Some("Max open files many\n"), Status::Error),
    ("open_files", "proc/100/limits", Some("Max open files unlimited unlimited files\n"), Status::Pass),
    ("shm_size", "proc/100/mounts", Some("shm /dev/shm\n"), Status::Error),
    ("shm_size", "proc/100/mounts", Some("tmpfs /dev/shm tmpfs rw 0 0\n"), Status::Pass),
    ("oom_priority", "proc/100/oom_score_adj", Some("high\n"), Status::Error),
    ("memory_high", "sys/fs/cgroup/system.slice/memory.high", Some("max\n"), Status::Pass),
    ("memory_high", "sys/fs/cgroup/system.slice/memory.high", Some("-1\n"), Status::Error),
    ("job_swap", "proc/swaps", Some("Filename Type Size Used Priority\n"), Status::NotApplicable),
    ("job_swap", "sys/fs/cgroup/system.slice/slurmstepd.scope/job_200/memory.swap.max", Some("some\n"), Status::Error),
    ("cpus_per_gpu", "sys/fs/cgroup/system.slice/slurmstepd.scope/job_200/cpu.max", Some("much\n"), Status::Error),
];
