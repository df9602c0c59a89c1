//! Helpers for tests that run the real programs.

pub mod cgroup;
pub mod gpu;
pub mod process;
pub mod prometheus;
