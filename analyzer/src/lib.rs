//! `goodput-analyzer`: accounts for every GPU-second and says why it was lost.
//!
//! Data flows one way: [`ingest`] turns what arrives into [`Batch`](goodput_exposition::sample::Batch)es, [`goodput_store`] keeps
//! them, [`goodput_rules`] makes verdicts of them, [`judge`] stores the verdicts, [`report`] and the pages of [`serve`] show
//! them, [`deliver`] brings them to people when [`schedule`] says so; [`why`] does the same for a minute of scraping,
//! without a store; [`evaluate`] holds verdicts on recorded traces against what is known to be true.

mod api;
pub mod app;
pub mod command;
pub mod config;
pub mod deliver;
pub mod escape;
pub mod evaluate;
pub mod ingest;
pub mod judge;
pub mod ownership;
pub mod report;
pub mod schedule;
pub mod serve;
pub mod teams;
mod web;
pub mod why;
mod wildcard;
