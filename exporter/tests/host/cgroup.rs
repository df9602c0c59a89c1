use crate::support::Machine;

const POD: &str = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7a96c459_d529_44ae_9f99_90d3798d6426.slice/cri-containerd-1d3d308a7d48a27814a68bf33a44acf4441c9c02463ca0bc1cdfdc8c0b4a8496.scope";

/// The recorded v2 folder as the cgroup of a service that holds a GPU.
fn v2() -> Machine {
    let mut machine = Machine::empty();
    machine.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n");
    machine.unpack("cgroup2-2node-96cpu/tree.tar.gz", "sys/fs/cgroup/system.slice/train.service", &[]);
    machine.write("proc/4711/cgroup", "0::/system.slice/train.service/worker\n");
    machine.gpu("00000000:1A:00.0", &[4711]);
    machine
}

/// The recorded Kubernetes pod; one of its processes holds a GPU.
fn v1() -> Machine {
    let mut machine = Machine::recorded("cgroup1-kubernetes-containerd", &[]);
    machine.gpu("00000000:1A:00.0", &[493_239]);
    machine
}

#[test]
fn v2_container_with_throttling_on_two_nodes() {
    let collected = v2().collect("cgroup").ok();
    for (metric, labels, expected) in [
        ("cpu_limit_cores", "", 48.0),
        ("cpu_usage_seconds_total", "", 98_701.325_189),
        ("cpu_periods_total", "", 3_936_904.0),
        ("cpu_throttled_periods_total", "", 6004.0),
        ("cpu_throttled_seconds_total", "", 19_175.137_007),
        ("allowed_cpus", "", 96.0),
        ("memory_current_bytes", "", 13_071_106_048.0),
        ("memory_max_bytes", "", 103_079_215_104.0),
        ("memory_working_set_bytes", "", 13_071_106_048.0 - 2_935_459_840.0),
        ("memory_anon_thp_bytes", "", 2_097_152.0),
        ("memory_shmem_bytes", "", 4096.0),
        ("swap_current_bytes", "", 0.0),
        ("numa_anon_shmem_bytes", ",node=\"0\"", 1_330_585_600.0),
        ("numa_anon_shmem_bytes", ",node=\"1\"", 1_141_161_984.0 + 4096.0),
        ("numa_file_bytes", ",node=\"0\"", 4_531_773_440.0),
        ("numa_file_bytes", ",node=\"1\"", 4_001_075_200.0 - 4096.0),
        ("pressure_waiting_seconds_total", ",resource=\"cpu\"", 293.391_454),
        ("pressure_stalled_seconds_total", ",resource=\"cpu\"", 277.111_656),
        ("io_read_bytes_total", "", 74_526_720.0),
        ("io_writes_total", "", 181_928.0),
        ("tasks", "", 592.0),
    ] {
        let series = format!("goodput_cgroup_{metric}{{owner=\"train.service\"{labels}}}");
        assert_eq!(collected.value(&series), expected, "{series}");
    }
    collected.golden("cgroup/v2-2node-96cpu");
}

#[test]
fn v1_pod_without_quota() {
    let machine = v1();
    let owners = machine.owners();
    let owner = &owners.of_gpu("GPU-0")[0];
    assert_eq!(owner.pod_uid.as_deref(), Some("7a96c459-d529-44ae-9f99-90d3798d6426"));
    assert_eq!(owner.id, "container-1d3d308a7d48");
    assert_eq!(owner.cgroup, POD);
    let collected = machine.collect("cgroup").ok();
    for (metric, labels, expected) in [
        ("cpu_usage_seconds_total", "", 124_659.500_367),
        ("allowed_cpus", "", 8.0),
        ("memory_current_bytes", "", 1_215_860_736.0),
        ("memory_max_bytes", "", 2_147_483_648.0),
        ("memory_working_set_bytes", "", 1_215_860_736.0 - 78_557_184.0),
        ("numa_anon_shmem_bytes", ",node=\"0\"", 273_315.0 * procfs::page_size() as f64),
        ("io_read_bytes_total", "", 3_448_832.0),
        ("io_writes_total", "", 5048.0),
        ("tasks", "", 177.0),
    ] {
        let series = format!("goodput_cgroup_{metric}{{owner=\"container-1d3d308a7d48\"{labels}}}");
        assert_eq!(collected.value(&series), expected, "{series}");
    }
    assert_eq!(collected.count("goodput_cgroup_cpu_limit_cores"), 0, "a quota of -1 is no limit");
    if procfs::page_size() == 4096 {
        collected.golden("cgroup/v1-kubernetes-containerd");
    }
}

