//! When to expect the next request for a scrape, and how long it will wait: Prometheus scrapes a target at a fixed interval
//! and offset, so that two equal distances predict a third.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many requests are remembered: three of each of two Prometheus servers, and two more.
const REMEMBERED: usize = 8;

/// By how much two distances may differ. Prometheus keeps its own within 2 ms (its `scrape.timestamp-tolerance`); the rest is
/// what a busy machine adds.
const TOLERANCE: Duration = Duration::from_millis(50);

/// The newest requests.
#[derive(Debug)]
pub(super) struct Rhythm {
    /// In order of time.
    requests: VecDeque<Instant>,
    /// Those closer to one before are not told from it.
    apart: Duration,
}

impl Rhythm {
    /// Without any.
    pub(super) fn new(apart: Duration) -> Self {
        Self { requests: VecDeque::with_capacity(REMEMBERED), apart }
    }

    /// A request has come.
    pub(super) fn note(&mut self, at: Instant) {
        if self.requests.back().is_some_and(|last| at - *last < self.apart) {
            return;
        }
        if self.requests.len() == REMEMBERED {
            self.requests.pop_front();
        }
        self.requests.push_back(at);
    }

    /// The first time after `after` at which a request is to be expected: one that came twice at a distance comes again.
    /// It is expected once, so that a scraper that has gone is forgotten.
    pub(super) fn next(&self, after: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for (n, last) in self.requests.iter().enumerate() {
            for middle in self.requests.range(..n) {
                let distance = *last - *middle;
                let expected = *last + distance;
                let came_before = |first: &Instant| (*middle - *first).abs_diff(distance) <= TOLERANCE;
                if expected > after && self.requests.iter().take_while(|r| *r < middle).any(came_before) {
                    next = Some(next.map_or(expected, |next| next.min(expected)));
                }
            }
        }
        next
    }
}

/// How long requests wait: the longest of the last minute. One that is in a hurry does not shorten what is made for others.
#[derive(Default)]
pub(super) struct Patience {
    /// When the newer of two half minutes began.
    began: Option<Instant>,
    newer: Duration,
    older: Duration,
}

impl Patience {
    const HALF: Duration = Duration::from_secs(30);

    /// A request has come that waits so long.
    pub(super) fn note(&mut self, now: Instant, patience: Duration) {
        match self.began.map(|began| now.saturating_duration_since(began)) {
            Some(age) if age < Self::HALF => self.newer = self.newer.max(patience),
            age => {
                self.older = if age.is_some_and(|age| age < 2 * Self::HALF) { self.newer } else { Duration::ZERO };
                (self.began, self.newer) = (Some(now), patience);
            }
        }
    }

    /// The longest that one waits.
    pub(super) fn longest(&self) -> Duration {
        self.newer.max(self.older)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// What is expected after requests at these milliseconds, in milliseconds.
    fn expected(requests: &[u64], after: u64) -> Option<u128> {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut rhythm = Rhythm::new(SECOND);
        requests.iter().for_each(|ms| rhythm.note(at(*ms)));
        rhythm.next(at(after)).map(|time| (time - start).as_millis())
    }

    #[test]
    fn two_like_distances_foretell_a_third() {
        for (requests, after, next) in [
            (&[0, 15_000][..], 15_000, None),
            (&[0, 15_000, 30_000], 30_000, Some(45_000)),
            (&[0, 15_020, 30_000], 30_000, Some(44_980)),
            (&[0, 15_000, 30_200], 30_200, None),
            // It does not come: it is not expected again and again.
            (&[0, 15_000, 30_000], 45_000, None),
            // Two servers, 4 s apart.
            (&[0, 4_000, 15_000, 19_000, 30_000], 30_000, Some(45_000)),
            (&[0, 4_000, 15_000, 19_000, 30_000, 34_000], 34_000, Some(45_000)),
            (&[0, 4_000, 15_000, 19_000, 30_000, 34_000], 45_000, Some(49_000)),
            // Another client scrapes in between.
            (&[0, 15_000, 21_300, 30_000], 30_000, Some(45_000)),
            (&[0, 7_000, 9_000, 22_000], 22_000, None),
            // A flood is one request per second.
            (&[0, 10, 400, 999, 1_000, 1_500, 2_000, 2_100], 2_100, Some(3_000)),
        ] {
            assert_eq!(expected(requests, after), next, "{requests:?} after {after}");
        }
    }

    #[test]
    fn a_scraper_that_is_gone_is_soon_forgotten() {
        let start = Instant::now();
        let mut rhythm = Rhythm::new(SECOND);
        (0..100).for_each(|n| rhythm.note(start + n * SECOND));
        let mut after = start + 99 * SECOND;
        let expected: Vec<_> = std::iter::from_fn(|| rhythm.next(after).inspect(|next| after = *next)).collect();
        assert_eq!(expected, [100, 101, 102].map(|n| start + n * SECOND));
    }
}
