//! The stretch of time a report is about: an ISO week in a zone, or an explicit start and end.

use jiff::civil::{self, ISOWeekDate, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use schemars::JsonSchema;
use serde::Serialize;

use goodput_exposition::sample::TimeMs;

const HOUR_MS: i64 = 3_600_000;

/// Why there is no such period.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PeriodError {
    /// Not written as ISO 8601 writes weeks.
    #[error("{0:?}: expected an ISO week such as 2026-W47")]
    NotAWeek(String),
    /// The year is too short.
    #[error("{text}: {year} has {weeks} ISO weeks")]
    NoSuchWeek {
        /// As given.
        text: String,
        /// The ISO year.
        year: i16,
        /// How many weeks that year has: 52 or 53.
        weeks: i8,
    },
    /// Not a point in time.
    #[error(
        "{0:?}: expected a date (2026-11-16), a local time (2026-11-16T09:00) or one with offset (2026-11-16T09:00:00Z)"
    )]
    NotATime(String),
    /// Verdicts are stored by hour; a cut through an hour would be a guess.
    #[error("{0:?}: expected a full hour, because verdicts are stored by hour")]
    NotAnHour(String),
    /// Nothing in between.
    #[error("end {end} is not after start {start}")]
    Empty {
        /// As given.
        start: String,
        /// As given.
        end: String,
    },
}

/// A stretch of time; the end is exclusive.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Period {
    /// `2026-W47`, or start and end.
    pub label: String,
    /// IANA name of the zone in which the week is meant and times are shown.
    pub zone: String,
    /// First instant, RFC 3339 with the zone's offset.
    pub start: String,
    /// First instant after it, RFC 3339 with the zone's offset.
    pub end: String,
    /// First instant, Unix milliseconds.
    pub start_ms: TimeMs,
    /// First instant after it, Unix milliseconds.
    pub end_ms: TimeMs,
    /// Had it ended when the report was made? If not, the report is of what there was so far.
    pub is_over: bool,
    #[serde(skip)]
    time_zone: TimeZone,
    #[serde(skip)]
    week: Option<ISOWeekDate>,
}

impl Period {
    /// The ISO 8601 week, Monday 00:00 to Monday 00:00 in the zone: 168 hours, 167 or 169 when clocks change.
    pub fn iso_week(text: &str, zone: &TimeZone) -> Result<Self, PeriodError> {
        Ok(Self::of_week(parse_week(text)?, zone))
    }

    /// The last ISO week that is over at `now`.
    #[must_use]
    pub fn last_week(now: Timestamp, zone: &TimeZone) -> Self {
        let week = now.to_zoned(zone.clone()).date().iso_week_date();
        Self::of_week(week_before(week), zone)
    }

    /// The ISO week that `now` lies in.
    #[must_use]
    pub fn this_week(now: Timestamp, zone: &TimeZone) -> Self {
        Self::of_week(monday(now.to_zoned(zone.clone()).date().iso_week_date()), zone)
    }

    /// From one time to another; see [`parse_time`] for how times are written. Both must be full hours.
    pub fn between(start: &str, end: &str, zone: &TimeZone) -> Result<Self, PeriodError> {
        let (from, to) = (parse_hour(start, zone)?, parse_hour(end, zone)?);
        if to.timestamp() <= from.timestamp() {
            return Err(PeriodError::Empty { start: start.into(), end: end.into() });
        }
        Ok(Self::new(format!("{start} to {end}"), &from, &to, None))
    }

    /// These hours.
    pub(crate) fn hours(hours: &std::ops::Range<TimeMs>, zone: &TimeZone) -> Self {
        let (from, to) = (zoned(hours.start, zone), zoned(hours.end, zone));
        Self::new(format!("{} to {}", rfc3339(&from), rfc3339(&to)), &from, &to, None)
    }

    /// The stretch before this one: the week before, or as many hours before.
    #[must_use]
    pub fn previous(&self) -> Self {
        if let Some(week) = self.week {
            return Self::of_week(week_before(week), &self.time_zone);
        }
        Self::hours(&(self.start_ms - self.length_ms()..self.start_ms), &self.time_zone)
    }

    /// The same under another label.
    pub(crate) fn named(self, label: String) -> Self {
        Self { label, ..self }
    }

