//! Properties of the ledger over random series: sums are exact, and hours judged one by one are a week judged at once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use goodput_exposition::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use goodput_rules::classify::{Thresholds, judge_onward, judge_series};
use goodput_verdict::{Class, Interval};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const HOUR: TimeMs = 3_600_000;

/// A metric, its other labels, whether it counts, and the values that its steps or levels are of.
type Shape = (&'static str, &'static [(&'static str, &'static str)], bool, f64);

const JOB: (&str, &str) = ("owner", "train");
const MODEL: (&str, &str) = ("modelName", "NVIDIA H100 80GB HBM3");
const THIRD: (&str, &str) = ("GPU_I_PROFILE", "3g.40gb");
const SHAPES: &[Shape] = &[
    ("goodput_gpu_busy_seconds_total", &[("UUID", "GPU-1")], true, 30.0),
    ("goodput_gpu_observed_seconds_total", &[("UUID", "GPU-1")], true, 30.0),
    ("goodput_gpu_processes", &[("UUID", "GPU-1")], false, 2.0),
    ("goodput_gpu_owner_info", &[("UUID", "GPU-1"), ("owner", "train")], false, 1.0),
    ("goodput_gpu_owner_info", &[("UUID", "GPU-1"), ("owner", "other")], false, 1.0),
    ("goodput_gpu_owner_info", &[("UUID", "GPU-2"), ("owner", "train")], false, 1.0),
    ("goodput_gpu_numa_info", &[("UUID", "GPU-1"), ("node", "0")], false, 1.0),
    ("goodput_gpu_numa_info", &[("UUID", "GPU-2"), ("node", "1")], false, 1.0),
    ("goodput_gpu_numa_allowed_cpus", &[("UUID", "GPU-1"), ("node", "1")], false, 40.0),
    ("goodput_gpu_numa_allowed_cpus", &[("UUID", "GPU-2"), ("node", "1")], false, 40.0),
    ("goodput_cgroup_numa_anon_shmem_bytes", &[JOB, ("node", "0")], false, 9.0e9),
    ("DCGM_FI_DEV_GPU_UTIL", &[("UUID", "GPU-1"), MODEL], false, 110.0),
    ("DCGM_FI_DEV_POWER_USAGE", &[("UUID", "GPU-1"), MODEL], false, 700.0),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", &[("UUID", "GPU-1"), MODEL], true, 2.1e7),
    ("DCGM_FI_DEV_GPU_UTIL", &[("UUID", "GPU-2"), ("Hostname", "n1"), ("pod", "p"), MODEL], false, 110.0),
    ("DCGM_FI_DEV_FB_USED", &[("UUID", "GPU-2"), MODEL], false, 600.0),
    ("DCGM_FI_PROF_SM_ACTIVE", &[("UUID", "GPU-1"), MODEL], false, 1.0),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", &[("UUID", "GPU-1"), MODEL], false, 9.0e9),
    ("goodput_cgroup_memory_oom_kills_total", &[JOB], true, 1.0),
    ("DCGM_FI_DEV_SM_CLOCK", &[("UUID", "GPU-1"), MODEL], false, 2000.0),
    ("DCGM_FI_DEV_SM_CLOCK", &[("UUID", "GPU-2"), MODEL], false, 12.0),
    ("goodput_gpu_clock_event_seconds_total", &[("UUID", "GPU-1"), ("reason", "hw_thermal")], true, 30.0),
    ("goodput_gpu_clock_event_seconds_total", &[("UUID", "GPU-2"), ("reason", "hw_thermal")], true, 30.0),
    ("goodput_gpu_clock_event_seconds_total", &[("UUID", "GPU-1"), ("reason", "hw_power_brake")], true, 30.0),
    ("goodput_gpu_state", &[("UUID", "GPU-3"), ("state", "lost")], false, 0.6),
    ("goodput_gpu_clock_event_seconds_total", &[("UUID", "GPU-2"), ("reason", "power_cap")], true, 0.1),
    ("DCGM_FI_DEV_PCIE_LINK_GEN", &[("UUID", "GPU-1"), MODEL], false, 3.0),
    ("DCGM_FI_DEV_PCIE_LINK_WIDTH", &[("UUID", "GPU-1"), MODEL], false, 16.0),
    ("DCGM_FI_DEV_PCIE_MAX_LINK_GEN", &[("UUID", "GPU-1"), MODEL], false, 5.0),
    ("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", &[("UUID", "GPU-1"), MODEL], false, 16.0),
    ("goodput_cpu_seconds_total", &[("mode", "softirq"), ("node", "0")], true, 600.0),
    ("goodput_cpu_busiest_softirq_seconds_total", &[], true, 600.0),
    ("goodput_irq_movable_interrupts_total", &[], true, 60.0),
    ("goodput_irq_owner_cpus_interrupts_total", &[JOB], true, 600.0),
    ("goodput_compaction_stalls_total", &[], true, 6000.0),
    ("vllm:num_requests_running", &[JOB], false, 0.3),
    ("vllm:num_requests_waiting", &[JOB], false, 0.3),
    ("vllm:iteration_tokens_total_count", &[JOB], true, 600.0),
    ("vllm:inter_token_latency_seconds_count", &[JOB], true, 6000.0),
    ("vllm:inter_token_latency_seconds_sum", &[JOB], true, 60.0),
    ("vllm:request_prefill_time_seconds_sum", &[JOB], true, 2.0),
    ("vllm:e2e_request_latency_seconds_sum", &[JOB], true, 60.0),
    ("vllm:request_queue_time_seconds_sum", &[JOB], true, 2.0),
    ("vllm:request_inference_time_seconds_sum", &[JOB], true, 20.0),
    ("sglang:realtime_tokens_total", &[JOB, ("mode", "prefill_compute")], true, 6000.0),
    ("sglang:prefill_effective_tokens_total", &[JOB, ("mode", "input")], true, 3000.0),
    ("sglang:forward_execution_seconds_total", &[JOB, ("category", "extend")], true, 10.0),
    ("kube_node_spec_unschedulable", &[("node", "n1")], false, 0.6),
    ("goodput_driver_daemon_running", &[("daemon", "nvidia-cuda-mps-control")], false, 0.4),
    ("goodput_cgroup_cpu_usage_seconds_total", &[("owner", "other")], true, 600.0),
    ("goodput_node_info", &[("nodename", "n1")], false, 1.0),
    ("goodput_pressure_waiting_seconds_total", &[("resource", "io")], true, 30.0),
    ("goodput_node_cpu_seconds_total", &[("mode", "user")], true, 60.0),
    ("goodput_node_cpu_seconds_total", &[("mode", "steal")], true, 10.0),
    ("goodput_node_cpu_seconds_total", &[("mode", "idle")], true, 3000.0),
    ("goodput_node_cpu_seconds_total", &[("mode", "iowait")], true, 10.0),
    ("goodput_cgroup_pressure_waiting_seconds_total", &[JOB, ("resource", "io")], true, 30.0),
    ("goodput_cgroup_pressure_waiting_seconds_total", &[JOB, ("resource", "cpu")], true, 30.0),
    ("goodput_cgroup_pressure_waiting_seconds_total", &[JOB, ("resource", "memory")], true, 30.0),
    ("goodput_cgroup_io_written_bytes_total", &[JOB], true, 9.0e9),
    ("goodput_cgroup_refault_pages_total", &[JOB, ("kind", "file")], true, 6000.0),
    ("goodput_cgroup_cpu_usage_seconds_total", &[JOB], true, 60.0),
    ("goodput_cgroup_allowed_cpus", &[JOB], false, 4.0),
    ("goodput_cgroup_cpu_periods_total", &[JOB], true, 300.0),
    ("goodput_cgroup_cpu_throttled_periods_total", &[JOB], true, 300.0),
    ("goodput_cgroup_cpu_throttled_seconds_total", &[JOB], true, 6.0),
];
/// A GPU that is cut up; what its instances do is drawn with the first shapes.
const CUT: &[Shape] = &[
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &[("UUID", "GPU-4"), ("GPU_I_ID", "1"), THIRD, MODEL], false, 1.0),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &[("UUID", "GPU-4"), ("GPU_I_ID", "2"), THIRD, MODEL], false, 1.0),
    ("DCGM_FI_DEV_FB_USED", &[("UUID", "GPU-4"), ("GPU_I_ID", "2"), THIRD, MODEL], false, 600.0),
];

