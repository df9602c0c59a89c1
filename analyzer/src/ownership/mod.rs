//! Who looks after a finding and what became of it: what people said, and the weeks that it was in. Pure, but for reading both.
//! Nothing here changes a verdict or a total.

mod fold;
mod offenders;
mod said;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;

use goodput_exposition::sample::TimeMs;
use goodput_store::{ReadOwnership, StoreError};
use goodput_verdict::{DAY_MS, FindingEvent, FindingWeek};

pub use fold::{Reopened, Standing, State};
pub(crate) use offenders::WEEKS;
pub use offenders::{Offender, offenders};
pub(crate) use said::{BY_PEOPLE, MAX_COMMENT, Wish, Wrong, check};
pub(crate) use words::date;

/// Milliseconds of a week, but for those in which clocks change.
const WEEK_MS: i64 = 7 * DAY_MS;
/// How far back weeks are looked at.
const YEAR_MS: i64 = 53 * WEEK_MS;
/// Weeks without a finding, with data and with its owner running, after which it is gone.
const GONE_AFTER: usize = 2;

/// Everything that was said, and the weeks of a year.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Book {
    by_id: BTreeMap<String, Entry>,
    /// End of the first week that was noted.
    first_end_ms: Option<TimeMs>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Entry {
    events: Vec<FindingEvent>,
    weeks: Vec<FindingWeek>,
}

/// What a reader of a finding has to know beyond its figures.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ownership {
    /// Where it stands now.
    #[serde(flatten)]
    pub standing: Standing,
    /// Was it there before? Null where it was, or that is not known.
    pub mark: Option<Mark>,
    /// All of it to be read, in the zone of who reads it.
    #[serde(skip)]
    pub words: Vec<String>,
}

/// How a finding of a period differs from those of the weeks before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// It was in no week of the year before.
    New,
    /// It was gone for this many weeks.
    BackAfterWeeks(i64),
}

impl Book {
    /// Of all events, and of weeks in their order.
    #[must_use]
    pub fn of(events: Vec<FindingEvent>, weeks: Vec<FindingWeek>) -> Self {
        let mut book = Self { first_end_ms: weeks.iter().map(|week| week.end_ms).min(), ..Self::default() };
        for event in events {
            book.by_id.entry(event.id.clone()).or_default().events.push(event);
        }
        for week in weeks {
            book.by_id.entry(week.id.clone()).or_default().weeks.push(week);
        }
        book
    }

    /// What is stored, with the weeks of the year before `now`.
    pub(crate) async fn read(store: &impl ReadOwnership, now: TimeMs) -> Result<Self, StoreError> {
        let weeks = [label(now - YEAR_MS), label(now + WEEK_MS)];
        let weeks = store.finding_weeks(weeks.each_ref().map(String::as_str)).await?;
        Ok(Self::of(store.finding_events().await?, weeks))
    }

    /// Was nothing said, and no week noted?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// What was said about a finding, in its order.
    #[must_use]
    pub fn events(&self, id: &str) -> &[FindingEvent] {
        self.by_id.get(id).map_or(&[], |entry| &entry.events)
    }

    /// The weeks of a finding, in order.
    #[must_use]
    pub fn weeks(&self, id: &str) -> &[FindingWeek] {
        self.by_id.get(id).map_or(&[], |entry| &entry.weeks)
    }

    /// All findings that are known here.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.by_id.keys().map(String::as_str)
    }

    /// Where a finding stands at `now`.
    #[must_use]
    pub fn standing(&self, id: &str, now: TimeMs) -> Standing {
        fold::standing(self.events(id), self.weeks(id), now)
    }

    /// What to say of a finding of a period that begins at `start_ms`.
    #[must_use]
    pub fn ownership(&self, id: &str, start_ms: TimeMs, (now, zone): (TimeMs, &TimeZone)) -> Ownership {
        let (standing, mark) = (self.standing(id, now), self.mark(id, start_ms));
        let words = words::words(&standing, mark, zone);
        Ownership { standing, mark, words }
    }

    fn mark(&self, id: &str, start_ms: TimeMs) -> Option<Mark> {
        let before = || self.weeks(id).iter().filter(|week| week.end_ms <= start_ms);
        let Some(last) = before().rfind(|week| week.lost_ms > 0) else {
            return self.first_end_ms.filter(|first| *first <= start_ms).map(|_| Mark::New);
        };
        let without = before().filter(|week| week.start_ms >= last.end_ms && is_without(week)).count();
        // A week in which clocks change is an hour shorter or longer.
        let weeks = (start_ms - last.end_ms + WEEK_MS / 2).div_euclid(WEEK_MS);
        (without >= GONE_AFTER).then_some(Mark::BackAfterWeeks(weeks))
    }
}

/// Was the same work there, with data, and the finding was not?
fn is_without(week: &FindingWeek) -> bool {
    week.lost_ms == 0 && week.ran_ms > 0
}

/// The ISO week of a time in UTC; a day near its end may be that of another in other zones.
fn label(time: TimeMs) -> String {
    let date = Timestamp::from_millisecond(time).unwrap_or_default().to_zoned(TimeZone::UTC).date();
    let week = date.iso_week_date();
    format!("{:04}-W{:02}", week.year(), week.week())
}
