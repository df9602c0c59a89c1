//! What people may say about a finding.

use axum::http::Uri;

use goodput_exposition::sample::TimeMs;
use goodput_verdict::{DAY_MS, FindingAction, FindingEvent};

/// What people may say. Whether a fix worked is measured.
pub(crate) const BY_PEOPLE: [FindingAction; 7] = [
    FindingAction::Acknowledge,
    FindingAction::Claim,
    FindingAction::Snooze,
    FindingAction::Accept,
    FindingAction::Assign,
    FindingAction::Comment,
    FindingAction::Reopen,
];

/// Bytes of a comment.
pub(crate) const MAX_COMMENT: usize = 4096;
/// Bytes of a name and of an address.
const MAX_NAME: usize = 200;
const MAX_URL: usize = 2048;
/// Days for which a finding may be snoozed or accepted.
const MAX_SNOOZE_DAYS: i64 = 90;
const MAX_ACCEPT_DAYS: i64 = 180;

/// What someone wants to say; an empty text is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) action: String,
    /// Unix milliseconds.
    pub(crate) until_ms: Option<TimeMs>,
    pub(crate) assignee: Option<String>,
    pub(crate) comment: Option<String>,
    pub(crate) url: Option<String>,
}

/// Why it may not be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) field: &'static str,
    pub(crate) expected: String,
    pub(crate) found: Option<String>,
}

impl Wrong {
    pub(crate) fn new(field: &'static str, expected: impl Into<String>, found: Option<&str>) -> Self {
        // As much of it as helps to find it.
        let found = found.map(|found| found.chars().take(100).collect());
        Self { field, expected: expected.into(), found }
    }
}

/// The event, as `actor` says it at `now`.
pub(crate) fn check(id: &str, wish: Wish, actor: &str, now: TimeMs) -> Result<FindingEvent, Wrong> {
    let action = BY_PEOPLE.into_iter().find(|action| action.name() == wish.action);
    let names = || BY_PEOPLE.map(FindingAction::name).join(", ");
    let action = action.ok_or_else(|| Wrong::new("action", format!("one of {}", names()), Some(&wish.action)))?;
    let actor = name("actor", Some(actor.to_owned()))?;
    let actor = actor.ok_or_else(|| Wrong::new("actor", "a name", None))?;
    let assignee = name("assignee", wish.assignee)?;
    if let (Some(assignee), true) = (&assignee, action != FindingAction::Assign) {
        return Err(Wrong::new("assignee", "none, but with assign", Some(assignee)));
    }
    let comment = text("comment", wish.comment, MAX_COMMENT, |c| c.is_control() && !matches!(c, '\n' | '\t'))?;
    match (action, &comment) {
        (FindingAction::Accept, None) => return Err(Wrong::new("comment", "the reason", None)),
        (FindingAction::Comment, None) => return Err(Wrong::new("comment", "a text", None)),
        _ => {}
    }
    let until_ms = until(action, wish.until_ms, now)?;
    Ok(FindingEvent {
        seq: 0,
        id: id.to_owned(),
        time_ms: now,
        actor,
        action,
        until_ms,
        assignee,
        comment,
        url: address(wish.url)?,
    })
}

fn until(action: FindingAction, until: Option<TimeMs>, now: TimeMs) -> Result<Option<TimeMs>, Wrong> {
    let most = match action {
        FindingAction::Snooze => MAX_SNOOZE_DAYS,
        FindingAction::Accept => MAX_ACCEPT_DAYS,
        _ if until.is_some() => return Err(Wrong::new("until", "none, but with snooze and accept", None)),
        _ => return Ok(None),
    };
    let expected = || Wrong::new("until", format!("a time to come, in {most} days at most"), None);
    match until {
        None if action == FindingAction::Accept => Ok(Some(now + most * DAY_MS)),
        None => Err(expected()),
        Some(until) if until <= now || until > now + most * DAY_MS => Err(expected()),
        Some(until) => Ok(Some(until)),
    }
}

fn name(field: &'static str, given: Option<String>) -> Result<Option<String>, Wrong> {
    text(field, given, MAX_NAME, char::is_control)
}

/// A text without what may not be in it; none where it is empty.
fn text(
    field: &'static str,
    given: Option<String>,
    most: usize,
    is_wrong: impl Fn(char) -> bool,
) -> Result<Option<String>, Wrong> {
    let given = given.map(|text| text.replace("\r\n", "\n").trim().to_owned()).filter(|text| !text.is_empty());
    match given {
        Some(text) if text.len() > most || text.contains(&is_wrong) => {
            Err(Wrong::new(field, format!("at most {most} bytes without control characters"), Some(&text)))
        }
        given => Ok(given),
    }
}

fn address(given: Option<String>) -> Result<Option<String>, Wrong> {
    let Some(url) = text("url", given, MAX_URL, |c| c.is_control() || c.is_whitespace())? else { return Ok(None) };
    let parsed = url.parse::<Uri>().ok();
    let is_web = parsed.as_ref().is_some_and(|uri| {
        let is_known = uri.scheme_str().is_some_and(|scheme| ["http", "https"].contains(&scheme));
        is_known && uri.host().is_some_and(|host| !host.is_empty())
    });
    if is_web {
        Ok(Some(url))
    } else {
        Err(Wrong::new("url", "an address that begins with https:// or http://", Some(&url)))
    }
}
