use crate::support::{Collected, Machine, facts};

/// The folder of the NUMA nodes.
const NODES: &str = "sys/devices/system/node";

/// Every number that the independent reader found must be there, and no other node.
fn agrees_with_facts(fixture: &str, collected: &Collected) {
    let facts = facts(fixture);
    let nodes = facts["numa_nodes"].as_object().unwrap();
    assert_eq!(collected.count("goodput_numa_memory_total_bytes"), nodes.len());
    let ids: Vec<u32> = {
        let mut ids: Vec<u32> = nodes.keys().map(|id| id.parse().unwrap()).collect();
        ids.sort_unstable();
        ids
    };
    for (id, node) in nodes {
        let value = |metric: &str| collected.value(&format!("goodput_numa_{metric}{{node=\"{id}\"}}"));
        assert_eq!(value("memory_total_bytes"), node["mem_total_kb"].as_f64().unwrap() * 1024.0);
        assert_eq!(value("memory_free_bytes"), node["mem_free_kb"].as_f64().unwrap() * 1024.0);
        assert_eq!(value("cpus"), node["n_cpus"].as_f64().unwrap());
        let counters = ["hit", "miss", "foreign", "interleave", "local", "other"];
        let keys = ["numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node"];
        // Not recorded everywhere.
        for (counter, key) in counters.iter().zip(keys).filter(|_| !node["numastat"].is_null()) {
            assert_eq!(value(&format!("{counter}_pages_total")), node["numastat"][key].as_f64().unwrap(), "{id} {key}");
        }
        for (to, distance) in ids.iter().zip(node["distance"].as_array().unwrap()) {
            let series = format!("goodput_numa_distance{{node=\"{id}\",to=\"{to}\"}}");
            assert_eq!(collected.value(&series), distance.as_f64().unwrap());
        }
    }
}

#[test]
fn eight_nodes_with_misses() {
    let collected = Machine::recorded("sys-4s8n-numa-miss", &[NODES]).collect("numa").ok();
    agrees_with_facts("sys-4s8n-numa-miss", &collected);
    collected.golden("numa/4s8n-numa-miss");
}

#[test]
fn sparse_node_ids() {
    let collected = Machine::recorded("sys-8n-sparse-node-ids", &[NODES]).collect("numa").ok();
    agrees_with_facts("sys-8n-sparse-node-ids", &collected);
    collected.golden("numa/8n-sparse-node-ids");
}

#[test]
fn nodes_of_gpu_memory_without_cpus_or_pci_nodes() {
    let mut machine = Machine::recorded("sys-power9-6xv100", &[NODES, "sys/bus/pci/devices"]);
    for bus_id in ["00000004:05:00.0", "00000004:06:00.0", "00000006:00:00.0", "00000035:04:00.0"] {
        machine.gpu(bus_id, &[]);
    }
    let collected = machine.collect("numa").ok();
    agrees_with_facts("sys-power9-6xv100", &collected);
    assert_eq!(collected.count("goodput_gpu_numa_info"), 0, "the kernel gives no numa_node there");
    collected.golden("numa/power9-6xv100");
}

#[test]
fn one_node_is_still_a_node() {
    let collected = Machine::recorded("sys-dgx-spark-gb10", &[NODES]).collect("numa").ok();
    agrees_with_facts("sys-dgx-spark-gb10", &collected);
    collected.golden("numa/dgx-spark-gb10");
}

#[test]
fn more_misses_than_hits() {
    let collected = Machine::recorded("sys-4s144", &[NODES]).collect("numa").ok();
    agrees_with_facts("sys-4s144", &collected);
    collected.golden("numa/4s144");
}

#[test]
fn dual_socket_servers() {
    for fixture in ["sys-2s112-ice-nvme", "sys-2s32-i40e", "sys-2n-mlx4-nvme-dax"] {
        agrees_with_facts(fixture, &Machine::recorded(fixture, &[NODES]).collect("numa").ok());
    }
}

#[test]
fn nodes_without_cpu_lists_and_distances() {
    let collected = Machine::recorded("proc-2n-numa-balancing-thp", &[NODES]).collect("numa").ok();
    assert_eq!(collected.value("goodput_numa_memory_total_bytes{node=\"1\"}"), 67_108_864.0 * 1024.0);
    assert_eq!(collected.count("goodput_numa_hit_pages_total"), 2);
    assert_eq!((collected.count("goodput_numa_cpus"), collected.count("goodput_numa_distance")), (0, 0));
}