const SECOND: (&str, &str) = ("instance", "i2");
const PORT: [(&str, &str); 2] = [("device", "mlx5_0"), ("port", "1")];
/// A port of the node, another node on which the same owner holds a GPU, and a limit on what it reads; they are drawn with the
/// first shapes.
const NETWORK: &[Shape] = &[
    ("goodput_rdma_port_speed_bytes", &PORT, false, 5e10),
    ("goodput_rdma_sent_bytes_total", &PORT, true, 3e11),
    ("goodput_rdma_transport_events_total", &[PORT[0], PORT[1], ("kind", "local_ack_timeout_err")], true, 3.0),
    ("goodput_node_info", &[SECOND, ("nodename", "n2")], false, 1.0),
    ("goodput_gpu_owner_info", &[SECOND, ("UUID", "GPU-5"), JOB], false, 1.0),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &[SECOND, ("UUID", "GPU-5"), MODEL], false, 1.0),
    ("DCGM_FI_PROF_DRAM_ACTIVE", &[SECOND, ("UUID", "GPU-5"), MODEL], false, 1.0),
    ("goodput_cgroup_cpu_usage_seconds_total", &[SECOND, JOB], true, 3.0),
    ("goodput_rdma_port_speed_bytes", &[SECOND, PORT[0], PORT[1]], false, 5e10),
    ("goodput_rdma_sent_bytes_total", &[SECOND, PORT[0], PORT[1]], true, 3e11),
    ("goodput_cgroup_io_read_bytes_total", &[JOB], true, 3.0e9),
    ("goodput_cgroup_io_limit_bytes", &[JOB, ("device", "nvme0n1"), ("direction", "read")], false, 1.0e8),
];

