//! `kubelet`: how the kubelet places containers, from its configuration and its managers' states.

use std::time::Duration;

use super::{CollectError, Collector, Context, Done, Entry};
use crate::catalog::kubelet::*;
use crate::family::Families;
use crate::parse::ParseError;
use crate::parse::kubelet::{self, Configuration};
use crate::source::files::{self, FileError, Roots};

/// Most sets of NUMA nodes that get series of their own.
const MAX_NODE_SETS: usize = 16;

/// Where distributions put the configuration: kubeadm, then two generations of EKS.
const CONFIGURATIONS: [&str; 3] =
    ["var/lib/kubelet/config.yaml", "etc/kubernetes/kubelet/config.json", "etc/kubernetes/kubelet/kubelet-config.json"];

/// The row of this collector.
pub(super) const ENTRY: Entry = Entry {
    name: "kubelet",
    about: "How the kubelet places containers on CPUs, memory and devices; 3 small files, of which the managers' states are root's.",
    default: true,
    deadline: Duration::from_secs(1),
    new: || Box::<Kubelet>::default(),
};

/// Reads `/var/lib/kubelet/{config.yaml,cpu_manager_state,memory_manager_state}`.
#[derive(Default)]
pub struct Kubelet;

impl Collector for Kubelet {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let roots = &context.roots;
        // Each file may be denied or wrong by itself; what the others say is told all the same.
        let (configuration, first) = split(configuration(roots));
        let (cpu, second) = split(state(roots, "cpu_manager_state", kubelet::cpu_manager));
        let (memory, third) = split(state(roots, "memory_manager_state", kubelet::memory_manager));
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
    let configured = [
        &configuration.topology_manager_policy,
        &configuration.topology_manager_scope,
        &configuration.cpu_manager_policy,
        &configuration.memory_manager_policy,
    ];
    let labels = configured.into_iter().map(Option::as_deref).chain(in_force).map(Option::unwrap_or_default);
    out.push_with(&KUBELET_INFO, &[], &labels.collect::<Vec<_>>(), 1.0);
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

fn state<T>(
    roots: &Roots,
    file: &str,
    parser: impl FnOnce(&str) -> Result<T, ParseError>,
) -> Result<Option<T>, FileError> {
    files::parse_optional(&roots.root.join("var/lib/kubelet").join(file), parser)
}
