//! When a GPU leaves capacity: its target ended while others go on. Silence is a hole in the data for a day.

#![allow(clippy::single_range_in_vec_init, reason = "when a node is there is a list of ranges, often of one")]

use std::ops::Range;

use goodput_exposition::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use goodput_rules::classify::{Judged, LEFT_NODE, Thresholds, judge_onward, judge_series};
use goodput_verdict::Class;

const MINUTE: TimeMs = 60_000;
const HOUR: TimeMs = 60 * MINUTE;

/// A node of one GPU that is scraped in these spans. Each ends with a marker where `marked` says so.
fn node(name: &str, spans: &[Range<TimeMs>], marked: bool) -> Vec<Series> {
    let instance = format!("{name}:9400");
    let target = [("job", "dcgm"), ("instance", instance.as_str())];
    let uuid = format!("GPU-{name}");
    let gpu = [("UUID", uuid.as_str()), ("Hostname", name), ("exported_pod", "train")];
    let of = |labels: &[&[(&str, &str)]], value: fn(TimeMs) -> f64| {
        let mut samples = Vec::new();
        for span in spans {
            let times = (span.start..span.end).step_by(30_000);
            samples.extend(times.map(|time_ms| Sample { time_ms, value: value(time_ms) }));
            samples.extend(marked.then(|| Sample { time_ms: span.end, value: f64::from_bits(STALE_BITS) }));
        }
        Series { labels: Labels::new([labels, &[&target]].concat().concat()), samples }
    };
    vec![
        of(&[&[("__name__", "DCGM_FI_DEV_GPU_UTIL")], &gpu], |t| 90.0 + (t / 30_000 % 5) as f64),
        of(&[&[("__name__", "DCGM_FI_DEV_POWER_USAGE")], &gpu], |t| 550.0 + (t / 30_000 % 9) as f64),
        of(&[&[("__name__", "up")]], |_| 1.0),
    ]
}

fn judge(series: &[Series], window: Range<TimeMs>) -> Judged {
    judge_series(series, window, &Thresholds::default()).unwrap()
}

fn minutes(judged: &Judged, gpu: &str) -> i64 {
    judged.intervals.iter().filter(|i| i.gpu == gpu).map(|i| i.ms).sum::<i64>() / MINUTE
}

const DAY: Range<TimeMs> = 0..40 * HOUR;

#[test]
fn a_gpu_whose_target_ended_leaves_at_once() {
    let mut all = node("spot", &[0..2 * HOUR + 20 * MINUTE], true);
    all.extend(node("other", &[DAY], false));
    let judged = judge(&all, 0..30 * HOUR);
    assert_eq!(minutes(&judged, "GPU-spot"), 140, "{:?}", judged.seen);
    assert_eq!(minutes(&judged, "GPU-other"), 30 * 60);
    assert!(judged.seen.iter().all(|seen| seen.gpu == "GPU-other"));
    let last = judged.intervals.iter().filter(|i| i.gpu == "GPU-spot").max_by_key(|i| i.end_ms).unwrap();
    assert!(last.evidence.iter().any(|e| e.signal == LEFT_NODE), "{last:?}");
}

#[test]
fn hours_are_judged_alike_one_by_one_and_at_once() {
    let mut all = node("spot", &[0..2 * HOUR + 20 * MINUTE, 5 * HOUR..6 * HOUR], true);
    all.extend(node("other", &[DAY], false));
    let (mut seen, mut hourly) = (Vec::new(), 0);
    for hour in 0..10 {
        let judged = judge_onward(&all, &seen, hour * HOUR..(hour + 1) * HOUR, &Thresholds::default()).unwrap();
        hourly += minutes(&judged, "GPU-spot");
        seen = judged.seen;
    }
    assert_eq!((hourly, minutes(&judge(&all, 0..10 * HOUR), "GPU-spot")), (200, 200));
}

#[test]
fn the_only_node_that_is_given_back_leaves() {
    assert_eq!(minutes(&judge(&node("spot", &[0..4 * HOUR], true), 0..30 * HOUR), "GPU-spot"), 240);
}

#[test]
fn where_all_targets_end_somebody_stopped_scraping() {
    let both = [node("a", &[0..2 * HOUR], true), node("b", &[0..2 * HOUR], true)].concat();
    let judged = judge(&both, 0..30 * HOUR);
    assert_eq!((minutes(&judged, "GPU-a"), minutes(&judged, "GPU-b")), (26 * 60, 26 * 60));
}

#[test]
fn silence_without_a_marker_is_a_hole_for_a_day() {
    let mut all = node("silent", &[0..2 * HOUR], false);
    all.extend(node("other", &[DAY], false));
    let judged = judge(&all, 0..30 * HOUR);
    assert_eq!(minutes(&judged, "GPU-silent"), 26 * 60);
    let hole = judged.intervals.iter().filter(|i| i.gpu == "GPU-silent" && i.class == Class::NoData);
    assert_eq!(hole.map(|i| i.ms).sum::<i64>() / MINUTE, 24 * 60);
}

#[test]
fn series_that_end_while_their_target_goes_on_are_a_hole() {
    let mut all = node("n1", &[0..2 * HOUR], true);
    all.truncate(2);
    all.extend(node("n1", &[DAY], false).pop());
    assert_eq!(minutes(&judge(&all, 0..4 * HOUR), "GPU-n1"), 4 * 60);
}

#[test]
fn a_target_with_new_labels_goes_on() {
    let mut all = node("n1", &[0..2 * HOUR], true);
    let late = node("n1", &[2 * HOUR..4 * HOUR], false).into_iter().map(|series| {
        let labels = series.labels.iter().chain([("rack", "7")]).map(|(n, v)| (n, if n == "job" { "gpu" } else { v }));
        Series { labels: Labels::new(labels), samples: series.samples }
    });
    all.extend(late.collect::<Vec<_>>());
    assert_eq!(minutes(&judge(&all, 0..4 * HOUR), "GPU-n1"), 4 * 60);
}