/// A sample: time since the last, in seconds, and what happens. Most gaps are scrapes, some are holes.
fn step() -> impl Strategy<Value = (i64, f64)> {
    let gap = prop_oneof![200 => 20i64..40, 1 => 60i64..400, 1 => 400i64..4000];
    let value = prop_oneof![40 => 0.0f64..1.0, 1 => Just(f64::NAN), 1 => Just(-1.0), 1 => Just(9.0e18)];
    (gap, value)
}

/// How lively the whole series is: some never move, some a little.
fn liveliness() -> impl Strategy<Value = f64> {
    prop_oneof![1 => Just(0.0), 1 => Just(0.1), 2 => Just(1.0)]
}

fn series_of(shape: &Shape, steps: &[(i64, f64)], start: TimeMs, lively: f64) -> Series {
    let (name, labels, counts, scale) = shape;
    let scale = scale * lively;
    let (mut time_ms, mut total, mut samples) = (start, 0.0, Vec::new());
    for (gap, x) in steps {
        time_ms += gap * 1000;
        let value = match x {
            x if x.is_nan() => f64::from_bits(STALE_BITS),
            // A counter starts again, a gauge shows a blank value.
            x if *x < 0.0 || *x > 1.0 => {
                total = 0.0;
                if *counts { 0.0 } else { *x }
            }
            x => {
                total += x * scale;
                if *counts { total } else { (x * scale).round() }
            }
        };
        samples.push(Sample { time_ms, value });
    }
    let target = [("__name__", *name), ("job", "j"), ("instance", "i")].into_iter();
    let target = target.filter(|(label, _)| !labels.iter().any(|(own, _)| own == label));
    let all = target.chain(labels.iter().copied());
    Series { labels: Labels::new(all), samples }
}

fn series() -> impl Strategy<Value = Vec<Series>> {
    let samples = prop_oneof![1 => prop::collection::vec(step(), 2..100), 3 => prop::collection::vec(step(), 100..300)];
    let one = (prop::bool::weighted(0.98), liveliness(), 0i64..3_000, samples);
    // Some nodes have an exporter of GPUs and nothing else; some jobs are servers that report how long they had requests.
    let kinds = (prop::bool::weighted(0.9), prop::bool::weighted(0.3));
    (kinds, prop::collection::vec(one, SHAPES.len())).prop_map(|((watched, serves), all)| {
        let is_of_host = |name: &str| {
            ["goodput_node_", "goodput_pressure_", "goodput_cgroup_"].iter().any(|start| name.starts_with(start))
        };
        let present =
            SHAPES.iter().chain(CUT).chain(NETWORK).zip(all.iter().cycle()).filter(|(_, (present, ..))| *present);
        let is_clock =
            |name: &str| name.starts_with("sglang:") || name.starts_with("vllm:") && !name.contains("num_requests");
        let present = present.filter(|((name, ..), _)| watched || !is_of_host(name));
        let present = present.filter(|((name, ..), _)| serves || !is_clock(name));
        present.map(|(shape, (_, lively, start, steps))| series_of(shape, steps, start * 1000, *lively)).collect()
    })
}

fn by_gpu(intervals: &[Interval]) -> BTreeMap<&str, Vec<&Interval>> {
    let mut gpus: BTreeMap<&str, Vec<&Interval>> = BTreeMap::new();
    intervals.iter().for_each(|i| gpus.entry(&i.gpu).or_default().push(i));
    gpus
}

