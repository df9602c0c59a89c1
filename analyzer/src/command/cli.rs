//! The command line. Flags are named in the manner of Prometheus and node_exporter.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand, ValueEnum};
use goodput_web::masked;

use super::database::DatabaseArgs;
use super::{backfill, deliver, evaluate, export, findings, import, migrate, store, teams, trial};
use crate::config::WebArgs;
use crate::why::WhyArgs;

/// Accounts for every GPU-second and says why it was lost.
#[derive(Debug, Parser)]
#[command(name = "goodput-analyzer", version = goodput_web::VERSION)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// What the program was started with; ends it with an error that shows no password where that is wrong.
    #[must_use]
    pub fn read() -> Self {
        Self::try_parse().unwrap_or_else(|error| without_passwords(error).exit())
    }
}

fn without_passwords(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidValue) {
        let found = masked(found).into_owned();
        error.insert(ContextKind::InvalidValue, ContextValue::String(found));
    }
    error
}

/// Options of every command.
#[derive(Args, Debug)]
pub struct Global {
    /// Configuration file (YAML); without it the defaults of `check-config` hold
    #[arg(long = "config.file", global = true, value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// Directory of samples and verdicts
    #[arg(long = "data.dir", global = true, value_name = "DIR", default_value = "data")]
    pub data_dir: PathBuf,
    /// Least severe messages to log
    #[arg(long = "log.level", global = true, default_value = "info", value_parser = ["error", "warn", "info", "debug", "trace"])]
    pub log_level: String,
    /// How to log
    #[arg(long = "log.format", global = true, default_value = "text")]
    pub log_format: LogFormat,
}

/// How to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take samples in, judge them, show reports and metrics
    Serve(WebArgs),
    /// Write the goodput report of a week, or of any full hours
    Report {
        /// What the report is about
        #[command(flatten)]
        period: PeriodArgs,
        /// Its form
        #[arg(long, default_value = "markdown")]
        format: ReportFormat,
        /// File to write instead of standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Where the verdicts are, if not in --data.dir
        #[command(flatten)]
        database: DatabaseArgs,
        /// Unfold the annex of an HTML report, so that it is printed too: all findings, nodes, runs and GPUs
        #[arg(long)]
        annex: bool,
        /// Only what this team and the teams that are part of it held
        #[arg(long, value_name = "NAME")]
        team: Option<String>,
    },
    /// Look at findings, and say who looks after them
    #[command(subcommand)]
    Findings(findings::Command),
    /// Look after teams
    #[command(subcommand)]
    Teams(teams::Command),
    /// Look at messages about reports before they are sent
    #[command(subcommand)]
    Deliver(deliver::Command),
    /// Judge stored samples again
    Classify {
        /// From: a date, a local time or one with offset, on a full hour
        #[arg(long, visible_alias = "since", value_name = "TIME")]
        start: String,
        /// To (exclusive)
        #[arg(long, visible_alias = "until", value_name = "TIME")]
        end: String,
        /// Say what would change, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Judge traces whose faults are known, and count what is right
    Evaluate(evaluate::Args),
    /// Report a week from a Prometheus that is there already; installs nothing, leaves nothing behind
    #[command(after_help = trial::EXAMPLES)]
    Try(trial::Args),
    /// Take history in from a Prometheus, or whatever has its HTTP API
    Backfill(backfill::Args),
    /// Write samples or verdicts to a Parquet file; works while a server runs
    Export(export::Args),
    /// Take history in from files: OpenMetrics text with timestamps, Parquet
    Import(import::Args),
    /// Look after the data directory: status, verify, compact, backup, restore, rebuild
    #[command(subcommand)]
    Store(store::Args),
    /// Make or upgrade the tables of a fleet in PostgreSQL, as their owner; with --from, copy the results of a data directory
    Migrate(migrate::Args),
    /// Scrape an exporter for a while and say why its GPUs wait; needs no server and no stored data
    Why(WhyArgs),
    /// Check the configuration file; print the settings and thresholds that hold
    CheckConfig {
        /// Print nothing where the file is right
        #[arg(long)]
        quiet: bool,
    },
}

/// What a report is about.
#[derive(Args, Debug)]
pub struct PeriodArgs {
    /// ISO week, such as 2026-W47; the last week that is over, if nothing is given
    #[arg(long, value_name = "WEEK", conflicts_with_all = ["start", "end"])]
    pub week: Option<String>,
    /// From: a date, a local time or one with offset, on a full hour
    #[arg(long, visible_alias = "since", value_name = "TIME", requires = "end")]
    pub start: Option<String>,
    /// To (exclusive)
    #[arg(long, visible_alias = "until", value_name = "TIME", requires = "start")]
    pub end: Option<String>,
}

/// Form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One self-contained page.
    Html,
    /// Text.
    Markdown,
    /// The model, for programs.
    Json,
    /// Showback: GPU-hours, energy and cost by team and class; by account where no teams are configured.
    Csv,
    /// The same by account, owner, run and class.
    CsvAccounts,
    /// The intervals, one per line.
    CsvIntervals,
}

impl ReportFormat {
    /// The form that it is where teams are configured, or are not: without them showback is by account.
    #[must_use]
    pub fn with_teams(self, are_configured: bool) -> Self {
        match self {
            Self::Csv if !are_configured => Self::CsvAccounts,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_error_shows_a_password() {
        for args in [["serve", "--web.external-url=http://u:s3cret@h/a b"], ["why", "--target=u:s3cret@h:1"]] {
            let error = Cli::try_parse_from(["goodput-analyzer"].iter().chain(&args)).unwrap_err();
            let error = without_passwords(error).to_string();
            assert!(!error.contains("s3cret") && error.contains("***@h"), "{error}");
        }
    }

    #[test]
    fn a_week_and_explicit_bounds_exclude_each_other() {
        let parse = |args: &[&str]| Cli::try_parse_from([&["goodput-analyzer", "report"], args].concat()).is_ok();
        assert!(parse(&["--week", "2026-W47"]));
        assert!(parse(&["--start", "2026-11-16", "--end", "2026-11-17"]));
        assert!(!parse(&["--start", "2026-11-16"]));
        assert!(!parse(&["--week", "2026-W47", "--start", "2026-11-16", "--end", "2026-11-17"]));
    }
}
