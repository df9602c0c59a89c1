//! Busy time from the driver's utilisation samples: integers in, integers out, no NVML.
//!
//! The driver keeps a ring of samples, each the utilisation averaged since the one before (1/6 s to 1 s, by product).
//! A scrape sees one of them; their integral sees all. A reader tells coverage from `observed`.

use super::ring::{Ring, Sample};

/// A sample at or below this share is idle (percent): idle GPUs report 0, and a poke that keeps one alive a few.
pub(super) const IDLE_PERCENT: u32 = 5;

/// Consecutive idle samples that make a gap: fewer are within the driver's own averaging.
pub(super) const GAP_SAMPLES: u32 = 3;

/// A GPU is idle once it has been so for this long (µs): shorter waits are part of a job's rhythm, and what is read
/// rarely of an idle GPU must not miss the work in between.
const IDLE_AFTER_US: u64 = 10_000_000;

/// Upper bounds of the idle-gap histogram, seconds. The shortest gap is 3 samples of 1/6 s.
const GAP_BOUNDS: [f64; 9] = [0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0];

/// Totals that only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    percent_us: u64,
    observed_us: u64,
    /// Times that the ring wrapped before it was drained.
    pub overruns: u64,
    gaps: [u64; GAP_BOUNDS.len()],
    /// Idle gaps that have ended.
    pub gap_count: u64,
    gap_us: u64,
    longest_gap_us: u64,
}

impl Busy {
    /// Integral of utilisation over time, seconds.
    #[must_use]
    pub fn busy_seconds(&self) -> f64 {
        self.percent_us as f64 / 1e8
    }

    /// Time covered by samples, seconds.
    #[must_use]
    pub fn observed_seconds(&self) -> f64 {
        self.observed_us as f64 / 1e6
    }

    /// Length of the gaps that have ended, seconds.
    #[must_use]
    pub fn gap_seconds(&self) -> f64 {
        self.gap_us as f64 / 1e6
    }

    /// The longest gap, including one that still lasts, seconds.
    #[must_use]
    pub fn longest_gap_seconds(&self) -> f64 {
        self.longest_gap_us as f64 / 1e6
    }

    /// Upper bounds with cumulative counts, without `+Inf`.
    pub fn gap_buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut below = 0;
        GAP_BOUNDS.into_iter().zip(self.gaps).map(move |(bound, count)| {
            below += count;
            (bound, below)
        })
    }

    fn end_gap(&mut self, length_us: u64) {
        let seconds = length_us as f64 / 1e6;
        if let Some(bucket) = GAP_BOUNDS.iter().position(|bound| seconds <= *bound) {
            self.gaps[bucket] += 1;
        }
        self.gap_count += 1;
        self.gap_us += length_us;
    }
}

/// Integrates one GPU's samples, drain by drain.
#[derive(Debug, Default)]
pub(super) struct Integrator {
    /// What it has added up.
    pub busy: Busy,
    /// The driver's ring.
    pub ring: Ring,
    idle_samples: u32,
    idle_us: u64,
}

impl Integrator {
    /// Goes on from totals of an earlier one. Time in between is not observed.
    #[must_use]
    pub(super) fn resume(busy: Busy) -> Self {
        Self { busy, ..Self::default() }
    }

    /// Has the GPU been idle for long, as far as samples tell?
    pub(super) fn is_idle(&self) -> bool {
        self.idle_us >= IDLE_AFTER_US
    }

    /// Adds what one drain brought, oldest first.
    pub(super) fn drain(&mut self, samples: &[Sample]) {
        let mut ring = std::mem::take(&mut self.ring);
        let wrapped = ring.drain(samples, |span, percent| self.add(span, percent));
        self.busy.overruns += u64::from(wrapped);
        self.ring = ring;
    }

    fn add(&mut self, span_us: Option<u64>, percent: u32) {
        let Some(span) = span_us.filter(|_| percent <= 100) else {
            self.end_run();
            return;
        };
        self.busy.observed_us += span;
        self.busy.percent_us += u64::from(percent) * span;
        if percent > IDLE_PERCENT {
            self.end_run();
            return;
        }
        self.idle_samples += 1;
        self.idle_us += span;
        if self.idle_samples >= GAP_SAMPLES {
            self.busy.longest_gap_us = self.busy.longest_gap_us.max(self.idle_us);
        }
    }

