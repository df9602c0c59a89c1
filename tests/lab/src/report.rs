//! What `goodput-analyzer report` and its like say of a span of time.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};

/// A line of the analyzer's report of intervals.
#[derive(Debug)]
pub struct Interval {
    /// UUID.
    pub gpu: String,
    /// Class.
    pub class: String,
    /// Start of the first cell.
    pub start: SystemTime,
    /// End of the last cell.
    pub end: SystemTime,
    /// GPU-seconds of the class within.
    pub gpu_seconds: f64,
}

/// The intervals of an analyzer's report over the full hours around the window, those inside the window alone.
pub fn intervals(analyzer: &Path, data: &Path, from: SystemTime, to: SystemTime) -> Result<Vec<Interval>> {
    let text = command(analyzer, &["report", "--format=csv-intervals"], data, from, to)?;
    let mut rows = text.lines().skip(1).map(interval).collect::<Result<Vec<_>>>()?;
    rows.retain(|i| i.start < to && i.end > from);
    Ok(rows)
}

/// The exit status of a report of a period without verdicts.
const NO_DATA: i32 = 3;

/// What a command about the full hours around the window says; nothing where there are no verdicts.
#[allow(clippy::disallowed_methods, reason = "starts the program under test")]
pub fn command(analyzer: &Path, words: &[&str], data: &Path, from: SystemTime, to: SystemTime) -> Result<String> {
    let output = Command::new(analyzer)
        .args(words)
        .arg(format!("--start={}", full_hour(from, 0)?))
        .arg(format!("--end={}", full_hour(to, 1)?))
        .arg(format!("--data.dir={}", data.display()))
        .output()?;
    if !output.status.success() && output.status.code() != Some(NO_DATA) {
        bail!("{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The full hour around a time, plus this many hours, as RFC 3339 in UTC.
pub fn full_hour(time: SystemTime, plus: i64) -> Result<jiff::Timestamp> {
    let hours = jiff::Timestamp::try_from(time)?.as_second() / 3600 + plus;
    Ok(jiff::Timestamp::from_second(hours * 3600)?)
}

/// Parses a line of the CSV; the fields before `evidence` hold no commas here.
fn interval(line: &str) -> Result<Interval> {
    let fields: Vec<_> = line.split(',').collect();
    let field = |n: usize| fields.get(n).copied().with_context(|| format!("too few fields: {line}"));
    let time = |n| Ok::<_, anyhow::Error>(SystemTime::UNIX_EPOCH + Duration::from_millis(field(n)?.parse()?));
    Ok(Interval {
        gpu: field(1)?.to_owned(),
        class: field(4)?.to_owned(),
        start: time(6)?,
        end: time(7)?,
        gpu_seconds: field(8)?.parse::<f64>()? / 1e3,
    })
}
