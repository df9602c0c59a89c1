//! Answers of real engines, compared with what their query APIs said of the same time.
//!
//! Prometheus 2.42 and VictoriaMetrics of Debian 12 scraped one target each second. `.chunks`, `.samples` and `.export` are
//! the bodies as they came; `.expected` is the answer of `/api/v1/query` to a range selector: a line of JSON for the labels
//! of a series, then its times in milliseconds and its values.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests fail by panicking")]

use std::collections::BTreeMap;
use std::ops::Range;

use goodput_engine::remote_read::chunked::Gathered;
use goodput_engine::remote_read::frames::Frames;
use goodput_engine::remote_read::{Answer, samples};
use goodput_engine::victoria::{Lines, parse_line};
use goodput_engine::{DEFAULT_LIMIT, DecodeError};
use goodput_exposition::sample::{Labels, Series, TimeMs, is_stale};

/// What Prometheus was asked for.
const RANGE: Range<TimeMs> = 1_795_810_795_000..1_795_810_995_000;

/// Series by their labels, values by time as text.
type Found = BTreeMap<Labels, Vec<(TimeMs, String)>>;

fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn expected(name: &str) -> Found {
    let text = String::from_utf8(file(name)).unwrap();
    let mut found = Found::new();
    let mut labels = None;
    for line in text.lines() {
        if let Some(json) = line.strip_prefix("# ") {
            labels = Some(Labels::new(serde_json::from_str::<BTreeMap<String, String>>(json).unwrap()));
            continue;
        }
        let (time, value) = line.split_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        let samples = found.entry(labels.clone().unwrap()).or_default();
        samples.push((time.parse().unwrap(), format!("{value:?}")));
    }
    found
}

fn found(series: &[Series], leave_out: fn(f64) -> bool) -> Found {
    let samples = |series: &Series| {
        let kept = series.samples.iter().filter(|sample| !leave_out(sample.value));
        kept.map(|sample| (sample.time_ms, format!("{:?}", sample.value))).collect()
    };
    series.iter().map(|series| (series.labels.clone(), samples(series))).collect()
}

fn chunks(body: &[u8], piece: usize) -> Result<Gathered, DecodeError> {
    let (mut frames, mut gathered) = (Frames::default(), Gathered::default());
    for piece in body.chunks(piece) {
        frames.push(piece);
        while let Some(frame) = frames.next_frame()? {
            gathered.add(frame)?;
        }
    }
    frames.finish()?;
    Ok(gathered)
}

fn markers(series: &[Series], metric: &str) -> usize {
    let series = series.iter().filter(|series| series.labels.metric() == metric);
    series.flat_map(|series| &series.samples).filter(|sample| is_stale(sample.value)).count()
}

fn same(found: &Found, expected: &Found) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (labels, samples) in found {
        let differs = samples.iter().zip(&expected[labels]).find(|(found, expected)| found != expected);
        assert_eq!((differs, samples.len()), (None, expected[labels].len()), "{labels:?}");
    }
}

/// Prometheus' query leaves staleness markers out.
fn is_what_prometheus_has(answer: &Answer, expected: &Found) {
    same(&found(&answer.series, is_stale), expected);
    assert_eq!(answer.histograms, 0);
    assert_eq!((markers(&answer.series, "gone"), markers(&answer.series, "odd")), (40, 0));
}

#[test]
fn the_chunks_of_prometheus_are_its_samples() {
    let body = file("prometheus.chunks");
    for piece in [1, 7, 1000, body.len()] {
        let answer = chunks(&body, piece).unwrap().into_answer(&RANGE).unwrap();
        is_what_prometheus_has(&answer, &expected("prometheus.expected"));
    }
}

#[test]
fn the_samples_of_prometheus_are_its_samples_but_for_the_sign_of_zero() {
    let answer = samples::decode(&file("prometheus.samples"), &RANGE, DEFAULT_LIMIT).unwrap();
    let mut expected = expected("prometheus.expected");
    let zeros = expected.values_mut().flatten().filter(|(_, value)| value == "-0.0");
    assert_eq!(zeros.map(|(_, value)| *value = "0.0".to_owned()).count(), 40);
    is_what_prometheus_has(&answer, &expected);
}

#[test]
fn an_answer_of_prometheus_cut_anywhere_is_no_whole_answer() {
    let body = file("prometheus.chunks");
    let whole = chunks(&body, body.len()).unwrap().into_packed().0.len();
    let mut ends = 0;
    for end in 0..body.len() {
        match chunks(&body[..end], body.len()) {
            Err(DecodeError::BrokenOff(_)) => {}
            Ok(gathered) => {
                ends += 1;
                assert!(gathered.into_packed().0.len() < whole);
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(ends, whole, "one end of a frame for each series but the last, and the beginning");
    let body = file("prometheus.samples");
    for end in 0..body.len() {
        assert!(samples::decode(&body[..end], &RANGE, DEFAULT_LIMIT).is_err(), "{end}");
    }
}

fn lines(body: &[u8], piece: usize) -> Result<Vec<Series>, DecodeError> {
    let (mut lines, mut series) = (Lines::default(), Vec::new());
    for piece in body.chunks(piece) {
        lines.push(piece);
        while let Some(line) = lines.next_line()? {
            series.push(parse_line(line, &RANGE)?);
        }
    }
    lines.finish()?;
    Ok(series)
}

#[test]
fn the_export_of_victoria_metrics_is_its_samples() {
    let body = file("victoria.export");
    for piece in [1, 7, 1000, body.len()] {
        let series = lines(&body, piece).unwrap();
        same(&found(&series, |_| false), &expected("victoria.expected"));
        assert_eq!(markers(&series, "gone"), 11);
    }
}

#[test]
fn an_export_of_victoria_metrics_cut_within_a_line_is_broken_off() {
    let body = file("victoria.export");
    for end in 1..body.len() {
        let read = lines(&body[..end], body.len());
        assert_eq!(read.is_ok(), body[end - 1] == b'\n', "{end}");
    }
}
