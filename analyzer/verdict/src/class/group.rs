//! What classes are summed under.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

goodput_catalog::named! {
    /// Group of classes, as the report's waterfall shows them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Group {
        /// Progress that was kept.
        Productive = "productive",
        /// No owner held the GPU, or it is unknown whether one did.
        Capacity = "capacity",
        /// Held without work.
        Held = "held",
        /// Held, and not yet at work.
        StartUp = "start-up",
        /// The GPU waited for its input.
        Feeding = "feeding",
        /// The GPU waited for other GPUs of its job.
        Comms = "comms",
        /// The GPU waited for the job's state to be saved.
        Saving = "saving",
        /// The GPU worked, slower than it could.
        Derate = "derate",
        /// The GPU worked, and what it did was thrown away.
        Loss = "loss",
        /// The GPU worked for several who kept each other waiting.
        Sharing = "sharing",
        /// Held, not busy, and no sufficient evidence why.
        Unexplained = "unexplained",
    }
}
