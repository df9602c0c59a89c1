//! `goodput-analyzer`: accounts for every GPU-second and says why it was lost.
//!
//! Data flows one way: [`ingest`] turns what arrives into [`sample::Batch`]es, [`store`] keeps them, [`signal`] names
//! what each series means, [`frame`] lays signals on the grid of cells, [`classify`] judges cells and does the
//! ledger's arithmetic, [`tuning`] compares how nodes are set up, [`judge`] stores the verdicts, [`report`] and the pages
//! of [`serve`] show them, [`deliver`] brings them to people when [`schedule`] says so; [`why`] does the same for a minute
//! of scraping, without a store; [`evaluate`] holds verdicts on recorded traces against what is known to be true.
//! [`events`] is what jobs tell of themselves. `signal`, `frame`, `events`, `classify`, `tuning`, `report` and `schedule`
//! do no IO.

mod api;
pub mod application;
mod caught;
pub mod classify;
pub mod command;
pub mod config;
pub mod deliver;
pub mod escape;
pub mod evaluate;
pub mod events;
pub mod forecast;
pub mod frame;
pub mod ingest;
pub mod judge;
mod median;
pub mod mig;
pub mod parquet;
pub mod report;
pub mod sample;
pub mod schedule;
pub mod serve;
pub mod signal;
pub mod store;
pub mod tuning;
mod web;
pub mod why;
