//! Our place in one of the driver's rings of samples: what is new in it, what was lost, and when to look again. No NVML.

use std::time::Duration;

/// Two samples further apart (µs) than this have a hole between them, whatever their usual distance: the driver samples
/// at least once a second; half a second of slack for its scheduling.
const HOLE_US: u64 = 1_500_000;

/// Two samples this many usual distances apart have a hole between them: a sample stands for its own period, and for a
/// few that the driver was late with, not for all that a wrapped ring has lost.
const HOLE_PERIODS: u64 = 4;

/// Drains without a sample after which the position in the ring is forgotten: the clock of the samples was set back.
pub(super) const FORGET_AFTER: u32 = 10;

/// A ring is drained when half of it is new, so that a drain may come late by as much again. Not more often than
/// anything is read, and not less often than gauges are, so that totals lag behind them by no more.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(5);

/// Drains from one request for the whole ring to the next: only that shows how deep it is, and a driver that was just
/// loaded had little in it at first.
const WHOLE_EVERY: u32 = 60;

/// How often a ring of unknown depth is drained: the shallowest that products are seen to have holds 2.4 s.
const UNKNOWN: Duration = Duration::from_secs(2);

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// End of the span that it is averaged over, µs by the driver's clock.
    pub at_us: u64,
    /// In the unit of the ring.
    pub value: u32,
}

/// A ring and our place in it.
#[derive(Debug, Default)]
pub(super) struct Ring {
    last_us: Option<u64>,
    drains: u32,
    empty_drains: u32,
    /// The most samples that one drain brought: how deep the ring is at least.
    depth: usize,
    /// The usual distance of two samples, of the first whole ring that held some.
    period_us: Option<u64>,
}

impl Ring {
    /// Timestamp to drain from; 0 asks for the whole ring.
    pub(super) fn last_seen(&self) -> u64 {
        self.last_us.filter(|_| !self.drains.is_multiple_of(WHOLE_EVERY)).unwrap_or(0)
    }

    /// Has it brought nothing for long?
    pub(super) fn is_dry(&self) -> bool {
        self.empty_drains >= FORGET_AFTER
    }

    /// A drain that brought nothing.
    pub(super) fn missed(&mut self) {
        self.empty_drains = self.empty_drains.saturating_add(1);
        if self.is_dry() {
            self.forget();
        }
    }

    /// There is none: as if it had brought nothing for long.
    pub(super) fn set_dry(&mut self) {
        self.forget();
        self.empty_drains = FORGET_AFTER;
    }

    /// Forgets the position: the next drain finds it again.
    pub(super) fn forget(&mut self) {
        self.last_us = None;
    }

    /// How long after a drain the next is due.
    pub(super) fn interval(&self) -> Duration {
        let Some(period_us) = self.period_us else { return UNKNOWN };
        Duration::from_micros(period_us.saturating_mul(self.depth as u64) / 2).clamp(SHORTEST, LONGEST)
    }

    /// Hands on what one drain brought, oldest first: each new sample's value with the time (µs) that it covers, without
    /// one behind a hole. The very first drain only finds the position: what it brings happened before. Says whether
    /// the ring had wrapped since the last drain.
    pub(super) fn drain(&mut self, samples: &[Sample], mut take: impl FnMut(Option<u64>, u32)) -> bool {
        let (Some(first), Some(newest)) = (samples.first(), samples.last()) else {
            self.missed();
            return false;
        };
        self.drains = self.drains.wrapping_add(1);
        self.empty_drains = 0;
        let depth = self.depth;
        self.depth = depth.max(samples.len());
        if self.last_us.is_none_or(|last| first.at_us < last) {
            self.period_us = self.period_us.or_else(|| period(samples));
        }
        // Nothing but what is older than what was seen: the clock of the samples was set back.
        let Some(last) = self.last_us.filter(|last| newest.at_us >= *last) else {
            self.last_us = Some(newest.at_us);
            return false;
        };
        let hole = self.hole_us();
        for sample in samples {
            let Some(span) = self.last_us.and_then(|last| sample.at_us.checked_sub(last)).filter(|span| *span > 0)
            else {
                continue;
            };
            self.last_us = Some(sample.at_us);
            take((span <= hole).then_some(span), sample.value);
        }
        // A driver that paused brings few samples behind the hole; a ring that wrapped brings a full one.
        samples.len() >= depth && first.at_us > last.saturating_add(hole)
    }

    fn hole_us(&self) -> u64 {
        self.period_us.map_or(HOLE_US, |period| period.saturating_mul(HOLE_PERIODS).min(HOLE_US))
    }

    #[cfg(test)]
    pub(super) fn with_depth(depth: usize) -> Self {
        Self { depth, ..Self::default() }
    }
}

