//! What the density of samples leaves unknown of class totals, as a 90 % interval.
//!
//! A level that is read every so often stands for the time until the next reading. What it was in between is unknown; its
//! variance is estimated from successive differences of the readings around a cell, the estimator for means of samples
//! at fixed steps (von Neumann 1941; Wolter, Introduction to Variance Estimation, 2nd ed. 2007, chapter 8, cited from
//! memory; how often it holds is tested below). It is right where readings are independent, too great where the level
//! changes slower than it is read, and blind to a period that the readings share. Counters, and averages of the whole
//! time between readings, leave only the time unknown that they do not cover.

use schemars::JsonSchema;
use serde::Serialize;

use super::cell::{Part, State};
use super::{Cell, Class, Group};
use crate::frame::GpuFrame;
use crate::signal::{Kind, Signal};

/// Two-sided 90 % of the normal distribution: a total is a sum of many cells.
const Z90: f64 = 1.645;

/// The greatest variance that a ratio from 0 to 1 can have (Popoviciu 1935).
const MAX_SPREAD: f64 = 0.25;

/// A 90 % interval of GPU-milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bounds {
    /// Its low end, GPU-milliseconds.
    pub low_ms: i64,
    /// Its high end, GPU-milliseconds.
    pub high_ms: i64,
}

/// The interval of a sum of one class with this variance, within nothing and all of `whole_ms`.
#[must_use]
pub fn bounds(ms: i64, variance_ms2: i128, whole_ms: i64) -> Bounds {
    let half = (Z90 * (variance_ms2 as f64).sqrt()).ceil() as i64;
    Bounds { low_ms: ms.saturating_sub(half).max(0), high_ms: ms.saturating_add(half).min(whole_ms.max(ms)) }
}

/// Variance of the time that this signal says the GPU was busy in the cell, in ms².
pub(super) fn variance_ms2(cell: &Cell<'_>, signal: Signal) -> f64 {
    let Some(reading) = cell.read(signal) else { return 0.0 };
    let spread = reading.spread.unwrap_or(MAX_SPREAD).min(MAX_SPREAD);
    let known = cell.gpu.known_ms[cell.index] as f64;
    let covered = reading.covered_ms as f64;
    let seen = match signal {
        Signal::GpuBusy => cell.mean(Signal::GpuObserved).unwrap_or_default().min(1.0) * covered,
        _ => covered,
    };
    // The mean of what was seen stands for all of the rest at once.
    let unseen = (known - seen).max(0.0);
    let held = if signal.kind() == Kind::Gauge { reading.held_ms2 as f64 } else { 0.0 };
    spread * (held + unseen * unseen)
}

/// The variance of each part of a booked cell, in ms². What is not known of the work is not known of the rest either: both
/// have the whole variance, and give it to their parts by time, so that the parts of several owners sum to it.
pub(super) fn split(cell: &Cell<'_>, state: &State, parts: &[(Part, i64)]) -> Vec<i64> {
    let none = || vec![0; parts.len()];
    let Some(busy) = &state.busy else { return none() };
    let sum = |wanted: Kin| parts.iter().filter(|(part, _)| kin(part.class) == wanted).map(|(_, ms)| ms).sum::<i64>();
    let (work, rest) = (sum(Kin::Work), sum(Kin::Rest));
    let known = cell.gpu.known_ms[cell.index] as f64;
    let is_taken = work == 0 && (busy.ratio * known).round() > 0.0;
    if is_taken || known <= 0.0 {
        // A phase took the whole cell, work and all.
        return none();
    }
    let scale = ((work + rest) as f64 / known).powi(2);
    let variance = |(part, ms): &(Part, i64)| {
        let whole = match kin(part.class) {
            Kin::Work => work,
            Kin::Rest => rest,
            Kin::Fact => return 0,
        };
        let own = busy.variance_ms2 * scale * *ms as f64 / whole as f64;
        (own * in_step(cell, part.owner.as_deref())).round() as i64
    };
    parts.iter().map(variance).collect()
}

/// How many GPUs of the node work in step with this one, itself included: those of one owner are read in one breath and
/// begin and end their steps together, so their errors add up like one. With each variance multiplied by this number,
/// that of their sum is right for errors that are the same, and too great for others.
fn in_step(cell: &Cell<'_>, owner: Option<&str>) -> f64 {
    let holds = |gpu: &&GpuFrame| owner.is_some_and(|owner| gpu.is_held_by(owner, cell.index));
    cell.node.gpus.iter().filter(holds).count().max(1) as f64
}

