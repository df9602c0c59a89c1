//! Time in which no owner held a GPU, or it is unknown whether one did.

use super::{ClassInfo, Group, Remedy};

pub(super) const NO_DATA: ClassInfo = ClassInfo {
    name: "no_data",
    title: "No data",
    group: Group::Capacity,
    version: 3,
    meaning: "No samples arrived, so nothing is known about this time.",
    light: "#806965",
    dark: "#918a88",
    key: "N",
    check: "up of the node's target is 1, and the coverage of the next report is higher.",
    gain: None,
    remedies: &[Remedy {
        action: "See whether the exporter runs and is scraped: in Prometheus, up of its target is 1; on the node, the \
             service is active and its log is quiet.",
        command: Some("systemctl status goodput-exporter"),
        who: "any user on the node",
        source: "Prometheus documentation, Jobs and instances",
        ..Remedy::LIVE
    }],
};

pub(super) const DOWN: ClassInfo = ClassInfo {
    name: "down",
    title: "GPU lost, or in need of a reset",
    group: Group::Capacity,
    version: 1,
    meaning: "The driver had lost the GPU, or wanted it reset before it could work again.",
    light: "#9e8f92",
    dark: "#c1b3a7",
    key: "X",
    check: "goodput_gpu_state of the GPU is ok, and nothing wants it reset (goodput_gpu_recovery_action is 0).",
    gain: None,
    remedies: &[
        Remedy {
            action: "Keep jobs off the node until the GPU is back.",
            command: Some(
                "scontrol update nodename=NODE state=drain reason=gpu   # in Kubernetes: kubectl cordon NODE",
            ),
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

pub(super) const MAINTENANCE: ClassInfo = ClassInfo {
    name: "maintenance",
    title: "In maintenance",
    group: Group::Capacity,
    version: 3,
    meaning: "The GPU was out of use on purpose: declared, or its node takes no pods.",
    light: "#604f4c",
    dark: "#7c6768",
    key: "M",
    check: "The node takes jobs again.",
    gain: None,
    remedies: &[Remedy {
        action: "Give nodes back as soon as the work on them is done: list those that take no pods, and since when.",
        command: Some("kubectl get nodes --field-selector spec.unschedulable=true   # then: kubectl uncordon NODE"),
        who: "an administrator of the cluster",
        source: "Kubernetes documentation, kubectl uncordon",
        ..Remedy::LIVE
    }],
};

pub(super) const UNALLOCATED: ClassInfo = ClassInfo {
    name: "unallocated",
    title: "Free GPUs",
    group: Group::Capacity,
    version: 4,
    meaning: "No job held the GPU.",
    light: "#758483",
    dark: "#d6cec4",
    key: "U",
    check: "The queue is shorter, and the GPUs are allocated in the next report.",
    gain: None,
    remedies: &[
        Remedy {
            action: "See whether jobs wait while these GPUs are free, and for what reason: often the request asks for \
                 more CPUs or memory per GPU than the node has left.",
            command: Some("squeue --state=PENDING --format='%i %u %b %r'"),
            who: "any Slurm user",
            source: "squeue(1)",
            ..Remedy::LIVE
        },
        Remedy {
            action: "The same question on Kubernetes: the events of pending pods name the resource that is missing.",
            command: Some("kubectl get pods --all-namespaces --field-selector=status.phase=Pending"),
            who: "any user who may list pods",
            source: "Kubernetes documentation, Field Selectors",
            ..Remedy::LIVE
        },
    ],
};
