//! Time in which no owner held a GPU, or it is unknown whether one did.

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

pub(super) const DOWN: About = About {
    meaning: "The driver had lost the GPU, or wanted it reset before it could work again.",
    light: "#7a2e3a",
    dark: "#a8505e",
    remedies: &[
        Remedy {
            action: "Keep jobs off the node until the GPU is back.",
            command: Some("scontrol update nodename=NODE state=drain reason=gpu   # or: kubectl cordon NODE"),
            restarts: "nothing that runs",
            who: "an administrator of the scheduler",
            risk: "the node's other GPUs are out of use too",
            source: "scontrol(1); Kubernetes documentation, kubectl cordon",
        },
        Remedy {
            action: "Once no process uses the GPU, reset it. Before Ampere, GPUs joined by NVLink \
                     have to be reset together.",
            command: Some("nvidia-smi --gpu-reset --id=GPU"),
            restarts: "everything on the GPU",
            who: "root",
            risk: "fails while a process or a monitoring service has the GPU open; MIG instances that are not declared \
                   anywhere are gone",
            source: "nvidia-smi(1)",
        },
        Remedy {
            action: "A GPU that does not answer on PCIe comes back only with its machine: power it off and on. If it is \
                     lost again, read the kernel's log, and have it reseated or replaced.",
            command: Some("journalctl --dmesg --grep='NVRM|Xid'"),
            restarts: "the machine",
            who: "root, and who may touch the hardware",
            risk: "all jobs of the machine end",
            source: "NVIDIA XID Errors documentation, XID 79",
        },
    ],
};

pub(super) const MAINTENANCE: About = About {
    meaning: "The GPU was out of use on purpose: declared, or its node takes no pods.",
    light: "#5f7f6e",
    dark: "#86a896",
    remedies: &[Remedy {
        action: "Give nodes back as soon as the work on them is done: list those that take no pods, and since when.",
        command: Some("kubectl get nodes --field-selector spec.unschedulable=true   # then: kubectl uncordon NODE"),
        restarts: "nothing",
        who: "an administrator of the cluster",
        risk: "none",
        source: "Kubernetes documentation, kubectl uncordon",
    }],
};

pub(super) const UNALLOCATED: About = About {
    meaning: "No job held the GPU.",
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