/// Is it time that the busy signal gave to work, or that it left, or was it not asked?
#[derive(PartialEq)]
enum Kin {
    Work,
    Rest,
    Fact,
}

fn kin(class: Class) -> Kin {
    match class {
        Class::NoData | Class::Down | Class::Maintenance => Kin::Fact,
        _ if matches!(class.group(), Group::Productive | Group::Derate) => Kin::Work,
        _ => Kin::Rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::{Thresholds, judge_series};
    use goodput_exposition::sample::{Labels, Sample, Series};

    const HOUR: i64 = 3_600_000;
    /// The driver's utilisation is an average of up to a second (NVML: 1/6 s to 1 s).
    const AVERAGED_MS: i64 = 1_000;

    /// Numbers from 0 to 1 (Knuth's MMIX generator).
    struct Chance(u64);

    impl Chance {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// Steps of work and waiting around an hour: when each began to work and stopped.
    fn steps(chance: &mut Chance) -> Vec<(i64, i64)> {
        let (length_ms, duty) = (2_000.0 + 10_000.0 * chance.next(), 0.3 + 0.6 * chance.next());
        let (mut steps, mut at) = (Vec::new(), -HOUR as f64);
        while at < 2.0 * HOUR as f64 {
            let length = length_ms * (0.5 + chance.next());
            steps.push((at as i64, (at + length * duty) as i64));
            at += length;
        }
        steps
    }

    fn worked_ms(steps: &[(i64, i64)], from: i64, to: i64) -> i64 {
        let first = steps.partition_point(|(_, end)| *end <= from);
        let within = steps[first..].iter().take_while(|(start, _)| *start < to);
        within.map(|(start, end)| end.min(&to) - start.max(&from)).sum()
    }

    fn watched(steps: &[(i64, i64)], every_ms: i64, chance: &mut Chance) -> Vec<Series> {
        let labels = [
            ("__name__", "DCGM_FI_DEV_GPU_UTIL"),
            ("Hostname", "n"),
            ("UUID", "GPU-1"),
            ("namespace", "ml"),
            ("pod", "train-0"),
            ("instance", "n:9400"),
        ];
        let first = -HOUR + AVERAGED_MS + (chance.next() * every_ms as f64) as i64;
        let at = (first..2 * HOUR).step_by(every_ms as usize);
        let percent = |at| 100.0 * worked_ms(steps, at - AVERAGED_MS, at) as f64 / AVERAGED_MS as f64;
        let samples = at.map(|at| Sample { time_ms: at, value: percent(at) }).collect();
        vec![Series { labels: Labels::new(labels), samples }]
    }

    /// The share of trials in which the interval holds what the GPU worked, and the mean width of the interval.
    fn trials(every_ms: i64, count: u64) -> (f64, f64) {
        let (mut held, mut width) = (0, 0);
        for seed in 0..count {
            let mut chance = Chance(seed);
            let steps = steps(&mut chance);
            let series = watched(&steps, every_ms, &mut chance);
            let judged = judge_series(&series, 0..HOUR, &Thresholds::default()).unwrap();
            let work = || judged.intervals.iter().filter(|i| i.class == Class::Productive);
            let (ms, variance) = work().fold((0, 0), |(ms, v), i| (ms + i.ms, v + i128::from(i.variance_ms2.unwrap())));
            let bounds = bounds(ms, variance, HOUR);
            held += i32::from((bounds.low_ms..=bounds.high_ms).contains(&worked_ms(&steps, 0, HOUR)));
            width += bounds.high_ms - bounds.low_ms;
        }
        (f64::from(held) / count as f64, width as f64 / count as f64)
    }

    #[test]
    fn nine_of_ten_intervals_hold_the_truth_and_denser_samples_make_them_narrower() {
        let all = [5_000, 15_000, 30_000, 60_000].map(|every_ms| trials(every_ms, 200));
        assert!(all.iter().all(|(held, _)| (0.8..=0.99).contains(held)), "{all:?}");
        assert!(all.is_sorted_by(|(_, denser), (_, rarer)| denser < rarer), "{all:?}");
    }

    #[test]
    fn an_interval_ends_within_what_there_is() {
        assert_eq!(bounds(100, 10_000, 1_000), Bounds { low_ms: 0, high_ms: 265 });
        assert_eq!(bounds(900, 10_000, 1_000), Bounds { low_ms: 735, high_ms: 1_000 });
        assert_eq!(bounds(5, 0, 1_000), Bounds { low_ms: 5, high_ms: 5 });
    }
}
