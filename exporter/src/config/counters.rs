//! Which DCGM fields are served: the counters file, over time.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::dcgm_exporter;
use crate::collect::gpu::labels;
use crate::parse::counters::{Metrics, Yaml, csv, yaml};
use crate::source::cgroupfs;
use goodput_catalog::dcgm::{ABSENT, Absent, Row, by_name};
use goodput_exposition::{Counter, CounterType, Counters};

/// Files that only dcgm-exporter's container image has. Its chart and the GPU Operator name them, so they are asked
/// for where they cannot be.
const IN_ITS_IMAGE: [&str; 3] = [
    "/etc/dcgm-exporter/default-counters.csv",
    "/etc/dcgm-exporter/dcp-metrics-included.csv",
    "/etc/dcgm-exporter/1.x-compatibility-metrics.csv",
];

const ELSEWHERE: &str = "a file of dcgm-exporter's image, and not here: the default fields are served";

/// What is asked for and cannot be had as asked, one sentence each.
fn remarks(counters: &Counters) -> impl Iterator<Item = String> {
    counters.rows().iter().filter_map(|counter| {
        let Counter { line, field, kind, .. } = counter;
        let known = match kind {
            CounterType::Label => is_text(field) || labels::is_known(field),
            _ => is_served(field),
        };
        let remark = match kind {
            _ if !known => unavailable(field, *kind),
            CounterType::Histogram | CounterType::Summary => "one value is none; served as its own type".to_owned(),
            CounterType::Gauge | CounterType::Counter | CounterType::Label => return None,
        };
        Some(format!("line {line}: {field}: {remark}"))
    })
}

/// Is this a metric of the catalog that dcgm-exporter named?
fn is_served(field: &str) -> bool {
    by_name(field).is_some_and(|row| !row.is_label())
}

/// Is this a text of the catalog, which becomes a label?
fn is_text(field: &str) -> bool {
    by_name(field).is_some_and(Row::is_label)
}

fn unavailable(field: &str, kind: CounterType) -> String {
    let why = match kind {
        _ if field.starts_with("dcgm_") => "This is a name of dcgm-exporter 1.x; use the field's DCGM_FI name.",
        _ if let Some(absent) = absent(field) => absent.why,
        CounterType::Label => "It is not known as a label.",
        _ => "It is not a field that NVML gives this exporter.",
    };
    format!("not served. {why} --dcgm.relay-url can add families of a dcgm-exporter")
}

/// The fields of DCGM that are not served, this one among them.
fn absent(field: &str) -> Option<&'static Absent> {
    ABSENT.iter().find(|absent| absent.names.split(", ").any(|names| cgroupfs::matches(names, field)))
}

/// A counters file in use: read again when asked to, and kept as it was when it became wrong.
#[derive(Debug)]
pub struct CountersFile {
    path: PathBuf,
    counters: Mutex<Arc<Counters>>,
}

impl CountersFile {
    /// Reads the file, a CSV list or dcgm-exporter's YAML configuration, and gives remarks about it. `None` when its
    /// fields are in a file that only dcgm-exporter's image has, and that is not there.
    ///
    /// # Errors
    /// What is wrong with it, naming file and line.
    pub(super) fn load(path: &Path) -> Result<(Option<Self>, Vec<String>), String> {
        let (counters, remarks) = read(path)?;
        let file = counters.map(|c| Self { path: path.to_owned(), counters: Mutex::new(Arc::new(c)) });
        Ok((file, remarks))
    }

    /// The fields in force.
    #[must_use]
    pub fn current(&self) -> Arc<Counters> {
        self.counters.lock().clone()
    }

    /// Reads the file again; one that became wrong, or is gone, leaves the last good one in force.
    pub fn reload(&self) {
        match read(&self.path) {
            Ok((Some(counters), remarks)) => {
                remarks.iter().for_each(|remark| tracing::warn!("{remark}"));
                tracing::info!("read the counters file {} again", self.path.display());
                *self.counters.lock() = Arc::new(counters);
            }
            Ok((None, _)) => tracing::error!("kept the counters as they were: their file is gone"),
            Err(error) => tracing::error!("kept the counters as they were: {error}"),
        }
    }
}

/// Reads a file and, from YAML, the CSV file that it names.
fn read(path: &Path) -> Result<(Option<Counters>, Vec<String>), String> {
    let Some(text) = text(path)? else { return Ok((None, vec![named(path, &ELSEWHERE)])) };
    if !is_yaml(path, &text) {
        return list(path, &text);
    }
    let Yaml { metrics, ignored } = yaml(&text).map_err(|error| named(path, &error))?;
    let (counters, remarks) = match metrics {
        Metrics::Fields(rows) => select(path, rows)?,
        Metrics::File(file) => {
            let file = path.parent().unwrap_or(Path::new("")).join(file);
            match self::text(&file)? {
                Some(text) => list(&file, &text)?,
                None => (None, vec![named(&file, &ELSEWHERE)]),
            }
        }
    };
    let ignored =
        ignored.iter().map(|key| named(path, &format_args!("{key} has no effect: {}", dcgm_exporter::CADENCE)));
    Ok((counters, ignored.chain(remarks).collect()))
}

/// A file's text; `None` for one that only dcgm-exporter's image has.
fn text(path: &Path) -> Result<Option<String>, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error)
            if error.kind() == ErrorKind::NotFound && IN_ITS_IMAGE.iter().any(|known| path == Path::new(known)) =>
        {
            Ok(None)
        }
        Err(error) => Err(named(path, &error)),
    }
}

fn list(path: &Path, text: &str) -> Result<(Option<Counters>, Vec<String>), String> {
    select(path, csv(text).map_err(|error| named(path, &error))?)
}

fn select(path: &Path, rows: Vec<Counter>) -> Result<(Option<Counters>, Vec<String>), String> {
    if rows.is_empty() {
        return Err(named(path, &"expected at least one line of field, type, help"));
    }
    let counters = Counters::from(rows);
    let remarks = remarks(&counters).map(|remark| named(path, &remark)).collect();
    Ok((Some(counters), remarks))
}

fn named(path: &Path, what: &dyn fmt::Display) -> String {
    format!("{}: {what}", path.display())
}

/// By the file's name, else by its first line that says something.
fn is_yaml(path: &Path, text: &str) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("yml" | "yaml") => true,
        Some("csv") => false,
        _ => {
            let said = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
            said.is_some_and(|line| line == "---" || line.split_once(':').is_some_and(|(key, _)| !key.contains(',')))
        }
    }
}
