//! One file at a time: wrong, absent, not permitted, malformed.

use std::os::unix::fs::symlink;
use std::path::Path;

use goodput_exporter::audit::checks::CHECKS;
use goodput_exporter::audit::{Finding, Profile, Status};

use super::{finding, tuned};
use crate::support::Machine;

mod devices;
pub(super) use devices::REDIRECTED;
mod gpus;
mod jobs;
mod kernel;
mod machine;
mod services;

/// One check, the file of the tuned machine that it depends on most, and a text that it should complain about.
pub(super) struct Case {
    check: &'static str,
    pub(super) path: &'static str,
    pub(super) text: &'static str,
    status: Status,
    /// What the finding has to mention.
    read: &'static str,
    /// What the first command has to mention.
    command: &'static str,
}

const fn case(
    check: &'static str,
    path: &'static str,
    text: &'static str,
    status: Status,
    read: &'static str,
    command: &'static str,
) -> Case {
    Case { check, path, text, status, read, command }
}

/// A check, a file of the tuned machine, what it holds instead or nothing when it is removed, and how the check ends then.
type Odd = (&'static str, &'static str, Option<&'static str>, Status);

/// Every file that is wrong, in the order of the checks.
pub(super) fn wrong() -> impl Iterator<Item = &'static Case> {
    [WRONG, gpus::WRONG, kernel::WRONG, jobs::WRONG, machine::WRONG, devices::WRONG, services::WRONG]
        .into_iter()
        .flatten()
}

fn odd() -> impl Iterator<Item = &'static Odd> {
    [ODD, gpus::ODD, kernel::ODD, jobs::ODD, machine::ODD, devices::ODD, services::ODD].into_iter().flatten()
}

/// What the tuned machine has for the checks of the files below.
pub(super) fn tuned_files() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    [gpus::TUNED, kernel::TUNED, jobs::TUNED, machine::TUNED, devices::TUNED, services::TUNED].into_iter().flatten()
}

/// Checks that nothing in a file makes fail: they ask NVML alone and have their own tests, or judge by its absence.
const NOT_OF_FILES: &[&str] = &[
    "persistence_mode",
    "pcie_link",
    "gpu_models",
    "power_limit",
    "gpu_throttle",
    "gpu_ecc_errors",
    "row_remap",
    "page_retirement",
    "recovery_action",
    "ecc_mode",
    "mig_pending",
    "compute_mode",
    "allocator",
    "clock_limit",
    "gpu_sharing",
    "pod_qos",
    "psi",
];

