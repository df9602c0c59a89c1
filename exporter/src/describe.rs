//! `catalog`: every metric, for readers and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

mod parity;

use crate::collect::Entry;
use goodput_catalog::dcgm::{self, ABSENT, Absent};
use goodput_catalog::{Metric, all};
pub use parity::parity;

/// One metric as `catalog --format json` prints it.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    unit: Option<&'static str>,
    labels: &'static [&'static str],
    optional_labels: &'static [&'static str],
    help: &'static str,
    source: &'static str,
    collector: &'static str,
    series: &'static str,
    since: &'static str,
    #[serde(rename = "for", skip_serializing_if = "str::is_empty")]
    purpose: &'static str,
}

impl From<&'static Metric> for Row {
    fn from(metric: &'static Metric) -> Self {
        Self {
            name: metric.name,
            kind: metric.kind.name(),
            unit: metric.unit.name(),
            labels: metric.labels,
            optional_labels: metric.optional,
            help: metric.help,
            source: metric.source,
            collector: metric.collector,
            series: metric.series,
            since: metric.since,
            purpose: metric.purpose,
        }
    }
}

/// Fields of DCGM that are not served, as `catalog --format json` prints them.
#[derive(Serialize)]
struct NotAvailable {
    names: &'static str,
    ids: String,
    why: &'static str,
}

impl From<&'static Absent> for NotAvailable {
    fn from(absent: &'static Absent) -> Self {
        Self { names: absent.names, ids: ids(absent), why: absent.why }
    }
}

/// `catalog --format json`.
#[derive(Serialize)]
struct Catalog {
    metrics: Vec<Row>,
    not_available: Vec<NotAvailable>,
}

/// All rows as JSON: an object with the metrics, and with what of DCGM is not available.
///
/// # Errors
/// None that a row can cause.
pub fn json() -> serde_json::Result<String> {
    let catalog = Catalog {
        metrics: all().map(Row::from).collect(),
        not_available: ABSENT.iter().map(NotAvailable::from).collect(),
    };
    serde_json::to_string_pretty(&catalog).map(|text| text + "\n")
}

/// All rows as Markdown, one table per collector.
#[must_use]
pub fn markdown(registry: &[Entry]) -> String {
    let mut tables: BTreeMap<&str, Vec<&Metric>> = BTreeMap::new();
    for metric in all() {
        tables.entry(metric.collector).or_default().push(metric);
    }
    let mut out = String::from(
        "# Metrics\n\n\
         Made by `goodput-exporter catalog`. Labels in parentheses are there only when they are known.\n\
         All series named DCGM_ have the labels gpu, UUID, pci_bus_id, device, modelName and the host's, and those that\n\
         [dcgm-parity.md](dcgm-parity.md) lists as labels; which of them are on is said there too.\n\
         [readers.md](readers.md) says what reads each of our own.\n",
    );
    for (collector, metrics) in tables {
        let _ = write!(out, "\n## {collector}\n\n{}\n\n", about(collector, registry));
        out.push_str("| Name | Type | Unit | Labels | Series | What it says | Read from | Since |\n");
        out.push_str("|---|---|---|---|---|---|---|---|\n");
        for metric in metrics {
            let cells = [
                format!("`{}`", metric.name),
                metric.kind.name().to_owned(),
                metric.unit.name().unwrap_or_default().to_owned(),
                labels(metric),
                metric.series.to_owned(),
                says(metric),
                metric.source.to_owned(),
                metric.since.to_owned(),
            ];
            let _ = writeln!(out, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
    }
    out.push_str("\n## Not available\n\nFields of DCGM that are not served.\n\n");
    write_absent(&mut out);
    out
}

/// What of DCGM is not served, as a table.
fn write_absent(out: &mut String) {
    out.push_str("| Field | DCGM id | Why not |\n|---|---|---|\n");
    for absent in ABSENT {
        let _ = writeln!(out, "| `{}` | {} | {} |", absent.names.replace(", ", "`, `"), ids(absent), absent.why);
    }
}

fn ids(absent: &Absent) -> String {
    let range = |range: &std::ops::RangeInclusive<u16>| match (range.start(), range.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    absent.ids.iter().map(range).collect::<Vec<_>>().join(", ")
}

fn about(collector: &str, registry: &[Entry]) -> String {
    match registry.iter().find(|entry| entry.name == collector) {
        Some(entry) if entry.default => format!("{} On by default; `--no-collector.{collector}`.", entry.about),
        Some(entry) => format!("{} Off by default; `--collector.{collector}`.", entry.about),
        None => "Always on.".to_owned(),
    }
}

/// Its help, and what people look at it for.
fn says(metric: &Metric) -> String {
    match metric.purpose {
        "" => metric.help.to_owned(),
        purpose => format!("{} For people: {purpose}.", metric.help),
    }
}

/// The labels that all of DCGM's series have are said once, above the tables.
fn labels(metric: &Metric) -> String {
    if metric.is_dcgm() {
        return metric.labels.iter().copied().skip(dcgm::LABELS).collect::<Vec<_>>().join(", ");
    }
    let optional = metric.optional.iter().map(|label| format!("({label})"));
    metric.labels.iter().map(|label| (*label).to_owned()).chain(optional).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::REGISTRY;

    /// `UPDATE_GOLDEN=1 cargo test -p goodput-exporter describe` rewrites the file.
    #[test]
    fn docs_metrics_md_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/METRICS.md");
        let now = markdown(REGISTRY);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, &now).unwrap();
        }
        let then = std::fs::read_to_string(path).unwrap_or_default();
        assert!(then == now, "{path} differs from the catalog; run this test with UPDATE_GOLDEN=1");
    }

    #[test]
    fn json_has_every_row() {
        let catalog: serde_json::Value = serde_json::from_str(&json().unwrap()).unwrap();
        let rows = catalog["metrics"].as_array().unwrap();
        assert_eq!(rows.len(), all().count());
        assert_eq!(catalog["not_available"].as_array().unwrap().len(), ABSENT.len());
        let row = rows.iter().find(|row| row["name"] == "goodput_exporter_collector_duration_seconds").unwrap();
        assert_eq!((&row["type"], &row["unit"]), (&"gauge".into(), &"seconds".into()));
        assert_eq!(row["labels"], serde_json::json!(["collector"]));
    }

    #[test]
    fn table_rows_have_as_many_cells_as_the_head() {
        let text = markdown(REGISTRY);
        let metrics = text.split("## Not available").next().unwrap();
        for line in metrics.lines().filter(|line| line.starts_with('|')) {
            assert_eq!(line.replace("\\|", "").matches('|').count(), 9, "{line}");
        }
    }
}
