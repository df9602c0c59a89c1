//! How nodes are set up, and how they kept up with the nodes that they worked with.

use goodput_exposition::sample::TimeMs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{MountUse, PortUse};

/// One node in one window: how it is set up, and how it kept up with the nodes that it worked with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Standing {
    /// The cluster of the node; null where its series name none, and in what earlier releases stored.
    #[serde(default)]
    pub cluster: Option<String>,
    /// The node.
    pub node: String,
    /// Start of the window, Unix milliseconds, UTC.
    pub start_ms: TimeMs,
    /// Its end, or as far as was judged, Unix milliseconds, UTC.
    pub end_ms: TimeMs,
    /// The model of its GPUs, or models; null where settings tell none.
    pub pool: Option<String>,
    /// Nodes of the pool whose settings are known; 0 where this node's are not.
    pub pool_nodes: usize,
    /// Checks of the audit that ended in `fail`, `warn`, `no_permission` or `error`.
    pub checks: Vec<CheckEnd>,
    /// Settings that differ from what is usual in the pool.
    pub drift: Vec<Drift>,
    /// Compared with the other nodes of its runs.
    pub paired: Vec<Paired>,
    /// What its ports did, where a run of it waited for the network: those of the run that show most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortUse>,
    /// What its network file systems did, where a run of it waited for one: those of the run that show most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountUse>,
    /// What its GPUs did in collectives, where their ranks were matched with all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collectives: Vec<CollectiveUse>,
}

/// A check that did not pass.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CheckEnd {
    /// Its id, as in `docs/reference/audit.md`.
    pub check: String,
    /// How it ended.
    #[schemars(extend("enum" = ["fail", "warn", "no_permission", "error"]))]
    pub status: String,
    /// How it usually ends in the pool; null where no way is usual.
    pub usual: Option<String>,
}

/// A setting that is not as is usual in the pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// What is set.
    pub setting: String,
    /// The UUID of the GPU; null where it is the node's.
    pub gpu: Option<String>,
    /// What to.
    pub value: String,
    /// What is usual.
    pub usual: String,
    /// How many nodes, or GPUs, of the pool are set so.
    pub alike: usize,
    /// Of how many.
    pub of: usize,
}

goodput_catalog::named! {
    /// By what nodes are compared.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Measure {
        /// Time in which its GPUs worked, or were kept by causes of the node's own, and did not wait for the run's others, as
        /// far as the ledger sees such waiting: more of it is slower.
        OwnTime = "own_time",
        /// Time in which the SMs had work: of ranks that go step by step, the one that needs more of it is slower. It shows
        /// waiting that never ends, which the ledger takes for the usual.
        SmActivity = "sm_activity",
        /// Time in which its GPUs were kept by causes of the node's own, such as late input, beyond those of the others: as
        /// many times as slow as a step is longer with it than without.
        Stalled = "stalled",
        /// Clock of the SMs at work; a lower one is slower.
        SmClock = "sm_clock",
    }
}

/// A node compared with the others of one run in one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Paired {
    /// The cluster of the node and of the others; null where series name none.
    #[serde(default)]
    pub cluster: Option<String>,
    /// The node.
    pub node: String,
    /// Who held its GPUs and those of the others: the run's name where they are ranks of a job.
    pub owner: String,
    /// By what.
    pub measure: Measure,
    /// Start of the window, Unix milliseconds, UTC.
    pub start_ms: TimeMs,
    /// Cells in which both sides are known.
    pub cells: usize,
    /// The most other nodes that there were in one of them.
    pub others: usize,
    /// How many times as slow as the median of the others: the median over cells.
    pub slowdown: f64,
    /// The same of the slowest of the others. Several that are slow alike point to what they do in the run.
    pub next: f64,
}

/// What a GPU of a run did in collectives in a window, as NCCL's Inspector told it. It may have computed at the same time, and
/// been in several collectives at once: this is no time of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CollectiveUse {
    /// The cluster of the node; null where series name none.
    pub cluster: Option<String>,
    /// The node.
    pub node: String,
    /// The run.
    pub owner: String,
    /// The GPU's UUID.
    pub gpu: String,
    /// Start of the window, Unix milliseconds, UTC.
    pub start_ms: TimeMs,
    /// Time in collectives, in seconds, of half hours in which enough of them were matched between the ranks.
    pub seconds: f64,
    /// Of that, waiting for late ranks.
    pub late_seconds: f64,
    /// Collectives that were matched: every 16th at most.
    pub collectives: u64,
    /// In how many of them it came last of all ranks: by a tenth of the time of the next one at least.
    pub last: u64,
}

impl CollectiveUse {
    /// Adds what it did in another time.
    pub fn add(&mut self, other: &CollectiveUse) {
        self.seconds += other.seconds;
        self.late_seconds += other.late_seconds;
        self.collectives += other.collectives;
        self.last += other.last;
    }
}
