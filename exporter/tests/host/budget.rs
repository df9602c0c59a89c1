use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use goodput_exporter::attribute::claims::Claimant;
use goodput_exporter::attribute::{Owners, Schedulers};
use goodput_exporter::parse::container_log::ContainerName;
use goodput_exporter::parse::device_id::Part;
use goodput_exporter::parse::oom::Kill;
use goodput_exporter::source::environ::MpsLimits;
use goodput_exporter::source::pod_resources::State;

use goodput_exporter::audit::checks::CHECKS;

use crate::fixture::{Fixture, of_kernel};
use crate::support::{Machine, collector, rows_of};

/// Series that the host half may make on a node of 8 GPUs, 2 sockets and 256 CPUs with 8 jobs.
const BUDGET: usize = 1500;

/// Eight GPUs, one job on each, two NUMA nodes, 12 disks, 10 NICs.
fn node(cpus: u32, queues: u32) -> Machine {
    let mut machine =
        Machine::recorded("sys-4s8n-numa-miss", &["sys/devices/system/node/node0", "sys/devices/system/node/node1"]);
    machine.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
    machine.write("sys/devices/system/node/online", "0-1\n");
    machine.write("sys/devices/system/node/node0/distance", "10 21\n");
    machine.write("sys/devices/system/node/node1/distance", "21 10\n");
    let half = cpus / 2;
    machine.write("sys/devices/system/node/node0/cpulist", &format!("0-{}\n", half - 1));
    machine.write("sys/devices/system/node/node1/cpulist", &format!("{half}-{}\n", cpus - 1));
    kernel(&machine, cpus);
    power(&machine, cpus);
    driver(&machine);
    kubelet(&machine);
    machine.write("etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=0-1\n");
    disks(&machine);
    slots(&machine);
    network(&machine);
    for job in 0..8 {
        let (group, pid) = (format!("system.slice/slurmstepd.scope/job_{job}"), 100 + job);
        machine.unpack("cgroup2-2node-96cpu/tree.tar.gz", &format!("sys/fs/cgroup/{group}"), &[]);
        machine.write(&format!("sys/fs/cgroup/{group}/irq.pressure"), "full total=1\n");
        machine.write(&format!("proc/{pid}/cgroup"), &format!("0::/{group}/step_0\n"));
        process(&machine, pid);
        device(&machine, &format!("1{job}:00.0"), "0x030200", job / 4);
        machine.write(&format!("sys/bus/pci/devices/0000:1{job}:00.0/local_cpulist"), "0-63,128-191\n");
        machine.gpu(&format!("00000000:1{job}:00.0"), &[pid]);
    }
    interrupts(&machine, cpus, queues);
    // One job has met its limit: series of victims are there from the first kill on.
    let group = "/system.slice/slurmstepd.scope/job_0";
    let line = format!(
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg={group},task_memcg={group}/step_0,task=python,pid=7,uid=0"
    );
    machine.heard.ooms.hear(&Kill::parse(&line).unwrap());
    machine
}

/// A switch for each GPU, with an RDMA device below it; two more below the first switch of each socket.
fn slots(machine: &Machine) {
    let below = |job: u32, rest: &str| format!("pci0000:{job}0/0000:{job}0:01.0/0000:{job}1:00.0/0000:{job}2:{rest}");
    for n in 0..10 {
        let (job, port) = if n < 8 { (n, 2) } else { (n % 8 * 4, 3) };
        let gpu = format!("sys/bus/pci/devices/0000:1{job}:00.0");
        machine.slot(&gpu, &below(job, &format!("01.0/0000:1{job}:00.0")));
        let nic = format!("sys/class/infiniband/mlx5_{n}/device");
        machine.slot(&nic, &below(job, &format!("0{port}.0/0000:4{n}:00.0")));
    }
}

/// A process with all its files of the kernel.
fn process(machine: &Machine, pid: u32) {
    for (file, text) in [
        ("status", "Cpus_allowed_list:\t0-255\nvoluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t1\n"),
        ("stat", "1 (python) S 1 1 1 0 -1 0 1 1 1 1 1 1 1 1 20 0 1 0 1 1 1"),
        ("schedstat", "1 1 1\n"),
        ("io", "rchar: 1\nread_bytes: 1\nwrite_bytes: 1\n"),
        ("limits", "Max locked memory         8388608              8388608            bytes\n"),
        ("oom_score_adj", "0\n"),
        ("oom_score", "700\n"),
        ("mountinfo", "90 80 0:55 / / rw - overlay overlay rw,upperdir=/u\n"),
        ("task/1/children", "\n"),
    ] {
        machine.write(&format!("proc/{pid}/{file}"), text);
    }
}

