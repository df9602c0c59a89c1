//! Every way in holds a series to the same limits and the same data model.

use std::fs;
use std::path::Path;

use goodput_exposition::Format;
use indicatif::ProgressBar;
use polars::prelude::{Column, DataFrame};
use prost::Message as _;

use super::file::{self, Source};
use super::remote_write::{Message, decode};
use super::scrape::{Seen, Target, succeeded};
use super::{Limits, Rules, Skipped};
use goodput_exposition::sample::{Batch, Labels, Sample, Series};

#[derive(Clone, PartialEq, prost::Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Point>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Point {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// Metric and labels.
type Case = (String, Vec<(&'static str, String)>);

/// `stored`, `unknown`, or why it was skipped.
fn outcome(batch: &Batch, skipped: &Skipped) -> &'static str {
    let reason = skipped.series().next().map(|(reason, _)| reason.name());
    let stored = batch.series().find(|series| series.labels.metric() != "up");
    reason.unwrap_or(match stored {
        Some(series) if series.labels.metric().is_empty() => "unknown",
        Some(_) => "stored",
        None => "nothing",
    })
}

fn by_remote_write((metric, labels): &Case, rules: &Rules<'_>) -> &'static str {
    let own = |(name, value): &(&str, String)| Label { name: (*name).to_owned(), value: value.clone() };
    let name = Label { name: "__name__".to_owned(), value: metric.clone() };
    let series = TimeSeries {
        labels: std::iter::once(name).chain(labels.iter().map(own)).collect(),
        samples: vec![Point { value: 1.0, timestamp: 1000 }],
    };
    let message = WriteRequest { timeseries: vec![series] }.encode_to_vec();
    let body = snap::raw::Encoder::new().compress_vec(&message).unwrap();
    let decoded = decode(&body, Message::V1, rules).unwrap();
    outcome(&decoded.batch, &decoded.skipped)
}

fn line((metric, labels): &Case, time: &str) -> String {
    let labels: Vec<_> = labels.iter().map(|(name, value)| format!("\"{name}\"=\"{value}\"")).collect();
    format!("{metric}{{{}}} 1{time}\n", labels.join(","))
}

fn by_scrape(case: &Case, rules: &Rules<'_>) -> &'static str {
    let target = Target { labels: Vec::new(), ..Target::new("gpu", "n1:9400") };
    let body = line(case, "");
    let (batch, skipped) = succeeded(&body, Format::Text, rules, &target, 1, &mut Seen::default()).unwrap();
    outcome(&batch, &skipped)
}

/// What a file brings, and its first complaint.
fn by_file(path: &Path, rules: &Rules<'_>) -> (Vec<String>, Vec<String>) {
    let (batches, mut arriving) = tokio::sync::mpsc::channel(10);
    let bad = file::read(Source::open(path).unwrap(), rules, &ProgressBar::hidden(), &batches).unwrap();
    drop(batches);
    let mut metrics = Vec::new();
    while let Some(batch) = arriving.blocking_recv() {
        metrics.extend(batch.series().map(|series| series.labels.metric().to_owned()));
    }
    (metrics, bad.first)
}

fn by_backfill((metric, labels): &Case, rules: &Rules<'_>) -> (&'static str, String) {
    let pairs = labels.iter().map(|(name, value)| (*name, value.as_str()));
    let labels = Labels::new(pairs.chain([("__name__", metric.as_str())]));
    let series = Series { labels, samples: vec![Sample { time_ms: 1000, value: 1.0 }] };
    let (batch, skipped) = rules.admitted([series].into_iter().collect());
    let detail = skipped.named().next().map(|(_, named)| named.fault.detail.clone()).unwrap_or_default();
    (outcome(&batch, &skipped), detail)
}

fn text_file(dir: &Path, case: &Case) -> std::path::PathBuf {
    let path = dir.join("a.txt");
    fs::write(&path, line(case, " 1") + "# EOF\n").unwrap();
    path
}

fn parquet_file(dir: &Path, (metric, labels): &Case) -> std::path::PathBuf {
    let path = dir.join("a.parquet");
    let json: serde_json::Map<_, _> =
        labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone().into())).collect();
    let columns = vec![
        Column::new("metric".into(), vec![metric.as_str()]),
        Column::new("labels".into(), vec![serde_json::Value::Object(json).to_string()]),
        Column::new("timestamp".into(), vec![1000_i64]),
        Column::new("value".into(), vec![1.0]),
    ];
    let frame = DataFrame::new(1, columns).unwrap();
    goodput_store::parquet::Table::create(&path, &frame).unwrap().finish().unwrap();
    path
}

#[test]
fn every_way_in_holds_a_series_to_the_same_limits() {
    let limits = Limits { labels: 4, label_bytes: 32, ..Limits::default() };
    let rules = Rules { limits: &limits, keeps: &|metric| !metric.starts_with("foreign") };
    let some = |count: usize| ["a", "b", "c", "d"][..count].iter().map(|name| (*name, "1".to_owned())).collect();
    let one = |name: &'static str, bytes: usize| vec![(name, "x".repeat(bytes))];
    let named = |bytes: usize| "n".repeat(bytes);
    let cases: [(Case, &str); 9] = [
        (("kept".to_owned(), some(3)), "stored"),
        (("kept".to_owned(), some(4)), "label_count"),
        (("kept".to_owned(), one("a", 31)), "stored"),
        (("kept".to_owned(), one("a", 32)), "label_bytes"),
        ((named(24), some(1)), "stored"),
        ((named(25), some(1)), "label_bytes"),
        (("kept".to_owned(), one("", 1)), "empty_label"),
        (("foreign".to_owned(), one("a", 32)), "unknown"),
        (("foreign".to_owned(), some(4)), "unknown"),
    ];
    for (case, expected) in &cases {
        assert_eq!(by_remote_write(case, &rules), *expected, "remote write: {case:?}");
        assert_eq!(by_scrape(case, &rules), *expected, "scrape: {case:?}");
        let (backfilled, detail) = by_backfill(case, &rules);
        assert_eq!(backfilled, *expected, "backfill: {case:?}");
        let dir = tempfile::tempdir().unwrap();
        for path in [text_file(dir.path(), case), parquet_file(dir.path(), case)] {
            let (metrics, complaints) = by_file(&path, &rules);
            match *expected {
                "stored" => assert_eq!((metrics, complaints.len()), (vec![case.0.clone()], 0), "{path:?}: {case:?}"),
                "unknown" => assert_eq!((metrics, complaints.len()), (vec![String::new()], 0), "{path:?}: {case:?}"),
                _ => {
                    assert!(metrics.is_empty() && complaints.len() == 1, "{path:?}: {case:?}: {metrics:?}");
                    assert!(complaints[0].ends_with(&detail), "{complaints:?}, expected {detail}");
                }
            }
        }
    }
}
