//! pid -> cgroup -> container, pod, Slurm job or systemd unit -> GPU.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::source::files::Roots;
use crate::source::nvml::Snapshot;

/// Who holds a GPU: one container, job or unit, however many processes it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Short stable id used as the `owner` label; joins every owner series of this node.
    pub id: String,
    /// Where its cgroup is, relative to the hierarchy's root.
    pub cgroup: String,
    /// Kubernetes pod UID, with dashes.
    pub pod_uid: Option<String>,
    /// Container id of the runtime, in full.
    pub container_id: Option<String>,
    /// Slurm job id.
    pub slurm_job: Option<String>,
    /// systemd unit.
    pub unit: Option<String>,
    /// Its processes that hold a GPU.
    pub pids: Vec<u32>,
}

/// The owners of every GPU at one moment.
#[derive(Debug, Default)]
pub struct Owners {
    by_gpu: BTreeMap<String, Vec<Arc<Owner>>>,
}

impl Owners {
    /// The owners of the GPU with this UUID; empty when nothing holds it or nothing is known.
    #[must_use]
    pub fn of_gpu(&self, uuid: &str) -> &[Arc<Owner>] {
        self.by_gpu.get(uuid).map_or(&[], Vec::as_slice)
    }
}

/// Finds the owners of every process that holds a GPU.
#[must_use]
pub fn resolve(_roots: &Roots, _gpus: &Snapshot) -> Owners {
    Owners::default()
}
