//! Every route over a real store, held to the description.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{check, check_as};
use super::table;
use crate::config::ReadLimits;
use crate::judge::tests::START;
use crate::serve::tests::{Served, serve, serve_within};
use goodput_store::{Events, Place, Results as _, Store};
use goodput_testing::bare;
use goodput_verdict::{Achieved, Cause, CauseKind, Class, Culprit, Group, HOUR_MS, Interval};

/// What is sent, not read.
const SENT: [&str; 2] = ["/events", "/findings/{id}/events"];

const HOURS: &str = "start=2026-11-21T03:00:00Z&end=2026-11-21T05:00:00Z";

pub(super) fn description() -> Value {
    Value::Object((*table::<Store>().finish().1).clone())
}

async fn get(served: &Served, path: &str) -> (u16, Value) {
    let (status, kind, text) = served.get(&format!("/api/v1{path}")).await;
    assert_eq!(kind, "application/json", "{path}");
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}")))
}

async fn data(served: &Served, path: &str) -> Vec<Value> {
    let (status, answer) = get(served, path).await;
    assert_eq!(status, 200, "{path}: {answer}");
    answer["data"].as_array().unwrap().clone()
}

/// The range that [`serve`] has verdicts of.
fn range() -> String {
    let show = |time| jiff::Timestamp::from_millisecond(time).unwrap().to_string();
    format!("start={}&end={}", show(START), show(START + 2 * HOUR_MS))
}

#[tokio::test]
async fn every_route_answers_as_described() {
    let served = serve("n1").await;
    let description = description();
    let finding = data(&served, "/findings").await[0]["id"].as_str().unwrap().to_owned();
    for (path, route) in
        description["paths"].as_object().unwrap().iter().filter(|(path, _)| !SENT.contains(&path.as_str()))
    {
        let (status, answer) = get(&served, &asking(path, &finding)).await;
        assert_eq!(status, 200, "{path}: {answer}");
        let schema = &route["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        check(&answer, schema, path);
        let empty = answer["data"].as_array().is_some_and(Vec::is_empty);
        let without = [
            "/advisories",
            "/risks",
            "/standings",
            "/forecasts",
            "/runs",
            "/serving",
            "/deliveries",
            "/repeat_offenders",
        ];
        assert_eq!(empty, without.contains(&path.as_str()), "{path}: {answer}");
        let (status, error) = get(&served, &format!("{path}?colour=red")).await;
        assert_eq!((status, &error["error"]["field"]), (400, &Value::from("colour")), "{path}");
        check_as(&error, "Error");
    }
}

/// The description changes only on purpose; `UPDATE_GOLDEN=1` records it, to be reviewed as a diff.
#[test]
fn the_description_is_the_recorded_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/openapi.json");
    let now = format!("{:#}\n", description());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    let then = std::fs::read_to_string(path).unwrap();
    let differs = then.lines().zip(now.lines()).enumerate().find(|(_, (then, now))| then != now);
    let differs = differs.map(|(line, (then, now))| format!("line {}: {then} is now {now}", line + 1));
    assert!(then == now, "{path} differs (UPDATE_GOLDEN=1 records it): {differs:?}");
}

#[test]
fn the_page_lists_every_route_and_parameter() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/api.md")).unwrap();
    for (path, route) in description()["paths"].as_object().unwrap() {
        let Some(parameters) = route["get"]["parameters"].as_array().filter(|_| path != "/openapi.json") else {
            continue;
        };
        let row = page.lines().find(|line| line.starts_with(&format!("| `/api/v1{path}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/reference/api.md lacks {path}"));
        let names = parameters.iter().filter_map(|parameter| parameter["name"].as_str());
        for name in names.filter(|name| !["limit", "cursor", "format"].contains(name)) {
            assert!(row.contains(&format!("`{name}`")), "docs/reference/api.md lacks {name} of {path}");
        }
    }
}

/// A reader of the description does not see the source.
#[test]
fn every_schema_and_field_has_a_text_of_its_own() {
    for (name, schema) in description()["components"]["schemas"].as_object().unwrap() {
        let fields = schema["properties"].as_object().into_iter().flatten();
        let all = fields.map(|(field, schema)| (field.as_str(), schema)).chain([("", schema)]);
        for (field, schema) in all.filter(|(field, _)| (name.as_str(), *field) != ("Event", "kind")) {
            let text = schema["description"].as_str().unwrap_or_default();
            assert!(!text.is_empty() && !text.contains("[`") && !text.contains("`None`"), "{name}.{field}: {text}");
            assert!(!field.ends_with("_ms") || text.contains("illiseconds"), "{name}.{field}: {text}");
        }
    }
}

