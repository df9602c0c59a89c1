//! What the recorded machines are known to hold, found by an independent reader: every fact about `/proc` and `/sys`
//! that no other test of a collector asserts.

use std::collections::BTreeMap;

use goodput_exporter::parse::{cpus, number, per_cpu};
use goodput_exporter::source::nodes::Nodes;
use serde_json::Value;

use crate::support::{Collected, Machine, facts, shared};

/// Recorded machines with `/proc/meminfo`.
const WITH_MEMORY: [&str; 9] = [
    "irq-2s48-8xgpu",
    "proc-2n-numa-balancing-thp",
    "sys-2n-mlx4-nvme-dax",
    "sys-2s112-ice-nvme",
    "sys-2s32-i40e",
    "sys-4s8n-numa-miss",
    "sys-8n-sparse-node-ids",
    "sys-dgx-spark-gb10",
    "sys-power9-6xv100",
];

#[test]
fn memory_of_every_machine() {
    for fixture in WITH_MEMORY {
        let machine = Machine::recorded(fixture, &["proc/meminfo"]);
        machine.write("proc/stat", "cpu  1 1\ncpu0 1 1\n");
        machine.write("proc/swaps", "Filename Type Size Used Priority\n");
        machine.write("proc/vmstat", "");
        let all = ["node", "swap", "thp"].map(|collector| machine.collect(collector).ok().samples());
        let samples: BTreeMap<String, f64> = all.into_iter().flatten().collect();
        let facts = facts(fixture);
        for (key, series) in [
            ("MemTotal", "goodput_node_memory_total_bytes"),
            ("MemAvailable", "goodput_node_memory_available_bytes"),
            ("SwapTotal", "goodput_swap_total_bytes"),
            ("SwapFree", "goodput_swap_free_bytes"),
            ("AnonHugePages", "goodput_thp_anon_bytes"),
        ] {
            let expected = facts["meminfo"][key].as_f64().map(|kib| kib * 1024.0);
            assert_eq!(samples.get(series).copied(), expected, "{fixture}: {key}");
        }
    }
}

#[test]
fn huge_pages_of_every_machine() {
    for fixture in WITH_MEMORY {
        let machine = Machine::recorded(fixture, &["proc/meminfo"]);
        let facts = facts(fixture);
        let text = std::fs::read_to_string(machine.path("proc/meminfo")).unwrap();
        for key in ["MemFree", "HugePages_Total", "Hugepagesize"] {
            let line = text.lines().find(|line| line.starts_with(&format!("{key}:"))).unwrap();
            let value: f64 = line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
            assert_eq!(Some(value), facts["meminfo"][key].as_f64(), "{fixture}: {key}");
        }
    }
}

#[test]
fn online_cpus() {
    for fixture in
        ["sys-4s144", "sys-4s8n-numa-miss", "sys-8n-sparse-node-ids", "sys-dgx-spark-gb10", "sys-power9-6xv100"]
    {
        let machine = Machine::recorded(fixture, &["sys/devices/system/cpu/online"]);
        let facts = facts(fixture);
        let text = std::fs::read_to_string(machine.path("sys/devices/system/cpu/online")).unwrap();
        let online = cpus::ranges(&text).unwrap();
        assert_eq!(cpus::spell(&online), facts["cpu_online"].as_str().unwrap(), "{fixture}");
        assert_eq!(cpus::count(&online), facts["n_cpu_dirs"].as_u64().unwrap(), "{fixture}");
    }
}

#[test]
fn interrupt_tables() {
    for fixture in ["irq-2s32-mlx4", "irq-2s48-8xgpu", "sys-2s112-ice-nvme", "sys-2s32-i40e"] {
        let machine = Machine::recorded(fixture, &["proc/interrupts"]);
        let text = std::fs::read_to_string(machine.path("proc/interrupts")).unwrap();
        // Rows such as ERR have one number for all CPUs.
        let named = text.lines().skip(1).filter(|line| line.trim().split(':').next().unwrap().parse::<u32>().is_err());
        let (named, mut columns, mut numbered, mut sum) = (named.count() as u64, 0, 0, 0);
        per_cpu::each(&text, |cpus, name, counts| {
            columns = cpus.len() as u64;
            if name.parse::<u32>().is_ok() {
                numbered += 1;
                sum += counts.iter().sum::<u64>();
            }
        });
        let facts = &facts(fixture)["interrupts"];
        let fact = |key: &str| facts[key].as_u64().unwrap();
        assert_eq!(columns, fact("n_cpu_columns"), "{fixture}");
        assert_eq!(
            (numbered, named, sum),
            (fact("n_numbered_irqs"), fact("n_named_rows"), fact("sum_numbered")),
            "{fixture}"
        );
    }
}