#[test]
fn v1_and_v2_speak_the_same_names() {
    let families = |machine: Machine| -> Vec<String> {
        let samples = machine.collect("cgroup").ok().samples();
        let mut names: Vec<String> = samples.keys().map(|s| s.split('{').next().unwrap().to_owned()).collect();
        names.dedup();
        names
    };
    let (v1, v2) = (families(v1()), families(v2()));
    let only_v1: Vec<_> = v1.iter().filter(|name| !v2.contains(name)).collect();
    assert!(only_v1.is_empty(), "{only_v1:?}");
}

#[test]
fn v1_quota_is_in_cores_and_throttling_in_seconds() {
    let mut machine = Machine::empty();
    machine.write("sys/fs/cgroup/cpu,cpuacct/lab/x/cpu.cfs_quota_us", "50000\n");
    machine.write("sys/fs/cgroup/cpu,cpuacct/lab/x/cpu.cfs_period_us", "100000\n");
    machine
        .write("sys/fs/cgroup/cpu,cpuacct/lab/x/cpu.stat", "nr_periods 8\nnr_throttled 4\nthrottled_time 2500000000\n");
    machine.write("proc/7/cgroup", "2:cpu,cpuacct:/lab/x\n");
    machine.gpu("00000000:1A:00.0", &[7]);
    let collected = machine.collect("cgroup").ok();
    assert_eq!(collected.value("goodput_cgroup_cpu_limit_cores{owner=\"/lab/x\"}"), 0.5);
    assert_eq!(collected.value("goodput_cgroup_cpu_throttled_seconds_total{owner=\"/lab/x\"}"), 2.5);
}

#[test]
fn hybrid_takes_pressure_from_v2_and_the_rest_from_v1() {
    let mut machine = Machine::empty();
    machine.write("sys/fs/cgroup/unified/cgroup.procs", "");
    machine.write(
        "sys/fs/cgroup/unified/lab/x/io.pressure",
        "some avg10=0.00 total=2000000\nfull avg10=0.00 total=1000000\n",
    );
    machine.write("sys/fs/cgroup/unified/lab/x/cpu.stat", "usage_usec 1\n");
    machine.write("sys/fs/cgroup/cpuacct/lab/x/cpuacct.usage", "3000000000\n");
    machine.write("sys/fs/cgroup/memory/elsewhere/memory.usage_in_bytes", "5\n");
    machine.write("proc/7/cgroup", "4:memory:/elsewhere\n2:cpuacct:/lab/x\n0::/lab/x\n");
    machine.gpu("00000000:1A:00.0", &[7]);
    let collected = machine.collect("cgroup").ok();
    assert_eq!(collected.value("goodput_cgroup_pressure_waiting_seconds_total{owner=\"/lab/x\",resource=\"io\"}"), 2.0);
    assert_eq!(collected.value("goodput_cgroup_cpu_usage_seconds_total{owner=\"/lab/x\"}"), 3.0);
    assert_eq!(collected.count("goodput_cgroup_memory_current_bytes"), 0, "that memory is someone else's");
}

