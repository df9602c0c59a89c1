//! What a cluster says at one moment about who waits for GPUs: its pods and nodes, its queues, its partitions.

use std::collections::BTreeMap;

use super::resource::{Kind, Resource, resource_of};
use crate::signal::Signal;
use goodput_exposition::sample::Labels;
use goodput_verdict::owner::namespace_of;

/// Who waits in a cluster, and what its nodes have.
#[derive(Debug, Default)]
pub(super) struct Demand<'a> {
    /// Those that wait or run.
    pods: Vec<Told<'a>>,
    /// What pods may have of each node.
    pub(super) allocatable: BTreeMap<&'a str, BTreeMap<Resource, f64>>,
    /// Queues of Kueue.
    pub(super) queues: BTreeMap<&'a str, Queue>,
    /// Partitions of Slurm.
    partitions: BTreeMap<&'a str, Partition>,
    /// GPUs that jobs wait for, by partition.
    pending_gpus: BTreeMap<&'a str, f64>,
    /// Without either, kube-state-metrics proves nothing: one of the two may be left out of what it shows.
    has_phases: bool,
    has_requests: bool,
}

/// What the series of a pod say that waits or runs.
#[derive(Debug, Default)]
struct Told<'a> {
    namespace: &'a str,
    name: &'a str,
    node: Option<&'a str>,
    is_unschedulable: bool,
    created_seconds: Option<f64>,
    /// What the scheduler counts: all containers together, or one init container where it asks for more.
    asked: BTreeMap<Resource, f64>,
}

/// A queue of Kueue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Workloads that are tried again.
    pub(super) active: f64,
    /// Workloads that are not, usually for want of quota.
    pub(super) held: f64,
    /// GPUs that all of them ask for, where it is told.
    pub(super) gpus: BTreeMap<Kind, f64>,
}

/// Jobs of a partition of Slurm.
#[derive(Debug, Default)]
struct Partition {
    pending: f64,
    held: f64,
}

/// A pod that waits for GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pod<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    /// How many of each kind it asks for.
    pub(super) gpus: BTreeMap<Kind, usize>,
    pub(super) cores: f64,
    pub(super) bytes: f64,
    /// Did the scheduler say that it has no node?
    pub(super) is_unschedulable: bool,
    /// When it was made, since the epoch.
    pub(super) created_seconds: Option<f64>,
}

impl<'a> Demand<'a> {
    /// Adds what a pod's series say, in order of [`Says`].
    pub(super) fn add_pod(
        &mut self,
        (namespace, name): (&'a str, &'a str),
        said: impl Iterator<Item = (&'a Said<'a>, f64)>,
    ) {
        let mut told = Told { namespace, name, ..Told::default() };
        let (mut is_there, mut last) = (false, None);
        for (Said { says, node }, value) in said {
            told.node = told.node.or(*node);
            match says {
                Says::Pending | Says::Running => {
                    self.has_phases = true;
                    is_there |= value > 0.0;
                }
                Says::Unschedulable => told.is_unschedulable = value > 0.0,
                Says::Created => told.created_seconds = Some(value),
                // Two copies of kube-state-metrics say the same.
                Says::Asks(..) | Says::InitAsks(..) if last == Some(says) => {}
                Says::Asks(_, resource) => {
                    self.has_requests = true;
                    *told.asked.entry(resource.clone()).or_default() += resource.counted(value);
                }
                Says::InitAsks(_, resource) => {
                    let known = told.asked.entry(resource.clone()).or_default();
                    *known = known.max(resource.counted(value));
                }
            }
            last = Some(says);
        }
        if is_there {
            self.pods.push(told);
        }
    }

    /// Adds the value of a series that is of no pod; `node` is the one that it names.
    pub(super) fn add(&mut self, signal: Signal, labels: &'a Labels, node: Option<&'a str>, value: f64) -> Option<()> {
        let resource = || resource_of(labels.get("resource")?);
        match signal {
            Signal::NodeAllocatable => {
                self.allocatable.entry(node?).or_default().insert(resource()?, value);
            }
            Signal::QueuePending => self.queue(labels)?.active = value,
            Signal::QueueHeld => self.queue(labels)?.held = value,
            Signal::QueueResource => {
                let Resource::Gpu(kind) = resource()? else { return None };
                *self.queue(labels)?.gpus.entry(kind).or_default() += value;
            }
            Signal::PartitionPending => self.partition(labels).pending = value,
            Signal::PartitionHeld => self.partition(labels).held = value,
            Signal::PendingGpus => {
                *self.pending_gpus.entry(labels.get("partition").unwrap_or_default()).or_default() += value;
            }
            _ => {}
        }
        Some(())
    }

    fn queue(&mut self, labels: &'a Labels) -> Option<&mut Queue> {
        Some(self.queues.entry(labels.get("cluster_queue")?).or_default())
    }

