//! What became of deliveries, and what comes next.

use std::collections::BTreeMap;

use goodput_exposition::sample::TimeMs;

/// What became of deliveries, by destination; there from the start for every one that is configured.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    /// By destination.
    pub destinations: BTreeMap<String, Outcomes>,
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
    /// The last attempt came to nothing; of messages, one or more did not arrive yet, or were refused.
    pub overdue: bool,
    /// Messages about the newest week that are still to be sent.
    pub pending: u64,
    /// Messages about the newest week that are beyond the most of a run; `None` where the destination has no outbox.
    pub held: Option<u64>,
    /// Messages about the newest week that were refused: the first ones.
    pub refused_now: Vec<Refused>,
}

/// A message that its receiver refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Who was to get it.
    pub contact: String,
    /// What the receiver said.
    pub reason: String,
}
