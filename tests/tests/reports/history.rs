//! Hours of the past week, sent as a Prometheus sends them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use goodput_analyzer::report::Period;
use goodput_tests::process::until;
use goodput_tests::programs::Analyzer;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use prost::Message;

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

fn send(address: SocketAddr, time: Range<i64>, lines: &[Line]) -> Result<()> {
    let times: Vec<i64> = time.clone().step_by(SCRAPE as usize).collect();
    let series = |line: &Line| {
        let label = |(name, value): &(&str, &str)| Label { name: (*name).into(), value: (*value).into() };
        let mut labels: Vec<Label> = line.labels.iter().map(label).collect();
        labels.sort_by(|a, b| a.name.cmp(&b.name));
        let sample = |at: &i64| Sample { value: (line.value)(at - time.start), timestamp: *at };
        TimeSeries { labels, samples: times.iter().map(sample).collect() }
    };
    let request = WriteRequest { timeseries: lines.iter().map(series).collect() };
    let body = snap::raw::Encoder::new().compress_vec(&request.encode_to_vec())?;
    let mut stream = TcpStream::connect(address)?;
    let head = format!(
        "POST /api/v1/write HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\
         Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), &body].concat())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.lines().next().context("no answer")?;
    ensure!(status.contains(" 204 "), "{answer}");
    Ok(())
}

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}
