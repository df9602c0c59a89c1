//! The kernel, and how PCI devices reach memory.

use goodput_exporter::audit::Status;

use super::{Case, Odd, case};

pub(super) const TUNED: &[(&str, &str)] = &[
    ("proc/pressure/memory", "some avg10=0.00 total=1\nfull avg10=0.00 total=1\n"),
    ("proc/sys/kernel/tainted", "12289\n"),
    ("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet iommu=pt\n"),
    ("proc/loadavg", "8.20 8.18 8.12 9/4180 11206\n"),
    ("proc/sys/kernel/pid_max", "4194304\n"),
    ("proc/sys/kernel/threads-max", "8255000\n"),
    ("proc/sys/fs/file-nr", "21312\t0\t9223372036854775807\n"),
    ("proc/sys/kernel/arch", "x86_64\n"),
    ("sys/bus/pci/devices/0000:1a:00.0/iommu_group/type", "identity\n"),
    ("sys/bus/pci/devices/0000:5e:00.0/iommu_group/type", "identity\n"),
    ("sys/module/pcie_aspm/parameters/policy", "[default] performance powersave powersupersave\n"),
];

pub(super) const WRONG: &[Case] = &[
    case(
        "cgroup_version",
        "sys/fs/cgroup/cgroup.controllers",
        "cpuset cpu io pids\n",
        Status::Warn,
        "version 2 without memory",
        "cgroup_disable",
    ),
    case("kernel_taint", "proc/sys/kernel/tainted", "4225\n", Status::Fail, "an oops", "reboot"),
    case(
        "kernel_parameters",
        "proc/cmdline",
        "root=/dev/sda1 mem=64G\n",
        Status::Warn,
        "mem=64G (leaves memory out)",
        "remove mem=64G from",
    ),
    case(
        "task_limit",
        "proc/sys/kernel/pid_max",
        "4194\n",
        Status::Warn,
        "4180 tasks of 4194",
        "kernel.pid_max=4194304",
    ),
    case(
        "file_handles",
        "proc/sys/fs/file-nr",
        "90000\t0\t100000\n",
        Status::Warn,
        "90000 open files of 100000",
        "fs.file-max",
    ),
    case(
        "iommu",
        "sys/bus/pci/devices/0000:5e:00.0/iommu_group/type",
        "DMA-FQ\n",
        Status::Warn,
        "GPU 1: DMA-FQ",
        "iommu=pt",
    ),
    case(
        "pcie_power_saving",
        "sys/module/pcie_aspm/parameters/policy",
        "default performance [powersave] powersupersave\n",
        Status::Warn,
        "powersave",
        "echo performance",
    ),
];

pub(super) const ODD: &[Odd] = &[
    ("cgroup_version", "sys/fs/cgroup/cgroup.controllers", None, Status::Warn),
    ("cgroup_version", "sys/fs/cgroup", None, Status::NotApplicable),
    ("psi", "proc/pressure", None, Status::Warn),
    ("psi", "proc/pressure/memory", Some("none\n"), Status::Error),
    ("psi", "proc/sys/kernel/osrelease", None, Status::NotApplicable),
    ("kernel_taint", "proc/sys/kernel/tainted", None, Status::NotApplicable),
    ("kernel_taint", "proc/sys/kernel/tainted", Some("G\n"), Status::Error),
    ("kernel_parameters", "proc/cmdline", None, Status::NotApplicable),
    ("task_limit", "proc/loadavg", Some("much\n"), Status::Error),
    ("task_limit", "proc/sys/kernel/threads-max", None, Status::NotApplicable),
    ("file_handles", "proc/sys/fs/file-nr", None, Status::NotApplicable),
    ("file_handles", "proc/sys/fs/file-nr", Some("1 0\n"), Status::Error),
    ("iommu", "sys/bus/pci/devices/0000:1a:00.0/iommu_group", None, Status::Pass),
    ("iommu", "proc/sys/kernel/arch", Some("aarch64\n"), Status::NotApplicable),
    ("pcie_power_saving", "sys/module/pcie_aspm", None, Status::NotApplicable),
    ("pcie_power_saving", "sys/module/pcie_aspm/parameters/policy", Some("default\n"), Status::Error),
];
