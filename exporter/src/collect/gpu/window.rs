//! How much counters grew within the last so long.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// What counters showed at each look, as far back as the window reaches.
#[derive(Default)]
pub(super) struct Windows<K> {
    looks: VecDeque<(Instant, BTreeMap<K, u64>)>,
}

impl<K: Copy + Ord> Windows<K> {
    /// Looks at the counters, and tells how much each grew within the window. The counters begin at 0 with the exporter,
    /// and what happened between two looks happened at the second, for all that is known here.
    pub(super) fn grown(&mut self, at: Instant, counts: &BTreeMap<K, u64>, window: Duration) -> BTreeMap<K, u64> {
        // The last look before the window began is what the counters grew from; what is older is of no use any more.
        while self.looks.get(1).is_some_and(|(then, _)| at.saturating_duration_since(*then) >= window) {
            self.looks.pop_front();
        }
        let base = self.looks.front().filter(|(then, _)| at.saturating_duration_since(*then) >= window);
        let before = |key: &K| base.and_then(|(_, counts)| counts.get(key)).copied().unwrap_or(0);
        let grown = counts.iter().map(|(key, count)| (*key, count.saturating_sub(before(key)))).collect();
        self.looks.push_back((at, counts.clone()));
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_leave_the_window_as_they_came() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut windows = Windows::default();
        let mut grown = |after: u32, count: u64| {
            windows.grown(begin + after * second, &BTreeMap::from([(79, count)]), 300 * second)[&79]
        };
        assert_eq!(grown(15, 2), 2, "the first look counts from the exporter's start");
        assert_eq!(grown(30, 2), 2);
        assert_eq!(grown(45, 5), 5);
        assert_eq!(grown(314, 5), 5);
        assert_eq!(grown(315, 5), 3, "two were seen 300 s ago");
        assert_eq!(grown(345, 5), 0);
        assert_eq!(grown(100_000, 6), 1);
    }

    #[test]
    fn looks_are_forgotten() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut windows = Windows::default();
        for look in 0..100 {
            windows.grown(begin + look * 15 * second, &BTreeMap::from([(0, u64::from(look))]), 60 * second);
        }
        assert!(windows.looks.len() <= 6, "{}", windows.looks.len());
    }
}