/// Two servers whose PCI devices, interrupts and affinities were recorded, with the roots of their buses.
const SERVERS: [(&str, &[&str]); 2] =
    [("sys-2s112-ice-nvme", &["00", "30", "4a", "97", "b0"]), ("sys-2s32-i40e", &["00", "17", "85", "ae"])];

fn server(fixture: &str, buses: &[&str], more: &[&str]) -> Machine {
    let mut parts: Vec<String> = buses.iter().map(|bus| format!("sys/devices/pci0000:{bus}")).collect();
    parts.extend(["sys/bus/pci/devices", "sys/devices/system/node"].iter().chain(more).map(|part| (*part).to_owned()));
    Machine::recorded(fixture, &parts.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn devices_on_their_nodes() {
    for (fixture, buses) in SERVERS {
        let collected = server(fixture, buses, &["proc/interrupts"]).collect("irq").ok();
        let facts = facts(fixture);
        for (kind, class) in [("net_or_ib", "nic"), ("nvme", "nvme")] {
            for (address, device) in facts["pci_of_interest"][kind].as_object().unwrap() {
                // Devices without interrupts have no series.
                let Some(info) = info_of(&collected, address) else { continue };
                let node = device["numa_node"].as_i64().unwrap();
                assert!(info.contains(&format!("class=\"{class}\"")), "{fixture}: {info}");
                assert!(info.contains(&format!("node=\"{node}\"")), "{fixture}: {info}");
            }
        }
    }
}

fn info_of(collected: &Collected, address: &str) -> Option<String> {
    let info = format!("goodput_irq_device_info{{device=\"{address}\"");
    collected.samples().into_keys().find(|series| series.starts_with(&info))
}

#[test]
fn interrupts_off_the_node_of_their_own() {
    for (fixture, buses) in SERVERS {
        let machine = server(fixture, buses, &["proc/irq"]);
        let nodes = Nodes::read(&machine.roots());
        let facts = &facts(fixture)["interrupts"];
        let read = |irq: &str, file: &str| std::fs::read_to_string(machine.path(&format!("proc/irq/{irq}/{file}")));
        let (mut off, mut on) = (Vec::new(), 0);
        for irq in std::fs::read_dir(machine.path("proc/irq")).unwrap() {
            let irq = irq.unwrap().file_name().into_string().unwrap();
            let (Ok(node), Ok(affinity)) = (read(&irq, "node"), read(&irq, "effective_affinity_list")) else {
                continue;
            };
            let node = number::<i64>(&node).unwrap();
            let effective = cpus::ranges(&affinity).unwrap();
            let on_node =
                |(first, last): &(u32, u32)| (*first..=*last).any(|cpu| nodes.of_cpu(cpu).map(i64::from) == Some(node));
            if effective.iter().any(on_node) {
                on += 1;
            } else if !effective.is_empty() {
                off.push(irq.parse::<u64>().unwrap());
            }
        }
        off.sort_unstable();
        let expected = facts["proc_irq_off_node_first10"].as_array().unwrap();
        assert_eq!(off, expected.iter().map(|irq| irq.as_u64().unwrap()).collect::<Vec<_>>(), "{fixture}");
        assert_eq!(Some(on), facts["proc_irq"]["effective_on_own_node"].as_u64(), "{fixture}");
    }
}

#[test]
fn local_hinting_faults() {
    let machine = Machine::recorded("proc-2n-numa-balancing-thp", &["sys/devices/system/node", "proc/vmstat"]);
    let collected = machine.collect("numa").ok();
    let faults = |kind: &str| collected.value(&format!("goodput_numa_balancing_{kind}_total"));
    let share = faults("local_hint_faults") / faults("hint_faults");
    assert!((share - 0.9329).abs() < 5e-5, "{share}");
}

#[test]
fn a_cgroup_v1_host() {
    let mut machine = Machine::empty();
    machine.unpack("cgroup1-whole-host/tree.tar.gz", "", &[]);
    machine.write("proc/7/cgroup", "4:memory:/system.slice\n3:cpu,cpuacct:/system.slice\n");
    machine.gpu("00000000:1A:00.0", &[7]);
    let collected = machine.collect("cgroup").ok();
    assert!(collected.count("goodput_cgroup_cpu_usage_seconds_total") > 0, "{:#?}", collected.samples());
    let root = |file: &str| std::fs::read_to_string(machine.path(&format!("sys/fs/cgroup/{file}"))).unwrap();
    assert_eq!(cpus::spell(&cpus::ranges(&root("cpuset/cpuset.cpus")).unwrap()), "0-3");
    assert_eq!(number::<u64>(&root("memory/memory.usage_in_bytes")), Ok(2_437_607_424));
    for joint in ["cpu,cpuacct", "net_cls,net_prio"] {
        assert!(machine.path(&format!("sys/fs/cgroup/{joint}")).is_dir(), "{joint}");
    }
}

#[test]
fn throttled_periods() {
    let mut machine = Machine::empty();
    machine.write("sys/fs/cgroup/cgroup.controllers", "cpu\n");
    machine.unpack("cgroup2-2node-96cpu/tree.tar.gz", "sys/fs/cgroup/lab", &[]);
    machine.write("proc/7/cgroup", "0::/lab\n");
    machine.gpu("00000000:1A:00.0", &[7]);
    let collected = machine.collect("cgroup").ok();
    let periods = |kind: &str| collected.value(&format!("goodput_cgroup_cpu_{kind}_total{{owner=\"/lab\"}}"));
    let share = periods("throttled_periods") / periods("periods");
    assert!((share - 0.001_525).abs() < 5e-7, "{share}");
    assert_eq!(collected.value("goodput_cgroup_allowed_memory_info{owner=\"/lab\",nodes=\"0-1\"}"), 1.0);
}

#[test]
fn the_virtual_machines_settings() {
    let machine = Machine::empty();
    for path in ["proc/sys/kernel/numa_balancing", "proc/sys/vm/zone_reclaim_mode"] {
        machine.write(path, &std::fs::read_to_string(shared(&format!("vm-thp-and-vm-sysctls/{path}"))).unwrap());
    }
    machine.write("sys/devices/system/node/node0/cpulist", "0\n");
    let collected = machine.collect("numa").ok();
    assert_eq!(collected.value("goodput_numa_balancing_mode"), 0.0);
    let mode = std::fs::read_to_string(machine.path("proc/sys/vm/zone_reclaim_mode")).unwrap();
    assert_eq!(number::<u32>(&mode), Ok(0));
}

#[test]
fn node_exporters_numa_figures() {
    let machine = Machine::empty();
    machine.unpack_ttar("node-exporter-e2e/sys.ttar");
    let collected = machine.collect("numa").ok();
    let oracle = crate::support::oracle();
    for node in ["0", "1", "2"] {
        for (ours, theirs) in [
            ("memory_total_bytes", "MemTotal"),
            ("memory_free_bytes", "MemFree"),
            ("hit_pages_total", "numa_hit_total"),
            ("miss_pages_total", "numa_miss_total"),
            ("local_pages_total", "local_node_total"),
            ("other_pages_total", "other_node_total"),
        ] {
            let expected = oracle[&format!("node_memory_numa_{theirs}{{node=\"{node}\"}}")];
            assert_eq!(
                collected.value(&format!("goodput_numa_{ours}{{node=\"{node}\"}}")),
                expected,
                "{theirs} {node}"
            );
        }
    }
}

#[test]
fn a_gpus_memory_is_no_memory_of_the_host() {
    let machine = Machine::recorded("sys-power9-6xv100", &["sys/devices/system/node", "proc/driver/nvidia"]);
    let collected = machine.collect("numa").ok();
    let nodes: &Value = &facts("sys-power9-6xv100")["numa_nodes"];
    for (node, fact) in nodes.as_object().unwrap() {
        let cpus = collected.value(&format!("goodput_numa_cpus{{node=\"{node}\"}}"));
        assert_eq!(cpus, fact["n_cpus"].as_f64().unwrap());
        assert_eq!(cpus == 0.0, node.parse::<u32>().unwrap() >= 250, "{node}");
    }
}
