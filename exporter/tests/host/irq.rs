use std::fmt::Write as _;
use std::time::{Duration, Instant};

use goodput_exporter::collect::Done;
use goodput_exporter::source::files::FileError;

use crate::support::{Collected, Machine, collector, facts, shared};

const NODES: &str = "sys/devices/system/node";
const TABLES: [&str; 2] = ["proc/interrupts", "proc/softirqs"];

/// Interrupts by (class, was it taken on the device's own node?).
fn taken(collected: &Collected, class: &str, own: bool) -> f64 {
    let samples = collected.samples();
    let node_of = |device: &str| -> Option<String> {
        let info = samples.keys().find(|s| s.starts_with("goodput_irq_device_info") && label(s, "device") == device)?;
        Some(label(info, "node").to_owned())
    };
    let counts = samples.iter().filter(|(series, _)| series.starts_with("goodput_irq_interrupts_total"));
    let of_class = counts.filter(|(series, _)| label(series, "class") == class);
    of_class
        .filter(|(series, _)| (node_of(label(series, "device")).as_deref() == Some(label(series, "node"))) == own)
        .map(|(_, count)| count)
        .sum()
}

/// Interrupts of one device, summed over all series.
fn total(collected: &Collected, device: &str) -> f64 {
    let samples = collected.samples();
    let counts = samples.iter().filter(|(series, _)| series.starts_with("goodput_irq_interrupts_total"));
    counts.filter(|(series, _)| label(series, "device") == device).map(|(_, count)| count).sum()
}

/// The value of a label; empty when it is not there.
fn label<'a>(series: &'a str, name: &str) -> &'a str {
    let value = series.split_once(&format!("{name}=\"")).map(|(_, behind)| behind);
    value.and_then(|behind| behind.split('"').next()).unwrap_or_default()
}

fn ice_nvme() -> Machine {
    let roots = ["00", "30", "4a", "97", "b0"].map(|bus| format!("sys/devices/pci0000:{bus}"));
    let mut parts = vec![TABLES[0], TABLES[1], NODES, "sys/bus/pci/devices"];
    parts.extend(roots.iter().map(String::as_str));
    Machine::recorded("sys-2s112-ice-nvme", &parts)
}

#[test]
fn nics_at_home_and_disks_everywhere() {
    let collected = ice_nvme().collect("irq").ok();
    let facts = facts("sys-2s112-ice-nvme");
    let fact = |class: &str, key: &str| facts["interrupts"]["classes"][class][key].as_f64().unwrap();
    assert_eq!(taken(&collected, "nvme", true), fact("nvme", "on_local_node"));
    assert_eq!(taken(&collected, "nvme", false), fact("nvme", "on_remote_node"));
    let of_ice = ["0000:4b:00.0", "0000:4b:00.1", "0000:98:00.0", "0000:98:00.1"].map(|nic| total(&collected, nic));
    assert_eq!(of_ice.iter().sum::<f64>(), fact("ice", "total") + fact("irdma", "total"));
    assert_eq!(taken(&collected, "nic", false), 0.0);
    let nvme = "goodput_irq_device_info{device=\"0000:b1:00.0\",class=\"nvme\",managed=\"true\",node=\"1\"}";
    assert_eq!(collected.value(nvme), 1.0, "nobody can move its interrupts");
    let sata = "goodput_irq_device_info{device=\"0000:05:00.0\",class=\"other\",managed=\"false\",node=\"0\"}";
    assert_eq!(collected.value(sata), 1.0, "one queue, like any NIC's");
    let nic = "goodput_irq_device_info{device=\"0000:4b:00.0\",class=\"nic\",managed=\"false\",node=\"0\"}";
    assert_eq!(collected.value(nic), 1.0);
    collected.golden("irq/2s112-ice-nvme");
}

