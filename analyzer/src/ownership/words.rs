//! What is said of a finding, to be read.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Mark;
use super::fold::{Reopened, Standing, State};
use goodput_exposition::sample::TimeMs;

/// In the order in which it matters; nothing of a finding that nothing was said of.
pub(super) fn words(standing: &Standing, mark: Option<Mark>, zone: &TimeZone) -> Vec<String> {
    let mark = mark.map(|mark| match mark {
        Mark::New => "new".to_owned(),
        Mark::BackAfterWeeks(weeks) => format!("back after {weeks} weeks"),
    });
    let reopened = standing.reopened.filter(|why| *why != Reopened::Back || mark.is_none());
    let reopened = reopened.map(|why| match why {
        Reopened::SnoozeOver => "snoozed until now",
        Reopened::Grew => "grew by half while it was snoozed",
        Reopened::ReviewDue => "was accepted, review is due",
        Reopened::Back => "back after it was gone",
    });
    let assigned = standing.assignee.as_ref().map(|who| format!("assigned to {who}"));
    let all = [mark, reopened.map(str::to_owned), state(standing, zone), assigned];
    all.into_iter().flatten().collect()
}

fn state(standing: &Standing, zone: &TimeZone) -> Option<String> {
    let by = standing.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let until = standing.until_ms.map(|until| format!(" until {}", date(until, zone))).unwrap_or_default();
    Some(match standing.state {
        State::Open => return None,
        State::Acknowledged => format!("acknowledged{by}"),
        State::FixClaimed => format!("fix claimed{by}"),
        State::Verified => "fix verified".to_owned(),
        State::NotVerified => "fix not verified".to_owned(),
        State::Snoozed => format!("snoozed{until}{by}"),
        State::Accepted => format!("accepted{until}{by}"),
        State::Gone => "gone".to_owned(),
    })
}

/// The day of a time.
pub(crate) fn date(time: TimeMs, zone: &TimeZone) -> String {
    Timestamp::from_millisecond(time).unwrap_or_default().to_zoned(zone.clone()).strftime("%Y-%m-%d").to_string()
}
