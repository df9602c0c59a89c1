//! Helpers for tests that run the real programs.

mod artifacts;
pub mod cgroup;
pub mod gpu;
pub mod job;
pub mod process;
pub mod programs;
pub mod prometheus;

pub use artifacts::bin;
