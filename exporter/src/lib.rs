//! `goodput-exporter`: GPU and host telemetry for Prometheus.
//!
//! Data flows one way: [`source`] touches the machine, [`parse`] turns its text into plain structs, [`collect`] turns
//! structs into [`family::Families`], [`encode`] turns families into exposition text, [`serve`] hands the text out.
//! Without the `agent` feature only [`catalog`] exists: that is all the analyzer needs.

pub mod catalog;
pub mod xid;

#[cfg(feature = "agent")]
pub mod attribute;
#[cfg(feature = "agent")]
pub mod audit;
#[cfg(feature = "agent")]
pub mod collect;
#[cfg(feature = "agent")]
pub mod config;
#[cfg(feature = "agent")]
pub mod describe;
#[cfg(feature = "agent")]
pub mod encode;
#[cfg(feature = "agent")]
pub mod family;
#[cfg(feature = "agent")]
pub mod parse;
#[cfg(feature = "agent")]
pub mod print;
#[cfg(feature = "agent")]
pub mod scrape;
#[cfg(feature = "agent")]
pub mod serve;
#[cfg(feature = "agent")]
pub mod source;
