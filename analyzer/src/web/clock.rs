//! Times as pages show them, in the configured zone, and as addresses hold them, in UTC.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};

use goodput_exposition::sample::TimeMs;

pub(super) const MINUTE_MS: i64 = 60_000;
pub(super) const HOUR_MS: i64 = 60 * MINUTE_MS;

/// Writes times in a zone.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    pub(super) zone: TimeZone,
}

impl Clock {
    pub(super) fn local(&self, time: TimeMs) -> Zoned {
        instant(time).to_zoned(self.zone.clone())
    }

    /// `Sat 2026-11-21 14:00`.
    pub(super) fn show(&self, time: TimeMs) -> String {
        self.format(time, "%a %Y-%m-%d %H:%M")
    }

    /// `Sat 21 Nov 2026 14:00–15:12`; the second day only when it is another.
    pub(super) fn stretch(&self, start: TimeMs, end: TimeMs) -> String {
        let same_day = self.local(start).date() == self.local(end).date();
        let to = if same_day { "%H:%M" } else { "%a %d %b %Y %H:%M" };
        let separator = if same_day { "–" } else { " – " };
        format!("{}{separator}{}", self.format(start, "%a %d %b %Y %H:%M"), self.format(end, to))
    }

    pub(super) fn format(&self, time: TimeMs, format: &str) -> String {
        self.local(time).strftime(format).to_string()
    }

    /// The zone's IANA name.
    pub(super) fn zone_name(&self) -> String {
        self.zone.iana_name().unwrap_or("local time").to_owned()
    }

    /// When the clocks showed the same day of the week and hour, this many weeks before.
    pub(super) fn weeks_before(&self, time: TimeMs, weeks: i64) -> TimeMs {
        self.local(time).saturating_sub(weeks.weeks()).timestamp().as_millisecond()
    }

    /// Milliseconds since the clocks of the zone last showed a full hour.
    pub(super) fn past_hour(&self, time: TimeMs) -> i64 {
        (time + self.offset(time)).rem_euclid(HOUR_MS)
    }

    /// What the zone's clocks are ahead of UTC.
    pub(super) fn offset(&self, time: TimeMs) -> i64 {
        i64::from(self.zone.to_offset(instant(time)).seconds()) * 1000
    }
}

/// RFC 3339 in UTC, as addresses hold times: it means the same in every zone.
pub(super) fn rfc3339(time: TimeMs) -> String {
    instant(time).to_string()
}

pub(super) fn instant(time: TimeMs) -> Timestamp {
    Timestamp::from_millisecond(time).unwrap_or_default()
}

/// `72 min`, `3 h`, `3 h 20 min`.
pub(super) fn length(ms: i64) -> String {
    match (ms / HOUR_MS, ms % HOUR_MS / MINUTE_MS) {
        (0, 0) => format!("{} s", ms / 1000),
        (0..2, _) => format!("{} min", ms / MINUTE_MS),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}