/// The route with a query that the store has an answer to.
fn asking(path: &str, finding: &str) -> String {
    match path {
        "/teams/{name}" => "/teams/unassigned".to_owned(),
        "/teams/{name}/weeks" => "/teams/unassigned/weeks".to_owned(),
        "/findings/{id}" => format!("/findings/{finding}"),
        "/series" => format!("{path}?signal=gpu_power&gpu=GPU-a&{}", range()),
        "/summary" => format!("{path}?by=node&{}", range()),
        "/intervals" | "/serving" | "/advisories" | "/risks" | "/standings" | "/runs" | "/nodes" | "/gpus" => {
            format!("{path}?{}", range())
        }
        _ => path.to_owned(),
    }
}

#[test]
fn what_the_front_door_answers_is_described_for_every_route() {
    let description = description();
    for (path, route) in description["paths"].as_object().unwrap() {
        for (method, operation) in route.as_object().unwrap() {
            for status in ["401", "403", "429"] {
                let reference = operation["responses"][status]["$ref"].as_str().unwrap_or_default();
                let described = description.pointer(reference.trim_start_matches('#'));
                assert!(described.is_some_and(|answer| answer["description"].is_string()), "{method} {path}: {status}");
            }
        }
    }
}

/// 503 where all places are taken, 422 where one row is too much: what a route answers is described, and only that.
#[tokio::test]
async fn refusals_of_reads_are_described() {
    let busy = serve_within(ReadLimits { requests: 0, ..ReadLimits::default() }).await;
    let small = serve_within(ReadLimits { max_rows: 0, ..ReadLimits::default() }).await;
    let description = description();
    let (mut too_much, mut put_off) = (BTreeSet::new(), BTreeSet::new());
    let is_described = |path: &str, status: u16| {
        let responses = &description["paths"][path]["get"]["responses"];
        let response = responses.get(status.to_string())?;
        response["$ref"].as_str().map_or(Some(response), |name| description.pointer(&name[1..]))
    };
    for path in description["paths"].as_object().unwrap().keys().filter(|path| !SENT.contains(&path.as_str())) {
        for (served, refusal, found) in [(&busy, 503, &mut put_off), (&small, 422, &mut too_much)] {
            let (status, answer) = get(served, &asking(path, "aaaaaaaaaaaa")).await;
            assert!(status == 200 || status == refusal, "{path}: {status}: {answer}");
            let described = is_described(path, status).unwrap_or_else(|| panic!("{path}: {status} is not described"));
            if status == refusal {
                check(&answer, &described["content"]["application/json"]["schema"], path);
                found.insert(path.as_str());
            }
        }
        assert_eq!(is_described(path, 503).is_some(), put_off.contains(path.as_str()), "{path}: 503");
    }
    let of_results = ["/findings", "/gpus", "/intervals", "/nodes", "/report", "/serving", "/summary", "/teams"];
    assert!(of_results.iter().all(|path| too_much.contains(path)), "{too_much:?}");
}

#[tokio::test]
async fn what_has_no_example_in_a_quiet_store_has_the_described_fields_too() {
    let examples = goodput_testing::outlook();
    examples.risks.iter().for_each(|risk| check_as(risk, "Risk"));
    examples.standings.iter().for_each(|standing| check_as(standing, "Standing"));
    check_as(&Culprit { node: "n1".into(), gpu: Some("GPU-a".into()) }, "Culprit");
    check_as(&Cause { kind: CauseKind::Link, which: None }, "Cause");
    check_as(&examples.advisories[0], "Advisory");
}

#[tokio::test]
async fn runs_are_what_jobs_told() {
    let served = serve("n1").await;
    let body = serde_json::json!([
        {"id": "a", "time": "2026-11-21T03:00:00Z", "run": "r", "attempt": 0, "rank": 0, "kind": "start", "labels": {"node": "n1"}},
        {"id": "b", "time": "2026-11-21T03:40:00Z", "run": "r", "attempt": 0, "kind": "checkpoint", "step": 7, "seconds": 30,
         "labels": {"node": "n1", "cluster": "eu"}},
    ]);
    let events = crate::ingest::event_body::parse(body.to_string().as_bytes(), i64::MAX).unwrap();
    served.store.add_events(&events).await.unwrap();
    let runs = data(&served, &format!("/runs?{HOURS}")).await;
    assert_eq!(runs.len(), 2, "one of the cluster eu, one of none: {runs:?}");
    runs.iter().for_each(|run| check_as(run, "Run"));
    assert_eq!((&runs[0]["cluster"], &runs[1]["cluster"]), (&Value::Null, &Value::from("eu")));
    assert_eq!(
        (&runs[1]["checkpoint_cost"]["seconds"], &runs[1]["attempts"][0]["saved_ms"]),
        (&30.0.into(), &1_795_232_400_000_i64.into())
    );
    assert_eq!(data(&served, &format!("/runs?{HOURS}&run=r&cluster=eu")).await, runs[1..]);
    assert_eq!(data(&served, &format!("/runs?{HOURS}&run=other")).await, Vec::<Value>::new());
}

