//! Helpers for tests that run the real programs.

pub mod gpu;
