//! `backfill` against a server that misbehaves as real ones do.

#![allow(clippy::unwrap_used, reason = "a test, in helpers too")]

use std::collections::HashMap;
use std::future::IntoFuture;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::get;
use goodput_exposition::sample::TimeMs;
use tokio::net::TcpListener;

/// Mon 2026-03-02 00:00 UTC.
const MARCH: TimeMs = 1_772_409_600_000;
const HOUR: TimeMs = 3_600_000;
const MINUTE: TimeMs = 60_000;
const NAMES: &str = r#"{"status":"success","data":["DCGM_FI_DEV_GPU_UTIL","go_goroutines"]}"#;

#[derive(Default)]
struct Behaviour {
    /// The ends of the ranges that were asked for, as they came.
    asked: Vec<TimeMs>,
    /// Answers 500 this many times more.
    failures: usize,
    /// Answers 400 from there on.
    until: Option<TimeMs>,
    /// Answers exports, with nothing.
    exports: bool,
    authorization: Vec<String>,
}

type Shared = Arc<Mutex<Behaviour>>;

/// A sample a minute; ranges of more than 20 minutes are too much; the sample at the start of a range is counted in, as
/// Prometheus 2 does.
async fn query(
    State(behaviour): State<Shared>,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> (StatusCode, String) {
    let mut behaviour = behaviour.lock().unwrap();
    let end = (query["time"].parse::<f64>().unwrap() * 1000.0).round() as TimeMs;
    let length = query["query"].strip_suffix("ms]").unwrap().rsplit_once('[').unwrap().1.parse::<TimeMs>().unwrap();
    behaviour.authorization.extend(headers.get(header::AUTHORIZATION).map(|v| v.to_str().unwrap().to_owned()));
    if behaviour.failures > 0 {
        behaviour.failures -= 1;
        return (StatusCode::INTERNAL_SERVER_ERROR, "oops".to_owned());
    }
    if length > 20 * MINUTE {
        return (StatusCode::UNPROCESSABLE_ENTITY, r#"{"status":"error","error":"too many samples"}"#.to_owned());
    }
    behaviour.asked.push(end);
    if behaviour.until.is_some_and(|until| end >= until) {
        return (StatusCode::BAD_REQUEST, r#"{"status":"error","error":"not today"}"#.to_owned());
    }
    assert!(query["query"].starts_with(r#"DCGM_FI_DEV_GPU_UTIL{cluster="a"}["#), "{query:?}");
    let times = (end - length..=end).filter(|time| time % MINUTE == 0);
    let values: Vec<String> = times.map(|time| format!("[{}.000,\"0.30000000000000004\"]", time / 1000)).collect();
    let metric = r#"{"__name__":"DCGM_FI_DEV_GPU_UTIL","UUID":"GPU-a","gpu":"0"}"#;
    let values = values.join(",");
    let result = format!(r#"[{{"metric":{metric},"values":[{values}]}}]"#);
    (StatusCode::OK, format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":{result}}}}}"#))
}

async fn export(State(behaviour): State<Shared>) -> (StatusCode, [(header::HeaderName, &'static str); 1]) {
    let status = if behaviour.lock().unwrap().exports { StatusCode::OK } else { StatusCode::NOT_FOUND };
    (status, [(header::CONTENT_TYPE, "application/stream+json; charset=utf-8")])
}

async fn serve(behaviour: Shared) -> String {
    let router = Router::new()
        .route("/prom/api/v1/query", get(query))
        .route("/prom/api/v1/export", get(export))
        .route("/prom/api/v1/label/__name__/values", get(async || NAMES))
        .with_state(behaviour);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, router).into_future());
    format!("http://{address}/prom/")
}

async fn backfill(data: &Path, url: &str, more: &[&str]) -> (bool, String) {
    let mut command = program();
    command
        .args(["--log.level=error", "--data.dir", data.to_str().unwrap(), "backfill", "--url", url])
        .args(["--match", r#"cluster="a""#, "--start", "2026-03-02T00:00:00Z", "--end", "2026-03-02T03:00:00Z"])
        .args(more);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[allow(clippy::disallowed_methods, reason = "the program under test")]
fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_goodput-analyzer"))
}

#[tokio::test]
async fn what_is_too_much_is_halved_what_fails_is_asked_again_and_a_second_run_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let behaviour = Shared::default();
    let url = serve(Arc::clone(&behaviour)).await;
    *behaviour.lock().unwrap() = Behaviour { failures: 2, until: Some(MARCH + 2 * HOUR), ..Behaviour::default() };
    let (succeeded, said) = backfill(dir.path(), &url, &["--label", "cluster=a", "--no-judge"]).await;
    assert!(!succeeded && said.contains("not today") && said.contains("the same command goes on from there"), "{said}");
    assert!(said.contains(" 120  stored\n"), "two hours: {said}");
    assert_eq!(behaviour.lock().unwrap().asked.len(), 2 * 4 + 1, "quarters of an hour");

    *behaviour.lock().unwrap() = Behaviour::default();
    let (succeeded, said) = backfill(dir.path(), &url, &["--label", "cluster=a", "--no-judge"]).await;
    assert!(succeeded && said.contains(" 60  stored\n"), "{said}");
    assert!(said.contains("classify --start 2026-03-02T00:00:00+00:00 --end 2026-03-02T03:00:00+00:00"), "{said}");
    assert!(behaviour.lock().unwrap().asked.iter().all(|end| *end >= MARCH + 2 * HOUR), "it went on");

    let (succeeded, said) = backfill(dir.path(), &url, &["--label", "cluster=a"]).await;
    assert!(succeeded && said.contains(" 180  there already, with the same value\n"), "{said}");
    assert!(said.contains("\nclass ") && !said.contains("judge these hours"), "{said}");
    let (_, said) = backfill(dir.path(), &url, &["--label", "cluster=b"]).await;
    assert!(said.contains(" 180  stored\n"), "another cluster: {said}");
}

/// A server that gives an export too: a backfill that began by PromQL, as those of earlier releases all did, goes on so.
#[tokio::test]
async fn a_backfill_keeps_the_reader_that_it_began_with() {
    let (dir, behaviour) = (tempfile::tempdir().unwrap(), Shared::default());
    let url = serve(Arc::clone(&behaviour)).await;
    let until = Some(MARCH + 2 * HOUR);
    *behaviour.lock().unwrap() = Behaviour { until, exports: true, ..Behaviour::default() };
    let (succeeded, said) = backfill(dir.path(), &url, &["--reader", "promql", "--no-judge"]).await;
    assert!(!succeeded && said.contains(" 120  stored\n"), "{said}");
    let noted = dir.path().join("backfill.json");
    let text = std::fs::read_to_string(&noted).unwrap();
    let of_earlier_release = text.replace(r#","reader":"promql""#, "");
    assert_ne!(text, of_earlier_release);
    std::fs::write(&noted, of_earlier_release).unwrap();

    *behaviour.lock().unwrap() = Behaviour { exports: true, ..Behaviour::default() };
    let (succeeded, said) = backfill(dir.path(), &url, &["--reader", "victoria", "--no-judge"]).await;
    assert!(!succeeded && said.contains("began with --reader promql"), "{said}");
    let (succeeded, said) = backfill(dir.path(), &url, &["--no-judge"]).await;
    assert!(succeeded && said.contains(" 60  stored\n"), "the third hour, by PromQL: {said}");
    let other = tempfile::tempdir().unwrap();
    let (_, said) = backfill(other.path(), &url, &["--no-judge"]).await;
    assert!(said.contains(" 0  stored\n"), "one that begins takes the export, in which there is nothing: {said}");
}

#[tokio::test]
async fn secrets_come_from_files_and_a_server_that_is_none_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secret");
    std::fs::write(&file, "s3cret\n").unwrap();
    let behaviour = Shared::default();
    let url = serve(Arc::clone(&behaviour)).await;
    for (args, header) in [
        (&["--bearer-token-file"][..], "Bearer s3cret"),
        (&["--user", "ann", "--password-file"], "Basic YW5uOnMzY3JldA=="),
    ] {
        let (succeeded, said) = backfill(dir.path(), &url, &[args, &[file.to_str().unwrap()][..]].concat()).await;
        assert!(succeeded, "{said}");
        let seen = std::mem::take(&mut behaviour.lock().unwrap().authorization);
        assert!(!seen.is_empty() && seen.iter().all(|seen| seen == header), "{seen:?}");
    }
    let (succeeded, said) = backfill(dir.path(), &format!("{url}nowhere"), &[]).await;
    assert!(!succeeded && said.contains("/nowhere/api/v1/label/__name__/values") && said.contains("404"), "{said}");
    let (succeeded, said) = backfill(dir.path(), &url, &["--ca-file", "/dev/null/none"]).await;
    assert!(!succeeded && said.contains("cannot read /dev/null/none"), "{said}");
}
