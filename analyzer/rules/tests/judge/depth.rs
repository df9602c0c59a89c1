//! Busy time in which less was done than in other minutes: who waited, and who only worked otherwise.

use std::collections::BTreeMap;

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_verdict::Class;

const MINUTE: TimeMs = 60_000;
/// The minutes in which something is different, of 40.
const ODD: std::ops::Range<TimeMs> = 20 * MINUTE..30 * MINUTE;

fn series(name: &str, labels: &[(&str, &str)], value: impl Fn(TimeMs) -> f64) -> Series {
    on_node("n1", name, labels, value)
}

fn on_node(node: &str, name: &str, labels: &[(&str, &str)], value: impl Fn(TimeMs) -> f64) -> Series {
    let all = [("__name__", name), ("Hostname", node), ("instance", node)];
    let samples = (0..160).map(|i| Sample { time_ms: i * 15_000, value: value(i * 15_000) }).collect();
    Series { labels: Labels::new(all.into_iter().chain(labels.iter().copied())), samples }
}

/// A level that is another one in the odd minutes.
fn level(usual: f64, odd: f64) -> impl Fn(TimeMs) -> f64 {
    move |t| if ODD.contains(&t) { odd } else { usual }
}

/// GPUs of one job whose engines are active all the time, with a core per GPU, or two in the odd minutes.
fn job(gpus: &[&str], odd_cores: f64) -> Vec<Series> {
    let owned = |uuid: &&str| {
        let (device, owner) = (("UUID", *uuid), ("owner", "train"));
        [
            series("goodput_gpu_owner_info", &[device, owner], |_| 1.0),
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &[device], |_| 1.0),
            series("goodput_gpu_processes", &[device], |_| 1.0),
        ]
    };
    let mut all: Vec<Series> = gpus.iter().flat_map(owned).collect();
    let odd_ms = move |t: TimeMs| (t - ODD.start).clamp(0, ODD.end - ODD.start);
    let cores = gpus.len() as f64;
    let used = move |t: TimeMs| cores * ((t - odd_ms(t)) as f64 + odd_cores * odd_ms(t) as f64) / 1000.0;
    all.push(series("goodput_cgroup_cpu_usage_seconds_total", &[("owner", "train")], used));
    all
}

fn gauge(name: &str, usual: f64, odd: f64) -> Series {
    series(name, &[("UUID", "GPU-1"), ("modelName", "NVIDIA H100 80GB HBM3")], level(usual, odd))
}

/// Whole percents of the inner odd minutes of the first GPU, by class.
fn told(series: &[Series]) -> BTreeMap<&'static str, i64> {
    let window = ODD.start + 2 * MINUTE..ODD.end - 2 * MINUTE;
    let judged = judge_series(series, window.clone(), &Thresholds::default()).unwrap();
    let mut sums = BTreeMap::new();
    for interval in judged.intervals.iter().filter(|i| i.gpu == "GPU-1") {
        *sums.entry(interval.class.name()).or_default() += interval.ms;
    }
    let percents = |ms: i64| (100.0 * ms as f64 / (window.end - window.start) as f64).round() as i64;
    sums.into_iter().map(|(class, ms)| (class, percents(ms))).collect()
}

const PAIR: [&str; 2] = ["GPU-1", "GPU-2"];
const SM: &str = "DCGM_FI_PROF_SM_ACTIVE";
const POWER: &str = "DCGM_FI_DEV_POWER_USAGE";
const CLOCK: &str = "DCGM_FI_DEV_SM_CLOCK";

fn with(mut all: Vec<Series>, more: impl IntoIterator<Item = Series>) -> BTreeMap<&'static str, i64> {
    all.extend(more);
    told(&all)
}

