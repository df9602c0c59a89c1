//! The one table of settings: a field here is a flag, a key of the file and an environment variable.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::audit::Profile;
use crate::audit::checks::CHECKS;
use crate::catalog::dcgm::Names;
use crate::collect::Entry;

const PRECEDENCE: &str = "\
Every flag is also a key of --config.file (YAML, for example `web.max-requests: 20`) and an environment variable
(GOODPUT_EXPORTER_WEB_MAX_REQUESTS=20). Flags win over the environment, the environment over the file.
dcgm-exporter's DCGM_EXPORTER_LISTEN, DCGM_EXPORTER_WEB_CONFIG_FILE, DCGM_EXPORTER_NO_HOSTNAME,
DCGM_EXPORTER_LOG_FORMAT and NODE_NAME are understood as well.";

/// All settings, typed. Every field with `#[arg(long …)]` is a flag, a key of the file and an environment variable.
#[derive(Clone, Parser)]
#[command(name = "goodput-exporter", version, about, after_help = PRECEDENCE)]
#[command(args_override_self = true, disable_help_subcommand = true)]
pub struct Config {
    /// What to do; `serve` when none is given.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Address to listen on, HOST:PORT or :PORT for every interface. Repeatable
    #[arg(long = "web.listen-address", short_alias = 'a', alias = "address", value_name = "ADDRESS")]
    #[arg(default_value = ":9400", help_heading = "Web", global = true)]
    pub listen: Vec<Address>,

    /// Path of the metrics
    #[arg(long = "web.telemetry-path", value_name = "PATH", default_value = "/metrics", value_parser = telemetry_path)]
    #[arg(help_heading = "Web", global = true)]
    pub telemetry_path: String,

    /// TLS, client certificates and basic auth: a Prometheus web configuration file
    #[arg(long = "web.config.file", alias = "web-config-file", value_name = "FILE")]
    #[arg(help_heading = "Web", global = true)]
    pub web_config: Option<PathBuf>,

    /// Requests for metrics served at the same time; more are answered 503
    #[arg(long = "web.max-requests", value_name = "N", default_value = "40")]
    #[arg(value_parser = count, help_heading = "Web", global = true)]
    pub max_requests: u16,

    /// Where the host's procfs is mounted
    #[arg(long = "path.procfs", value_name = "DIR", default_value = "/proc", value_parser = directory)]
    #[arg(help_heading = "Paths", global = true)]
    pub procfs: PathBuf,

    /// Where the host's sysfs is mounted
    #[arg(long = "path.sysfs", value_name = "DIR", default_value = "/sys", value_parser = directory)]
    #[arg(help_heading = "Paths", global = true)]
    pub sysfs: PathBuf,

    /// Where the host's root file system is mounted
    #[arg(long = "path.rootfs", value_name = "DIR", default_value = "/", value_parser = directory)]
    #[arg(help_heading = "Paths", global = true)]
    pub rootfs: PathBuf,

    /// The cgroup v2 tree or the folder of v1 hierarchies [default: fs/cgroup below --path.sysfs]
    #[arg(long = "path.cgroup", value_name = "DIR", value_parser = directory, help_heading = "Paths", global = true)]
    pub cgroup: Option<PathBuf>,

    /// NVML library to load instead of the system's libnvidia-ml.so.1
    #[arg(long = "nvml.library", value_name = "FILE", help_heading = "GPU", global = true)]
    pub nvml_library: Option<PathBuf>,

    /// Spelling of the DCGM metric names
    #[arg(long = "dcgm.names", value_name = "SPELLING", default_value = "legacy")]
    #[arg(help_heading = "GPU", global = true)]
    pub dcgm_names: Names,

    /// Name of the host label on DCGM metrics
    #[arg(long = "dcgm.hostname-label", value_name = "NAME", default_value = "Hostname")]
    #[arg(help_heading = "GPU", global = true)]
    pub hostname_label: HostnameLabel,

    /// Value of the host label [default: the host's name]
    #[arg(long = "dcgm.hostname", value_name = "HOST", help_heading = "GPU", global = true)]
    pub hostname: Option<String>,

    /// Leave the host label out
    #[arg(long = "dcgm.no-hostname", short_alias = 'n', alias = "no-hostname", help_heading = "GPU", global = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    #[arg(value_parser = switch, hide_default_value = true, value_name = "BOOL")]
    pub no_hostname: bool,

    /// Start from no collector: only those asked for with --collector.NAME run
    #[arg(long = "collector.disable-defaults", help_heading = "Collectors", global = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    #[arg(value_parser = switch, hide_default_value = true, value_name = "BOOL")]
    pub disable_defaults: bool,

    /// Settings in YAML, one `flag-name: value` per line
    #[arg(long = "config.file", value_name = "FILE", global = true)]
    pub config_file: Option<PathBuf>,

    /// Least severe messages to log [default: info, and error for print, catalog and audit]
    #[arg(long = "log.level", value_name = "LEVEL", help_heading = "Log", global = true)]
    pub log_level: Option<LogLevel>,

    /// Form of the messages on standard error
    #[arg(long = "log.format", alias = "log-format", value_name = "FORMAT", default_value = "text")]
    #[arg(help_heading = "Log", global = true)]
    pub log_format: LogFormat,