#[tokio::test]
async fn what_was_served_is_by_model_or_by_replica() {
    let served = serve("n1").await;
    let owner = "ml/vllm-0";
    let hour = START..START + HOUR_MS;
    let held = Interval { owner: Some(owner.into()), ..bare(Class::Productive, hour.clone()) };
    served.store.replace(Place::new(&None, &held.node), hour.clone(), std::slice::from_ref(&held)).await.unwrap();
    let row = Achieved {
        cluster: None,
        metric: "vllm:generation_tokens_total".into(),
        unit: "tokens".into(),
        start_ms: START,
        end_ms: START + HOUR_MS,
        owner: Some(owner.to_owned()),
        subject: owner.to_owned(),
        amount: 7.2e6,
        covered_ms: HOUR_MS,
        ideal: None,
        served: Some(goodput_verdict::Counted {
            amounts: [(goodput_verdict::Served::GenerationTokens, (7.2e6, "vllm:generation_tokens_total".into()))]
                .into(),
            ..Default::default()
        }),
        model: Some("llama".into()),
    };
    served.store.replace_achieved(hour, &[row]).await.unwrap();
    let asked = |more: &str| format!("/serving?{}{more}", range());
    let models = data(&served, &asked("")).await;
    let [model] = &models[..] else { panic!("{models:?}") };
    assert_eq!((&model["models"], &model["owner"]), (&serde_json::json!(["llama"]), &Value::Null));
    assert_eq!(model["served"]["generation_tokens"], 7.2e6);
    assert_eq!(model["held"]["gpu_ms"], held.ms);
    let replicas = data(&served, &asked("&by=replica")).await;
    assert_eq!((replicas.len(), &replicas[0]["owner"], &replicas[0]["held"]), (1, &owner.into(), &model["held"]));
    models.iter().chain(&replicas).for_each(|line| check_as(line, "ServedWork"));
    assert_eq!(data(&served, &asked("&owner=other")).await, Vec::<Value>::new());
    assert_eq!(data(&served, &asked(&format!("&owner={owner}"))).await, replicas, "of replicas where one is asked for");
    let (status, answer) = get(&served, &asked("&by=model&owner=other")).await;
    assert_eq!((status, &answer["error"]["field"]), (400, &"by".into()), "{answer}");
}

/// Every summary has the time of the ledger, but for what had no holder.
#[tokio::test]
async fn summaries_are_sums_of_the_ledger() {
    let served = serve("n1").await;
    let all = data(&served, &format!("/intervals?{}", range())).await;
    let capacity = Class::ALL.iter().filter(|class| class.group() == Group::Capacity).map(|class| class.name());
    let capacity: BTreeSet<&str> = capacity.collect();
    let is_capacity = |row: &Value| capacity.contains(row["class"].as_str().unwrap());
    let sum = |which: &dyn Fn(&Value) -> bool| {
        all.iter().filter(|row| which(row)).map(|row| row["ms"].as_i64().unwrap()).sum::<i64>()
    };
    let (whole, held) = (sum(&|_| true), sum(&|row| !is_capacity(row)));
    assert!(whole > 0);
    for (by, expected) in [
        ("class", whole),
        ("cluster", whole),
        ("account", held),
        ("run", held),
        ("node", whole),
        ("model", whole),
        ("gpu", whole),
    ] {
        let rows = data(&served, &format!("/summary?by={by}&{}", range())).await;
        let total: i64 = rows.iter().map(|row| row["total"]["gpu_ms"].as_i64().unwrap()).sum();
        assert_eq!(total, expected, "{by}");
        assert!(data(&served, &format!("/summary?by={by}&node=other&{}", range())).await.is_empty(), "{by}");
    }
    let classes = data(&served, &format!("/summary?by=class&{}", range())).await;
    let told: BTreeSet<&str> = classes.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(told, all.iter().filter_map(|row| row["class"].as_str()).collect());
}

