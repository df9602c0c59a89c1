//! Whose GPUs are looked at together: the owners that are one run, on all nodes.

use super::Node;
use goodput_verdict::owner::is_of_one_node;

/// The ranks of a job, or one owner wherever it is, where its name says the same on every node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    cluster: String,
    /// Its only node, where the owner's name says nothing on another.
    node: Option<String>,
    name: String,
}

impl Run {
    pub(super) fn of(node: &Node, owner: &str) -> Run {
        let own = is_of_one_node(owner).then(|| node.node.clone());
        Run { cluster: node.cluster.clone(), node: own, name: node.runs.name(owner).to_owned() }
    }

    /// Is the same owner on another node the same run?
    pub(super) fn is_of_several_nodes(&self) -> bool {
        self.node.is_none()
    }

    pub(super) fn cluster(&self) -> &str {
        &self.cluster
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}
