//! A run that begins while other GPUs are free: which set is named, and what is not taken for free.

use std::collections::BTreeSet;

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_verdict::Advice;

const MINUTE: TimeMs = 60_000;
/// The minute in which the run begins, of 60.
const START: TimeMs = 30;

/// A GPU: its node, its name, its NUMA node, and who holds it from which minute to which.
type Gpu = (&'static str, &'static str, &'static str, &'static [(&'static str, TimeMs, TimeMs)]);

const RUN: &[(&str, TimeMs, TimeMs)] = &[("ml/llm", START, 60)];
const FREE: &[(&str, TimeMs, TimeMs)] = &[];

fn series(gpu: &Gpu, name: &str, labels: &[(&str, &str)], value: impl Fn(TimeMs) -> Option<f64>) -> Series {
    let all = [("__name__", name), ("Hostname", gpu.0), ("instance", gpu.0), ("UUID", gpu.1)];
    let samples = (0..240).filter_map(|n| Some(Sample { time_ms: n * 15_000, value: value(n * 15_000)? })).collect();
    Series { labels: Labels::new(all.into_iter().chain(labels.iter().copied())), samples }
}

fn told(gpu: &Gpu, processes: bool) -> Vec<Series> {
    let (node, _, numa, holders) = *gpu;
    let is_held = |t: TimeMs| holders.iter().any(|(_, from, to)| (from * MINUTE..to * MINUTE).contains(&t));
    let number = |yes: bool| Some(if yes { 1.0 } else { 0.0 });
    let name = [("__name__", "node_uname_info"), ("nodename", node), ("instance", node)];
    let samples = (0..240).map(|n| Sample { time_ms: n * 15_000, value: 1.0 }).collect();
    let mut all = vec![
        Series { labels: Labels::new(name), samples },
        series(gpu, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", &[("modelName", "NVIDIA H100 80GB HBM3")], |t| {
            Some(if is_held(t) { 0.95 } else { 0.0 })
        }),
        series(gpu, "goodput_gpu_numa_info", &[("node", numa)], |_| Some(1.0)),
    ];
    for (owner, from, to) in holders {
        let is_its = |t| (from * MINUTE..to * MINUTE).contains(&t).then_some(1.0);
        all.push(series(gpu, "goodput_gpu_owner_info", &[("owner", owner)], is_its));
    }
    if processes {
        all.push(series(gpu, "goodput_gpu_processes", &[], |t| number(is_held(t))));
    }
    all
}

/// The sets that are named within the hour.
fn advised(gpus: &[Gpu]) -> Vec<String> {
    of(gpus.iter().flat_map(|gpu| told(gpu, true)).collect())
}

fn of(series: Vec<Series>) -> Vec<String> {
    let judged = judge_series(&series, 0..60 * MINUTE, &Thresholds::default()).unwrap();
    let scattered = judged.advisories.iter().filter(|a| a.advice == Advice::ScatteredGpus);
    scattered.map(|a| a.free.clone().unwrap()).collect::<BTreeSet<_>>().into_iter().collect()
}

const ON_TWO_NUMA_NODES: [Gpu; 2] = [("a", "GPU-0", "0", RUN), ("a", "GPU-1", "1", RUN)];

#[test]
fn gpus_of_one_numa_node_that_were_free_are_named() {
    let free = [("a", "GPU-2", "1", FREE)];
    assert_eq!(advised(&[&ON_TWO_NUMA_NODES[..], &free].concat()), ["a, NUMA node 1: GPU-1 GPU-2"]);
    assert_eq!(advised(&ON_TWO_NUMA_NODES), [] as [&str; 0], "no other is there");
    assert_eq!(advised(&[("a", "GPU-0", "0", RUN), ("a", "GPU-2", "0", RUN), free[0]]), [] as [&str; 0], "it has them");
}

#[test]
fn gpus_of_one_node_that_were_free_are_named() {
    let run: [Gpu; 2] = [("a", "GPU-0", "0", RUN), ("b", "GPU-1", "0", RUN)];
    let on = |node| [&run[..], &[(node, "GPU-2", "1", FREE)]].concat();
    assert_eq!(advised(&on("b")), ["b: GPU-1 GPU-2"]);
    assert_eq!(advised(&on("c")), [] as [&str; 0], "two nodes, too");
    let elsewhere: [Gpu; 2] = [("c", "GPU-2", "0", FREE), ("c", "GPU-3", "1", FREE)];
    assert_eq!(advised(&[&run[..], &elsewhere].concat()), ["c: GPU-2 GPU-3"]);
}

#[test]
fn what_another_job_had_shortly_before_or_took_was_not_free() {
    for (holders, expected) in [
        (&[("ml/other", 0, START - 6)][..], &["a, NUMA node 1: GPU-1 GPU-2"][..]),
        (&[("ml/other", 0, START - 3)], &[]),
        (&[("ml/other", START, 60)], &[]),
        (&[("ml/other", 0, 60)], &[]),
    ] {
        let other = [("a", "GPU-2", "1", holders)];
        assert_eq!(advised(&[&ON_TWO_NUMA_NODES[..], &other].concat()), expected, "{holders:?}");
    }
}

#[test]
fn a_gpu_of_which_nothing_is_known_was_not_free() {
    let free = ("a", "GPU-2", "1", FREE);
    let run = || ON_TWO_NUMA_NODES.iter().flat_map(|gpu| told(gpu, true));
    assert_eq!(of(run().chain(told(&free, false)).collect()), [] as [&str; 0], "nothing says that no process is on it");
    let gap = |mut series: Series| {
        series.samples.retain(|s| !((START - 4) * MINUTE..(START - 1) * MINUTE).contains(&s.time_ms));
        series
    };
    assert_eq!(of(run().chain(told(&free, true).into_iter().map(gap)).collect()), [] as [&str; 0], "a gap");
    let closed = series(&free, "kube_node_spec_unschedulable", &[("node", "a")], |_| Some(1.0));
    assert_eq!(of(run().chain(told(&free, true)).chain([closed]).collect()), [] as [&str; 0], "a node that is closed");
}

#[test]
fn it_is_told_for_a_while_and_the_same_of_any_window() {
    let free = ("a", "GPU-2", "1", FREE);
    let series: Vec<Series> = ON_TWO_NUMA_NODES.iter().chain([&free]).flat_map(|gpu| told(gpu, true)).collect();
    let spans = |window| {
        let judged = judge_series(&series, window, &Thresholds::default()).unwrap();
        let its = judged.advisories.iter().filter(|a| a.advice == Advice::ScatteredGpus && a.gpu == "GPU-0");
        its.map(|a| (a.start_ms / MINUTE, a.end_ms / MINUTE)).collect::<Vec<_>>()
    };
    assert_eq!(spans(0..60 * MINUTE), [(START, START + 15)]);
    assert_eq!(spans(40 * MINUTE..60 * MINUTE), [(40, START + 15)]);
    assert_eq!(spans(46 * MINUTE..60 * MINUTE), []);
}
