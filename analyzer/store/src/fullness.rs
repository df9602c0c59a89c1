//! Says in the log when a limit on series is nearly reached and when new series do not fit: once when that begins, and once
//! when it is over.

use std::collections::{BTreeMap, BTreeSet};

use tracing::{info, warn};

use super::active::Full;

/// Nothing was dropped for so long: dropping is over.
const OVER_S: u32 = 300;

#[derive(Default)]
pub(super) struct Fullness {
    /// Names of limits that are used to four fifths.
    near: BTreeSet<&'static str>,
    /// When series were last dropped, by reason.
    dropping: BTreeMap<Full, u32>,
}

/// What was dropped in one commit for one reason.
#[derive(Clone, Debug, Default)]
pub(super) struct Dropped {
    /// The sender or scrape job.
    pub(super) of: String,
    /// The limit that it reached.
    pub(super) limit: u64,
    pub(super) series: u64,
    pub(super) samples: u64,
}

impl Full {
    fn setting(self) -> &'static str {
        match self {
            Self::Series => "store.max_series",
            Self::Owner => "store.max_series_per_sender, or max_series of the scrape job",
            Self::LabelBytes => "store.max_label_bytes",
            Self::Catalogue => "four times store.max_series, series that have ended included",
        }
    }
}

impl Fullness {
    /// So much of a limit is used. Returns whether it is near, which ends below three quarters.
    pub(super) fn note_used(&mut self, setting: &'static str, used: u64, limit: u64) -> bool {
        let part = |share: u64| limit / 100 * share + limit % 100 * share / 100;
        if used >= part(80).max(1) {
            if self.near.insert(setting) {
                warn!(
                    setting,
                    used, limit, "four fifths of a limit are used; new series will be dropped when it is reached"
                );
            }
        } else if used < part(75).max(1) && self.near.remove(setting) {
            info!(setting, used, limit, "less than three quarters of the limit are used again");
        }
        self.near.contains(setting)
    }

    /// New series did not fit. Returns whether that is news.
    pub(super) fn note_dropped(&mut self, full: Full, dropped: &Dropped, now_s: u32) -> bool {
        let is_news = self.dropping.insert(full, now_s).is_none();
        if is_news {
            let Dropped { of, limit, series, samples } = dropped;
            warn!(
                setting = full.setting(),
                limit,
                sender = of,
                series,
                samples,
                "new series are dropped: a limit is reached, and no series that has ended can make room"
            );
        }
        is_news
    }

    /// Nothing was dropped for a while: the next drop is news again.
    pub(super) fn note_time(&mut self, now_s: u32) {
        self.dropping.retain(|full, last_s| {
            let goes_on = now_s.saturating_sub(*last_s) < OVER_S;
            if !goes_on {
                info!(setting = full.setting(), "no new series was dropped for five minutes");
            }
            goes_on
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_near_from_four_fifths_until_below_three_quarters() {
        let mut fullness = Fullness::default();
        let seen = [0, 79, 80, 100, 79, 75, 74, 79].map(|used| fullness.note_used("x", used, 100));
        assert_eq!(seen, [false, false, true, true, true, true, false, false]);
        assert!(fullness.note_used("y", u64::MAX, u64::MAX) && !fullness.note_used("z", 0, 0));
    }

    #[test]
    fn dropping_is_news_once_and_again_after_a_pause() {
        let (mut fullness, dropped) = (Fullness::default(), Dropped::default());
        assert!(fullness.note_dropped(Full::Series, &dropped, 0));
        assert!(!fullness.note_dropped(Full::Series, &dropped, 200));
        assert!(fullness.note_dropped(Full::LabelBytes, &dropped, 200), "another reason");
        fullness.note_time(499);
        assert!(!fullness.note_dropped(Full::Series, &dropped, 499));
        fullness.note_time(500);
        assert!(fullness.note_dropped(Full::LabelBytes, &dropped, 500));
    }
}
