//! What became of deliveries, and what comes next.

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
    /// What the newest report that is due waits for; `None` where nothing is left to deliver.
    pub awaited: Option<Awaited>,
    /// The next report by the schedule; `None` where none is delivered.
    pub next: Option<Due>,
}

/// A report that is due, and is not delivered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The ISO week.
    pub week: String,
    /// What it waits for, to be read.
    pub what: &'static str,
    /// Until when at least, where that is known.
    pub until_ms: Option<TimeMs>,
}

/// A report that the schedule has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The ISO week.
    pub week: String,
    /// When it is made, as soon as its verdicts are final.
    pub at_ms: TimeMs,
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
