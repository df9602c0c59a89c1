//! Names of hosts with a domain and without: one program tells `node1.example.com` where another tells `node1`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use super::identity::NodeId;

/// What goes by each name without its domain, by cluster.
#[derive(Debug, Default)]
pub(super) struct Hosts<'a> {
    seen: HashSet<NodeId<'a>>,
    by_name: BTreeMap<NodeId<'a>, Host<'a>>,
    /// Has any of them a domain? Else there is nothing to look for.
    have_domains: bool,
}

#[derive(Debug, Default)]
struct Host<'a> {
    with_domain: BTreeSet<&'a str>,
    nodes: BTreeSet<&'a str>,
}

impl<'a> Hosts<'a> {
    /// A series names this host or node.
    pub(super) fn see(&mut self, id: NodeId<'a>) {
        if self.seen.insert(id) && without_domain(id.name) != id.name {
            self.have_domains = true;
            self.host(id).with_domain.insert(id.name);
        }
    }

    /// The host is this node.
    pub(super) fn is_node(&mut self, id: NodeId<'a>, node: &'a str) {
        self.host(id).nodes.insert(node);
    }

    fn host(&mut self, id: NodeId<'a>) -> &mut Host<'a> {
        self.by_name.entry(NodeId { name: without_domain(id.name), ..id }).or_default()
    }

    /// The node that one program names with its domain and another without. Where several names of the cluster differ
    /// in their domain alone, it is unknown which of them is meant.
    pub(super) fn node(&self, id: NodeId<'a>) -> Option<&'a str> {
        if !self.have_domains {
            return None;
        }
        let host = self.by_name.get(&NodeId { name: without_domain(id.name), ..id })?;
        host.nodes.first().filter(|_| host.with_domain.len() == 1 && host.nodes.len() == 1).copied()
    }
}

fn without_domain(name: &str) -> &str {
    // An address has no domain.
    let is_address = name.parse::<IpAddr>().is_ok();
    if is_address { name } else { name.split('.').next().unwrap_or(name) }
}
