//! How the kubelet places pods.

use std::collections::BTreeSet;

use super::*;
use crate::collect;
use crate::collect::kubelet::{cpu_policy_in_force, memory_policy_in_force};
use crate::context::Context;
use crate::parse::kubelet::{CPU_POLICIES, Configuration, MEMORY_POLICIES, TOPOLOGY_POLICIES, TOPOLOGY_SCOPES};
use crate::source::files::{FileError, Roots};

const TASKS: &str = "https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/";
const TOPOLOGY_MANAGER: &str = "https://kubernetes.io/docs/tasks/administer-cluster/topology-manager/";
const MEMORY_MANAGER: &str = "https://kubernetes.io/docs/tasks/administer-cluster/memory-manager/";

fn configuration(context: &Context) -> Result<Configuration, Unread> {
    let found = collect::kubelet::configuration(&context.roots)?;
    found.ok_or_else(|| Unread::Absent("no configuration file of a kubelet".to_owned()))
}

/// A manager's policy.
struct Policy {
    /// By the configuration; `None` is the default.
    configured: Option<String>,
    /// By the manager's state, which also tells what the kubelet's command line says; `None` when it has no state.
    in_force: Option<String>,
}

impl Policy {
    /// Reads the state too. One that may not be read is only missed where the configuration is silent.
    fn read(
        context: &Context,
        configured: Option<String>,
        in_force: fn(&Roots) -> Result<Option<String>, FileError>,
    ) -> Result<Self, Unread> {
        match in_force(&context.roots) {
            Ok(in_force) => Ok(Self { configured, in_force }),
            Err(FileError::Denied { .. }) if configured.is_some() => Ok(Self { configured, in_force: None }),
            Err(error) => Err(error.into()),
        }
    }

    /// Is it the wanted one, the last of those that are known?
    fn judge(&self, known: &[&str]) -> Verdict {
        let default = known.first().copied().unwrap_or_default();
        let configured = self.configured.as_deref();
        let policy = self.in_force.as_deref().or(configured);
        match (configured, self.in_force.as_deref()) {
            (Some(name), _) | (None, Some(name)) if !known.contains(&name) => unknown(name, known),
            (Some(configured), Some(in_force)) if configured != in_force => Verdict::new(
                Status::Warn,
                format!(
                    "{in_force} in force, {configured} configured: the kubelet's command line, or no restart since"
                ),
            ),
            _ if policy == known.last().copied() => Verdict::new(Status::Pass, policy.unwrap_or_default()),
            _ => Verdict::new(
                Status::Warn,
                policy.map_or_else(|| format!("not set, which is {default}"), ToOwned::to_owned),
            ),
        }
    }
}

/// A name that Kubernetes has not: the kubelet does not start with it.
fn unknown(name: &str, known: &[&str]) -> Verdict {
    Verdict::new(Status::Warn, format!("{name:?}, which is none of the known names: {}", known.join(", ")))
}

pub(super) static CPU: Check = Check {
    id: "kubelet_cpu_manager",
    title: "How the kubelet gives out CPUs",
    reads: "cpuManagerPolicy in /var/lib/kubelet/config.yaml or EKS's /etc/kubernetes/kubelet/{config,kubelet-config}.json; \
            policyName in /var/lib/kubelet/cpu_manager_state",
    families: &[&catalog::kubelet::KUBELET_INFO, &catalog::kubelet::KUBELET_UNKNOWN],
    expected: Expected::always("static"),
    why: "With the default all pods share all CPUs: a trainer's threads move between sockets and wait behind whatever else \
          the node runs. With static a Guaranteed pod that asks for whole CPUs has them alone.",
    fixes: &[Fix {
        command: "kubelet: cpuManagerPolicy: static, and reservedSystemCPUs: for the system",
        restarts: "the kubelet, after a drain and without its cpu_manager_state file",
        who: Who::ClusterAdmin,
        risk: "what is not Guaranteed shares fewer CPUs; without reserved CPUs the kubelet does not start",
        ..Fix::USUAL
    }],
    sources: &[vendor("Kubernetes, Control CPU Management Policies on the Node", TASKS), own("a warning")],
    run: |context, _| {
        let configured = configuration(context)?.cpu_manager_policy;
        Ok(Policy::read(context, configured, cpu_policy_in_force)?.judge(CPU_POLICIES))
    },
};

