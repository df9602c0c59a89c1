//! Helpers for tests that run the real programs.

pub mod alertmanager;
mod artifacts;
pub mod browser;
pub mod cgroup;
pub mod demo;
pub mod gpu;
pub mod job;
pub mod kubelet;
pub mod lab;
pub mod loader;
pub mod numbered;
pub mod postgres;
pub mod process;
pub mod programs;
pub mod prometheus;
pub mod promql;
pub mod remote_write;
pub mod rules;
pub mod scrape;
pub mod tmpfs;
pub mod victoria;
pub mod webhook;

pub use artifacts::bin;
