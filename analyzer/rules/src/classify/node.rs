//! A node on the grid, with what classifying finds out before its cells are judged.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::crash::Crashes;
use super::loaders::Load;
use super::long_start::LongStarts;
use crate::frame::NodeFrame;

/// One node over one window, as rules see it.
#[derive(Debug)]
pub struct Node {
    frame: NodeFrame,
    /// What ended jobs against their will, of all nodes.
    pub(super) crashes: Arc<Crashes>,
    /// Starts that last longer than rules look around, of all nodes.
    pub(super) long_starts: Arc<LongStarts>,
    /// What the loaders of each owner did, cell by cell; none until the node is looked at.
    pub(super) loads: BTreeMap<Arc<str>, Vec<Load>>,
}

impl From<NodeFrame> for Node {
    fn from(frame: NodeFrame) -> Self {
        Self { frame, crashes: Arc::default(), long_starts: Arc::default(), loads: BTreeMap::new() }
    }
}

impl Deref for Node {
    type Target = NodeFrame;

    fn deref(&self) -> &NodeFrame {
        &self.frame
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut NodeFrame {
        &mut self.frame
    }
}