/// The hours that the window touches.
fn hours(window: &Range<TimeMs>) -> impl Iterator<Item = Range<TimeMs>> {
    let window = window.clone();
    (window.start.div_euclid(HOUR)..=(window.end - 1).div_euclid(HOUR))
        .map(move |h| (h * HOUR).max(window.start)..((h + 1) * HOUR).min(window.end))
}

/// The properties below hold for every class only if random series bring every class about.
#[test]
fn random_series_reach_every_class() {
    let mut runner = TestRunner::deterministic();
    let mut unreached: BTreeSet<Class> = Class::ALL.iter().copied().collect();
    for _ in 0..1024 {
        if unreached.is_empty() {
            break;
        }
        let series = series().new_tree(&mut runner).unwrap().current();
        let judged = judge_series(&series, HOUR..2 * HOUR, &Thresholds::default()).unwrap();
        judged.intervals.iter().for_each(|i| {
            unreached.remove(&i.class);
        });
    }
    assert!(unreached.is_empty(), "{unreached:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_millisecond_of_a_gpu_is_booked_once(series in series(), start in 0i64..3 * HOUR, length in 1i64..3 * HOUR) {
        let window = start..start + length;
        let judged = judge_series(&series, window.clone(), &Thresholds::default()).unwrap();
        for (gpu, intervals) in by_gpu(&judged.intervals) {
            let first = intervals.iter().map(|i| i.start_ms).min().unwrap();
            let booked: i64 = intervals.iter().map(|i| i.ms).sum();
            prop_assert_eq!(booked, window.end - first, "{}", gpu);
            for hour in hours(&(first..window.end)) {
                let inside = intervals.iter().filter(|i| hour.start <= i.start_ms && i.end_ms <= hour.end);
                prop_assert_eq!(inside.map(|i| i.ms).sum::<i64>(), hour.end - hour.start, "{} in {:?}", gpu, hour);
            }
            prop_assert!(intervals.iter().all(|i| 0 < i.ms && i.ms <= i.end_ms - i.start_ms));
            prop_assert!(intervals.iter().all(|i| (0.0..=1.0).contains(&i.confidence)));
            let mut energy = intervals.iter().filter_map(|i| Some((i.ms, i.energy?)));
            prop_assert!(energy.all(|(ms, e)| e.mj >= 0 && 0 < e.ms && e.ms <= ms && e.counted_ms <= e.ms));
            prop_assert!(intervals.iter().flat_map(|i| &i.evidence).all(|e| e.value.is_finite() && e.threshold.is_finite()));
        }
        for advisory in &judged.advisories {
            prop_assert!(window.start <= advisory.start_ms && advisory.start_ms < advisory.end_ms && advisory.end_ms <= window.end);
            prop_assert!(advisory.evidence.iter().all(|e| e.value.is_finite()) && !advisory.evidence.is_empty());
        }
    }

    #[test]
    fn hour_by_hour_is_the_same_as_at_once(series in series()) {
        let window = 0..5 * HOUR;
        let once = judge_series(&series, window.clone(), &Thresholds::default()).unwrap();
        let (mut intervals, mut advisories) = (Vec::new(), Vec::new());
        let (mut unjoined, mut seen) = (BTreeSet::new(), Vec::new());
        for hour in hours(&window) {
            let judged = judge_onward(&series, &seen, hour, &Thresholds::default()).unwrap();
            intervals.extend(judged.intervals);
            advisories.extend(judged.advisories);
            unjoined.extend(judged.unjoined);
            seen = judged.seen;
        }
        intervals.sort_by(|a, b| (&a.gpu, a.start_ms / HOUR).cmp(&(&b.gpu, b.start_ms / HOUR)));
        advisories.sort_by(|a, b| (&a.gpu, a.start_ms / HOUR).cmp(&(&b.gpu, b.start_ms / HOUR)));
        prop_assert_eq!(intervals, once.intervals);
        prop_assert_eq!(advisories, once.advisories);
        prop_assert_eq!(unjoined.into_iter().collect::<Vec<_>>(), once.unjoined);
        prop_assert_eq!(seen, once.seen);
    }

    #[test]
    fn the_order_of_the_series_does_not_matter(series in series(), turn in 0..SHAPES.len()) {
        let mut turned = series.clone();
        turned.rotate_left(turn % series.len().max(1));
        let judge = |s: &[Series]| judge_series(s, 0..2 * HOUR, &Thresholds::default()).unwrap();
        prop_assert_eq!(judge(&series), judge(&turned));
    }
}