#[tokio::test]
async fn findings_are_those_of_a_week_or_of_hours() {
    let served = serve("n1").await;
    let of_hours = data(&served, &format!("/findings?{}", range())).await;
    let lost: i64 = of_hours.iter().map(|row| row["lost"]["gpu_ms"].as_i64().unwrap()).sum();
    let classes = data(&served, &format!("/summary?by=class&{}", range())).await;
    let all: i64 = classes.iter().map(|row| row["lost"]["gpu_ms"].as_i64().unwrap()).sum();
    assert!(lost > 0);
    assert_eq!(lost, all);
    let before = "start=2026-01-01&end=2026-01-02";
    assert!(data(&served, &format!("/findings?{before}")).await.is_empty());
}

#[tokio::test]
async fn without_a_week_the_report_is_that_of_the_last_full_one_and_of_this_one_only_where_that_has_no_verdicts() {
    let served = serve("n1").await;
    let told = async || {
        let (status, _, report) = served.get("/api/v1/report").await;
        assert_eq!(status, 200);
        let report: Value = serde_json::from_str(&report).unwrap();
        let classes = data(&served, "/findings").await.iter().map(|f| f["class"].to_string()).collect::<Vec<_>>();
        (report["period"]["label"].to_string(), classes)
    };
    let held = |class: &str| vec![format!("\"{class}\"")];
    assert_eq!(told().await, ("\"2026-W47\"".to_owned(), held("idle_held")), "so far");
    let week_ago = START - 7 * 24 * HOUR_MS;
    let late = bare(Class::DataloaderStorage, week_ago..week_ago + HOUR_MS);
    let place = Place { cluster: None, node: "n1" };
    served.store.replace(place, week_ago..week_ago + HOUR_MS, &[late]).await.unwrap();
    assert_eq!(told().await, ("\"2026-W46\"".to_owned(), held("dataloader_storage")));
    let page = served.get("/report").await.2;
    assert!(page.contains("<title>Goodput 2026-W46</title>"), "the same week as the page");
}

#[test]
fn events_are_taken_as_described() {
    let description = description();
    let body = description.pointer("/paths/~1events/post/requestBody/content/application~1json").unwrap();
    let events = crate::ingest::event_body::parse(body["example"].to_string().as_bytes(), i64::MAX).unwrap();
    assert_eq!(events.len(), 4);
    assert_eq!(body["schema"]["maxItems"], crate::ingest::event_body::MAX_EVENTS);
    // Every field that is described is known, to one kind at least.
    let event = description.pointer("/components/schemas/Event/properties").unwrap();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for kind in event["kind"]["enum"].as_array().unwrap() {
        let odd = serde_json::json!([{
            "id": "a", "time": "2026-11-16T09:00:00Z", "run": "r", "attempt": 0, "kind": kind, "step": 1, "seconds": 1,
            "status": "failed", "labels": {"pod": "p"}, "odd": 1,
        }]);
        let expected = crate::ingest::event_body::parse(odd.to_string().as_bytes(), i64::MAX).unwrap_err().expected;
        known.extend(expected.trim_start_matches("one of the fields ").split(", ").map(str::to_owned));
    }
    assert_eq!(known, event.as_object().unwrap().keys().cloned().collect());
}

#[tokio::test]
async fn filters_and_pages() {
    let served = serve("n1").await;
    let range = range();
    let all = data(&served, &format!("/intervals?{range}")).await;
    assert!(!all.is_empty());
    for (filter, matches) in [
        ("node=n1", true),
        ("node=n2", false),
        ("gpu=GPU-a", true),
        ("gpu=GPU-b", false),
        ("run=another", false),
        ("account=another", false),
        ("charged_to=GPU-b", false),
    ] {
        let found = data(&served, &format!("/intervals?{range}&{filter}")).await;
        assert_eq!(found == all, matches, "{filter}");
        assert_eq!(found.is_empty(), !matches, "{filter}");
    }
    assert!(data(&served, &format!("/intervals?{range}&class=productive")).await.is_empty());
    let (mut paged, mut cursor) = (Vec::new(), Some(0));
    while let Some(from) = cursor {
        let (_, answer) = get(&served, &format!("/intervals?{range}&limit=1&cursor={from}")).await;
        assert_eq!(answer["data"].as_array().unwrap().len(), 1);
        paged.extend(answer["data"].as_array().unwrap().iter().cloned());
        cursor = answer["next"].as_u64();
    }
    assert_eq!(paged, all);
    let gpus = data(&served, &format!("/gpus?{range}")).await;
    assert_eq!((gpus.len(), &gpus[0]["gpu"], &gpus[0]["node"]), (1, &"GPU-a".into(), &"n1".into()));
    let points = data(&served, &format!("/series?signal=gpu_power&gpu=GPU-a&{range}&limit=10000")).await;
    assert!(points.iter().all(|point| point["mean"] == 120.0), "{points:?}");
    assert_eq!(
        points.iter().map(|p| p["end_ms"].as_i64().unwrap() - p["start_ms"].as_i64().unwrap()).sum::<i64>(),
        2 * HOUR_MS
    );
}

