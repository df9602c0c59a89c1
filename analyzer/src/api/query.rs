//! What a query asks for.

use std::collections::BTreeMap;
use std::ops::Range;

use jiff::tz::TimeZone;

use super::Page;
use super::problem::Problem;
use super::route::Route;
use crate::report::Period;
use crate::report::period::parse_time;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::HOUR_MS;

/// Items of a page unless the query says otherwise, and at most.
pub(super) const DEFAULT_LIMIT: usize = 1_000;
pub(super) const MAX_LIMIT: usize = 10_000;

/// The parameters of a query.
pub(super) struct Asked {
    given: BTreeMap<String, String>,
    /// The most hours between `start` and `end`.
    max_hours: i64,
}

/// Which part of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) cursor: usize,
    pub(super) limit: usize,
}

impl Asked {
    /// Takes the parameters; the route must know each.
    pub(super) fn of(given: BTreeMap<String, String>, route: &Route) -> Result<Self, Problem> {
        let of_query = route.parameters().filter(|parameter| !parameter.is_in_path);
        let known: Vec<&str> = of_query.map(|parameter| parameter.name).collect();
        match given.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(Problem::bad(name, format!("one of {}", known.join(", ")), Some(name))),
            None => Ok(Self { given, max_hours: route.hours.unwrap_or_default() }),
        }
    }

    /// The same with what the path says.
    pub(super) fn at(mut self, path: BTreeMap<String, String>) -> Self {
        self.given.extend(path);
        self
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(String::as_str)
    }

    /// Is the value what is asked for? Anything is, where nothing is asked for.
    pub(super) fn wants(&self, name: &str, value: Option<&str>) -> bool {
        self.get(name).is_none_or(|wanted| value == Some(wanted))
    }

    pub(super) fn owned(&self, name: &str) -> Option<String> {
        self.given.get(name).cloned()
    }

    /// The one of all that has this name.
    pub(super) fn named<T: Copy>(
        &self,
        field: &str,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.get(field) else { return Ok(None) };
        let found = all.iter().copied().find(|one| name(*one) == text);
        let names = || all.iter().map(|one| name(*one)).collect::<Vec<_>>().join(", ");
        found.map(Some).ok_or_else(|| Problem::bad(field, format!("one of {}", names()), Some(text)))
    }

    /// From `start` to `end`; without them the last 24 full hours and the open one.
    pub(super) fn range(&self, now: TimeMs, zone: &TimeZone) -> Result<Range<TimeMs>, Problem> {
        let max_hours = self.max_hours;
        let time = |field: &str, otherwise: TimeMs| {
            let Some(text) = self.get(field) else { return Ok(otherwise) };
            let parsed = parse_time(text, zone).map(|time| time.timestamp().as_millisecond());
            parsed.map_err(|_| Problem::bad(field, "a time such as 2026-11-16T09:00:00Z, or a date", Some(text)))
        };
        let open = now.div_euclid(HOUR_MS) * HOUR_MS;
        let end = time("end", open + HOUR_MS)?;
        let start = time("start", end - 25.min(max_hours) * HOUR_MS)?;
        if start >= end || end - start > max_hours * HOUR_MS {
            let expected = format!("a time before end, by at most {max_hours} hours");
            return Err(Problem::bad("start", expected, self.get("start")));
        }
        Ok(start..end)
    }

    /// The ISO week, where the query names one.
    pub(super) fn week(&self, now: TimeMs, zone: &TimeZone) -> Result<Option<Period>, Problem> {
        let Some(week) = self.get("week") else { return Ok(None) };
        let asked = Period::iso_week(week, zone).map(|period| Some(period.as_of(now)));
        asked.map_err(|_| Problem::bad("week", "an ISO week such as 2026-W47", Some(week)))
    }

    /// The full hours from `start` to `end`, or the ISO week, where the query has either.
    pub(super) fn period(&self, now: TimeMs, zone: &TimeZone) -> Result<Option<Period>, Problem> {
        let Some(field) = ["start", "end"].into_iter().find(|field| self.get(field).is_some()) else {
            return self.week(now, zone);
        };
        if let Some(week) = self.get("week") {
            return Err(Problem::bad("week", format!("no week beside {field}"), Some(week)));
        }
        let range = self.range(now, zone)?;
        let shown = |time| jiff::Timestamp::from_millisecond(time).unwrap_or_default().to_string();
        let hours = Period::between(&shown(range.start), &shown(range.end), zone);
        let period = hours.map_err(|error| Problem::bad(field, error.to_string(), self.get(field)))?;
        Ok(Some(period.as_of(now)))
    }

    /// Is the list asked for as CSV?
    pub(super) fn is_csv(&self) -> Result<bool, Problem> {
        match self.get("format") {
            None | Some("json") => Ok(false),
            Some("csv") => Ok(true),
            Some(other) => Err(Problem::bad("format", "one of json, csv", Some(other))),
        }
    }

    pub(super) fn part(&self) -> Result<Part, Problem> {
        let number = |field: &str, otherwise: usize, allowed: std::ops::RangeInclusive<usize>| {
            let Some(text) = self.get(field) else { return Ok(otherwise) };
            let expected = || format!("a whole number from {} to {}", allowed.start(), allowed.end());
            let number = text.parse().ok().filter(|number| allowed.contains(number));
            number.ok_or_else(|| Problem::bad(field, expected(), Some(text)))
        };
        let limit = number("limit", DEFAULT_LIMIT, 1..=MAX_LIMIT)?;
        Ok(Part { cursor: number("cursor", 0, 0..=u32::MAX as usize)?, limit })
    }
}

impl Part {
    /// This part of a list that is in memory.
    pub(super) fn of<T>(self, all: impl IntoIterator<Item = T>) -> Page<T> {
        self.begins(all.into_iter().skip(self.cursor).take(self.limit + 1).collect())
    }

    /// The part, read with one item more than asked for, to see whether there is more.
    pub(super) fn begins<T>(self, mut data: Vec<T>) -> Page<T> {
        let next = (data.len() > self.limit).then_some(self.cursor + self.limit);
        data.truncate(self.limit);
        Page { data, next }
    }
}
