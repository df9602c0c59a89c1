//! Time that was lost because several shared a GPU.

use super::{ClassInfo, Group, Remedy};

pub(super) const TIMESLICE_GAP: ClassInfo = ClassInfo {
    name: "timeslice_gap",
    title: "Gaps between sharers",
    group: Group::Sharing,
    version: 1,
    meaning: "Several owners took turns on the GPU, and most of its multiprocessors rested meanwhile.",
    light: "#c67aa6",
    dark: "#c265ac",
    key: "5",
    check: "sm_active rises while the same owners work.",
    gain: None,
    remedies: &[
        Remedy {
            action: "Let the processes run side by side under MPS, if one user's or trusted: on Kubernetes the device plugin \
                     shares by MPS instead of by time.",
            command: Some(
                "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}   # without Kubernetes: nvidia-cuda-mps-control -d",
            ),
            restarts: "every process on the GPU",
            who: "root, or the administrator of the device plugin",
            risk: "clients share faults: one that fails may end the others, and memory that one takes is missing to all",
            source: "NVIDIA Multi-Process Service documentation; NVIDIA k8s-device-plugin",
        },
        Remedy {
            action: "Where they must not meet, give each an instance of its own.",
            command: Some(
                "nvidia-smi mig -i GPU -lgip   # the profiles; then, of the one with id 9: nvidia-smi mig -i GPU -cgi 9,9 -C",
            ),
            restarts: "everything on the GPU, once, to switch MIG on",
            who: "root",
            risk: "an instance has only its share of memory and multiprocessors",
            source: "NVIDIA Multi-Instance GPU User Guide",
        },
    ],
};
