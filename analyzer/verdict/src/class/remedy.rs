//! What can be done about a loss.

use schemars::JsonSchema;
use serde::Serialize;

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Remedy {
    /// In words.
    pub action: &'static str,
    /// The command or setting, where there is one; `NODE`, `GPU`, `DEVICE`, `JOBID`, `NAMESPACE`, `OBJECT`, `CGROUP`,
    /// `UNIT`, `CONTAINER`, `MOUNTPOINT` and `DISK` stand for what it is about.
    pub command: Option<&'static str>,
    /// What it restarts or interrupts.
    pub restarts: &'static str,
    /// Who is allowed to.
    pub who: &'static str,
    /// What may go wrong.
    pub risk: &'static str,
    /// Where this is documented.
    pub source: &'static str,
}

impl Remedy {
    /// What root does while everything goes on.
    pub const LIVE: Self =
        Self { action: "", command: None, restarts: "nothing", who: "root", risk: "none", source: "" };

    /// What the job's owner does, for which the job starts again.
    pub const BY_OWNER: Self =
        Self { restarts: "the job, from its last checkpoint", who: "the job's owner", ..Self::LIVE };

    /// No more jobs for a node.
    pub const DRAIN: Self = Self {
        action: "Give the node no more jobs, and let those that run save and end.",
        command: Some("kubectl cordon NODE   # with Slurm: scontrol update nodename=NODE state=drain reason=gpu"),
        restarts: "nothing; jobs that are moved restart from their last checkpoint",
        who: "the administrator of the cluster",
        risk: "the node's other GPUs are out of use too",
        source: DEBUG,
    };

    /// Of a GPU that no process uses.
    pub const RESET_GPU: Self = Self {
        action: "Reset the GPU when no process uses it; all GPUs that share an NVLink fabric without NVSwitch are reset together.",
        command: Some("nvidia-smi --gpu-reset -i GPU"),
        restarts: "the GPU",
        who: "root",
        risk: "fails while a process or a monitoring service has the GPU open",
        source: "NVIDIA GPU Memory Error Management",
    };

    /// Of a GPU that was repaired.
    pub const DIAGNOSE: Self = Self {
        action: "Test the drained GPU before it is used again; one that fails is for the vendor.",
        command: Some("dcgmi diag -r 3"),
        risk: "loads the GPUs fully for some minutes",
        source: DEBUG,
        ..Self::LIVE
    };

    /// Of an RDMA port.
    pub const LOOK_AT_PORT: Self = Self {
        action: "See why the link is as it is, its errors, and the transceiver.",
        command: Some("mlxlink -d DEVICE -m -c   # or: rdma link show; ibstat"),
        who: "root",
        source: "NVIDIA MFT documentation, mlxlink",
        ..Self::LIVE
    };

    /// Of the cable of an RDMA port.
    pub const OTHER_END: Self = Self {
        action: "Look at the port of the switch at the other end. Reseat the cable, then exchange cable and transceiver, then the card.",
        command: None,
        restarts: "nothing; connections over the port end while it is away",
        who: "a technician with access to the machine, and who runs the switches",
        risk: "jobs that use the port may end",
        source: "rdma-link(8), ibstat(8)",
    };
}

const DEBUG: &str = "NVIDIA GPU Debug Guidelines";
