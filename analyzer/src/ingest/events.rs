//! `POST /api/v1/events`: what jobs tell of themselves. A request is taken as a whole or not at all, and may be sent again.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::work::{Refused, Work, sender};
use crate::ingest::event_body::{Mistake, parse};
use goodput_exposition::sample::TimeMs;
use goodput_store::{Events, StoreError, Taken};
use goodput_verdict::event::Event;

/// Bytes of a body: a thousand events of a kilobyte, which is three times what they have.
const BODY_BYTES: usize = 1 << 20;

/// Bytes that a body takes when it is read, as a multiple of its own: nodes of JSON, then events.
const READ_RATIO: usize = 16;

/// How far ahead of the clock an event may be; samples may be as far.
const AHEAD_MS: TimeMs = 600_000;

struct Receiver<S> {
    store: S,
    work: Arc<Work>,
    now: fn() -> TimeMs,
}

/// What became of the events of a request.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Taken")]
pub(crate) struct Answer {
    /// Events that are new.
    stored: usize,
    /// Events that were stored already.
    duplicate: usize,
}

/// Serves `POST /api/v1/events`, within the same bounds as remote write.
pub fn router<S: Events + 'static>(store: S, work: Arc<Work>, now: fn() -> TimeMs) -> Router {
    Router::new().route("/api/v1/events", post(receive::<S>)).with_state(Arc::new(Receiver { store, work, now }))
}

async fn receive<S: Events>(State(receiver): State<Arc<Receiver<S>>>, request: Request) -> Response {
    let answer = receiver.receive(request).await;
    let tally = &receiver.work.tally;
    match answer {
        Ok(Taken { stored, duplicate, .. }) => {
            tally.events("taken", stored, duplicate);
            Json(Answer { stored, duplicate }).into_response()
        }
        Err(refusal) => {
            tally.events(refusal.outcome, 0, 0);
            refusal.into_response()
        }
    }
}

/// Why nothing of a request is taken.
struct Refusal {
    status: StatusCode,
    /// What it is counted as.
    outcome: &'static str,
    field: Option<String>,
    expected: String,
    found: Option<String>,
}

impl Refusal {
    fn of_body(status: StatusCode, outcome: &'static str, expected: impl ToString, found: Option<String>) -> Self {
        Self { status, outcome, field: None, expected: expected.to_string(), found }
    }

    /// The stored event stays.
    fn contradicted(id: &str, events: &[Event]) -> Self {
        let index = events.iter().position(|event| event.id == id).unwrap_or_default();
        let (expected, found) = ("an id of its own, or the same content as before".to_owned(), Some(id.to_owned()));
        Self {
            status: StatusCode::CONFLICT,
            outcome: "conflicting",
            field: Some(format!("[{index}].id")),
            expected,
            found,
        }
    }
}

impl From<Mistake> for Refusal {
    fn from(Mistake { field, expected, found }: Mistake) -> Self {
        let field = (!field.is_empty()).then_some(field);
        Self { status: StatusCode::BAD_REQUEST, outcome: "malformed", field, expected, found }
    }
}

impl From<Refused> for Refusal {
    fn from(Refused { status, outcome, reason }: Refused) -> Self {
        Self::of_body(status, outcome, reason, None)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { status, field, expected, found, .. } = self;
        let body = Json(json!({"error": {"field": field, "expected": expected, "found": found}}));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            tracing::warn!(reason = %expected, "events put off");
            return (status, [(header::RETRY_AFTER, "1")], body).into_response();
        }
        (status, body).into_response()
    }
}

impl<S: Events> Receiver<S> {
    async fn receive(&self, request: Request) -> Result<Taken, Refusal> {
        is_json(request.headers())?;
        let from = sender(&request);
        let (body, _sent) = self.work.body(request, "body", BODY_BYTES).await?;
        let _place = self.work.place(from).map_err(Refused::from)?;
        let _read = self.work.memory(READ_RATIO * body.len()).map_err(Refused::from)?;
        let events = parse(&body, (self.now)() + AHEAD_MS)?;
        match self.store.add_events(&events).await {
            Ok(taken) => Ok(taken),
            Err(StoreError::Contradicted { id }) => Err(Refusal::contradicted(&id, &events)),
            Err(error) => Err(Refused::later(error.outcome(), error).into()),
        }
    }
}

