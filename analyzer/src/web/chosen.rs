//! The period that a page is about, read from the query: `period=24h`, `period=2026-W47`, or `start` and `end`.

use std::ops::Range;

use jiff::tz::TimeZone;
use serde::Deserialize;

use super::clock::{Clock, HOUR_MS, instant, rfc3339};
use super::kept::given;
use super::page::{Link, Problem};
use crate::report::period::parse_time;
use crate::report::{Period, PeriodError};
use goodput_exposition::sample::TimeMs;

/// Verdicts of a longer time are not loaded for one page.
pub(super) const MAX_DAYS: i64 = 35;

/// Names in the query, and how many full hours before the open one are shown.
const RECENT: [(&str, i64); 3] = [("1h", 1), ("24h", 24), ("7d", 7 * 24)];
const DEFAULT: (&str, i64) = RECENT[1];

/// The fields of the query.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PeriodQuery {
    period: Option<String>,
    start: Option<String>,
    end: Option<String>,
}

impl PeriodQuery {
    /// Of the fields `period`, `start` and `end`, or what stands for them; what is empty is not given.
    pub(super) fn of(fields: [&Option<String>; 3]) -> Self {
        let [period, start, end] = fields.map(|field| given(field).map(str::to_owned));
        Self { period, start, end }
    }
}

#[cfg(test)]
impl PeriodQuery {
    pub(super) fn week(label: &str) -> Self {
        Self { period: Some(label.to_owned()), ..Self::default() }
    }
}

/// A period, and how it was asked for.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) start_ms: TimeMs,
    pub(super) end_ms: TimeMs,
    pub(super) clock: Clock,
    /// What asks for it, for links to other pages.
    pub(super) query: String,
    now: TimeMs,
}

impl Chosen {
    /// What the query asks for; the last 24 hours when it asks for nothing.
    pub(super) fn of(query: &PeriodQuery, now: TimeMs, zone: &TimeZone) -> Result<Self, Problem> {
        let clock = Clock { zone: zone.clone() };
        match (query.period.as_deref(), query.start.as_deref(), query.end.as_deref()) {
            (None, None, None) => Ok(Self::recent(DEFAULT, now, clock)),
            (Some(text), None, None) => Self::named(text, now, clock),
            (None, Some(start), Some(end)) => Self::between(start, end, now, clock),
            (None, _, None) => {
                Err(Problem::bad("end: missing, while there is a start; expected the first full hour after"))
            }
            (None, None, _) => Err(Problem::bad("start: missing, while there is an end; expected a full hour before")),
            (Some(_), ..) => Err(Problem::bad("period: given together with start or end; expected one or the other")),
        }
    }

    /// From one full hour to another.
    pub(super) fn hours(range: &Range<TimeMs>, now: TimeMs, clock: Clock) -> Self {
        let chosen = Self { start_ms: range.start, end_ms: range.end, clock, query: String::new(), now };
        Self { query: chosen.hours_query(), ..chosen }
    }

    fn named(text: &str, now: TimeMs, clock: Clock) -> Result<Self, Problem> {
        if let Some(recent) = RECENT.into_iter().find(|(name, _)| *name == text) {
            return Ok(Self::recent(recent, now, clock));
        }
        let week = Period::iso_week(text, &clock.zone).map_err(|error| match error {
            PeriodError::NotAWeek(_) => {
                Problem::bad(format!("period: {text:?}: expected 1h, 24h, 7d or an ISO week such as 2026-W47"))
            }
            error => Problem::bad(format!("period: {error}")),
        })?;
        Ok(Self::of_week(week, now, clock))
    }

    /// The last full hours, and the open one as far as it is judged.
    fn recent((name, hours): (&str, i64), now: TimeMs, clock: Clock) -> Self {
        let open = now - clock.past_hour(now);
        Self { start_ms: open - hours * HOUR_MS, end_ms: open + HOUR_MS, clock, query: format!("period={name}"), now }
    }

    fn of_week(week: Period, now: TimeMs, clock: Clock) -> Self {
        let query = format!("period={}", week.label);
        Self { start_ms: week.start_ms, end_ms: week.end_ms, clock, query, now }
    }

    fn between(start: &str, end: &str, now: TimeMs, clock: Clock) -> Result<Self, Problem> {
        for (field, text) in [("start", start), ("end", end)] {
            parse_time(text, &clock.zone).map_err(|error| Problem::bad(format!("{field}: {error}")))?;
        }
        let period =
            Period::between(start, end, &clock.zone).map_err(|error| Problem::bad(format!("start, end: {error}")))?;
        if period.length_ms() > MAX_DAYS * 24 * HOUR_MS {
            return Err(Problem::bad(format!("start, end: expected no more than {MAX_DAYS} days from start to end")));
        }
        Ok(Self::hours(&(period.start_ms..period.end_ms), now, clock))
    }

    pub(super) fn range(&self) -> Range<TimeMs> {
        self.start_ms..self.end_ms
    }

    pub(super) fn length_ms(&self) -> i64 {
        self.end_ms - self.start_ms
    }

