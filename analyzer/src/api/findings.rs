//! Findings with what people said about them, and saying something.

use std::collections::{BTreeMap, HashMap};

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, body::to_bytes, routing};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::parameters::{ASSIGNEE, CLASS, CLUSTER, CURSOR, FINDING_ID, LIMIT, RUN, STATE, TEAM, WEEK};
use super::problem::ErrorBody;
use super::query::Asked;
use super::responses::{self, json as answer};
use super::results::{MAX_HOURS, build, build_of};
use super::route::Route;
use super::table::Table;
use super::{Answer, Page, Problem};
use crate::app::{App, NotSaid, day_of};
use crate::ownership::{BY_PEOPLE, MAX_COMMENT, Offender, Ownership, State as Stands, Wish};
use crate::report::{Finding, FindingGroup};
use goodput_store::Results;
use goodput_verdict::{Class, FindingEvent, FindingWeek};

/// Bytes of what is posted: a comment, each of whose bytes may be escaped.
const MAX_BODY: usize = 8 * MAX_COMMENT;

const FINDING: Route = Route::new("/findings/{id}", "A finding: who looks after it, what was said, and its weeks")
    .about(
        "The ETag is what POST /findings/{id}/events wants as If-Match. The group is that of the week's report, and null \
         where that has no such finding.",
    )
    .asks(&[FINDING_ID, WEEK]);

pub(super) fn routes<S: Results + Clone + 'static>(table: Table<S>) -> Table<S> {
    table
        .get(
            Route::new("/findings", "Findings of a week's report, or of the hours from start to end")
                .about("With start or end the query has no week. States are those of now.")
                .hours(MAX_HOURS)
                .asks(&[WEEK, STATE, TEAM, ASSIGNEE, CLUSTER, RUN, CLASS, LIMIT, CURSOR]),
            findings,
        )
        .own::<FindingDetail>(FINDING, routing::get(finding::<S>))
        .own_path("/findings/{id}/events", described, routing::post(say::<S>))
        .get(
            Route::new(
                "/repeat_offenders",
                "Findings that were large enough to be acted on in several of the last 13 weeks",
            )
            .about("Of most weeks first.")
            .asks(&[TEAM, LIMIT, CURSOR]),
            repeat_offenders,
        )
}

/// A finding, and who looks after it.
#[derive(Serialize, JsonSchema)]
struct OwnedFinding {
    /// The finding that it is part of, which is the same in every week; null where it is part of none.
    id: Option<String>,
    /// Where that stands now.
    state: Stands,
    /// Who looks at it.
    assignee: Option<String>,
    #[serde(flatten)]
    finding: Finding,
}

/// A finding and all that is known of it beyond its figures.
#[derive(Serialize, JsonSchema)]
struct FindingDetail {
    /// Its name, which is the same in every week.
    id: String,
    /// Where it stands now.
    ownership: Ownership,
    /// The finding in the week's report; null where that does not have it. Places of its findings are those of `/report`.
    group: Option<FindingGroup>,
    /// The weeks of the last year that it was in, and those in which the same work was there without it.
    weeks: Vec<FindingWeek>,
    /// What was said about it, in its order.
    events: Vec<FindingEvent>,
}

/// What is said about a finding.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Saying {
    /// acknowledge, claim, snooze, accept, assign, comment or reopen.
    action: String,
    /// Of snooze, in 90 days at most, and of accept, in 180 days at most, which is the default: RFC 3339, or a date or local
    /// time in the configured zone.
    until: Option<String>,
    /// Of assign: who looks at it; without it, it is no longer assigned.
    assignee: Option<String>,
    /// A remark of at most 4 KiB; accept needs it as its reason.
    comment: Option<String>,
    /// A ticket: an address that begins with http:// or https://.
    url: Option<String>,
    /// Who says it; only where nothing says who asks.
    actor: Option<String>,
}

