//! Releasing the GPUs on request, so that an administrator can reset them, and reacquiring them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, RawQuery, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use goodput_web::WebConfig;
use tokio::signal::unix::Signal;
use tokio::task::spawn_blocking;

use crate::source::nvml::Nvml;

/// How long the GPUs stay released by default: a reset takes seconds, an update of the driver minutes.
const DEFAULT_SECONDS: u64 = 600;

/// Longest time that can be asked for: a release that was forgotten ends within a day.
const MAX_SECONDS: u64 = 86_400;

/// What the requests and signals move.
#[derive(Clone)]
pub(super) struct Lever {
    pub(super) nvml: Arc<Nvml>,
    pub(super) web: Arc<WebConfig>,
}

/// The two paths, for those alone who have authenticated themselves or ask from this machine.
pub(super) fn routes(lever: Lever) -> Router {
    Router::new()
        .route("/-/release", post(release))
        .route("/-/acquire", post(acquire))
        .layer(middleware::from_fn_with_state(lever.clone(), only_trusted))
        .with_state(lever)
}

/// A request that gets here has kept the web configuration's rules; without such rules any request does.
async fn only_trusted(State(lever): State<Lever>, request: Request, next: Next) -> Response {
    let local = request
        .extensions()
        .get::<ConnectInfo<SocketAddr>>()
        .is_some_and(|peer| peer.ip().to_canonical().is_loopback());
    if local || lever.web.rules().await.authenticate() {
        return next.run(request).await;
    }
    let reason = "only from this machine's loopback address, or with basic_auth_users or required client certificates \
                  in --web.config.file\n";
    (StatusCode::FORBIDDEN, reason).into_response()
}

async fn release(State(lever): State<Lever>, RawQuery(query): RawQuery) -> Response {
    match seconds(query.as_deref().unwrap_or_default()) {
        Ok(seconds) => {
            let (status, text) = lever.release(seconds).await;
            (status, format!("{text}\n")).into_response()
        }
        Err(reason) => (StatusCode::BAD_REQUEST, format!("{reason}\n")).into_response(),
    }
}

async fn acquire(State(lever): State<Lever>) -> &'static str {
    lever.nvml.acquire();
    tracing::info!("GPUs are taken up again on request");
    "taking the GPUs up again\n"
}

/// Reads `seconds=N`, the only thing that can be asked for.
fn seconds(query: &str) -> Result<u64, String> {
    if query.is_empty() {
        return Ok(DEFAULT_SECONDS);
    }
    let seconds = query.strip_prefix("seconds=").and_then(|text| text.parse().ok());
    seconds
        .filter(|seconds| (1..=MAX_SECONDS).contains(seconds))
        .ok_or_else(|| format!("expected seconds= and a whole number from 1 to {MAX_SECONDS}, found {query:?}"))
}

impl Lever {
    /// 200 when nothing is held any more, 202 while a call has not come back.
    async fn release(&self, seconds: u64) -> (StatusCode, String) {
        let nvml = self.nvml.clone();
        let released = spawn_blocking(move || nvml.release(Duration::from_secs(seconds))).await;
        let (status, text) = match released {
            Ok(true) => {
                (StatusCode::OK, format!("released the GPUs for {seconds} s: no device file of the driver is open"))
            }
            _ => (
                StatusCode::ACCEPTED,
                format!("releasing the GPUs for {seconds} s, but a call hangs in the driver and keeps its device open"),
            ),
        };
        tracing::info!("{text}");
        (status, text)
    }
}

/// Releases at each of the first signals and acquires at each of the second. Where that is not enabled, they are ignored:
/// by default they would end the program.
pub(super) async fn on_signals(lever: Option<Lever>, mut release: Signal, mut acquire: Signal) {
    loop {
        let wants_release = tokio::select! {
            Some(()) = release.recv() => true,
            Some(()) = acquire.recv() => false,
            else => return,
        };
        match &lever {
            None => tracing::warn!("SIGUSR1 and SIGUSR2 do nothing without --nvml.enable-release"),
            Some(lever) if wants_release => _ = lever.release(DEFAULT_SECONDS).await,
            Some(lever) => {
                lever.nvml.acquire();
                tracing::info!("GPUs are taken up again on request");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_whole_seconds_within_a_day() {
        assert_eq!((seconds(""), seconds("seconds=1"), seconds("seconds=86400")), (Ok(600), Ok(1), Ok(86_400)));
        for wrong in
            ["seconds=0", "seconds=86401", "seconds=-1", "seconds=1.5", "seconds=", "second=1", "seconds=1&x=2"]
        {
            let expected = format!("expected seconds= and a whole number from 1 to 86400, found {wrong:?}");
            assert_eq!(seconds(wrong), Err(expected));
        }
    }
}
