//! How the kubelet places pods.

use std::collections::BTreeSet;

use super::super::text::count;
use super::super::{Check, Expected, Fix, Status, Unread, Verdict, Who, jobs};
use super::{numa, own, vendor};
use crate::collect::{self, Context};
use crate::parse::kubelet::Configuration;

const TASKS: &str = "https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/";
const TOPOLOGY_MANAGER: &str = "https://kubernetes.io/docs/tasks/administer-cluster/topology-manager/";
const MEMORY_MANAGER: &str = "https://kubernetes.io/docs/tasks/administer-cluster/memory-manager/";

fn configuration(context: &Context) -> Result<Configuration, Unread> {
    let found = collect::kubelet::configuration(&context.roots)?;
    found.ok_or_else(|| Unread::Absent("no configuration file of a kubelet".to_owned()))
}

pub(super) static CPU: Check = Check {
    id: "kubelet_cpu_manager",
    title: "How the kubelet gives out CPUs",
    reads: "cpuManagerPolicy in /var/lib/kubelet/config.yaml or EKS's /etc/kubernetes/kubelet/{config,kubelet-config}.json",
    expected: Expected::always("static"),
    why: "With the default all pods share all CPUs: a trainer's threads move between sockets and wait behind whatever else \
          the node runs. With static a Guaranteed pod that asks for whole CPUs has them alone.",
    fixes: &[Fix {
        command: "kubelet: cpuManagerPolicy: static, and reservedSystemCPUs: for the system",
        lasting: None,
        restarts: "the kubelet, after a drain and without its cpu_manager_state file",
        who: Who::ClusterAdmin,
        risk: "what is not Guaranteed shares fewer CPUs; without reserved CPUs the kubelet does not start",
        gain: None,
    }],
    sources: &[
        vendor("Kubernetes, Control CPU Management Policies on the Node", TASKS),
        own("a warning. A policy that is only on the kubelet's command line is not seen"),
    ],
    run: |context, _| Ok(judge_cpu(configuration(context)?.cpu_manager_policy.as_deref())),
};

fn judge_cpu(policy: Option<&str>) -> Verdict {
    match policy {
        Some("static") => Verdict::new(Status::Pass, "static"),
        other => Verdict::new(Status::Warn, other.unwrap_or("not set, which is none")),
    }
}

pub(super) static TOPOLOGY: Check = Check {
    id: "kubelet_topology_manager",
    title: "How the kubelet aligns GPUs, NICs and CPUs",
    reads: "topologyManagerPolicy in the kubelet's configuration, /sys/devices/system/node, \
            /sys/bus/pci/devices/*/numa_node of every GPU",
    expected: Expected::always("best-effort or restricted"),
    why: "With the default a pod gets a GPU of one socket and CPUs and NIC of the other. With single-numa-node a pod that \
          takes the GPUs of both sockets fits nowhere and is rejected.",
    fixes: &[Fix {
        command: "kubelet: topologyManagerPolicy: best-effort, or restricted",
        lasting: None,
        restarts: "the kubelet, after a drain and without its cpu_manager_state file",
        who: Who::ClusterAdmin,
        risk: "restricted rejects pods that could be aligned on another node and cannot on this one",
        gain: None,
    }],
    sources: &[
        vendor("Kubernetes, Control Topology Management Policies on a node", TOPOLOGY_MANAGER),
        own("a warning. single-numa-node is right where every pod takes GPUs of one socket"),
    ],
    run: |context, _| {
        let configuration = configuration(context)?;
        numa::multiple(context)?;
        let nodes = jobs::gpus(context)?.iter().map(|gpu| numa::node_of(context, gpu));
        let nodes: BTreeSet<u32> = nodes.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        Ok(judge_topology(configuration.topology_manager_policy.as_deref(), nodes.len()))
    },
};

/// The policy, and on how many NUMA nodes the GPUs are.
fn judge_topology(policy: Option<&str>, nodes: usize) -> Verdict {
    match policy {
        Some(policy @ ("best-effort" | "restricted")) => Verdict::new(Status::Pass, policy),
        Some("single-numa-node") if nodes > 1 => {
            Verdict::new(Status::Warn, format!("single-numa-node, with GPUs on {}", count(nodes, "NUMA node")))
        }
        Some("single-numa-node") => Verdict::new(Status::Pass, "single-numa-node"),
        other => Verdict::new(Status::Warn, other.unwrap_or("not set, which is none")),
    }
}

pub(super) static MEMORY: Check = Check {
    id: "kubelet_memory_manager",
    title: "How the kubelet gives out memory",
    reads: "memoryManagerPolicy in the kubelet's configuration, /sys/devices/system/node",
    expected: Expected::always("Static"),
    why: "CPUs on the GPU's socket do not help a pod whose memory is on the other because that is where some was free. \
          With Static a Guaranteed pod's memory is on the nodes of its CPUs and GPUs.",
    fixes: &[Fix {
        command: "kubelet: memoryManagerPolicy: Static, and reservedMemory: for every NUMA node",
        lasting: None,
        restarts: "the kubelet, after a drain and without its memory_manager_state file",
        who: Who::ClusterAdmin,
        risk: "the reserved memory has to add up to what is reserved elsewhere, or the kubelet does not start",
        gain: None,
    }],
    sources: &[
        vendor("Kubernetes, Control Memory Management Policies on a Node", MEMORY_MANAGER),
        own("a warning: a node whose pods take all of it gains nothing"),
    ],
    run: |context, _| {
        let configuration = configuration(context)?;
        numa::multiple(context)?;
        Ok(judge_memory(configuration.memory_manager_policy.as_deref()))
    },
};

fn judge_memory(policy: Option<&str>) -> Verdict {
    match policy {
        Some("Static") => Verdict::new(Status::Pass, "Static"),
        other => Verdict::new(Status::Warn, other.unwrap_or("not set, which is None")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Pass, Warn};

    #[test]
    fn policies() {
        assert_eq!([Some("static"), Some("none"), None].map(|p| judge_cpu(p).status), [Pass, Warn, Warn]);
        assert_eq!([Some("Static"), Some("None"), None].map(|p| judge_memory(p).status), [Pass, Warn, Warn]);
    }

    #[test]
    fn a_pod_with_all_gpus_of_two_sockets_must_fit() {
        for (policy, nodes, status) in [
            (Some("best-effort"), 2, Pass),
            (Some("restricted"), 2, Pass),
            (Some("single-numa-node"), 2, Warn),
            (Some("single-numa-node"), 1, Pass),
            (Some("none"), 2, Warn),
            (None, 2, Warn),
        ] {
            assert_eq!(judge_topology(policy, nodes).status, status, "{policy:?} {nodes}");
        }
    }
}
