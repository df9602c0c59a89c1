//! NUMA nodes and their CPUs.

use std::path::{Path, PathBuf};

use super::files::{self, Roots};
use crate::parse::cpus;

/// CPUs as ranges, both ends included.
pub type Ranges = Vec<(u32, u32)>;

/// The online CPUs of every NUMA node that has any.
pub struct Nodes(Vec<(u32, Ranges)>);

impl Nodes {
    /// Reads one file per node. A kernel without NUMA has no nodes.
    #[must_use]
    pub fn read(roots: &Roots) -> Self {
        let folder = folder(roots);
        let mut nodes = Vec::new();
        for id in ids(&folder) {
            if let Some(cpus) = read_cpus(&folder.join(format!("node{id}")), "cpulist", "cpumap") {
                nodes.push((id, cpus));
            }
        }
        nodes.retain(|(_, cpus)| !cpus.is_empty());
        Self(nodes)
    }

    /// Does the kernel know no nodes with CPUs?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many nodes have CPUs.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The nodes that have CPUs, with those.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[(u32, u32)])> {
        self.0.iter().map(|(id, cpus)| (*id, cpus.as_slice()))
    }

    /// The CPUs of a node; `None` when it has none or is not there.
    #[must_use]
    pub fn cpus_of(&self, node: u32) -> Option<&[(u32, u32)]> {
        self.0.iter().find(|(id, _)| *id == node).map(|(_, cpus)| cpus.as_slice())
    }

    /// The node of a CPU; `None` when the CPU is offline or the kernel knows no nodes.
    #[must_use]
    pub fn of_cpu(&self, cpu: u32) -> Option<u32> {
        let node = self.0.iter().find(|(_, cpus)| cpus.iter().any(|(first, last)| (*first..=*last).contains(&cpu)));
        node.map(|(id, _)| *id)
    }

    /// For every node, how many of its CPUs are among these.
    pub fn count_of<'a>(&'a self, cpus: &'a [(u32, u32)]) -> impl Iterator<Item = (u32, u64)> + 'a {
        self.0.iter().map(move |(id, own)| (*id, cpus::count_common(own, cpus)))
    }
}

/// Where the nodes are.
#[must_use]
pub fn folder(roots: &Roots) -> PathBuf {
    roots.sys.join("devices/system/node")
}

/// The ids of the nodes that have a folder, in order; they may have gaps.
#[must_use]
pub fn ids(folder: &Path) -> Vec<u32> {
    let names = files::names(folder).unwrap_or_default();
    let mut ids: Vec<u32> = names.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect();
    ids.sort_unstable();
    ids
}

/// The CPUs that a folder's list names, or its mask where there is no list; `None` without both.
#[must_use]
pub fn read_cpus(folder: &Path, list: &str, mask: &str) -> Option<Ranges> {
    files::get(&folder.join(list), cpus::ranges).or_else(|| files::get(&folder.join(mask), cpus::mask))
}