/// The files of the whole kernel.
fn kernel(machine: &Machine, cpus: u32) {
    let lines: String = (0..cpus).map(|n| format!("cpu{n} 1 2 3 4 5 6 7 8 0 0\n")).collect();
    machine.write(
        "proc/stat",
        &format!("cpu  1 2 3 4 5 6 7 8 0 0\n{lines}btime 5\nctxt 1\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"),
    );
    let waits: String = (0..cpus).map(|n| format!("cpu{n} 1 2 3 4 5 6 7 8 9\ndomain0 ffff 1 2 3\n")).collect();
    machine.write("proc/schedstat", &waits);
    machine.write("proc/loadavg", "0.21 0.37 0.39 1/719 19737\n");
    machine.write("proc/softirqs", &table(cpus, &KINDS.map(|kind| (kind.to_owned(), String::new()))));
    let softnet: String = (0..cpus).map(|n| format!("1 0 0 0 0 0 0 0 0 0 0 0 {n:x} 0 0\n")).collect();
    machine.write("proc/net/softnet_stat", &softnet);
    machine.write("proc/swaps", "Filename Type Size Used Priority\n/swap file 8 4 -2\n");
    let memory = [
        "Cached",
        "Shmem",
        "AnonPages",
        "Dirty",
        "Writeback",
        "SReclaimable",
        "SUnreclaim",
        "Mlocked",
        "Unevictable",
        "PageTables",
        "Committed_AS",
        "CommitLimit",
        "HardwareCorrupted",
        "MemTotal",
        "MemAvailable",
        "SwapTotal",
        "SwapFree",
        "Zswap",
        "Zswapped",
        "AnonHugePages",
    ];
    machine.write("proc/meminfo", &memory.map(|key| format!("{key}: 2 kB\n")).concat());
    machine.write("proc/vmstat", &VMSTAT.map(|key| format!("{key} 1\n")).concat());
    for (path, text) in SETTINGS {
        machine.write(path, text);
    }
}

/// NVIDIA's driver with everything that belongs to it.
fn driver(machine: &Machine) {
    let folder = "proc/driver/nvidia";
    machine.write(&format!("{folder}/version"), "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1  x\n");
    let parameters =
        ["EnableGpuFirmware", "EnableMSI", "EnablePCIERelaxedOrderingMode", "NvLinkDisable", "DynamicPowerManagement"];
    machine.write(&format!("{folder}/params"), &parameters.map(|name| format!("{name}: 1\n")).concat());
    for gpu in 0..8 {
        let information = "GPU Firmware: 580.1\nGPU Excluded: No\n";
        machine.write(&format!("{folder}/gpus/0000:1{gpu}:00.0/information"), information);
    }
    machine.write("proc/modules", "nvidia 1 1 - Live 0x0\n");
    machine.write("proc/2/comm", "kthreadd\n");
}

