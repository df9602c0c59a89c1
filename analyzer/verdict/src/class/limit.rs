//! Time in which a GPU waited because its job was at a limit that was set on it: of the group of feeding.

use super::{ClassInfo, Group, Remedy, by_cause};

pub(super) const IO_LIMITED: ClassInfo = ClassInfo {
    name: "io_limited",
    title: "I/O limit used up",
    group: Group::Feeding,
    version: 1,
    meaning: "The GPU waited while the job read or wrote as much as a limit on its cgroup lets it.",
    light: "#0401fb",
    dark: "#1a59fd",
    key: "9",
    check: "The job reads or writes more than the limit let it, and gpu_busy rises.",
    gain: None,
    remedies: by_cause::IO_LIMIT,
};

pub(super) const CPU_THROTTLED: ClassInfo = ClassInfo {
    name: "cpu_throttled",
    title: "CPU quota used up",
    group: Group::Feeding,
    version: 1,
    meaning: "The GPU waited while the job's CPU quota was used up.",
    light: "#354c66",
    dark: "#3ab3fb",
    key: "T",
    check: "Throttled periods fall below their threshold, and gpu_busy rises.",
    gain: None,
    remedies: &[
        Remedy {
            action: "On Kubernetes, raise the container's CPU limit and its request to the same value, so that a pod of \
                 class Guaranteed stays one.",
            command: Some("resources: {requests: {cpu: \"16\"}, limits: {cpu: \"16\"}}"),
            restarts: "the pod is replaced; the job restarts from its last checkpoint",
            who: "the job's owner, within the namespace's quota",
            risk: "a larger request may not fit on the node",
            source: "Kubernetes documentation, Pod Quality of Service Classes",
        },
        Remedy {
            action: "For a service or scope of systemd, raise its quota; 100% is one CPU.",
            command: Some("systemctl set-property UNIT CPUQuota=800%"),
            risk: "takes CPU time from others on the node",
            source: "systemd.resource-control(5)",
            ..Remedy::LIVE
        },
        Remedy {
            action: "For a container of Docker, raise its quota.",
            command: Some("docker update --cpus 16 CONTAINER"),
            restarts: "nothing",
            who: "a user with access to the Docker socket",
            risk: "takes CPU time from others on the node",
            source: "Docker documentation, docker container update",
        },
    ],
};
