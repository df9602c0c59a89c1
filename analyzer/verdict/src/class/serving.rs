//! Time in which a GPU waited for the CPU side of the server that holds it.

use super::{ClassInfo, Group, Remedy};

pub(super) const SERVING_HOST: ClassInfo = ClassInfo {
    name: "serving_host",
    title: "Server's CPU side late",
    group: Group::Feeding,
    version: 1,
    meaning: "Requests were open, and the GPU waited for the server's own CPU work: tokenising, HTTP, scheduling.",
    light: "#7d86fa",
    dark: "#0172a6",
    key: "6",
    check: "gpu_busy rises under the same load; the time between arrival and the engine's queue falls.",
    gain: None,
    remedies: &[
        Remedy {
            action: "Give the server more CPU cores, and lift a CPU limit that it reaches.",
            command: Some("resources: {requests: {cpu: 16}}   # of the pod; in Slurm: --cpus-per-gpu=16"),
            restarts: "the server",
            who: "the server's owner",
            risk: "a larger request may find no node",
            source: "vLLM documentation, Optimization and Tuning, CPU resources for GPU deployments",
        },
        Remedy {
            action: "Run one server for each GPU behind a load balancer, in place of one for all: each has a front end of its own.",
            command: None,
            restarts: "the server",
            who: "the server's owner",
            risk: "each takes host memory, and prefixes are cached by each alone",
            source: "vLLM documentation, Data Parallel Deployment, External Load Balancing",
        },
    ],
};
