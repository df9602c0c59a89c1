//! What the milliseconds of a class drew.

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_verdict::{Class, Energy};

const WINDOW: std::ops::Range<TimeMs> = 600_000..1_200_000;
const H100: &str = "NVIDIA H100 80GB HBM3";

fn series(name: &str, model: &str, value: impl Fn(TimeMs) -> f64) -> Series {
    let labels = [("__name__", name), ("UUID", "GPU-1"), ("Hostname", "n1"), ("modelName", model)];
    let samples = (0..120).map(|i| Sample { time_ms: i * 30_000, value: value(i * 30_000) }).collect();
    Series { labels: Labels::new(labels), samples }
}

/// A held GPU that works this share of each minute.
fn busy(share: f64, model: &str) -> Vec<Series> {
    let seconds = |t: TimeMs| t as f64 / 1000.0;
    vec![
        series("goodput_gpu_busy_seconds_total", model, |t| seconds(t) * share),
        series("goodput_gpu_observed_seconds_total", model, seconds),
        series("goodput_gpu_processes", model, |_| 1.0),
    ]
}

/// The board's counter at 400 W, in millijoules.
fn counter(model: &str) -> Series {
    series("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", model, |t| 400.0 * t as f64)
}

fn power(model: &str, watts: f64) -> Series {
    series("DCGM_FI_DEV_POWER_USAGE", model, |_| watts)
}

/// The energy of work and of the rest.
fn energy(series: &[Series]) -> [Option<Energy>; 2] {
    let judged = judge_series(series, WINDOW, &Thresholds::default()).unwrap();
    let of = |works: bool| {
        let chosen = judged.intervals.iter().filter(|i| (i.class == Class::Productive) == works);
        chosen.fold(None, |sum, i| Energy::sum(sum, i.energy))
    };
    [of(true), of(false)]
}

#[test]
fn waiting_draws_what_the_model_draws_idle_and_work_the_rest() {
    let mut all = busy(0.5, H100);
    all.extend([counter(H100), power(H100, 500.0)]);
    let (half, waiting) = (300_000, 115 * 300_000);
    let drawn = |mj| Some(Energy { mj, ms: half, counted_ms: half });
    assert_eq!(energy(&all), [drawn(400 * 600_000 - waiting), drawn(waiting)], "the counter goes before power");
}

#[test]
fn work_draws_no_more_than_the_board_may() {
    let mut all = busy(0.01, H100);
    all.extend([power(H100, 400.0), series("DCGM_FI_DEV_POWER_MGMT_LIMIT", H100, |_| 700.0)]);
    let drawn = |mj, ms| Some(Energy { mj, ms, counted_ms: 0 });
    let work = 700 * 6_000;
    assert_eq!(energy(&all), [drawn(work, 6_000), drawn(400 * 600_000 - work, 594_000)], "the rest spins");
}

#[test]
fn a_model_whose_idle_power_is_not_known_shares_in_proportion_to_time() {
    let mut all = busy(0.5, "NVIDIA B300");
    all.push(power("NVIDIA B300", 301.0));
    let drawn = Some(Energy { mj: 301 * 300_000, ms: 300_000, counted_ms: 0 });
    assert_eq!(energy(&all), [drawn, drawn]);
}

#[test]
fn a_gpu_that_draws_less_than_its_idle_power_is_taken_at_its_word() {
    // So little work that power is not asked whether it is any, and more than keeps a GPU from looking idle.
    let mut all = busy(0.2, H100);
    all.push(power(H100, 100.0));
    assert_eq!(energy(&all).map(|e| e.map(|e| e.mj)), [Some(100 * 120_000), Some(100 * 480_000)]);
}

#[test]
fn without_counter_and_power_there_is_none() {
    assert_eq!(energy(&busy(0.5, H100)), [None, None]);
}

#[test]
fn a_hole_has_energy_only_where_the_counter_bridges_it() {
    let gone = |series: &mut Vec<Series>, from: TimeMs| {
        series.iter_mut().for_each(|s| s.samples.retain(|s| s.time_ms < from || s.time_ms >= 1_500_000));
    };
    let mut all = busy(0.5, H100);
    all.push(counter(H100));
    gone(&mut all, 780_000);
    let judged = judge_series(&all, WINDOW, &Thresholds::default()).unwrap();
    let known: i64 = judged.intervals.iter().filter_map(|i| i.energy).map(|e| e.ms).sum();
    assert_eq!(known, 600_000, "the exporter lived through the hole: it is no hole");
    // A restart: its own counts begin again, the driver's does not.
    for s in all.iter_mut().take(2) {
        s.samples.iter_mut().filter(|s| s.time_ms >= 1_500_000).for_each(|s| s.value -= 1400.0 / 2.0);
    }
    let judged = judge_series(&all, WINDOW, &Thresholds::default()).unwrap();
    let hole = judged.intervals.iter().find(|i| i.class == Class::NoData).unwrap();
    assert_eq!(hole.energy, None);
}
