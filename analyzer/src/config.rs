//! The configuration file in one typed, wholly validated value.

mod application;
mod file;
mod ingest;
mod maintenance;
mod prices;
mod reads;
#[cfg(test)]
mod reference;
mod report;
mod rows;
mod scrape;
mod serving;
mod teams;
mod values;
mod web;
mod web_args;
mod yaml;

pub use file::{Config, ConfigError};
pub use ingest::IngestSettings;
pub use reads::ReadLimits;
pub use report::Shown;
pub use rows::Variables;
pub use teams::{Showback, teams_of_text};
pub(crate) use values::{duration, host_port};
pub use web_args::WebArgs;
pub use yaml::Mistake;
