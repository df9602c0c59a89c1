//! A machine on which every check passes.

use goodput_catalog::dcgm::{Call, Read};
use goodput_exporter::source::nvml::{ComputeMode, Driver, MigMode, fields};

use super::cases;
use crate::support::Machine;

/// The processes on GPU 0 and GPU 1.
pub(super) const PIDS: [u32; 2] = [100, 200];

const FILES: &[(&str, &str)] = &[
    ("proc/sys/kernel/osrelease", "6.8.0-45-generic\n"),
    ("proc/sys/kernel/numa_balancing", "0\n"),
    ("sys/devices/system/node/node0/cpulist", "0-3\n"),
    ("sys/devices/system/node/node1/cpulist", "4-7\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("sys/kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise [madvise] never\n"),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "64\n"),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0\n"),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "0\n"),
    ("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 8388604 0 -2\n"),
    ("proc/sys/vm/swappiness", "10\n"),
    ("proc/sys/vm/dirty_background_bytes", "1073741824\n"),
    ("proc/sys/vm/dirty_background_ratio", "0\n"),
    ("proc/sys/vm/dirty_bytes", "0\n"),
    ("proc/sys/vm/dirty_ratio", "20\n"),
    ("proc/meminfo", "MemTotal: 2113396008 kB\nMemAvailable: 2000000000 kB\nHardwareCorrupted: 0 kB\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_driver", "intel_pstate\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference", "performance\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state0/disable", "0\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C1\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "2\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state2/name", "C6\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "290\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "1\n"),
    ("sys/devices/system/cpu/isolated", "\n"),
    ("sys/devices/system/cpu/nohz_full", "  (null)\n"),
    ("sys/devices/system/cpu/smt/active", "1\n"),
    ("sys/devices/system/cpu/smt/control", "on\n"),
    ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0-1\n"),
    ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "0-1\n"),
    ("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2-3\n"),
    ("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "2-3\n"),
    ("sys/devices/system/cpu/cpu4/topology/thread_siblings_list", "4-5\n"),
    ("sys/devices/system/cpu/cpu5/topology/thread_siblings_list", "4-5\n"),
    ("sys/devices/system/cpu/cpu6/topology/thread_siblings_list", "6-7\n"),
    ("sys/devices/system/cpu/cpu7/topology/thread_siblings_list", "6-7\n"),
    ("proc/100/task/100/children", "101 102\n"),
    ("proc/101/status", "Cpus_allowed_list:\t0\n"),
    ("proc/102/status", "Cpus_allowed_list:\t1\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm\n"),
    ("run/chrony/chronyd.pid", "50\n"),
    ("proc/50/comm", "chronyd\n"),
    (
        "proc/interrupts",
        "CPU0 CPU4\n30: 5 0 IR-PCI-MSIX-0000:1a:00.0 0-edge nvidia\n31: 0 5 IR-PCI-MSIX-0000:3b:00.0 0-edge mlx5\n",
    ),
    ("proc/irq/30/effective_affinity_list", "0\n"),
    ("proc/irq/31/effective_affinity_list", "4\n"),
    ("proc/modules", "nvidia_uvm 1 0 - Live 0x0\nnvidia 1 1 nvidia_uvm, Live 0x0\n"),
    (
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build\nGCC version: 13\n",
    ),
    ("sys/class/infiniband/mlx5_0/node_type", "1: CA\n"),
    ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n"),
];

/// Each GPU is on the socket of an RDMA device, the first below one switch with it, the second behind another host bridge.
const SLOTS: [(&str, &str); 4] = [
    ("sys/bus/pci/devices/0000:1a:00.0", "pci0000:17/0000:17:01.0/0000:18:00.0/0000:19:00.0/0000:1a:00.0"),
    ("sys/class/infiniband/mlx5_0/device", "pci0000:17/0000:17:01.0/0000:18:00.0/0000:19:01.0/0000:1b:00.0"),
    ("sys/bus/pci/devices/0000:5e:00.0", "pci0000:5d/0000:5d:01.0/0000:5e:00.0"),
    ("sys/class/infiniband/mlx5_1/device", "pci0000:98/0000:98:01.0/0000:99:00.0"),
];

