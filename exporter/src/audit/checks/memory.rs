//! How the kernel gives memory away, and whether the memory itself is sound.

use super::*;
use crate::context::Context;
use crate::parse::{meminfo, number, status};
use crate::source::files;
use crate::source::nodes::{self, Ranges};

/// Nodes of one machine differ by what firmware and kernel keep for themselves; a missing module is more than this.
const UNEVEN: f64 = 0.9;

fn setting(context: &Context, name: &str) -> Result<u64, Unread> {
    Ok(files::parse(&context.roots.proc.join("sys/vm").join(name), number)?)
}

pub(super) static ZONE_RECLAIM: Check = Check {
    id: "zone_reclaim",
    title: "Reclaim before memory of another node is used",
    reads: "/proc/sys/vm/zone_reclaim_mode",
    families: &[],
    expected: Expected::always("0"),
    why: "Otherwise a node that is full of page cache is cleaned, page by page, in the middle of a job's allocation, while \
          the other node has memory free. Reading a data set fills a node with page cache.",
    fixes: &[Fix {
        command: "sysctl -w vm.zone_reclaim_mode=0",
        lasting: Some("echo 'vm.zone_reclaim_mode = 0' > /etc/sysctl.d/90-gpu-numa.conf"),
        risk: "more memory on the other node: bind the jobs that must not have it (see job_cpus)",
        ..Fix::USUAL
    }],
    sources: &[kernel("sysctl/vm: zone_reclaim_mode, for workloads that profit from cached data", SYSCTL_VM)],
    run: |context, _| {
        numa::multiple(context)?;
        let mode = setting(context, "zone_reclaim_mode")?;
        Ok(Verdict::new(if mode == 0 { Status::Pass } else { Status::Warn }, mode.to_string()))
    },
};

