//! The files of a trace (`docs/internals/evaluate.md`), however it was made.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use goodput_exposition::sample::{Series, TimeMs, is_stale};
use jiff::Timestamp;

/// A line of the truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// `host/gpuN`.
    pub entity: String,
    /// From when, in milliseconds since 1970.
    pub start_ms: TimeMs,
    /// Until when, exclusive.
    pub end_ms: TimeMs,
    /// What was the matter: a leaf class, or `oom`.
    pub class: &'static str,
    /// Who caused it.
    pub charged_to: Option<String>,
    /// Classes that are as good an answer.
    pub also: Vec<&'static str>,
}

/// Writes the three files into the folder, which is made if need be. The rows stay in their order.
///
/// # Errors
/// When one of them cannot be written.
pub fn write(dir: &Path, series: Vec<Series>, rows: &[Row], about: &str) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (name, text) in [("metrics.om", &*open_metrics(series)), ("truth.csv", &*truth(rows)), ("about.md", about)] {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// OpenMetrics text; staleness markers become NaN.
fn open_metrics(mut series: Vec<Series>) -> String {
    series.sort_by(|a, b| (a.labels.metric(), &a.labels).cmp(&(b.labels.metric(), &b.labels)));
    let mut text = String::new();
    for Series { labels, samples } in &series {
        let pairs = labels.iter().filter(|(name, _)| *name != "__name__");
        let pairs: Vec<String> = pairs.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let head = format!("{}{{{}}}", labels.metric(), pairs.join(","));
        for sample in samples {
            let value = if is_stale(sample.value) { f64::NAN } else { sample.value };
            let _ = writeln!(text, "{head} {value} {}.{:03}", sample.time_ms / 1000, sample.time_ms % 1000);
        }
    }
    text.push_str("# EOF\n");
    text
}

/// A label's value as it stands between quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

fn truth(rows: &[Row]) -> String {
    let mut text = "entity,start,end,class,charged_to,also,note\n".to_owned();
    for Row { entity, start_ms, end_ms, class, charged_to, also } in rows {
        let time = |ms| Timestamp::from_millisecond(ms).unwrap_or_default();
        let charged_to = charged_to.as_deref().unwrap_or_default();
        let (start, end, also) = (time(*start_ms), time(*end_ms), also.join(";"));
        let _ = writeln!(text, "{entity},{start},{end},{class},{charged_to},{also},");
    }
    text
}
