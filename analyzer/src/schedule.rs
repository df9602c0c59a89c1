//! When the weekly report is due. Pure: the clock, the zone and what was delivered come from outside.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;

use crate::report::Period;
use goodput_exposition::sample::TimeMs;

/// When in the week reports are made, by the clocks of the report's zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The day.
    pub weekday: Weekday,
    /// The time of that day.
    pub time: Time,
}

impl Schedule {
    /// The run for an ISO week: the first such day and time after the week is over. A time that clocks skip on that day
    /// is as long after the jump as it would have been without one; of a time that they show twice the first is meant.
    #[must_use]
    pub fn run_ms(&self, week: &Period, zone: &TimeZone) -> TimeMs {
        let monday = instant(week.end_ms).to_zoned(zone.clone()).date();
        let day = monday.saturating_add(jiff::Span::new().days(self.weekday.to_monday_zero_offset()));
        let run = zone.to_ambiguous_zoned(day.to_datetime(self.time)).compatible();
        run.map_or(week.end_ms, |run| run.timestamp().as_millisecond().max(week.end_ms))
    }

    /// The newest week whose run has come at `now`.
    #[must_use]
    pub fn newest(&self, now: TimeMs, zone: &TimeZone) -> Period {
        let mut week = Period::last_week(instant(now), zone);
        while self.run_ms(&week, zone) > now {
            week = week.previous();
        }
        week
    }
}

/// The week whose report is to be delivered: the newest whose run has come, if its verdicts will not change any more and
/// it is not among `delivered`. Runs that were missed before that one are not made up for.
#[must_use]
pub fn due(
    now: TimeMs,
    zone: &TimeZone,
    schedule: &Schedule,
    delivered: &BTreeSet<String>,
    final_until: Option<TimeMs>,
) -> Option<Period> {
    let week = schedule.newest(now, zone);
    let is_final = final_until.is_some_and(|until| until >= week.end_ms);
    (is_final && !delivered.contains(&week.label)).then_some(week)
}

/// A time of the store; 1970 for one that no calendar has.
pub(crate) fn instant(ms: TimeMs) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).unwrap()
    }

    fn ms(text: &str) -> TimeMs {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    fn at(weekday: Weekday, time: &str) -> Schedule {
        Schedule { weekday, time: time.parse().unwrap() }
    }

    #[test]
    fn the_run_is_the_first_such_time_after_the_week() {
        for (week, name, weekday, time, run) in [
            ("2026-W47", "UTC", Weekday::Monday, "06:00", "2026-11-23T06:00:00Z"),
            ("2026-W47", "UTC", Weekday::Monday, "00:00", "2026-11-23T00:00:00Z"),
            ("2026-W47", "UTC", Weekday::Sunday, "23:59", "2026-11-29T23:59:00Z"),
            ("2026-W47", "Europe/Berlin", Weekday::Monday, "06:00", "2026-11-23T05:00:00Z"),
            ("2026-W53", "UTC", Weekday::Monday, "06:00", "2027-01-04T06:00:00Z"),
            ("2026-W52", "UTC", Weekday::Friday, "12:00", "2027-01-01T12:00:00Z"),
            // Clocks go from 02:00 to 03:00 on 2026-03-29, and from 03:00 to 02:00 on 2026-10-25.
            ("2026-W12", "Europe/Berlin", Weekday::Sunday, "02:30", "2026-03-29T01:30:00Z"),
            ("2026-W42", "Europe/Berlin", Weekday::Sunday, "02:30", "2026-10-25T00:30:00Z"),
            ("2026-W42", "Europe/Berlin", Weekday::Sunday, "03:00", "2026-10-25T02:00:00Z"),
            // The week itself has 167 and 169 hours.
            ("2026-W13", "Europe/Berlin", Weekday::Monday, "06:00", "2026-03-30T04:00:00Z"),
            ("2026-W43", "Europe/Berlin", Weekday::Monday, "06:00", "2026-10-26T05:00:00Z"),
        ] {
            let period = Period::iso_week(week, &zone(name)).unwrap();
            assert_eq!(at(weekday, time).run_ms(&period, &zone(name)), ms(run), "{week} {name} {weekday:?} {time}");
        }
    }

    #[test]
    fn the_newest_week_that_is_due() {
        let monday = at(Weekday::Monday, "06:00");
        let thursday = at(Weekday::Thursday, "12:00");
        for (now, name, schedule, week) in [
            ("2026-11-23T05:59:59Z", "UTC", monday, "2026-W46"),
            ("2026-11-23T06:00:00Z", "UTC", monday, "2026-W47"),
            ("2026-11-29T23:59:59Z", "UTC", monday, "2026-W47"),
            ("2026-11-26T11:00:00Z", "UTC", thursday, "2026-W46"),
            ("2026-11-26T12:00:00Z", "UTC", thursday, "2026-W47"),
            ("2026-11-23T04:59:00Z", "Europe/Berlin", monday, "2026-W46"),
            ("2026-11-23T05:00:00Z", "Europe/Berlin", monday, "2026-W47"),
            // Across years; one of them has a week 53.
            ("2027-01-04T05:00:00Z", "UTC", monday, "2026-W52"),
            ("2027-01-04T06:00:00Z", "UTC", monday, "2026-W53"),
            ("2027-01-11T06:00:00Z", "UTC", monday, "2027-W01"),
            ("2026-12-31T12:00:00Z", "UTC", thursday, "2026-W52"),
            ("2026-01-05T06:00:00Z", "UTC", monday, "2026-W01"),
        ] {
            assert_eq!(schedule.newest(ms(now), &zone(name)).label, week, "{now} {name} {schedule:?}");
        }
    }

    #[test]
    fn due_once_final_and_only_the_newest_of_those_that_were_missed() {
        let schedule = at(Weekday::Monday, "06:00");
        let (now, end) = (ms("2026-11-25T08:00:00Z"), ms("2026-11-23T00:00:00Z"));
        let due = |delivered: &[&str], final_until| {
            let delivered = delivered.iter().map(|week| (*week).to_owned()).collect();
            due(now, &TimeZone::UTC, &schedule, &delivered, final_until).map(|week| week.label)
        };
        assert_eq!(due(&[], Some(end)).as_deref(), Some("2026-W47"));
        assert_eq!(due(&["2026-W44"], Some(end)).as_deref(), Some("2026-W47"), "W45 and W46 stay missed");
        assert_eq!(due(&["2026-W47"], Some(end)), None);
        assert_eq!(due(&[], Some(end - 1)), None, "the last hour may still change");
        assert_eq!(due(&[], None), None);
    }
}
