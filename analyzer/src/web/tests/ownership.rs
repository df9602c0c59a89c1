//! What people say about findings, on pages and through the API.

use serde_json::{Value, json};

use super::*;
use crate::config::Config;
use goodput_store::{Ownership as _, ReadOwnership as _};
use goodput_verdict::{FindingAction, FindingEvent, FindingWeek, Message, MessageState};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const JSON: (&str, &str) = ("content-type", "application/json");

async fn json_of(served: &Served, path: &str) -> Value {
    let (status, _, text) = served.get(path).await;
    assert_eq!(status, 200, "{path}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// The finding of the GPU that starved.
async fn finding(served: &Served) -> String {
    let report = json_of(served, "/api/v1/report?week=2026-W47").await;
    let groups = report["groups"].as_array().unwrap();
    let group = groups.iter().find(|group| group["class"] == "dataloader_storage").unwrap();
    group["id"].as_str().unwrap().to_owned()
}

/// Status, and the body as JSON where it is that.
async fn say(served: &Served, id: &str, tag: Option<&str>, body: Value) -> (u16, Value) {
    let headers: Vec<(&str, &str)> = [JSON].into_iter().chain(tag.map(|tag| ("if-match", tag))).collect();
    let response = served.post(&format!("/api/v1/findings/{id}/events"), &headers, body.to_string()).await;
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default())
}

async fn tag(served: &Served, id: &str) -> String {
    let response = served.request(&format!("/api/v1/findings/{id}"), None).await;
    assert_eq!(response.status().as_u16(), 200);
    response.headers()["etag"].to_str().unwrap().to_owned()
}

/// Everything of the report but who looks after what.
async fn figures(served: &Served) -> Value {
    let mut report = json_of(served, "/api/v1/report?week=2026-W47").await;
    for group in report["groups"].as_array_mut().unwrap() {
        group.as_object_mut().unwrap().remove("ownership");
    }
    report
}

#[tokio::test]
async fn nothing_that_is_said_changes_a_verdict_or_a_total() {
    let served = with_a_starving_gpu().await;
    let id = finding(&served).await;
    let before = (figures(&served).await, served.store.intervals(0..i64::MAX).await.unwrap());
    let summary = json_of(&served, "/api/v1/summary?by=class&start=2026-11-21&end=2026-11-22").await;
    for body in [
        json!({ "action": "acknowledge", "actor": "ann" }),
        json!({ "action": "assign", "assignee": "bob", "actor": "ann" }),
        json!({ "action": "snooze", "until": "2026-12-24", "actor": "ann" }),
        json!({ "action": "accept", "comment": "needed", "actor": "ann" }),
        json!({ "action": "claim", "url": "https://t.example/1", "actor": "ann" }),
    ] {
        let (status, said) = say(&served, &id, Some("*"), body).await;
        assert_eq!(status, 201, "{said}");
        assert_eq!(figures(&served).await, before.0);
    }
    assert_eq!(served.store.intervals(0..i64::MAX).await.unwrap(), before.1);
    assert_eq!(json_of(&served, "/api/v1/summary?by=class&start=2026-11-21&end=2026-11-22").await, summary);
    let report = json_of(&served, "/api/v1/report?week=2026-W47").await;
    let group = report["groups"].as_array().unwrap().iter().find(|group| group["id"] == id.as_str()).unwrap();
    assert_eq!(group["ownership"]["state"], "fix_claimed", "{group}");
    for (path, words) in [
        ("/report?week=2026-W47", "fix claimed by ann"),
        ("/findings?period=2026-W47", "fix claimed by ann assigned to bob"),
        ("/?period=2026-W47", "fix claimed by ann"),
    ] {
        let page = text_of(&page(&served, path).await);
        assert!(page.contains(words), "{path}: {words} is not in {page}");
    }
}

#[tokio::test]
async fn who_comes_second_is_told_so_and_changes_nothing() {
    let served = with_a_starving_gpu().await;
    let id = finding(&served).await;
    let known = tag(&served, &id).await;
    let acknowledge = |who: &str| json!({ "action": "acknowledge", "actor": who });
    assert_eq!(say(&served, &id, None, acknowledge("ann")).await.0, 428);
    let (status, said) = say(&served, &id, Some(&known), acknowledge("ann")).await;
    assert_eq!((status, &said["seq"], &said["ownership"]["by"]), (201, &json!(1), &json!("ann")), "{said}");
    let (status, error) = say(&served, &id, Some(&known), acknowledge("bob")).await;
    assert_eq!((status, &error["error"]["field"]), (412, &json!("If-Match")), "{error}");
    let detail = json_of(&served, &format!("/api/v1/findings/{id}")).await;
    let actors: Vec<&Value> = detail["events"].as_array().unwrap().iter().map(|event| &event["actor"]).collect();
    assert_eq!(actors, ["ann"]);
    let weak = format!("W/{}", tag(&served, &id).await);
    assert_eq!(say(&served, &id, Some(&weak), acknowledge("bob")).await.0, 201);
    let same = served.request(&format!("/api/v1/findings/{id}"), Some(&tag(&served, &id).await)).await;
    assert_eq!(same.status().as_u16(), 304);
}

#[tokio::test]
async fn what_is_wrong_with_what_is_said_is_named() {
    let served = with_a_starving_gpu().await;
    let id = finding(&served).await;
    for (body, field) in [
        (json!({ "action": "verified", "actor": "ann" }), "action"),
        (json!({ "action": "snooze", "actor": "ann" }), "until"),
        (json!({ "action": "snooze", "until": "soon", "actor": "ann" }), "until"),
        (json!({ "action": "snooze", "until": "2027-12-24", "actor": "ann" }), "until"),
        (json!({ "action": "accept", "actor": "ann" }), "comment"),
        (json!({ "action": "claim", "url": "javascript:1", "actor": "ann" }), "url"),
        (json!({ "action": "claim" }), "actor"),
        (json!({ "action": "claim", "colour": "red" }), "body"),
        (json!([]), "body"),
    ] {
        let (status, error) = say(&served, &id, Some("*"), body.clone()).await;
        assert_eq!((status, &error["error"]["field"]), (400, &json!(field)), "{body}: {error}");
    }
    let claim = json!({ "action": "claim", "actor": "ann" });
    assert_eq!(say(&served, "aaaaaaaaaaaa", Some("*"), claim.clone()).await.0, 404);
    assert_eq!(say(&served, &id, Some("tag"), claim.clone()).await.0, 400);
    let long = json!({ "action": "comment", "comment": "x".repeat(40_000), "actor": "ann" });
    assert_eq!(say(&served, &id, Some("*"), long).await.0, 413);
    let path = format!("/api/v1/findings/{id}/events");
    let headers = [FORM, ("if-match", "*")];
    assert_eq!(served.post(&path, &headers, "action=claim&actor=ann".to_owned()).await.status().as_u16(), 415);
    assert_eq!(served.get("/api/v1/findings/aaaaaaaaaaaa").await.0, 404);
    assert_eq!(served.store.finding_events().await.unwrap(), []);
}

#[tokio::test]
async fn findings_are_listed_by_state_team_and_assignee() {
    let served = with_a_starving_gpu().await;
    let teams = "teams: [{name: ml, match: [{account: ml}]}]\n";
    served.teams.set(Ok((*Config::parse(teams).unwrap().teams()).clone()));
    let id = finding(&served).await;
    let assign = json!({ "action": "assign", "assignee": "bob", "actor": "ann" });
    assert_eq!(say(&served, &id, Some("*"), assign).await.0, 201);
    assert_eq!(say(&served, &id, Some("*"), json!({ "action": "acknowledge", "actor": "ann" })).await.0, 201);
    let classes = async |query: &str| {
        let list = json_of(&served, &format!("/api/v1/findings?week=2026-W47{query}")).await;
        let classes = list["data"].as_array().unwrap().iter().map(|one| one["class"].as_str().unwrap().to_owned());
        classes.collect::<Vec<_>>()
    };
    assert_eq!(classes("").await.len(), 2);
    for query in ["&state=acknowledged", "&assignee=bob", "&team=ml", "&team=ml&state=acknowledged&assignee=bob"] {
        assert_eq!(classes(query).await, ["dataloader_storage"], "{query}");
    }
    assert_eq!(classes("&state=open").await, ["idle_held"]);
    assert_eq!(classes("&assignee=ann").await, [""; 0]);
    assert_eq!(served.get("/api/v1/findings?week=2026-W47&state=lost").await.0, 400);
}

#[tokio::test]
async fn forms_say_it_without_a_script_and_comments_are_escaped() {
    let served = with_a_starving_gpu().await;
    let id = finding(&served).await;
    let path = format!("/findings/{id}");
    let policy = served.request(&path, None).await.headers()["referrer-policy"].clone();
    assert_eq!(policy, "same-origin", "without it the front door takes the form for that of another site");
    let shown = page(&served, &format!("{path}?period=2026-W47")).await;
    for part in
        ["method=\"post\"", "name=\"actor\"", "value=\"acknowledge\"", "type=\"date\"", "name=\"seq\" value=\"0\""]
    {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let form = "action=acknowledge&seq=0&actor=ann&url=&comment=%3Ci%3E7%3C%2Fi%3E%0D%0A%3Cscript%3E";
    let answer = served.post(&format!("{path}/events"), &[FORM], form.to_owned()).await;
    assert_eq!(answer.status().as_u16(), 303);
    assert_eq!(answer.headers()["location"].to_str().unwrap(), format!("../{id}"));
    let shown = page(&served, &path).await;
    assert!(shown.contains("&#60;i&#62;7&#60;/i&#62;\n&#60;script&#62;") && !shown.contains("<script>"), "{shown}");
    assert!(text_of(&shown).contains("acknowledged by ann"), "{shown}");
    // The page that was looked at before is old now.
    let answer = served.post(&format!("{path}/events"), &[FORM], "action=claim&seq=0&actor=bob".to_owned()).await;
    let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
    assert!(status == 412 && text.contains("Someone else said something"), "{status} {text}");
    let answer = served.post(&format!("{path}/events"), &[FORM], "action=snooze&seq=1&actor=bob".to_owned()).await;
    assert_eq!(answer.status().as_u16(), 400);
    assert_eq!(served.store.finding_events().await.unwrap().len(), 1);
    assert_eq!(served.get("/findings/aaaaaaaaaaaa").await.0, 404);
}

#[tokio::test]
async fn who_comes_again_and_again_is_a_page_and_a_table() {
    let served = with_a_starving_gpu().await;
    let list = async || json_of(&served, "/api/v1/repeat_offenders").await["data"].as_array().unwrap().clone();
    assert!(list().await.is_empty());
    assert!(text_of(&page(&served, "/findings/repeat").await).contains("No finding was large enough"));
    let id = finding(&served).await;
    for (n, week) in ["2026-W44", "2026-W46"].into_iter().enumerate() {
        let period = crate::report::Period::iso_week(week, &jiff::tz::TimeZone::UTC).unwrap();
        let noted = FindingWeek {
            week: week.to_owned(),
            id: id.clone(),
            start_ms: period.start_ms,
            end_ms: period.end_ms,
            cluster: None,
            class: Class::DataloaderStorage,
            subject: "<i>7".to_owned(),
            team: Some("ml".to_owned()),
            lost_ms: HOUR_MS * (n as i64 + 1),
            ran_ms: HOUR_MS * 9,
            currency: Some("EUR".to_owned()),
            lost_micro: Some(1_500_000),
            is_first: true,
        };
        served.store.note_finding_week(week, &[noted]).await.unwrap();
    }
    let message = Message {
        destination: "people".to_owned(),
        contact: "ml@example.org".to_owned(),
        week: "2026-W46".to_owned(),
        version: 1,
        digest: 1,
        state: MessageState::Sent,
        attempts: 1,
        next_ms: 0,
        message_id: "a@b".to_owned(),
        time_ms: START - 72 * HOUR_MS,
        findings: vec![id.clone()],
        reason: None,
    };
    served.store.note_messages(&[message]).await.unwrap();
    let teams = "teams: [{name: ml, match: [{account: ml}], contacts: [{mail: ml@example.org}]}]\n";
    served.teams.set(Ok((*Config::parse(teams).unwrap().teams()).clone()));
    let [one] = &list().await[..] else { panic!("one") };
    let figures = (&one["weeks"], &one["messages"], &one["days_since_message"], &one["gpu_hours"], &one["cost"]);
    assert_eq!(figures, (&json!(2), &json!(1), &json!(3), &json!(3.0), &json!(3.0)), "{one}");
    let shown = text_of(&page(&served, "/findings/repeat").await);
    for part in ["ml mail ml@example.org", "2 last 2026-W46", "1, the last 3 days ago", "3.00", "EUR 3.00", "open"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let csv = served.get("/api/v1/repeat_offenders?format=csv").await.2;
    assert!(csv.lines().count() == 2 && csv.starts_with("assignee,class,cluster,contacts"), "{csv}");
    assert_eq!(json_of(&served, "/api/v1/repeat_offenders?team=other").await["data"], json!([]));
    // It is new in no week before, and back in none: it was there the week before.
    let detail = json_of(&served, &format!("/api/v1/findings/{id}?week=2026-W47")).await;
    assert_eq!(
        (&detail["ownership"]["mark"], detail["weeks"].as_array().unwrap().len()),
        (&Value::Null, 2),
        "{detail}"
    );
}

#[tokio::test]
async fn what_was_said_long_ago_of_a_finding_that_is_not_there_is_still_shown() {
    let served = with_a_starving_gpu().await;
    let event = FindingEvent {
        seq: 0,
        id: "bbbbbbbbbbbb".to_owned(),
        time_ms: 7,
        actor: "ann".to_owned(),
        action: FindingAction::Comment,
        until_ms: None,
        assignee: None,
        comment: Some("long ago".to_owned()),
        url: None,
    };
    served.store.say(None, &event).await.unwrap();
    assert!(text_of(&page(&served, "/findings/bbbbbbbbbbbb").await).contains("ann remarked long ago"));
    assert_eq!(json_of(&served, "/api/v1/findings/bbbbbbbbbbbb").await["group"], Value::Null);
}
