//! The judgement from outside: series in, intervals out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of a test are test code")]

mod advised;
mod capacity;
mod crash;
mod depth;
mod energy;
mod events;
mod feeding;
mod identity;
mod ledger;
mod long_start;
mod mig;
mod mounts;
mod network;
mod phases;
mod placement;
mod recorded;
mod runs;
mod scattered;
mod serving;
mod sources;
mod storage_traces;
mod straggler;
mod waiting;
