//! Machines whose kernel prints what is not expected: one bad line or file costs itself alone.

use std::time::{Duration, Instant};

use crate::support::{Machine, collector};

/// A node with the files that several collectors share.
fn node() -> Machine {
    let machine = Machine::empty();
    machine.write(
        "proc/stat",
        "cpu  4000 10 900 90000 500 0 40 0\ncpu0 2000 5 450 45000 250 0 20 0\ncpu2 2000 5 450 45000 250 0 20 0\n\
         ctxt 123456\nbtime 1790000000\nprocesses 5000\nprocs_running 2\n",
    );
    machine.write("proc/meminfo", "MemTotal: 131072000 kB\nMemAvailable: 110000000 kB\nSwapTotal: 8 kB\nDirty: 1 kB\n");
    machine.write("proc/vmstat", "pswpin 1\nthp_fault_alloc 5\nnr_dirty_threshold 5\npgmajfault 3\n");
    machine.write("proc/swaps", "Filename\n/dev/sda2 partition 8 0 -2\n");
    let disk = |name: &str| format!(" 259 0 {name} 1000 10 80000 500 2000 20 160000 900 0 700 1400 0 0 0 0\n");
    machine.write("proc/diskstats", &disk("nvme0n1"));
    machine.write("sys/block/nvme0n1/size", "1\n");
    machine
}

