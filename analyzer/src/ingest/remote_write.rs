//! Prometheus remote write 1.0 and 2.0, the receiving side, at one address: the content type says which it is.
//!
//! A refusal that a retry cannot mend is a 4xx, for then the sender drops the request; all else is a 503. Samples that
//! are well-formed but not wanted (of an unknown metric, or the same once more) are counted and acknowledged. Samples that
//! are refused one by one (too old, too new, contradicting what is stored, of a series too many) make a 2.0 request a 400
//! that says how many; a 1.0 request, whose senders cannot tell the two, is acknowledged.

mod decode;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tracing::{debug, warn};

pub use decode::{Decoded, PassedOver, decode};

use super::replicas::Replicas;
use super::work::{Refused, Work, sender};
use crate::store::{Appended, Samples};

/// Which message a request holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Of remote write 1.0.
    V1,
    /// Of remote write 2.0.
    V2,
}

impl Message {
    /// Its full name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "prometheus.WriteRequest",
            Self::V2 => "io.prometheus.write.v2.Request",
        }
    }

    /// The version of the protocol.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V2 => "2.0",
        }
    }

    /// What a content type announces.
    fn of(content_type: &str) -> Option<Self> {
        let plain = content_type.replace([' ', '"'], "").to_ascii_lowercase();
        match plain.strip_prefix("application/x-protobuf")? {
            "" | ";proto=prometheus.writerequest" => Some(Self::V1),
            ";proto=io.prometheus.write.v2.request" => Some(Self::V2),
            _ => None,
        }
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The body, before or after decompression, or its labels once every reference to a symbol is followed.
    #[error("{what} body of {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// `compressed`, `decompressed` or `expanded`.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The compression.
    #[error("body is not snappy (block format): {0}")]
    Snappy(String),
    /// The message.
    #[error("body is not a {0}: {1}")]
    Protobuf(&'static str, String),
    /// A series that breaks the data model or a limit.
    #[error("series {series} of the request{}: {reason}", if metric.is_empty() { String::new() } else { format!(" ({metric})") })]
    Series {
        /// Which one, counted from 1.
        series: usize,
        /// Its metric name, as far as it is known.
        metric: String,
        /// What is wrong.
        reason: String,
    },
    /// More samples than one request may hold.
    #[error("more than {0} samples in one request")]
    Samples(usize),
}

impl DecodeError {
    /// 413 for what is too large as a whole, else 400.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

struct Receiver<S> {
    store: S,
    work: Arc<Work>,
    replicas: Arc<Replicas>,
}

/// Serves `POST /api/v1/write`.
pub fn router<S: Samples + 'static>(store: S, work: Arc<Work>, replicas: Replicas) -> Router {
    let limit = work.limits.body_bytes;
    let receiver = Receiver { store, work, replicas: Arc::new(replicas) };
    Router::new()
        .route("/api/v1/write", post(receive::<S>))
        .layer(DefaultBodyLimit::max(limit))
        .with_state(Arc::new(receiver))
}

async fn receive<S: Samples + 'static>(State(receiver): State<Arc<Receiver<S>>>, request: Request) -> Response {
    let message = match negotiated(request.headers()) {
        Ok(message) => message,
        Err(refusal) => {
            receiver.work.tally.request("none", refusal.outcome);
            return refusal.into_response();
        }
    };
    let (outcome, written, response) = match receiver.receive(message, request).await {
        Ok(written) => ("taken", written, StatusCode::NO_CONTENT.into_response()),
        Err((written, refusal)) => (refusal.outcome, written, refusal.into_response()),
    };
    receiver.work.tally.request(message.version(), outcome);
    match message {
        Message::V1 => response,
        Message::V2 => (written_headers(written), response).into_response(),
    }
}

