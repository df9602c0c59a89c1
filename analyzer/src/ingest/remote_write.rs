//! Prometheus remote write 1.0 and 2.0, the receiving side, at one address: the content type says which it is.
//!
//! A refusal that a retry cannot change is a 4xx, after which the sender drops the request; everything else is a 503.
//! Samples of metrics that no signal uses, duplicates and the samples of replicas are counted and acknowledged. What fits
//! is stored. Where samples are refused one by one, the answer is a 400 that says how many and why; the sender does not
//! send the request again, and counts failed samples.

mod decode;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tracing::{debug, warn};

pub use decode::{Decoded, PassedOver, decode};
use tokio::sync::OwnedSemaphorePermit;

use super::replicas::Replicas;
use super::skipped::{Rules, Skipped};
use super::work::{Place, Refused, Work, sender};
use goodput_store::{Appended, Ingest};

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

    /// What a content type announces. As in Prometheus' receiver, none is 1.0, and only the parameter `proto` matters.
    fn of(content_type: &str) -> Option<Self> {
        let mut parts = content_type.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        if !media.is_empty() && !media.eq_ignore_ascii_case("application/x-protobuf") {
            return None;
        }
        let parameters = parts.filter_map(|part| part.split_once('='));
        let proto = parameters.map(|(name, value)| (name.trim(), value.trim().trim_matches('"')));
        let Some((_, message)) = proto.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("proto")) else {
            return Some(Self::V1);
        };
        [Self::V1, Self::V2].into_iter().find(|known| known.name().eq_ignore_ascii_case(message))
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
    /// The message of the other version.
    #[error("body is not a {0}: its fields are those of a {1}, which has a content type of its own")]
    Other(&'static str, &'static str),
    /// More samples than one request may hold.
    #[error("more than {0} samples in one request")]
    Samples(usize),
}

impl DecodeError {
    /// 413 for what is too large as a whole, 415 for the message of the other version, 400 for everything else.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Other(..) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    fn refused(&self) -> Refused {
        let outcome = if matches!(self, Self::Other(..)) { "unsupported" } else { "malformed" };
        Refused::new(self.status(), outcome, self)
    }
}

struct Receiver<S> {
    store: S,
    work: Arc<Work>,
    replicas: Replicas,
}

/// Serves `POST /api/v1/write`.
pub fn router<S: Ingest + 'static>(store: S, work: Arc<Work>, replicas: Replicas) -> Router {
    let receiver = Receiver { store, work, replicas };
    Router::new().route("/api/v1/write", post(receive::<S>)).with_state(Arc::new(receiver))
}

async fn receive<S: Ingest + 'static>(State(receiver): State<Arc<Receiver<S>>>, request: Request) -> Response {
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

/// A request that is decoded, and what it holds of the bounds of work until it is answered.
struct InWork {
    decoded: Decoded,
    replicated: u64,
    _held: (Place, Option<OwnedSemaphorePermit>, OwnedSemaphorePermit),
}

impl<S: Ingest + 'static> Receiver<S> {
    /// Says how many samples were written; with a refusal too, for a part may have been.
    async fn receive(self: &Arc<Self>, message: Message, request: Request) -> Result<u64, (u64, Refused)> {
        let (appended, skipped) = self.append(message, request).await.map_err(|refusal| (0, refusal))?;
        let written = appended.stored + appended.duplicate + appended.unknown;
        match not_written(message, &appended, &skipped) {
            None => Ok(written),
            Some(reasons) => {
                let reason = format!("{written} samples written; not written: {reasons}");
                Err((written, Refused::new(StatusCode::BAD_REQUEST, "partly", reason)))
            }
        }
    }

    async fn append(self: &Arc<Self>, message: Message, request: Request) -> Result<(Appended, Skipped), Refused> {
        let from = sender(&request);
        let limits = self.work.limits;
        let (body, sent) = self.work.body(request, "compressed body", limits.body_bytes).await?;
        let place = self.work.place(from)?;
        // The message and what is made of it.
        let decompressed = decode::decompressed_len(&body, &limits).map_err(|error| error.refused())?;
        let read = self.work.memory(2 * decompressed)?;
        let receiver = Arc::clone(self);
        // Decompressing megabytes would hold up other requests of this thread. The thread goes on when the sender leaves,
        // so what the request takes of the bounds goes with it.
        let decoded = tokio::task::spawn_blocking(move || {
            let held = (place, sent, read);
            receiver.decode(&body, message).map(|(decoded, replicated)| InWork { decoded, replicated, _held: held })
        });
        let InWork { decoded: Decoded { batch, skipped, passed_over }, replicated, _held } = decoded
            .await
            .map_err(|error| Refused::new(StatusCode::BAD_REQUEST, "malformed", format!("decoding failed: {error}")))?
            .map_err(|error| error.refused())?;
        let from = from.to_string();
        self.work.tally.skipped(&skipped, &from);
        let stored = self.store.append(batch.sent_by(&from)).await;
        let mut appended = stored.map_err(|error| Refused::later(error.outcome(), error))?;
        self.work.tally.passed_over(passed_over, replicated);
        // Another replica's sample stands for it.
        appended.duplicate += replicated;
        Ok((appended, skipped))
    }

    /// The request without the samples that another replica stands for, and the number of these. Blocks.
    fn decode(&self, body: &[u8], message: Message) -> Result<(Decoded, u64), DecodeError> {
        let rules = Rules { limits: &self.work.limits, keeps: &|metric| self.store.keeps(metric) };
        let mut decoded = decode(body, message, &rules)?;
        let (batch, replicated) = self.replicas.settle(decoded.batch, &self.store.takes());
        decoded.batch = batch;
        Ok((decoded, replicated))
    }
}

/// What was refused, by reason and count; none when nothing was.
fn not_written(message: Message, appended: &Appended, skipped: &Skipped) -> Option<String> {
    let Appended { conflicting, out_of_bounds, over_limit, .. } = *appended;
    // A sender of 1.0 may repeat an interval, which is no failure of its own.
    let conflicting = if message == Message::V2 { conflicting } else { 0 };
    let counts = [
        (out_of_bounds, "too old or too new".to_owned()),
        (conflicting, "of another value than the one stored for their time".to_owned()),
        (over_limit, "of new series beyond the limit".to_owned()),
        (skipped.samples(), format!("of series that break a limit or the data model ({})", skipped.reasons())),
    ];
    let reasons: Vec<_> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let first = skipped.first().map(|first| format!("; the first: {first}"));
    (!reasons.is_empty()).then(|| reasons.join(", ") + &first.unwrap_or_default())
}

/// A sender of 2.0 that gets a 415 may fall back to 1.0. Missing headers are taken as Prometheus' own receiver takes them.
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
    if encoding.is_empty() || encoding.eq_ignore_ascii_case("snappy") {
        Ok(message)
    } else {
        Err(unsupported(format!("content encoding {encoding:?}, expected snappy")))
    }
}