/// What became of it.
#[derive(Serialize, JsonSchema)]
struct SaidAnswer {
    /// The number of the event.
    seq: i64,
    /// Where the finding stands now.
    ownership: Ownership,
}

async fn findings<S: Results>(app: App<S>, asked: Asked) -> Answer<Page<OwnedFinding>> {
    let state = asked.named("state", Stands::ALL, Stands::name)?;
    let class = asked.named("class", Class::ALL, Class::name)?;
    let period = asked.period((app.now)(), &app.zone)?;
    let report = match asked.get("team") {
        None => build(&app, period).await?,
        team => build_of(&app, period, ("team", team)).await?,
    };
    let places = report.groups.iter().flat_map(|group| group.findings.iter().map(move |place| (*place, group)));
    let groups: HashMap<usize, &FindingGroup> = places.collect();
    let owned = report.findings.iter().enumerate().map(|(place, finding)| {
        let group = groups.get(&place);
        let standing = group.and_then(|group| group.ownership.as_ref()).map(|ownership| &ownership.standing);
        OwnedFinding {
            id: group.map(|group| group.id.clone()),
            state: standing.map_or(Stands::Open, |standing| standing.state),
            assignee: standing.and_then(|standing| standing.assignee.clone()),
            finding: finding.clone(),
        }
    });
    let wanted = owned.filter(|one| {
        state.is_none_or(|state| one.state == state)
            && class.is_none_or(|class| one.finding.class == class)
            && asked.wants("assignee", one.assignee.as_deref())
            && asked.wants("cluster", one.finding.cluster.as_deref())
            && asked.wants("run", one.finding.owner.as_deref())
    });
    Ok(asked.part()?.of(wanted))
}

async fn repeat_offenders<S: Results>(app: App<S>, asked: Asked) -> Answer<Page<Offender>> {
    Ok(asked.part()?.of(app.offenders(asked.get("team")).await?))
}

async fn finding<S: Results>(
    State(app): State<App<S>>,
    Path(path): Path<BTreeMap<String, String>>,
    Query(given): Query<BTreeMap<String, String>>,
) -> Answer<Response> {
    let asked = Asked::of(given, &FINDING)?.at(path);
    let id = asked.owned("id").unwrap_or_default();
    let report = build(&app, asked.week((app.now)(), &app.zone)?).await?;
    let group = report.groups.iter().find(|group| group.id == id).cloned();
    let book = app.book().await?;
    let (weeks, events) = (book.weeks(&id).to_vec(), book.events(&id).to_vec());
    if group.is_none() && weeks.is_empty() && events.is_empty() && app.recent(&id).await?.is_none() {
        return Err(unknown(&id));
    }
    let ownership = book.ownership(&id, report.period.start_ms, ((app.now)(), &app.zone));
    let seq = ownership.standing.seq;
    let detail = FindingDetail { id, ownership, group, weeks, events };
    let body = serde_json::to_vec(&detail).map_err(|error| Problem::failed(&error))?;
    let tag = format!("\"{seq}-{:08x}\"", crc32fast::hash(&body));
    Ok(([(header::ETAG, tag), (header::CONTENT_TYPE, "application/json".to_owned())], body).into_response())
}

async fn say<S: Results>(
    State(app): State<App<S>>,
    Path(id): Path<String>,
    request: Request,
) -> Answer<(StatusCode, Json<SaidAnswer>)> {
    let (parts, body) = request.into_parts();
    let after = after(&parts.headers)?;
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Problem::refused(status, "Content-Type", "application/json", Some(kind)));
    }
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        let expected = format!("a body of at most {MAX_BODY} bytes");
        return Err(Problem::refused(StatusCode::PAYLOAD_TOO_LARGE, "body", expected, None));
    };
    let saying: Saying =
        serde_json::from_slice(&body).map_err(|error| Problem::bad("body", format!("a JSON object: {error}"), None))?;
    let Saying { action, until, assignee, comment, url, actor } = saying;
    let time = |text: &str| {
        let expected = "a time such as 2026-12-24T00:00:00Z, or a date";
        day_of(text, &app.zone).ok_or_else(|| Problem::bad("until", expected, Some(text)))
    };
    let until_ms = until.as_deref().map(time).transpose()?;
    let wish = Wish { action, until_ms, assignee, comment, url };
    let said = app.say(&id, (wish, actor.as_deref()), &parts.extensions, after).await;
    let seq = said.map_err(|error| not_said(error, &id))?;
    let now = (app.now)();
    let ownership = app.book().await?.ownership(&id, now, (now, &app.zone));
    Ok((StatusCode::CREATED, Json(SaidAnswer { seq, ownership })))
}

