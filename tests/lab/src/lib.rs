//! What is simulated: machines by a queue model and what exporters would have said of them, with what was the matter;
//! the node of the demonstration; and what both share with the end-to-end tests.

mod artifacts;
pub mod board;
pub mod cgroup;
pub mod collectives;
pub mod counters;
pub mod demo;
pub mod exporters;
pub mod families;
pub mod floors;
pub mod gpu;
pub mod live;
pub mod loader;
pub mod manual;
pub mod model;
pub mod network;
pub mod phase;
pub mod process;
pub mod record;
pub mod remote_write;
pub mod report;
pub mod serving;
pub mod spoil;
pub mod storage;
pub mod trace;

pub use artifacts::{artifact, bin};
