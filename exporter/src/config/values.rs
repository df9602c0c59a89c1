//! The values of settings: what they may be, and how they are read.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use goodput_catalog::dcgm::Names;

/// `--dcgm.names`, whose values the catalog declares.
pub(super) fn names() -> impl TypedValueParser<Value = Names> {
    let values = Names::ALL.map(|(_, name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).map(|name| {
        let found = Names::ALL.into_iter().find(|(_, known, _)| *known == name);
        found.map(|(names, ..)| names).unwrap_or_default()
    })
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

goodput_catalog::named! {
    /// `--dcgm.hostname-label`: the label's name, as in dcgm-exporter's two generations.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum HostnameLabel {
        /// `Hostname`
        Capital = "Hostname",
        /// `hostname`
        Lower = "hostname",
    }
}

impl ValueEnum for HostnameLabel {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Capital, Self::Lower]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

/// `--kubernetes.pod-resources-socket`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodResourcesSocket {
    /// Where the kubelet has it, if it is there.
    Auto,
    /// The kubelet is not asked.
    Off,
    /// This one.
    Path(PathBuf),
}

impl FromStr for PodResourcesSocket {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            path if path.starts_with('/') => Ok(Self::Path(path.into())),
            _ => Err("expected auto, off or an absolute path".to_owned()),
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

pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Ok(true),
        "false" | "f" | "0" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

pub(super) fn count(text: &str) -> Result<u16, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("expected a whole number from 1 to {}", u16::MAX))
}

pub(super) fn milliseconds(text: &str) -> Result<Duration, String> {
    let count = text.parse().ok().filter(|count| *count > 0).map(Duration::from_millis);
    count.ok_or_else(|| "expected a whole number of milliseconds above 0".to_owned())
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let duration = goodput_web::duration(text).filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| "expected a duration above 0 such as 500ms, 10s or 1m30s".to_owned())
}

/// Where something is mounted. A mount that is missing would look like a machine that has nothing of anything.
pub(super) fn directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => match std::fs::read_dir(&path).map(|mut entries| entries.next().is_none())
        {
            Ok(true) => Err("expected a directory with something in it, this one is empty: is it mounted?".to_owned()),
            // One that may not be listed may hold what may be read.
            Ok(false) | Err(_) => Ok(path),
        },
        Ok(_) => Err("expected a directory, this is a file".to_owned()),
        Err(error) => Err(format!("expected a directory: {error}")),
    }
}

pub(super) fn cgroup_pattern(text: &str) -> Result<String, String> {
    pattern(text, "/system.slice/kubelet.service")
}

pub(super) fn folder_pattern(text: &str) -> Result<String, String> {
    pattern(text, "/run/nccl/*")
}

/// An absolute path that leads down alone.
fn pattern(text: &str, example: &str) -> Result<String, String> {
    let below =
        text.strip_prefix('/').is_some_and(|rest| rest.split('/').all(|folder| !["", ".", ".."].contains(&folder)));
    below.then(|| text.to_owned()).ok_or_else(|| format!("expected a path such as {example}"))
}

pub(super) fn telemetry_path(text: &str) -> Result<String, String> {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/-_.".contains(c));
    let taken = text == "/" || text == "/health" || text.starts_with("/-/");
    match text.starts_with('/') && plain && !taken {
        true => Ok(text.to_owned()),
        false => {
            Err("expected a path such as /metrics, of letters, digits and /-_., other than the health paths".into())
        }
    }
}
