//! What became of deliveries, for metrics.

use std::collections::BTreeMap;

use goodput_exposition::sample::TimeMs;

use crate::deliver::Destination;

/// What became of deliveries, by destination; there from the start for every one that is configured.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    /// By destination.
    pub destinations: BTreeMap<Destination, Outcomes>,
    /// Weeks whose verdicts had changed after they were delivered.
    pub restated: u64,
}

/// What became of deliveries to one destination.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// Taken.
    pub delivered: u64,
    /// Not taken; tried again.
    pub failed: u64,
    /// Refused for good; tried again after a restart only.
    pub refused: u64,
    /// When the last one was taken.
    pub last_success_ms: Option<TimeMs>,
    /// The last attempt came to nothing.
    pub overdue: bool,
}
