use goodput_exporter::collect::CollectError;
use goodput_exporter::source::files::FileError;

use crate::support::Machine;

#[test]
fn a_malformed_file_is_named_with_line_and_expectation() {
    let machine = Machine::recorded("sys-8n-sparse-node-ids", &["sys/devices/system/node"]);
    let path = "sys/devices/system/node/node33/numastat";
    machine.write(path, "numa_hit 5\nnuma_miss plenty\n");
    let collected = machine.collect("numa").ok();
    let text = format!(
        "{}: line 2: expected a key and an unsigned number, found \"numa_miss plenty\"",
        machine.path(path).display()
    );
    assert_eq!(collected.left(), text);
    assert_eq!(collected.count("goodput_numa_memory_total_bytes"), 8, "of every node");
    assert_eq!(collected.value("goodput_numa_hit_pages_total{node=\"33\"}"), 5.0);
}

#[test]
fn one_owners_malformed_file_leaves_the_other_owners() {
    let mut machine = Machine::empty();
    machine.write("sys/fs/cgroup/cgroup.controllers", "cpu\n");
    for (pid, tasks) in [(1, "4\n"), (2, "many\n"), (3, "6\n")] {
        machine.write(&format!("proc/{pid}/cgroup"), &format!("0::/lab/{pid}\n"));
        machine.write(&format!("sys/fs/cgroup/lab/{pid}/cpu.stat"), "usage_usec 1000000\n");
        machine.write(&format!("sys/fs/cgroup/lab/{pid}/pids.current"), tasks);
    }
    machine.gpu("00000000:1A:00.0", &[1, 2, 3]);
    let collected = machine.collect("cgroup").ok();
    let error = collected.left();
    assert!(error.ends_with("lab/2/pids.current: line 1: expected a number, found \"many\""), "{error}");
    assert_eq!(collected.count("goodput_cgroup_tasks"), 2);
    assert_eq!(collected.count("goodput_cgroup_cpu_usage_seconds_total"), 3);
}

#[test]
fn every_host_collector_names_garbage_once_and_does_without() {
    for (collector, path) in [
        ("node", "proc/stat"),
        ("node", "proc/meminfo"),
        ("pressure", "proc/pressure/io"),
        ("numa", "sys/devices/system/node/node0/meminfo"),
        ("numa", "sys/devices/system/node/node0/distance"),
        ("numa", "sys/devices/system/node/online"),
        ("numa", "proc/sys/kernel/numa_balancing"),
        ("numa", "proc/vmstat"),
        ("irq", "proc/interrupts"),
        ("irq", "proc/softirqs"),
        ("irq", "proc/net/softnet_stat"),
        ("irq", "sys/devices/system/node/node0/cpulist"),
        ("swap", "proc/swaps"),
        ("swap", "proc/vmstat"),
        ("swap", "proc/sys/vm/swappiness"),
        ("swap", "sys/module/zswap/parameters/enabled"),
        ("thp", "proc/vmstat"),
        ("thp", "sys/kernel/mm/transparent_hugepage/enabled"),
        ("thp", "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"),
        ("process", "proc/uptime"),
        ("storage", "proc/diskstats"),
        ("cpu", "proc/loadavg"),
        ("memory", "proc/meminfo"),
        ("memory", "proc/vmstat"),
        ("driver", "proc/driver/nvidia/version"),
        ("driver", "proc/driver/nvidia/params"),
        ("kubelet", "var/lib/kubelet/config.yaml"),
        ("kubelet", "var/lib/kubelet/cpu_manager_state"),
        ("kubelet", "var/lib/kubelet/memory_manager_state"),
        ("cpu", "sys/devices/system/cpu/online"),
        ("network", "proc/net/dev"),
        ("network", "sys/class/net/eth0/mtu"),
        ("network", "sys/class/net/eth0/device/local_cpulist"),
    ] {
        let machine = Machine::empty();
        machine.write("proc/stat", "cpu 1 2 3 4\n");
        machine.write("proc/meminfo", "MemTotal: 1 kB\n");
        machine.write("proc/vmstat", "pswpin 1\n");
        machine.write("proc/swaps", "Filename\n");
        machine.write("proc/diskstats", "8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n");
        std::fs::create_dir_all(machine.path("sys/block/sda")).unwrap();
        std::fs::create_dir_all(machine.path("sys/class/net/eth0/device")).unwrap();
        machine.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  460.56  x\n");
        machine.write(path, "Filename\n\u{1}garbage\n");
        let collected = machine.collect(collector);
        // A whole file without which a collector has nothing to say is told by its state, all others by name alone.
        let told = match &collected.result {
            Ok(_) => collected.left(),
            Err(error @ CollectError::File(FileError::Malformed { .. })) => error.to_string(),
            Err(error) => panic!("{path}: {error:?}"),
        };
        assert!(told.contains(path), "{path}: {told}");
    }
}

#[test]
fn a_short_row_of_interrupts_is_named() {
    let machine = Machine::empty();
    machine.write("proc/interrupts", "  CPU0 CPU1\n  8: 1 2 IO-APIC 8-edge rtc0\n 30: 7 PCI-MSI 65536-edge\n");
    machine.write("proc/softirqs", "  CPU0\nNET_RX: 5\n");
    let collected = machine.collect("irq").ok();
    let error = collected.left();
    assert_eq!(collected.value("goodput_irq_softirqs_total{kind=\"NET_RX\"}"), 5.0, "another file");
    let expected = "proc/interrupts: line 3: expected an unsigned number per CPU, found \"30: 7 PCI-MSI 65536-edge\"";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn a_directory_instead_of_a_file_is_an_io_error() {
    let machine = Machine::empty();
    std::fs::create_dir_all(machine.path("proc/pressure/cpu")).unwrap();
    machine.write("proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=3\n");
    let collected = machine.collect("pressure").ok();
    assert!(matches!(collected.left_out.errors[..], [FileError::Io { .. }]), "{:?}", collected.left_out);
    assert_eq!(collected.count("goodput_pressure_waiting_seconds_total"), 1);
}
