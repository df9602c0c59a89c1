//! Several series that tell the same thing, GPUs that move through names, and GPUs that vanish.

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Judged, Thresholds, judge_onward, judge_series};
use goodput_rules::frame::Unjoined;
use goodput_verdict::Class;

const HOUR: TimeMs = 3_600_000;
const GPU: &str = "GPU-1";

fn series(labels: &[(&str, &str)], samples: impl IntoIterator<Item = (TimeMs, f64)>) -> Series {
    let samples = samples.into_iter().map(|(time_ms, value)| Sample { time_ms, value }).collect();
    Series { labels: Labels::new(labels.iter().copied()), samples }
}

/// Busy for `share` of the time, scraped every 30 s from `phase` ms on.
fn busy(share: f64, phase: TimeMs, labels: &[(&str, &str)]) -> Vec<Series> {
    let all = |name| -> Vec<(&str, &str)> {
        [("__name__", name), ("UUID", GPU)].into_iter().chain(labels.iter().copied()).collect()
    };
    let times = || (0..120).map(move |i| i * 30_000 + phase);
    let seconds = |t: TimeMs| t as f64 / 1000.0;
    vec![
        series(&all("goodput_gpu_busy_seconds_total"), times().map(|t| (t, share * seconds(t)))),
        series(&all("goodput_gpu_observed_seconds_total"), times().map(|t| (t, seconds(t)))),
        series(&all("goodput_gpu_processes"), times().map(|t| (t, 1.0))),
    ]
}

fn judge(series: &[Series], window: std::ops::Range<TimeMs>) -> Judged {
    judge_series(series, window, &Thresholds::default()).unwrap()
}

fn total(judged: &Judged, class: Class) -> i64 {
    judged.intervals.iter().filter(|i| i.class == class).map(|i| i.ms).sum()
}

#[test]
fn replicas_are_one_gpu() {
    let mut both = busy(0.25, 0, &[("instance", "n1"), ("prometheus_replica", "a")]);
    let mut late = busy(0.25, 7_000, &[("instance", "n1"), ("prometheus_replica", "b")]);
    // Its busy time is 10 s old when it is scraped: next to the other's, the counter seems to fall again and again.
    late[0].samples.iter_mut().for_each(|s| s.value = (s.value - 0.25 * 10.0).max(0.0));
    both.extend(late);
    let judged = judge(&both, 600_000..1_200_000);
    assert_eq!((judged.coverage.total_ms, total(&judged, Class::Productive)), (600_000, 150_000));
}

#[test]
fn our_exporter_beside_dcgm_exporter_is_one_gpu() {
    let mut both = busy(0.25, 0, &[("instance", "n1:9400")]);
    let dcgm = [("__name__", "DCGM_FI_DEV_GPU_UTIL"), ("UUID", GPU), ("instance", "n1:9401")];
    both.push(series(&dcgm, (0..120).map(|i| (i * 30_000, 90.0))));
    let judged = judge(&both, 600_000..1_200_000);
    assert_eq!((judged.coverage.total_ms, total(&judged, Class::Productive)), (600_000, 150_000));
    assert_eq!(judged.coverage.by_busy_signal.keys().collect::<Vec<_>>(), ["gpu_busy"]);
}

/// A GPU that works for 0.6 of the time, in bursts between the scrapes, so that every power reading is an idle one.
fn bursts(energy: Option<f64>) -> Judged {
    let h100 = [("instance", "n1:9400"), ("modelName", "NVIDIA H100 80GB HBM3")];
    let mut all = busy(0.6, 0, &h100);
    let mut add = |name, value: &dyn Fn(TimeMs) -> f64| {
        let labels: Vec<_> = [("__name__", name), ("UUID", GPU)].into_iter().chain(h100).collect();
        all.push(series(&labels, (0..120).map(|i| (i * 30_000, value(i * 30_000)))));
    };
    add("DCGM_FI_DEV_POWER_USAGE", &|_| 115.0);
    if let Some(watts) = energy {
        add("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", &|time| watts * time as f64);
    }
    judge(&all, 600_000..1_200_000)
}

#[test]
fn the_energy_counter_speaks_for_power_between_scrapes() {
    assert_eq!(total(&bursts(Some(400.0)), Class::Productive), 360_000);
    assert_eq!(total(&bursts(Some(115.0)), Class::Productive), 0, "kernels that spin draw no power");
    assert_eq!(total(&bursts(None), Class::Productive), 0, "the gauge is all there is");
}

