//! Helpers for tests that run the real programs.

pub mod alertmanager;
pub mod arrows;
pub mod axe;
pub mod backfill;
pub mod browser;
pub mod job;
pub mod kubelet;
pub mod mail;
pub mod numbered;
pub mod postgres;
pub mod programs;
pub mod prometheus;
pub mod promql;
pub mod rules;
pub mod scrape;
pub mod tmpfs;
pub mod venv;
pub mod victoria;
pub mod webhook;
