//! Where the GPUs are, and whether their jobs run there.

use std::collections::BTreeSet;

use super::*;
use crate::context::Context;
use crate::parse::{bus_id, cpus, number, status};
use crate::source::files;
use crate::source::nodes::{Nodes, Ranges};
use crate::source::nvml::Gpu;

const TOPOLOGY_MANAGER: &str = "https://kubernetes.io/docs/tasks/administer-cluster/topology-manager/";

pub(super) static GPU_NODE: Check = Check {
    id: "gpu_numa_node",
    title: "NUMA node of each GPU",
    reads: "/sys/devices/system/node/node*/cpulist, /sys/bus/pci/devices/*/numa_node",
    families: &[&catalog::host::GPU_NUMA],
    expected: Expected::always("known for every GPU"),
    why: "With more than one NUMA node, jobs, interrupts and memory can only be kept near a GPU whose node is known. \
          The scheduler, NCCL and the kubelet all read this file; -1 means that the firmware did not say.",
    fixes: &[Fix {
        command: "bare metal: update the firmware, which describes the slots (_PXM); \
                  virtual machine: give the guest the host's NUMA topology and place the GPU on it",
        restarts: "the node",
        who: Who::Hardware,
        risk: "as of any firmware update or change of the machine's definition",
        ..Fix::USUAL
    }],
    sources: &[kernel(
        "ABI: /sys/bus/pci/devices/.../numa_node",
        "https://docs.kernel.org/admin-guide/abi-testing.html",
    )],
    run: |context, _| Ok(judge_gpu_nodes(multiple(context)?.count(), &gpu_nodes(context)?)),
};

fn judge_gpu_nodes(nodes: usize, gpus: &[(u32, Option<u32>)]) -> Verdict {
    let unknown: Vec<String> =
        gpus.iter().filter(|(_, node)| node.is_none()).map(|(index, _)| index.to_string()).collect();
    match unknown.is_empty() {
        true => Verdict::new(Status::Pass, format!("known for {} on {nodes} nodes", count(gpus.len(), "GPU"))),
        false => Verdict::new(Status::Warn, format!("unknown for GPU {}", list(&unknown))),
    }
}

fn gpu_nodes(context: &Context) -> Result<Vec<(u32, Option<u32>)>, Unread> {
    jobs::gpus(context)?.iter().map(|gpu| Ok((gpu.index, node_of(context, gpu)?))).collect()
}

/// The node of a GPU's slot; -1, which is no `u32`, is unknown.
pub(super) fn node_of(context: &Context, gpu: &Gpu) -> Result<Option<u32>, Unread> {
    let Some(name) = bus_id::sysfs_name(&gpu.pci_bus_id) else { return Ok(None) };
    let path = context.roots.sys.join("bus/pci/devices").join(name).join("numa_node");
    Ok(files::parse_optional(&path, number::<i64>)?.and_then(|node| node.try_into().ok()))
}

/// The nodes, where there is more than one.
pub(super) fn multiple(context: &Context) -> Result<Nodes, Unread> {
    let nodes = Nodes::read(&context.roots);
    Unread::unless(nodes.count() > 1, "one NUMA node")?;
    Ok(nodes)
}

