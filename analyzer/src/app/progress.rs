//! How far judging has come.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use goodput_exposition::sample::TimeMs;
use goodput_rules::classify::Demand;
use goodput_verdict::{Achieved, Interval, Prospect};

/// What the loop has come to.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Every minute that ends here or before is judged.
    pub judged_until_ms: Option<TimeMs>,
    /// Verdicts of hours that end here or before will not change, unless samples come in late.
    pub final_until_ms: Option<TimeMs>,
    /// How often samples that came in late have opened hours again that were final.
    pub reopened: u64,
    /// The last window that is over.
    pub last_hour: Vec<Interval>,
    /// What inference servers counted in it.
    pub last_served: Vec<Achieved>,
    /// The last minutes that are judged.
    pub last_minutes: Vec<Interval>,
    /// GPUs that are waited for in them.
    pub demand: Vec<Demand>,
    /// What is to be expected of every memory, as at the last minute that is judged.
    pub prospects: Vec<Prospect>,
    /// Hours whose verdicts were cut for another time zone and are not judged again by themselves.
    pub cut_otherwise: Vec<Range<TimeMs>>,
    /// What could not be joined to a node in the open hour, and why.
    pub unjoined: Vec<String>,
    /// GPUs that the last round did not judge for there being more than `max_gpus`.
    pub dropped_gpus: usize,
    /// How long the last round took.
    pub took: Duration,
    /// Rounds that failed, and windows that could not be judged.
    pub failures: u64,
    /// Nodes whose last judging failed, and why: by cluster and name.
    pub failed_nodes: BTreeMap<(String, String), String>,
}
