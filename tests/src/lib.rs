//! Helpers for tests that run the real programs.

mod bin_path;

pub use bin_path::bin;