/// A page of another origin cannot send this type unasked.
fn is_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let found = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = found.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let expected = "the content type application/json";
    Err(Refusal::of_body(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported", expected, Some(found.to_owned())))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tokio::net::TcpListener;

    use super::*;
    use crate::app::Intake;
    use crate::ingest::Limits;
    use crate::ingest::given_up::polled;
    use crate::ingest::tally::Tally;
    use goodput_store::{Options, ReadVerdicts as _, Store};

    struct Served {
        store: Store,
        address: std::net::SocketAddr,
        tally: Arc<Tally>,
        _dir: tempfile::TempDir,
    }

    impl Served {
        async fn with(limits: Limits) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(Options::new(dir.path(), |_| true)).await.unwrap();
            let tally = Arc::<Tally>::default();
            let work = Arc::new(Work::new(limits, Arc::clone(&tally)));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let pages = router(store.clone(), work, || 1_000_000_000_000);
            tokio::spawn(axum::serve(listener, pages).into_future());
            Self { store, address, tally, _dir: dir }
        }

        async fn post(&self, content_type: &str, body: impl Into<reqwest::Body>) -> (u16, Value) {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let request = client.post(format!("http://{}/api/v1/events", self.address));
            let response = request.header("content-type", content_type).body(body).send().await.unwrap();
            (response.status().as_u16(), serde_json::from_str(&response.text().await.unwrap()).unwrap())
        }
    }

    fn events() -> Value {
        let event = |id: &str, step: u64| {
            json!({
                "id": id, "time": "2001-09-09T01:00:00Z", "run": "llama", "attempt": 0, "kind": "checkpoint",
                "step": step, "labels": {"pod": "train-0", "namespace": "ml"},
            })
        };
        json!([event("a", 1), event("b", 2)])
    }

    #[tokio::test]
    async fn a_request_may_be_sent_again_and_a_known_id_stays_what_it_is() {
        let served = Served::with(Limits::default()).await;
        let body = events();
        let first = served.post("application/json; charset=utf-8", body.to_string()).await;
        assert_eq!(first, (200, json!({"stored": 2, "duplicate": 0})));
        assert_eq!(served.post("application/json", body.to_string()).await.1, json!({"stored": 0, "duplicate": 2}));
        let mut other = body.clone();
        other[1]["step"] = json!(3);
        let expected = "an id of its own, or the same content as before";
        let error = json!({"error": {"field": "[1].id", "expected": expected, "found": "b"}});
        assert_eq!(served.post("application/json", other.to_string()).await, (409, error));
        assert_eq!(served.store.history(0..i64::MAX).await.unwrap().events.len(), 2);
        let counts = served.tally.counts();
        assert_eq!(
            (counts.events, counts.event_requests["taken"], counts.event_requests["conflicting"]),
            ([2, 2], 2, 1)
        );
    }

    #[tokio::test]
    async fn bad_requests_say_what_is_wrong_with_them() {
        let served = Served::with(Limits::default()).await;
        let mut later = events();
        later[1]["time"] = json!("2001-09-09T01:56:40.001Z");
        for (content_type, body, status, field, expected) in [
            (
                "application/json",
                later.to_string(),
                400,
                Some("[1].time"),
                "a time that is not more than ten minutes ahead",
            ),
            ("application/json", "{}".into(), 400, None, "a JSON list of events"),
            ("text/plain", events().to_string(), 415, None, "the content type application/json"),
            ("application/json", " ".repeat(BODY_BYTES + 1), 413, None, "body of more than the limit of 1048576 bytes"),
        ] {
            let (got, answer) = served.post(content_type, body).await;
            let error = &answer["error"];
            assert_eq!((got, error["field"].as_str()), (status, field), "{answer}");
            assert!(error["expected"].as_str().unwrap().starts_with(expected), "{answer}");
        }
        assert_eq!(served.store.history(0..i64::MAX).await.unwrap().events, []);
    }

    #[tokio::test]
    async fn what_is_too_much_at_once_is_put_off() {
        let served = Served::with(Limits { requests: 0, ..Limits::default() }).await;
        let (status, answer) = served.post("application/json", events().to_string()).await;
        assert_eq!((status, &answer["error"]["expected"]), (503, &json!("0 requests are in work")));
    }

    #[tokio::test]
    async fn what_is_stored_is_noted_whenever_the_sender_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Options::new(dir.path(), |_| true)).await.unwrap();
        let intake = Intake::new(store.clone());
        let work = Arc::new(Work::new(Limits::default(), Arc::default()));
        let receiver = Arc::new(Receiver { store: intake.clone(), work, now: || 1_000_000_000_000 });
        let (mut polls, mut unanswered) = (0, 0);
        for n in 1..1000 {
            polls += 1;
            let event = json!([{
                "id": n.to_string(), "time": "2001-09-09T01:00:00Z", "run": format!("run {n}"), "attempt": 0,
                "kind": "start", "labels": {"pod": "train-0", "namespace": "ml"},
            }]);
            let request = Request::builder().header(header::CONTENT_TYPE, "application/json");
            let request = request.body(event.to_string().into()).unwrap();
            let answer = polled(receive(State(Arc::clone(&receiver)), request), polls).await;
            // Requests with events have turns: the ones before are over then.
            intake.add_events(&[]).await.unwrap();
            let stored = store.history(0..i64::MAX).await.unwrap().events.iter().any(|e| e.id == n.to_string());
            assert_eq!(intake.take_earliest().is_some(), stored, "after {polls} polls");
            if let Some(answer) = answer {
                assert!(answer.status() == StatusCode::OK && stored);
                if unanswered > 0 {
                    break;
                }
                // The commit was quicker than the next poll: the polls are gone through again.
                polls = 0;
                continue;
            }
            unanswered += usize::from(stored);
        }
        assert!(unanswered > 0, "no request was given up between its commit and its answer");
    }
}
