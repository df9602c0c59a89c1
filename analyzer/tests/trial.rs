//! `try` against servers that are none, that refuse and that are slow; what interrupts it leaves nothing behind.

#![allow(clippy::unwrap_used, reason = "a test, in helpers too")]

use std::collections::HashMap;
use std::future::IntoFuture;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use axum::Router;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const SCALAR: &str = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}"#;
const NAMES: &str = r#"{"status":"success","data":["DCGM_FI_DEV_GPU_UTIL"]}"#;

#[allow(clippy::disallowed_methods, reason = "the program under test")]
fn program(temporary: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_goodput-analyzer"));
    command.arg("try").args(args).env("TMPDIR", temporary).current_dir(temporary);
    command
}

async fn refused(args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program(dir.path(), args);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(!output.status.success(), "{args:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something is left");
    String::from_utf8(output.stderr).unwrap()
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, router).into_future());
    format!("http://{address}")
}

#[tokio::test]
async fn what_is_no_prometheus_and_what_refuses_is_named_at_once() {
    let query = |status: StatusCode, body: &'static str| get(async move || (status, Html(body)).into_response());
    let url = serve(
        Router::new()
            .route("/page/api/v1/query", query(StatusCode::OK, "<html>\n<title>Grafana</title>"))
            .route("/closed/api/v1/query", query(StatusCode::UNAUTHORIZED, "no org id"))
            .route("/forbidden/api/v1/query", query(StatusCode::FORBIDDEN, "not you")),
    )
    .await;
    for (path, wanted) in [
        ("", &["cannot read from", "404", "what stands before /api/v1/"][..]),
        ("/page", &["cannot read from", "expected the answer of Prometheus' HTTP API"]),
        ("/closed", &["401", "no org id", "requires credentials", "--bearer-token-file", "--tenant"]),
        ("/forbidden", &["403", "not you", "does not allow this"]),
    ] {
        let told = refused(&["--prometheus", &format!("{url}{path}")]).await;
        for text in wanted {
            assert!(told.contains(text), "{path}: no {text:?} in {told}");
        }
    }
    let nobody = format!("http://{}", std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let told = refused(&["--prometheus", &nobody]).await;
    assert!(
        told.contains(&nobody) && told.contains("cannot read from") && told.contains("Connection refused"),
        "{told}"
    );
}

#[tokio::test]
async fn a_young_server_is_reported_from_when_it_has_data_and_that_is_said_first() {
    let lately = jiff::Timestamp::now().as_second() as f64 - 25.0 * 3600.0;
    // Of the last day it has metrics of GPUs, of the week before it none.
    let names = async move |Query(asked): Query<HashMap<String, String>>| {
        let is_late = asked.get("end").and_then(|end| end.parse().ok()).is_some_and(|end: f64| end > lately);
        if is_late { NAMES } else { r#"{"status":"success","data":["up"]}"# }
    };
    let jobs = async || r#"{"status":"success","data":["node"]}"#;
    let url = serve(
        Router::new()
            .route("/api/v1/query", get(async || SCALAR))
            .route("/api/v1/label/__name__/values", get(names))
            .route("/api/v1/label/job/values", get(jobs)),
    )
    .await;
    let told = refused(&["--prometheus", &url, "--week", "2026-W01"]).await;
    let first = "the server has metrics of GPUs of the last day, and none of 2026-W01: report it with --since 20";
    assert!(told.contains(&format!("goodput-analyzer: {first}")), "{told}");
    assert!(told.contains(&format!("\n{url}: no metric of GPUs among its 1 from 2025-12-29")), "{told}");
}

#[tokio::test]
async fn mistakes_of_the_command_line_are_named() {
    for (args, wanted) in [
        (&["--prometheus", "prometheus:9090"][..], "http://prometheus:9090"),
        (&["--prometheus", "http://ann:s3cret@a/"], "--password-file"),
        (&["--prometheus", "http://a/", "--since", "2026-11-16"], "--end"),
        (&["--prometheus", "http://a/", "--week", "2027-W53"], "2027 has 52 ISO weeks"),
        (&["--prometheus", "http://a/", "--week", "2126-W01"], "expected a time that has begun"),
        (&["--prometheus", "http://a/", "--output", "x", "--format", "csv"], "--format"),
        (&["--prometheus", "http://a/", "--since", "2026-11-16T10:30", "--until", "2026-11-17"], "a full hour"),
    ] {
        let told = refused(args).await;
        assert!(told.contains(wanted) && !told.contains("s3cret"), "{args:?}: {told}");
    }
}

#[tokio::test]
async fn an_interrupted_one_leaves_nothing_behind() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let (asked, mut asking) = mpsc::unbounded_channel();
        let hang = move || {
            asked.send(()).unwrap();
            std::future::pending::<&str>()
        };
        let url = serve(
            Router::new()
                .route("/api/v1/query", get(async || SCALAR))
                .route("/api/v1/label/__name__/values", get(async || NAMES))
                .route("/api/v1/query_range", get(hang)),
        )
        .await;
        let dir = tempfile::tempdir().unwrap();
        let mut command = program(dir.path(), &["--prometheus", &url]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        asking.recv().await.unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "its directory is there");
        assert!(send(signal, child.id()).status.success());
        let (status, told) = tokio::task::spawn_blocking(move || {
            let mut told = String::new();
            child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
            (child.wait().unwrap(), told)
        })
        .await
        .unwrap();
        assert!(
            !status.success() && told.contains("interrupted; nothing is left behind"),
            "{signal}: {status}: {told}"
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{signal}: something is left");
    }
}

#[allow(clippy::disallowed_methods, reason = "the standard library cannot send a signal")]
fn send(signal: &str, pid: u32) -> Output {
    Command::new("kill").args([signal, &pid.to_string()]).output().unwrap()
}
