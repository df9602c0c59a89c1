//! Families to exposition text: the only place that writes the lines about a family.

use std::fmt::Write as _;

use crate::catalog::{Kind, Metric};
use crate::family::Families;

/// The two text formats that Prometheus reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text format 0.0.4.
    Text,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Value of the Content-Type header; Prometheus 3 refuses a body without one.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Writes all families that have samples.
#[must_use]
pub fn encode(families: &Families, format: Format) -> String {
    let bytes: usize = families.iter().map(|f| f.lines.len() + 256).sum();
    let mut out = String::with_capacity(bytes);
    for family in families.iter() {
        let (name, kind) = declared(family.metric, format);
        let _ = write!(out, "# HELP {name} ");
        escape_help(&mut out, family.metric.help, format);
        let _ = writeln!(out, "\n# TYPE {name} {kind}");
        out.push_str(&family.lines);
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

/// Family name and type as the format wants them declared.
///
/// OpenMetrics names a counter's family without `_total` and rejects a counter whose samples lack it, so DCGM's
/// counters, which never had it, are `unknown` there. Text 0.0.4 has no `info` type.
fn declared(metric: &Metric, format: Format) -> (&str, &'static str) {
    match (metric.kind, format) {
        (Kind::Counter, Format::Text) => (metric.name, "counter"),
        (Kind::Counter, Format::OpenMetrics) => match metric.name.strip_suffix("_total") {
            Some(stem) => (stem, "counter"),
            None => (metric.name, "unknown"),
        },
        (Kind::Info, Format::OpenMetrics) => (metric.name.strip_suffix("_info").unwrap_or(metric.name), "info"),
        (Kind::Gauge | Kind::Info, _) => (metric.name, "gauge"),
        (Kind::Histogram, _) => (metric.name, "histogram"),
    }
}

fn escape_help(out: &mut String, help: &str, format: Format) {
    for c in help.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if format == Format::OpenMetrics => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}
