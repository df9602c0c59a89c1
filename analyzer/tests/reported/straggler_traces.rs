//! Two production jobs (see `tests/fixtures/README.md`): of one a single worker is slow, of the other the last pipeline
//! stage on both of its ranks. Each worker is a node here; its steps are repeated over some hours.

use std::ops::Range;
use std::path::Path;

use goodput_analyzer::report::tuning::Tuning;
use goodput_analyzer::report::{Period, build};
use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_rules::tuning::standings;
use goodput_verdict::{HOUR_MS, Measure, Outlook};
use jiff::tz::TimeZone;

const HOURS: i64 = 7;

/// What a worker did in a step: seconds of computation, and of the step.
type Step = (f64, f64);

/// Each worker's steps, in order.
fn recorded(job: &str) -> Vec<(String, Vec<Step>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/straggler-analysis").join(job);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut workers: Vec<(String, Vec<Step>)> = Vec::new();
    for row in text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>()) {
        let name = format!("dp{}-stage{}", row[0], row[1]);
        if workers.last().is_none_or(|(last, _)| *last != name) {
            workers.push((name, Vec::new()));
        }
        workers.last_mut().unwrap().1.push((row[3].parse().unwrap(), row[4].parse().unwrap()));
    }
    workers
}

/// The share of each step in which the worker computed, over and over, as SM activity.
fn activity(steps: &[Step], times: Range<TimeMs>) -> Vec<Sample> {
    let mut steps = steps.iter().cycle();
    let (mut share, mut end) = (0.0, times.start as f64);
    let of = |time_ms: TimeMs| {
        while time_ms as f64 >= end {
            let (compute, whole) = steps.next().unwrap();
            (share, end) = (compute / whole, end + whole * 1000.0);
        }
        Sample { time_ms, value: share }
    };
    times.step_by(15_000).map(of).collect()
}

fn series(node: &str, steps: &[Step]) -> Vec<Series> {
    let times = 0..HOURS * HOUR_MS;
    let series = |name: &str, more: (&str, &str), samples: Vec<Sample>| {
        let all = [("__name__", name), ("Hostname", node), ("instance", node), ("UUID", node)];
        Series { labels: Labels::new(all.into_iter().chain([more])), samples }
    };
    let held = times.clone().step_by(15_000).map(|time_ms| Sample { time_ms, value: 1.0 }).collect();
    let model = ("modelName", "NVIDIA A100-SXM4-80GB");
    vec![
        series("goodput_gpu_owner_info", ("owner", "slurm/1"), held),
        series("DCGM_FI_PROF_SM_ACTIVE", model, activity(steps, times)),
    ]
}

/// What the report says of all hours.
fn told(job: &str) -> Tuning {
    let all: Vec<Series> = recorded(job).iter().flat_map(|(node, steps)| series(node, steps)).collect();
    let hour = |hour: i64| {
        let window = hour * HOUR_MS..(hour + 1) * HOUR_MS;
        let judged = judge_series(&all, window.clone(), &Thresholds::default()).unwrap();
        standings(&[], &window, &judged.paired, &judged.ports, &judged.mounts, &judged.collectives)
    };
    let outlook = Outlook { standings: (0..HOURS).flat_map(hour).collect(), ..Outlook::default() };
    let period = Period::between("1970-01-01T00:00Z", "1970-01-01T07:00Z", &TimeZone::UTC).unwrap();
    build(&[], &[], period, &[]).with_outlook(&outlook).tuning
}

/// By the trace's own analysis the forward pass of (dp 0, stage 0) takes 2.50 times the median, the next worst worker 1.07
/// times, and this one explains all of the job's slowdown. Forward and backward together, as here, it takes 2.35 times.
#[test]
fn the_one_slow_worker_is_named_and_no_other() {
    let tuning = told("AR.csv");
    let slow: Vec<_> = tuning.slow.iter().map(|s| (s.node.as_str(), s.measure, s.pairs)).collect();
    assert_eq!(slow, [("dp0-stage0", Measure::SmActivity, 7)]);
    assert!((2.3..2.4).contains(&tuning.slow[0].slowdown), "{:?}", tuning.slow);
    assert_eq!((tuning.alike.len(), tuning.steady), (0, 15));
}

/// Stage 3 takes 2.06 to 2.08 times as long in the forward pass on both ranks: a stage with more to do, no bad worker.
#[test]
fn a_slow_stage_is_no_slow_worker() {
    let tuning = told("ST.csv");
    assert_eq!(tuning.slow, []);
    let alike: Vec<_> = tuning.alike.iter().map(|a| (a.node.as_str(), a.measure)).collect();
    assert_eq!(alike, [("dp0-stage3", Measure::SmActivity), ("dp1-stage3", Measure::SmActivity)]);
    assert!(tuning.alike.iter().all(|a| (1.55..1.7).contains(&a.slowdown)), "{:?}", tuning.alike);
    assert_eq!(tuning.steady, 6);
}