#[test]
fn gpus_on_their_nodes() {
    let mut machine = Machine::recorded("irq-2s48-8xgpu", &["sys"]);
    machine.gpu("00000000:1A:00.0", &[]);
    machine.gpu("00000000:41:00.0", &[]);
    machine.gpu("00000000:FF:00.0", &[]);
    machine.gpu("garbage", &[]);
    let collected = machine.collect("numa").ok();
    assert_eq!(collected.value("goodput_gpu_numa_info{gpu=\"1\",UUID=\"GPU-1\",node=\"0\"}"), 1.0);
    assert_eq!(collected.value("goodput_gpu_local_cpus{gpu=\"0\",UUID=\"GPU-0\"}"), 24.0);
    assert_eq!(collected.count("goodput_gpu_numa_info"), 2, "a slot that is not there has no node");
}

#[test]
fn minus_one_is_unknown() {
    let mut machine = Machine::empty();
    machine.gpu("00000000:01:00.0", &[]);
    machine.write("sys/bus/pci/devices/0000:01:00.0/numa_node", "-1\n");
    machine.write("sys/bus/pci/devices/0000:01:00.0/local_cpulist", "0-3\n");
    let collected = machine.collect("numa").ok();
    assert_eq!(collected.count("goodput_gpu_numa_info"), 0);
    assert_eq!(collected.value("goodput_gpu_local_cpus{gpu=\"0\",UUID=\"GPU-0\"}"), 4.0);
}

#[test]
fn distances_to_nodes_without_a_folder() {
    let machine = Machine::empty();
    machine.write("sys/devices/system/node/online", "0-1,8\n\0");
    machine.write("sys/devices/system/node/node8/distance", "40 20 10\n");
    let collected = machine.collect("numa").ok();
    assert_eq!(collected.value("goodput_numa_distance{node=\"8\",to=\"0\"}"), 40.0);
    // Without the list it is unknown which nodes the numbers belong to.
    std::fs::remove_file(machine.path("sys/devices/system/node/online")).unwrap();
    assert_eq!(machine.collect("numa").ok().count("goodput_numa_distance"), 0);
}

#[test]
fn automatic_balancing() {
    let machine = Machine::recorded("proc-2n-numa-balancing-thp", &[NODES, "proc/vmstat"]);
    machine.write("proc/sys/kernel/numa_balancing", "1\n");
    let collected = machine.collect("numa").ok();
    let facts = facts("proc-2n-numa-balancing-thp");
    for (metric, key) in [
        ("pte_updates_total", "numa_pte_updates"),
        ("hint_faults_total", "numa_hint_faults"),
        ("local_hint_faults_total", "numa_hint_faults_local"),
        ("migrated_pages_total", "numa_pages_migrated"),
    ] {
        let value = collected.value(&format!("goodput_numa_balancing_{metric}"));
        assert_eq!(value, facts["vmstat"][key].as_f64().unwrap(), "{key}");
    }
    assert_eq!(collected.value("goodput_numa_balancing_mode"), 1.0);
}

#[test]
fn where_a_gpus_processes_may_run() {
    let mut machine = Machine::recorded("sys-2s32-i40e", &[NODES]);
    machine.write("proc/7/status", "Name:\tpython\nCpus_allowed_list:\t0,2,4\n");
    machine.write("proc/8/status", "Name:\tpython\nCpus_allowed_list:\t2-3\n");
    machine.write("proc/9/status", "Name:\tpython\nCpus_allowed_list:\t0-255\n");
    machine.gpu("00000000:1A:00.0", &[7, 8]);
    machine.gpu("00000000:1B:00.0", &[9, 99]);
    machine.gpu("00000000:1C:00.0", &[99]);
    machine.gpu("00000000:1D:00.0", &[]);
    let collected = machine.collect("numa").ok();
    let allowed = |gpu: u32, node: u32| {
        let series = format!("goodput_gpu_numa_allowed_cpus{{gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",node=\"{node}\"}}");
        collected.value(&series)
    };
    assert_eq!((allowed(0, 0), allowed(0, 1)), (3.0, 1.0), "even CPUs are on node 0");
    assert_eq!((allowed(1, 0), allowed(1, 1)), (16.0, 16.0), "the mask is wider than the machine");
    assert_eq!(collected.count("goodput_gpu_numa_allowed_cpus"), 4, "nobody's CPUs are not known");
}
