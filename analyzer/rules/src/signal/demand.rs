//! Rows of the table for who waits for GPUs: kube-state-metrics, Kueue and Slurm.
//!
//! They are of a whole cluster, and of pods that hold no GPU yet: they are read side by side (`classify/waiting`), never laid on a
//! grid. Names of resources are those of kube-state-metrics, which writes `_` for what a label may not have: `nvidia.com/gpu` is
//! `nvidia_com_gpu`.

use super::Signal;
use super::table::{Row, row};

/// What decides whether a pod fits on a node.
const RESOURCES: &str = "resource=~\"nvidia_com_.*|cpu|memory\"";

const fn told(metric: &'static str, signal: Signal) -> Row {
    row(metric, signal).of_server()
}

pub(super) static ROWS: &[Row] = &[
    // kube-state-metrics, docs/metrics/workload/pod-metrics.md and docs/metrics/cluster/node-metrics.md.
    told("kube_pod_container_resource_requests", Signal::PodRequest).asked_for(RESOURCES),
    told("kube_pod_init_container_resource_requests", Signal::PodInitRequest).asked_for(RESOURCES),
    told("kube_pod_status_phase", Signal::PodPending).only("phase", "Pending").asked_for(PHASES),
    told("kube_pod_status_phase", Signal::PodRunning).only("phase", "Running").asked_for(PHASES),
    told("kube_pod_status_unschedulable", Signal::PodUnschedulable),
    told("kube_pod_created", Signal::PodCreated),
    told("kube_node_status_allocatable", Signal::NodeAllocatable).asked_for(RESOURCES),
    // Kueue, "Prometheus Metrics" of its documentation; the last one is of recent releases.
    told("kueue_pending_workloads", Signal::QueuePending).only("status", "active"),
    told("kueue_pending_workloads", Signal::QueueHeld).only("status", "inadmissible"),
    told("kueue_cluster_queue_resource_pending", Signal::QueueResource).asked_for("resource=~\"nvidia.*\""),
    // slurmctld from 25.11 on, /metrics/partitions.
    told("slurm_partition_jobs_pending", Signal::PartitionPending),
    told("slurm_partition_jobs_hold", Signal::PartitionHeld),
    // The same as SlinkyProject's slurm-exporter names them.
    told("slurm_partition_jobs_pending_total", Signal::PartitionPending),
    told("slurm_partition_jobs_hold_total", Signal::PartitionHeld),
    // Ours: what a site records of an exporter that counts pending GPUs, under whatever name.
    told("goodput_pending_gpus", Signal::PendingGpus),
];

/// A pod of another phase has none of its node's resources.
const PHASES: &str = "phase=~\"Pending|Running\"";
