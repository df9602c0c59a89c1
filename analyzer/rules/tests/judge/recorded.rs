//! Scrapes recorded on real machines (see `tests/fixtures/README.md`), repeated over some minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Judged, Thresholds, judge_series};
use goodput_rules::frame::Unjoined;
use goodput_verdict::{Class, Interval};

const WINDOW: Range<TimeMs> = 0..600_000;

/// Millijoules that a board draws in 30 s at 34 W, as that of the T4 did: the counter goes on while the rest is repeated.
const DRAWN_MJ: f64 = 1.02e6;

/// Reads sample lines without time, and repeats each over the window and its surroundings.
fn recorded(fixture: &str) -> Vec<Series> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture).join("metrics.prom");
    let text = std::fs::read_to_string(&path).unwrap();
    let samples = |labels: &Labels, value: f64| {
        let step = if labels.metric() == "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" { DRAWN_MJ } else { 0.0 };
        (-10..30).map(|i| Sample { time_ms: i * 30_000, value: value + step * i as f64 }).collect()
    };
    let lines = text.lines().filter(|l| !l.starts_with('#') && !l.is_empty());
    lines.map(line).map(|(labels, value)| Series { samples: samples(&labels, value), labels }).collect()
}

/// `name{label="value",...} value`; no value in the fixtures holds a quote or a comma.
pub(crate) fn line(line: &str) -> (Labels, f64) {
    let (name, rest) = line.split_once('{').unwrap();
    let (labels, value) = rest.split_once('}').unwrap();
    let pairs = labels.split(',').map(|pair| pair.split_once('=').unwrap());
    let pairs = pairs.map(|(name, value)| (name, value.trim_matches('"')));
    (Labels::new([("__name__", name)].into_iter().chain(pairs)), value.trim().parse().unwrap())
}

fn judge(series: &[Series]) -> Judged {
    judge_series(series, WINDOW, &Thresholds::default()).unwrap()
}

fn ms(intervals: &[Interval], gpu: &str) -> BTreeMap<Class, i64> {
    let of_gpu = intervals.iter().filter(|i| i.gpu == gpu);
    of_gpu.fold(BTreeMap::new(), |mut sums, i| {
        *sums.entry(i.class).or_default() += i.ms;
        sums
    })
}

const HELD: &str = "GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005";

#[test]
fn one_h100_of_eight_is_held_idle_by_a_pod() {
    let judged = judge(&recorded("dcgm-8xh100-aicr"));
    assert_eq!(judged.seen.len(), 8);
    for gpu in &judged.seen {
        let class = if gpu.gpu == HELD { Class::IdleHeld } else { Class::Unallocated };
        assert_eq!(ms(&judged.intervals, &gpu.gpu), BTreeMap::from([(class, 600_000)]), "{}", gpu.gpu);
    }
    let held = judged.intervals.iter().find(|i| i.gpu == HELD).unwrap();
    assert_eq!(held.owner.as_deref(), Some("dynamo-workload/vllm-agg-0-vllmdecodeworker-s65j5"));
    assert_eq!((held.node.as_str(), held.model.as_deref()), ("gpu-node-1", Some("NVIDIA H100 80GB HBM3")));
    assert_eq!(held.busy_signal.as_deref(), Some("gpu_utilization_and_power"));
    let bare = judged.intervals.iter().find(|i| i.gpu != HELD).unwrap();
    let power = &bare.evidence[0];
    assert_eq!((power.signal.as_str(), power.threshold), ("gpu_power", 95.0), "their power alone tells: {power:?}");
    assert!((65.0..72.0).contains(&power.value), "{power:?}");
    assert_eq!(judged.unjoined.len(), 8, "no host series in the scrape: {:?}", judged.unjoined);
    assert!(matches!(judged.unjoined[0], Unjoined::GpuWithoutHost { .. }));
}

