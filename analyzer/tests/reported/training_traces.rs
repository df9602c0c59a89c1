//! MLPerf Training: two runs on nodes of eight H100 by their own logs, and the power that one of the nodes drew. Evaluation
//! is part of a run; how much of it that is, nothing but the job can tell. Read in place.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use goodput_analyzer::report::{Run, runs};
use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_store::History;
use goodput_verdict::event::{Event, Place, RunId, Status, What};
use goodput_verdict::{Class, Energy, Interval};
use serde_json::Value;

/// A line that the benchmark logged.
struct Line {
    time_ms: TimeMs,
    key: String,
    value: Value,
}

fn logged(file: &str) -> Vec<Line> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces/mlperf-training").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}: this test needs it", path.display()));
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line.split_once(":::MLLOG ")?.1).unwrap();
        let key = value["key"].as_str().unwrap().to_owned();
        Some(Line { time_ms: value["time_ms"].as_i64().unwrap(), key, value: value["value"].clone() })
    };
    text.lines().filter_map(line).collect()
}

fn times(log: &[Line], key: &str) -> impl Iterator<Item = TimeMs> {
    log.iter().filter(move |line| line.key == key).map(|line| line.time_ms)
}

fn span(log: &[Line], from: &str, to: &str) -> Range<TimeMs> {
    times(log, from).min().unwrap()..times(log, to).max().unwrap()
}

/// What the job would report, with each rank reporting each evaluation.
fn told(log: &[Line], ranks: u32) -> Vec<Event> {
    let event = |time_ms, rank: Option<u32>, what: What| Event {
        id: format!("{time_ms} {rank:?} {}", what.kind()),
        time_ms,
        run: RunId { cluster: String::new(), name: "mlperf".into() },
        attempt: 0,
        rank,
        what,
        place: Place { slurm_job: Some("7".into()), ..Place::default() },
    };
    let start = event(span(log, "init_start", "run_stop").start, None, What::Start { submitted_ms: None });
    let end = event(times(log, "run_stop").max().unwrap(), None, What::End { status: Status::Completed });
    let evaluations = times(log, "eval_start").zip(times(log, "eval_stop")).flat_map(|(from, to)| {
        let seconds = (to - from) as f64 / 1000.0;
        (0..ranks).map(move |rank| event(to, Some(rank), What::Evaluation { seconds }))
    });
    [start].into_iter().chain(evaluations).chain([end]).collect()
}

/// The node as one GPU: held while the job initialises, at work from there on; what it drew by the power log.
fn verdicts(log: &[Line], power: &[Line]) -> Vec<Interval> {
    let (job, run) = (span(log, "init_start", "run_stop"), span(log, "run_start", "run_stop"));
    let series = |name: &str, owner: Option<&str>, samples: Vec<Sample>| {
        let labels = [("__name__", name), ("UUID", "GPU-0"), ("Hostname", "node")];
        Series { labels: Labels::new(labels.into_iter().chain(owner.map(|owner| ("owner", owner)))), samples }
    };
    let every_second = |value: &dyn Fn(TimeMs) -> f64| {
        let times: BTreeSet<TimeMs> = job.clone().step_by(1000).chain([run.start, run.end]).collect();
        times.into_iter().map(|time_ms| Sample { time_ms, value: value(time_ms) }).collect()
    };
    let busy = |time: TimeMs| (time.max(run.start) - run.start) as f64 / 1000.0;
    let readings = power.iter().filter(|line| line.key == "power_reading");
    let watts = readings.map(|line| Sample { time_ms: line.time_ms, value: line.value.as_f64().unwrap() });
    let all = [
        series("goodput_gpu_busy_seconds_total", None, every_second(&busy)),
        series("goodput_gpu_observed_seconds_total", None, every_second(&|time| (time - job.start) as f64 / 1000.0)),
        series("goodput_gpu_owner_info", Some("slurm-7"), every_second(&|_| 1.0)),
        series("DCGM_FI_DEV_POWER_USAGE", None, watts.collect()),
    ];
    judge_series(&all, job, &Thresholds::default()).unwrap().intervals
}

fn run(log: &[Line], intervals: &[Interval], ranks: u32) -> Run {
    let history = History { events: told(log, ranks), progress: Vec::new() };
    let [run] = runs::build(&history, intervals, &span(log, "init_start", "run_stop")).try_into().unwrap();
    run
}

/// Seconds of evaluation in the log, and the share of the run that they are, in percent, computed from the log alone. The
/// first cell of the run is half initialisation, and what an interval is of is taken to be spread evenly over it.
#[test]
fn a_run_tells_how_much_of_it_was_evaluation_however_many_ranks_tell_of_it() {
    for (file, seconds, percent) in [("llama2_70b_lora_result_1.txt", 194.2, 11.46), ("bert_result_1.txt", 21.4, 3.13)]
    {
        let log = logged(file);
        let intervals = verdicts(&log, &[]);
        for ranks in [1, 8] {
            let run = run(&log, &intervals, ranks);
            let evaluated = run.evaluating_ms.unwrap() as f64 / 1000.0;
            assert!((evaluated / seconds - 1.0).abs() < 0.04, "{file}, {ranks} ranks: {evaluated} s");
            let share = 100.0 * evaluated * 1000.0 / run.productive_ms as f64;
            assert!((share - percent).abs() < 0.5, "{file}, {ranks} ranks: {share} % of the productive time");
            assert_eq!(run.attempts[0].ending, "completed", "{file}");
        }
    }
}

/// The mean of the log's readings from the run's start to its end, about 7 kW for eight H100 and their node.
#[test]
fn a_node_draws_what_its_power_log_says() {
    let (log, power) = (logged("llama2_70b_lora_result_1.txt"), logged("llama2_70b_lora_result_1_node_power.txt"));
    let intervals = verdicts(&log, &power);
    let productive = intervals.iter().filter(|i| i.class == Class::Productive);
    let Energy { mj, ms, .. } = productive.fold(None, |sum, i| Energy::sum(sum, i.energy)).unwrap();
    let watts = mj as f64 / ms as f64;
    assert!((watts / 7144.5 - 1.0).abs() < 0.005, "{watts} W");
}
