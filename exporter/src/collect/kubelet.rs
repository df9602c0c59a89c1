//! `kubelet`: how the kubelet places containers, from its configuration and its managers' states.

use super::*;
use crate::parse::ParseError;
use crate::parse::kubelet::{self, CPU_POLICIES, Configuration, MEMORY_POLICIES, TOPOLOGY_POLICIES, TOPOLOGY_SCOPES};
use goodput_catalog::kubelet::*;

/// Most sets of NUMA nodes that get series of their own.
const MAX_NODE_SETS: usize = 16;

/// Where distributions put the configuration: kubeadm, then two generations of EKS.
const CONFIGURATIONS: [&str; 3] =
    ["var/lib/kubelet/config.yaml", "etc/kubernetes/kubelet/config.json", "etc/kubernetes/kubelet/kubelet-config.json"];

const CPU_STATE: &str = "cpu_manager_state";
const MEMORY_STATE: &str = "memory_manager_state";

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Kubelet>(
    "kubelet",
    "How the kubelet places containers on CPUs, memory and devices; 3 small files; only root can read the managers' states.",
    1,
);

/// Reads `/var/lib/kubelet/{config.yaml,cpu_manager_state,memory_manager_state}`.
#[derive(Default)]
pub struct Kubelet;

impl Collector for Kubelet {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let roots = &context.roots;
        // Each file may be denied or wrong by itself; what the others say is told all the same.
        let (configuration, first) = split(configuration(roots));
        let (cpu, second) = split(state(roots, CPU_STATE, kubelet::cpu_manager));
        let (memory, third) = split(state(roots, MEMORY_STATE, kubelet::memory_manager));
        let found = configuration.is_some() || cpu.is_some() || memory.is_some();
        if found {
            let in_force = [cpu.as_ref().map(|state| &*state.policy), memory.as_ref().map(|state| &*state.policy)];
            push_policies(&configuration.unwrap_or_default(), in_force, out);
        }
        if let Some(cpu) = cpu {
            out.push(&KUBELET_SHARED_CPUS, &[], cpu.shared.map(|n| n as f64));
            out.push(&KUBELET_EXCLUSIVE_CPUS, &[], cpu.exclusive as f64);
            out.push(&KUBELET_PINNED_CONTAINERS, &[], cpu.containers as f64);
        }
        for (nodes, bytes) in memory.iter().flat_map(|memory| &memory.bytes).take(MAX_NODE_SETS) {
            out.push(&KUBELET_PINNED_MEMORY, &[nodes], *bytes as f64);
        }
        first.and(second).and(third)?;
        if found { Ok(Done::Ok) } else { Ok(Done::NotApplicable("no kubelet below --path.rootfs".to_owned())) }
    }
}

fn push_policies(configuration: &Configuration, in_force: [Option<&str>; 2], out: &mut Families) {
    let [cpu_in_force, memory_in_force] = in_force;
    let names = [
        (configuration.topology_manager_policy.as_deref(), TOPOLOGY_POLICIES),
        (configuration.topology_manager_scope.as_deref(), TOPOLOGY_SCOPES),
        (configuration.cpu_manager_policy.as_deref(), CPU_POLICIES),
        (configuration.memory_manager_policy.as_deref(), MEMORY_POLICIES),
        (cpu_in_force, CPU_POLICIES),
        (memory_in_force, MEMORY_POLICIES),
    ];
    out.push_with(&KUBELET_INFO, &[], &names.map(|(name, _)| name.unwrap_or_default()), 1.0);
    let unknown = names.iter().filter(|(name, known)| name.is_some_and(|name| !known.contains(&name)));
    out.push(&KUBELET_UNKNOWN, &[], unknown.count() as f64);
    out.push(&KUBELET_RESERVED_CPUS, &[], configuration.reserved_cpus.map(|n| n as f64));
}

/// What was found, and what went wrong.
fn split<T>(read: Result<Option<T>, FileError>) -> (Option<T>, Result<(), FileError>) {
    match read {
        Ok(found) => (found, Ok(())),
        Err(error) => (None, Err(error)),
    }
}

/// The kubelet's configuration, from the first of the places that has one.
pub(crate) fn configuration(roots: &Roots) -> Result<Option<Configuration>, FileError> {
    for path in CONFIGURATIONS {
        if let Some(found) = files::parse_optional(&roots.root.join(path), kubelet::configuration)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The CPU manager's policy in force; the file is root's.
pub(crate) fn cpu_policy_in_force(roots: &Roots) -> Result<Option<String>, FileError> {
    Ok(state(roots, CPU_STATE, kubelet::cpu_manager)?.map(|state| state.policy))
}

/// The memory manager's policy in force; the file is root's.
pub(crate) fn memory_policy_in_force(roots: &Roots) -> Result<Option<String>, FileError> {
    Ok(state(roots, MEMORY_STATE, kubelet::memory_manager)?.map(|state| state.policy))
}

fn state<T>(
    roots: &Roots,
    file: &str,
    parser: impl FnOnce(&str) -> Result<T, ParseError>,
) -> Result<Option<T>, FileError> {
    files::parse_optional(&roots.root.join("var/lib/kubelet").join(file), parser)
}
