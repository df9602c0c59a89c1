//! What NCCL's Inspector plug-in writes: JSON, a record per collective, and text, a mean per size of message.
//!
//! JSON has no UUID of a GPU, text no rank and no counts; how each is led to a GPU is in `source/inspector`. What a form
//! that is not known here means is never guessed.

pub mod json;
pub mod text;

/// Bytes per second that no bus reaches: own choice, several times what NVLink of 2026 has. What is faster is forged or broken.
pub const MOST_BANDWIDTH: f64 = 1e13;

goodput_catalog::named! {
    /// A collective operation, as NCCL names it. The plug-in has no others; those between two ranks are not read from JSON.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Operation {
        /// Every rank gets what all have.
        AllGather = "AllGather",
        /// Every rank gets the sum.
        AllReduce = "AllReduce",
        /// Every rank sends each other a part of its own.
        AllToAll = "AllToAll",
        /// One rank sends all the same.
        Broadcast = "Broadcast",
        /// One rank gets what all have.
        Gather = "Gather",
        /// One rank gets the sum.
        Reduce = "Reduce",
        /// Every rank gets a part of the sum.
        ReduceScatter = "ReduceScatter",
        /// One rank sends each a part.
        Scatter = "Scatter",
    }
}

impl Operation {
    /// By NCCL's name, which has been `AllToAll` and `AlltoAll`.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|operation| operation.name().eq_ignore_ascii_case(name))
    }

    /// Bytes on the bus for each byte of the message, as the plug-in counts its bus bandwidth: of all ranks' 2(n - 1)/n for
    /// AllReduce, n - 1 for ReduceScatter and AllGather, whose message is one rank's part, and 1 for all others.
    #[must_use]
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let ranks = f64::from(ranks.max(1));
        match self {
            Self::AllReduce => 2.0 * (ranks - 1.0) / ranks,
            Self::ReduceScatter | Self::AllGather => ranks - 1.0,
            _ => 1.0,
        }
    }

    /// Does every rank wait for every other? Then the one that needs least came last.
    #[must_use]
    pub fn is_joint(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::AllGather | Self::AllToAll)
    }
}