pub(super) static OVERCOMMIT: Check = Check {
    id: "overcommit",
    title: "Reservations of memory that is never used",
    reads: "/proc/sys/vm/overcommit_memory",
    families: &[],
    expected: Expected::always("0 or 1"),
    why: "CUDA reserves address space for the memory of the host and of all GPUs, far more than it ever uses, and a process \
          that starts loaders by fork reserves its own memory again for each. With 2 the kernel counts that, and says \
          no.",
    fixes: &[Fix {
        command: "sysctl -w vm.overcommit_memory=0",
        lasting: Some("echo 'vm.overcommit_memory = 0' > /etc/sysctl.d/90-gpu-memory.conf"),
        risk: "what is promised can be more than there is: give every job a memory limit",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("Overcommit Accounting", "https://docs.kernel.org/mm/overcommit-accounting.html"),
        own("a warning: a high enough vm.overcommit_ratio also does"),
    ],
    run: |context, _| {
        let mode = setting(context, "overcommit_memory")?;
        Ok(Verdict::new(if mode == 2 { Status::Warn } else { Status::Pass }, mode.to_string()))
    },
};

pub(super) static PANIC_ON_OOM: Check = Check {
    id: "panic_on_oom",
    title: "What a lack of memory does to the node",
    reads: "/proc/sys/vm/panic_on_oom",
    families: &[],
    expected: Expected::always("0"),
    why: "Otherwise one job that takes too much memory takes the node down, and with it every other job on it. With 2 \
          even a job that only reached its own limit does.",
    fixes: &[Fix {
        command: "sysctl -w vm.panic_on_oom=0",
        lasting: Some("echo 'vm.panic_on_oom = 0' > /etc/sysctl.d/90-gpu-memory.conf"),
        risk: "after a kill the node runs on with whatever is left; the kubelet wants 0 as well",
        ..Fix::USUAL
    }],
    sources: &[kernel("sysctl/vm: panic_on_oom", SYSCTL_VM), own("1 is a warning, 2 a failure")],
    run: |context, _| Ok(judge_panic(setting(context, "panic_on_oom")?)),
};

fn judge_panic(mode: u64) -> Verdict {
    let status = match mode {
        0 => Status::Pass,
        1 => Status::Warn,
        _ => Status::Fail,
    };
    Verdict::new(status, mode.to_string())
}

pub(super) static KSM: Check = Check {
    id: "ksm",
    title: "Merging of equal pages",
    reads: "/sys/kernel/mm/ksm/run",
    families: &[],
    expected: Expected::always("not running (0 or 2), unless the node runs virtual machines"),
    why: "A kernel thread reads all memory that programs offered, over and over, and takes CPU time and memory bandwidth \
          from the jobs. Writing to a merged page faults. Only virtual machines gain much.",
    fixes: &[Fix {
        command: "echo 2 > /sys/kernel/mm/ksm/run",
        lasting: Some("systemctl disable --now ksm ksmtuned"),
        restarts: "nothing; pages that were merged are split, which needs memory for them",
        risk: "virtual machines that were overcommitted by it run out of memory",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("Kernel Samepage Merging", "https://docs.kernel.org/admin-guide/mm/ksm.html"),
        own("a warning: it is as costly as pages_to_scan and sleep_millisecs make it"),
    ],
    run: |context, _| {
        let run = files::parse(&context.roots.sys.join("kernel/mm/ksm/run"), number::<u32>)?;
        Ok(Verdict::new(if run == 1 { Status::Warn } else { Status::Pass }, run.to_string()))
    },
};

pub(super) static JOB_NODES: Check = Check {
    id: "job_memory_nodes",
    title: "Memory nodes of the jobs on GPUs",
    reads: "/proc/PID/status Mems_allowed_list of every GPU process, /sys/bus/pci/devices/*/numa_node",
    families: &[&catalog::host::CGROUP_ALLOWED_MEMORY, &catalog::host::GPU_NUMA],
    expected: Expected::always("the NUMA nodes of the process's own GPUs among them"),
    why: "A process that may only use memory of the other socket has every buffer there, however well its CPUs are bound: \
          each copy to its GPU crosses the socket interconnect.",
    fixes: &[Fix {
        command: "numactl --cpunodebind=NODE --membind=NODE COMMAND",
        restarts: "the job",
        who: Who::User,
        risk: "with --membind a full node ends in the OOM killer; --preferred=NODE falls back to the other node",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("cpusets", "https://docs.kernel.org/admin-guide/cgroup-v1/cpusets.html"),
        vendor("Kubernetes, Memory Manager", "https://kubernetes.io/docs/tasks/administer-cluster/memory-manager/"),
    ],
    run: |context, _| {
        numa::multiple(context)?;
        let mut processes = Vec::new();
        for process in jobs::read(context, "status", status::mems_allowed)? {
            let nodes = process.gpus.iter().map(|gpu| numa::node_of(context, gpu)).collect::<Result<Vec<_>, _>>()?;
            processes.push((process.pid, process.value, nodes.into_iter().flatten().collect()));
        }
        judge_job_nodes(&processes)
    },
};

/// By process: the nodes whose memory it may use, and those of its GPUs that are known.
fn judge_job_nodes(processes: &[(u32, Ranges, Vec<u32>)]) -> Result<Verdict, Unread> {
    let is_known = processes.iter().any(|(.., nodes)| !nodes.is_empty());
    Unread::unless(is_known, "no GPU process whose GPUs' node is known")?;
    let without = |allowed: &Ranges, nodes: &[u32]| {
        let may = |node: &u32| allowed.iter().any(|(first, last)| (*first..=*last).contains(node));
        nodes.iter().find(|node| !may(node)).copied()
    };
    let astray = processes.iter().filter_map(|(pid, allowed, nodes)| Some((pid, allowed, without(allowed, nodes)?)));
    let read: Vec<String> = astray
        .map(|(pid, allowed, node)| format!("pid {pid} may use nodes {}, a GPU of it is on {node}", ranges(allowed)))
        .collect();
    Ok(Verdict::listing(Status::Fail, read, format!("all {} processes", processes.len())))
}

pub(super) static HOST_ECC: Check = Check {
    id: "host_ecc",
    title: "Errors of the host's memory",
    reads: "/sys/devices/system/edac/mc/mc*/{ue_count,ce_count}",
    families: &[],
    expected: Expected::always("none since boot"),
    why: "An uncorrected error ends whatever used the memory, or is written into a checkpoint. Corrected ones come before \
          them, and each may stop a CPU for a moment while the firmware looks at it.",
    fixes: &[Fix {
        command: "find the module: ras-mc-ctl --errors, or grep . /sys/devices/system/edac/mc/mc*/dimm*/dimm_label",
        restarts: "the node, to replace it",
        who: Who::Hardware,
        risk: "downtime",
        ..Fix::USUAL
    }],
    sources: &[
        kernel(
            "Reliability, Availability and Serviceability: EDAC",
            "https://docs.kernel.org/admin-guide/RAS/main.html",
        ),
        own("uncorrected errors are a failure, corrected ones a warning"),
    ],
    run: |context, _| {
        let folder = context.roots.sys.join("devices/system/edac/mc");
        let (mut controllers, mut uncorrected, mut corrected) = (0, 0, 0);
        for name in files::list(&folder)?.unwrap_or_default().iter().filter(|name| is_controller(name)) {
            let read = |file: &str| files::parse_optional(&folder.join(name).join(file), number::<u64>);
            controllers += 1;
            uncorrected += read("ue_count")?.unwrap_or_default();
            corrected += read("ce_count")?.unwrap_or_default();
        }
        Unread::unless(controllers > 0, "no memory controller with a driver of EDAC")?;
        Ok(judge_ecc(controllers, uncorrected, corrected))
    },
};

fn is_controller(name: &str) -> bool {
    name.strip_prefix("mc").is_some_and(|number| number.parse::<u32>().is_ok())
}

fn judge_ecc(controllers: usize, uncorrected: u64, corrected: u64) -> Verdict {
    let status = match (uncorrected, corrected) {
        (1.., _) => Status::Fail,
        (0, 1..) => Status::Warn,
        (0, 0) => Status::Pass,
    };
    let on = count(controllers, "memory controller");
    Verdict::new(status, format!("{uncorrected} uncorrected, {corrected} corrected on {on}"))
}

pub(super) static POISONED: Check = Check {
    id: "poisoned_memory",
    title: "Memory that the kernel has given up",
    reads: "/proc/meminfo HardwareCorrupted",
    families: &[&catalog::reclaim::MEMORY_CORRUPTED],
    expected: Expected::always("none"),
    why: "Pages with an uncorrectable error are taken out of use; whatever had them was killed, or is when it reads them.",
    fixes: &[Fix {
        command: "find the module that it was (see host_ecc) and have it replaced",
        restarts: "the node",
        who: Who::Hardware,
        risk: "downtime",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("filesystems/proc: HardwareCorrupted", "https://docs.kernel.org/filesystems/proc.html"),
        own("a warning: what was hit is over, the module is not"),
    ],
    run: |context, _| {
        let memory = files::parse(&context.roots.proc.join("meminfo"), meminfo::parse)?;
        let corrupted =
            memory.hardware_corrupted.ok_or_else(|| Unread::Absent("the kernel does not say".to_owned()))?;
        Ok(Verdict::new(if corrupted > 0 { Status::Warn } else { Status::Pass }, bytes(corrupted)))
    },
};

pub(super) static PER_NODE: Check = Check {
    id: "memory_per_node",
    title: "Memory of each NUMA node",
    reads: "/sys/devices/system/node/node*/{cpulist,meminfo MemTotal}",
    families: &[&catalog::host::NUMA_CPUS, &catalog::host::NUMA_MEMORY_TOTAL],
    expected: Expected::always("the same within 10 % on every node with CPUs"),
    why: "A module that was not found at boot is missed by nobody: the node works, with fewer channels, and jobs on that \
          socket get less bandwidth and run out of near memory first.",
    fixes: &[Fix {
        command: "compare: dmidecode --type memory; reseat or replace the module that is missing",
        restarts: "the node",
        who: Who::Hardware,
        risk: "downtime",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("NUMA", "https://docs.kernel.org/mm/numa.html"),
        own("that it matters, and 10 %: firmware and kernel keep a little, of one node more than of another"),
    ],
    run: |context, _| {
        let known = numa::multiple(context)?;
        let folder = nodes::folder(&context.roots);
        let mut totals = Vec::new();
        for id in nodes::ids(&folder).into_iter().filter(|id| known.cpus_of(*id).is_some()) {
            let memory = files::parse_optional(&folder.join(format!("node{id}/meminfo")), meminfo::parse)?;
            totals.extend(memory.and_then(|memory| memory.total).map(|total| (id, total)));
        }
        judge_nodes(&totals)
    },
};

fn judge_nodes(totals: &[(u32, u64)]) -> Result<Verdict, Unread> {
    let least = totals.iter().map(|(_, total)| *total).min();
    let most = totals.iter().map(|(_, total)| *total).max();
    let Some((least, most)) = least.zip(most) else {
        return Err(Unread::Absent("the kernel does not say".to_owned()));
    };
    let read = totals.iter().map(|(id, total)| format!("node {id} {}", bytes(*total))).collect::<Vec<_>>();
    let status = if (least as f64) < UNEVEN * most as f64 { Status::Warn } else { Status::Pass };
    Ok(Verdict::new(status, list(&read)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Fail, Pass, Warn};

    #[test]
    fn lack_of_memory() {
        assert_eq!([0, 1, 2].map(|mode| judge_panic(mode).status), [Pass, Warn, Fail]);
    }

    #[test]
    fn nodes_of_jobs() {
        let judge = |allowed: &[(u32, u32)], nodes: &[u32]| judge_job_nodes(&[(7, allowed.to_vec(), nodes.to_vec())]);
        assert_eq!(judge(&[(0, 1)], &[1]).unwrap().status, Pass);
        assert_eq!(judge(&[(0, 0)], &[0]).unwrap().status, Pass);
        let verdict = judge(&[(0, 0)], &[0, 1]).unwrap();
        assert_eq!((verdict.status, verdict.read.as_str()), (Fail, "pid 7 may use nodes 0, a GPU of it is on 1"));
        assert!(judge(&[(0, 0)], &[]).is_err());
    }

    #[test]
    fn errors() {
        assert_eq!(judge_ecc(2, 0, 0).read, "0 uncorrected, 0 corrected on 2 memory controllers");
        assert_eq!([(0, 0), (0, 5), (1, 0)].map(|(ue, ce)| judge_ecc(1, ue, ce).status), [Pass, Warn, Fail]);
        assert_eq!(["mc0", "mc12", "mcx", "mc"].map(is_controller), [true, true, false, false]);
    }

    #[test]
    fn uneven_nodes() {
        let status = |other| judge_nodes(&[(0, 1000), (1, other)]).unwrap().status;
        assert_eq!([1000, 901, 899].map(status), [Pass, Pass, Warn]);
        assert_eq!(judge_nodes(&[(0, 1 << 40), (1, 7 << 37)]).unwrap().read, "node 0 1 TiB, node 1 896 GiB");
        assert!(judge_nodes(&[]).is_err());
    }
}
