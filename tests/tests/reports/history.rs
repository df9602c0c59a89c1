//! Hours of the past week, sent as a Prometheus sends them.

use std::fs;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use goodput_analyzer::report::Period;
use goodput_lab::process::until;
use goodput_lab::remote_write::{self, TimeSeries};
use goodput_tests::programs::Analyzer;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const HOUR: i64 = 3_600_000;
const SCRAPE: i64 = 15_000;

/// The last week that is over, in a zone in which it has been over for hours, so that it is final.
pub(crate) fn last_week() -> Result<Period> {
    let now = Timestamp::now();
    let week = |name| Ok::<_, anyhow::Error>(Period::last_week(now, &TimeZone::get(name)?));
    let utc = week("UTC")?;
    if now.as_millisecond() - utc.end_ms > 4 * HOUR { Ok(utc) } else { week("Etc/GMT+12") }
}

/// A series: its labels, and its value by milliseconds since the start of the history.
pub(crate) struct Line<'a> {
    pub(crate) labels: &'a [(&'a str, &'a str)],
    pub(crate) value: &'a dyn Fn(i64) -> f64,
}

/// Has an analyzer take these series in, scraped every 15 s in that time, and stops it before it judges them.
pub(crate) fn store(dir: &Path, config: &str, time: Range<i64>, lines: &[Line]) -> Result<()> {
    let analyzer = Analyzer::start_with(dir, config)?;
    // Its first round has to be over, or it would judge some of the hours and take the others for judged.
    until("the first round of judging", PATIENCE, || {
        Ok(analyzer.metric("goodput_analyzer_judge_duration_seconds")?.filter(|took| *took > 0.0))
    })?;
    send(analyzer.address, time, lines)?;
    ensure!(analyzer.running.terminate()?.success(), "the analyzer did not stop as it should");
    Ok(())
}

/// The configuration that has reports delivered into the directory at once.
pub(crate) fn delivering(dir: &Path, week: &Period) -> String {
    format!(
        "zone: {}\nreport:\n  schedule: {{weekday: monday, time: '00:00'}}\n  directory: {}\n  settle: 1s\n",
        week.zone,
        dir.join("reports").display()
    )
}

/// The report of the week as it is delivered: the page and the model.
pub(crate) fn delivered(dir: &Path, config: &str, week: &Period) -> Result<(String, Value)> {
    let analyzer = Analyzer::start_with(dir, config)?;
    let file = dir.join("reports").join(&week.label);
    let page = until("the report", PATIENCE, || Ok(fs::read_to_string(file.with_extension("html")).ok()))
        .with_context(|| analyzer.running.log_text())?;
    Ok((page, serde_json::from_str(&fs::read_to_string(file.with_extension("json"))?)?))
}

fn send(address: SocketAddr, time: Range<i64>, lines: &[Line]) -> Result<()> {
    let times = time.clone().step_by(SCRAPE as usize);
    let series =
        |line: &Line| TimeSeries::new(line.labels, times.clone().map(|at| (at, (line.value)(at - time.start))));
    let status = remote_write::send(address, lines.iter().map(series).collect())?;
    ensure!(status == 204, "remote write was answered {status}");
    Ok(())
}