/// What was written: histograms and exemplars never are.
fn written_headers(samples: u64) -> [(HeaderName, HeaderValue); 3] {
    [
        (HeaderName::from_static("x-prometheus-remote-write-samples-written"), samples.into()),
        (HeaderName::from_static("x-prometheus-remote-write-histograms-written"), 0_u64.into()),
        (HeaderName::from_static("x-prometheus-remote-write-exemplars-written"), 0_u64.into()),
    ]
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self { status, reason, outcome } = self;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            warn!(%reason, "remote write put off");
            let after = if ["no_space", "clock_in_doubt"].contains(&outcome) { "10" } else { "1" };
            return (status, [(header::RETRY_AFTER, after)], reason + "\n").into_response();
        }
        debug!(%status, %reason, "remote write refused");
        (status, reason + "\n").into_response()
    }
}

impl<S: Samples> Receiver<S> {
    /// Says how many samples were written; with a refusal too, for a part may have been.
    async fn receive(&self, message: Message, request: Request) -> Result<u64, (u64, Refused)> {
        let appended = self.append(message, request).await.map_err(|refusal| (0, refusal))?;
        let Appended { stored, duplicate, conflicting, out_of_bounds, unknown, over_limit } = appended;
        let written = stored + duplicate + unknown;
        // A sender of 1.0 repeats samples of an interval more readily, and does not fail for it.
        let refused = out_of_bounds + over_limit + if message == Message::V2 { conflicting } else { 0 };
        if refused == 0 {
            return Ok(written);
        }
        let reason = format!(
            "{written} samples written; not written: {out_of_bounds} too old or too new, {conflicting} of another value \
             than the one stored for their time, {over_limit} of new series beyond a limit of the store"
        );
        Err((written, Refused::new(StatusCode::BAD_REQUEST, "partly", reason)))
    }

    async fn append(&self, message: Message, request: Request) -> Result<Appended, Refused> {
        let from = sender(&request);
        let _place = self.work.place(from)?;
        let limits = self.work.limits;
        let announced = content_length(request.headers()).unwrap_or(limits.body_bytes);
        let _memory = self.work.memory(announced.min(limits.body_bytes))?;
        let body = self.work.body(request, "compressed body", limits.body_bytes).await?;
        let undecodable = |error: DecodeError| Refused::new(error.status(), "malformed", error);
        // The message and what is made of it.
        let decompressed = decode::decompressed_len(&body, &limits).map_err(undecodable)?;
        let _memory = self.work.memory(2 * decompressed)?;
        let replicas = Arc::clone(&self.replicas);
        // Decompressing megabytes would hold up other requests of this thread.
        let decoded = tokio::task::spawn_blocking(move || {
            let Decoded { batch, passed_over } = decode(&body, message, &limits)?;
            Ok((replicas.settle(batch), passed_over))
        });
        let ((batch, replicated), passed_over) = decoded
            .await
            .map_err(|error| Refused::new(StatusCode::BAD_REQUEST, "malformed", format!("decoding failed: {error}")))?
            .map_err(undecodable)?;
        let stored = self.store.append(batch.sent_by(&from.to_string())).await;
        let mut appended = stored.map_err(|error| Refused::later(error.outcome(), error))?;
        self.work.tally.passed_over(passed_over, replicated);
        // Another replica's sample stands for it.
        appended.duplicate += replicated;
        Ok(appended)
    }
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A sender of 2.0 that gets a 415 may fall back to 1.0.
fn negotiated(headers: &HeaderMap) -> Result<Message, Refused> {
    let get = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let unsupported = |reason| Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported", reason);
    let content_type = get(header::CONTENT_TYPE);
    let message = Message::of(content_type).ok_or_else(|| {
        unsupported(format!(
            "content type {content_type:?}, expected application/x-protobuf (remote write 1.0) or \
             application/x-protobuf;proto=io.prometheus.write.v2.Request (2.0)"
        ))
    })?;
    let encoding = get(header::CONTENT_ENCODING);
    if encoding == "snappy" {
        Ok(message)
    } else {
        Err(unsupported(format!("content encoding {encoding:?}, expected snappy")))
    }
}
