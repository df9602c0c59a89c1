//! `/findings/{id}`: a finding, who looks after it, what was said, and saying something with forms that need no script.

use askama::Template;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderName, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse as _, Response};
use serde::Deserialize;

use super::chosen::{Chosen, PeriodQuery};
use super::finding::Lines;
use super::page::{Frame, Link, Problem, show};
use super::picker::Picker;
use crate::app::{App, NotSaid, asker, day_of};
use crate::ownership::{MAX_COMMENT, Wish, date};
use crate::report::{Ledger, Losses, items, text};
use goodput_store::Results;
use goodput_verdict::{FindingAction, FindingEvent, FindingWeek};

#[derive(Template)]
#[template(path = "web/ownership.html")]
struct FindingPage {
    frame: Frame,
    id: String,
    title: String,
    picker: Picker,
    period: String,
    /// Where it stands, to be read; empty where nothing is known.
    words: Vec<String>,
    reason: Option<String>,
    url: Option<String>,
    /// The finding in the period; empty where that has none.
    findings: Lines,
    weeks: Vec<Week>,
    has_money: bool,
    events: Vec<Event>,
    form: Option<FormOf>,
    api: String,
}

/// What a form has to know.
struct FormOf {
    /// The number of the last event.
    seq: i64,
    /// Who is logged in; without a log-in the form asks for a name.
    asker: Option<String>,
    /// The first and the last day on which it may be looked at again.
    first_day: String,
    last_day: String,
    last_review: String,
}

struct Week {
    label: String,
    lost: String,
    cost: String,
    note: &'static str,
}

struct Event {
    time: String,
    actor: String,
    what: String,
    comment: Option<String>,
    url: Option<String>,
}

/// Bytes of a form: a comment, each of whose bytes may be escaped.
const MAX_FORM: usize = 4 * MAX_COMMENT + 4096;
/// The days of a snooze, and of what was accepted, at most.
const SNOOZE_DAYS: i64 = 90;
const ACCEPT_DAYS: i64 = 180;
const DAY_MS: i64 = 24 * super::clock::HOUR_MS;

/// Without a referrer browsers say `Origin: null` of what a form sends, which is what they say of other sites, too.
const POLICY: [(HeaderName, &str); 1] = [(header::REFERRER_POLICY, "same-origin")];

