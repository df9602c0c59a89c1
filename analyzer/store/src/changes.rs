//! Which results changed since the store was opened: a number for each period, which grows with every change in it.

use std::collections::BTreeMap;
use std::ops::Range;

use goodput_exposition::sample::TimeMs;
use goodput_verdict::HOUR_MS;

/// Numbers of the last change by hour, and of the last one that may concern any hour.
#[derive(Debug, Default)]
pub(super) struct Changes {
    last: u64,
    everywhere: u64,
    hours: BTreeMap<i64, u64>,
}

impl Changes {
    /// Results of the window were replaced.
    pub(super) fn within(&mut self, window: &Range<TimeMs>) {
        self.last += 1;
        let hours =
            window.start.div_euclid(HOUR_MS)..=window.end.saturating_sub(1).max(window.start).div_euclid(HOUR_MS);
        // Results are replaced by windows of an hour; a longer one is no reason to write down each of its hours.
        if hours.end() - hours.start() > 24 {
            self.everywhere = self.last;
            return;
        }
        self.hours.extend(hours.map(|hour| (hour, self.last)));
    }

    /// Any result may have changed.
    pub(super) fn everywhere(&mut self) {
        self.last += 1;
        self.everywhere = self.last;
        self.hours.clear();
    }

    /// The number of the last change in the range; the same number means the same results.
    pub(super) fn version(&self, range: &Range<TimeMs>) -> u64 {
        let hours = range.start.div_euclid(HOUR_MS)..range.end.saturating_sub(1).div_euclid(HOUR_MS) + 1;
        let within = if hours.is_empty() { None } else { self.hours.range(hours).map(|(_, number)| *number).max() };
        within.unwrap_or_default().max(self.everywhere)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_concerns_its_hours_alone() {
        let hour = |n: i64| n * HOUR_MS..(n + 1) * HOUR_MS;
        let mut changes = Changes::default();
        let versions =
            |changes: &Changes| [hour(3), hour(4), hour(5), 0..10 * HOUR_MS].map(|range| changes.version(&range));
        assert_eq!(versions(&changes), [0; 4]);
        changes.within(&(4 * HOUR_MS..4 * HOUR_MS + 1));
        let [before, changed, after, all] = versions(&changes);
        assert!(before == 0 && changed == all && changed > 0);
        assert_eq!(after, 0);
        changes.everywhere();
        assert!(versions(&changes).iter().all(|version| *version > changed));
        let before = changes.version(&(0..TimeMs::MAX));
        changes.within(&(TimeMs::MIN..TimeMs::MAX));
        assert!(changes.version(&hour(7)) > before);
    }
}