#[test]
fn a_second_server() {
    let roots = ["00", "17", "85", "ae"].map(|bus| format!("sys/devices/pci0000:{bus}"));
    let mut parts = vec![TABLES[0], TABLES[1], NODES, "sys/bus/pci/devices"];
    parts.extend(roots.iter().map(String::as_str));
    let collected = Machine::recorded("sys-2s32-i40e", &parts).collect("irq").ok();
    let facts = facts("sys-2s32-i40e");
    let fact = |class: &str, key: &str| facts["interrupts"]["classes"][class][key].as_f64().unwrap();
    assert_eq!(taken(&collected, "nvme", true), fact("nvme", "on_local_node"));
    assert_eq!(taken(&collected, "nvme", false), fact("nvme", "on_remote_node"));
    let of_i40e = ["0000:86:00.0", "0000:86:00.1"].map(|nic| total(&collected, nic));
    assert_eq!(of_i40e.iter().sum::<f64>(), fact("i40e", "total"));
    collected.golden("irq/2s32-i40e");
}

#[test]
fn eight_gpus_by_their_interrupt_numbers() {
    let mut machine = Machine::recorded("irq-2s48-8xgpu", &["proc/interrupts", "sys"]);
    machine.write(&format!("{NODES}/node0/cpulist"), "0-11,24-35\n");
    machine.write(&format!("{NODES}/node1/cpulist"), "12-23,36-47\n");
    machine.write("sys/bus/pci/devices/0000:60:00.0/class", "0x020000\n");
    machine.write("sys/bus/pci/devices/0000:d9:00.0/class", "0x010802\n");
    for bus in ["1A", "1C", "1D", "1E", "3D", "3F", "40", "41"] {
        machine.gpu(&format!("00000000:{bus}:00.0"), &[]);
    }
    let collected = machine.collect("irq").ok();
    let facts = facts("irq-2s48-8xgpu");
    let fact = |class: &str| facts["interrupts"]["classes"][class]["total"].as_f64().unwrap();
    assert_eq!((taken(&collected, "gpu", true), taken(&collected, "gpu", false)), (fact("nvidia"), 0.0));
    assert_eq!(total(&collected, "0000:60:00.0"), fact("i40e"));
    assert_eq!(total(&collected, "0000:d9:00.0"), fact("nvme"));
    let gpu = "goodput_irq_device_info{device=\"0000:41:00.0\",class=\"gpu\",managed=\"false\",node=\"0\",gpu=\"7\",UUID=\"GPU-7\"}";
    assert_eq!(collected.value(gpu), 1.0);
}

#[test]
fn a_driver_that_names_its_device() {
    let machine = Machine::recorded("irq-2s32-mlx4", &["proc/interrupts"]);
    machine.write("sys/bus/pci/devices/0000:06:00.0/class", "0x020000\n");
    let collected = machine.collect("irq").ok();
    let mlx4 = facts("irq-2s32-mlx4")["interrupts"]["classes"]["mlx4"]["total"].as_f64().unwrap();
    let series = "goodput_irq_interrupts_total{device=\"0000:06:00.0\",class=\"nic\"}";
    assert_eq!(collected.value(series), mlx4, "no node folder, no node");
    assert_eq!(collected.value("goodput_irq_devices"), 1.0);
}

#[test]
fn an_arm_machine() {
    let machine = Machine::empty();
    machine.unpack("node-exporter-e2e/proc.tar.gz", "", &[]);
    std::fs::rename(machine.path("proc/interrupts_aarch64"), machine.path("proc/interrupts")).unwrap();
    machine.write("sys/bus/pci/devices/0000:00:05.0/class", "0x020000\n");
    machine.write("sys/bus/pci/devices/0000:00:05.0/numa_node", "-1\n");
    machine.write("sys/bus/pci/devices/0000:00:04.0/class", "0x010802\n");
    let collected = machine.collect("irq").ok();
    assert_eq!(total(&collected, "0000:00:04.0"), 37.0 + 129_969_327.0 + 126_913_956.0);
    let info = "goodput_irq_device_info{device=\"0000:00:05.0\",class=\"nic\",managed=\"false\"}";
    assert_eq!(collected.value(info), 1.0, "-1 is no node");
}

