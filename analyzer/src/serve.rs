//! HTTP: remote write, report pages, health and own metrics; and the loops that run beside it.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::tz::TimeZone;
use tokio::sync::watch;

mod intake;
mod judging;
mod metrics;
mod pages;

pub use intake::{Account, Intake};
pub use judging::Progress;

use crate::sample::TimeMs;
use crate::store::{Results, Samples};

/// Nothing is loaded from anywhere, framed by anyone or guessed at. Style sits in the pages themselves.
const SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
];

/// What the handlers share.
#[derive(Debug)]
pub struct App<S> {
    /// Verdicts.
    pub store: Arc<S>,
    /// What came in.
    pub intake: Arc<Intake<S>>,
    /// How far judging has come.
    pub progress: watch::Receiver<Progress>,
    /// Zone of weeks and shown times.
    pub zone: TimeZone,
    /// The clock.
    pub now: fn() -> TimeMs,
    /// True once the program is stopping.
    pub stopping: watch::Receiver<bool>,
}

impl<S> Clone for App<S> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            intake: self.intake.clone(),
            progress: self.progress.clone(),
            zone: self.zone.clone(),
            now: self.now,
            stopping: self.stopping.clone(),
        }
    }
}

/// All pages and endpoints but the ways in.
pub fn router<S: Samples + Results + 'static>(app: App<S>) -> Router {
    Router::new()
        .route("/", get(pages::landing::<S>))
        .route("/report", get(pages::report::<S>))
        .route("/metrics", get(metrics_page::<S>))
        .route("/-/healthy", get(|| async { "healthy\n" }))
        .route("/-/ready", get(ready::<S>))
        .layer(axum::middleware::map_response(secured))
        .with_state(app)
}

async fn metrics_page<S>(State(app): State<App<S>>) -> Response {
    let text = metrics::render(&app.progress.borrow(), &app.intake.account());
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// The store is open before anything listens, so only stopping makes it unready.
async fn ready<S>(State(app): State<App<S>>) -> (StatusCode, &'static str) {
    if *app.stopping.borrow() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else {
        (StatusCode::OK, "ready\n")
    }
}

async fn secured(mut response: Response) -> Response {
    for (name, value) in SECURITY_HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