    fn partition(&mut self, labels: &'a Labels) -> &mut Partition {
        self.partitions.entry(labels.get("partition").unwrap_or_default()).or_default()
    }

    /// Is it told who waits for GPUs of Kubernetes?
    pub(super) fn is_of_kubernetes(&self) -> bool {
        self.has_phases && self.has_requests || !self.queues.is_empty()
    }

    /// Is it told who waits for GPUs of Slurm?
    pub(super) fn is_of_slurm(&self) -> bool {
        !self.partitions.is_empty() || !self.pending_gpus.is_empty()
    }

    /// GPUs that jobs of Slurm wait for, the partition with the most first; `None` where nothing counts them.
    pub(super) fn pending_gpus(&self) -> Option<Vec<(&'a str, f64)>> {
        let mut all: Vec<(&str, f64)> = self.pending_gpus.iter().map(|(name, gpus)| (*name, *gpus)).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        (!all.is_empty()).then_some(all)
    }

    /// The partition of Slurm in which most jobs wait that are not on hold.
    pub(super) fn longest_partition(&self) -> Option<&'a str> {
        let open = self.partitions.iter().map(|(name, jobs)| (*name, jobs.pending - jobs.held));
        open.filter(|(_, jobs)| *jobs > 0.0).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name)
    }

    /// Pods that ask for GPUs and have no node, those that were made first in front.
    pub(super) fn waiting(&self) -> Vec<Pod<'a>> {
        if !(self.has_phases && self.has_requests) {
            return Vec::new();
        }
        let mut pods: Vec<Pod<'a>> = self.pods.iter().filter(|told| told.node.is_none()).map(Told::pod).collect();
        pods.retain(|pod| !pod.gpus.is_empty());
        let since = |pod: &Pod<'_>| pod.created_seconds.unwrap_or(f64::INFINITY);
        pods.sort_by(|a, b| {
            since(a).total_cmp(&since(b)).then_with(|| (a.namespace, a.name).cmp(&(b.namespace, b.name)))
        });
        pods
    }

    /// What pods that have one of these nodes ask for of it.
    pub(super) fn requested(&self, is_wanted: impl Fn(&str) -> bool) -> BTreeMap<&'a str, BTreeMap<Resource, f64>> {
        let mut nodes: BTreeMap<&str, BTreeMap<Resource, f64>> = BTreeMap::new();
        for told in &self.pods {
            let Some(node) = told.node.filter(|node| is_wanted(node)) else { continue };
            let of_node = nodes.entry(node).or_default();
            for (resource, amount) in &told.asked {
                *of_node.entry(resource.clone()).or_default() += amount;
            }
        }
        nodes
    }
}

impl<'a> Told<'a> {
    fn pod(&self) -> Pod<'a> {
        let &Told { namespace, name, is_unschedulable, created_seconds, .. } = self;
        let mut pod = Pod { namespace, name, is_unschedulable, created_seconds, ..Pod::default() };
        for (resource, amount) in &self.asked {
            match resource {
                Resource::Cpu => pod.cores = *amount,
                Resource::Memory => pod.bytes = *amount,
                Resource::Gpu(kind) if *amount >= 1.0 => *pod.gpus.entry(kind.clone()).or_default() += *amount as usize,
                Resource::Shared if *amount >= 1.0 => *pod.gpus.entry(Kind::Whole).or_default() += *amount as usize,
                Resource::Gpu(_) | Resource::Shared => {}
            }
        }
        pod
    }
}

/// What a series of a pod says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Says<'a> {
    Pending,
    Running,
    Unschedulable,
    Created,
    /// A container asks for the resource.
    Asks(&'a str, Resource),
    /// An init container does. Behind the containers, whose sum it is compared with.
    InitAsks(&'a str, Resource),
}

/// The same, with the node that the series names.
#[derive(Debug)]
pub(super) struct Said<'a> {
    pub(super) says: Says<'a>,
    pub(super) node: Option<&'a str>,
}

impl<'a> Says<'a> {
    /// Which pod a series is of, and what it says; `None` of another series, or one that lacks a label.
    pub(super) fn of(signal: Signal, labels: &'a Labels) -> Option<((&'a str, &'a str), Self)> {
        let pod = (namespace_of(labels)?, labels.get("exported_pod").or_else(|| labels.get("pod"))?);
        let container = || labels.get("exported_container").or_else(|| labels.get("container")).unwrap_or_default();
        let resource = || resource_of(labels.get("resource")?);
        let says = match signal {
            Signal::PodPending => Says::Pending,
            Signal::PodRunning => Says::Running,
            Signal::PodUnschedulable => Says::Unschedulable,
            Signal::PodCreated => Says::Created,
            Signal::PodRequest => Says::Asks(container(), resource()?),
            Signal::PodInitRequest => Says::InitAsks(container(), resource()?),
            _ => return None,
        };
        Some((pod, says))
    }
}
