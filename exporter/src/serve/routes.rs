//! What is answered to which path.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use goodput_web::Needs;
use tokio::sync::Semaphore;
use tokio::time::timeout_at;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use super::health::Signs;
use super::release::{self, Lever};
use crate::scrape::{Gpus, Scraper, VERSION};
use goodput_exposition::Format;

/// Where Prometheus says how long it waits for a scrape.
const TIMEOUT_HEADER: &str = "x-prometheus-scrape-timeout-seconds";

/// The scrape timeout of a client that names none: Prometheus' default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest scrape timeout that is believed.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// How much of the scrape timeout is left for encoding and the network.
const OFFSET: Duration = Duration::from_millis(500);

/// What the handlers know.
pub(super) struct App {
    pub(super) scraper: Scraper,
    pub(super) gpus: Gpus,
    pub(super) started: Instant,
    /// Set once the first scrape has been made.
    pub(super) ready: AtomicBool,
    /// A GPU must be read once before the exporter is ready. Set to false by then.
    pub(super) needs_gpu: AtomicBool,
    /// One permit per request for metrics that may run at the same time.
    pub(super) requests: Semaphore,
    pub(super) telemetry_path: String,
}

impl App {
    /// What health is judged by at this moment.
    pub(super) fn signs(&self) -> Signs {
        let collecting_for = self.scraper.collecting_for();
        Signs { now: Instant::now(), started: self.started, gpus: (self.gpus)(), collecting_for }
    }
}

/// What each path needs where the web configuration has users: one of them, as with other exporters. `Host` is checked
/// where something changes.
pub(super) fn needs(method: &Method, _path: &str) -> Needs {
    if method.is_safe() { Needs::METRICS } else { Needs::ADMIN }
}

/// All paths, behind compression.
pub(super) fn router(app: Arc<App>, lever: Option<Lever>) -> Router {
    Router::new()
        .route(&app.telemetry_path, get(metrics))
        .route("/", get(landing))
        .route("/health", get(health))
        .route("/-/healthy", get(async || "ok\n"))
        .route("/-/ready", get(ready))
        .fallback(async || (StatusCode::NOT_FOUND, "not found\n"))
        .with_state(app)
        .merge(lever.map(release::routes).unwrap_or_default())
        // Speed counts more than the last percent: the network is near.
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
}

async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let Ok(_permit) = app.requests.try_acquire() else { return unavailable("too many requests at the same time\n") };
    let timeout = scrape_timeout(headers.get(TIMEOUT_HEADER).and_then(|value| value.to_str().ok()));
    let deadline = Instant::now() + timeout.saturating_sub(OFFSET).max(timeout / 2);
    let format = Format::negotiate(&accept(&headers));
    // A request may share a collection that another, more patient one began.
    let patience = deadline + OFFSET / 2;
    match timeout_at(patience.into(), app.scraper.request(deadline)).await {
        Ok(Ok(scrape)) => {
            let headers = [(CONTENT_TYPE, format.content_type()), (VARY, "Accept")];
            (headers, scrape.text(format)).into_response()
        }
        Ok(Err(_)) => (StatusCode::INTERNAL_SERVER_ERROR, "the scraper has stopped\n").into_response(),
        Err(_) => unavailable("the collection under way does not end within this scrape's timeout\n"),
    }
}

fn scrape_timeout(header: Option<&str>) -> Duration {
    let seconds = header.and_then(|text| text.parse::<f64>().ok()).filter(|seconds| *seconds > 0.0);
    let named = seconds.map(|s| Duration::from_secs_f64(s.min(MAX_TIMEOUT.as_secs_f64())));
    named.unwrap_or(DEFAULT_TIMEOUT)
}

fn accept(headers: &HeaderMap) -> String {
    let lines: Vec<_> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    lines.join(",")
}

async fn ready(State(app): State<Arc<App>>) -> Response {
    if !app.ready.load(Ordering::Acquire) {
        return unavailable("the first scrape has not been made yet\n");
    }
    if app.needs_gpu.load(Ordering::Relaxed) {
        if let Err(reason) = app.signs().has_gpu() {
            return unavailable(format!("{reason}\n"));
        }
        // A GPU that is lost later is told by metrics, and a restart would not bring it back.
        app.needs_gpu.store(false, Ordering::Relaxed);
    }
    "ready\n".into_response()
}

async fn health(State(app): State<Arc<App>>) -> Response {
    match app.signs().fresh() {
        Ok(()) => "ok\n".into_response(),
        Err(reason) => unavailable(format!("{reason}\n")),
    }
}

async fn landing(State(app): State<Arc<App>>) -> Response {
    // Both are free of HTML: one is ours, the other was checked with the configuration.
    let page = include_str!("landing.html").replace("{version}", VERSION).replace("{metrics}", &app.telemetry_path);
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ];
    (headers, page).into_response()
}

fn unavailable(reason: impl Into<String>) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, reason.into()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scrape_timeout_is_believed_within_reason() {
        for (header, seconds) in [
            (None, 10.0),
            (Some("15"), 15.0),
            (Some("0.2"), 0.2),
            (Some("1e300"), 60.0),
            (Some("inf"), 60.0),
            (Some("NaN"), 10.0),
            (Some("-1"), 10.0),
            (Some("soon"), 10.0),
        ] {
            assert_eq!(scrape_timeout(header), Duration::from_secs_f64(seconds), "{header:?}");
        }
    }
}