#[test]
fn two_dcgm_exporters_are_one_gpu() {
    let dcgm = |instance| {
        let labels = [("__name__", "DCGM_FI_DEV_GPU_UTIL"), ("UUID", GPU), ("Hostname", "n1"), ("instance", instance)];
        series(&labels, (0..120).map(|i| (i * 30_000, 40.0)))
    };
    let judged = judge(&[dcgm("n1:9400"), dcgm("n1:9401")], 600_000..1_200_000);
    assert_eq!((judged.coverage.total_ms, total(&judged, Class::Productive)), (600_000, 240_000));
}

#[test]
fn a_new_pod_label_is_not_a_new_gpu() {
    let util = |pod, from: TimeMs, to: TimeMs, value| {
        let labels = [
            ("__name__", "DCGM_FI_DEV_GPU_UTIL"),
            ("UUID", GPU),
            ("Hostname", "n1"),
            ("namespace", "ml"),
            ("pod", pod),
        ];
        let marker = (to, f64::from_bits(goodput_exposition::sample::STALE_BITS));
        series(&labels, (from / 30_000..to / 30_000).map(|i| (i * 30_000, value)).chain([marker]))
    };
    let judged = judge(&[util("a", 0, 300_000, 100.0), util("b", 300_000, 900_000, 50.0)], 0..600_000);
    assert_eq!((judged.coverage.total_ms, judged.coverage.known_ms), (600_000, 600_000));
    assert_eq!(total(&judged, Class::Productive), 450_000);
    let owners: Vec<_> = judged.intervals.iter().map(|i| (i.owner.as_deref(), i.class, i.ms)).collect();
    assert_eq!(owners[0], (Some("ml/a"), Class::Productive, 300_000));
    assert_eq!(owners[1], (Some("ml/b"), Class::Productive, 150_000));
}

#[test]
fn two_owners_share_a_gpu_and_both_are_shown() {
    let mut all = busy(0.5, 0, &[("instance", "n1")]);
    for owner in ["a", "b"] {
        let labels = [("__name__", "goodput_gpu_owner_info"), ("UUID", GPU), ("instance", "n1"), ("owner", owner)];
        all.push(series(&labels, (0..120).map(|i| (i * 30_000, 1.0))));
    }
    let judged = judge(&all, 600_000..660_000);
    let of =
        |owner| -> i64 { judged.intervals.iter().filter(|i| i.owner.as_deref() == Some(owner)).map(|i| i.ms).sum() };
    assert_eq!((of("a"), of("b"), total(&judged, Class::Productive)), (30_000, 30_000, 30_000));
}

#[test]
fn an_exporter_that_restarted_in_a_gap_knows_nothing_of_it() {
    let restart = 600_000;
    let mut all = busy(0.5, 0, &[("instance", "n1")]);
    for one in &mut all {
        one.samples.retain(|s| !(90_000..900_000).contains(&s.time_ms));
        if one.labels.metric() != "goodput_gpu_processes" {
            let lost = one.samples.iter_mut().filter(|s| s.time_ms >= restart);
            lost.for_each(|s| s.value *= 1.0 - restart as f64 / s.time_ms as f64);
        }
        let values: Vec<f64> = one.samples.iter().map(|s| s.value).collect();
        assert!(values.is_sorted(), "the counters do not give the restart away by falling: {values:?}");
    }
    assert_eq!(total(&judge(&all, 120_000..840_000), Class::NoData), 720_000);
}

#[test]
fn a_gpu_that_hangs_is_not_known_whatever_its_frozen_counters_say() {
    let hangs = 600_000..900_000;
    let mut all = busy(0.5, 0, &[("instance", "n1")]);
    for one in &mut all[..2] {
        let frozen = one.samples.iter().find(|s| s.time_ms >= hangs.start).unwrap().value;
        let lost = one.samples.iter().find(|s| s.time_ms >= hangs.end).unwrap().value - frozen;
        for sample in one.samples.iter_mut().filter(|s| s.time_ms > hangs.start) {
            sample.value = if sample.time_ms <= hangs.end { frozen } else { sample.value - lost };
        }
    }
    all[2].samples.retain(|s| !hangs.contains(&s.time_ms));
    let judged = judge(&all, 540_000..960_000);
    assert_eq!(total(&judged, Class::NoData), 300_000);
    assert_eq!(total(&judged, Class::Productive), 60_000);
}

