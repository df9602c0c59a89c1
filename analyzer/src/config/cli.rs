//! The command line. Flags are named in the manner of Prometheus and node_exporter.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::{HeaderName, Uri};
use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand, ValueEnum};
use goodput_web::{Listen, Trusted, masked};

use crate::command::{backfill, evaluate, export, import, store, trial};
use crate::ingest::job::is_host_port;

/// Accounts for every GPU-second and says why it was lost.
#[derive(Debug, Parser)]
#[command(name = "goodput-analyzer", version)]
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
    },
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
    /// Scrape an exporter for a while and say why its GPUs wait; needs no server and no stored data
    Why(WhyArgs),
    /// Check the configuration file; print the settings and thresholds that hold
    CheckConfig,
}

/// The front door of `serve`.
#[derive(Args, Clone, Debug)]
pub struct WebArgs {
    /// Listen address: HOST:PORT, :PORT for every interface, or unix:PATH for a Unix socket; the default accepts local
    /// connections only
    #[arg(long = "web.listen-address", default_value = "127.0.0.1:9401", value_name = "ADDRESS")]
    pub listen: Listen,
    /// TLS, client certificates and basic auth: a Prometheus web configuration file
    #[arg(long = "web.config.file", value_name = "FILE")]
    pub web_config: Option<PathBuf>,
    /// Address by which people reach this server through a proxy, such as https://ops.example.com/goodput
    #[arg(long = "web.external-url", value_name = "URL", value_parser = external_url)]
    pub external_url: Option<Uri>,
    /// Host names by which pages and the API may be asked, separated by commas; without them the name is checked on
    /// loopback addresses alone, where localhost, IP addresses and the external URL's host are right
    #[arg(long = "web.allowed-hosts", value_name = "HOST,…", value_delimiter = ',')]
    pub allowed_hosts: Vec<String>,
    /// Connections that may be open; with more an idle one of the address that has the most is closed
    #[arg(long = "web.max-connections", value_name = "N", default_value = "512", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: u32,
    /// Header in which a trusted proxy says who asks, such as X-Forwarded-User; needs --web.auth.trusted-proxies
    #[arg(long = "web.auth.proxy-header", value_name = "NAME", requires = "trusted_proxies")]
    pub proxy_header: Option<HeaderName>,
    /// Header in which a trusted proxy says the groups of who asks, separated by commas
    #[arg(long = "web.auth.proxy-groups-header", value_name = "NAME", requires = "proxy_header")]
    pub proxy_groups_header: Option<HeaderName>,
    /// Where those proxies are, separated by commas: addresses, networks, or unix for all clients of the Unix socket; from
    /// elsewhere the headers are ignored
    #[arg(
        long = "web.auth.trusted-proxies",
        value_name = "CIDR|unix,…",
        value_delimiter = ',',
        requires = "proxy_header"
    )]
    pub trusted_proxies: Vec<Trusted>,
}

fn external_url(text: &str) -> Result<Uri, String> {
    let url: Option<Uri> = text.parse().ok();
    let is_right = |url: &Uri| {
        ["http", "https"].contains(&url.scheme_str().unwrap_or_default())
            && url.host().is_some_and(|host| !host.is_empty())
            && is_plain_path(url.path())
            && url.query().is_none()
    };
    let expected = "expected http:// or https://, a host, and a path of letters, digits and - . _ ~ if any";
    url.filter(is_right).ok_or_else(|| expected.to_owned())
}

/// Is it made of characters that RFC 3986 calls unreserved? They are written in one way only, so that a path can be compared.
fn is_plain_path(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/".contains(c);
    path.chars().all(plain) && !path.contains("//") && !path.split('/').any(|part| [".", ".."].contains(&part))
}

/// What `why` looks at.
#[derive(Args, Debug)]
pub struct WhyArgs {
    /// The exporter
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub target: String,
    /// For how long, 5s to 1h
    #[arg(long = "for", default_value = "60s", value_name = "DURATION", value_parser = why_duration)]
    pub duration: Duration,
    /// Only this GPU: its index or UUID
    #[arg(long, value_name = "GPU")]
    pub gpu: Option<String>,
    /// Only GPUs that this owner holds
    #[arg(long, value_name = "OWNER", conflicts_with = "gpu")]
    pub owner: Option<String>,
    /// Form of the answer
    #[arg(long, default_value = "text")]
    pub format: WhyFormat,
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
    /// The intervals, one per line.
    Csv,
}

/// Form of the answer to `why`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhyFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// A positive duration such as `15s`, `500ms` or `1m30s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str = "a positive duration such as 15s, 500ms or 1m30s";
    let parsed: jiff::SignedDuration = text.parse().map_err(|_| EXPECTED.to_owned())?;
    Duration::try_from(parsed).ok().filter(|d| !d.is_zero()).ok_or_else(|| EXPECTED.to_owned())
}

/// `HOST:PORT`, and nothing else that a URL may have there.
pub(super) fn host_port(text: &str) -> Result<String, String> {
    if is_host_port(text) { Ok(text.to_owned()) } else { Err("HOST:PORT such as node1:9400".into()) }
}

fn why_duration(text: &str) -> Result<Duration, String> {
    let duration = duration(text).map_err(|expected| format!("expected {expected}"))?;
    let allowed = Duration::from_secs(5)..=Duration::from_secs(3600);
    if allowed.contains(&duration) { Ok(duration) } else { Err("expected 5s to 1h".into()) }
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
    fn durations() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["", "15", "0s", "-3s", "soon"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
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
