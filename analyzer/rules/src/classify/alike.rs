//! Waiting that is the same in every cell, on the GPUs of one owner: what shows it, and what looks like it.

use super::{Class, Thresholds, judge_series};
use goodput_exposition::sample::{Labels, Sample, Series};

const HOUR: i64 = 3_600_000;
const STEP: i64 = 15_000;

/// What a GPU does from before the hour until after it.
#[derive(Clone, Copy)]
struct Rank {
    engine: f64,
    tensor: f64,
    dram: f64,
    /// Power at odd and at even scrapes, in watts.
    watts: [f64; 2],
}

const WORK: Rank = Rank { engine: 0.98, tensor: 0.39, dram: 0.35, watts: [520.0, 520.0] };

fn one(labels: &[(&str, &str)], value: impl Fn(i64) -> f64) -> Series {
    let base = [("instance", "n:9400"), ("job", "gpu")];
    let sample = |n: i64| Sample { time_ms: n * STEP, value: value(n) };
    let samples = (-HOUR / STEP..2 * HOUR / STEP).map(sample).collect();
    Series { labels: Labels::new(labels.iter().copied().chain(base)), samples }
}

fn gpu(index: usize, model: &str, rank: Rank) -> Vec<Series> {
    let (gpu, uuid) = (index.to_string(), format!("GPU-{index}"));
    let mean = (rank.watts[0] + rank.watts[1]) / 2.0;
    let named = |name, value: &dyn Fn(i64) -> f64| {
        let of_gpu = [("__name__", name), ("gpu", &*gpu), ("UUID", &*uuid), ("Hostname", "n"), ("modelName", model)];
        one(&[&of_gpu[..], &[("namespace", "ml"), ("pod", "train")]].concat(), value)
    };
    vec![
        named("DCGM_FI_DEV_GPU_UTIL", &|_| (100.0 * rank.engine).round()),
        named("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &|_| rank.engine),
        named("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", &|_| rank.tensor),
        named("DCGM_FI_PROF_DRAM_ACTIVE", &|_| rank.dram),
        named("DCGM_FI_DEV_POWER_USAGE", &|n| rank.watts[n.rem_euclid(2) as usize]),
        named("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", &|n| 4e9 + mean * (n * STEP) as f64),
        named("DCGM_FI_DEV_FB_USED", &|_| 50_000.0),
    ]
}

/// Shares of the hour, of each GPU by class. Each rank keeps a CPU busy.
fn judged(model: &str, ranks: &[Rank]) -> Vec<Vec<(Class, f64)>> {
    let mut series: Vec<Series> = ranks.iter().enumerate().flat_map(|(n, rank)| gpu(n, model, *rank)).collect();
    let cores = ranks.len() as f64;
    let used = [("__name__", "goodput_cgroup_cpu_usage_seconds_total"), ("owner", "ml/train")];
    series.push(one(&used, |n| 1e6 + cores * (n * STEP) as f64 / 1e3));
    series.push(one(&[("__name__", "goodput_node_info"), ("nodename", "n")], |_| 1.0));
    let intervals = judge_series(&series, 0..HOUR, &Thresholds::default()).unwrap().intervals;
    let share = |gpu: usize, class: Class| {
        let own = intervals.iter().filter(|i| i.gpu == format!("GPU-{gpu}") && i.class == class);
        (class, own.map(|i| i.ms).sum::<i64>() as f64 / HOUR as f64)
    };
    let of_gpu = |gpu| Class::ALL.iter().map(|class| share(gpu, *class)).filter(|(_, share)| *share > 0.0).collect();
    (0..ranks.len()).map(of_gpu).collect()
}

fn share(told: &[(Class, f64)], classes: &[Class]) -> f64 {
    told.iter().filter(|(class, _)| classes.contains(class)).map(|(_, share)| share).sum()
}

const WAITING: [Class; 2] = [Class::CollectiveWait, Class::Straggler];

#[test]
fn ranks_that_do_the_work_of_a_late_one_in_more_time_waited_for_it() {
    let late = Rank { engine: 0.6, tensor: 0.24, dram: 0.2, watts: [380.0; 2] };
    let spins = Rank { engine: 0.98, tensor: 0.24, dram: 0.21, watts: [400.0; 2] };
    let told = judged("NVIDIA H200", &[late, spins, spins, spins]);
    assert!(told[1..].iter().all(|told| (share(told, &WAITING) - 0.38).abs() < 0.02), "{told:?}");
    assert_eq!(share(&told[0], &WAITING), 0.0);
    assert!((share(&told[0], &[Class::Productive]) - 0.6).abs() < 0.02, "{told:?}");
}

#[test]
fn ranks_that_do_more_in_more_time_did_not_wait() {
    let late = Rank { engine: 0.6, tensor: 0.24, dram: 0.2, watts: [380.0; 2] };
    let told = judged("NVIDIA H200", &[late, WORK, WORK, WORK]);
    assert!(told.iter().all(|told| share(told, &WAITING) == 0.0), "{told:?}");
}

#[test]
fn power_that_swings_between_work_and_spinning_on_all_ranks_is_waiting() {
    let swings = Rank { tensor: 0.2, dram: 0.2, watts: [520.0, 170.0], ..WORK };
    let told = judged("NVIDIA H200", &[swings; 4]);
    assert!(told.iter().all(|told| (share(told, &WAITING) - 0.5).abs() < 0.05), "{told:?}");
    let alone = judged("NVIDIA H200", &[swings]);
    assert_eq!(share(&alone[0], &WAITING), 0.0, "{alone:?}");
}

#[test]
fn power_that_swings_between_kinds_of_work_is_no_waiting() {
    let swings = Rank { watts: [520.0, 350.0], ..WORK };
    let told = judged("NVIDIA H200", &[swings; 4]);
    assert!(told.iter().all(|told| share(told, &WAITING) == 0.0), "{told:?}");
}

#[test]
fn boards_that_spin_at_different_power_hang_alike_and_none_is_named() {
    for (model, watts) in
        [("NVIDIA H100 80GB HBM3", [140.0, 205.0]), ("NVIDIA L40S", [95.0, 140.0]), ("NVIDIA B200", [230.0, 320.0])]
    {
        let spins = |watts| Rank { engine: 1.0, tensor: 0.0, dram: 0.02, watts: [watts; 2] };
        let told = judged(model, &[spins(watts[0]), spins(watts[1]), spins(watts[0]), spins(watts[1])]);
        assert!(told.iter().all(|told| share(told, &[Class::CollectiveWait]) > 0.99), "{model}: {told:?}");
    }
}

#[test]
fn kernels_that_leave_tensor_cores_and_memory_and_draw_power_work() {
    let computes = Rank { tensor: 0.0, dram: 0.02, ..WORK };
    let told = judged("NVIDIA H100 80GB HBM3", &[computes; 4]);
    assert!(told.iter().all(|told| share(told, &WAITING) == 0.0), "{told:?}");
}
