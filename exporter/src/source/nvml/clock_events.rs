//! Reasons for lowered clocks as seen in samples of the bit mask: how often each was set lately, and how often it set in.
//!
//! How long the clocks were lowered is told by the driver's own counters, for the reasons that have one; a sample every few
//! seconds could only guess it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How far back samples are counted: what dcgm-exporter does unless told otherwise.
pub const WINDOW: Duration = Duration::from_secs(300);

/// Bits of `nvmlClocksEventReason*`, by dcgm-exporter's names.
pub static REASONS: [(&str, u64); 9] = [
    ("gpu_idle", 0x1),
    ("clocks_setting", 0x2),
    ("power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("sw_thermal", 0x20),
    ("hw_thermal", 0x40),
    ("hw_power_brake", 0x80),
    ("display_clocks", 0x100),
];

/// What was seen of one GPU.
#[derive(Clone, Debug, Default)]
pub struct ClockEvents {
    recent: VecDeque<(Instant, u64)>,
    begun: [u64; REASONS.len()],
}

impl ClockEvents {
    /// One more sample of the mask. A reason that is set in the first one began before anybody looked.
    pub(super) fn sample(&mut self, at: Instant, mask: u64) {
        let before = self.recent.back().map_or(mask, |(_, before)| *before);
        for (begun, (_, bit)) in self.begun.iter_mut().zip(REASONS) {
            *begun += u64::from(mask & !before & bit != 0);
        }
        self.recent.push_back((at, mask));
        while self.recent.front().is_some_and(|(first, _)| at.saturating_duration_since(*first) >= WINDOW) {
            self.recent.pop_front();
        }
    }

    /// Has the mask ever been read?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.recent.is_empty()
    }

    /// Each reason with the number of samples within the window that had it, and the number of times it set in.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let with = |bit: u64| self.recent.iter().filter(|(_, mask)| mask & bit != 0).count() as u64;
        REASONS.iter().zip(self.begun).map(move |((name, bit), begun)| (*name, with(*bit), begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_count_within_the_window_and_beginnings_for_ever() {
        let (start, mut events) = (Instant::now(), ClockEvents::default());
        let counts = |events: &ClockEvents| events.counts().nth(2).unwrap();
        for (second, mask, expected) in [
            (0, 0x4, (1, 0)),
            (5, 0x5, (2, 0)),
            (10, 0, (2, 0)),
            (15, 0x4, (3, 1)),
            (299, 0x4, (4, 1)),
            (300, 0, (3, 1)),
            (1000, 0x4, (1, 2)),
        ] {
            events.sample(start + Duration::from_secs(second), mask);
            assert_eq!(counts(&events), ("power_cap", expected.0, expected.1), "second {second}");
        }
    }
}
