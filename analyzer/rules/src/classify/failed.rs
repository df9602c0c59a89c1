//! Nodes that cannot be judged, each of which costs itself.

use std::collections::BTreeMap;

use super::Node;
use super::capacity::Seen;
use crate::frame::FailedNode;

/// Nodes that failed in an hour, by cluster and name.
pub(super) struct Failed(BTreeMap<(String, String), FailedNode>);

impl Failed {
    /// These, to begin with.
    pub(super) fn of(nodes: Vec<FailedNode>) -> Self {
        Self(nodes.into_iter().map(|node| ((node.cluster.clone(), node.node.clone()), node)).collect())
    }

    /// All of them.
    pub(super) fn into_nodes(self) -> impl Iterator<Item = FailedNode> {
        self.0.into_values()
    }

    pub(super) fn add(&mut self, node: &Node, reason: impl ToString) {
        let new = || FailedNode::new(&node.cluster, &node.node, reason);
        self.0.entry((node.cluster.clone(), node.node.clone())).or_insert_with(new);
    }

    pub(super) fn has(&self, node: &Node) -> bool {
        self.at(&node.cluster, &node.node)
    }

    pub(super) fn has_place(&self, seen: &Seen) -> bool {
        self.at(&seen.cluster, &seen.node)
    }

    fn at(&self, cluster: &str, node: &str) -> bool {
        !self.0.is_empty() && self.0.contains_key(&(cluster.to_owned(), node.to_owned()))
    }
}
