//! Which node a series belongs to.
//!
//! A node is named by the `node` label, else by the node info of the same target, else by a GPU series' host name. Host
//! and GPU series join by target first, then by name. What cannot be joined is reported, never guessed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use super::hosts::Hosts;
use crate::signal::{Meaning, Scope, Signal, hostname_of};
use goodput_exposition::sample::Labels;

/// What was scraped: the labels that Prometheus gives to every series of one scrape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Target<'a> {
    pub(crate) cluster: &'a str,
    pub(super) job: &'a str,
    instance: &'a str,
    /// Which of several that these labels do not tell apart.
    pub(super) part: u32,
}

impl<'a> Target<'a> {
    pub(crate) fn of(labels: &'a Labels) -> Self {
        let label = |name| labels.get(name).unwrap_or_default();
        Target { cluster: label("cluster"), job: label("job"), instance: label("instance"), part: 0 }
    }

    /// Where it is, without the port that one of its exporters listens on.
    pub(super) fn address(&self) -> &'a str {
        self.instance.rsplit_once(':').map_or(self.instance, |(address, _)| address)
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {:?}, instance {:?}", self.job, self.instance)
    }
}

/// A node: its cluster and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) name: &'a str,
    /// Where it is, if several machines have its name; else empty.
    pub(crate) address: &'a str,
}

impl<'a> NodeId<'a> {
    pub(super) fn of(cluster: &'a str, name: &'a str) -> Self {
        NodeId { cluster, name, address: "" }
    }

    /// The name in verdicts.
    pub(super) fn shown(&self) -> String {
        match self.address {
            "" => self.name.to_owned(),
            address => format!("{} ({address})", self.name),
        }
    }
}

/// What could not be joined, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unjoined {
    /// No label and no node info of its target names the GPU's node.
    GpuWithoutNode {
        /// The UUID.
        gpu: String,
    },
    /// Its series name different nodes at one time.
    GpuOnSeveralNodes {
        /// The UUID.
        gpu: String,
        /// Their names.
        nodes: Vec<String>,
    },
    /// Several machines have one name.
    NameOfSeveral {
        /// The name.
        node: String,
        /// Targets that tell it, by job and instance.
        targets: Vec<String>,
    },
    /// No host series belong to the GPU's node.
    GpuWithoutHost {
        /// The UUID.
        gpu: String,
        /// The node's name.
        node: String,
    },
    /// Host series of a target that nothing names.
    HostWithoutName {
        /// Job and instance.
        target: String,
    },
}

impl fmt::Display for Unjoined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unjoined::GpuWithoutNode { gpu } => {
                write!(f, "{gpu}: its series name no node: no node label, no host name, no node info of their target")
            }
            Unjoined::GpuOnSeveralNodes { gpu, nodes } => {
                write!(f, "{gpu}: its series name several nodes: {}", nodes.join(", "))
            }
            Unjoined::NameOfSeveral { node, targets } => {
                let targets = targets.join("; ");
                write!(
                    f,
                    "{node}: several machines have this name, each is a node of its own, by its address: {targets}"
                )
            }
            Unjoined::GpuWithoutHost { gpu, node } => {
                write!(f, "{gpu}: no host series of node {node}: is its node info (nodename) scraped, under that name?")
            }
            Unjoined::HostWithoutName { target } => {
                write!(f, "{target}: host series that no node label and no node info name")
            }
        }
    }
}

/// Names for the series of one span of time.
#[derive(Debug, Default)]
pub(crate) struct Directory<'a> {
    targets: HashMap<Target<'a>, Names<'a>>,
    /// From another name of a node, such as its nodename, to the one in its `node` label.
    aliases: BTreeMap<NodeId<'a>, BTreeSet<&'a str>>,
    /// The same names with a domain and without.
    hosts: Hosts<'a>,
    /// Names that several machines have.
    contested: BTreeSet<NodeId<'a>>,
}

/// What the series of one target say.
#[derive(Debug, Default)]
struct Names<'a> {
    node_labels: BTreeSet<&'a str>,
    nodenames: BTreeSet<&'a str>,
    hostnames: BTreeSet<&'a str>,
    has_gpus: bool,
    has_host: bool,
}

