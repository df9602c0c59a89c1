//! What GPM adds up to over time: no NVML.
//!
//! Pairs of samples follow each other without a gap: the second of one is the first of the next. So the mean over each
//! pair, times its length, loses nothing, however far apart the samples are; a pair of 100 ms, the least that GPM can do,
//! once a second would cost as many calls and see a tenth of the time.

use std::collections::BTreeMap;

/// Streaming multiprocessor cycles that have passed.
pub const SM_CYCLES_ELAPSED: u32 = 248;
/// Streaming multiprocessor cycles in which it had work.
pub const SM_CYCLES_ACTIVE: u32 = 249;
/// Bytes sent over PCIe.
pub const PCIE_TX: u32 = 255;
/// Bytes received over PCIe.
pub const PCIE_RX: u32 = 256;
/// Cycles in which a pipe was active, by the name of the pipe.
pub const PIPE_CYCLES: [(u32, &str); 9] = [
    (250, "tensor"),
    (251, "tensor_dmma"),
    (252, "tensor_hmma"),
    (253, "tensor_imma"),
    (254, "tensor_dfma"),
    (257, "integer"),
    (258, "fp64"),
    (259, "fp32"),
    (260, "fp16"),
];

/// All counters that run from the boot on, where the driver has them; the header does not say from which version on.
const CUMULATIVE: std::ops::RangeInclusive<u32> = 248..=260;
const COUNTERS: usize = 13;

/// They, in the order of their ids.
pub(super) fn cumulative() -> impl Iterator<Item = u32> {
    CUMULATIVE
}

/// The share of time that the graphics and compute engine was active.
pub(super) const GRAPHICS_ACTIVE: u32 = 1;

/// The shares that are integrated, with the name of the unit that is active.
const SHARES: [(u32, &str); 7] =
    [(GRAPHICS_ACTIVE, "graphics"), (2, "sm"), (5, "tensor"), (10, "dram"), (11, "fp64"), (12, "fp32"), (13, "fp16")];

/// They.
pub(super) fn shares() -> impl Iterator<Item = u32> {
    SHARES.iter().map(|(metric, _)| *metric)
}

/// The two counters of a share are not read at the very same moment: a full one may come out as a little more (percent).
pub(super) const SHARE_MOST: f64 = 105.0;

/// Totals that only grow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    observed_seconds: f64,
    active_seconds: [Option<f64>; SHARES.len()],
    counters: [Counter; COUNTERS],
}

/// No counter comes near it: cycles of a thousand multiprocessors take ten days to.
const COUNT_MOST: f64 = 9_223_372_036_854_775_808.0;

/// The most that any of the counters can grow in a second: a thousand multiprocessors at 10 GHz, or as many bytes.
const PER_SECOND_MOST: f64 = 1e13;

/// A counter of the driver, added up so that it goes on when the driver's restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counter {
    /// Nothing after an answer that cannot be: the next only finds the position.
    last: Option<u64>,
    total: Option<u64>,
}

impl Counter {
    /// Takes an answer that came this many seconds after the one before. What a restarted counter shows was counted
    /// since the last reading. A step that no GPU can make counts as none.
    fn read(&mut self, now: f64, seconds: f64) {
        if !(0.0..=COUNT_MOST).contains(&now) {
            self.last = None;
            return;
        }
        let now = now as u64;
        let step = self.last.map_or(0, |before| now.checked_sub(before).unwrap_or(now));
        let possible = step as f64 <= PER_SECOND_MOST * seconds;
        self.last = possible.then_some(now);
        let total = self.total.get_or_insert(0);
        *total = total.saturating_add(if possible { step } else { 0 });
    }
}

impl Activity {
    /// Time covered by pairs of samples, seconds; nothing before the first pair.
    #[must_use]
    pub fn observed_seconds(&self) -> Option<f64> {
        (self.observed_seconds > 0.0).then_some(self.observed_seconds)
    }

    /// For how many of those seconds' worth each unit was active.
    pub fn active_seconds(&self) -> impl Iterator<Item = (&'static str, f64)> {
        SHARES.iter().zip(self.active_seconds).filter_map(|((_, unit), seconds)| Some((*unit, seconds?)))
    }

    /// What one of the driver's cumulative counters has counted since the exporter first read it.
    #[must_use]
    pub fn counted(&self, metric: u32) -> Option<u64> {
        let counter = self.counters.get(cumulative().position(|m| m == metric)?)?;
        counter.total
    }

