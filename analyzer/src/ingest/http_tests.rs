//! Remote write and scrapes over real connections.

use std::io::Write;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use reqwest::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::scrape::{ScrapeError, Scraper, Target};
use super::{Limits, remote_write};
use crate::sample::{Batch, Series, TimeMs, is_stale};
use crate::store::{Appended, Options, Samples, Selection, Store, StoreError};

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, router).into_future());
    address
}

fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn compress(message: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(message).unwrap()
}

/// A request for the series `kept` with value 2 at time 7, as bytes on the wire.
fn good() -> Vec<u8> {
    let label = b"\x0a\x08__name__\x12\x04kept";
    let sample = [b"\x09".as_slice(), &2.0_f64.to_le_bytes(), b"\x10\x07"].concat();
    let field = |number: u8, content: &[u8]| [&[number << 3 | 2, content.len() as u8], content].concat();
    compress(&field(1, &[field(1, label), field(2, &sample)].concat()))
}

const PROTOBUF: &str = "application/x-protobuf";

async fn write(address: SocketAddr, content_type: &str, encoding: &str, body: Vec<u8>) -> Response {
    let request = client().post(format!("http://{address}/api/v1/write")).body(body);
    let request = request.header(header::CONTENT_TYPE, content_type).header(header::CONTENT_ENCODING, encoding);
    request.send().await.unwrap()
}

async fn kept(store: &Store, metric: &str) -> Vec<Series> {
    let range: Range<TimeMs> = TimeMs::MIN..TimeMs::MAX;
    store.select(&Selection { metrics: vec![metric.to_owned()], labels: Vec::new(), range }).await.unwrap()
}

#[tokio::test]
async fn remote_write_stores_what_is_good_and_says_what_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Options::new(dir.path(), |metric| metric == "kept")).await.unwrap();
    let limits = Limits { body_bytes: 100, ..Limits::default() };
    let address = serve(remote_write::router(store.clone(), limits)).await;

    let refused = [
        (PROTOBUF, "snappy", b"garbage".to_vec(), 400, "body is not snappy"),
        (PROTOBUF, "snappy", compress(b"garbage"), 400, "body is not a prometheus.WriteRequest"),
        (PROTOBUF, "snappy", vec![0; 101], 413, "compressed body of more than the limit of 100 bytes"),
        (PROTOBUF, "gzip", good(), 415, "content encoding \"gzip\", expected snappy"),
        ("text/plain", "snappy", good(), 415, "content type \"text/plain\", expected application/x-protobuf"),
        ("application/x-protobuf;proto=io.prometheus.write.v2.Request", "snappy", good(), 415, "content type"),
    ];
    for (content_type, encoding, body, status, reason) in refused {
        let response = write(address, content_type, encoding, body).await;
        assert_eq!(response.status().as_u16(), status, "{reason}");
        let text = response.text().await.unwrap();
        assert!(text.starts_with(reason), "{text:?}, expected {reason:?}");
    }
    assert_eq!(kept(&store, "kept").await, []);

    for content_type in [PROTOBUF, "application/x-protobuf; proto=prometheus.WriteRequest"] {
        assert_eq!(write(address, content_type, "snappy", good()).await.status(), 204);
    }
    let stored = kept(&store, "kept").await;
    assert_eq!((stored[0].samples[0].time_ms, stored[0].samples[0].value), (7, 2.0));
    assert_eq!(store.stats().appended, Appended { stored: 1, duplicate: 1, ..Appended::default() });

    store.close().await;
    let response = write(address, PROTOBUF, "snappy", good()).await;
    assert_eq!((response.status().as_u16(), &response.headers()[header::RETRY_AFTER]), (503, &"1".parse().unwrap()));
    assert_eq!(response.text().await.unwrap(), "the store is closed\n");
}

/// Takes a batch when it is told to.
#[derive(Clone, Default)]
struct Slow {
    entered: Arc<Notify>,
    proceed: Arc<Notify>,
}

impl Samples for Slow {
    async fn append(&self, _: Batch) -> Result<Appended, StoreError> {
        self.entered.notify_one();
        self.proceed.notified().await;
        Ok(Appended::default())
    }

    async fn select(&self, _: &Selection) -> Result<Vec<Series>, StoreError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn a_request_too_many_is_put_off() {
    let store = Slow::default();
    let address = serve(remote_write::router(store.clone(), Limits { requests: 1, ..Limits::default() })).await;
    let first = tokio::spawn(write(address, PROTOBUF, "snappy", good()));
    store.entered.notified().await;
    let second = write(address, PROTOBUF, "snappy", good()).await;
    assert_eq!((second.status().as_u16(), &second.headers()[header::RETRY_AFTER]), (503, &"1".parse().unwrap()));
    assert_eq!(second.text().await.unwrap(), "1 requests are in work\n");
    store.proceed.notify_one();
    assert_eq!(first.await.unwrap().status(), 204);
}

#[tokio::test]
async fn a_sender_that_stops_in_the_middle_is_cut_and_frees_its_place() {
    let store = Slow::default();
    let limits = Limits { requests: 1, read: Duration::from_millis(50), ..Limits::default() };
    let address = serve(remote_write::router(store.clone(), limits)).await;
    let mut slow = TcpStream::connect(address).await.unwrap();
    let head = "POST /api/v1/write HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n\
        Content-Encoding: snappy\r\nContent-Length: 50\r\nConnection: close\r\n\r\nabc";
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.ends_with("body not sent within 50ms\n"), "{answer}");
    store.proceed.notify_one();
    assert_eq!(write(address, PROTOBUF, "snappy", good()).await.status(), 204);
}

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
            .route("/latin", get(b"kept 1\nkept{a=\"\xe9\"} 1\n".as_slice()))
            .route("/broken", get(StatusCode::INTERNAL_SERVER_ERROR))
            .route("/never", get(std::future::pending::<()>)),
    )
    .await;
    let scraper = Scraper::new(Limits { decompressed_bytes: 100, ..Limits::default() }).unwrap();
    let scrape = async |path: &str| {
        let batch = scraper.scrape_once(&target(address, path)).await?;
        Ok::<_, ScrapeError>(batch.series.iter().map(|s| s.samples[0].value).collect::<Vec<_>>())
    };
    assert_eq!(scrape("gzip").await.unwrap(), [3.0, 1.0]);
    assert_eq!(scrape("text").await.unwrap(), [1.0, 1.0]);
    let failures = [
        ("cut", "line 2: expected # EOF at the end"),
        ("large", "body of more than the limit of 100 bytes"),
        ("latin", "line 2: expected UTF-8"),
        ("broken", "status 500, expected 200"),
        ("missing", "status 404, expected 200"),
    ];
    for (path, reason) in failures {
        let error = scrape(path).await.unwrap_err().to_string();
        assert_eq!(error, format!("http://{address}/{path}: {reason}"));
    }
    let hasty = Target { timeout: Duration::from_millis(50), ..target(address, "never") };
    assert!(matches!(scraper.scrape_once(&hasty).await, Err(ScrapeError::Timeout { .. })));
    // Bound and dropped: nobody listens there now.
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
    let scraper = Scraper::new(Limits::default()).unwrap();
    let scrapes = scraper.run(vec![target(address, "metrics")], Arc::clone(&store));
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
