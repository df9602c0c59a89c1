//! The scraper.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::StatusCode;
use axum::routing::get;

use super::super::job::{Discovery, InstanceFrom, Job};
use super::super::scrape::{JobLimits, ScrapeError, Scraper, Target};
use super::*;
use goodput_exposition::sample::is_stale;

const OPENMETRICS: [(header::HeaderName, &str); 1] =
    [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];

fn gzipped() -> impl axum::response::IntoResponse {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(b"kept 3 1.5\n# EOF\n").unwrap();
    (OPENMETRICS, [(header::CONTENT_ENCODING, "gzip")], encoder.finish().unwrap())
}

fn target(address: SocketAddr, path: &str) -> Target {
    let address = address.to_string();
    let interval = Duration::from_millis(5);
    Target { url: format!("http://{address}/{path}"), interval, ..Target::new("gpu", &address) }
}

#[tokio::test]
async fn a_scrape_reads_both_formats_and_names_what_failed() {
    let address = serve(
        Router::new()
            .route("/gzip", get(async || gzipped()))
            .route("/text", get("kept 1\n"))
            .route("/cut", get((OPENMETRICS, "kept 1\n")))
            .route("/large", get("kept 1\n".repeat(100)))
            .route("/latin", get(b"kept 4\nkept{a=\"\xe9\"} 1\n".as_slice()))
            .route("/broken", get(StatusCode::INTERNAL_SERVER_ERROR))
            .route("/never", get(std::future::pending::<()>)),
    )
    .await;
    let scraper = Scraper::new(Limits { decompressed_bytes: 100, ..Limits::default() }, Arc::default());
    let scrape = async |path: &str| {
        let batch = scraper.scrape_once(&target(address, path)).await?;
        Ok::<_, ScrapeError>(batch.series().map(|s| s.samples[0].value).collect::<Vec<_>>())
    };
    assert_eq!(scrape("gzip").await.unwrap(), [3.0, 1.0]);
    assert_eq!(scrape("text").await.unwrap(), [1.0, 1.0]);
    assert_eq!(scrape("latin").await.unwrap(), [4.0, 1.0], "a line that is not UTF-8 costs itself");
    let failures = [
        ("cut", "line 2: expected # EOF at the end"),
        ("large", "body of more than the limit of 100 bytes"),
        ("broken", "status 500, expected 200"),
        ("missing", "status 404, expected 200"),
    ];
    for (path, reason) in failures {
        let error = scrape(path).await.unwrap_err().to_string();
        assert_eq!(error, format!("http://{address}/{path}: {reason}"));
    }
    let hasty = Target { timeout: Duration::from_millis(50), ..target(address, "never") };
    assert!(matches!(scraper.scrape_once(&hasty).await, Err(ScrapeError::Timeout { .. })));
    let limits = JobLimits { body_size_limit: Some(6), ..JobLimits::default() };
    let small = Target { limits, ..target(address, "text") };
    let error = scraper.scrape_once(&small).await.unwrap_err().to_string();
    assert_eq!(error, format!("http://{address}/text: body of more than the limit of 6 bytes"));
    // Bound and dropped: nothing listens there now.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = scraper.scrape_once(&target(closed, "x")).await.unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");
}

#[tokio::test]
async fn the_scraper_follows_a_target_that_comes_and_goes() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(Options::new(dir.path(), |_| true)).await.unwrap());
    let healthy = Arc::new(AtomicBool::new(true));
    let answer = {
        let healthy = Arc::clone(&healthy);
        async move || match healthy.load(Ordering::SeqCst) {
            true => (StatusCode::OK, "kept 1\n"),
            false => (StatusCode::SERVICE_UNAVAILABLE, ""),
        }
    };
    let address = serve(Router::new().route("/metrics", get(answer))).await;
    let scraper = Scraper::new(Limits::default(), Arc::default());
    let interval = Duration::from_millis(5);
    let job = Job { targets: vec![address.to_string()], interval, timeout: interval * 100, ..Job::new("gpu") };
    let scrapes = scraper.run(vec![job], &store);
    let last = async |metric: &str| {
        let series = kept(&store, metric).await;
        series.first().and_then(|series| series.samples.last()).map(|sample| sample.value)
    };
    let until = async |metric: &str, wanted: fn(f64) -> bool| {
        while !last(metric).await.is_some_and(wanted) {
            tokio::task::yield_now().await;
        }
    };
    until("kept", |value| value == 1.0).await;
    until("up", |value| value == 1.0).await;
    healthy.store(false, Ordering::SeqCst);
    until("kept", is_stale).await;
    until("up", |value| value == 0.0).await;
    healthy.store(true, Ordering::SeqCst);
    until("kept", |value| value == 1.0).await;
    drop(scrapes);
}