#[test]
fn softirqs_and_softnet_agree_with_node_exporter() {
    let machine = Machine::empty();
    machine.unpack("node-exporter-e2e/proc.tar.gz", "", &[]);
    let collected = machine.collect("irq").ok();
    let oracle = std::fs::read_to_string(shared("node-exporter-e2e/e2e-output.txt")).unwrap();
    let sum = |metric: &str, rest: &str| -> f64 {
        let lines = oracle.lines().filter(|line| line.starts_with(metric) && line.contains(rest));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
    };
    for kind in ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"] {
        let ours = collected.value(&format!("goodput_irq_softirqs_total{{kind=\"{kind}\"}}"));
        assert_eq!(ours, sum("node_softirqs_functions_total{", &format!("type=\"{kind}\"")), "{kind}");
    }
    for (ours, theirs) in
        [("processed_packets", "processed"), ("dropped_packets", "dropped"), ("squeezes", "times_squeezed")]
    {
        let ours = collected.value(&format!("goodput_softnet_{ours}_total"));
        assert_eq!(ours, sum(&format!("node_softnet_{theirs}_total{{"), ""), "{theirs}");
    }
    collected.golden("irq/node-exporter-e2e");
}

/// A NIC on node 1 with one interrupt; CPU 0 is on node 0, CPU 1 on node 1, CPU 2 is offline.
fn small() -> Machine {
    let machine = Machine::empty();
    machine.write(&format!("{NODES}/node0/cpulist"), "0\n");
    machine.write(&format!("{NODES}/node1/cpulist"), "1\n");
    machine.write("sys/bus/pci/devices/0000:41:00.0/class", "0x020000\n");
    machine.write("sys/bus/pci/devices/0000:41:00.0/numa_node", "1\n");
    machine
}

fn taken_by(collected: &Collected, node: &str) -> f64 {
    let series = format!("goodput_irq_interrupts_total{{device=\"0000:41:00.0\",class=\"nic\",node=\"{node}\"}}");
    collected.value(&series)
}

fn busiest(collected: &Collected) -> f64 {
    collected.value("goodput_irq_busiest_cpu_interrupts_total{device=\"0000:41:00.0\",class=\"nic\"}")
}

#[test]
fn an_interrupt_that_is_moved_vanishes_and_comes_back() {
    let machine = small();
    let row = |number: u32, counts: &str| {
        let row = format!("  {number}: {counts}  PCI-MSIX-0000:41:00.0 0-edge virtio5-input.0\n");
        machine.write("proc/interrupts", &format!("  CPU0 CPU1\n{row}"));
    };
    let mut irq = collector("irq");
    row(30, "0 4294967290");
    let first = machine.collect_with(irq.as_mut()).ok();
    assert_eq!((taken_by(&first, "0"), taken_by(&first, "1")), (0.0, 4_294_967_290.0));
    row(30, "500 4");
    let moved = machine.collect_with(irq.as_mut()).ok();
    assert_eq!((taken_by(&moved, "0"), taken_by(&moved, "1")), (500.0, 4_294_967_300.0), "32 bits wrapped");
    assert_eq!(busiest(&moved), busiest(&first) + 500.0);
    machine.write("proc/interrupts", "  CPU0 CPU1\n");
    let gone = machine.collect_with(irq.as_mut()).ok();
    assert_eq!(gone.count("goodput_irq_interrupts_total"), 0, "a device without interrupts has no series");
    row(77, "7 0");
    let back = machine.collect_with(irq.as_mut()).ok();
    assert_eq!((taken_by(&back, "0"), taken_by(&back, "1")), (500.0, 4_294_967_300.0));
    row(77, "17 0");
    let on = machine.collect_with(irq.as_mut()).ok();
    assert_eq!((taken_by(&on, "0"), taken_by(&on, "1")), (510.0, 4_294_967_300.0));
}

