//! Helpers for tests that run the real programs.

pub mod cgroup;
pub mod gpu;
pub mod job;
pub mod process;
pub mod programs;
pub mod prometheus;
