//! Ranks that wait for one of theirs: who is named, on whose row the time stays, and when no rank is named.

use std::collections::BTreeMap;

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_verdict::{Class, Interval};

const MINUTE: TimeMs = 60_000;
/// The minutes in which a rank is late, of 40.
const ODD: std::ops::Range<TimeMs> = 20 * MINUTE..30 * MINUTE;
/// What is judged: the inner ones of these.
const WINDOW: std::ops::Range<TimeMs> = 22 * MINUTE..28 * MINUTE;

const SM: &str = "DCGM_FI_PROF_SM_ACTIVE";

/// A rank: cluster, node, UUID, and its SM activity in the odd minutes, against 0.8 in all others; none is not exported.
type Rank = (&'static str, &'static str, &'static str, Option<f64>);

/// Works, and waits for more than half of the time.
const WORKS: Option<f64> = Some(0.8);
const WAITS: Option<f64> = Some(0.32);

fn series(name: &str, place: (&str, &str), labels: &[(&str, &str)], value: impl Fn(TimeMs) -> f64) -> Series {
    let (cluster, node) = place;
    let all = [("__name__", name), ("cluster", cluster), ("Hostname", node), ("instance", node)];
    let samples = (0..160).map(|i| Sample { time_ms: i * 15_000, value: value(i * 15_000) }).collect();
    Series { labels: Labels::new(all.into_iter().chain(labels.iter().copied())), samples }
}

/// Ranks of an owner whose engines are active all the time, with a core per GPU.
fn run(owner: &str, ranks: &[Rank]) -> Vec<Series> {
    let mut all = Vec::new();
    let mut gpus: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for (cluster, node, uuid, odd) in ranks {
        let (place, device) = ((*cluster, *node), ("UUID", *uuid));
        *gpus.entry(place).or_default() += 1.0;
        all.push(series("goodput_gpu_owner_info", place, &[device, ("owner", owner)], |_| 1.0));
        let labels = [device, ("modelName", "NVIDIA H100 80GB HBM3")];
        all.push(series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", place, &labels, |_| 1.0));
        if let Some(odd) = odd {
            all.push(series(SM, place, &labels, |t| if ODD.contains(&t) { *odd } else { 0.8 }));
        }
    }
    for (place, cores) in gpus {
        let used = move |t: TimeMs| cores * t as f64 / 1000.0;
        all.push(series("goodput_cgroup_cpu_usage_seconds_total", place, &[("owner", owner)], used));
        all.push(series("goodput_node_info", place, &[("nodename", place.1)], |_| 1.0));
    }
    all
}

fn intervals(series: &[Series]) -> Vec<Interval> {
    judge_series(series, WINDOW, &Thresholds::default()).unwrap().intervals
}

/// Whole percents of a GPU's time by class and by the GPU that it is charged to.
fn told(series: &[Series], gpu: &str) -> BTreeMap<(&'static str, Option<String>), i64> {
    let mut sums: BTreeMap<_, i64> = BTreeMap::new();
    for i in intervals(series).iter().filter(|i| i.gpu == gpu) {
        let culprit =
            i.charged_to.as_ref().map(|c| c.gpu.as_ref().map_or(c.node.clone(), |gpu| format!("{}/{gpu}", c.node)));
        *sums.entry((i.class.name(), culprit)).or_default() += i.ms;
    }
    sums.into_iter()
        .map(|(key, ms)| (key, (100.0 * ms as f64 / (WINDOW.end - WINDOW.start) as f64).round() as i64))
        .collect()
}

fn parts(waits_as: Class, culprit: Option<&str>) -> BTreeMap<(&'static str, Option<String>), i64> {
    BTreeMap::from([((waits_as.name(), culprit.map(str::to_owned)), 60), ((Class::Productive.name(), None), 40)])
}

const A: &str = "a";
const RANKS: [Rank; 4] =
    [(A, "n1", "GPU-1", WAITS), (A, "n1", "GPU-2", WAITS), (A, "n2", "GPU-3", WORKS), (A, "n2", "GPU-4", WAITS)];

#[test]
fn the_rank_on_another_node_is_named_and_the_time_stays_with_those_that_wait() {
    let series = run("train", &RANKS);
    for gpu in ["GPU-1", "GPU-2", "GPU-4"] {
        assert_eq!(told(&series, gpu), parts(Class::Straggler, Some("n2/GPU-3")), "{gpu}");
    }
    assert_eq!(told(&series, "GPU-3"), BTreeMap::from([((Class::Productive.name(), None), 100)]));
    let all = intervals(&series);
    assert_eq!(all.iter().map(|i| i.ms).sum::<i64>(), 4 * (WINDOW.end - WINDOW.start));
    let straggler = all.iter().find(|i| i.class == Class::Straggler).unwrap();
    let numbers = |signal: &str| {
        let found = straggler.evidence.iter().find(|e| e.signal == signal).unwrap_or_else(|| panic!("{straggler:?}"));
        [found.value, found.threshold].map(|number| (number * 1000.0).round() / 1000.0)
    };
    assert_eq!(numbers("waited longer than the GPU waited for"), [0.6, 0.1]);
    assert_eq!(numbers("busy against the GPU waited for"), [1.0, 1.0]);
    assert_eq!(numbers("sm_active / busy against the GPU waited for"), [0.32, 0.68]);
}

#[test]
fn the_order_of_the_nodes_does_not_matter() {
    let series = run("train", &RANKS);
    let mut turned = series.clone();
    turned.reverse();
    assert_eq!(intervals(&series), intervals(&turned));
}

#[test]
fn a_unit_of_the_same_name_elsewhere_and_a_job_of_another_cluster_are_other_runs() {
    assert_eq!(told(&run("train.service", &RANKS), "GPU-1"), parts(Class::CollectiveWait, None));
    let elsewhere = RANKS.map(|(_, node, gpu, odd)| (if node == "n2" { "b" } else { A }, node, gpu, odd));
    assert_eq!(told(&run("train", &elsewhere), "GPU-1"), parts(Class::CollectiveWait, None));
}

#[test]
fn nobody_is_named_where_all_wait_or_ranks_of_two_nodes_are_equally_late() {
    let with = |odd: [Option<f64>; 4]| {
        let ranks: Vec<Rank> = RANKS.iter().zip(odd).map(|((c, n, g, _), odd)| (*c, *n, *g, odd)).collect();
        told(&run("train", &ranks), "GPU-1")
    };
    assert_eq!(with([WAITS, WAITS, WAITS, WAITS]), parts(Class::CollectiveWait, None));
    assert_eq!(with([WAITS, WORKS, WORKS, WAITS]), parts(Class::CollectiveWait, None));
    assert_eq!(with([WAITS, WAITS, WORKS, WORKS]), parts(Class::Straggler, Some("n2")), "a whole node is late");
}

#[test]
fn whether_a_rank_works_that_nothing_measures_is_not_guessed() {
    let ranks = RANKS.map(|(c, n, g, odd)| (c, n, g, odd.filter(|_| g != "GPU-3")));
    let series = run("train", &ranks);
    assert_eq!(told(&series, "GPU-1"), parts(Class::CollectiveWait, None));
    let waits = |i: &&Interval| i.gpu == "GPU-1" && i.class == Class::CollectiveWait;
    let missing = intervals(&series).iter().find(waits).map(|i| i.missing.clone()).unwrap();
    assert!(missing.iter().any(|signal| signal == "sm_active"), "{missing:?}");
}

#[test]
fn a_rank_that_is_not_heard_of_may_be_the_one() {
    let with = |more: &[Rank]| {
        let ranks = [&RANKS[..3], &[(A, "n3", "GPU-4", WAITS)], more].concat();
        let mut series = run("train", &ranks);
        for s in series.iter_mut().filter(|s| s.labels.get("UUID") == Some("GPU-4")) {
            s.samples.retain(|sample| !(ODD.start - MINUTE..ODD.end + MINUTE).contains(&sample.time_ms));
        }
        told(&series, "GPU-1")
    };
    assert_eq!(with(&[]), parts(Class::CollectiveWait, None), "three of four ranks are known");
    let one_more = [(A, "n2", "GPU-5", WAITS)];
    assert_eq!(with(&one_more), parts(Class::Straggler, Some("n2/GPU-3")), "four of five are");
}

#[test]
fn a_rank_without_a_busy_signal_is_not_named() {
    let mut series = run("train", &RANKS);
    let odd = |sample: &Sample| ODD.contains(&sample.time_ms);
    let is_blind = |s: &Series| s.labels.get("UUID") == Some("GPU-3") && s.labels.metric() != "goodput_gpu_owner_info";
    for s in series.iter_mut().filter(|s| is_blind(s)) {
        s.samples.retain(|sample| !odd(sample));
    }
    assert_eq!(told(&series, "GPU-1"), parts(Class::CollectiveWait, None));
}
