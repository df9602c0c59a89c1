//! RDMA ports, NVSwitches and NVLinks that may fail: what it means and what to do.

use goodput_verdict::{CauseKind, Fault, Remedy};

const FABRIC: &str = "NVIDIA Fabric Manager User Guide";
const COUNTERS: &str = "NVIDIA, Understanding mlx5 Linux Counters";

/// Of no other fault.
pub(super) fn meaning(fault: Fault) -> &'static str {
    match fault {
        Fault::NvlinkDown => {
            "NVLinks of the GPU are down that it had, or that the node's other GPUs have. Collectives within the node go over \
             fewer links, or over PCIe."
        }
        Fault::NvswitchSxid => "An NVSwitch reported errors. After a fatal one the fabric has to be reset.",
        Fault::RdmaPortDown => {
            "The port was up, or the other nodes of the pool have it up. NCCL leaves it out of new jobs without a message: they \
             run with one rail less."
        }
        Fault::RdmaPortSlow => {
            "The port has less than the line rate that it had, or that the other nodes of the pool have. A collective is as \
             fast as its slowest link."
        }
        Fault::RdmaLinkUnstable => "The link comes and goes. While it is away, jobs that use it wait or end.",
        Fault::RdmaLinkErrors => "The link damages or drops packets, which are sent again. It may fail.",
        _ => "The port got no answer from its peers, and sent again. Where it gave up, connections of jobs ended.",
    }
}

/// Of no other fault.
pub(super) fn remedies(fault: Fault) -> &'static [Remedy] {
    match fault {
        Fault::NvlinkDown => CauseKind::NvlinkDown.remedies(),
        Fault::NvswitchSxid => SWITCH,
        Fault::RdmaPortDown | Fault::RdmaPortSlow => CauseKind::Link.remedies(),
        Fault::RdmaTransport => TRANSPORT,
        _ => LINK,
    }
}

const SWITCH: &[Remedy] = &[
    Remedy {
        action: "Look the code up, and what else the driver logged around it.",
        command: Some("journalctl -k | grep -i sxid"),
        who: "root",
        source: FABRIC,
        ..Remedy::LIVE
    },
    Remedy::DRAIN,
    Remedy {
        action: "After a fatal error, reset all GPUs and NVSwitches of the drained node together.",
        command: Some("nvidia-smi --gpu-reset"),
        restarts: "all GPUs of the node",
        who: "root",
        risk: "fails while a process or a monitoring service has a GPU open",
        source: FABRIC,
    },
];

const LINK: &[Remedy] = &[Remedy::LOOK_AT_PORT, Remedy::OTHER_END];

const TRANSPORT: &[Remedy] = &[
    Remedy::LOOK_AT_PORT,
    Remedy {
        action: "See whether one port has them or many: one is its cable or card; many are a peer that ended, or the fabric. On RoCE, \
                 flow control or ECN has to be set on the priority of the job, at cards and switches alike.",
        command: Some("rdma statistic show"),
        who: "any user on the node",
        source: COUNTERS,
        ..Remedy::LIVE
    },
    Remedy::OTHER_END,
];
