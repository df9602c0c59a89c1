//! Helpers for tests that run the real programs.
