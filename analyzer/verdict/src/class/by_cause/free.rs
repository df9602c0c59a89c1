//! What to do about free GPUs, by who waits for them.

use super::Remedy;

const PENDING_PODS: Remedy = Remedy {
    action: "See what waits, and what the scheduler says of it: the events of a pending pod name what no node has.",
    command: Some("kubectl get pods --all-namespaces --field-selector=status.phase=Pending"),
    who: "any user who may list pods",
    source: "Kubernetes documentation, Field Selectors",
    ..Remedy::LIVE
};

const PENDING_JOBS: Remedy = Remedy {
    action: "See which jobs wait, and for what reason.",
    command: Some("squeue --state=PENDING --format='%i %u %b %r'"),
    who: "any Slurm user",
    source: "squeue(1)",
    ..Remedy::LIVE
};

pub(crate) const FREE_WHILE_WAITING: &[Remedy] = &[
    PENDING_PODS,
    Remedy {
        action: "See whether the scheduler itself is the cause: pods that another scheduler is to place, a queue that admits one \
                 workload at a time, or a first job in it that is too large for what is free.",
        command: Some("kubectl get clusterqueues -o wide; kubectl get workloads --all-namespaces"),
        who: "an administrator of the cluster",
        source: "Kueue documentation, ClusterQueue, queueing strategy",
        ..Remedy::LIVE
    },
    PENDING_JOBS,
];

pub(crate) const FREE_UNFIT: &[Remedy] = &[
    PENDING_PODS,
    Remedy {
        action: "See what pods have asked for on the node. Where CPUs or memory run out before the GPUs do, let each GPU ask for no \
                 more than its share of them.",
        command: Some("kubectl describe node NODE"),
        who: "any user who may see nodes",
        source: "Kubernetes documentation, Resource Management for Pods and Containers",
        ..Remedy::LIVE
    },
    Remedy {
        action: "Where jobs wait for whole nodes and GPUs are free on several, let the scheduler fill nodes that are in use first.",
        command: Some(
            "scoringStrategy: {type: MostAllocated}   # of NodeResourcesFit, in the configuration of the scheduler",
        ),
        restarts: "the scheduler",
        who: "an administrator of the cluster",
        risk: "nodes in use get fuller, and their jobs share network and storage",
        source: "Kubernetes documentation, Resource Bin Packing",
    },
];

pub(crate) const FREE_FIT_UNKNOWN: &[Remedy] = &[PENDING_JOBS, PENDING_PODS];

pub(crate) const FREE: &[Remedy] = &[Remedy {
    action: "Let work that can be interrupted have what is free: a queue of low priority, whose jobs give way to others.",
    command: Some("sbatch --requeue   # in Kubernetes: a PriorityClass with a low value"),
    who: "an administrator of the scheduler",
    risk: "jobs that are interrupted lose what they have not saved",
    source: "Slurm documentation, Preemption; Kubernetes documentation, Pod Priority and Preemption",
    ..Remedy::LIVE
}];
