//! `goodput-exporter`: GPU and host telemetry for Prometheus.
//!
//! Data flows one way: [`source`] touches the machine, [`parse`] turns its text into plain structs, [`collect`] turns
//! structs into [`goodput_exposition::Families`], which are encoded there, [`serve`] hands the text out. What the metrics
//! are is said by [`goodput_catalog`].

pub mod attribute;
pub mod audit;
pub mod collect;
pub mod config;
pub mod context;
pub mod describe;
pub mod parse;
pub mod print;
pub mod registry;
pub mod scrape;
pub mod serve;
pub mod source;