/// The same node as Prometheus with `honorLabels` stores it: GPUs without a holder have the exporter's own pod.
#[test]
fn the_exporters_pod_does_not_hold_the_bare_ones() {
    let own = [("pod", "nvidia-dcgm-exporter-wqqqn"), ("namespace", "gpu-operator")];
    let mut series = recorded("dcgm-8xh100-aicr");
    for one in series.iter_mut().filter(|s| s.labels.get("pod").is_none()) {
        one.labels = Labels::new(one.labels.iter().chain(own));
    }
    assert_eq!(judge(&series).intervals, judge(&recorded("dcgm-8xh100-aicr")).intervals);
}

/// And the power by which a GPU without a pod is known to be held.
#[test]
fn power_alone_tells_a_held_h100() {
    let mut series = recorded("dcgm-8xh100-aicr");
    for one in &mut series {
        one.labels =
            Labels::new(one.labels.iter().filter(|(name, _)| !["pod", "namespace", "container"].contains(name)));
    }
    assert_eq!(ms(&judge(&series).intervals, HELD), BTreeMap::from([(Class::IdleHeld, 600_000)]));
}

/// Utilisation 91 %, graphics engine active 15.6 %: the latter is work.
#[test]
fn a_t4_at_91_percent_utilisation_works_for_a_sixth_of_the_time() {
    let judged = judge(&recorded("dcgm-t4-ericsson"));
    let sums = ms(&judged.intervals, "GPU-6d5c0ac5-74d7-3130-46f1-e93ed57f469a");
    assert_eq!(sums, BTreeMap::from([(Class::Productive, 93_720), (Class::Unexplained, 506_280)]));
    let productive = judged.intervals.iter().find(|i| i.class == Class::Productive).unwrap();
    assert_eq!(productive.busy_signal.as_deref(), Some("gr_engine_active"));
    let missing = &judged.missing["GPU-6d5c0ac5-74d7-3130-46f1-e93ed57f469a"];
    for signal in ["job_io_pressure", "node_io_pressure", "job_cpu_usage", "job_cpu_throttled_periods"] {
        assert!(missing.contains(signal), "{signal} of {missing:?}");
    }
}

/// A waiting collective: full utilisation at 155 W of 700 W. The same at 400 W works.
#[test]
fn full_utilisation_near_idle_power_is_not_work() {
    let at = |watts: f64| {
        let mut series = recorded("dcgm-8xh100-aicr");
        for one in series.iter_mut().filter(|s| s.labels.get("UUID") == Some(HELD)) {
            match one.labels.metric() {
                "DCGM_FI_DEV_POWER_USAGE" => one.samples.iter_mut().for_each(|s| s.value = watts),
                "DCGM_FI_DEV_GPU_UTIL" => one.samples.iter_mut().for_each(|s| s.value = 98.0),
                _ => {}
            }
        }
        ms(&judge(&series).intervals, HELD)
    };
    assert_eq!(at(155.0).get(&Class::Productive), None);
    assert_eq!(at(400.0)[&Class::Productive], 588_000);
}

/// One rank of eight works, at 400 W, and the others spin at 153 W: what 8xH100 nodes show while one rank saves.
#[test]
fn ranks_that_spin_wait_for_the_one_that_works() {
    let pod = [("namespace", "train"), ("pod", "llm-0"), ("container", "main")];
    let mut series = recorded("dcgm-8xh100-aicr");
    for one in series.iter_mut().filter(|s| s.labels.get("UUID").is_some()) {
        let others = one.labels.iter().filter(|(name, _)| pod.iter().all(|(own, _)| own != name));
        let labels = Labels::new(others.chain(pod));
        let watts = if labels.get("UUID") == Some(HELD) { 400.0 } else { 153.0 };
        match labels.metric() {
            "DCGM_FI_DEV_POWER_USAGE" => one.samples.iter_mut().for_each(|s| s.value = watts),
            "DCGM_FI_DEV_GPU_UTIL" => one.samples.iter_mut().for_each(|s| s.value = 98.0),
            _ => {}
        }
        one.labels = labels;
    }
    let judged = judge(&series);
    for gpu in &judged.seen {
        let class = if gpu.gpu == HELD { Class::Productive } else { Class::Straggler };
        assert_eq!(ms(&judged.intervals, &gpu.gpu).get(&class), Some(&588_000), "{}", gpu.gpu);
    }
    let charged = judged.intervals.iter().filter(|interval| interval.class == Class::Straggler);
    let culprits: BTreeSet<_> =
        charged.map(|interval| interval.charged_to.as_ref().unwrap().gpu.as_deref().unwrap()).collect();
    assert_eq!(culprits, BTreeSet::from([HELD]));
}