fn families(machine: &Machine, names: &[&str]) -> Vec<String> {
    let of = |name: &&str| machine.collect(name).ok().samples().into_keys().collect::<Vec<_>>();
    let mut all: Vec<String> = names.iter().flat_map(of).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_line_that_makes_no_sense_costs_itself() {
    let collectors = ["node", "memory", "swap", "thp", "cpu", "storage"];
    let whole = families(&node(), &collectors);
    for (path, sound, bad, lost) in [
        ("proc/meminfo", "Dirty: 1 kB", "Dirty:", 1),
        ("proc/meminfo", "Dirty: 1 kB", "Dirty: -1 kB", 1),
        ("proc/meminfo", "SwapTotal: 8 kB", "\u{1}", 1),
        ("proc/stat", "processes 5000", "processes -2049041839", 1),
        ("proc/stat", "btime 1790000000", "btime soon", 1),
        ("proc/vmstat", "thp_fault_alloc 5", "thp_fault_alloc -5", 1),
        ("proc/vmstat", "pswpin 1", "pswpin", 1),
    ] {
        let machine = node();
        let text = std::fs::read_to_string(machine.path(path)).unwrap().replace(sound, bad);
        machine.write(path, &text);
        let left = families(&machine, &collectors);
        assert_eq!(whole.len() - left.len(), lost, "{path} {bad:?}: {left:#?}");
    }
}

#[test]
fn a_file_that_is_not_there_leaves_those_that_have_nothing_to_do_with_it() {
    for (missing, collector, stays) in [
        ("proc/stat", "node", "goodput_node_memory_total_bytes"),
        ("proc/meminfo", "node", "goodput_node_disks"),
        ("proc/meminfo", "memory", "goodput_memory_major_faults_total"),
        ("proc/vmstat", "thp", "goodput_thp_info"),
        ("proc/diskstats", "storage", "goodput_nfs_mounts"),
    ] {
        let machine = node();
        machine.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        machine.write(
            "proc/1/mountstats",
            "device s:/a mounted on /data with fstype nfs\n\tbytes: 1 2 3 4 5 6\n\tper-op statistics\n\tREAD: 1 1 0 1 1 1 1 1\n",
        );
        std::fs::remove_file(machine.path(missing)).unwrap();
        let collected = machine.collect(collector);
        assert!(collected.result.is_err(), "{missing} is what {collector} is for");
        assert!(collected.count(stays) > 0, "{stays} without {missing}");
    }
}

#[test]
fn time_that_the_kernel_counts_back_is_waited_for() {
    let (machine, mut node_collector) = (node(), collector("node"));
    let mut iowait = |ticks: &str| {
        let text = format!("cpu  4000 10 900 90000 {ticks} 0 40 0\n");
        machine.write("proc/stat", &text);
        machine.collect_with(node_collector.as_mut()).ok().value("goodput_node_cpu_seconds_total{mode=\"iowait\"}")
    };
    assert_eq!(["500", "499", "500", "520"].map(&mut iowait), [5.0, 5.0, 5.0, 5.2]);
}

#[test]
fn a_cpu_that_was_plugged_in_again_goes_on_at_once() {
    let (machine, mut cpu) = (node(), collector("cpu"));
    let mut idle = |cpu2: &str| {
        machine.write("proc/stat", &format!("cpu  1 1 1 1\ncpu0 2000 5 450 45000 250\ncpu2 {cpu2}\n"));
        machine.collect_with(cpu.as_mut()).ok().value("goodput_cpu_seconds_total{mode=\"idle\"}")
    };
    let [first, plugged, later] = ["1000 2 225 22500 125", "10 0 2 300 1", "500 0 2 5300 1"].map(&mut idle);
    assert!(plugged >= first && (later - plugged - 50.0).abs() < 0.01, "{first} {plugged} {later}");
}

#[test]
fn a_path_that_the_kernel_hides_is_no_disk() {
    let machine = node();
    let text = std::fs::read_to_string(machine.path("proc/diskstats")).unwrap();
    machine.write("proc/diskstats", &format!("{text}{}", text.replace("nvme0n1", "nvme0c0n1")));
    machine.write("sys/block/nvme0c0n1/hidden", "1\n");
    machine.write("sys/block/nvme0n1/hidden", "0\n");
    let collected = machine.collect("node").ok();
    assert_eq!((collected.value("goodput_node_disks"), collected.count("goodput_disk_read_bytes_total")), (1.0, 1));
    assert_eq!(machine.collect("storage").ok().count("goodput_disk_requests_in_flight"), 1);
}

#[test]
fn a_line_that_is_there_twice_makes_no_series_twice() {
    let machine = node();
    machine.write("proc/swaps", &format!("Filename\n{}", "/swapfile\\040(deleted) file 100 1 -3\n".repeat(2)));
    assert_eq!(machine.collect("swap").ok().count("goodput_swap_device_size_bytes"), 1);
}

#[test]
fn an_offline_cpus_policy_leaves_the_others() {
    let machine = node();
    for cpu in [0, 2, 3] {
        let policy = format!("sys/devices/system/cpu/cpufreq/policy{cpu}");
        machine.write(&format!("{policy}/cpuinfo_max_freq"), "4000000\n");
        machine.write(&format!("{policy}/affected_cpus"), &format!("{cpu}\n"));
        machine.write(&format!("{policy}/scaling_governor"), "performance\n");
    }
    // Reading a folder fails, as reading an offline CPU's file does.
    for file in ["cpuinfo_max_freq", "affected_cpus", "scaling_governor"] {
        let path = machine.path(&format!("sys/devices/system/cpu/cpufreq/policy3/{file}"));
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(path).unwrap();
    }
    let mut cpu = collector("cpu");
    let begin = Instant::now();
    let collected = machine.collect_at(cpu.as_mut(), begin).ok();
    assert_eq!(collected.value("goodput_cpu_governor_policies{governor=\"performance\"}"), 2.0);
    assert!(collected.left().contains("policy3/cpuinfo_max_freq"), "{}", collected.left());
    for (file, text) in
        [("cpuinfo_max_freq", "4000000\n"), ("affected_cpus", "3\n"), ("scaling_governor", "performance\n")]
    {
        std::fs::remove_dir(machine.path(&format!("sys/devices/system/cpu/cpufreq/policy3/{file}"))).unwrap();
        machine.write(&format!("sys/devices/system/cpu/cpufreq/policy3/{file}"), text);
    }
    let later = machine.collect_at(cpu.as_mut(), begin + Duration::from_secs(60)).ok();
    assert_eq!(later.value("goodput_cpu_governor_policies{governor=\"performance\"}"), 3.0, "it is looked at again");
}

#[test]
fn a_counter_that_cannot_be_read_leaves_the_port_and_a_speed_that_is_unknown_is_none() {
    let machine = Machine::empty();
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    machine.write(&format!("{port}/state"), "4: ACTIVE\n");
    for counter in ["link_downed", "port_rcv_errors", "port_rcv_data"] {
        machine.write(&format!("{port}/counters/{counter}"), "7\n");
    }
    std::fs::create_dir_all(machine.path(&format!("{port}/counters/symbol_error"))).unwrap();
    machine.write(&format!("{port}/rate"), "0 Gb/sec\n");
    machine.write("sys/class/infiniband/mlx5_1/ports/1/rate", "4294967295 Gb/sec\n");
    machine.write("sys/class/infiniband/mlx5_2/ports/1/rate", "200 Gb/sec (4X HDR)\n");
    let speeds = ["100000", "65535", "0", "4294967295", "-1", "18446744073709551615"];
    for (interface, speed) in speeds.iter().enumerate().map(|(i, speed)| (format!("eth{i}"), speed)) {
        machine.write(&format!("sys/class/net/{interface}/device/class"), "0x020000\n");
        machine.write(&format!("sys/class/net/{interface}/speed"), &format!("{speed}\n"));
    }
    let collected = machine.collect("network").ok();
    assert_eq!(collected.count("goodput_rdma_port_errors_total"), 2);
    assert_eq!(collected.count("goodput_network_speed_bytes"), 1);
    assert_eq!(collected.count("goodput_rdma_port_speed_bytes"), 1);
    assert!(collected.left().contains("counters/symbol_error"), "{}", collected.left());
}

#[test]
fn interrupts_of_hyper_v_and_of_devices_that_sysfs_does_not_show() {
    let machine = Machine::empty();
    machine.write(
        "proc/interrupts",
        " CPU0 CPU1\n 25: 1 103 Hyper-V PCIe MSI 4138200989697-edge      mlx5_comp0@pci:7870:00:00.0\n \
         26: 7 1 Hyper-V PCIe MSI 134217728-edge      nvidia\n 27: 5 5 IR-PCI-MSIX-0000:41:00.0 0-edge nvme0q1\n \
         28: 5 5 IR-PCI-MSIX-0000:42:00.0 0-edge something\n",
    );
    machine.write("sys/bus/pci/devices/0001:00:00.0/class", "0x030200\n");
    machine.write("sys/bus/pci/devices/0001:00:00.0/vendor", "0x10de\n");
    machine.write("proc/irq/27/node", "1\n");
    // A link that leads nowhere.
    let link = machine.path("sys/bus/pci/devices/0000:41:00.0");
    std::os::unix::fs::symlink("../../../devices/pci0000:40/nowhere", link).unwrap();
    let collected = machine.collect("irq").ok();
    for labels in [
        "device=\"0001:00:00.0\",class=\"gpu\",managed=\"false\"",
        "device=\"7870:00:00.0\",class=\"nic\",managed=\"false\"",
        "device=\"0000:41:00.0\",class=\"nvme\",managed=\"true\",node=\"1\"",
    ] {
        assert_eq!(collected.value(&format!("goodput_irq_device_info{{{labels}}}")), 1.0, "{labels}");
    }
    assert_eq!(collected.value("goodput_irq_devices"), 3.0);
}

#[test]
fn what_goes_through_a_stacked_device_is_counted_at_the_disk() {
    let mut machine = Machine::empty();
    machine.write(
        "proc/devices",
        "Character devices:\n  1 mem\n253 x\n\nBlock devices:\n  9 md\n253 device-mapper\n259 blkext\n",
    );
    machine.write("sys/fs/cgroup/cgroup.controllers", "io\n");
    machine.write("proc/7/cgroup", "0::/lab/x\n");
    machine.write(
        "sys/fs/cgroup/lab/x/io.stat",
        "253:0 rbytes=100 wbytes=200 rios=1 wios=2\n259:0 rbytes=100 wbytes=200 rios=1 wios=2\n",
    );
    machine.gpu("00000000:1A:00.0", &[7]);
    let collected = machine.collect("cgroup").ok();
    assert_eq!(collected.value("goodput_cgroup_io_read_bytes_total{owner=\"/lab/x\"}"), 100.0);
}
