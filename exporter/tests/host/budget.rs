use crate::support::{Machine, rows_of};

/// Series that the host half may make on a node of 8 GPUs, 2 sockets and 256 CPUs with 8 jobs.
const BUDGET: usize = 1500;

/// Eight GPUs, one job on each, two NUMA nodes, 256 CPUs, 12 disks.
fn node() -> Machine {
    let mut machine =
        Machine::recorded("sys-4s8n-numa-miss", &["sys/devices/system/node/node0", "sys/devices/system/node/node1"]);
    machine.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
    let cpus: String = (0..256).map(|n| format!("cpu{n} 1 2 3 4 5 6 7 8 0 0\n")).collect();
    machine.write("sys/devices/system/node/online", "0-7\n");
    machine.write("proc/meminfo", "MemTotal: 2 kB\nMemAvailable: 1 kB\n");
    machine.write("proc/stat", &format!("cpu  1 2 3 4 5 6 7 8 0 0\n{cpus}btime 5\n"));
    let disks: String = (0..12).map(|n| format!("259 {n} nvme{n}n1 1 2 3 4 5 6 7 8 9 10 11\n")).collect();
    machine.write("proc/diskstats", &disks);
    for n in 0..12 {
        std::fs::create_dir_all(machine.path(&format!("sys/block/nvme{n}n1"))).unwrap();
    }
    for (resource, text) in [
        ("cpu", "some total=1\nfull total=1\n"),
        ("io", "some total=1\nfull total=1\n"),
        ("memory", "some total=1\nfull total=1\n"),
        ("irq", "full total=1\n"),
    ] {
        machine.write(&format!("proc/pressure/{resource}"), text);
    }
    for job in 0..8 {
        let (group, pid) = (format!("system.slice/slurmstepd.scope/job_{job}"), 100 + job);
        machine.unpack("cgroup2-2node-96cpu/tree.tar.gz", &format!("sys/fs/cgroup/{group}"), &[]);
        machine.write(&format!("sys/fs/cgroup/{group}/irq.pressure"), "full total=1\n");
        machine.write(&format!("proc/{pid}/cgroup"), &format!("0::/{group}/step_0\n"));
        machine.write(&format!("sys/bus/pci/devices/0000:1{job}:00.0/numa_node"), &format!("{}\n", job / 4));
        machine.write(&format!("sys/bus/pci/devices/0000:1{job}:00.0/local_cpulist"), "0-63,128-191\n");
        machine.gpu(&format!("00000000:1{job}:00.0"), &[pid]);
    }
    machine
}

#[test]
fn a_large_node_stays_within_its_budget() {
    let machine = node();
    let mut total = 0;
    for collector in ["node", "numa", "pressure", "owner", "cgroup"] {
        let collected = machine.collect(collector).ok();
        let missing: Vec<_> = rows_of(collector).into_iter().filter(|row| collected.count(row) == 0).collect();
        assert!(missing.is_empty(), "{collector} never wrote {missing:?}, so they are not counted");
        total += collected.families.samples();
    }
    assert!(total < BUDGET / 2, "{total} series");
}
