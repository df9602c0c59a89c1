//! A node that costs itself alone.

/// A node that could not be judged, or whose verdicts could not be stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailedNode {
    /// The cluster; empty where series name none.
    pub cluster: String,
    /// The node.
    pub node: String,
    /// Why.
    pub reason: String,
}

impl FailedNode {
    /// A node and why it failed.
    pub fn new(cluster: &str, node: &str, reason: impl ToString) -> Self {
        Self { cluster: cluster.to_owned(), node: node.to_owned(), reason: reason.to_string() }
    }
}
