use crate::support::{Machine, facts, shared};

#[test]
fn huge_pages_in_use() {
    let machine = Machine::recorded("proc-2n-numa-balancing-thp", &["proc/vmstat", "proc/meminfo"]);
    let collected = machine.collect("thp").ok();
    let facts = facts("proc-2n-numa-balancing-thp");
    let vmstat = |key: &str| facts["vmstat"][key].as_f64().unwrap();
    assert_eq!(collected.value("goodput_thp_anon_bytes"), facts["meminfo"]["AnonHugePages"].as_f64().unwrap() * 1024.0);
    assert_eq!(collected.value("goodput_thp_fault_alloc_total"), vmstat("thp_fault_alloc"));
    assert_eq!(collected.value("goodput_thp_fault_fallback_total"), vmstat("thp_fault_fallback"));
    assert_eq!(collected.value("goodput_compaction_stalls_total"), vmstat("compact_stall"));
}

#[test]
fn the_active_mode() {
    let machine = Machine::empty();
    for file in ["proc/vmstat", "proc/meminfo", "sys/kernel/mm/transparent_hugepage/enabled"] {
        machine.write(file, &std::fs::read_to_string(shared(&format!("vm-thp-and-vm-sysctls/{file}"))).unwrap());
    }
    let collected = machine.collect("thp").ok();
    assert_eq!(collected.value("goodput_thp_info{enabled=\"madvise\"}"), 1.0);
    collected.golden("thp/vm-madvise");
}

#[test]
fn every_setting() {
    let machine = Machine::empty();
    machine.write("proc/vmstat", "allocstall_dma32 1\nallocstall_normal 2\nallocstall_movable 4\n");
    machine.write("proc/meminfo", "AnonHugePages: 2048 kB\n");
    machine.write("proc/sys/vm/compaction_proactiveness", "20\n");
    let folder = "sys/kernel/mm/transparent_hugepage";
    machine.write(&format!("{folder}/enabled"), "[always] madvise never\n");
    machine.write(&format!("{folder}/defrag"), "always defer [defer+madvise] madvise never\n");
    machine.write(&format!("{folder}/shmem_enabled"), "always within_size advise [never] deny force\n");
    machine.write(&format!("{folder}/khugepaged/defrag"), "1\n");
    machine.write(&format!("{folder}/khugepaged/pages_to_scan"), "4096\n");
    machine.write(&format!("{folder}/khugepaged/scan_sleep_millisecs"), "10000\n");
    let collected = machine.collect("thp").ok();
    for (series, expected) in [
        ("goodput_thp_info{enabled=\"always\",defrag=\"defer+madvise\",shmem=\"never\"}", 1.0),
        ("goodput_memory_reclaim_stalls_total", 7.0),
        ("goodput_compaction_proactiveness", 20.0),
        ("goodput_thp_khugepaged_defrag", 1.0),
        ("goodput_thp_khugepaged_scan_pages", 4096.0),
        ("goodput_thp_khugepaged_sleep_seconds", 10.0),
        ("goodput_thp_anon_bytes", 2_097_152.0),
    ] {
        assert_eq!(collected.value(series), expected, "{series}");
    }
}

#[test]
fn pools_of_every_size() {
    let parts = ["proc/meminfo", "sys/kernel/mm/hugepages"];
    let machine = Machine::recorded("sys-4s8n-numa-miss", &parts);
    machine.write("proc/vmstat", "");
    let collected = machine.collect("thp").ok();
    let pages = facts("sys-4s8n-numa-miss")["meminfo"]["HugePages_Total"].as_f64().unwrap();
    assert_eq!(collected.value("goodput_hugetlb_total_bytes{size=\"2048kB\"}"), pages * 2_097_152.0);
    let power9 = Machine::recorded("sys-power9-6xv100", &parts);
    power9.write("proc/vmstat", "");
    assert_eq!(power9.collect("thp").ok().count("goodput_hugetlb_free_bytes"), 2);
}
