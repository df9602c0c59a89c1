//! Verdicts on the runs of others as the report shows them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of a test are test code")]

mod slow_node;
mod straggler_traces;
mod training_traces;