#[tokio::test]
async fn what_is_wrong_is_named_and_expected() {
    let served = serve("n1").await;
    for (path, field, expected) in [
        ("/intervals?class=lazy", "class", "one of productive, "),
        ("/intervals?limit=0", "limit", "a whole number from 1 to 10000"),
        ("/intervals?limit=10001", "limit", "a whole number from 1 to 10000"),
        ("/intervals?cursor=-1", "cursor", "a whole number from 0 to 4294967295"),
        ("/intervals?start=noon", "start", "a time such as 2026-11-16T09:00:00Z"),
        ("/intervals?start=2026-01-01&end=2026-11-21", "start", "a time before end, by at most 840 hours"),
        ("/risks?memory=disk", "memory", "one of gpu, cgroup, host"),
        ("/risks?kind=gpu", "kind", "one of memory, disk, eviction, hardware"),
        ("/summary", "by", "one of class, cluster, account, run, node, model, gpu"),
        ("/summary?by=colour", "by", "one of class, cluster, account, run, node, model, gpu"),
        ("/findings?week=2026-W47&start=2026-11-16", "week", "no week beside start"),
        (
            "/findings?start=2026-11-16T00:30:00Z&end=2026-11-17",
            "start",
            "\"2026-11-16T00:30:00Z\": expected a full hour",
        ),
        ("/report?week=2027-W53", "week", "an ISO week such as 2026-W47"),
        ("/series", "signal", "a signal that /api/v1/signals lists"),
        ("/series?signal=gpu_power&node=n1", "gpu", "a UUID, and neither node nor owner"),
    ] {
        let (status, answer) = get(&served, path).await;
        let error = &answer["error"];
        assert_eq!((status, error["field"].as_str()), (400, Some(field)), "{path}: {answer}");
        assert!(error["expected"].as_str().unwrap().starts_with(expected), "{path}: {answer}");
    }
    assert_eq!(get(&served, "/nowhere").await.0, 404);
    assert_eq!(data(&served, &format!("/intervals?{HOURS}&gpu=none")).await, Vec::<Value>::new());
}

#[tokio::test]
async fn an_answer_that_is_still_the_same_is_not_sent_again() {
    let served = serve("n1").await;
    let path = format!("/api/v1/intervals?{}", range());
    let first = served.request(&path, None).await;
    let tag = first.headers()["etag"].to_str().unwrap().to_owned();
    let again = served.request(&path, Some(&tag)).await;
    assert_eq!((first.status().as_u16(), again.status().as_u16()), (200, 304));
    assert_eq!(served.request(&path, Some("\"other\"")).await.status().as_u16(), 200);
}

#[tokio::test]
async fn a_list_is_csv_where_that_is_asked_for() {
    let served = serve("n1").await;
    let path = format!("/api/v1/intervals?{}", range());
    let all = data(&served, &format!("/intervals?{}", range())).await;
    let (status, kind, text) = served.get(&format!("{path}&format=csv")).await;
    assert_eq!((status, kind.as_str()), (200, "text/csv; charset=utf-8; header=present"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), all.len() + 1, "{text}");
    let columns: Vec<&str> = lines[0].split(',').collect();
    // Those before the first text with a comma in it.
    let column = |name: &str| columns.iter().position(|own| *own == name).unwrap();
    let class = lines[1].split(',').nth(column("class")).unwrap();
    assert_eq!(class, all[0]["class"].as_str().unwrap());
    assert!(lines[1].contains(",GPU-a,") && columns.contains(&"energy.mj"), "{text}");
    assert_eq!(served.get(&format!("{path}&format=json")).await.1, "application/json");
    let (status, error) = get(&served, "/intervals?format=xml").await;
    assert_eq!((status, &error["error"]["expected"]), (400, &Value::from("one of json, csv")));
    assert_eq!(get(&served, "/health?format=csv").await.0, 400, "it is no list");
}