    /// The same, as it is at `now`.
    #[must_use]
    pub fn as_of(self, now: TimeMs) -> Self {
        Self { is_over: self.end_ms <= now, ..self }
    }

    /// What this one is compared with: the stretch before; of a period that goes on, and has verdicts until `reach`, as
    /// many full hours of it.
    pub(super) fn compared(&self, reach: Option<TimeMs>) -> Self {
        let other = self.previous();
        let had = self.end_so_far(reach) - self.start_ms;
        if had == self.length_ms() || had >= other.length_ms() {
            return other;
        }
        let (from, to) = (self.local(other.start_ms), self.local(other.start_ms + had));
        let label = match other.week {
            Some(_) => format!("{} to {} of {}", from.strftime("%a"), to.strftime("%a %H:%M"), other.label),
            None => format!("{} to {}", rfc3339(&from), rfc3339(&to)),
        };
        Self::new(label, &from, &to, None)
    }

    /// The end; of a period that goes on, and has verdicts until `reach`, the end of the full hour that they reach into.
    pub(super) fn end_so_far(&self, reach: Option<TimeMs>) -> TimeMs {
        let reach = reach.filter(|reach| !self.is_over && *reach < self.end_ms);
        reach.map_or(self.end_ms, |reach| self.start_ms - (self.start_ms - reach).div_euclid(HOUR_MS) * HOUR_MS)
    }

    /// The zone in which times are shown.
    pub(crate) fn zone(&self) -> &TimeZone {
        &self.time_zone
    }

    /// Is it a whole ISO week?
    pub(crate) fn is_week(&self) -> bool {
        self.week.is_some()
    }

    /// Milliseconds from start to end.
    #[must_use]
    pub fn length_ms(&self) -> i64 {
        self.end_ms - self.start_ms
    }

    /// A time as the report shows it, in the report's zone.
    #[must_use]
    pub fn show(&self, time: TimeMs) -> String {
        self.local(time).strftime("%a %Y-%m-%d %H:%M").to_string()
    }

    /// From when until when there is data, in words.
    pub(crate) fn reaching(&self, extent: &std::ops::Range<TimeMs>) -> String {
        format!("Data reaches from {} to {}, {}", self.show(extent.start), self.show(extent.end), self.zone)
    }

    /// The hours of the period that lie around this stretch of it.
    pub(super) fn around(&self, start_ms: TimeMs, end_ms: TimeMs) -> Self {
        let start_ms = (start_ms.div_euclid(HOUR_MS) * HOUR_MS).max(self.start_ms);
        let end_ms = (-(-end_ms).div_euclid(HOUR_MS) * HOUR_MS).min(self.end_ms);
        Self {
            is_over: self.is_over,
            ..Self::new(self.label.clone(), &self.local(start_ms), &self.local(end_ms), None)
        }
    }

    /// Marks for a time axis, about eight: midnights of a week, hours of a day.
    #[must_use]
    pub fn ticks(&self) -> Vec<(TimeMs, String)> {
        let hours = self.length_ms() / HOUR_MS;
        let step = [1, 3, 6, 12, 24, 168].into_iter().find(|step| hours / step <= 8).unwrap_or(hours / 8);
        let (step, format) = match step {
            24.. => (jiff::Span::new().days(step / 24), "%a %d %b"),
            _ => (jiff::Span::new().hours(step), "%a %H:%M"),
        };
        let start = self.local(self.start_ms);
        let start = if step.get_days() > 0 { next_midnight(start) } else { start };
        let times = (0..).map_while(|n| start.checked_add(step * n).ok());
        times
            .take_while(|time| time.timestamp().as_millisecond() < self.end_ms)
            .map(|time| (time.timestamp().as_millisecond(), time.strftime(format).to_string()))
            .collect()
    }

    fn local(&self, time: TimeMs) -> Zoned {
        zoned(time, &self.time_zone)
    }

    fn of_week(week: ISOWeekDate, zone: &TimeZone) -> Self {
        let monday = week.date();
        let label = format!("{:04}-W{:02}", week.year(), week.week());
        let from = start_of_day(monday, zone);
        let to = start_of_day(monday.saturating_add(jiff::Span::new().days(7)), zone);
        Self::new(label, &from, &to, Some(week))
    }

