//! The fixed UTC grid of cells.

use std::ops::Range;

use goodput_exposition::sample::{Sample, TimeMs};
use goodput_verdict::HOUR_MS;

/// Length of a minute.
pub(crate) const MINUTE_MS: i64 = 60_000;

/// Whole minutes that divide an hour, so that cells never reach over one.
const CELL_MINUTES: [i64; 12] = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60];

/// Time between samples of a series: the median gap. `None` with fewer than two samples.
#[must_use]
pub(crate) fn interval_ms(samples: &[Sample]) -> Option<i64> {
    let gaps = || samples.windows(2).map(|pair| pair[1].time_ms - pair[0].time_ms);
    // What most of them are is the median: nothing is sorted for scrapes that come in time.
    let (first, count) = (gaps().next()?, samples.len() - 1);
    if gaps().filter(|gap| *gap == first).count() > count / 2 + 1 {
        return Some(first);
    }
    let mut gaps: Vec<i64> = gaps().collect();
    Some(*gaps.select_nth_unstable(count / 2).1)
}

/// Length of a cell: 60 s, or two scrape intervals if that is longer, rounded up to a divisor of an hour.
#[must_use]
pub(crate) fn cell_ms(interval_ms: i64) -> i64 {
    let wanted = 2 * interval_ms;
    CELL_MINUTES.iter().map(|m| m * MINUTE_MS).find(|ms| *ms >= wanted).unwrap_or(HOUR_MS)
}

/// The cells of a window, cut at its borders.
pub(crate) fn cells(window: Range<TimeMs>, cell_ms: i64) -> Vec<Range<TimeMs>> {
    let mut cells = Vec::new();
    let mut start = window.start;
    while start < window.end {
        let end = ((start.div_euclid(cell_ms) + 1) * cell_ms).min(window.end);
        cells.push(start..end);
        start = end;
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_lie_on_the_utc_grid_and_fill_the_window() {
        assert_eq!(cells(90_000..200_000, 60_000), [90_000..120_000, 120_000..180_000, 180_000..200_000]);
        assert_eq!(cells(5..5, 60_000), []);
        assert_eq!(cells(-30_000..30_000, 60_000), [-30_000..0, 0..30_000]);
    }

    #[test]
    fn a_cell_holds_two_scrapes() {
        assert_eq!([15_000, 30_000, 31_000, 60_000, 200_000].map(cell_ms), [60_000, 60_000, 120_000, 120_000, 600_000]);
    }

    #[test]
    fn the_interval_is_the_median_gap() {
        let at =
            |times: &[i64]| interval_ms(&times.iter().map(|t| Sample { time_ms: *t, value: 0.0 }).collect::<Vec<_>>());
        assert_eq!(at(&[0, 15, 30, 900, 915]), Some(15));
        assert_eq!(at(&[7]), None);
    }
}