pub(super) static TOPOLOGY: Check = Check {
    id: "kubelet_topology_manager",
    title: "How the kubelet aligns GPUs, NICs and CPUs",
    reads: "topologyManagerPolicy and topologyManagerScope in the kubelet's configuration, /sys/devices/system/node, \
            /sys/bus/pci/devices/*/numa_node of every GPU",
    families: &[&catalog::kubelet::KUBELET_INFO, &catalog::kubelet::KUBELET_UNKNOWN],
    expected: Expected::always("best-effort or restricted"),
    why: "With the default a pod gets a GPU of one socket and CPUs and NIC of the other. With single-numa-node a pod that \
          takes the GPUs of both sockets fits nowhere and is rejected.",
    fixes: &[Fix {
        command: "kubelet: topologyManagerPolicy: best-effort, or restricted",
        restarts: "the kubelet, after a drain and without its cpu_manager_state file",
        who: Who::ClusterAdmin,
        risk: "restricted rejects pods that could be aligned on another node and cannot on this one",
        ..Fix::USUAL
    }],
    sources: &[
        vendor("Kubernetes, Control Topology Management Policies on a node", TOPOLOGY_MANAGER),
        own(
            "a warning. single-numa-node is right where every pod takes GPUs of one socket. A policy that is only on the \
             kubelet's command line is not seen: this manager keeps no state",
        ),
    ],
    run: |context, _| {
        let configuration = configuration(context)?;
        numa::multiple(context)?;
        let nodes = jobs::gpus(context)?.iter().map(|gpu| numa::node_of(context, gpu));
        let nodes: BTreeSet<u32> = nodes.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        let Configuration { topology_manager_policy: policy, topology_manager_scope: scope, .. } = configuration;
        Ok(judge_topology(policy.as_deref(), scope.as_deref(), nodes.len()))
    },
};

/// The policy and its scope, and on how many NUMA nodes the GPUs are.
fn judge_topology(policy: Option<&str>, scope: Option<&str>, nodes: usize) -> Verdict {
    for (name, known) in [(policy, TOPOLOGY_POLICIES), (scope, TOPOLOGY_SCOPES)] {
        if let Some(name) = name.filter(|name| !known.contains(name)) {
            return unknown(name, known);
        }
    }
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
    reads: "memoryManagerPolicy in the kubelet's configuration, policyName in /var/lib/kubelet/memory_manager_state, \
            /sys/devices/system/node",
    families: &[&catalog::kubelet::KUBELET_INFO, &catalog::kubelet::KUBELET_UNKNOWN],
    expected: Expected::always("Static"),
    why: "CPUs on the GPU's socket do not help a pod whose memory is on the other because that is where some was free. \
          With Static a Guaranteed pod's memory is on the nodes of its CPUs and GPUs.",
    fixes: &[Fix {
        command: "kubelet: memoryManagerPolicy: Static, and reservedMemory: for every NUMA node",
        restarts: "the kubelet, after a drain and without its memory_manager_state file",
        who: Who::ClusterAdmin,
        risk: "the reserved memory has to add up to what is reserved elsewhere, or the kubelet does not start",
        ..Fix::USUAL
    }],
    sources: &[
        vendor("Kubernetes, Control Memory Management Policies on a Node", MEMORY_MANAGER),
        own("a warning: a node whose pods take all of it gains nothing"),
    ],
    run: |context, _| {
        let configured = configuration(context)?.memory_manager_policy;
        numa::multiple(context)?;
        Ok(Policy::read(context, configured, memory_policy_in_force)?.judge(MEMORY_POLICIES))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Pass, Warn};

    #[test]
    fn policies() {
        for (configured, in_force, status, read) in [
            (Some("static"), Some("static"), Pass, "static"),
            (Some("static"), None, Pass, "static"),
            (None, Some("static"), Pass, "static"),
            (None, None, Warn, "not set, which is none"),
            (None, Some("none"), Warn, "none"),
            (Some("none"), Some("none"), Warn, "none"),
            (
                Some("static"),
                Some("none"),
                Warn,
                "none in force, static configured: the kubelet's command line, or no restart since",
            ),
            (Some("Static"), None, Warn, "\"Static\", which is none of the known names: none, static"),
            (Some("dynamic"), Some("static"), Warn, "\"dynamic\", which is none of the known names: none, static"),
            (None, Some("dynamic"), Warn, "\"dynamic\", which is none of the known names: none, static"),
        ] {
            let policy = Policy { configured: configured.map(str::to_owned), in_force: in_force.map(str::to_owned) };
            let verdict = policy.judge(CPU_POLICIES);
            assert_eq!((verdict.status, &*verdict.read), (status, read), "{configured:?} {in_force:?}");
        }
        let memory = |name: &str| Policy { configured: Some(name.to_owned()), in_force: None }.judge(MEMORY_POLICIES);
        assert_eq!(["Static", "None", "BestEffort"].map(|name| memory(name).status), [Pass, Warn, Warn]);
        assert_eq!(memory("BestEffort").read, "\"BestEffort\", which is none of the known names: None, Static");
    }

    #[test]
    fn a_pod_with_all_gpus_of_two_sockets_must_fit() {
        for (policy, nodes, status) in [
            (Some("best-effort"), 2, Pass),
            (Some("restricted"), 2, Pass),
            (Some("strict"), 2, Warn),
            (Some("single-numa-node"), 2, Warn),
            (Some("single-numa-node"), 1, Pass),
            (Some("none"), 2, Warn),
            (None, 2, Warn),
        ] {
            assert_eq!(judge_topology(policy, Some("pod"), nodes).status, status, "{policy:?} {nodes}");
        }
        let scope = judge_topology(Some("restricted"), Some("node"), 2);
        assert_eq!((scope.status, &*scope.read), (Warn, "\"node\", which is none of the known names: container, pod"));
    }
}
