//! What jobs count themselves.

use std::collections::BTreeMap;

use goodput_exposition::sample::TimeMs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

goodput_catalog::named! {
    /// What an inference server counts of what it serves.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Served {
        /// Requests that ended.
        Requests = "requests",
        /// Tokens of prompts, with those of the cache.
        PromptTokens = "prompt_tokens",
        /// Prompt tokens that a cache had.
        CachedTokens = "cached_tokens",
        /// Tokens of answers.
        GenerationTokens = "generation_tokens",
    }
}

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
    /// All that an inference server counted, each with its counter, by the table of signals; `None` of counters that are
    /// configured. Empty where it reported its requests in work and no counter: SGLang has none before its first request
    /// ends. `metric`, `unit` and `amount` are those of the last of them, or of the gauge.
    pub served: Option<BTreeMap<Served, (f64, String)>>,
    /// The model that the server served; `None` where the series do not name it, and of counters that are configured.
    pub model: Option<String>,
}
