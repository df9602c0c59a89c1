//! The judgement from outside: series in, intervals out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of a test are test code")]

mod energy;
mod exporters;
mod ledger;
mod model;
mod phases;
mod placement;
mod recorded;
mod scenarios;
mod sources;