    fn new(label: String, from: &Zoned, to: &Zoned, week: Option<ISOWeekDate>) -> Self {
        let time_zone = from.time_zone().clone();
        Self {
            label,
            zone: time_zone.iana_name().unwrap_or("local").to_owned(),
            start: rfc3339(from),
            end: rfc3339(to),
            start_ms: from.timestamp().as_millisecond(),
            end_ms: to.timestamp().as_millisecond(),
            is_over: true,
            time_zone,
            week,
        }
    }
}

/// A time of the command line: a date means its midnight; without an offset the zone's local time is meant.
pub fn parse_time(text: &str, zone: &TimeZone) -> Result<Zoned, PeriodError> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant.to_zoned(zone.clone()));
    }
    let local: civil::DateTime = text.parse().map_err(|_| PeriodError::NotATime(text.into()))?;
    local.to_zoned(zone.clone()).map_err(|_| PeriodError::NotATime(text.into()))
}

fn parse_hour(text: &str, zone: &TimeZone) -> Result<Zoned, PeriodError> {
    let time = parse_time(text, zone)?;
    let full_hour = time.minute() == 0 && time.second() == 0 && time.subsec_nanosecond() == 0;
    if full_hour { Ok(time) } else { Err(PeriodError::NotAnHour(text.into())) }
}

fn parse_week(text: &str) -> Result<ISOWeekDate, PeriodError> {
    let malformed = || PeriodError::NotAWeek(text.into());
    let (year, week) = text.split_once("-W").ok_or_else(malformed)?;
    if year.len() != 4 || week.len() != 2 || !(year.to_owned() + week).bytes().all(|b| b.is_ascii_digit()) {
        return Err(malformed());
    }
    let (year, week): (i16, i8) = (year.parse().map_err(|_| malformed())?, week.parse().map_err(|_| malformed())?);
    let first = ISOWeekDate::new(year, 1, Weekday::Monday).map_err(|_| malformed())?;
    let no_such = || PeriodError::NoSuchWeek { text: text.into(), year, weeks: first.weeks_in_year() };
    ISOWeekDate::new(year, week, Weekday::Monday).map_err(|_| no_such())
}

fn monday(week: ISOWeekDate) -> ISOWeekDate {
    week.first_of_week().unwrap_or(week)
}

fn week_before(week: ISOWeekDate) -> ISOWeekDate {
    monday(week).date().saturating_sub(jiff::Span::new().days(7)).iso_week_date()
}

/// Midnight, or the first instant after it where clocks jump over midnight.
fn start_of_day(date: civil::Date, zone: &TimeZone) -> Zoned {
    let ambiguous = zone.to_ambiguous_zoned(date.at(0, 0, 0, 0));
    ambiguous.compatible().unwrap_or_else(|_| zoned(0, zone))
}

/// The first start of a day at this time or after it.
fn next_midnight(time: Zoned) -> Zoned {
    let today = start_of_day(time.date(), time.time_zone());
    if today >= time {
        today
    } else {
        start_of_day(time.date().saturating_add(jiff::Span::new().days(1)), time.time_zone())
    }
}

fn zoned(time: TimeMs, zone: &TimeZone) -> Zoned {
    Timestamp::from_millisecond(time).unwrap_or_default().to_zoned(zone.clone())
}