    /// `Fri 2026-11-20 16:00 to Sat 2026-11-21 17:00, Europe/Berlin`.
    pub(super) fn show(&self) -> String {
        let (start, end) = (self.clock.show(self.start_ms), self.clock.show(self.end_ms));
        format!("{start} to {end}, {}", self.clock.zone_name())
    }

    /// `2026-W47`, or `Sat 21 Nov 2026 03:00–05:00`.
    pub(super) fn name(&self) -> String {
        self.week().map_or_else(|| self.clock.stretch(self.start_ms, self.end_ms), str::to_owned)
    }

    /// As the report has it.
    pub(super) fn period(&self) -> Period {
        let week = self.week().and_then(|week| Period::iso_week(week, &self.clock.zone).ok());
        week.unwrap_or_else(|| Period::hours(&self.range(), &self.clock.zone)).as_of(self.now)
    }

    /// Another period, seen at the same time.
    pub(super) fn over(&self, period: &Period) -> Self {
        match period.is_week() {
            true => Self::of_week(period.clone(), self.now, self.clock.clone()),
            false => Self::hours(&(period.start_ms..period.end_ms), self.now, self.clock.clone()),
        }
    }

    /// The hours that are compared, of this and of another time, or of two nodes: of a time that goes on, those that
    /// verdicts reach over in full; of the other, as many.
    pub(super) fn compared(&self, is_of_nodes: bool, against: Option<&Self>, reach: Option<TimeMs>) -> [Self; 2] {
        let a = self.full(reach);
        let b = match against {
            _ if is_of_nodes => a.clone(),
            Some(against) => against.full(reach),
            // Of the last hours, those before them; of another stretch, the one before it.
            None if self.is_recent() => a.over(&a.period().previous()),
            None => self.over(&self.period().previous()),
        };
        if !self.is_open() && against.is_none_or(|against| !against.is_open()) {
            return [a, b];
        }
        let length_ms = a.length_ms().min(b.length_ms());
        // A shorter time that is over is compared with all of the other.
        let b = if self.is_open() { b.first(length_ms) } else { b };
        [a.first(length_ms), b]
    }

    /// Its full hours that verdicts reach over, while it goes on; all of it where there are none.
    fn full(&self, reach: Option<TimeMs>) -> Self {
        let Some(reach) = reach.filter(|reach| self.is_open() && *reach < self.end_ms) else { return self.clone() };
        self.first((reach - self.start_ms).div_euclid(HOUR_MS) * HOUR_MS)
    }

    /// As much of it from its start on, where there is more; all of it for nothing.
    fn first(&self, length_ms: i64) -> Self {
        if length_ms <= 0 || length_ms >= self.length_ms() {
            return self.clone();
        }
        Self::hours(&(self.start_ms..self.start_ms + length_ms), self.now, self.clock.clone())
    }

    /// Does it reach to now, so that the page will change?
    pub(super) fn is_open(&self) -> bool {
        self.end_ms > self.now
    }

    /// Was it asked for as the last hours?
    fn is_recent(&self) -> bool {
        self.query.starts_with("period=") && self.week().is_none()
    }

    /// The ISO week, where that was asked for.
    pub(super) fn week(&self) -> Option<&str> {
        self.query.strip_prefix("period=").filter(|period| period.contains("-W"))
    }