/// The median distance: pauses of the driver and samples that came late do not move it. Two samples are too few.
fn period(samples: &[Sample]) -> Option<u64> {
    let mut distances: Vec<u64> =
        samples.windows(2).filter_map(|pair| pair[1].at_us.checked_sub(pair[0].at_us)).filter(|us| *us > 0).collect();
    distances.sort_unstable();
    distances.get(distances.len() / 2).copied().filter(|_| distances.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(period_us: u64, count: u64, from_us: u64) -> Vec<Sample> {
        (1..=count).map(|i| Sample { at_us: from_us + i * period_us, value: 1 }).collect()
    }

    fn covered(ring: &mut Ring, samples: &[Sample]) -> (u64, u32, bool) {
        let (mut us, mut holes) = (0, 0);
        let wrapped = ring.drain(samples, |span, _| match span {
            Some(span) => us += span,
            None => holes += 1,
        });
        (us, holes, wrapped)
    }

    #[test]
    fn it_is_drained_when_half_of_it_is_new() {
        for (period_us, depth, seconds) in
            [(20_000, 119, 1.19), (166_667, 120, 5.0), (118_487, 119, 5.0), (10_000, 14, 1.0), (1_000_000, 120, 5.0)]
        {
            let mut ring = Ring::default();
            assert_eq!(ring.interval(), UNKNOWN);
            ring.drain(&every(period_us, depth, 0), |_, _| panic!("of before"));
            let interval = ring.interval().as_secs_f64();
            assert!((interval - seconds).abs() < 0.01, "{interval} s for {depth} samples of {period_us} us");
        }
    }

    #[test]
    fn a_pause_or_a_late_sample_does_not_change_the_period() {
        let mut samples = every(20_000, 60, 0);
        samples.extend(every(20_000, 60, 90_000_000));
        samples[30].at_us += 5_000;
        assert_eq!(period(&samples), Some(20_000));
        assert_eq!((period(&samples[..2]), period(&[])), (None, None));
    }

    #[test]
    fn a_wrap_of_less_than_a_second_is_a_hole_of_a_ring_that_samples_fast() {
        let mut ring = Ring::default();
        ring.drain(&every(20_000, 119, 0), |_, _| panic!("of before"));
        let lost_half_a_second = every(20_000, 119, 119 * 20_000 + 500_000);
        assert_eq!(covered(&mut ring, &lost_half_a_second), (118 * 20_000, 1, true));
    }

    #[test]
    fn what_was_seen_already_and_a_clock_that_stands_still_add_nothing() {
        let mut ring = Ring::default();
        let samples = every(20_000, 119, 0);
        ring.drain(&samples, |_, _| panic!("of before"));
        assert_eq!(covered(&mut ring, &samples), (0, 0, false));
        assert_eq!(covered(&mut ring, &[Sample { at_us: 119 * 20_000, value: 7 }; 5]), (0, 0, false));
    }

    #[test]
    fn a_ring_that_held_little_at_first_is_found_to_be_deep() {
        let mut ring = Ring::default();
        let all = every(166_667, 2000, 0);
        ring.drain(&all[..4], |_, _| panic!("of before"));
        assert_eq!(ring.interval(), SHORTEST);
        let mut us = 0;
        for end in (10..1000).step_by(6) {
            let seen = ring.last_seen();
            let held: Vec<_> = all[end.max(120) - 120..end].iter().copied().filter(|s| s.at_us > seen).collect();
            assert!(!ring.drain(&held, |span, _| us += span.unwrap()));
        }
        assert_eq!((ring.interval(), us), (LONGEST, (994 - 4) * 166_667));
    }

    #[test]
    fn a_clock_set_back_costs_the_time_until_it_is_noticed() {
        let mut ring = Ring::default();
        ring.drain(&every(20_000, 119, 9_000_000_000), |_, _| panic!("of before"));
        // The driver finds nothing behind our position.
        (0..FORGET_AFTER).for_each(|_| _ = ring.drain(&[], |_, _| ()));
        assert!(ring.is_dry() && ring.last_seen() == 0);
        assert_eq!(covered(&mut ring, &every(20_000, 119, 0)), (0, 0, false));
        assert_eq!(covered(&mut ring, &every(20_000, 50, 119 * 20_000)), (1_000_000, 0, false));
        // Or the whole ring comes, and shows it.
        ring.drain(&every(20_000, 119, 9_000_000_000), |_, _| ());
        assert_eq!(covered(&mut ring, &every(20_000, 119, 0)), (0, 0, false));
        assert_eq!(covered(&mut ring, &every(20_000, 50, 119 * 20_000)), (1_000_000, 0, false));
    }
}