fn parts(parts: &[(&'static str, i64)]) -> BTreeMap<&'static str, i64> {
    parts.iter().copied().collect()
}

#[test]
fn multiprocessors_tell_the_share_that_spun() {
    let expected = parts(&[(Class::CollectiveWait.name(), 50), (Class::Productive.name(), 50)]);
    assert_eq!(with(job(&PAIR, 1.0), [gauge(SM, 0.8, 0.4)]), expected);
}

#[test]
fn power_alone_tells_it_too() {
    // Spinning draws 115 W and 7.5 % of the 585 W up to the limit, 158.9 W; 329.4 W is in the middle of that and 500 W.
    let expected = parts(&[(Class::CollectiveWait.name(), 50), (Class::Productive.name(), 50)]);
    assert_eq!(with(job(&PAIR, 1.0), [gauge(POWER, 500.0, 329.4)]), expected);
}

#[test]
fn what_the_measures_do_not_agree_on_is_work() {
    let expected = parts(&[(Class::Productive.name(), 100)]);
    // Kernels that leave multiprocessors without work and draw as much; and memory-bound ones that draw less.
    for (sm, watts) in [(0.4, 500.0), (0.8, 300.0)] {
        assert_eq!(with(job(&PAIR, 1.0), [gauge(SM, 0.8, sm), gauge(POWER, 500.0, watts)]), expected);
    }
}

#[test]
fn a_busy_thread_per_gpu_launches() {
    let expected = parts(&[(Class::LaunchBound.name(), 50), (Class::Productive.name(), 50)]);
    assert_eq!(with(job(&PAIR, 1.5), [gauge(SM, 0.8, 0.4)]), expected);
    assert_eq!(with(job(&["GPU-1"], 1.5), [gauge(SM, 0.8, 0.4)]), expected);
}

#[test]
fn a_gpu_alone_and_one_at_lower_clocks_wait_for_nobody() {
    let expected = parts(&[(Class::Productive.name(), 100)]);
    assert_eq!(with(job(&["GPU-1"], 1.0), [gauge(SM, 0.8, 0.4)]), expected);
    assert_eq!(with(job(&PAIR, 1.0), [gauge(SM, 0.8, 0.4), gauge(CLOCK, 1980.0, 1200.0)]), expected);
}

#[test]
fn what_is_always_so_is_compared_with_nothing() {
    let expected = parts(&[(Class::Productive.name(), 100)]);
    assert_eq!(with(job(&PAIR, 1.0), [gauge(SM, 0.3, 0.3), gauge(POWER, 250.0, 250.0)]), expected);
}

#[test]
fn what_spinning_kernels_occupy_is_allowed_for_where_power_tells_of_more() {
    // Three fifths spin on a quarter of the multiprocessors, at 158.9 W; for power alone it would be more.
    let expected = parts(&[(Class::CollectiveWait.name(), 60), (Class::Productive.name(), 40)]);
    assert_eq!(with(job(&PAIR, 1.0), [gauge(SM, 0.8, 0.47), gauge(POWER, 500.0, 295.4)]), expected);
    assert_eq!(with(job(&PAIR, 1.0), [gauge(SM, 0.8, 0.47), gauge(POWER, 500.0, 200.0)]), expected);
}

/// Another GPU that works, on another node.
fn elsewhere(owner: &str) -> [Series; 2] {
    let device = ("UUID", "GPU-9");
    [
        on_node("n2", "goodput_gpu_owner_info", &[device, ("owner", owner)], |_| 1.0),
        on_node("n2", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", &[device], |_| 1.0),
    ]
}

#[test]
fn a_gpu_alone_on_its_node_waits_for_ranks_on_others() {
    let waits = parts(&[(Class::CollectiveWait.name(), 50), (Class::Productive.name(), 50)]);
    let works = parts(&[(Class::Productive.name(), 100)]);
    let alone = || job(&["GPU-1"], 1.0).into_iter().chain([gauge(SM, 0.8, 0.4)]).collect();
    assert_eq!(with(alone(), elsewhere("train")), waits);
    assert_eq!(with(alone(), elsewhere("other")), works);
    // It spins throughout, for ranks that may be anywhere.
    let spins = || job(&["GPU-1"], 1.0).into_iter().chain([gauge(POWER, 500.0, 150.0)]).collect();
    assert_eq!(with(spins(), elsewhere("train")), parts(&[(Class::CollectiveWait.name(), 100)]));
    assert_eq!(with(spins(), elsewhere("other")).get("collective_wait"), None);
}

#[test]
fn units_of_one_name_on_two_nodes_are_two_jobs() {
    let unit = |series: Series| {
        let renamed = |(name, value)| (name, if name == "owner" { "train.service" } else { value });
        Series { labels: Labels::new(series.labels.iter().map(renamed)), ..series }
    };
    let all = job(&["GPU-1"], 1.0).into_iter().chain([gauge(SM, 0.8, 0.4)]).chain(elsewhere("train"));
    assert_eq!(told(&all.map(unit).collect::<Vec<_>>()), parts(&[(Class::Productive.name(), 100)]));
}

#[test]
fn cpus_of_the_node_tell_where_all_its_gpus_are_the_jobs() {
    let cpus = |odd: f64| {
        let odd_ms = |t: TimeMs| (t - ODD.start).clamp(0, ODD.end - ODD.start) as f64;
        let used = move |t: TimeMs| (2.0 * (t as f64 - odd_ms(t)) + odd * odd_ms(t)) / 1000.0;
        series("node_cpu_seconds_total", &[("cpu", "0"), ("mode", "user")], used)
    };
    let gpus = || -> Vec<Series> {
        let is_cpu = |s: &Series| s.labels.metric() == "goodput_cgroup_cpu_usage_seconds_total";
        job(&PAIR, 1.0).into_iter().filter(|s| !is_cpu(s)).chain([gauge(SM, 0.8, 0.4)]).collect()
    };
    let waits = parts(&[(Class::CollectiveWait.name(), 50), (Class::Productive.name(), 50)]);
    let works = parts(&[(Class::Productive.name(), 100)]);
    assert_eq!(told(&gpus()), works, "nothing tells of CPUs");
    assert_eq!(with(gpus(), [cpus(2.0)]), waits);
    assert_eq!(with(gpus(), [cpus(3.0)]), works, "a thread for each may launch kernels, of this job or another");
    let other = series("goodput_gpu_owner_info", &[("UUID", "GPU-3"), ("owner", "other")], |_| 1.0);
    assert_eq!(with(gpus(), [cpus(2.0), other]), works, "it may be the other job's CPUs");
}