const WRONG: &[Case] = &[
    case("gpu_numa_node", "sys/bus/pci/devices/0000:5e:00.0/numa_node", "-1\n", Status::Warn, "GPU 1", "firmware"),
    case(
        "job_cpus",
        "proc/100/status",
        "VmSwap:\t0 kB\nCpus_allowed_list:\t4-7\n",
        Status::Fail,
        "pid 100 may run on CPUs 4-7, its GPUs are on node 0",
        "numactl --cpunodebind=0 --membind=0",
    ),
    case("numa_balancing", "proc/sys/kernel/numa_balancing", "1\n", Status::Warn, "1", "kernel.numa_balancing=0"),
    case(
        "thp_enabled",
        "sys/kernel/mm/transparent_hugepage/enabled",
        "[always] madvise never\n",
        Status::Warn,
        "always",
        "echo madvise",
    ),
    case(
        "thp_defrag",
        "sys/kernel/mm/transparent_hugepage/defrag",
        "[always] defer defer+madvise madvise never\n",
        Status::Warn,
        "always",
        "echo madvise",
    ),
    case("swappiness", "proc/sys/vm/swappiness", "60\n", Status::Warn, "60", "vm.swappiness=10"),
    case(
        "swap_use",
        "proc/swaps",
        "Filename Type Size Used Priority\n/dev/sda2 partition 8388604 2048 -2\n",
        Status::Warn,
        "2 MiB, none of a GPU process",
        "swapoff",
    ),
    case(
        "memlock",
        "proc/200/limits",
        "Max locked memory 65536 65536 bytes\n",
        Status::Fail,
        "64 KiB for pid 200",
        "LimitMEMLOCK=infinity",
    ),
    case(
        "dirty_limits",
        "proc/sys/vm/dirty_background_bytes",
        "21474836480\n",
        Status::Warn,
        "begins at 20 GiB",
        "vm.dirty_background_bytes=1073741824",
    ),
    case(
        "cpu_governor",
        "sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
        "schedutil\n",
        Status::Warn,
        "schedutil",
        "cpupower frequency-set -g performance",
    ),
    case(
        "cpu_idle_states",
        "sys/devices/system/cpu/cpu0/cpuidle/state2/disable",
        "0\n",
        Status::Warn,
        "C6 290 us on 1 CPU",
        "--disable-by-latency 100",
    ),
    case("isolated_cpus", "sys/devices/system/cpu/isolated", "4-7\n", Status::Fail, "pid 200 on CPUs 4-7", "isolcpus="),
    case(
        "tickless_cpus",
        "sys/devices/system/cpu/nohz_full",
        "1-3\n",
        Status::Warn,
        "pid 100 may run on CPUs 0-3",
        "nohz_full=",
    ),
    case(
        "smt_cores",
        "sys/devices/system/cpu/cpu4/topology/thread_siblings_list",
        "3-4\n",
        Status::Warn,
        "slurm-100 and slurm-200 share the cores of CPUs 4",
        "full-pcpus-only",
    ),
    case(
        "loader_cpus",
        "proc/102/status",
        "Cpus_allowed_list:\t0\n",
        Status::Fail,
        "2 workers of pid 100 on CPUs 0",
        "--bind-to none",
    ),
    case(
        "clocksource",
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        "hpet\n",
        Status::Fail,
        "hpet",
        "kernel log",
    ),
    case("time_sync", "proc/50/comm", "sshd\n", Status::Warn, "no sign", "chronyd"),
    case(
        "irq_affinity",
        "proc/irq/31/effective_affinity_list",
        "2\n",
        Status::Warn,
        "31 of nic 0000:3b:00.0 on CPU 2",
        "echo 4-7 > /proc/irq/31/smp_affinity_list",
    ),
    case("driver_modules", "proc/modules", "nvidia 1 0 - Live 0x0\n", Status::Fail, "nvidia_uvm", "modprobe"),
    case(
        "driver_version",
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Release Build\n",
        Status::Fail,
        "module 570.86.15, library 580.105.08",
        "reboot",
    ),
    case(
        "gpudirect_rdma",
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Release Build\n",
        Status::Warn,
        "proprietary",
        "nvidia_peermem",
    ),
    case(
        "hugetlb_pools",
        "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
        "64\n",
        Status::Warn,
        "unused: 128 MiB in pages of 2048kB",
        "echo 0 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
    ),
    case(
        "cpu_quota",
        "sys/fs/cgroup/system.slice/slurmstepd.scope/job_100/cpu.stat",
        "usage_usec 1000000\nnr_periods 100\nnr_throttled 30\n",
        Status::Fail,
        "slurm-100: quota 2.0 CPUs of 4, throttled in 30.0 % of periods",
        "resources.limits.cpu",
    ),
    case(
        "memory_limit",
        "sys/fs/cgroup/system.slice/slurmstepd.scope/job_100/memory.max",
        "max\n",
        Status::Warn,
        "slurm-100",
        "memory.peak",
    ),
];

