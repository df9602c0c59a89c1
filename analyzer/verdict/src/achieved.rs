//! What jobs count themselves.

use std::collections::BTreeMap;

use goodput_exposition::sample::TimeMs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::latency::{Histogram, Latency};

goodput_catalog::named! {
    /// What an inference server counts of what it serves.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Served {
        /// Requests that ended.
        Requests = "requests",
        /// Those of them that were aborted or failed.
        FailedRequests = "failed_requests",
        /// Tokens of prompts, with those of the cache.
        PromptTokens = "prompt_tokens",
        /// Prompt tokens that a cache had.
        CachedTokens = "cached_tokens",
        /// Tokens of answers.
        GenerationTokens = "generation_tokens",
    }
}

/// All that an inference server counted in a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// Each with its counter, by the table of signals. Empty where the server reported its requests in work and no counter:
    /// SGLang has none before its first request ends.
    pub amounts: BTreeMap<Served, (f64, String)>,
    /// How long requests took.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub latencies: BTreeMap<Latency, Histogram>,
    /// How much of the server its requests needed, in each [`SLOT_MS`] from the window's start on: 1 for all of it, more where
    /// its KV cache is fuller than it should be, null where the server did not report. Empty where it never did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub demand: Vec<Option<f64>>,
}

/// Milliseconds of the time in which replicas of a model are compared: too short for a replica to be started in between.
pub const SLOT_MS: i64 = 300_000;

/// What one owner achieved in one window by one counter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Achieved {
    /// The cluster of the owner's GPUs, of the series where it has no owner; `None` where they name none, and in what earlier
    /// releases counted.
    pub cluster: Option<String>,
    /// The metric's name.
    pub metric: String,
    /// What it counts.
    pub unit: String,
    /// The window's start.
    pub start_ms: TimeMs,
    /// The window's end.
    pub end_ms: TimeMs,
    /// Who holds GPUs; `None` where the series could not be joined to anyone.
    pub owner: Option<String>,
    /// What the owner label said; empty without it.
    pub subject: String,
    /// How much, in `unit`.
    pub amount: f64,
    /// How much of the window the counter is known for.
    pub covered_ms: i64,
    /// What one GPU could do per second, as configured.
    pub ideal: Option<f64>,
    /// What an inference server counted; `None` of counters that are configured. `metric`, `unit` and `amount` are those of the
    /// last of its amounts, or of the gauge of requests in work.
    pub served: Option<Counted>,
    /// The model that the server served; `None` where the series do not name it, and of counters that are configured.
    pub model: Option<String>,
}
