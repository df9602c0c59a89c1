//! Reasons for the clocks as events: in how many samples each was there, and how often it set in.

use std::collections::BTreeMap;

/// dcgm-exporter's name of each reason, and NVML's bit (`nvmlClocksEventReason*`).
pub const CLOCK_EVENTS: [(&str, u64); 9] = [
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

/// Counts since the exporter's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockEvents {
    /// The last sample.
    last: Option<u64>,
    /// Samples that had the reason, by name.
    pub samples: BTreeMap<&'static str, u64>,
    /// Samples that had the reason when the one before had it not, by name. What the first sample has counts not: it may
    /// have set in at any time.
    pub edges: BTreeMap<&'static str, u64>,
}

impl ClockEvents {
    /// Takes a sample of the bit mask.
    pub fn note(&mut self, reasons: u64) {
        let before = self.last.replace(reasons).unwrap_or(reasons);
        for (name, bit) in CLOCK_EVENTS {
            *self.samples.entry(name).or_default() += u64::from(reasons & bit != 0);
            *self.edges.entry(name).or_default() += u64::from(reasons & bit != 0 && before & bit == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_counts_while_it_lasts_and_once_when_it_sets_in() {
        let mut events = ClockEvents::default();
        for reasons in [0x1, 0x4, 0x44, 0x40, 0x0, 0x4] {
            events.note(reasons);
        }
        let of = |name| (events.samples[name], events.edges[name]);
        assert_eq!(of("gpu_idle"), (1, 0), "it was there before the first sample, for all one knows");
        assert_eq!(of("power_cap"), (3, 2));
        assert_eq!(of("hw_thermal"), (2, 1));
        assert_eq!(of("sw_thermal"), (0, 0));
    }
}