    /// What asks for it, as the hidden fields of a form.
    pub(super) fn fields(&self) -> Vec<(String, String)> {
        let fields = self.query.split('&').filter_map(|field| field.split_once('='));
        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// What asks the API for it.
    pub(super) fn hours_query(&self) -> String {
        format!("start={}&end={}", rfc3339(self.start_ms), rfc3339(self.end_ms))
    }

    /// The first page over the same period.
    pub(super) fn fleet(&self) -> Link {
        Link::new(format!("/?{}", self.query), "Fleet")
    }

    /// The periods to choose from, as links to this path.
    pub(super) fn choices(&self, path: &str) -> Vec<Link> {
        let now = instant(self.now);
        let weeks = [Period::this_week(now, &self.clock.zone), Period::last_week(now, &self.clock.zone)];
        let [this, last] = weeks.map(|week| week.label);
        let recent = RECENT.into_iter().map(|(name, hours)| {
            let text = if hours > 24 { format!("{} days", hours / 24) } else { format!("{hours} h") };
            (format!("period={name}"), text)
        });
        let weeks = [(format!("period={this}"), format!("{this}, this week")), (format!("period={last}"), last)];
        recent.chain(weeks).map(|(query, text)| self.choice(path, query, text)).collect()
    }

    /// The period of the same length before this one, or after it.
    pub(super) fn step(&self, path: &str, forward: bool, text: &str) -> Link {
        let length = if forward { self.length_ms() } else { -self.length_ms() };
        if self.week().is_none() {
            return self.to(path, &(self.start_ms + length..self.end_ms + length), text);
        }
        let other = if forward { self.end_ms } else { self.start_ms - 1 };
        self.choice(path, format!("period={}", self.week_of(other)), text.to_owned())
    }

    /// The ISO week of a time.
    pub(super) fn week_of(&self, time: TimeMs) -> String {
        Period::this_week(instant(time), &self.clock.zone).label
    }

    fn choice(&self, path: &str, query: String, text: String) -> Link {
        Link { href: format!("{path}?{query}"), text, is_current: query == self.query }
    }

    /// The same path over other hours.
    pub(super) fn to(&self, path: &str, range: &Range<TimeMs>, text: impl Into<String>) -> Link {
        let other = Self::hours(range, self.now, self.clock.clone());
        self.choice(path, other.query, text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sat 2026-11-21 16:31 UTC.
    const NOW: TimeMs = 1_795_278_660_000;

    fn asked(period: Option<&str>, start: Option<&str>, end: Option<&str>, zone: &str) -> Result<String, String> {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let query = PeriodQuery { period: own(period), start: own(start), end: own(end) };
        let chosen = Chosen::of(&query, NOW, &TimeZone::get(zone).unwrap());
        chosen.map(|chosen| chosen.show()).map_err(|problem| problem.what)
    }

    #[test]
    fn recent_hours_end_with_the_open_one_and_weeks_are_whole() {
        let shown = |period, zone| asked(Some(period), None, None, zone).unwrap();
        assert_eq!(shown("1h", "UTC"), "Sat 2026-11-21 15:00 to Sat 2026-11-21 17:00, UTC");
        assert_eq!(shown("24h", "Asia/Kolkata"), "Fri 2026-11-20 22:00 to Sat 2026-11-21 23:00, Asia/Kolkata");
        assert_eq!(shown("2026-W47", "Europe/Berlin"), "Mon 2026-11-16 00:00 to Mon 2026-11-23 00:00, Europe/Berlin");
        assert_eq!(asked(None, None, None, "UTC"), asked(Some("24h"), None, None, "UTC"));
        let hours = asked(None, Some("2026-11-21T14:00:00Z"), Some("2026-11-21T15:00:00Z"), "Europe/Berlin");
        assert_eq!(hours.unwrap(), "Sat 2026-11-21 15:00 to Sat 2026-11-21 16:00, Europe/Berlin");
    }

    #[test]
    fn a_wrong_period_names_the_field_and_what_is_expected() {
        let error = |period, start, end| asked(period, start, end, "UTC").unwrap_err();
        let expected = "period: \"2d\": expected 1h, 24h, 7d or an ISO week such as 2026-W47";
        assert_eq!(error(Some("2d"), None, None), expected);
        assert_eq!(error(Some("2027-W53"), None, None), "period: 2027-W53: 2027 has 52 ISO weeks");
        assert!(error(None, Some("noon"), Some("2026-11-21")).starts_with("start: \"noon\": expected a date"));
        assert!(error(None, Some("2026-11-21"), None).starts_with("end: missing"));
        assert!(error(None, None, Some("2026-11-21")).starts_with("start: missing"));
        assert!(error(Some("1h"), Some("2026-11-21"), None).starts_with("period: given together"));
        let error = error(None, Some("2026-01-01"), Some("2026-11-21"));
        assert_eq!(error, "start, end: expected no more than 35 days from start to end");
    }

    /// Verdicts until 16:15.
    const REACH: TimeMs = NOW - 16 * 60_000;

    fn compared(period: &str, against: Option<&str>) -> [String; 2] {
        let chosen = |text: &str| {
            let query = PeriodQuery::of([&Some(text.to_owned()), &None, &None]);
            Chosen::of(&query, NOW, &TimeZone::UTC).map_err(|problem| problem.what).unwrap()
        };
        let against = against.map(chosen);
        chosen(period).compared(false, against.as_ref(), Some(REACH)).map(|time| time.show())
    }

    #[test]
    fn a_time_that_goes_on_is_compared_by_its_full_hours() {
        let recent =
            ["Sat 2026-11-21 15:00 to Sat 2026-11-21 16:00, UTC", "Sat 2026-11-21 14:00 to Sat 2026-11-21 15:00, UTC"];
        assert_eq!(compared("1h", None), recent);
        let day =
            ["Fri 2026-11-20 16:00 to Sat 2026-11-21 16:00, UTC", "Thu 2026-11-19 16:00 to Fri 2026-11-20 16:00, UTC"];
        assert_eq!(compared("24h", None), day);
        let [this, last] =
            ["Mon 2026-11-16 00:00 to Sat 2026-11-21 16:00, UTC", "Mon 2026-11-09 00:00 to Sat 2026-11-14 16:00, UTC"];
        assert_eq!(compared("2026-W47", None), [this, last]);
        assert_eq!(compared("2026-W46", Some("2026-W47")), [last, this], "whichever of the two goes on");
        let whole =
            ["Mon 2026-11-09 00:00 to Mon 2026-11-16 00:00, UTC", "Mon 2026-11-02 00:00 to Mon 2026-11-09 00:00, UTC"];
        assert_eq!(compared("2026-W46", None), whole);
    }
}