#[test]
fn a_group_that_is_gone_is_no_error() {
    let mut machine = Machine::empty();
    machine.write("sys/fs/cgroup/cgroup.controllers", "cpu\n");
    machine.write("proc/7/cgroup", "0::/gone\n");
    machine.gpu("00000000:1A:00.0", &[7]);
    let collected = machine.collect("cgroup").ok();
    assert_eq!(collected.families.samples(), 2, "only the counts of what was skipped");
}

#[test]
fn patterns_add_groups_without_gpus() {
    let mut machine = v2();
    machine.write("sys/fs/cgroup/system.slice/kubelet.service/pids.current", "3\n");
    machine.write("sys/fs/cgroup/system.slice/cron.service/pids.current", "1\n");
    machine.pattern("/system.slice/*let.service");
    machine.pattern("/system.slice/train.service");
    machine.pattern("/nowhere/*");
    let collected = machine.collect("cgroup").ok();
    assert_eq!(collected.value("goodput_cgroup_tasks{owner=\"kubelet.service\"}"), 3.0);
    assert_eq!(collected.count("goodput_cgroup_tasks"), 2);
    let owners = machine.collect("owner").ok();
    assert_eq!(owners.count("goodput_gpu_owner_info"), 1, "a pattern gives nobody a GPU");
}

#[test]
fn more_matches_than_the_limit_are_counted() {
    let mut machine = v2();
    for n in 0..20 {
        machine.write(&format!("sys/fs/cgroup/lab/{n}/pids.current"), "1\n");
    }
    machine.pattern("/lab/*");
    let collected = machine.collect("cgroup").ok();
    assert_eq!(collected.value("goodput_cgroup_include_skipped"), 4.0);
    assert_eq!(collected.count("goodput_cgroup_tasks"), 17, "16 of them, and who holds the GPU");
}

#[test]
fn patterns_that_cannot_be_looked_up_hide_nobody() {
    let mut machine = v2();
    let folder = machine.path("sys/fs/cgroup/secret");
    std::os::unix::fs::symlink("secret", folder).unwrap();
    machine.pattern("/secret/*");
    let collected = machine.collect("cgroup");
    let error = collected.result.as_ref().unwrap_err().to_string();
    assert!(error.starts_with("the cgroups to include: ") && error.contains("secret"), "{error}");
    assert_eq!(collected.count("goodput_cgroup_tasks"), 1);
}

#[test]
fn more_owners_than_the_limit_are_counted() {
    let mut machine = Machine::empty();
    machine.write("sys/fs/cgroup/cgroup.controllers", "cpu\n");
    let pids: Vec<u32> = (1..=70).collect();
    for pid in &pids {
        machine.write(&format!("proc/{pid}/cgroup"), &format!("0::/lab/{pid}\n"));
        machine.write(&format!("sys/fs/cgroup/lab/{pid}/pids.current"), "1\n");
    }
    machine.gpu("00000000:1A:00.0", &pids);
    let collected = machine.collect("cgroup").ok();
    assert_eq!(collected.count("goodput_cgroup_tasks"), 64);
    assert_eq!(collected.value("goodput_cgroup_skipped"), 6.0);
}

#[test]
fn allowed_cpus_by_node() {
    let mut machine = Machine::empty();
    machine.write("sys/devices/system/node/node0/cpulist", "0,2,4,6\n");
    machine.write("sys/devices/system/node/node1/cpulist", "1,3,5,7\n");
    machine.write("sys/devices/system/node/node2/cpulist", "\n");
    machine.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n");
    machine.write("sys/fs/cgroup/lab/set/cpuset.cpus.effective", "0-2\n");
    machine.write("sys/fs/cgroup/lab/set/cpuset.mems.effective", "0,2\n");
    machine.write("proc/1/cgroup", "0::/lab/set\n");
    machine.write("proc/1/status", "Cpus_allowed_list:\t7\n");
    machine.write("proc/2/cgroup", "0::/lab/free\n");
    machine.write("proc/2/status", "Cpus_allowed_list:\t5,7\nMems_allowed_list:\t1\n");
    machine.gpu("00000000:1A:00.0", &[1, 2]);
    let collected = machine.collect("cgroup").ok();
    let allowed = |owner: &str, node: u32| {
        collected.value(&format!("goodput_cgroup_numa_allowed_cpus{{owner=\"{owner}\",node=\"{node}\"}}"))
    };
    assert_eq!((allowed("/lab/set", 0), allowed("/lab/set", 1)), (2.0, 1.0));
    assert_eq!((allowed("/lab/free", 0), allowed("/lab/free", 1)), (0.0, 2.0), "no cpuset: its process's affinity");
    assert_eq!(collected.value("goodput_cgroup_allowed_cpus{owner=\"/lab/free\"}"), 2.0);
    assert_eq!(collected.value("goodput_cgroup_allowed_memory_info{owner=\"/lab/set\",nodes=\"0,2\"}"), 1.0);
    assert_eq!(collected.value("goodput_cgroup_allowed_memory_info{owner=\"/lab/free\",nodes=\"1\"}"), 1.0);
}

