//! Helpers for tests that run the real programs.

pub mod cgroup;
pub mod process;
pub mod prometheus;