#[test]
fn offline_cpus_have_no_softirqs() {
    let machine = small();
    machine.write("proc/softirqs", "  CPU0 CPU1 CPU2\nNET_RX: 5 6 7\n");
    let collected = machine.collect("irq").ok();
    assert_eq!(collected.count("goodput_irq_softirqs_total"), 2);
    assert_eq!(collected.value("goodput_irq_softirqs_total{kind=\"NET_RX\",node=\"1\"}"), 6.0);
}

#[test]
fn interrupts_on_a_jobs_cpus() {
    let mut machine = small();
    machine.gpu("00000000:1A:00.0", &[7]);
    machine.write("proc/7/cgroup", "0::/job\n");
    machine.write("sys/bus/pci/devices/0000:42:00.0/class", "0x010802\n");
    machine.write("sys/fs/cgroup/cgroup.controllers", "cpuset\n");
    machine.write("sys/fs/cgroup/job/cpuset.cpus.effective", "1\n");
    let row = |counts: &str| {
        let nic = format!("  30: {counts}  PCI-MSIX-0000:41:00.0 0-edge virtio5-input.0\n");
        let disk = format!("  31: {counts}  PCI-MSIX-0000:42:00.0 0-edge nvme0q1\n");
        machine.write("proc/interrupts", &format!("  CPU0 CPU1\n{nic}{disk}"));
    };
    let taken = |collected: &Collected| {
        let own = "goodput_irq_owner_cpus_interrupts_total{owner=\"/job\"}";
        (collected.value(own), collected.value("goodput_irq_movable_interrupts_total"))
    };
    let mut irq = collector("irq");
    row("100 100");
    assert_eq!(taken(&machine.collect_with(irq.as_mut()).ok()), (0.0, 0.0), "what came before is not known");
    row("130 110");
    let moved = taken(&machine.collect_with(irq.as_mut()).ok());
    assert_eq!(moved, (10.0, 40.0), "CPU 0 is none of the job's, and nobody can move the disk's");
    std::fs::remove_dir_all(machine.path("sys/fs/cgroup/job")).unwrap();
    machine.write("proc/7/status", "Cpus_allowed_list:\t0-1\n");
    row("131 111");
    let moved = taken(&machine.collect_with(irq.as_mut()).ok());
    assert_eq!(moved, (12.0, 42.0), "without a cpuset the affinity counts");
}

#[test]
fn only_devices_of_interest_and_not_too_many() {
    let machine = Machine::empty();
    let mut table = "  CPU0\n".to_owned();
    for (bus, class) in [(1, "0x030000"), (2, "0x060400"), (3, "0x010700"), (4, "0x120000"), (5, "0x020700")] {
        machine.write(&format!("sys/bus/pci/devices/0000:{bus:02x}:00.0/class"), &format!("{class}\n"));
        writeln!(table, "{bus}: 1 PCI-MSI-0000:{bus:02x}:00.0 0-edge x").unwrap();
    }
    for function in 0..70 {
        let address = format!("0000:c0:{:02x}.{}", function / 8, function % 8);
        machine.write(&format!("sys/bus/pci/devices/{address}/class"), "0x020000\n");
        writeln!(table, "{}: 1 PCI-MSI-{address} 0-edge vf", 100 + function).unwrap();
    }
    machine.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    machine.write("proc/interrupts", &table);
    let collected = machine.collect("irq").ok();
    assert_eq!(collected.value("goodput_irq_devices"), 74.0, "all but the bridge");
    assert_eq!(collected.count("goodput_irq_device_info"), 64);
    assert_eq!(total(&collected, "0000:01:00.0"), 1.0, "GPUs come first");
    assert_eq!(total(&collected, "0000:05:00.0"), 1.0, "InfiniBand is a network");
    assert_eq!(total(&collected, "0000:03:00.0"), 0.0, "what is beyond the limit comes last");
}

