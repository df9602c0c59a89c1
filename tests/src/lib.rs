//! Helpers for tests that run the real programs.

mod bin_path;
pub mod cgroup;
pub mod gpu;
pub mod job;
pub mod process;
pub mod programs;
pub mod prometheus;

pub use bin_path::bin;
