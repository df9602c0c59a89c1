use goodput_exporter::collect::Done;

use crate::support::{Machine, facts, shared};

#[test]
fn a_node_without_swap() {
    let machine = Machine::empty();
    let files = ["proc/swaps", "proc/vmstat", "proc/meminfo", "proc/sys/vm/swappiness"];
    for file in files {
        machine.write(file, &std::fs::read_to_string(shared(&format!("vm-thp-and-vm-sysctls/{file}"))).unwrap());
    }
    let collected = machine.collect("swap").ok();
    assert_eq!(collected.value("goodput_swap_swappiness"), 60.0);
    assert_eq!(collected.value("goodput_swap_total_bytes"), 0.0);
    assert_eq!(collected.count("goodput_swap_device_size_bytes"), 0);
    assert_eq!(collected.count("goodput_swap_zswap_enabled"), 0, "not recorded, so not known");
    collected.golden("swap/vm-without");
}

#[test]
fn a_node_that_never_swapped() {
    let machine = Machine::recorded("proc-2n-numa-balancing-thp", &["proc/vmstat", "proc/meminfo"]);
    machine.write("proc/swaps", "Filename Type Size Used Priority\n");
    let collected = machine.collect("swap").ok();
    let facts = facts("proc-2n-numa-balancing-thp");
    assert_eq!(collected.value("goodput_swap_free_bytes"), facts["meminfo"]["SwapFree"].as_f64().unwrap() * 1024.0);
    assert_eq!(collected.value("goodput_swap_in_bytes_total"), facts["vmstat"]["pswpin"].as_f64().unwrap());
    assert_eq!(collected.value("goodput_swap_out_bytes_total"), facts["vmstat"]["pswpout"].as_f64().unwrap());
}

#[test]
fn traffic_devices_and_zswap() {
    let machine = Machine::empty();
    machine.unpack("node-exporter-e2e/proc.tar.gz", "", &[]);
    machine.write("proc/vmstat", "pswpin 3\npswpout 5\nzswpin 7\nzswpout 11\n");
    machine.write("proc/meminfo", "SwapTotal: 8 kB\nSwapFree: 4 kB\nZswap: 1 kB\nZswapped: 3 kB\n");
    machine.write("sys/module/zswap/parameters/enabled", "Y\n");
    let collected = machine.collect("swap").ok();
    let page = procfs::page_size() as f64;
    for (series, expected) in [
        ("in_bytes_total", 3.0 * page),
        ("out_bytes_total", 5.0 * page),
        ("zswap_in_bytes_total", 7.0 * page),
        ("zswap_out_bytes_total", 11.0 * page),
        ("total_bytes", 8192.0),
        ("free_bytes", 4096.0),
        ("zswap_pool_bytes", 1024.0),
        ("zswap_stored_bytes", 3072.0),
        ("zswap_enabled", 1.0),
        ("device_size_bytes{device=\"/dev/zram0\",kind=\"partition\"}", 8_388_604.0 * 1024.0),
        ("device_used_bytes{device=\"/dev/zram0\",kind=\"partition\"}", 76.0 * 1024.0),
    ] {
        assert_eq!(collected.value(&format!("goodput_swap_{series}")), expected, "{series}");
    }
}

#[test]
fn a_kernel_without_swap_says_so() {
    match Machine::empty().collect("swap").result {
        Ok(Done::NotApplicable(why)) => assert!(why.contains("CONFIG_SWAP"), "{why}"),
        other => panic!("{other:?}"),
    }
}
