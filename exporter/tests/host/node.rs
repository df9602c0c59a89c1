use crate::support::{Machine, shared};

/// node_exporter's proc tree, with its disks in `/sys/block` and without their partitions.
fn machine() -> Machine {
    let machine = Machine::empty();
    machine.unpack("node-exporter-e2e/proc.tar.gz", "", &[]);
    machine.write("proc/sys/kernel/hostname", "gpu-node-7\n");
    machine.write("proc/sys/kernel/osrelease", "6.12.9-amd64\n");
    for disk in ["sda", "nvme0n1", "mmcblk0", "vda", "sdb", "loop0", "ram1", "dm-0", "sr0"] {
        std::fs::create_dir_all(machine.path(&format!("sys/block/{disk}"))).unwrap();
    }
    machine
}

#[test]
fn agrees_with_node_exporter() {
    let collected = machine().collect("node").ok();
    let oracle = std::fs::read_to_string(shared("node-exporter-e2e/e2e-output.txt")).unwrap();
    let expected = |series: &str| -> f64 {
        let line = oracle.lines().find(|line| line.split(' ').next() == Some(series)).unwrap();
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    for disk in ["sda", "nvme0n1", "mmcblk0", "vda", "sdb"] {
        for metric in [
            "read_bytes_total",
            "written_bytes_total",
            "reads_completed_total",
            "writes_completed_total",
            "read_time_seconds_total",
            "write_time_seconds_total",
            "io_time_seconds_total",
        ] {
            let ours = collected.value(&format!("goodput_disk_{metric}{{device=\"{disk}\"}}"));
            assert!(
                (ours - expected(&format!("node_disk_{metric}{{device=\"{disk}\"}}"))).abs() < 1e-6,
                "{disk} {metric}"
            );
        }
    }
    assert_eq!(collected.value("goodput_node_disks"), 5.0, "no partitions, loops, RAM disks or stacked devices");
    assert_eq!(collected.value("goodput_node_boot_time_seconds"), expected("node_boot_time_seconds"));
    assert_eq!(collected.value("goodput_node_memory_total_bytes"), expected("node_memory_MemTotal_bytes"));
    assert_eq!(collected.count("goodput_node_memory_available_bytes"), 0, "older than MemAvailable");
    // The fixture's per-CPU lines do not add up to its cpu line, so the sum itself is the expectation.
    assert_eq!(collected.value("goodput_node_cpu_seconds_total{mode=\"user\"}"), 3018.54);
    assert_eq!(collected.value("goodput_node_cpus"), 8.0);
    collected.golden("node/node-exporter-e2e");
}

#[test]
fn without_sysfs_and_names_the_rest_remains() {
    let machine = Machine::empty();
    machine.write("proc/stat", "cpu  1 2 3 4\ncpu0 1 2 3 4\nbtime 5\n");
    machine.write("proc/meminfo", "MemTotal: 4 kB\nMemAvailable: 2 kB\n");
    let collected = machine.collect("node").ok();
    assert_eq!(collected.value("goodput_node_info{nodename=\"node-1\",hostname=\"node-1\"}"), 1.0);
    assert_eq!(collected.value("goodput_node_memory_available_bytes"), 2048.0);
    assert_eq!(collected.count("goodput_node_cpu_seconds_total"), 4);
    assert_eq!(collected.count("goodput_node_disks"), 0);
}
