//! The windows that verdicts are stored by. Pure.

use std::ops::Range;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::HOUR_MS;
use goodput_exposition::sample::TimeMs;
use goodput_rules::classify::{LOOK_AHEAD_MS, LOOK_BACK_MS};
use goodput_rules::signal;
use goodput_store::Selection;

/// The windows that together cover the range, in order; the first and the last may reach out of it.
#[must_use]
pub fn windows(range: Range<TimeMs>, zone: &TimeZone) -> Vec<Range<TimeMs>> {
    let mut windows = Vec::new();
    let mut hour = range.start.div_euclid(HOUR_MS) * HOUR_MS;
    while hour < range.end && !range.is_empty() {
        let cut = hour + into_hour(hour, zone);
        let parts = [hour..cut, cut..hour + HOUR_MS];
        windows.extend(parts.into_iter().filter(|w| !w.is_empty() && w.end > range.start && w.start < range.end));
        hour += HOUR_MS;
    }
    windows
}

/// How long after the full UTC hour the zone's clocks show a full hour.
pub(super) fn into_hour(hour: TimeMs, zone: &TimeZone) -> i64 {
    let instant = Timestamp::from_millisecond(hour).unwrap_or_default();
    let offset_ms = i64::from(zone.to_offset(instant).seconds()) * 1000;
    (-offset_ms).rem_euclid(HOUR_MS)
}

/// All series near the window that verdicts on it rest on.
pub(crate) fn selection(window: &Range<TimeMs>) -> Selection {
    Selection {
        metrics: signal::metric_names().map(str::to_owned).collect(),
        labels: Vec::new(),
        range: window.start - LOOK_BACK_MS..window.end + LOOK_AHEAD_MS,
    }
}
