//! The time picker: the periods to choose from, one step back and forward, and any other by a form. It works without script,
//! and what was chosen stands in the address.

use super::chosen::{Chosen, MAX_DAYS};
use super::kept::Kept;
use super::page::Link;

/// As `<input type="datetime-local">` takes times.
const LOCAL: &str = "%Y-%m-%dT%H:%M";

/// The period of a page, and how to get another one.
pub(super) struct Picker {
    /// The page, without its query.
    pub(super) path: String,
    /// The same length before and after.
    pub(super) earlier: Link,
    pub(super) later: Option<Link>,
    /// The periods to choose from; the one that is shown is among them and marked.
    pub(super) periods: Vec<Link>,
    /// What the form begins with, in the zone.
    pub(super) start: String,
    pub(super) end: String,
    pub(super) week: String,
    pub(super) zone: String,
    pub(super) max_days: i64,
    /// What other periods keep.
    pub(super) kept: Kept,
    /// The period beside the one before.
    pub(super) compare: Option<Link>,
}

impl Picker {
    pub(super) fn of(chosen: &Chosen, path: &str) -> Self {
        let mut periods = chosen.choices(path);
        if !periods.iter().any(|link| link.is_current) {
            let href = format!("{path}?{}", chosen.query);
            periods.push(Link { href, text: chosen.name(), is_current: true });
        }
        Self {
            path: path.to_owned(),
            earlier: chosen.step(path, false, "earlier"),
            later: (!chosen.is_open()).then(|| chosen.step(path, true, "later")),
            periods,
            start: chosen.clock.format(chosen.start_ms, LOCAL),
            end: chosen.clock.format(chosen.end_ms, LOCAL),
            week: chosen.week_of(chosen.end_ms - 1),
            zone: chosen.clock.zone_name(),
            max_days: MAX_DAYS,
            kept: Kept::default(),
            compare: None,
        }
    }

    /// The same, that keeps these fields.
    pub(super) fn keeping(mut self, kept: Kept) -> Self {
        let more = kept.query();
        let links = self.periods.iter_mut().chain([&mut self.earlier]).chain(&mut self.later);
        links.for_each(|link| link.href.push_str(&more));
        Self { kept, ..self }
    }

    /// The same, with a link to the comparison of the fleet or of one node.
    pub(super) fn comparing(self, chosen: &Chosen, node: Option<&String>, cluster: Option<&String>) -> Self {
        let whose = Kept::of([("node", &node.cloned()), ("cluster", &cluster.cloned())]);
        let href = format!("/compare?{}{}", chosen.query, whose.query());
        Self { compare: Some(Link::new(href, "compare with the time before")), ..self }
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::super::chosen::PeriodQuery;
    use super::super::clock::{Clock, HOUR_MS};
    use super::*;

    /// Sat 2026-11-21 16:00 UTC.
    const NOW: i64 = 1_795_276_800_000;

    fn current(picker: &Picker) -> Vec<&str> {
        picker.periods.iter().filter(|link| link.is_current).map(|link| link.text.as_str()).collect()
    }

    #[test]
    fn the_period_that_is_shown_is_marked_whatever_it_is_and_the_form_begins_with_it() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let today = Picker::of(&Chosen::of(&PeriodQuery::default(), NOW, &zone).unwrap(), "/");
        assert_eq!((current(&today), today.later.is_none()), (vec!["24 h"], true));
        let range = NOW - 5 * HOUR_MS..NOW - 3 * HOUR_MS;
        let some = Picker::of(&Chosen::hours(&range, NOW, Clock { zone }), "/nodes/n1");
        assert_eq!(current(&some), ["Sat 21 Nov 2026 12:00–14:00"]);
        assert_eq!([some.start.as_str(), &some.end, &some.week], ["2026-11-21T12:00", "2026-11-21T14:00", "2026-W47"]);
        assert_eq!(some.earlier.href, "/nodes/n1?start=2026-11-21T09:00:00Z&end=2026-11-21T11:00:00Z");
        assert_eq!(some.later.unwrap().href, "/nodes/n1?start=2026-11-21T13:00:00Z&end=2026-11-21T15:00:00Z");
    }

    #[test]
    fn a_week_steps_to_weeks_over_a_change_of_the_clocks_and_of_the_year() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        for (week, earlier, later) in [
            ("2026-W43", "2026-W42", "2026-W44"),
            ("2025-W01", "2024-W52", "2025-W02"),
            ("2020-W53", "2020-W52", "2021-W01"),
        ] {
            let chosen = Chosen::of(&PeriodQuery::week(week), NOW, &zone).unwrap();
            let picker = Picker::of(&chosen, "/");
            assert_eq!(current(&picker), [week]);
            assert_eq!(picker.earlier.href, format!("/?period={earlier}"));
            assert_eq!(picker.later.unwrap().href, format!("/?period={later}"));
        }
    }
}