    /// The collectors that run, from the `--collector.NAME` flags.
    #[arg(skip)]
    pub collectors: Vec<&'static Entry>,
}

/// A sub-command.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Serve metrics over HTTP (the default)
    Serve,
    /// Print one scrape to standard output
    Print {
        /// Text format
        #[arg(long, default_value = "text", value_name = "FORMAT")]
        format: TextFormat,
    },
    /// List every metric: name, type, unit, labels, source, collector, series
    Catalog {
        /// Form of the list
        #[arg(long, default_value = "markdown", value_name = "FORMAT")]
        format: CatalogFormat,
    },
    /// Check this node's tuning; changes nothing, exits with 1 when a check fails
    Audit {
        /// What the node is for
        #[arg(long, default_value = "mixed")]
        profile: Profile,
        /// Form of the answer
        #[arg(long, default_value = "table", value_name = "FORMAT")]
        format: AuditFormat,
        /// Only this check. Repeatable
        #[arg(long = "check", value_name = "ID", value_parser = check_ids(), hide_possible_values = true)]
        checks: Vec<String>,
    },
}

/// `print --format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TextFormat {
    /// Prometheus text format 0.0.4
    Text,
    /// OpenMetrics 1.0
    Openmetrics,
}

/// `catalog --format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CatalogFormat {
    /// Tables for people
    Markdown,
    /// One object per metric
    Json,
    /// Tables of DCGM's fields: both spellings, how each is read, or why it is not
    Dcgm,
}

/// `audit --format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuditFormat {
    /// Groups by status, for people
    Table,
    /// One object, for programs and for comparing nodes
    Json,
    /// For tickets
    Markdown,
}

/// `--dcgm.hostname-label`: the label's name, as in dcgm-exporter's two generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostnameLabel {
    /// `Hostname`
    Capital,
    /// `hostname`
    Lower,
}

impl ValueEnum for HostnameLabel {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Capital, Self::Lower]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

impl HostnameLabel {
    /// The label's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Capital => "Hostname",
            Self::Lower => "hostname",
        }
    }
}

/// `--log.level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "each variant is the level it names")]
pub enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}

/// `--log.format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line of text per message.
    Text,
    /// One JSON object per message.
    Json,
}

/// Where to listen: `HOST:PORT`, `[IPV6]:PORT` or `:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host name or IP address without brackets; empty for every interface.
    pub host: String,
    /// TCP port; 0 lets the kernel choose.
    pub port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = || "expected HOST:PORT, [IPV6]:PORT or :PORT".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
        let port = port.parse().map_err(|_| expected())?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        if bare.is_none() && host.contains([':', '[', ']', ' ', '/']) {
            return Err(expected());
        }
        Ok(Self { host: bare.unwrap_or(host).to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The command line with one `--collector.NAME` per collector.
pub(super) fn command(registry: &[Entry]) -> clap::Command {
    registry.iter().fold(Config::command(), |command, entry| {
        let default = if entry.default { "on" } else { "off" };
        let help = format!("{} [default: {default}; --no-collector.{} switches it off]", entry.about, entry.name);
        let flag = Arg::new(collector_flag(entry.name)).long(collector_flag(entry.name)).value_name("BOOL");
        command.arg(
            flag.num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_parser(switch)
                .help(help)
                .help_heading("Collectors")
                .global(true),
        )
    })
}

/// Spells `--no-collector.NAME` as `--collector.NAME=false`, so that one flag has one meaning wherever it stands.
pub(super) fn positive(arg: OsString) -> OsString {
    match arg.to_str().and_then(|a| a.strip_prefix("--no-collector.")) {
        Some(name) => format!("--collector.{name}=false").into(),
        None => arg,
    }
}

/// Matches to settings; the matches come from [`command`] for the same registry.
pub(super) fn config(matches: &ArgMatches, registry: &'static [Entry]) -> Result<Config, clap::Error> {
    let mut config = Config::from_arg_matches(matches)?;
    config.collectors = registry
        .iter()
        .filter(|entry| {
            let asked = matches.get_one::<bool>(&collector_flag(entry.name)).copied();
            asked.unwrap_or(entry.default && !config.disable_defaults)
        })
        .collect();
    Ok(config)
}

fn check_ids() -> PossibleValuesParser {
    CHECKS.iter().map(|check| check.id).into()
}

fn collector_flag(name: &str) -> String {
    format!("collector.{name}")
}

fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

fn count(text: &str) -> Result<u16, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("expected a whole number from 1 to {}", u16::MAX))
}

fn directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => Ok(path),
        Ok(_) => Err("expected a directory, this is a file".to_owned()),
        Err(error) => Err(format!("expected a directory: {error}")),
    }
}

fn telemetry_path(text: &str) -> Result<String, String> {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/-_.".contains(c));
    let taken = text == "/" || text == "/health" || text.starts_with("/-/");
    match text.starts_with('/') && plain && !taken {
        true => Ok(text.to_owned()),
        false => {
            Err("expected a path such as /metrics, of letters, digits and /-_., other than the health paths".into())
        }
    }
}