#[tokio::test]
async fn a_job_of_too_many_targets_scrapes_none_until_they_are_fewer() {
    let dir = tempfile::tempdir().unwrap();
    let (list, scraped) = (dir.path().join("targets.json"), Arc::new(AtomicBool::new(false)));
    let answer = {
        let scraped = Arc::clone(&scraped);
        async move || {
            scraped.store(true, Ordering::SeqCst);
            "kept 1\n"
        }
    };
    let app = Router::new().route("/metrics", get(answer));
    let targets = [serve(app.clone()).await.to_string(), serve(app).await.to_string()];
    let write = |targets: &[String]| {
        std::fs::write(&list, serde_json::json!([{ "targets": targets }]).to_string()).unwrap();
    };
    write(&targets);
    let store = Arc::new(Store::open(Options::new(dir.path().join("data"), |_| true)).await.unwrap());
    let interval = Duration::from_millis(5);
    let job = Job {
        limits: JobLimits { target_limit: Some(1), ..JobLimits::default() },
        discoveries: vec![Discovery::Files { patterns: vec![list.clone()], refresh: interval }],
        interval,
        timeout: interval * 1000,
        ..Job::new("gpu")
    };
    let tally = Arc::<Tally>::default();
    let scrapes = Scraper::new(Limits::default(), Arc::clone(&tally)).run(vec![job], &store);
    let ups = async || {
        let last = |series: Series| series.samples.last().map(|sample| sample.value);
        kept(&store, "up").await.into_iter().filter_map(last).collect::<Vec<_>>()
    };
    while ups().await != [0.0, 0.0] {
        tokio::task::yield_now().await;
    }
    assert!(!scraped.load(Ordering::SeqCst), "a target was asked");
    assert!(!tally.counts().scrapes.contains_key(&("gpu".to_owned(), "taken")));
    write(&targets[..1]);
    while !ups().await.contains(&1.0) {
        tokio::task::yield_now().await;
    }
    drop(scrapes);
}

/// Panics when it gets the first batch.
#[derive(Clone, Default)]
struct Panicking(Slow);

impl Ingest for Panicking {
    async fn append(&self, batch: Batch) -> Result<Appended, StoreError> {
        self.0.proceed.open();
        let appended = self.0.append(batch).await;
        assert!(self.0.senders.lock().len() > 1, "the first batch");
        appended
    }
}

#[tokio::test]
async fn a_target_whose_task_panics_is_scraped_again() {
    let address = serve(Router::new().route("/metrics", get("kept 1\n"))).await;
    let (store, tally) = (Panicking::default(), Arc::<Tally>::default());
    let interval = Duration::from_millis(5);
    let job = Job { targets: vec![address.to_string()], interval, timeout: interval * 1000, ..Job::new("gpu") };
    let scrapes = Scraper::new(Limits::default(), Arc::clone(&tally)).run(vec![job], &Arc::new(store.clone()));
    for _ in 0..3 {
        store.0.entered.pass().await;
    }
    let counts = tally.counts();
    assert_eq!((counts.scrapes[&("gpu".to_owned(), "panicked")], counts.targets["gpu"]), (1, 1));
    drop(scrapes);
}

#[tokio::test]
async fn a_large_answer_is_read_like_a_small_one() {
    let body: String = (0..60_000).map(|n| format!("kept{{gpu=\"{n}\"}} {n}\n")).collect();
    assert!(body.len() > 1 << 20);
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(Options::new(dir.path(), |_| true)).await.unwrap());
    let bad = body + "bad\n";
    let address = serve(Router::new().route("/metrics", get(async move || bad.clone()))).await;
    let tally = Arc::<Tally>::default();
    let interval = Duration::from_millis(5);
    let job = Job { targets: vec![address.to_string()], interval, timeout: interval * 10_000, ..Job::new("gpu") };
    let scrapes = Scraper::new(Limits::default(), Arc::clone(&tally)).run(vec![job], &store);
    while kept(&store, "up").await.is_empty() {
        tokio::time::sleep(interval).await;
    }
    drop(scrapes);
    assert_eq!(kept(&store, "kept").await.len(), 60_000);
    assert!(tally.counts().skipped["syntax"] >= 1);
}

#[tokio::test]
async fn series_of_a_node_go_on_when_its_pod_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("targets.json");
    let healthy = Arc::new(AtomicBool::new(false));
    let pod = async |value: u8| {
        let healthy = Arc::clone(&healthy);
        let page = format!("kept {value}\ngoodput_node_info{{kernel=\"6.8\",nodename=\"n1\"}} 1\n");
        let answer = async move || match healthy.load(Ordering::SeqCst) {
            true => (StatusCode::OK, page),
            false => (StatusCode::SERVICE_UNAVAILABLE, String::new()),
        };
        serve(Router::new().route("/metrics", get(answer))).await.to_string()
    };
    let (old, new) = (pod(1).await, pod(2).await);
    let write = |target: &str| {
        std::fs::write(&list, serde_json::json!([{ "targets": [target] }]).to_string()).unwrap();
    };
    write(&old);
    let store = Arc::new(Store::open(Options::new(dir.path().join("data"), |_| true)).await.unwrap());
    let interval = Duration::from_millis(5);
    let job = Job {
        discoveries: vec![Discovery::Files { patterns: vec![list.clone()], refresh: interval }],
        instance_from: InstanceFrom::Nodename,
        interval,
        timeout: interval * 1000,
        ..Job::new("gpu")
    };
    let scrapes = Scraper::new(Limits::default(), Arc::default()).run(vec![job], &store);
    let last = async |metric: &str, instance: &str| {
        let series = kept(&store, metric).await;
        let series = series.into_iter().find(|series| series.labels.get("instance") == Some(instance))?;
        series.samples.last().map(|sample| sample.value)
    };
    let until = async |metric: &str, instance: &str, wanted: fn(f64) -> bool| {
        while !last(metric, instance).await.is_some_and(wanted) {
            tokio::task::yield_now().await;
        }
    };
    // Until it has answered, its address is all that is known of it.
    until("up", &old, |value| value == 0.0).await;
    healthy.store(true, Ordering::SeqCst);
    until("kept", "n1", |value| value == 1.0).await;
    until("up", "n1", |value| value == 1.0).await;
    assert!(last("up", &old).await.is_some_and(is_stale));
    write(&new);
    until("kept", "n1", |value| value == 2.0).await;
    healthy.store(false, Ordering::SeqCst);
    until("up", "n1", |value| value == 0.0).await;
    assert_eq!(kept(&store, "kept").await.len(), 1);
    drop(scrapes);
}
