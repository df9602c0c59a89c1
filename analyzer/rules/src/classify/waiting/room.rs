//! Where pods fit: what a node has left, and what a pod lacks there.

use std::collections::BTreeMap;

use super::demand::Pod;
use super::resource::{Kind, Resource};

/// What keeps a pod out of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lack {
    /// Fewer GPUs of the node are free than the pod asks for.
    WholeNode,
    /// Its GPUs are free, and pods have asked for them already.
    Gpu,
    /// Cores.
    Cpu,
    /// Memory.
    Memory,
    /// It fits by what is counted, and the scheduler has no node for it: selectors, affinity, taints, volumes.
    Placement,
    /// It fits, and others of its run do not.
    Gang,
    /// The GPUs that are free are cut up otherwise.
    Mig,
}

impl Lack {
    /// Its name in a cause.
    pub(super) fn name(self) -> &'static str {
        match self {
            Lack::WholeNode => "whole_node",
            Lack::Gpu => "gpu",
            Lack::Cpu => "cpu",
            Lack::Memory => "memory",
            Lack::Placement => "placement",
            Lack::Gang => "gang",
            Lack::Mig => "mig",
        }
    }
}

/// A node with free GPUs.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The free GPUs by kind; those of the end are given first.
    pub(super) free: BTreeMap<Kind, Vec<usize>>,
    /// What no pod has asked for; `None` where nothing says what the node has.
    left: Option<BTreeMap<Resource, f64>>,
}

impl Room {
    /// What is allocatable, less what is asked for.
    pub(super) fn counted(
        &mut self,
        allocatable: &BTreeMap<Resource, f64>,
        requested: Option<&BTreeMap<Resource, f64>>,
    ) {
        let asked = |resource| requested.and_then(|all| all.get(resource)).copied().unwrap_or_default();
        self.left = Some(allocatable.iter().map(|(resource, has)| (resource.clone(), has - asked(resource))).collect());
    }

    /// How many of a kind are free.
    pub(super) fn count(&self, kind: &Kind) -> usize {
        self.free.get(kind).map_or(0, Vec::len)
    }

    /// All that are free.
    pub(super) fn all(&self) -> usize {
        self.free.values().map(Vec::len).sum()
    }

    /// What is left of a resource; `None` where it is not told.
    pub(super) fn left(&self, resource: &Resource) -> Option<f64> {
        self.left.as_ref()?.get(resource).copied()
    }

    fn is_short(&self, resource: &Resource, asked: f64) -> bool {
        asked > 0.0 && self.left(resource).is_some_and(|left| left < asked * (1.0 - ROUNDING))
    }

    /// What the pod lacks on this node; `None` where it fits.
    pub(super) fn lack(&self, pod: &Pod<'_>) -> Option<Lack> {
        if pod.gpus.iter().any(|(kind, count)| self.count(kind) < *count) {
            return Some(Lack::WholeNode);
        }
        // A node that has no GPUs for pods has its plug-in out of order.
        let gpus = |kind: &Kind| {
            self.left.as_ref().map(|left| left.get(&Resource::Gpu(kind.clone())).copied().unwrap_or_default())
        };
        let is_taken = |(kind, count): (&Kind, &usize)| gpus(kind).is_some_and(|left| left < *count as f64);
        if !self.is_shared() && pod.gpus.iter().any(is_taken) {
            return Some(Lack::Gpu);
        }
        if self.is_short(&Resource::Cpu, pod.cores) {
            return Some(Lack::Cpu);
        }
        self.is_short(&Resource::Memory, pod.bytes).then_some(Lack::Memory)
    }

    /// Are its GPUs given by shares, so that their number is not told?
    fn is_shared(&self) -> bool {
        self.left(&Resource::Shared).is_some()
    }

    /// Gives the pod its GPUs, and what else it asks for.
    pub(super) fn place(&mut self, pod: &Pod<'_>) -> Vec<(Kind, usize)> {
        let taken = pod.gpus.iter().flat_map(|(kind, count)| self.take(kind, *count)).collect();
        self.spend(pod, 1.0);
        taken
    }

    /// Takes back what was placed.
    pub(super) fn give_back(&mut self, pod: &Pod<'_>, taken: Vec<(Kind, usize)>) {
        for (kind, gpu) in taken.into_iter().rev() {
            self.free.entry(kind).or_default().push(gpu);
        }
        self.spend(pod, -1.0);
    }

    fn spend(&mut self, pod: &Pod<'_>, factor: f64) {
        let Some(left) = &mut self.left else { return };
        let gpus = pod.gpus.iter().map(|(kind, count)| (Resource::Gpu(kind.clone()), *count as f64));
        for (resource, amount) in gpus.chain([(Resource::Cpu, pod.cores), (Resource::Memory, pod.bytes)]) {
            if let Some(left) = left.get_mut(&resource) {
                *left -= factor * amount;
            }
        }
    }

    /// Takes as many free GPUs of a kind as there are, up to this number.
    pub(super) fn take(&mut self, kind: &Kind, count: usize) -> Vec<(Kind, usize)> {
        let Some(free) = self.free.get_mut(kind) else { return Vec::new() };
        let taken = free.split_off(free.len().saturating_sub(count));
        taken.into_iter().map(|gpu| (kind.clone(), gpu)).collect()
    }
}

/// Requests are sums of decimal fractions.
const ROUNDING: f64 = 1e-9;
