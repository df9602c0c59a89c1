//! A node that cannot be judged costs itself alone.

use super::cell::PANICS;
use super::{Class, Thresholds, judge_told};
use crate::told::Told;
use goodput_exposition::sample::{Labels, Sample, Series};

const HOUR: i64 = 3_600_000;

fn idle(gpu: &str, node: &str) -> Series {
    let pairs = [("__name__", "DCGM_FI_DEV_GPU_UTIL"), ("UUID", gpu), ("Hostname", node)];
    let samples = (0..=120).map(|n| Sample { time_ms: n * 30_000, value: 0.0 }).collect();
    Series { labels: Labels::new(pairs), samples }
}

#[test]
fn a_node_whose_judgement_panics_is_named_and_the_others_are_judged() {
    let series = [idle("GPU-a", "n1"), idle("GPU-b", PANICS), idle("GPU-c", "n2")];
    let judged = judge_told(&series, &[], Told::default(), 0..HOUR, &Thresholds::default());
    let failed: Vec<_> = judged.failed.iter().map(|failed| failed.node.as_str()).collect();
    assert_eq!(failed, [PANICS]);
    assert!(judged.failed[0].reason.contains("cannot be judged"), "{}", judged.failed[0].reason);
    let known = judged.intervals.iter().filter(|i| i.class != Class::NoData);
    let (mut nodes, ms) = (Vec::new(), known.clone().map(|i| i.ms).sum::<i64>());
    nodes.extend(known.map(|i| i.node.as_str()));
    nodes.dedup();
    assert_eq!((nodes, ms), (vec!["n1", "n2"], 2 * HOUR));
}
