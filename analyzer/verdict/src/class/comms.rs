//! Time in which a GPU waited for other GPUs, or for the network between them.

use super::{ClassInfo, FALLS, Group, Remedy};

pub(super) const COLLECTIVE_WAIT: ClassInfo = ClassInfo {
    name: "collective_wait",
    title: "Waiting in collectives",
    group: Group::Comms,
    version: 8,
    meaning: "The GPU's kernels spun, at little power, until the other GPUs of its job were there.",
    light: "#a877dc",
    dark: "#c599ee",
    key: "W",
    check: FALLS,
    gain: None,
    remedies: &[
        Remedy {
            action: "Find the rank that the others wait for: the GPU of the job that works, loads or saves while the \
                     others spin, on this page's timeline; its own row says what it did.",
            command: Some(
                "nvidia-smi --query-compute-apps=pid --format=csv,noheader | xargs -n1 py-spy dump --pid   # on each node: who is not in the collective",
            ),
            restarts: "nothing",
            who: "the job's owner or root",
            risk: "the process stands still for the moment of the dump",
            source: "py-spy documentation",
        },
        Remedy {
            action: "If no rank is late, the exchange itself is long: let it overlap with the backward pass in larger \
                     buckets, or exchange less often.",
            command: Some("DistributedDataParallel(..., bucket_cap_mb=100, gradient_as_bucket_view=True)"),
            risk: "larger buckets begin later and take device memory",
            source: "PyTorch documentation, DistributedDataParallel",
            ..Remedy::BY_OWNER
        },
    ],
};

pub(super) const STRAGGLER: ClassInfo = ClassInfo {
    name: "straggler",
    title: "Waiting for one slow GPU",
    group: Group::Comms,
    version: 6,
    meaning: "The GPU waited in a collective for one other GPU of its job, or for all those of one node, which are named.",
    light: "#632f8d",
    dark: "#8e5db9",
    key: "J",
    check: "The GPU that was waited for has no loss of its own, and power of the others rises with utilisation.",
    gain: None,
    remedies: &[
        Remedy {
            action: "Mend what holds up the GPU that is waited for: its own row has the cause and what to do. One GPU mended \
                     returns the time of all that wait for it.",
            command: Some("goodput-analyzer why --target NODE:9400 --for 60s   # on the node of the GPU waited for"),
            who: "anyone",
            source: "docs/reference/rules.md, straggler",
            ..Remedy::LIVE
        },
        Remedy {
            action: "If it cannot be fixed soon, take its node out of service and let the job go on without it.",
            command: Some(
                "scontrol update nodename=NODE state=drain reason=straggler   # in Kubernetes: kubectl cordon NODE",
            ),
            restarts: "the job, from its last checkpoint, once it is started elsewhere",
            who: "an administrator",
            risk: "work since the last checkpoint is lost",
            source: "scontrol(1); Kubernetes documentation, kubectl cordon",
        },
        Remedy {
            action: "If the GPU only has more to do than the others, even the work out: the same number of samples and the \
                     same lengths for every rank, stages of a pipeline that take equally long.",
            command: Some("DistributedSampler(dataset, drop_last=True)"),
            risk: "the last samples of an epoch that do not fill all ranks are left out",
            source: "PyTorch documentation, torch.utils.data.distributed.DistributedSampler",
            ..Remedy::BY_OWNER
        },
    ],
};

pub(super) const NETWORK_SLOW: ClassInfo = ClassInfo {
    name: "network_slow",
    title: "Waiting for a slow network",
    group: Group::Comms,
    version: 1,
    meaning: "The GPU waited in a collective longer than the bytes take on a sound network, and a port shows why.",
    light: "#8f43d9",
    dark: "#aa6ff2",
    key: "8",
    check: "The port has the line rate and the errors of its peers, and collective_wait has what network_slow had.",
    gain: None,
    remedies: &[Remedy {
        action: "Compare rate, state and errors of the ports of this node with those of the run's other nodes.",
        command: Some("rdma link show; rdma statistic show"),
        who: "any user on the node",
        source: "rdma-link(8), rdma-statistic(8)",
        ..Remedy::LIVE
    }],
};