const LIMITS: &str = "Limit Soft Limit Hard Limit Units\n\
    Max open files 1048576 1048576 files\n\
    Max locked memory unlimited unlimited bytes\n";

/// Two nodes of four CPUs, a GPU and a job on each; a NIC on node 1.
pub(super) fn machine() -> Machine {
    let mut machine = Machine::empty();
    for (link, path) in SLOTS {
        machine.slot(link, path);
    }
    for (path, text) in FILES.iter().chain(cases::tuned_files()) {
        machine.write(path, text);
    }
    ["dcb", "ethtool"].into_iter().for_each(|name| machine.program(name));
    for (address, class, node) in [("1a", "0x030200", 0), ("3b", "0x020700", 1), ("5e", "0x030200", 1)] {
        let folder = format!("sys/bus/pci/devices/0000:{address}:00.0");
        machine.write(&format!("{folder}/class"), &format!("{class}\n"));
        machine.write(&format!("{folder}/vendor"), "0x10de\n");
        machine.write(&format!("{folder}/numa_node"), &format!("{node}\n"));
        machine.write(&format!("{folder}/uevent"), "DRIVER=nvidia\n");
    }
    for (pid, cpus, node) in [(PIDS[0], "0-3", 0), (PIDS[1], "4-7", 1)] {
        job(&machine, pid, cpus, node);
    }
    machine.gpu("00000000:1A:00.0", &[PIDS[0]]);
    machine.gpu("00000000:5E:00.0", &[PIDS[1]]);
    machine.driver = Driver::Loaded { version: "580.105.08".to_owned() };
    let values = &mut machine.values;
    values.persistence_mode = Ok(true);
    values.compute_mode = Ok(ComputeMode::Default);
    values.mig_mode = Ok(MigMode { current: false, pending: false });
    for field in [fields::ECC_MODE, fields::ECC_MODE_PENDING] {
        values.set(Read::Field(field), Ok(1.0));
    }
    values.set(Read::Call(Call::PcieWidth), Ok(16.0));
    values.set(Read::Call(Call::PcieWidthMax), Ok(16.0));
    values.set(Read::Call(Call::PcieGeneration), Ok(5.0));
    values.set(Read::Call(Call::PcieGenerationMax), Ok(5.0));
    values.set(Read::Call(Call::GpuUtilization), Ok(97.0));
    values.set(Read::Call(Call::ClockEventReasons), Ok(0.0));
    for field in [fields::POWER_LIMIT_ENFORCED, fields::POWER_LIMIT_DEFAULT] {
        values.set(Read::Field(field), Ok(700_000.0));
    }
    for field in [
        fields::ECC_DBE_VOLATILE,
        fields::REMAP_PENDING,
        fields::REMAP_FAILURE,
        fields::RETIRED_PENDING,
        fields::RECOVERY_ACTION,
    ] {
        values.set(Read::Field(field), Ok(0.0));
    }
    machine
}

fn job(machine: &Machine, pid: u32, cpus: &str, node: u32) {
    let group = format!("system.slice/slurmstepd.scope/job_{pid}");
    let status = format!("Name:\tpython\nVmSwap:\t0 kB\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{node}\n");
    machine.write(&format!("proc/{pid}/status"), &status);
    machine.write(&format!("proc/{pid}/limits"), LIMITS);
    machine.write(&format!("proc/{pid}/cgroup"), &format!("0::/{group}\n"));
    for (file, text) in [
        ("cpuset.cpus.effective", cpus),
        ("cpu.max", "200000 100000"),
        ("cpu.stat", "usage_usec 1000000\nnr_periods 100\nnr_throttled 0"),
        ("memory.current", "60000000000"),
        ("memory.max", "100000000000"),
        ("memory.stat", "anon 50000000000\ninactive_file 10000000000"),
        ("memory.events", "oom_kill 0"),
    ] {
        machine.write(&format!("sys/fs/cgroup/{group}/{file}"), &format!("{text}\n"));
    }
}
