//! Time in which nobody held a GPU, or nobody knows.

use super::{About, Remedy};

pub(super) const NO_DATA: About = About {
    meaning: "No samples arrived, so nothing is known about this time.",
    light: "#b4bcc7",
    dark: "#55606e",
    remedies: &[Remedy {
        action: "See whether the exporter runs and is scraped: in Prometheus, up of its target is 1; on the node, the \
             service is active and its log is quiet.",
        command: Some("systemctl status goodput-exporter"),
        restarts: "nothing",
        who: "any user on the node",
        risk: "none",
        source: "Prometheus documentation, Jobs and instances",
    }],
};

pub(super) const UNALLOCATED: About = About {
    meaning: "Nobody held the GPU.",
    light: "#8494a7",
    dark: "#7588a0",
    remedies: &[
        Remedy {
            action: "See whether jobs wait while these GPUs are free, and for what reason: often the request asks for \
                 more CPUs or memory per GPU than the node has left.",
            command: Some("squeue --state=PENDING --format='%i %u %b %r'"),
            restarts: "nothing",
            who: "any Slurm user",
            risk: "none",
            source: "squeue(1)",
        },
        Remedy {
            action: "The same question on Kubernetes: the events of pending pods name the resource that is missing.",
            command: Some("kubectl get pods --all-namespaces --field-selector=status.phase=Pending"),
            restarts: "nothing",
            who: "any user who may list pods",
            risk: "none",
            source: "Kubernetes documentation, Field Selectors",
        },
    ],
};
