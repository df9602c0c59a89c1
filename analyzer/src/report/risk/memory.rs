//! Memory that runs out: what it means and what to do.

use super::SAVE;
use goodput_verdict::{Memory, Remedy};

/// What happens when it runs out.
pub(super) fn meaning(memory: Memory) -> &'static str {
    match memory {
        Memory::Gpu => {
            "The next allocation on the GPU fails and ends the process that asks; under MPS, one client's end by \
             out-of-memory takes the GPU's other clients down."
        }
        Memory::Cgroup => {
            "The kernel reclaims first and then kills a process of the job; the other ranks hang or fail with it."
        }
        Memory::Host => "The kernel kills the largest process on the node, which need not be the one that grows.",
    }
}

pub(super) fn remedies(memory: Memory) -> &'static [Remedy] {
    match memory {
        Memory::Gpu => GPU,
        Memory::Cgroup => CGROUP,
        Memory::Host => HOST,
    }
}

const GPU: &[Remedy] = &[
    SAVE,
    Remedy {
        action: "Find what grows: tensors that are kept, often losses collected for a log with their graph (take \
                 `loss.item()`), or a cache without a bound.",
        command: Some(
            "torch.cuda.memory._record_memory_history(); torch.cuda.memory._dump_snapshot(\"memory.pickle\")",
        ),
        restarts: "the job, from its last checkpoint, to take the change up",
        who: "the job's owner",
        risk: "recording costs some speed",
        source: "PyTorch documentation, Understanding CUDA Memory Usage",
    },
    Remedy {
        action: "Where sizes vary from step to step, let the allocator grow its segments: that helps against \
                 fragmentation, not against a leak.",
        command: Some("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
        risk: "none is documented beyond its being experimental",
        source: "PyTorch documentation, CUDA semantics, memory management",
        ..Remedy::BY_OWNER
    },
    Remedy {
        action: "Under MPS, bound each client, so that one that grows ends alone.",
        command: Some("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=30G"),
        restarts: "the client",
        who: "the user who starts the client",
        risk: "a client that needs more than its bound fails",
        source: "NVIDIA Multi-Process Service documentation, environment variables",
    },
];

const CGROUP: &[Remedy] = &[
    SAVE,
    Remedy {
        action: "See what grows: `anon` is the processes' own memory (lists that loader workers keep), `shmem` is \
                 /dev/shm, `file` is the page cache and can be dropped.",
        command: Some("grep -E '^(anon|file|shmem) ' CGROUP/memory.stat"),
        who: "any user on the node",
        source: "Linux kernel documentation, admin-guide/cgroup-v2, memory interface files",
        ..Remedy::LIVE
    },
    Remedy {
        action: "If it settles, give the job its measured peak and headroom, request and limit alike, so that a pod of \
                 class Guaranteed stays one.",
        command: Some("cat CGROUP/memory.peak"),
        restarts: "the pod is replaced; the job restarts from its last checkpoint",
        who: "the job's owner, within the namespace's quota",
        risk: "a larger request may not fit on the node",
        source: "Linux kernel documentation, admin-guide/cgroup-v2; Kubernetes documentation, Pod Quality of Service \
                 Classes",
    },
    Remedy {
        action: "For a service or scope of systemd, raise the limit while it runs.",
        command: Some("systemctl set-property UNIT MemoryMax=64G"),
        risk: "takes memory from others on the node",
        source: "systemd.resource-control(5)",
        ..Remedy::LIVE
    },
];

const HOST: &[Remedy] = &[
    Remedy {
        action: "Find who grows.",
        command: Some("ps -eo rss,pid,user,cgroup --sort=-rss | head"),
        who: "any user on the node",
        source: "ps(1)",
        ..Remedy::LIVE
    },
    SAVE,
    Remedy {
        action: "Limit the process that grows, so that the kernel kills it and not the largest job.",
        command: Some("systemctl set-property UNIT MemoryMax=64G"),
        restarts: "nothing; at the limit, what is in the unit",
        who: "root",
        risk: "the unit's processes are killed when they reach the limit",
        source: "systemd.resource-control(5)",
    },
    Remedy {
        action: "Let Slurm hold every job to the memory that it asked for.",
        command: Some("ConstrainRAMSpace=yes   # in cgroup.conf; task/cgroup in TaskPlugin"),
        restarts: "slurmd; jobs go on",
        who: "the administrator of Slurm",
        risk: "jobs that asked for too little are killed",
        source: "cgroup.conf(5)",
    },
];