pub(super) static JOB_CPUS: Check = Check {
    id: "job_cpus",
    title: "CPUs of the jobs on GPUs",
    reads: "/proc/PID/status Cpus_allowed_list of every GPU process, /sys/bus/pci/devices/*/numa_node",
    families: &[&catalog::host::GPU_ALLOWED_CPUS, &catalog::host::GPU_NUMA],
    expected: Expected::always("only CPUs on the NUMA nodes of the process's own GPUs"),
    why: "A process on the other socket reaches its GPU, and its GPU its pinned buffers, over the socket interconnect, \
          which is slower and shared. One that may run anywhere allocates wherever it happens to start.",
    fixes: &[
        Fix {
            command: "numactl --cpunodebind=NODE --membind=NODE COMMAND",
            lasting: None,
            restarts: "the job",
            who: Who::User,
            risk: "with --membind a full node ends in the OOM killer; --preferred=NODE falls back to the other node",
            gain: Some("5-10 % of training throughput and less variance (book, not measured)"),
        },
        Fix {
            command: "kubelet: cpuManagerPolicy: static, and topologyManagerPolicy: best-effort or restricted",
            restarts: "the kubelet, after a drain and without its cpu_manager_state file",
            who: Who::ClusterAdmin,
            risk: "only Guaranteed pods with whole CPUs are pinned; restricted rejects pods that cannot be aligned, and \
                   single-numa-node every pod that takes the GPUs of both nodes",
            ..Fix::USUAL
        },
        Fix {
            command: "Slurm: gres.conf with AutoDetect=nvml, jobs with --gres-flags=enforce-binding",
            restarts: "slurmd",
            who: Who::ClusterAdmin,
            risk: "a job waits until CPUs near free GPUs are free",
            ..Fix::USUAL
        },
    ],
    sources: &[
        vendor("Kubernetes, Topology Manager", TOPOLOGY_MANAGER),
        vendor("Slurm, gres.conf", "https://slurm.schedmd.com/gres.conf.html"),
        book("AI Systems Performance Engineering (early release), chapter 3: NUMA awareness and CPU pinning"),
    ],
    run: |context, _| {
        let nodes = multiple(context)?;
        let mut placements = Vec::new();
        for process in jobs::read(context, "status", status::cpus_allowed)? {
            let mut near = Near::default();
            for gpu in &process.gpus {
                near.add(&nodes, node_of(context, gpu)?);
            }
            placements.push(Placement { pid: process.pid, allowed: process.value, near: near.complete() });
        }
        judge_placements(&placements)
    },
};

/// The nodes of one process's GPUs, and their CPUs.
#[derive(Clone, Default)]
struct Near {
    nodes: BTreeSet<u32>,
    cpus: Ranges,
    unknown: bool,
}

impl Near {
    fn add(&mut self, nodes: &Nodes, node: Option<u32>) {
        match node.and_then(|id| Some((id, nodes.cpus_of(id)?))) {
            Some((id, cpus)) => {
                if self.nodes.insert(id) {
                    self.cpus.extend(cpus);
                }
            }
            None => self.unknown = true,
        }
    }

    /// Nothing when one of the GPUs' places is unknown, or is a node without CPUs.
    fn complete(self) -> Option<Self> {
        (!self.unknown).then_some(self)
    }
}

/// A process, where it may run and where it should.
struct Placement {
    pid: u32,
    allowed: Ranges,
    near: Option<Near>,
}

fn judge_placements(all: &[Placement]) -> Result<Verdict, Unread> {
    let known: Vec<(&Placement, &Near)> = all.iter().filter_map(|p| Some((p, p.near.as_ref()?))).collect();
    Unread::unless(!known.is_empty(), "no GPU process whose GPUs' node is known")?;
    let near_cpus = |(process, near): &(&Placement, &Near)| cpus::count_common(&process.allowed, &near.cpus);
    let astray = known.iter().filter(|known| near_cpus(known) == 0);
    let spread = known.iter().filter(|known| (1..cpus::count(&known.0.allowed)).contains(&near_cpus(known)));
    let (reads, commands): (Vec<_>, Vec<_>) = astray.clone().chain(spread).map(|(p, near)| misplaced(p, near)).unzip();
    Ok(match (astray.count(), reads.is_empty()) {
        (0, true) => Verdict::new(Status::Pass, format!("all {} processes on the nodes of their GPUs", known.len())),
        (0, false) => Verdict::new(Status::Warn, list(&reads)).with(commands),
        _ => Verdict::new(Status::Fail, list(&reads)).with(commands),
    })
}

