//! Verdicts, risks and events for the unit tests of the other crates.

mod event;
mod verdict;

pub use event::{START, ended, event, saved};
pub use verdict::{advisory, bare, interval, outlook, risk, standing};