#[test]
fn a_gpu_without_any_name_is_counted_and_reported() {
    let judged = judge(&busy(0.5, 0, &[]), 0..600_000);
    assert_eq!(judged.intervals[0].node, goodput_rules::frame::UNJOINED_NODE);
    assert_eq!(judged.unjoined, [Unjoined::GpuWithoutNode { gpu: GPU.to_owned() }]);
}

#[test]
fn a_vanished_gpu_stays_in_capacity_for_a_day() {
    let all = busy(0.5, 0, &[("instance", "n1"), ("Hostname", "n1")]);
    let judged = judge(&all, 0..48 * HOUR);
    let hours = judged.coverage.total_ms / HOUR;
    assert_eq!((hours, judged.seen.len()), (25, 0), "its hour, and the 24 that begin within a day of its last sample");
    assert_eq!(judged.coverage.known_ms, 119 * 30_000 + 30_000);
}

#[test]
fn a_gpu_counts_from_its_first_hour_on() {
    let mut all = busy(0.5, 0, &[("instance", "n1"), ("Hostname", "n1")]);
    all.iter_mut().flat_map(|s| &mut s.samples).for_each(|s| s.time_ms += 2 * HOUR + HOUR / 2);
    let judged = judge(&all, 0..4 * HOUR);
    assert_eq!((judged.intervals[0].start_ms, judged.coverage.total_ms), (2 * HOUR, 2 * HOUR));
    assert_eq!((judged.intervals[0].class, judged.intervals[0].ms), (Class::NoData, HOUR / 2));
}

#[test]
fn what_was_seen_is_handed_on() {
    let all = busy(0.5, 0, &[("instance", "n1"), ("Hostname", "n1")]);
    let first = judge(&all, 0..HOUR);
    let later = judge_onward(&[], &first.seen, 5 * HOUR..6 * HOUR, &Thresholds::default()).unwrap();
    assert_eq!(total(&later, Class::NoData), HOUR);
    assert_eq!(later.seen, first.seen);
}

/// A pod that waits for its CPU quota in two fifths of all periods, with dcgm-exporter for its GPU, and cAdvisor for all else.
#[test]
fn cadvisor_tells_of_pods_that_are_throttled() {
    let pod = [("namespace", "ml"), ("pod", "train-0")];
    let gpu = [("UUID", GPU), ("Hostname", "n1"), ("instance", "n1:9400")];
    let rate = |per_second: f64| move |i: i64| per_second * 30.0 * i as f64;
    let all = |name, labels: &[&[(&str, &str)]], value: &dyn Fn(i64) -> f64| {
        let labels: Vec<_> =
            [&[("__name__", name)][..]].into_iter().chain(labels.iter().copied()).flatten().copied().collect();
        series(&labels, (0..120).map(|i| (i * 30_000, value(i))))
    };
    let cgroup = |container: &'static [(&str, &str)], share: f64| {
        let of = |name, value| all(name, &[&pod, container, &[("instance", "n1:10250")]], value);
        [
            of("container_cpu_cfs_periods_total", &rate(10.0)),
            of("container_cpu_cfs_throttled_periods_total", &rate(10.0 * share)),
            of("container_cpu_cfs_throttled_seconds_total", &rate(4.0 * share)),
        ]
    };
    let judged = |containers: Vec<Series>| {
        let gpu = [all("DCGM_FI_DEV_GPU_UTIL", &[&gpu, &pod], &|_| 60.0)];
        judge(&gpu.into_iter().chain(containers).collect::<Vec<_>>(), 600_000..1_200_000)
    };
    let throttled = judged([cgroup(&[("container", "main")], 0.4), cgroup(&[], 0.4)].concat());
    assert_eq!(total(&throttled, Class::CpuThrottled), 240_000, "{:#?}", throttled.intervals);
    let interval = throttled.intervals.iter().find(|i| i.class == Class::CpuThrottled).unwrap();
    let ratio = interval.evidence.iter().find(|fact| fact.unit == "ratio").unwrap();
    assert!((ratio.value - 0.4).abs() < 1e-9, "{ratio:?}");
    let other = judged(cgroup(&[("container", "POD")], 0.4).to_vec());
    assert_eq!(total(&other, Class::CpuThrottled), 0, "that of the pod's network is nobody's work");
    let unthrottled = judged(cgroup(&[("container", "main")], 0.0).to_vec());
    assert_eq!(total(&unthrottled, Class::CpuThrottled), 0);
}