/// What to say of a process that may run elsewhere, and how to start it instead.
fn misplaced(process: &Placement, near: &Near) -> (String, String) {
    let nodes = near.nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let (pid, allowed) = (process.pid, ranges(&process.allowed));
    (
        format!("pid {pid} may run on CPUs {allowed}, its GPUs are on node {nodes}"),
        format!("numactl --cpunodebind={nodes} --membind={nodes} COMMAND   # instead of pid {pid}"),
    )
}

pub(super) static BALANCING: Check = Check {
    id: "numa_balancing",
    title: "Automatic NUMA balancing",
    reads: "/proc/sys/kernel/numa_balancing",
    families: &[&catalog::host::NUMA_BALANCING],
    expected: Expected::always("0"),
    why: "The kernel unmaps pages on purpose to see who touches them, and moves them. Jobs that are bound to their GPU's \
          node pay for the faults and gain nothing.",
    fixes: &[Fix {
        command: "sysctl -w kernel.numa_balancing=0",
        lasting: Some("echo 'kernel.numa_balancing = 0' > /etc/sysctl.d/90-gpu-numa.conf"),
        risk: "jobs that are not bound lose the kernel's help: bind them first (see job_cpus)",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("sysctl/kernel: numa_balancing", SYSCTL_KERNEL),
        vendor(
            "NVIDIA Grace CPU Benchmarking Guide, platform configuration",
            "https://nvidia.github.io/grace-cpu-benchmarking-guide/platform/index.html",
        ),
        own("a warning: on a node whose jobs are not bound to CPUs it can help"),
    ],
    run: |context, _| {
        multiple(context)?;
        let path = context.roots.proc.join("sys/kernel/numa_balancing");
        Ok(judge_balancing(files::parse(&path, number::<u32>)?))
    },
};

/// Bit 0 balances, bit 1 demotes to slower memory.
fn judge_balancing(value: u32) -> Verdict {
    Verdict::new(if value & 1 == 1 { Status::Warn } else { Status::Pass }, value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Fail, Pass, Warn};

    fn placement(pid: u32, allowed: &[(u32, u32)], near: Option<(u32, Ranges)>) -> Placement {
        let near = near.map(|(node, cpus)| Near { nodes: [node].into(), cpus, unknown: false });
        Placement { pid, allowed: allowed.to_vec(), near }
    }

    #[test]
    fn places() {
        let node1 = || Some((1, vec![(16, 31)]));
        for (allowed, near, status) in [
            ([(16, 31)], node1(), Some(Pass)),
            ([(20, 20)], node1(), Some(Pass)),
            ([(0, 31)], node1(), Some(Warn)),
            ([(0, 15)], node1(), Some(Fail)),
            ([(0, 15)], None, None),
        ] {
            let found = judge_placements(&[placement(1, &allowed, near)]).ok();
            assert_eq!(found.map(|verdict| verdict.status), status, "{allowed:?}");
        }
    }

    #[test]
    fn the_worst_process_comes_first_with_its_command() {
        let near = || Some((1, vec![(16, 31)]));
        let verdict = judge_placements(&[placement(6, &[(0, 31)], near()), placement(7, &[(0, 3)], near())]).unwrap();
        assert_eq!(verdict.status, Fail);
        assert!(verdict.read.starts_with("pid 7 may run on CPUs 0-3, its GPUs are on node 1, "), "{}", verdict.read);
        assert_eq!(verdict.commands[0], "numactl --cpunodebind=1 --membind=1 COMMAND   # instead of pid 7");
    }

    #[test]
    fn nodes_of_gpus() {
        assert_eq!(judge_gpu_nodes(2, &[(0, Some(0)), (1, Some(1))]).status, Pass);
        let verdict = judge_gpu_nodes(2, &[(0, Some(0)), (1, None)]);
        assert_eq!((verdict.status, verdict.read.as_str()), (Warn, "unknown for GPU 1"));
    }

    #[test]
    fn balancing() {
        let status = |value| judge_balancing(value).status;
        assert_eq!([0, 1, 2, 3].map(status), [Pass, Warn, Pass, Warn]);
    }
}