/// A job on four A100 at 60 s: for all of its 118 minutes one works at 94 to 133 W, and three hold a context and do
/// nothing. GPL data, read in place.
fn juwels() -> (Vec<Series>, Range<TimeMs>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/juwels-job/GPU_9482789_node.dat");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}: this test needs it", path.display()));
    let mut series: BTreeMap<(&str, &str), Vec<Sample>> = BTreeMap::new();
    for row in text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>()) {
        let number = |column: usize| row[column].parse::<f64>().unwrap();
        let time_ms = 1000 * number(1) as i64;
        let gigabytes = 1e9 / 1_048_576.0;
        let levels = [("GPU_UTIL", number(3)), ("FB_USED", number(4) * gigabytes), ("POWER_USAGE", number(5))];
        for (name, value) in levels {
            series.entry((row[2], name)).or_default().push(Sample { time_ms, value });
        }
    }
    let times = series.values().next().unwrap();
    let window = times[0].time_ms..times[times.len() - 1].time_ms;
    let labels = |(gpu, name): (&str, &str)| {
        let name = format!("DCGM_FI_DEV_{name}");
        let pairs = [("__name__", name.as_str()), ("UUID", gpu), ("Hostname", "jwb0021")];
        Labels::new(pairs.into_iter().chain([("modelName", "NVIDIA A100-SXM4-40GB")]))
    };
    (series.into_iter().map(|(key, samples)| Series { labels: labels(key), samples }).collect(), window)
}

#[test]
fn of_four_gpus_of_a_job_one_works_and_three_are_held_idle() {
    let (series, window) = juwels();
    let judged = judge_series(&series, window.clone(), &Thresholds::default()).unwrap();
    let length = (window.end - window.start) as f64;
    let share = |gpu, class| ms(&judged.intervals, gpu).get(&class).map_or(0.0, |ms| *ms as f64 / length);
    assert!(share("jwb0021_00", Class::Productive) > 0.95, "{:?}", ms(&judged.intervals, "jwb0021_00"));
    for gpu in ["jwb0021_01", "jwb0021_02", "jwb0021_03"] {
        assert_eq!(share(gpu, Class::IdleHeld), 1.0, "{gpu}: {:?}", ms(&judged.intervals, gpu));
    }
}

/// The same where dcgm-exporter knows the job, which had all four: three of its GPUs are never used.
#[test]
fn three_of_four_gpus_of_a_known_job_are_partial_allocation() {
    let (mut series, window) = juwels();
    for one in &mut series {
        one.labels = Labels::new(one.labels.iter().chain([("hpc_job", "9482789")]));
    }
    let judged = judge_series(&series, window.clone(), &Thresholds::default()).unwrap();
    let length = window.end - window.start;
    for gpu in ["jwb0021_01", "jwb0021_02", "jwb0021_03"] {
        assert_eq!(ms(&judged.intervals, gpu), BTreeMap::from([(Class::PartialAllocation, length)]), "{gpu}");
    }
    let working = ms(&judged.intervals, "jwb0021_00")[&Class::Productive];
    assert!(working as f64 > 0.95 * length as f64, "{working} ms of {length}");
}
