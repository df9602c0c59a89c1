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