#[test]
fn v1_swap_and_huge_pages() {
    let mut machine = Machine::empty();
    machine.write(
        "sys/fs/cgroup/memory/lab/x/memory.stat",
        "swap 1\ntotal_rss 9\ntotal_rss_huge 2097152\ntotal_swap 8192\n",
    );
    machine.write("proc/7/cgroup", "4:memory:/lab/x\n");
    machine.gpu("00000000:1A:00.0", &[7]);
    let collected = machine.collect("cgroup").ok();
    assert_eq!(collected.value("goodput_cgroup_swap_current_bytes{owner=\"/lab/x\"}"), 8192.0);
    assert_eq!(collected.value("goodput_cgroup_memory_anon_thp_bytes{owner=\"/lab/x\"}"), 2_097_152.0);
}

#[test]
fn the_lowest_limit_on_io_of_a_cgroup_and_those_above_it_holds() {
    let mut machine = v2();
    machine.write("sys/fs/cgroup/system.slice/io.max", "259:0 rbps=400 wbps=300 riops=max wiops=max\n");
    machine.write("sys/fs/cgroup/system.slice/train.service/io.max", "259:0 rbps=500 wbps=max riops=20 wiops=max\n");
    machine.write("sys/fs/cgroup/io.max", "259:0 rbps=1 wbps=1 riops=1 wiops=1\n");
    machine.write("sys/dev/block/259:0/uevent", "MAJOR=259\nMINOR=0\nDEVNAME=nvme0n1\n");
    machine.pattern("/system.slice/cron.service");
    std::fs::create_dir_all(machine.path("sys/fs/cgroup/system.slice/cron.service")).unwrap();
    let collected = machine.collect("cgroup").ok();
    let limits = |collected: &crate::support::Collected| {
        let samples = collected.samples().into_iter().filter(|(series, _)| series.contains("_io_limit_"));
        samples.map(|(series, value)| (series.replace("goodput_cgroup_io_limit_", ""), value)).collect::<Vec<_>>()
    };
    let of = |kind: &str, owner: &str, direction: &str, value: f64| {
        (format!("{kind}{{owner=\"{owner}\",device=\"nvme0n1\",direction=\"{direction}\"}}"), value)
    };
    let expected = [
        of("bytes", "cron.service", "read", 400.0),
        of("bytes", "cron.service", "write", 300.0),
        of("bytes", "train.service", "read", 400.0),
        of("bytes", "train.service", "write", 300.0),
        of("operations", "train.service", "read", 20.0),
    ];
    assert_eq!(limits(&collected), expected, "the root has no limits, whatever a file there says");
    machine.write("sys/fs/cgroup/system.slice/io.max", "259:0 rbps=fast\n");
    let bad = machine.collect("cgroup").ok();
    assert!(bad.left().contains("system.slice/io.max: line 1"), "{}", bad.left());
    assert_eq!(
        limits(&bad),
        [of("bytes", "train.service", "read", 500.0), of("operations", "train.service", "read", 20.0)]
    );
}

