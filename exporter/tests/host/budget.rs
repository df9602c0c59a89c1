use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use goodput_exporter::attribute::claims::Claimant;
use goodput_exporter::attribute::{Owners, Schedulers};
use goodput_exporter::parse::container_log::ContainerName;
use goodput_exporter::parse::device_id::Part;
use goodput_exporter::source::pod_resources::State;

use crate::support::{Machine, rows_of};

/// Series that the host half may make on a node of 8 GPUs, 2 sockets and 256 CPUs with 8 jobs.
const BUDGET: usize = 1500;

/// Eight GPUs, one job on each, two NUMA nodes, 12 disks, 10 NICs.
fn node(cpus: u32, queues: u32) -> Machine {
    let mut machine =
        Machine::recorded("sys-4s8n-numa-miss", &["sys/devices/system/node/node0", "sys/devices/system/node/node1"]);
    machine.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
    machine.write("sys/devices/system/node/online", "0-7\n");
    let half = cpus / 2;
    machine.write("sys/devices/system/node/node0/cpulist", &format!("0-{}\n", half - 1));
    machine.write("sys/devices/system/node/node1/cpulist", &format!("{half}-{}\n", cpus - 1));
    kernel(&machine, cpus);
    disks(&machine);
    for job in 0..8 {
        let (group, pid) = (format!("system.slice/slurmstepd.scope/job_{job}"), 100 + job);
        machine.unpack("cgroup2-2node-96cpu/tree.tar.gz", &format!("sys/fs/cgroup/{group}"), &[]);
        machine.write(&format!("sys/fs/cgroup/{group}/irq.pressure"), "full total=1\n");
        machine.write(&format!("proc/{pid}/cgroup"), &format!("0::/{group}/step_0\n"));
        machine.write(&format!("proc/{pid}/status"), "Cpus_allowed_list:\t0-255\n");
        device(&machine, &format!("1{job}:00.0"), "0x030200", job / 4);
        machine.write(&format!("sys/bus/pci/devices/0000:1{job}:00.0/local_cpulist"), "0-63,128-191\n");
        machine.gpu(&format!("00000000:1{job}:00.0"), &[pid]);
    }
    interrupts(&machine, cpus, queues);
    machine
}

/// The files of the whole kernel.
fn kernel(machine: &Machine, cpus: u32) {
    let lines: String = (0..cpus).map(|n| format!("cpu{n} 1 2 3 4 5 6 7 8 0 0\n")).collect();
    machine.write("proc/stat", &format!("cpu  1 2 3 4 5 6 7 8 0 0\n{lines}btime 5\n"));
    machine.write("proc/softirqs", &table(cpus, &KINDS.map(|kind| (kind.to_owned(), String::new()))));
    let softnet: String = (0..cpus).map(|n| format!("1 0 0 0 0 0 0 0 0 0 0 0 {n:x} 0 0\n")).collect();
    machine.write("proc/net/softnet_stat", &softnet);
    machine.write("proc/swaps", "Filename Type Size Used Priority\n/swap file 8 4 -2\n");
    let memory = ["MemTotal", "MemAvailable", "SwapTotal", "SwapFree", "Zswap", "Zswapped", "AnonHugePages"];
    machine.write("proc/meminfo", &memory.map(|key| format!("{key}: 2 kB\n")).concat());
    machine.write("proc/vmstat", &VMSTAT.map(|key| format!("{key} 1\n")).concat());
    for (path, text) in SETTINGS {
        machine.write(path, text);
    }
}

const KINDS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

const VMSTAT: [&str; 20] = [
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

fn disks(machine: &Machine) {
    let disks: String = (0..12).map(|n| format!("259 {n} nvme{n}n1 1 2 3 4 5 6 7 8 9 10 11\n")).collect();
    machine.write("proc/diskstats", &disks);
    for n in 0..12 {
        std::fs::create_dir_all(machine.path(&format!("sys/block/nvme{n}n1"))).unwrap();
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
    owners
}

#[test]
fn a_large_node_stays_within_its_budget() {
    let machine = node(256, 88);
    let mut total = 0;
    for collector in ["node", "numa", "irq", "swap", "thp", "pressure", "owner", "cgroup"] {
        let collected = machine.collect_of(collector, owners(&machine), machine.snapshot()).ok();
        let missing: Vec<_> = rows_of(collector).into_iter().filter(|row| collected.count(row) == 0).collect();
        assert!(missing.is_empty(), "{collector} never wrote {missing:?}, so they are not counted");
        total += collected.families.samples();
    }
    assert!(total < BUDGET / 2, "{total} series");
}

#[test]
fn neither_cpus_nor_interrupts_make_series() {
    let [small, large] = [node(8, 4), node(256, 88)].map(|machine| {
        let samples = machine.collect("irq").ok().samples();
        samples.into_keys().collect::<Vec<_>>()
    });
    assert_eq!(small, large);
}
