//! HTTP: remote write, report pages, health and own metrics; and the loops that run beside it.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::tz::TimeZone;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

mod intake;
mod judging;
mod metrics;
mod pages;

pub use intake::{Account, Intake};
pub use judging::Progress;

use crate::config::{Config, ScrapeJob};
use crate::ingest::Limits;
use crate::ingest::remote_write;
use crate::ingest::scrape::Scraper;
use crate::judge::Judge;
use crate::sample::TimeMs;
use crate::store::{Options, Results, Samples, Store, wall_clock};
use judging::Judging;

/// Requests in work get this long to end when the program is asked to stop.
const DRAIN: Duration = Duration::from_secs(10);

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
#[derive(Clone, Debug)]
pub struct App<S> {
    /// Verdicts.
    pub store: S,
    /// What came in.
    pub intake: Intake<S>,
    /// How far judging has come.
    pub progress: watch::Receiver<Progress>,
    /// Zone of weeks and shown times.
    pub zone: TimeZone,
    /// The clock.
    pub now: fn() -> TimeMs,
    /// True once the program is stopping.
    pub stopping: watch::Receiver<bool>,
}

/// Takes samples in, judges them and answers, until SIGTERM or SIGINT.
pub async fn run(config: Config, options: Options, listen: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let store = Store::open(options).await?;
    let intake = Intake::new(store.clone());
    let (stop, stopping) = watch::channel(false);
    let (progress_in, progress) = watch::channel(Progress::default());
    let (zone, now) = (config.zone.clone(), wall_clock as fn() -> TimeMs);

    let scraper = Scraper::new(Limits::default()).context("cannot set up HTTP")?;
    let targets = config.scrape.iter().flat_map(ScrapeJob::targets).collect();
    let mut scraping = scraper.run(targets, Arc::new(intake.clone()));
    let judging = Judging {
        store: store.clone(),
        intake: intake.clone(),
        judge: Judge::new(store.clone(), config.thresholds),
        zone: zone.clone(),
        now,
        progress: progress_in,
        stop: stopping.clone(),
    };
    let judging = tokio::spawn(judging.run());

    let app = App { store: store.clone(), intake: intake.clone(), progress, zone, now, stopping: stopping.clone() };
    let pages = router(app).merge(remote_write::router(intake, Limits::default()));
    tracing::info!(address = %listener.local_addr()?, targets = scraping.len(), "listening");
    serve_until(listener, pages, stop, stopping).await?;

    scraping.shutdown().await;
    judging.await.context("the judging loop died")?;
    store.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// Serves until a signal says stop, then ends what is in work.
async fn serve_until(
    listener: TcpListener,
    pages: Router,
    stop: watch::Sender<bool>,
    stopping: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    let asked = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        tracing::info!("stopping");
        stop.send_replace(true);
    };
    let drained = async {
        let mut stopping = stopping;
        // An error says that whoever would stop us is gone, which is as good.
        let _ = stopping.wait_for(|stop| *stop).await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        served = axum::serve(listener, pages).with_graceful_shutdown(asked).into_future() => served.context("cannot serve"),
        () = drained => Ok(()),
    }
}

/// All pages and endpoints but the ways in.
pub fn router<S: Samples + Results + Clone + 'static>(app: App<S>) -> Router {
    Router::new()
        .route("/", get(pages::landing::<S>))
        .route("/report", get(pages::report::<S>))
        .route("/metrics", get(metrics_page::<S>))
        .route("/-/healthy", get(|| async { "healthy\n" }))
        .route("/-/ready", get(ready::<S>))
        .layer(axum::middleware::map_response(secured))
        .with_state(app)
}

async fn metrics_page<S: Clone>(State(app): State<App<S>>) -> Response {
    let text = metrics::render(&app.progress.borrow(), &app.intake.account());
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// The store is open before anything listens, so only stopping makes it unready.
async fn ready<S>(State(app): State<App<S>>) -> (StatusCode, &'static str) {
    if *app.stopping.borrow() { (StatusCode::SERVICE_UNAVAILABLE, "stopping\n") } else { (StatusCode::OK, "ready\n") }
}

async fn secured(mut response: Response) -> Response {
    for (name, value) in SECURITY_HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