/// The number of the last event that the sender knows, as the ETag of the finding begins with it; none where any is right.
fn after(headers: &HeaderMap) -> Answer<Option<i64>> {
    let expected = "the ETag of GET /findings/{id}, or *";
    let Some(given) = headers.get(header::IF_MATCH) else {
        return Err(Problem::refused(StatusCode::PRECONDITION_REQUIRED, "If-Match", expected, None));
    };
    let text = given.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let tag = text.strip_prefix("W/").unwrap_or(text);
    let tag = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    let number = tag.and_then(|tag| tag.split('-').next()?.parse().ok());
    number.map(Some).ok_or_else(|| Problem::bad("If-Match", expected, Some(text)))
}

fn unknown(id: &str) -> Problem {
    Problem::missing("id", "a finding of this week, of the last one, or of one that was noted", id)
}

fn not_said(error: NotSaid, id: &str) -> Problem {
    match error {
        NotSaid::Off => Problem::refused(StatusCode::FORBIDDEN, "web.findings_write", NotSaid::OFF, None),
        NotSaid::Unknown => unknown(id),
        NotSaid::Wrong(wrong) => Problem::bad(wrong.field, wrong.expected, wrong.found.as_deref()),
        NotSaid::TooLate => {
            let expected = "the ETag of the finding as it is now: someone else said something about it since";
            Problem::refused(StatusCode::PRECONDITION_FAILED, "If-Match", expected, None)
        }
        NotSaid::Store(error) => error.into(),
    }
}

/// Statuses of its own, and when they are given.
const REFUSALS: [(&str, &str); 7] = [
    ("400", "A field is wrong."),
    ("404", "There is no such finding."),
    ("412", "Someone else said something about the finding since: read it again."),
    ("413", "The body is too large."),
    ("415", "The content type is not application/json."),
    ("428", "If-Match is missing."),
    ("503", "Too much is in work, or the store could not write: send it again."),
];

/// What OpenAPI calls a path item.
fn described(schemas: &mut SchemaGenerator) -> Value {
    let mut responses = responses::of_the_front_door();
    let error = schemas.subschema_for::<ErrorBody>();
    responses.extend(REFUSALS.map(|(status, about)| (status.to_owned(), answer(about, &error))));
    responses.insert("201".to_owned(), answer("It is on disk.", &schemas.subschema_for::<SaidAnswer>()));
    let names = BY_PEOPLE.map(goodput_verdict::FindingAction::name);
    let header = json!({
        "name": "If-Match",
        "in": "header",
        "required": true,
        "description": "The ETag of GET /findings/{id}, whose part before the dash is compared; * where any is right.",
        "schema": { "type": "string" },
    });
    json!({ "post": {
        "summary": "Say something about a finding",
        "description": format!("One of {}. Nothing that is said changes a verdict or a total. Where `web.findings_write` does not allow it, the answer \
            403 is an Error as well.", names.join(", ")),
        "operationId": "findings_id_events",
        "parameters": [FINDING_ID.described(schemas), header],
        "requestBody": {
            "required": true,
            "content": { "application/json": {
                "schema": schemas.subschema_for::<Saying>(),
                "example": { "action": "acknowledge", "comment": "looking at it", "actor": "ann" },
            } },
        },
        "responses": responses,
    } })
}