#[test]
fn a_weight_and_a_target_of_io_are_told_where_one_is_set() {
    let machine = v2();
    machine.write("sys/dev/block/259:0/uevent", "MAJOR=259\nMINOR=0\nDEVNAME=nvme0n1\n");
    let own = "sys/fs/cgroup/system.slice/train.service";
    let cases = [
        ("100", "100", "", "", None, None),
        ("500", "100", "", "", Some(500.0), None),
        ("500", "50", "259:0 target=75000\n", "", Some(50.0), Some(0.075)),
        ("100", "100", "259:0 target=75000\n", "259:0 target=20000\n", None, Some(0.02)),
    ];
    for (weight, above, target, target_above, expected, seconds) in cases {
        machine.write(&format!("{own}/io.weight"), &format!("default {weight}\n"));
        machine.write("sys/fs/cgroup/system.slice/io.weight", &format!("default {above}\n"));
        machine.write(&format!("{own}/io.latency"), target);
        machine.write("sys/fs/cgroup/system.slice/io.latency", target_above);
        let samples = machine.collect("cgroup").ok().samples();
        let owner = "owner=\"train.service\"";
        let value = |series: String| samples.get(&series).copied();
        assert_eq!(value(format!("goodput_cgroup_io_weight{{{owner}}}")), expected, "{weight} below {above}");
        let of_disk = format!("goodput_cgroup_io_latency_target_seconds{{{owner},device=\"nvme0n1\"}}");
        assert_eq!(value(of_disk), seconds, "{target:?} below {target_above:?}");
    }
}

/// blk-throttle of v1 keeps groups flat: those above limit themselves alone.
#[test]
fn limits_on_io_of_v1_are_those_of_the_cgroup_itself() {
    let mut machine = Machine::empty();
    machine.write("sys/fs/cgroup/blkio/lab/x/blkio.throttle.read_bps_device", "8:16 1048576\n");
    machine.write("sys/fs/cgroup/blkio/lab/x/blkio.throttle.write_iops_device", "8:16 70\n");
    machine.write("sys/fs/cgroup/blkio/lab/blkio.throttle.read_bps_device", "8:16 1024\n");
    machine.write("proc/7/cgroup", "4:blkio:/lab/x\n");
    machine.gpu("00000000:1A:00.0", &[7]);
    let collected = machine.collect("cgroup").ok();
    let labels = |direction: &str| format!("{{owner=\"/lab/x\",device=\"8:16\",direction=\"{direction}\"}}");
    assert_eq!(collected.value(&format!("goodput_cgroup_io_limit_bytes{}", labels("read"))), 1_048_576.0);
    assert_eq!(collected.value(&format!("goodput_cgroup_io_limit_operations{}", labels("write"))), 70.0);
    assert_eq!(collected.count("goodput_cgroup_io_limit_bytes"), 1);
}

#[test]
fn limits_of_many_devices_are_cut() {
    let mut machine = v2();
    let lines: String = (0..20).map(|n| format!("8:{n} rbps=5 wbps=max riops=max wiops=max\n")).collect();
    machine.write("sys/fs/cgroup/system.slice/train.service/io.max", &lines);
    machine.gpu("00000000:1B:00.0", &[]);
    assert_eq!(machine.collect("cgroup").ok().count("goodput_cgroup_io_limit_bytes"), 8);
}

#[test]
fn allocations_that_were_about_to_fail_have_no_series_before_the_first() {
    let machine = v2();
    let count = |oom: u32| {
        let events = format!("low 0\nhigh 0\nmax 0\noom {oom}\noom_kill 0\n");
        machine.write("sys/fs/cgroup/system.slice/train.service/memory.events", &events);
        let collected = machine.collect("cgroup").ok();
        ["oom_events", "oom_kills"].map(|kind| collected.count(&format!("goodput_cgroup_memory_{kind}_total")))
    };
    assert_eq!((count(0), count(1)), ([0, 1], [1, 1]));
}
