//! Causes of classes that have several: one row per cause.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why the time is of its class, where the class has several causes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// The cause.
    pub kind: CauseKind,
    /// What has it: the RDMA port (`device/port`) or network interface of the node that the time is charged to, the mount
    /// point (else the export) of a network file system of the GPU's own node, or the disk that is limited; null where none is
    /// named.
    pub which: Option<String>,
}

macro_rules! causes {
    ($($variant:ident $name:literal $meaning:literal,)*) => {
        /// What made a network or a file system slow.
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

            /// The cause in a sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(CauseKind::$variant => $meaning),* }
            }
        }
    };
}

causes! {
    NvlinkDown "nvlink_down" "NVLinks of a GPU are down, and the exchange goes over PCIe.",
    Link "link" "A port is down, or runs below the line rate of its peers.",
    RdmaUnused "rdma_unused" "The exchange goes over TCP while the RDMA ports are idle.",
    RailUnused "rail_unused" "Some of the node's RDMA ports carry the exchange, and the others are idle.",
    Errors "errors" "A port loses packets: it times out, sends again, or its link comes and goes.",
    Congested "congested" "Switches ask a network interface to pause.",
    SlowMount "slow_mount" "Reads of a network file system take longer than they did, or than its peers' do.",
    Metadata "metadata" "The job waits for lookups on a network file system, not for data.",
    NetworkMount "network_mount" "The state is saved to a network file system.",
    IoLimit "io_limit" "The cgroup of the job, or one above it, limits what it reads or writes.",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_spelled_alike_everywhere() {
        for kind in CauseKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