    /// Adds one pair of samples, this many seconds apart: its answers by metric. A pair in which a metric is missing
    /// that was there before, or is no share, is not observed: all metrics cover the same time.
    pub(super) fn add(&mut self, seconds: f64, answers: &BTreeMap<u32, f64>) {
        let share = |metric: u32| answers.get(&metric).copied().filter(|percent| (0.0..=SHARE_MOST).contains(percent));
        let shares = SHARES.map(|(metric, _)| share(metric));
        let lacking = |(now, before): (&Option<f64>, &Option<f64>)| now.is_none() && before.is_some();
        if shares.iter().all(Option::is_none) || shares.iter().zip(&self.active_seconds).any(lacking) {
            return;
        }
        self.observed_seconds += seconds;
        for (total, percent) in self.active_seconds.iter_mut().zip(shares) {
            if let Some(percent) = percent {
                *total.get_or_insert(0.0) += percent.min(100.0) / 100.0 * seconds;
            }
        }
    }

    /// Reads the cumulative counters among the answers, which came this many seconds after the ones before.
    pub(super) fn count(&mut self, seconds: f64, answers: &BTreeMap<u32, f64>) {
        for (counter, metric) in self.counters.iter_mut().zip(cumulative()) {
            if let Some(now) = answers.get(&metric) {
                counter.read(*now, seconds);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(given: &[(u32, f64)]) -> BTreeMap<u32, f64> {
        given.iter().copied().collect()
    }

    fn active(activity: &Activity, unit: &str) -> Option<f64> {
        activity.active_seconds().find(|(name, _)| *name == unit).map(|(_, seconds)| seconds)
    }

    #[test]
    fn pairs_of_any_length_add_up_to_the_same() {
        let (mut short, mut long) = (Activity::default(), Activity::default());
        for percent in [100.0, 0.0, 40.0, 60.0] {
            short.add(1.0, &answers(&[(2, percent)]));
        }
        long.add(4.0, &answers(&[(2, 50.0)]));
        assert_eq!((active(&short, "sm"), short.observed_seconds()), (Some(2.0), Some(4.0)));
        assert_eq!(short, long);
        assert_eq!(active(&short, "tensor"), None, "what never answered has no total");
    }

    #[test]
    fn a_pair_without_what_was_there_before_is_not_observed() {
        let mut activity = Activity::default();
        activity.add(5.0, &answers(&[]));
        assert_eq!(activity.observed_seconds(), None);
        activity.add(5.0, &answers(&[(2, 50.0), (5, 20.0)]));
        let before = activity.clone();
        for bad in [f64::NAN, -1.0, 250.0] {
            activity.add(5.0, &answers(&[(2, bad), (5, 20.0)]));
        }
        activity.add(5.0, &answers(&[(2, 50.0)]));
        assert_eq!(activity, before);
    }

    #[test]
    fn counters_go_on_when_the_drivers_start_anew() {
        let mut activity = Activity::default();
        let read = |activity: &mut Activity, cycles: f64| {
            activity.count(5.0, &BTreeMap::from([(SM_CYCLES_ACTIVE, cycles)]));
            activity.counted(SM_CYCLES_ACTIVE)
        };
        assert_eq!(activity.counted(SM_CYCLES_ACTIVE), None);
        assert_eq!(read(&mut activity, 1e15), Some(0));
        assert_eq!(read(&mut activity, 1e15 + 5e9), Some(5_000_000_000));
        assert_eq!(read(&mut activity, 2e9), Some(7_000_000_000));
        assert_eq!(read(&mut activity, f64::NAN), Some(7_000_000_000));
        assert_eq!(activity.counted(PCIE_RX), None);
    }

    #[test]
    fn a_count_that_cannot_be_is_not_added_to_the_total() {
        for absurd in [1e300, f64::INFINITY, f64::NAN, -1.0, 1.8e19, 9e15, 5e14] {
            let mut activity = Activity::default();
            let mut read = |cycles: f64| {
                activity.count(5.0, &BTreeMap::from([(SM_CYCLES_ACTIVE, cycles)]));
                activity.counted(SM_CYCLES_ACTIVE)
            };
            assert_eq!((read(1e9), read(2e9)), (Some(0), Some(1_000_000_000)));
            let told = [absurd, 3e9, 4e9].map(&mut read);
            assert_eq!(told, [1_000_000_000, 1_000_000_000, 2_000_000_000].map(Some), "{absurd}");
        }
    }
}