fn rfc3339(time: &Zoned) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).unwrap()
    }

    #[test]
    fn weeks_have_the_hours_that_clocks_give_them() {
        for (week, name, start, hours) in [
            ("2026-W47", "UTC", "2026-11-16T00:00:00+00:00", 168),
            ("2026-W47", "Europe/Berlin", "2026-11-16T00:00:00+01:00", 168),
            ("2026-W13", "Europe/Berlin", "2026-03-23T00:00:00+01:00", 167),
            ("2026-W43", "Europe/Berlin", "2026-10-19T00:00:00+02:00", 169),
            ("2026-W10", "America/New_York", "2026-03-02T00:00:00-05:00", 167),
            ("2026-W44", "America/New_York", "2026-10-26T00:00:00-04:00", 169),
            ("2026-W47", "Asia/Kolkata", "2026-11-16T00:00:00+05:30", 168),
            ("2026-W01", "UTC", "2025-12-29T00:00:00+00:00", 168),
            ("2026-W53", "UTC", "2026-12-28T00:00:00+00:00", 168),
            ("2027-W01", "UTC", "2027-01-04T00:00:00+00:00", 168),
        ] {
            let period = Period::iso_week(week, &zone(name)).unwrap();
            assert_eq!(period.start, start, "{week} {name}");
            assert_eq!(period.length_ms(), hours * HOUR, "{week} {name}");
            assert_eq!(period.label, week);
        }
    }

    #[test]
    fn weeks_follow_each_other_without_gap() {
        let mut week = Period::iso_week("2027-W02", &zone("Europe/Berlin")).unwrap();
        for label in ["2027-W01", "2026-W53", "2026-W52"] {
            let before = week.previous();
            assert_eq!((before.label.as_str(), before.end_ms), (label, week.start_ms));
            week = before;
        }
    }

    #[test]
    fn a_wrong_week_is_named() {
        for (text, error) in [
            ("2027-W53", "2027-W53: 2027 has 52 ISO weeks"),
            ("2026-W54", "2026-W54: 2026 has 53 ISO weeks"),
            ("2026-W00", "2026-W00: 2026 has 53 ISO weeks"),
            ("2026-47", "\"2026-47\": expected an ISO week such as 2026-W47"),
            ("2026-W7", "\"2026-W7\": expected an ISO week such as 2026-W47"),
            ("+026-W07", "\"+026-W07\": expected an ISO week such as 2026-W47"),
            ("", "\"\": expected an ISO week such as 2026-W47"),
        ] {
            assert_eq!(Period::iso_week(text, &TimeZone::UTC).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn the_week_now_and_the_week_before() {
        let monday_in_berlin = "2026-11-15T23:30:00Z".parse().unwrap();
        assert_eq!(Period::this_week(monday_in_berlin, &zone("Europe/Berlin")).label, "2026-W47");
        assert_eq!(Period::last_week(monday_in_berlin, &zone("Europe/Berlin")).label, "2026-W46");
        assert_eq!(Period::last_week(monday_in_berlin, &TimeZone::UTC).label, "2026-W45");
    }

    #[test]
    fn a_period_that_goes_on_is_compared_with_as_many_hours_of_the_one_before() {
        let week = Period::iso_week("2026-W48", &TimeZone::UTC).unwrap();
        let (wednesday, late) = (week.start_ms + 59 * HOUR, week.start_ms + 58 * HOUR + HOUR / 2);
        for reach in [wednesday, late] {
            let other = week.clone().as_of(wednesday).compared(Some(reach));
            assert_eq!((other.length_ms(), other.start_ms), (59 * HOUR, week.previous().start_ms));
            assert_eq!(other.label, "Mon to Wed 11:00 of 2026-W47");
        }
        let whole = |period: Period, reach| period.compared(reach).label;
        assert_eq!(whole(week.clone(), Some(wednesday)), "2026-W47", "over, and its data end early");
        assert_eq!(whole(week.clone().as_of(wednesday), None), "2026-W47");
        assert_eq!(whole(week.clone().as_of(week.end_ms), Some(week.end_ms)), "2026-W47");
    }

    #[test]
    fn explicit_bounds() {
        let berlin = zone("Europe/Berlin");
        let period = Period::between("2026-11-16", "2026-11-16T12:00", &berlin).unwrap();
        assert_eq!(period.length_ms(), 12 * HOUR);
        assert_eq!(period.start, "2026-11-16T00:00:00+01:00");
        assert_eq!(period.previous().end_ms, period.start_ms);
        assert_eq!(period.previous().length_ms(), 12 * HOUR);
        let utc = Period::between("2026-11-16T09:00:00Z", "2026-11-16T12:00:00+02:00", &berlin).unwrap();
        assert_eq!(utc.length_ms(), HOUR);

        let error = |start, end| Period::between(start, end, &berlin).unwrap_err().to_string();
        assert!(error("yesterday", "2026-11-16").starts_with("\"yesterday\": expected a date"));
        assert_eq!(
            error("2026-11-16T09:17", "2026-11-17"),
            "\"2026-11-16T09:17\": expected a full hour, because verdicts are stored by hour"
        );
        assert_eq!(error("2026-11-17", "2026-11-16"), "end 2026-11-16 is not after start 2026-11-17");
    }
}