/// A kubelet that gives CPUs and memory away.
fn kubelet(machine: &Machine) {
    let folder = "var/lib/kubelet";
    machine.write(&format!("{folder}/config.yaml"), "reservedSystemCPUs: 0-1\n");
    let cpu = r#"{"policyName":"static","defaultCpuSet":"0-9","entries":{"uid":{"a":"10-19"}}}"#;
    machine.write(&format!("{folder}/cpu_manager_state"), cpu);
    let block = r#"{"numaAffinity":[0],"type":"memory","size":1},{"numaAffinity":[1],"type":"memory","size":1}"#;
    let memory = format!(r#"{{"policyName":"Static","entries":{{"uid":{{"a":[{block}]}}}}}}"#);
    machine.write(&format!("{folder}/memory_manager_state"), &memory);
}

/// The kernel's files about each CPU's power.
fn power(machine: &Machine, cpus: u32) {
    let folder = "sys/devices/system/cpu";
    for (file, text) in [
        ("online", format!("0-{}", cpus - 1)),
        ("isolated", String::new()),
        ("nohz_full", String::new()),
        ("smt/active", "1".to_owned()),
    ] {
        machine.write(&format!("{folder}/{file}"), &text);
    }
    // One CPU of each node: those of one node make the same series.
    for cpu in [0, cpus / 2] {
        let policy = format!("{folder}/cpufreq/policy{cpu}");
        for (file, text) in
            [("scaling_governor", "performance"), ("cpuinfo_max_freq", "1"), ("affected_cpus", &cpu.to_string())]
        {
            machine.write(&format!("{policy}/{file}"), text);
        }
        for (state, name) in ["POLL", "C1", "C1E", "C6"].iter().enumerate() {
            machine.write(&format!("{folder}/cpu{cpu}/cpuidle/state{state}/name"), name);
            machine.write(&format!("{folder}/cpu{cpu}/cpuidle/state{state}/time"), "1");
        }
    }
    let clocks: String = (0..cpus).map(|cpu| format!("processor : {cpu}\ncpu MHz : 800.0\n\n")).collect();
    machine.write("proc/cpuinfo", &clocks);
}

const KINDS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

const VMSTAT: [&str; 33] = [
    "nr_dirty_threshold",
    "nr_dirty_background_threshold",
    "nr_foll_pin_acquired",
    "nr_foll_pin_released",
    "pgscan_direct",
    "pgscan_kswapd",
    "pgsteal_direct",
    "pgsteal_kswapd",
    "pgscan_direct_throttle",
    "oom_kill",
    "pgmajfault",
    "workingset_refault_anon",
    "workingset_refault_file",
    "pswpin",
    "pswpout",
    "zswpin",
    "zswpout",
    "numa_pte_updates",
    "numa_hint_faults",
    "numa_hint_faults_local",
    "numa_pages_migrated",
    "thp_fault_alloc",
    "thp_fault_fallback",
    "thp_collapse_alloc",
    "thp_collapse_alloc_failed",
    "thp_split_page",
    "compact_stall",
    "compact_fail",
    "compact_success",
    "compact_daemon_wake",
    "allocstall_dma",
    "allocstall_normal",
    "allocstall_movable",
];

const SETTINGS: [(&str, &str); 19] = [
    ("proc/pressure/cpu", "some total=1\nfull total=1\n"),
    ("proc/pressure/io", "some total=1\nfull total=1\n"),
    ("proc/pressure/memory", "some total=1\nfull total=1\n"),
    ("proc/pressure/irq", "full total=1\n"),
    ("proc/sys/kernel/numa_balancing", "1\n"),
    ("proc/sys/vm/swappiness", "60\n"),
    ("proc/sys/vm/compaction_proactiveness", "20\n"),
    ("sys/module/zswap/parameters/enabled", "Y\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("sys/kernel/mm/transparent_hugepage/khugepaged/defrag", "1\n"),
    ("sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan", "4096\n"),
    ("sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "10000\n"),
    ("sys/kernel/mm/transparent_hugepage/defrag", "[madvise] never\n"),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n"),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0\n"),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "0\n"),
    ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
    ("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0\n"),
    ("sys/kernel/mm/hugepages/hugepages-1048576kB/resv_hugepages", "0\n"),
];

/// Twelve disks, two devices made of them, an NFS and a Lustre mount.
fn disks(machine: &Machine) {
    let names = (0..12).map(|n| format!("nvme{n}n1")).chain(["md0".to_owned(), "dm-0".to_owned()]);
    let disks: String = names.map(|name| format!("259 0 {name} 1 2 3 4 5 6 7 8 9 10 11\n")).collect();
    machine.write("sys/block/md0/size", "1\n");
    machine.write("sys/block/dm-0/dm/name", "vg-root\n");
    machine
        .write("proc/1/mountstats", "device s:/a mounted on /a with fstype nfs\nopts: rw,vers=3\nbytes: 1 2 3 4 5 6\n");
    machine.write("proc/fs/lustre/llite/scratch-1/stats", include_str!("../fixtures/collectors/lustre/times.stats"));
    machine.write("proc/diskstats", &disks);
    machine.write("proc/1/mountinfo", "24 1 259:1 / / rw - ext4 /dev/nvme0n1 rw\n");
    machine.write("sys/dev/block/259:1/uevent", "DEVNAME=nvme0n1\n");
    for n in 0..12 {
        std::fs::create_dir_all(machine.path(&format!("sys/block/nvme{n}n1"))).unwrap();
    }
}

/// Ten interfaces with an RDMA port each; two of the ports do Ethernet.
fn network(machine: &Machine) {
    machine.write("proc/net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 1 1\n");
    machine.write("proc/net/netstat", "TcpExt: ListenDrops TCPTimeouts\nTcpExt: 1 1\n");
    let lines: String = (0..10).map(|n| format!("eth{n}: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n")).collect();
    machine.write("proc/net/dev", &lines);
    for n in 0..10 {
        let folder = format!("sys/class/net/eth{n}");
        for (file, text) in [
            ("device/numa_node", "0"),
            ("device/local_cpulist", "0"),
            ("operstate", "up"),
            ("speed", "1"),
            ("mtu", "1"),
            ("carrier_changes", "1"),
        ] {
            machine.write(&format!("{folder}/{file}"), text);
        }
        machine.unpack(
            "ib-8xh100-sysfs/tree.tar.gz",
            &format!("sys/class/infiniband/mlx5_{n}"),
            &["sys/class/infiniband/mlx5_0"],
        );
        let port = format!("sys/class/infiniband/mlx5_{n}");
        std::fs::rename(
            machine.path(&format!("{port}/sys/class/infiniband/mlx5_0/ports")),
            machine.path(&format!("{port}/ports")),
        )
        .unwrap();
    }
    // The recorded kernel lacks these counters, which current ones have.
    for n in 0..10 {
        for kind in ["req_rnr_retries_exceeded", "req_transport_retries_exceeded"] {
            machine.write(&format!("sys/class/infiniband/mlx5_{n}/ports/1/hw_counters/{kind}"), "0\n");
        }
    }
    for n in [8, 9] {
        machine.write(&format!("sys/class/infiniband/mlx5_{n}/ports/1/hw_counters/rp_cnp_handled"), "1\n");
    }
    for n in 0..10 {
        machine.write(&format!("sys/class/infiniband/mlx5_{n}/device/local_cpulist"), "0\n");
    }
}

fn device(machine: &Machine, address: &str, class: &str, node: u32) {
    machine.write(&format!("sys/bus/pci/devices/0000:{address}/class"), &format!("{class}\n"));
    machine.write(&format!("sys/bus/pci/devices/0000:{address}/vendor"), "0x10de\n");
    machine.write(&format!("sys/bus/pci/devices/0000:{address}/numa_node"), &format!("{node}\n"));
}

/// One interrupt per GPU and bridge, one per queue of the NICs and disks.
fn interrupts(machine: &Machine, cpus: u32, queues: u32) {
    let mut owners: Vec<String> = (0..8).map(|job| format!("1{job}:00.0")).collect();
    for n in 0..32 {
        device(machine, &format!("00:{n:02x}.0"), "0x060400", 0);
        owners.push(format!("00:{n:02x}.0"));
    }
    let nics = (0..10).map(|n| (format!("4{n}:00.0"), "0x020000", n % 2));
    let disks = (0..12).map(|n| (format!("8{n:x}:00.0"), "0x010802", n % 2));
    for (address, class, node) in nics.chain(disks) {
        device(machine, &address, class, node);
        owners.extend((0..queues).map(|_| address.clone()));
    }
    let rows = owners.iter().zip(24..);
    let rows: Vec<_> =
        rows.map(|(owner, irq)| (irq.to_string(), format!("IR-PCI-MSIX-0000:{owner}    0-edge      x"))).collect();
    machine.write("proc/interrupts", &table(cpus, &rows));
}

/// A table with a column per CPU, laid out as the kernel does.
fn table(cpus: u32, rows: &[(String, String)]) -> String {
    let mut text: String = (0..cpus).map(|cpu| format!("       CPU{cpu}")).collect();
    for (name, description) in rows {
        let counts: String = (0..cpus).map(|cpu| format!("{:>11}", 1_000_000 + cpu)).collect();
        write!(text, "\n{name:>4}:{counts}  {description}").unwrap();
    }
    text + "\n"
}

/// The owners, with a kubelet that has given every GPU to one of the jobs.
fn owners(machine: &Machine) -> Owners {
    let mut owners = machine.owners();
    let claim = |job: usize| {
        let name = ContainerName { namespace: "ml".into(), pod: format!("job-{job}"), container: "main".into() };
        (format!("GPU-{job}"), BTreeMap::from([((Claimant::Container(name), Part::Whole), 1)]))
    };
    let kubelet = Some((State::Ok, Some(Duration::ZERO)));
    let schedulers = Schedulers { kubelet, told: true, ..Schedulers::default() };
    owners.join(&BTreeMap::new(), &(0..8).map(claim).collect(), schedulers);
    // One job is a client of MPS; the flag that has its limits read is off by default.
    let limit = MpsLimits { threads: Some(0.5), memory: BTreeMap::from([(0, 1 << 30)]) };
    owners.limit_mps(BTreeMap::from([(100, limit)]));
    owners
}

#[test]
#[allow(clippy::print_stdout, reason = "the counts are for whoever looks, with --nocapture")]
fn a_large_node_stays_within_its_budget() {
    let machine = node(256, 88);
    // `audit` has a series per check, and here it would judge a machine that is not tuned. A running exporter never judges
    // `pfc_priority`, as it starts no program for it.
    let mut total = CHECKS.iter().filter(|check| check.id != "pfc_priority").count();
    for entry in of_kernel().filter(|entry| entry.default && entry.name != "audit") {
        let name = entry.name;
        let mut collector = collector(name);
        let mut collect = |uptime: &str| {
            machine.write("proc/uptime", uptime);
            machine.collect_of(collector.as_mut(), owners(&machine), machine.snapshot())
        };
        // Values over the time since the previous reading are there from the second reading on.
        let _ = collect("1000.00 1.00\n");
        let collected = collect("1010.00 1.00\n");
        assert!(collected.result.is_ok(), "collector {name}: {:?}", collected.result);
        assert!(!rows_of(name).is_empty(), "collector {name}: the catalog has no row of it");
        let missing: Vec<_> = rows_of(name).into_iter().filter(|row| collected.count(row) == 0).collect();
        let mut series = collected.families.samples();
        if !missing.is_empty() {
            // The large node has not what the collector reads: its own machine has.
            let own = Fixture::of(name).run();
            let missing: Vec<_> = missing.into_iter().filter(|row| !own.families().contains(row)).collect();
            assert!(missing.is_empty(), "collector {name}: never wrote {missing:?}, so they are not counted");
            // Storage targets come on top: at most 64, as the documentation says.
            let is_counted = |series: &&String| !series.starts_with("goodput_lustre_target_");
            series = series.max(own.series.keys().filter(is_counted).count());
        }
        println!("{name}: {series} series");
        total += series;
    }
    println!("{total} series of {BUDGET}");
    assert!(total < BUDGET, "{total} series");
}

/// What the documentation says of the collector `ethtool`, which is off by default, on ten NICs: without a pause, with one
/// lossless priority that pauses both ways, and with all eight.
#[test]
fn statistics_of_ten_nics_are_few_without_pauses() {
    for (paused, expected) in [(0, 4 * 10), (1, 8 * 10), (8, 36 * 10)] {
        let machine = node(8, 4);
        let pauses = |n: u8| {
            let value = u8::from(n < paused);
            let of = |way: &str| format!("{way}_prio{n}_pause: {value}\n{way}_prio{n}_pause_duration: {value}\n");
            of("rx") + &of("tx")
        };
        let text: String = (0..8).map(pauses).collect();
        let text = text + "rx_discards_phy: 0\ntx_discards_phy: 0\nrx_oversize_pkts_phy: 0\n";
        (0..10).for_each(|n| machine.prints("ethtool", &format!("-S eth{n}"), &text));
        assert_eq!(machine.collect("ethtool").ok().families.samples(), expected, "{paused} priorities that paused");
    }
}

#[test]
fn owners_of_eight_gpus() {
    let machine = node(8, 4);
    machine.collect_of(collector("owner").as_mut(), owners(&machine), machine.snapshot()).ok().golden("owner/8-gpus");
}

#[test]
fn neither_cpus_nor_interrupts_make_series() {
    let [small, large] = [node(8, 4), node(256, 88)].map(|machine| {
        let samples = ["irq", "cpu"].map(|collector| machine.collect(collector).ok().samples());
        samples.into_iter().flat_map(BTreeMap::into_keys).collect::<Vec<_>>()
    });
    assert_eq!(small, large);
}
