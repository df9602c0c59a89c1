//! Causes of classes that have several: one row per cause.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::class::by_cause;
use crate::{Basis, Class, Gain, Grade, Remedy};

/// Why the time is of its class, where the class has several causes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// The cause.
    pub kind: CauseKind,
    /// What has it: the RDMA port (`device/port`) or network interface of the node that the time is charged to, the mount
    /// point (else the export, of Lustre the name) of a network file system of the GPU's own node, a storage target of one
    /// (`scratch-OST0003`), the disk that is limited, or the operation of a collective that no rank completes. Of a free GPU who
    /// waits: the pod or its run, the queue or the partition; of `free_unfit` what is short stands before it (`cpu for ml/train`).
    /// Null where none is named.
    pub which: Option<String>,
}

impl Cause {
    /// The network file system or the disk that has it: of a storage target the file system that it is of.
    #[must_use]
    pub fn storage(&self) -> Option<&str> {
        self.which.as_deref().map(|which| filesystem_of_target(which).unwrap_or(which))
    }
}

/// The Lustre file system that a storage target such as `scratch-OST0003` is of; `None` of any other mount, disk or device.
#[must_use]
pub fn filesystem_of_target(which: &str) -> Option<&str> {
    which.rsplit_once("-OST").map(|(filesystem, _)| filesystem).filter(|filesystem| !filesystem.contains(['/', ':']))
}

macro_rules! causes {
    ($($variant:ident of $class:ident $name:literal $meaning:literal does $remedies:ident,)*) => {
        /// Why the time of a class is lost.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum CauseKind {
            $(#[doc = $meaning] $variant,)*
        }

        impl CauseKind {
            /// Every cause, the first to be believed first.
            pub const ALL: &'static [CauseKind] = &[$(CauseKind::$variant),*];

            /// The name in stored results, in JSON and in CSV.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(CauseKind::$variant => $name),* }
            }

            /// The class whose cause it is.
            #[must_use]
            pub const fn class(self) -> Class {
                match self { $(CauseKind::$variant => Class::$class),* }
            }

            /// The cause in a sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(CauseKind::$variant => $meaning),* }
            }

            /// What to do about it, most promising first.
            #[must_use]
            pub const fn remedies(self) -> &'static [Remedy] {
                match self { $(CauseKind::$variant => by_cause::$remedies),* }
            }
        }
    };
}

causes! {
    NvlinkDown of NetworkSlow "nvlink_down" "NVLinks of a GPU are down, and the exchange goes over PCIe."
        does NVLINK_DOWN,
    Link of NetworkSlow "link" "A port is down, or runs below the line rate of its peers."
        does LINK,
    RdmaUnused of NetworkSlow "rdma_unused" "The exchange goes over TCP while the RDMA ports are idle."
        does RDMA_UNUSED,
    RailUnused of NetworkSlow "rail_unused" "Some of the node's RDMA ports carry the exchange, and the others are idle."
        does RAIL_UNUSED,
    Errors of NetworkSlow "errors" "A port loses packets: it times out, sends again, or its link comes and goes."
        does ERRORS,
    Congested of NetworkSlow "congested" "Switches hold the exchange back: they ask an interface to pause, or mark packets."
        does CONGESTED,
    Saturated of NetworkSlow "saturated" "A port carries nearly its line rate: the exchange is as large as the network can take."
        does SATURATED,
    Hang of CollectiveWait "hang" "All ranks wait, and nothing is exchanged: one never came, or is in another collective."
        does HANG,
    LateRanks of CollectiveWait "late_ranks" "Ranks come late to the collective by turns, and the others wait for them."
        does LATE_RANKS,
    Exchange of CollectiveWait "exchange" "The ranks wait for the exchange itself, not for each other."
        does EXCHANGE,
    NotAnswering of DataloaderStorage "not_answering" "The server of a network file system did not answer, and requests were sent again."
        does NOT_ANSWERING,
    SlowTarget of DataloaderStorage "slow_target" "A storage target of a Lustre file system takes much longer to answer than the others."
        does SLOW_TARGET,
    SlowMount of DataloaderStorage "slow_mount" "Reads of a network file system take longer than they did, or than its peers' do."
        does SLOW_MOUNT,
    SlowDisk of DataloaderStorage "slow_disk" "Reads of a disk take longer than they did."
        does SLOW_DISK,
    Metadata of DataloaderStorage "metadata" "The job waits for lookups on a network file system, not for data."
        does METADATA,
    SmallReads of DataloaderStorage "small_reads" "Reads are small, and each waits for a seek or a round trip of its own."
        does SMALL_READS,
    NetworkMount of Checkpoint "network_mount" "The state is saved to a network file system."
        does NETWORK_MOUNT,
    IoLimit of IoLimited "io_limit" "The cgroup of the job, or one above it, limits what it reads or writes."
        does IO_LIMIT,
    FreeWhileWaiting of Unallocated "free_while_waiting" "A pod or job waited for a GPU, and would have fitted."
        does FREE_WHILE_WAITING,
    FreeUnfit of Unallocated "free_unfit" "A pod waited for a GPU, and something else kept it out."
        does FREE_UNFIT,
    FreeFitUnknown of Unallocated "free_fit_unknown" "Jobs waited; it is not known whether they would have fitted."
        does FREE_FIT_UNKNOWN,
    Free of Unallocated "free" "No pod or job that may run waited for the GPU."
        does FREE,
}

/// What a GPU returns that is given to one who waits for it.
const TAKE: Gain = Gain {
    low: 0.0,
    high: 1.0,
    basis: Basis::Loss,
    grade: Grade::Definition,
    source: "a pod or job waited for the GPU",
};

impl CauseKind {
    /// Did a pod or job wait for the free GPU, so that all of the time may come back?
    #[must_use]
    pub const fn is_waited_for(self) -> bool {
        matches!(self, CauseKind::FreeWhileWaiting | CauseKind::FreeUnfit)
    }

    /// What acting on it is said to return, where that is another figure than the class has.
    #[must_use]
    pub const fn gain(self) -> Option<&'static Gain> {
        if self.is_waited_for() { Some(&TAKE) } else { None }
    }
}

impl Class {
    /// What to do about time of the class: what is done about the cause, where one is known.
    #[must_use]
    pub fn remedies(self, cause: Option<CauseKind>) -> &'static [Remedy] {
        cause.map_or(self.info().remedies, CauseKind::remedies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_target_is_of_its_file_system() {
        let of =
            |kind, which: Option<&str>| Cause { kind, which: which.map(str::to_owned) }.storage().map(str::to_owned);
        assert_eq!(of(CauseKind::SlowTarget, Some("my-fs-OST00b0")).as_deref(), Some("my-fs"));
        assert_eq!(of(CauseKind::SlowMount, Some("/my-OST1")).as_deref(), Some("/my-OST1"));
        assert_eq!(of(CauseKind::SlowTarget, None), None);
    }

    #[test]
    fn a_cause_is_spelled_alike_everywhere() {
        for kind in CauseKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
