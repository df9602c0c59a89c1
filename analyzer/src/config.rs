//! The configuration file and command line in one typed, wholly validated value.

mod application;
mod cli;
mod file;
mod prices;
mod report;
mod yaml;

pub use cli::{Cli, Command, Global, LogFormat, PeriodArgs, ReportFormat, WhyArgs, WhyFormat};
pub use file::{Config, ConfigError, ScrapeJob, StoreLimits};
pub use yaml::Mistake;