    fn end_run(&mut self) {
        if self.idle_samples >= GAP_SAMPLES {
            self.busy.end_gap(self.idle_us);
        }
        self.idle_samples = 0;
        self.idle_us = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::ring::FORGET_AFTER;
    use super::*;

    const SIXTH: u64 = 166_667;

    fn every(period_us: u64, percents: impl IntoIterator<Item = u32>) -> Vec<Sample> {
        (1..).zip(percents).map(|(i, percent)| Sample { at_us: 1_000_000 + i * period_us, value: percent }).collect()
    }

    fn integrate(samples: &[Sample], drained: usize) -> Integrator {
        let mut integrator = Integrator { ring: Ring::with_depth(120), ..Integrator::default() };
        integrator.drain(&[Sample { at_us: 1_000_000, value: 100 }]);
        samples.chunks(drained).for_each(|s| integrator.drain(s));
        integrator
    }

    #[test]
    fn what_was_there_before_is_not_counted() {
        let mut integrator = Integrator::default();
        integrator.drain(&every(SIXTH, [100; 100]));
        assert_eq!(integrator.busy, Busy::default());
        assert_eq!(integrator.ring.last_seen(), 1_000_000 + 100 * SIXTH);
    }

    #[test]
    fn a_two_second_sawtooth_is_recovered() {
        // One second of work, one of waiting, for a minute; samples straddle the edges, as the driver's do.
        let work = |from: u64, to: u64| (from..to).step_by(1000).filter(|us| (us / 1_000_000) % 2 == 0).count() as u64;
        let percents = (0..360).map(|i| (work(i * SIXTH, (i + 1) * SIXTH) * 100 * 1000 / SIXTH) as u32);
        let busy = integrate(&every(SIXTH, percents), 12).busy;
        assert!((busy.busy_seconds() - 30.0).abs() <= 0.6, "{}", busy.busy_seconds());
        assert!((busy.observed_seconds() - 60.0).abs() < 0.01, "{}", busy.observed_seconds());
        assert!(busy.gap_count.abs_diff(30) <= 1, "{}", busy.gap_count);
        assert_eq!(busy.overruns, 0);
    }

    #[test]
    fn two_idle_samples_are_no_gap_and_three_are() {
        let busy = integrate(&every(SIXTH, [90, 0, 5, 90, 0, 5, 3, 90]), 8).busy;
        assert_eq!(busy.gap_count, 1);
        assert!((busy.gap_seconds() - 0.5).abs() < 0.001);
        assert_eq!(busy.gap_buckets().last(), Some((1800.0, 1)));
    }

    #[test]
    fn a_gap_that_still_lasts_is_the_longest_already() {
        let busy = integrate(&every(SIXTH, [0; 60]), 12).busy;
        assert_eq!(busy.gap_count, 0);
        assert!((busy.longest_gap_seconds() - 10.0).abs() < 0.001);
    }

    #[test]
    fn a_wrapped_ring_is_an_overrun_and_not_observed() {
        let mut integrator = Integrator::default();
        integrator.drain(&every(SIXTH, [100; 100]));
        let later: Vec<_> =
            every(SIXTH, [100; 100]).iter().map(|s| Sample { at_us: s.at_us + 60_000_000, ..*s }).collect();
        integrator.drain(&later);
        assert_eq!(integrator.busy.overruns, 1);
        assert!((integrator.busy.observed_seconds() - 99.0 / 6.0).abs() < 0.001);
    }

    #[test]
    fn a_driver_that_paused_is_a_hole_and_no_overrun() {
        let mut integrator = Integrator::default();
        integrator.drain(&every(SIXTH, [100; 100]));
        integrator.drain(&[Sample { at_us: 60_000_000, value: 100 }]);
        assert_eq!((integrator.busy.overruns, integrator.busy.observed_seconds()), (0, 0.0));
    }

    #[test]
    fn a_clock_set_back_only_costs_the_time_until_it_is_noticed() {
        let mut integrator = Integrator::default();
        integrator.drain(&[Sample { at_us: 9_000_000_000, value: 0 }]);
        (0..FORGET_AFTER).for_each(|_| integrator.drain(&[]));
        assert_eq!(integrator.ring.last_seen(), 0);
        integrator.drain(&every(SIXTH, [100; 2]));
        integrator.drain(&[Sample { at_us: 1_000_000 + 3 * SIXTH, value: 100 }]);
        assert_eq!(integrator.busy.observed_us, SIXTH);
    }

    proptest! {
        #[test]
        fn totals_only_grow_and_do_not_depend_on_the_drains(
            steps in prop::collection::vec((0u64..3_000_000, 0u32..130), 1..300),
            cut in 1usize..50,
        ) {
            let mut at_us = 1_000_000;
            let samples: Vec<_> = steps.iter().map(|(step, percent)| {
                at_us += step;
                Sample { at_us, value: *percent }
            }).collect();
            let fresh = || Integrator { ring: Ring::with_depth(1000), ..Integrator::default() };
            let mut integrator = fresh();
            integrator.drain(&[Sample { at_us: 1_000_000, value: 0 }]);
            let mut before = integrator.busy.clone();
            for chunk in samples.chunks(cut) {
                integrator.drain(chunk);
                let now = &integrator.busy;
                prop_assert!(now.percent_us >= before.percent_us && now.observed_us >= before.observed_us);
                prop_assert!(now.gap_count >= before.gap_count && now.longest_gap_us >= before.longest_gap_us);
                prop_assert!(now.percent_us <= now.observed_us * 100 && now.gap_us <= now.observed_us);
                before = now.clone();
            }
            let mut at_once = fresh();
            at_once.drain(&[Sample { at_us: 1_000_000, value: 0 }]);
            at_once.drain(&samples);
            prop_assert_eq!(at_once.busy, integrator.busy);
        }
    }
}