#[test]
fn nothing_to_read() {
    match Machine::empty().collect("irq").result {
        Ok(Done::NotApplicable(why)) => assert!(why.contains("/proc"), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// A machine with softirqs, so that the collector applies, and the node's own list of processes.
fn node_with(processes: &[(u32, &str)]) -> Machine {
    let machine = Machine::empty();
    machine.write("proc/softirqs", "  CPU0\nNET_RX: 5\n");
    for (pid, name) in processes {
        machine.write(&format!("proc/{pid}/comm"), &format!("{name}\n"));
    }
    machine
}

#[test]
fn who_moves_interrupts() {
    let machine = node_with(&[(2, "kthreadd"), (700, "irqbalance"), (701, "irqbalance-ui")]);
    machine.write(
        "etc/sysconfig/irqbalance",
        "IRQBALANCE_BANNED_CPULIST=0-3,8\nIRQBALANCE_ARGS=\"--policyscript=/etc/irqbalance.d --hintpolicy=exact\"\n",
    );
    let mut irq = collector("irq");
    let (start, minute) = (Instant::now(), Duration::from_secs(60));
    let first = machine.collect_at(irq.as_mut(), start).ok();
    assert_eq!(first.value("goodput_irqbalance_running"), 1.0);
    let info = "goodput_irqbalance_info{mode=\"daemon\",policy_script=\"true\",hint_policy=\"exact\"}";
    assert_eq!(first.value(info), 1.0);
    assert_eq!(first.value("goodput_irqbalance_banned_cpus"), 5.0);

    // It ends, and another process gets its number; the settings are now Debian's, which ban no CPU.
    machine.write("proc/700/comm", "bash\n");
    machine.write("etc/default/irqbalance", "IRQBALANCE_BANNED_CPUS=0\nIRQBALANCE_ONESHOT=yes\n");
    let soon = machine.collect_at(irq.as_mut(), start + minute - Duration::from_secs(1)).ok();
    assert_eq!(soon.value("goodput_irqbalance_running"), 1.0, "looked for once a minute");
    let later = machine.collect_at(irq.as_mut(), start + minute).ok();
    assert_eq!(later.value("goodput_irqbalance_running"), 0.0);
    assert_eq!(later.value("goodput_irqbalance_info{mode=\"oneshot\",policy_script=\"false\"}"), 1.0);
    assert_eq!(later.value("goodput_irqbalance_banned_cpus"), 0.0);

    machine.write("proc/900/comm", "irqbalance\n");
    assert_eq!(machine.collect_at(irq.as_mut(), start + 2 * minute).ok().value("goodput_irqbalance_running"), 1.0);
}

#[test]
fn an_irqbalance_that_is_absent_unseen_or_secret_is_not_zero() {
    let unseen = node_with(&[(2, "nginx"), (700, "irqbalance")]).collect("irq").ok();
    assert_eq!(unseen.count("goodput_irqbalance_running"), 0, "a container's own processes are not the node's");
    assert_eq!(unseen.count("goodput_irqbalance_info"), 0, "no settings");

    let machine = node_with(&[(2, "kthreadd")]);
    machine.write("etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=\n");
    let silent = machine.collect("irq").ok();
    assert_eq!(silent.value("goodput_irqbalance_running"), 0.0);
    assert_eq!(silent.count("goodput_irqbalance_banned_cpus"), 0, "left to irqbalance");

    machine.deny("etc/default/irqbalance");
    let denied = machine.collect("irq").ok();
    assert!(matches!(denied.left_out.errors[..], [FileError::Denied { .. }]), "{:?}", denied.left_out);
    assert_eq!(denied.value("goodput_irqbalance_running"), 0.0, "what may be read is told");
    assert_eq!(denied.count("goodput_irqbalance_info"), 0);
    assert_eq!(denied.value("goodput_irq_softirqs_total{kind=\"NET_RX\"}"), 5.0);

    std::fs::remove_file(machine.path("etc/default/irqbalance")).unwrap();
    machine.write("etc/default/irqbalance", "\nIRQBALANCE_BANNED_CPULIST=few\n");
    let error = machine.collect("irq").ok().left();
    let expected = "etc/default/irqbalance: line 2: expected a list of numbers and ranges such as 0-3,8, found \"few\"";
    assert!(error.ends_with(expected), "{error}");
}
