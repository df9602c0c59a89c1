use crate::support::{Machine, facts, oracle, shared};

#[test]
fn agrees_with_node_exporter() {
    let machine = Machine::empty();
    machine.unpack("node-exporter-e2e/proc.tar.gz", "", &[]);
    let collected = machine.collect("memory").ok();
    let expected = oracle();
    for (ours, theirs) in [
        ("cached_bytes", "memory_Cached_bytes"),
        ("shmem_bytes", "memory_Shmem_bytes"),
        ("anon_bytes", "memory_AnonPages_bytes"),
        ("dirty_bytes", "memory_Dirty_bytes"),
        ("writeback_bytes", "memory_Writeback_bytes"),
        ("slab_bytes{kind=\"reclaimable\"}", "memory_SReclaimable_bytes"),
        ("slab_bytes{kind=\"unreclaimable\"}", "memory_SUnreclaim_bytes"),
        ("page_tables_bytes", "memory_PageTables_bytes"),
        ("mlocked_bytes", "memory_Mlocked_bytes"),
        ("unevictable_bytes", "memory_Unevictable_bytes"),
        ("committed_bytes", "memory_Committed_AS_bytes"),
        ("commit_limit_bytes", "memory_CommitLimit_bytes"),
        ("hardware_corrupted_bytes", "memory_HardwareCorrupted_bytes"),
        ("major_faults_total", "vmstat_pgmajfault"),
        ("oom_kills_total", "vmstat_oom_kill"),
    ] {
        assert_eq!(collected.value(&format!("goodput_memory_{ours}")), expected[&format!("node_{theirs}")], "{ours}");
    }
    // This kernel counts by zone; the sums are those of the file's lines.
    for (series, pages) in [
        ("scanned_pages_total{by=\"direct\"}", 67.0 + 6_796.0),
        ("scanned_pages_total{by=\"kswapd\"}", 107_656.0 + 358_784.0),
        ("freed_pages_total{by=\"direct\"}", 44.0 + 6_484.0),
        ("freed_pages_total{by=\"kswapd\"}", 78_783.0 + 254_128.0),
        ("throttles_total", 0.0),
    ] {
        assert_eq!(collected.value(&format!("goodput_memory_reclaim_{series}")), pages, "{series}");
    }
    assert_eq!(collected.value("goodput_memory_refault_pages_total{kind=\"file\"}"), 157_066.0);
    assert_eq!(collected.count("goodput_memory_refault_pages_total"), 1, "this kernel does not count anonymous ones");
    assert_eq!(collected.count("goodput_memory_pinned_bytes"), 0, "nor what is pinned");
    let page = procfs::page_size() as f64;
    assert_eq!(collected.value("goodput_memory_dirty_limit_bytes{kind=\"throttle\"}"), 270_390.0 * page);
    assert_eq!(collected.value("goodput_memory_dirty_limit_bytes{kind=\"background\"}"), 135_030.0 * page);
    collected.golden("memory/node-exporter-e2e");
}

#[test]
fn recorded_machines() {
    let machine = Machine::recorded("proc-2n-numa-balancing-thp", &["proc/vmstat", "proc/meminfo"]);
    let collected = machine.collect("memory").ok();
    let faults = facts("proc-2n-numa-balancing-thp")["vmstat"]["pgmajfault"].as_f64().unwrap();
    assert_eq!(collected.value("goodput_memory_major_faults_total"), faults);
    let machine = Machine::empty();
    for file in ["proc/vmstat", "proc/meminfo"] {
        machine.write(file, &std::fs::read_to_string(shared(&format!("vm-thp-and-vm-sysctls/{file}"))).unwrap());
    }
    let collected = machine.collect("memory").ok();
    assert_eq!(collected.value("goodput_memory_reclaim_scanned_pages_total{by=\"kswapd\"}"), 393_281.0);
    assert_eq!(collected.value("goodput_memory_refault_pages_total{kind=\"file\"}"), 12_025.0);
}

#[test]
fn pinned_memory_and_refaults_of_newer_kernels() {
    let machine = Machine::empty();
    machine.write("proc/meminfo", "Dirty: 0 kB\n");
    machine.write(
        "proc/vmstat",
        "nr_foll_pin_acquired 30\nnr_foll_pin_released 10\nworkingset_refault_anon 1\nworkingset_refault_file 2\npgscan_direct 5\npgscan_direct_throttle 7\npgscan_directory 9\n",
    );
    let collected = machine.collect("memory").ok();
    assert_eq!(collected.value("goodput_memory_pinned_bytes"), 20.0 * procfs::page_size() as f64);
    for (series, expected) in [
        ("dirty_bytes", 0.0),
        ("refault_pages_total{kind=\"anon\"}", 1.0),
        ("refault_pages_total{kind=\"file\"}", 2.0),
        ("reclaim_scanned_pages_total{by=\"direct\"}", 5.0),
        ("reclaim_throttles_total", 7.0),
    ] {
        assert_eq!(collected.value(&format!("goodput_memory_{series}")), expected, "{series}");
    }
    assert_eq!(collected.count("goodput_memory_oom_kills_total"), 0, "older than 4.13");
}
