use crate::support::{Machine, rows_of};

/// Series that the host half may make on a node of 8 GPUs, 2 sockets and 256 CPUs with 8 jobs.
const BUDGET: usize = 1500;

/// Eight GPUs, one job on each, two NUMA nodes, 256 CPUs, 12 disks.
fn node() -> Machine {
    let mut machine = Machine::recorded("sys-2s112-ice-nvme");
    machine.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
    let cpus: String = (0..256).map(|n| format!("cpu{n} 1 2 3 4 5 6 7 8 0 0\n")).collect();
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
    let buses = ["04:00.0", "04:00.1", "31:00.0", "31:00.1", "4b:00.0", "4b:00.1", "98:00.0", "98:00.1"];
    for (job, bus) in buses.iter().enumerate() {
        let (group, pid) = (format!("system.slice/slurmstepd.scope/job_{job}"), 100 + job as u32);
        machine.unpack("cgroup2-2node-96cpu/tree.tar.gz", &format!("sys/fs/cgroup/{group}"));
        machine.write(&format!("sys/fs/cgroup/{group}/irq.pressure"), "full total=1\n");
        machine.write(&format!("proc/{pid}/cgroup"), &format!("0::/{group}/step_0\n"));
        machine.gpu(&format!("00000000:{bus}"), &[pid]);
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
        // The recorded machine's nodes have no numastat.
        assert!(missing.iter().all(|row| row.ends_with("_pages_total")), "{collector} never wrote {missing:?}");
        total += collected.families.samples();
    }
    assert!(total < BUDGET / 2, "{total} series");
}