/// Where the tuned machine lacks the file, or has nonsense in it.
const ODD: &[Odd] = &[
    ("gpu_numa_node", "sys/bus/pci/devices/0000:1a:00.0/numa_node", None, Status::Warn),
    ("gpu_numa_node", "sys/bus/pci/devices/0000:1a:00.0/numa_node", Some("near\n"), Status::Error),
    ("gpu_numa_node", "sys/devices/system/node/node1/cpulist", None, Status::NotApplicable),
    ("job_cpus", "sys/devices/system/node/node1/cpulist", None, Status::NotApplicable),
    ("job_cpus", "proc/100/status", Some("Cpus_allowed_list:\tall\n"), Status::Error),
    ("numa_balancing", "proc/sys/kernel/numa_balancing", None, Status::NotApplicable),
    ("tickless_cpus", "sys/devices/system/cpu/nohz_full", None, Status::NotApplicable),
    ("tickless_cpus", "sys/devices/system/cpu/nohz_full", Some("most\n"), Status::Error),
    ("smt_cores", "sys/devices/system/cpu/smt/active", None, Status::NotApplicable),
    ("smt_cores", "sys/devices/system/cpu/smt/active", Some("0\n"), Status::Pass),
    ("smt_cores", "sys/devices/system/cpu/smt/active", Some("yes\n"), Status::Error),
    ("smt_cores", "sys/devices/system/cpu/cpu4/topology/thread_siblings_list", Some("four\n"), Status::Error),
    ("loader_cpus", "proc/100/task/100/children", None, Status::NotApplicable),
    ("loader_cpus", "proc/102/status", None, Status::Pass),
    ("loader_cpus", "proc/102/status", Some("Cpus_allowed_list:\tall\n"), Status::Error),
    ("numa_balancing", "proc/sys/kernel/numa_balancing", Some("on\n"), Status::Error),
    ("thp_enabled", "sys/kernel/mm/transparent_hugepage/enabled", None, Status::NotApplicable),
    ("thp_enabled", "sys/kernel/mm/transparent_hugepage/enabled", Some("madvise\n"), Status::Error),
    ("thp_defrag", "sys/kernel/mm/transparent_hugepage/defrag", None, Status::NotApplicable),
    (
        "thp_defrag",
        "sys/kernel/mm/transparent_hugepage/enabled",
        Some("always madvise [never]\n"),
        Status::NotApplicable,
    ),
    ("hugetlb_pools", "sys/kernel/mm/hugepages", None, Status::NotApplicable),
    ("hugetlb_pools", "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", Some("-1\n"), Status::Error),
    ("swappiness", "proc/sys/vm/swappiness", None, Status::NotApplicable),
    ("swappiness", "proc/swaps", Some("Filename Type Size Used Priority\n"), Status::NotApplicable),
    ("swappiness", "proc/swaps", Some("Filename\n/dev/sda2 partition much\n"), Status::Error),
    ("swap_use", "proc/swaps", None, Status::NotApplicable),
    ("swap_use", "proc/100/status", Some("VmSwap:\tmuch\n"), Status::Error),
    ("memlock", "sys/class/infiniband", None, Status::NotApplicable),
    ("memlock", "proc/100/limits", Some("Max locked memory much\n"), Status::Error),
    ("dirty_limits", "proc/sys/vm/dirty_ratio", None, Status::NotApplicable),
    ("dirty_limits", "proc/meminfo", Some("MemTotal: 1 kB\n"), Status::NotApplicable),
    ("dirty_limits", "proc/meminfo", Some("MemAvailable: 1 MB\n"), Status::Error),
    ("cpu_governor", "sys/devices/system/cpu/cpufreq", None, Status::NotApplicable),
    ("cpu_idle_states", "sys/devices/system/cpu/cpu0/cpuidle", None, Status::NotApplicable),
    ("cpu_idle_states", "sys/devices/system/cpu/cpu0/cpuidle/state1/latency", Some("short\n"), Status::Error),
    ("isolated_cpus", "sys/devices/system/cpu/isolated", None, Status::NotApplicable),
    ("isolated_cpus", "sys/devices/system/cpu/isolated", Some("all\n"), Status::Error),
    ("clocksource", "sys/devices/system/clocksource", None, Status::NotApplicable),
    ("time_sync", "run", None, Status::Warn),
    ("time_sync", "run/chrony/chronyd.pid", Some("me\n"), Status::Error),
    ("irq_affinity", "proc/interrupts", None, Status::NotApplicable),
    ("irq_affinity", "proc/irq", None, Status::NotApplicable),
    ("irq_affinity", "proc/interrupts", Some("eth0\n"), Status::Error),
    ("driver_modules", "proc/modules", None, Status::NotApplicable),
    ("driver_modules", "sys/bus/pci/devices/0000:1a:00.0/class", Some("vga\n"), Status::Error),
    ("driver_version", "proc/driver", None, Status::NotApplicable),
    ("driver_version", "proc/driver/nvidia/version", Some("unknown\n"), Status::Error),
    ("gpudirect_rdma", "sys/class/infiniband", None, Status::NotApplicable),
    ("gpudirect_rdma", "proc/driver", None, Status::NotApplicable),
    ("cpu_quota", "sys/fs/cgroup/system.slice/slurmstepd.scope/job_100/cpu.max", Some("much\n"), Status::Error),
    ("memory_limit", "sys/fs/cgroup/system.slice/slurmstepd.scope/job_100/memory.max", Some("-1\n"), Status::Error),
];

