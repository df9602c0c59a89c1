//! Why batches are late, where only node_exporter reports CPUs and waiting: one regime for half an hour, then another.

use super::{Class, Thresholds, judge_series};
use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};

const HOUR: i64 = 3_600_000;
const STEP: i64 = 15_000;
const CPUS: f64 = 128.0;

/// What a node with one GPU does for half an hour.
#[derive(Clone, Copy)]
struct Regime {
    busy: f64,
    cores: f64,
    iowait: f64,
    io_pressure: f64,
    cpu_pressure: f64,
}

/// 24 loaders that compute for most of their time.
const PREPARES: Regime = Regime { busy: 0.45, cores: 22.0, iowait: 1.0, io_pressure: 0.93, cpu_pressure: 0.01 };
/// The same loaders, which wait for reads for most of it.
const READS: Regime = Regime { busy: 0.44, cores: 7.0, iowait: 1.0, io_pressure: 0.99, cpu_pressure: 0.01 };
/// The same where they keep up.
const FED: Regime = Regime { busy: 0.97, cores: 12.0, iowait: 0.4, io_pressure: 0.4, cpu_pressure: 0.01 };

fn series(labels: &[(&str, &str)], value: impl Fn(TimeMs) -> f64) -> Series {
    let sample = |n: i64| Sample { time_ms: n * STEP, value: value(n * STEP) };
    let samples = (-HOUR / STEP..2 * HOUR / STEP).map(sample).collect();
    Series { labels: Labels::new(labels.iter().copied()), samples }
}

fn node([before, after]: [Regime; 2]) -> Vec<Series> {
    let half = HOUR / 2;
    let at = |time: TimeMs, of: fn(&Regime) -> f64| of(if time < half { &before } else { &after });
    let total = |time: TimeMs, of: fn(&Regime) -> f64| {
        1e6 + (of(&before) * time.min(half) as f64 + of(&after) * (time - half).max(0) as f64) / 1e3
    };
    let of_gpu = |name, value: &dyn Fn(TimeMs) -> f64| {
        let model = ("modelName", "NVIDIA H200");
        let target = [("job", "dcgm"), ("instance", "n:9400"), ("namespace", "ml"), ("pod", "train")];
        let labels = [("__name__", name), ("gpu", "0"), ("UUID", "GPU-0"), ("Hostname", "n"), model];
        series(&[&labels[..], &target].concat(), value)
    };
    let of_node = |name, mode: &[(&'static str, &'static str)], value: &dyn Fn(TimeMs) -> f64| {
        series(&[&[("__name__", name), ("job", "node"), ("instance", "n:9100")], mode].concat(), value)
    };
    let cpu = |mode, of: fn(&Regime) -> f64| {
        of_node("node_cpu_seconds_total", &[("cpu", "0"), ("mode", mode)], &|time| total(time, of))
    };
    let pressure = |name, of: fn(&Regime) -> f64| of_node(name, &[], &|time| total(time, of));
    vec![
        of_gpu("DCGM_FI_DEV_GPU_UTIL", &|time| (100.0 * at(time, |r| r.busy)).round()),
        of_gpu("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &|time| at(time, |r| r.busy)),
        of_gpu("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", &|time| 0.4 * at(time, |r| r.busy)),
        of_gpu("DCGM_FI_PROF_DRAM_ACTIVE", &|time| 0.4 * at(time, |r| r.busy)),
        of_gpu("DCGM_FI_DEV_POWER_USAGE", &|time| {
            // A gauge of a board at work never stands still.
            100.0 + 450.0 * at(time, |r| r.busy) + (time / STEP).rem_euclid(7) as f64
        }),
        of_gpu("DCGM_FI_DEV_FB_USED", &|_| 50_000.0),
        of_node("node_uname_info", &[("nodename", "n")], &|_| 1.0),
        of_node("node_disk_read_bytes_total", &[("device", "nvme0n1")], &|time| total(time, |r| 5e8 * r.busy)),
        cpu("user", |r| r.cores),
        cpu("iowait", |r| r.iowait),
        cpu("steal", |_| 0.0),
        cpu("idle", |r| CPUS - r.cores - r.iowait),
        pressure("node_pressure_io_waiting_seconds_total", |r| r.io_pressure),
        pressure("node_pressure_cpu_waiting_seconds_total", |r| r.cpu_pressure),
    ]
}

/// The class that has the most of what is not work, of minutes 35 to 50.
fn lost_to(regimes: [Regime; 2]) -> Class {
    let window = HOUR / 60 * 35..HOUR / 60 * 50;
    let intervals = judge_series(&node(regimes), window, &Thresholds::default()).unwrap().intervals;
    let ms = |class: Class| intervals.iter().filter(|i| i.class == class).map(|i| i.ms).sum::<i64>();
    let lost = Class::ALL.iter().copied().filter(|class| *class != Class::Productive);
    lost.max_by_key(|class| ms(*class)).unwrap()
}

#[test]
fn preparation_that_comes_to_take_longer_is_told_from_reads() {
    for (about, before, after, told) in [
        ("a batch takes three times the CPU time", READS, PREPARES, Class::DataloaderCpu),
        ("the same after minutes in which loaders kept up", FED, PREPARES, Class::DataloaderCpu),
        ("it took as much before", PREPARES, PREPARES, Class::Unexplained),
        ("nine tasks wait besides", FED, Regime { iowait: 9.0, ..PREPARES }, Class::Unexplained),
        ("the GPU gets its batches", FED, Regime { busy: 0.97, ..PREPARES }, Class::Unexplained),
    ] {
        assert_eq!(lost_to([before, after]), told, "{about}");
    }
}

#[test]
fn loaders_that_do_not_compute_wait_for_reads() {
    let crowded = Regime { cpu_pressure: 0.3, ..READS };
    for (about, before, after, told) in [
        ("the loaders of minutes in which the GPU waited for them", PREPARES, READS, Class::DataloaderStorage),
        ("nobody knows how many there are", READS, READS, Class::Unexplained),
        ("at times no task waits", PREPARES, Regime { io_pressure: 0.5, ..READS }, Class::Unexplained),
        ("half of them compute", PREPARES, Regime { cores: 15.0, ..READS }, Class::Unexplained),
        ("they wait for CPUs", PREPARES, crowded, Class::DataloaderCpu),
    ] {
        assert_eq!(lost_to([before, after]), told, "{about}");
    }
}
