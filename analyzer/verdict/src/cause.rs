//! Causes of classes that have several: one row per cause.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why the time is of its class, where the class has several causes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// The cause.
    pub kind: CauseKind,
    /// The RDMA port (`device/port`) or network interface that has it, of the node that the time is charged to; null where
    /// none is named.
    pub which: Option<String>,
}

macro_rules! causes {
    ($($variant:ident $name:literal $meaning:literal,)*) => {
        /// What made a network slow.
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
    Link "link" "A port is down, or runs below the line rate of its peers.",
    RdmaUnused "rdma_unused" "The exchange goes over TCP while the RDMA ports are idle.",
    RailUnused "rail_unused" "Some of the node's RDMA ports carry the exchange, and the others are idle.",
    Errors "errors" "A port loses packets: it times out, sends again, or its link comes and goes.",
    Congested "congested" "Switches ask a network interface to pause.",
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