type Answer = Result<([(HeaderName, &'static str); 1], Html<String>), Problem>;

pub(super) async fn page<S: Results>(
    State(app): State<App<S>>,
    Path(id): Path<String>,
    Query(query): Query<PeriodQuery>,
    request: Request,
) -> Answer {
    let chosen = Chosen::of(&query, (app.now)(), &app.zone)?;
    let items = items(&app.store, &chosen.range(), &app.terms.prices).await?;
    let (book, at) = (app.book().await?, ((app.now)(), &app.zone));
    let losses = Losses::of(&items, None, Ledger::of(&items).capacity().ms);
    let losses = losses.with_ownership(&book, chosen.start_ms, at);
    let group = losses.groups.iter().find(|group| group.id == id).cloned();
    let all = Link::new(format!("/findings?{}", chosen.query), "Findings");
    let weeks = book.weeks(&id);
    let title = match (&group, weeks.last()) {
        (Some(group), _) => format!("{}: {}", group.class.title(), group.whose(&losses.findings)),
        (None, Some(week)) => format!("{}: {}", week.class.title(), week.subject),
        (None, None) => match app.recent(&id).await? {
            Some((losses, group)) => format!("{}: {}", group.class.title(), group.whose(&losses.findings)),
            None if book.events(&id).is_empty() => return Err(unknown(&id, all)),
            None => format!("Finding {id}"),
        },
    };
    let ownership = book.ownership(&id, chosen.start_ms, at);
    let extensions = request.extensions();
    let form = app.writes.are_allowed(extensions).then(|| FormOf {
        seq: ownership.standing.seq,
        asker: asker(extensions).map(str::to_owned),
        first_day: date(at.0 + DAY_MS, at.1),
        last_day: date(at.0 + (SNOOZE_DAYS - 1) * DAY_MS, at.1),
        last_review: date(at.0 + (ACCEPT_DAYS - 1) * DAY_MS, at.1),
    });
    let path = format!("/findings/{id}");
    let page = show(&FindingPage {
        frame: Frame::new(title.clone(), vec![chosen.fleet(), all], false),
        title,
        picker: Picker::of(&chosen, &path),
        period: chosen.show(),
        words: ownership.words,
        reason: ownership.standing.reason,
        url: ownership.standing.url,
        findings: Lines::of(&losses, group.as_slice(), &chosen),
        has_money: weeks.iter().any(|week| week.currency.is_some()),
        weeks: weeks.iter().rev().map(week).collect(),
        events: book.events(&id).iter().rev().map(|event| told(event, &chosen, &app.zone)).collect(),
        form,
        api: path,
        id,
    })?;
    Ok((POLICY, page))
}

fn unknown(id: &str, all: Link) -> Problem {
    let advice = "Find it in the list of findings: choose the period in which it was there.";
    Problem::missing(format!("No finding {id} is known"), advice, vec![all])
}

fn week(week: &FindingWeek) -> Week {
    let cost = week.currency.as_ref().zip(week.lost_micro.as_ref());
    Week {
        label: week.week.clone(),
        lost: text::hours(week.lost_ms),
        cost: cost
            .map(|(currency, micros)| format!("{currency}\u{a0}{}", text::money(*micros as f64 / 1e6)))
            .unwrap_or_default(),
        note: match (week.lost_ms, week.ran_ms) {
            (0, 0) => "the same work was there, with too little data",
            (0, _) => "the same work was there without it",
            _ if week.is_first => "large enough to be acted on",
            _ => "",
        },
    }
}

fn told(event: &FindingEvent, chosen: &Chosen, zone: &jiff::tz::TimeZone) -> Event {
    let until = event.until_ms.map(|until| format!(" until {}", date(until, zone))).unwrap_or_default();
    let what = match (event.action, &event.assignee) {
        (FindingAction::Acknowledge, _) => "acknowledged it".to_owned(),
        (FindingAction::Claim, _) => "says that the fix is in place".to_owned(),
        (FindingAction::Snooze, _) => format!("snoozed it{until}"),
        (FindingAction::Accept, _) => format!("accepted it{until}"),
        (FindingAction::Assign, Some(who)) => format!("assigned it to {who}"),
        (FindingAction::Assign, None) => "took the assignment away".to_owned(),
        (FindingAction::Comment, _) => "remarked".to_owned(),
        (FindingAction::Reopen, _) => "opened it again".to_owned(),
        (FindingAction::Verified, _) => "measured that the fix works".to_owned(),
        (FindingAction::NotVerified, _) => "measured that the fix does not work".to_owned(),
    };
    Event {
        time: chosen.clock.show(event.time_ms),
        actor: event.actor.clone(),
        what,
        comment: event.comment.clone(),
        url: event.url.clone(),
    }
}

/// The fields of the forms.
#[derive(Deserialize)]
struct Filled {
    action: String,
    seq: i64,
    actor: Option<String>,
    until: Option<String>,
    assignee: Option<String>,
    comment: Option<String>,
    url: Option<String>,
}

/// The fields of a form, which are written as those of a query are.
async fn filled(body: Body) -> Result<Filled, Problem> {
    let bad = |what: String| Problem::bad(format!("the form: {what}"));
    let bytes = to_bytes(body, MAX_FORM).await.map_err(|_| bad(format!("expected at most {MAX_FORM} bytes")))?;
    let uri: Uri =
        format!("/?{}", String::from_utf8_lossy(&bytes)).parse().map_err(|_| bad("expected fields".into()))?;
    Query::try_from_uri(&uri).map(|Query(filled)| filled).map_err(|error| bad(error.to_string()))
}

/// A form that was sent: goes back to the page of the finding.
pub(super) async fn say<S: Results>(
    State(app): State<App<S>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let Filled { action, seq, actor, until, assignee, comment, url } = filled(body).await?;
    let until = until.filter(|until| !until.is_empty());
    let time = |text: String| {
        day_of(&text, &app.zone)
            .ok_or_else(|| Problem::bad(format!("until: {text:?}: expected a date such as 2026-12-24")))
    };
    let wish = Wish { action, until_ms: until.map(time).transpose()?, assignee, comment, url };
    match app.say(&id, (wish, actor.as_deref()), &parts.extensions, Some(seq)).await {
        // Relative: below a path of a proxy it is the same.
        Ok(_) => Ok((StatusCode::SEE_OTHER, [(header::LOCATION, format!("../{id}"))]).into_response()),
        Err(error) => Err(not_said(error, &id)),
    }
}

fn not_said(error: NotSaid, id: &str) -> Problem {
    let back = Link::new(format!("/findings/{id}"), "The finding as it is now");
    match error {
        NotSaid::Off => Problem {
            status: StatusCode::FORBIDDEN,
            what: "Nothing can be said about findings here".to_owned(),
            advice: format!("Ask who runs the analyzer to set {}.", NotSaid::OFF),
            links: vec![back],
        },
        NotSaid::Unknown => unknown(id, Link::new("/findings", "Findings")),
        NotSaid::Wrong(wrong) => {
            Problem { links: vec![back], ..Problem::bad(format!("{}: expected {}", wrong.field, wrong.expected)) }
        }
        NotSaid::TooLate => Problem {
            status: StatusCode::PRECONDITION_FAILED,
            what: "Someone else said something about this finding first".to_owned(),
            advice: "Nothing was changed. Look at what was said, and say it again if it still holds.".to_owned(),
            links: vec![back],
        },
        NotSaid::Store(error) => error.into(),
    }
}
