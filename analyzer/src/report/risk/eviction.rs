//! Pods that are evicted: what it means and what to do.

use super::SAVE;
use goodput_verdict::{Eviction, Remedy};

pub(super) fn meaning(signal: Eviction) -> &'static str {
    match signal {
        Eviction::Memory => {
            "The kubelet ends pods at once, those first that use more memory than they asked for; those that hold GPUs \
             lose the work since their last save."
        }
        Eviction::Nodefs | Eviction::NodefsInodes => {
            "The kubelet removes dead pods and their containers, then ends pods by what they write to the node's disk; \
             the node takes no new ones."
        }
        Eviction::Imagefs => {
            "The kubelet removes images that nobody uses, then ends pods by what they write to their layers; the node \
             takes no new ones."
        }
    }
}

pub(super) fn remedies(signal: Eviction) -> &'static [Remedy] {
    match signal {
        Eviction::Memory => MEMORY,
        Eviction::Nodefs | Eviction::NodefsInodes | Eviction::Imagefs => DISK,
    }
}

const ASK: Remedy = Remedy {
    action: "Let pods on GPUs ask for what they use, and limit it alike (class Guaranteed): these are evicted last.",
    command: Some(
        "resources: {requests: {memory: 64Gi, ephemeral-storage: 100Gi}, limits: {memory: 64Gi, ephemeral-storage: 100Gi}}",
    ),
    restarts: "the pod is replaced; the job restarts from its last checkpoint",
    who: "the job's owner, within the namespace's quota",
    risk: "a larger request may not fit on the node",
    source: "Kubernetes documentation, Node-pressure Eviction, pod selection",
};

const MEMORY: &[Remedy] = &[
    SAVE,
    Remedy {
        action: "Find what grows: pods, and other processes of the node.",
        command: Some("kubectl top pod -A --sort-by=memory; ps -eo rss,pid,cgroup --sort=-rss | head"),
        who: "a user who may read metrics; any user on the node",
        source: "Kubernetes documentation, kubectl top pod; ps(1)",
        ..Remedy::LIVE
    },
    ASK,
];

const DISK: &[Remedy] = &[
    SAVE,
    Remedy {
        action: "Find what grows: logs, emptyDir volumes and writable layers of pods, images.",
        command: Some("du -xh --max-depth=3 /var/lib/kubelet /var/log | sort -h | tail; crictl images"),
        risk: "reading many files takes I/O from the jobs",
        source: "Kubernetes documentation, Local ephemeral storage",
        ..Remedy::LIVE
    },
    Remedy {
        action: "Remove unused images before the kubelet has to.",
        command: Some("crictl rmi --prune"),
        risk: "images are pulled again when they are needed",
        source: "crictl documentation, rmi",
        ..Remedy::LIVE
    },
    ASK,
];