/// Runs one check on the machine with one file spoilt, and puts the file back.
fn spoilt(machine: &Machine, check: &str, path: &str, spoil: impl FnOnce(&Path)) -> Finding {
    let place = machine.path(path);
    let text = std::fs::read_to_string(&place).unwrap_or_else(|error| panic!("{check}: {path}: {error}"));
    spoil(&place);
    let found = finding(machine, Profile::Mixed, check);
    std::fs::remove_file(&place).unwrap();
    machine.write(path, &text);
    found
}

#[test]
fn one_wrong_file_at_a_time() {
    let machine = tuned::machine();
    for case in wrong() {
        let found = spoilt(&machine, case.check, case.path, |place| std::fs::write(place, case.text).unwrap());
        assert_eq!(found.status, case.status, "{}: {}", case.check, found.read);
        assert!(found.read.contains(case.read), "{}: {}", case.check, found.read);
        assert!(found.commands[0].contains(case.command), "{}: {:?}", case.check, found.commands);
    }
}

#[test]
fn every_check_has_a_wrong_case() {
    for check in CHECKS.iter().filter(|check| !NOT_OF_FILES.contains(&check.id)) {
        assert!(wrong().any(|case| case.check == check.id), "{}", check.id);
        assert!(odd().any(|(id, ..)| *id == check.id), "{}", check.id);
    }
}

#[test]
fn malformed_files() {
    let machine = tuned::machine();
    for (check, path, text, status) in odd() {
        let Some(text) = text else { continue };
        let found = spoilt(&machine, check, path, |place| std::fs::write(place, text).unwrap());
        assert_eq!(found.status, *status, "{check} {path} {text:?}: {}", found.read);
    }
}

#[test]
fn absent_files_and_folders() {
    for (check, path, _, status) in odd().filter(|(_, _, text, _)| text.is_none()) {
        let machine = tuned::machine();
        let place = machine.path(path);
        match place.is_dir() {
            true => std::fs::remove_dir_all(place).unwrap(),
            false => std::fs::remove_file(place).unwrap(),
        }
        let found = finding(&machine, Profile::Mixed, check);
        assert_eq!(found.status, *status, "{check} without {path}: {}", found.read);
    }
}

/// The kernel lets no user read this file, not even root.
const UNREADABLE: &str = "/proc/sys/vm/drop_caches";

#[test]
fn what_may_not_be_read_is_named_with_what_would_allow_it() {
    let machine = tuned::machine();
    // What a program prints is read by that program, whose error is its own.
    for case in wrong().filter(|case| !case.path.starts_with("output/")) {
        let found = spoilt(&machine, case.check, case.path, |place| {
            std::fs::remove_file(place).unwrap();
            symlink(UNREADABLE, place).unwrap();
        });
        assert_eq!(found.status, Status::NoPermission, "{}: {}", case.check, found.read);
        assert!(found.read.contains(case.path), "{}", found.read);
        assert!(found.commands[0].contains("root"), "{:?}", found.commands);
    }
}
