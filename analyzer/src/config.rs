//! The configuration file and command line in one typed, wholly validated value.

mod application;
mod cli;
mod file;
mod ingest;
mod maintenance;
mod prices;
mod reads;
mod report;
mod scrape;
mod store;
mod web;
mod yaml;

pub use cli::{Cli, Command, Global, LogFormat, PeriodArgs, ReportFormat, WebArgs, WhyArgs, WhyFormat};
pub use file::{Config, ConfigError};
pub use ingest::IngestSettings;
pub use store::StoreLimits;
pub use yaml::Mistake;
