//! What may come: one kind per remedy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

goodput_catalog::named! {
    /// Whose memory it is; each has its own remedy.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Memory {
        /// Device memory in use, of what the driver does not reserve.
        Gpu = "gpu",
        /// The working set of a cgroup, of its `memory.max`.
        Cgroup = "cgroup",
        /// What is not available (`MemAvailable`) of the node's memory.
        Host = "host",
    }

    /// What of a file system runs out.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Room {
        /// Space.
        Bytes = "bytes",
        /// Inodes; every file has one.
        Inodes = "inodes",
    }

    /// The kubelet's signals with a hard threshold by default; `pid.available` has none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    pub enum Eviction {
        /// Memory of the node less its working set.
        #[serde(rename = "memory.available")]
        Memory = "memory.available",
        /// Space of the file system with the kubelet's directory.
        #[serde(rename = "nodefs.available")]
        Nodefs = "nodefs.available",
        /// Inodes of the file system with the kubelet's directory.
        #[serde(rename = "nodefs.inodesFree")]
        NodefsInodes = "nodefs.inodesFree",
        /// Space of the file system with the container runtime's images.
        #[serde(rename = "imagefs.available")]
        Imagefs = "imagefs.available",
    }

    /// What tells that a GPU, an NVSwitch or an RDMA port may fail.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Fault {
        /// The driver wants it reset, or more.
        RecoveryAction = "recovery_action",
        /// A row of memory waits for a reset to be replaced.
        RemapPending = "remap_pending",
        /// A row of memory could not be replaced.
        RemapFailed = "remap_failed",
        /// Rows of memory were replaced after uncorrectable errors.
        RemappedRows = "remapped_rows",
        /// A bank of memory has no spare rows left.
        SpentBanks = "spent_banks",
        /// Errors that ECC could not correct.
        EccUncorrected = "ecc_uncorrected",
        /// Many errors that ECC corrected.
        EccCorrected = "ecc_corrected",
        /// Pages of memory wait for a reboot to be retired.
        RetiredPending = "retired_pending",
        /// Many pages of memory are retired.
        RetiredPages = "retired_pages",
        /// XIDs of a class that the hardware is to blame for.
        Xid = "xid",
        /// More PCIe replays than a sound link has.
        PcieReplays = "pcie_replays",
        /// Errors of NVLinks.
        Nvlink = "nvlink",
        /// NVLinks of the GPU are down.
        NvlinkDown = "nvlink_down",
        /// Errors of an NVSwitch.
        NvswitchSxid = "nvswitch_sxid",
        /// An RDMA port that was up is down.
        RdmaPortDown = "rdma_port_down",
        /// An RDMA port has less than its line rate.
        RdmaPortSlow = "rdma_port_slow",
        /// The link of an RDMA port or network interface comes and goes.
        RdmaLinkUnstable = "rdma_link_unstable",
        /// The link of an RDMA port damages or drops packets.
        RdmaLinkErrors = "rdma_link_errors",
        /// An RDMA port gets no answers.
        RdmaTransport = "rdma_transport",
    }

    /// How pressing it is that something is damaged.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Level {
        /// Nothing has failed: know it, and look again.
        Watch = "watch",
        /// Something is to be done before the next job.
        Act = "act",
    }

    /// The sorts of kinds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Sort {
        /// Memory runs out.
        Memory = "memory",
        /// A file system fills up.
        Disk = "disk",
        /// The kubelet evicts pods.
        Eviction = "eviction",
        /// A GPU, an NVSwitch or an RDMA port fails.
        Hardware = "hardware",
    }
}

/// What may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "which", rename_all = "snake_case")]
pub enum Kind {
    /// Memory runs out.
    Memory(Memory),
    /// A file system fills up.
    Disk(Room),
    /// The kubelet evicts pods, which it does before memory or disk run out.
    Eviction(Eviction),
    /// A GPU, an NVSwitch or an RDMA port fails.
    Hardware(Fault),
}

impl Fault {
    /// Is it of an RDMA port or network interface?
    #[must_use]
    pub fn is_of_port(self) -> bool {
        use Fault as F;
        matches!(self, F::RdmaPortDown | F::RdmaPortSlow | F::RdmaLinkUnstable | F::RdmaLinkErrors | F::RdmaTransport)
    }

    /// Is it of a GPU?
    #[must_use]
    pub fn is_of_gpu(self) -> bool {
        self != Fault::NvswitchSxid && !self.is_of_port()
    }
}

impl Kind {
    /// Every kind.
    pub fn all() -> impl Iterator<Item = Kind> {
        let memory = Memory::ALL.iter().map(|one| Kind::Memory(*one));
        let disk = Room::ALL.iter().map(|one| Kind::Disk(*one));
        let eviction = Eviction::ALL.iter().map(|one| Kind::Eviction(*one));
        memory.chain(disk).chain(eviction).chain(Fault::ALL.iter().map(|one| Kind::Hardware(*one)))
    }

    /// Its sort.
    #[must_use]
    pub fn sort(self) -> Sort {
        match self {
            Kind::Memory(_) => Sort::Memory,
            Kind::Disk(_) => Sort::Disk,
            Kind::Eviction(_) => Sort::Eviction,
            Kind::Hardware(_) => Sort::Hardware,
        }
    }

    /// Which of its sort, by the name in reports and stored results.
    #[must_use]
    pub fn which(self) -> &'static str {
        match self {
            Kind::Memory(memory) => memory.name(),
            Kind::Disk(room) => room.name(),
            Kind::Eviction(signal) => signal.name(),
            Kind::Hardware(fault) => fault.name(),
        }
    }

    /// Is it of one GPU, or of an instance of one?
    #[must_use]
    pub fn is_of_gpu(self) -> bool {
        match self {
            Kind::Memory(memory) => memory == Memory::Gpu,
            Kind::Hardware(fault) => fault.is_of_gpu(),
            Kind::Disk(_) | Kind::Eviction(_) => false,
        }
    }

    /// Is it counted in inodes, and not in bytes?
    #[must_use]
    pub fn counts_inodes(self) -> bool {
        matches!(self, Kind::Disk(Room::Inodes) | Kind::Eviction(Eviction::NodefsInodes))
    }
}