impl<'a> Directory<'a> {
    /// Learns from one series.
    pub(crate) fn add(&mut self, target: Target<'a>, meaning: &Meaning<'a>, labels: &'a Labels) {
        let signal = meaning.signal;
        let names = self.targets.entry(target).or_default();
        for name in hostname_of(labels).into_iter().chain(meaning.node) {
            self.hosts.see(NodeId::of(target.cluster, name));
        }
        names.node_labels.extend(meaning.node);
        if signal.scope() == Scope::Gpu {
            names.has_gpus = true;
            names.hostnames.extend(hostname_of(labels));
        } else {
            // Prometheus writes `up` for every target: it does not make one a host.
            names.has_host |= signal != Signal::Up;
        }
        if signal != Signal::NodeInfo {
            return;
        }
        names.nodenames.extend(labels.get("nodename"));
        let name = meaning.node.or(labels.get("nodename"));
        let others = [labels.get("nodename"), hostname_of(labels)];
        for (name, other) in others.into_iter().flatten().filter_map(|other| Some((name?, other))) {
            let alias = NodeId::of(target.cluster, other);
            self.aliases.entry(alias).or_default().insert(name);
            self.hosts.see(alias);
            self.hosts.is_node(alias, name);
        }
    }

    /// The node of a series.
    pub(crate) fn node_of(&self, target: Target<'a>, meaning: &Meaning<'a>, labels: &'a Labels) -> Option<NodeId<'a>> {
        let names = self.targets.get(&target)?;
        let labelled = meaning.node.or(only(&names.node_labels));
        let known = |name| self.hosts.node(NodeId::of(target.cluster, name)).unwrap_or(name);
        if let Some(name) = labelled {
            return Some(NodeId::of(target.cluster, known(name)));
        }
        let id = NodeId::of(target.cluster, self.unlabelled(target, names, labels)?);
        let address = if self.contested.contains(&id) { target.address() } else { "" };
        Some(NodeId { address, ..id })
    }

    /// Notes names that several machines have.
    pub(super) fn contest(&mut self, names: impl IntoIterator<Item = NodeId<'a>>) {
        self.contested.extend(names);
    }

    /// Does a node info, or a label of the scraping server, say that there is a node of that name?
    pub(super) fn is_told(&self, id: &NodeId<'a>) -> bool {
        let of_cluster = self.targets.iter().filter(|(target, _)| target.cluster == id.cluster);
        let mut names = of_cluster.flat_map(|(_, names)| names.nodenames.iter().chain(&names.node_labels));
        names.any(|name| *name == id.name)
    }

    fn unlabelled(&self, target: Target<'a>, names: &Names<'a>, labels: &'a Labels) -> Option<&'a str> {
        let stated = only(&names.nodenames).or(hostname_of(labels)).or(only(&names.hostnames));
        if let Some(name) = stated {
            let id = NodeId::of(target.cluster, name);
            return match self.aliases.get(&id) {
                None => Some(self.hosts.node(id).unwrap_or(name)),
                Some(real) => only(real),
            };
        }
        (names.has_gpus && names.has_host).then_some(target.instance)
    }
}

fn only<'a>(names: &BTreeSet<&'a str>) -> Option<&'a str> {
    names.first().filter(|_| names.len() == 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::resolve;

    /// The node that the directory gives to each of the series.
    fn nodes(series: &[&[(&str, &str)]]) -> Vec<Option<String>> {
        let labels: Vec<Labels> = series.iter().map(|s| Labels::new(s.iter().copied())).collect();
        let mut directory = Directory::default();
        for l in &labels {
            directory.add(Target::of(l), &resolve(l).unwrap(), l);
        }
        let node = |l| directory.node_of(Target::of(l), &resolve(l).unwrap(), l);
        labels.iter().map(|l| node(l).map(|n| n.name.into())).collect()
    }

    const DCGM: (&str, &str) = ("__name__", "DCGM_FI_DEV_GPU_UTIL");
    const UNAME: (&str, &str) = ("__name__", "node_uname_info");
    const IO: (&str, &str) = ("__name__", "node_pressure_io_waiting_seconds_total");

    #[test]
    fn host_and_gpu_series_join_by_nodename() {
        let got = nodes(&[
            &[DCGM, ("UUID", "GPU-1"), ("Hostname", "n1"), ("job", "dcgm"), ("instance", "10.0.0.1:9400")],
            &[UNAME, ("nodename", "n1"), ("job", "node"), ("instance", "10.0.0.1:9100")],
            &[IO, ("job", "node"), ("instance", "10.0.0.1:9100")],
        ]);
        assert_eq!(got, [Some("n1".to_owned()), Some("n1".to_owned()), Some("n1".to_owned())]);
    }

    #[test]
    fn a_name_with_its_domain_is_the_same_without() {
        let joined = |hostname, nodename, nodes| {
            let got = self::nodes(&[
                &[DCGM, ("UUID", "GPU-1"), ("Hostname", hostname), ("instance", "a:9400")],
                &[UNAME, ("nodename", nodename), ("instance", "a:9100")],
            ]);
            assert_eq!(got, [Some(nodes), Some(nodename)].map(|name: Option<&str>| name.map(str::to_owned)));
        };
        joined("n1", "n1.example.com", "n1.example.com");
        joined("n1.example.com", "n1", "n1");
        joined("n1.a.com", "n1.b.com", "n1.a.com");
        joined("n2", "n1.example.com", "n2");
        joined("10.0.0.1", "10.1.0.1", "10.0.0.1");
        let kube = nodes(&[
            &[("__name__", "kube_node_spec_unschedulable"), ("node", "n1"), ("instance", "kube")],
            &[UNAME, ("nodename", "n1.example.com"), ("instance", "a:9100")],
        ]);
        assert_eq!(kube, [Some("n1.example.com".to_owned()), Some("n1.example.com".to_owned())]);
        let renamed = nodes(&[
            &[DCGM, ("UUID", "GPU-1"), ("Hostname", "n1"), ("instance", "a:9400")],
            &[UNAME, ("nodename", "n1.example.com"), ("node", "worker-7"), ("instance", "a:9100")],
        ]);
        assert_eq!(renamed, [Some("worker-7".to_owned()), Some("worker-7".to_owned())]);
    }

    #[test]
    fn which_of_two_domains_is_meant_is_not_guessed() {
        let got = nodes(&[
            &[DCGM, ("UUID", "GPU-1"), ("Hostname", "n1"), ("instance", "a:9400")],
            &[UNAME, ("nodename", "n1.a.com"), ("instance", "a:9100")],
            &[UNAME, ("nodename", "n1.b.com"), ("instance", "b:9100")],
        ]);
        assert_eq!(got[0].as_deref(), Some("n1"));
        let got = nodes(&[
            &[DCGM, ("UUID", "GPU-1"), ("Hostname", "n1.a.com"), ("instance", "a:9400")],
            &[DCGM, ("UUID", "GPU-2"), ("Hostname", "n1.b.com"), ("instance", "b:9400")],
            &[UNAME, ("nodename", "n1"), ("instance", "a:9100")],
        ]);
        assert_eq!((got[0].as_deref(), got[1].as_deref()), (Some("n1.a.com"), Some("n1.b.com")));
    }

    #[test]
    fn a_node_label_wins_and_renames_the_nodename() {
        let got = nodes(&[
            &[DCGM, ("UUID", "GPU-1"), ("hostname", "n1"), ("instance", "a")],
            &[UNAME, ("nodename", "n1"), ("node", "worker-7"), ("instance", "b")],
            &[IO, ("instance", "b")],
        ]);
        assert_eq!(got, [Some("worker-7".to_owned()), Some("worker-7".to_owned()), Some("worker-7".to_owned())]);
    }

    #[test]
    fn a_numa_node_names_no_node() {
        let numa = [("__name__", "goodput_gpu_numa_info"), ("UUID", "GPU-1"), ("node", "0"), ("instance", "a")];
        let got = nodes(&[&numa, &[UNAME, ("nodename", "n1"), ("instance", "a")]]);
        assert_eq!(got, [Some("n1".to_owned()), Some("n1".to_owned())]);
    }

    #[test]
    fn one_target_is_one_node_even_without_a_name() {
        let got = nodes(&[&[DCGM, ("UUID", "GPU-1"), ("instance", "a:9400")], &[IO, ("instance", "a:9400")]]);
        assert_eq!(got, [Some("a:9400".to_owned()), Some("a:9400".to_owned())]);
    }

    #[test]
    fn nothing_is_guessed() {
        let got = nodes(&[
            &[DCGM, ("UUID", "GPU-1"), ("instance", "10.0.0.1:9400")],
            &[IO, ("instance", "10.0.0.1:9100")],
            &[UNAME, ("nodename", "n2"), ("node", "x"), ("instance", "b")],
            &[UNAME, ("nodename", "n2"), ("node", "y"), ("instance", "c")],
            &[DCGM, ("UUID", "GPU-2"), ("Hostname", "n2"), ("instance", "d")],
        ]);
        assert_eq!((&got[0], &got[1]), (&None, &None), "same address, other port: not a proof");
        assert_eq!(got[4], None, "two nodes have that nodename");
    }

    #[test]
    fn clusters_do_not_mix() {
        let one = [DCGM, ("UUID", "GPU-1"), ("Hostname", "n1"), ("cluster", "a")];
        let two = [IO, ("cluster", "b")];
        assert_eq!(nodes(&[&one, &two]), [Some("n1".to_owned()), None]);
    }
}
