//! The body of `POST /api/v1/events`: a JSON list of events.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::{Map, Value};

use goodput_exposition::sample::TimeMs;
use goodput_verdict::event::{Event, Place, RunId, Status, What};

/// Events of one request: a step a second for a quarter of an hour.
pub const MAX_EVENTS: usize = 1000;

/// Bytes of an id, a run's name or a label: the longest name that Kubernetes has.
pub(crate) const MAX_BYTES: usize = 253;

/// Steps and seconds are no larger: what a double tells apart from the next one.
pub(crate) const MAX_NUMBER: u64 = 1 << 53;

/// What is wrong with a body, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: expected {expected}, found {}", if field.is_empty() { "body" } else { field.as_str() }, found.as_deref().unwrap_or("nothing"))]
pub struct Mistake {
    /// Index and name, as in `[3].time`; empty: the body as a whole.
    pub field: String,
    /// What was expected there.
    pub expected: String,
    /// What is there; `None` is nothing.
    pub found: Option<String>,
}

/// Reads the events of a body; none may be later than `latest`.
pub fn parse(body: &[u8], latest: TimeMs) -> Result<Vec<Event>, Mistake> {
    let whole = |expected: String, found: String| Mistake { field: String::new(), expected, found: Some(found) };
    let value: Value =
        serde_json::from_slice(body).map_err(|error| whole("a JSON list of events".into(), error.to_string()))?;
    let Value::Array(items) = value else {
        return Err(whole("a JSON list of events".into(), shown(&value)));
    };
    if items.len() > MAX_EVENTS {
        return Err(whole(format!("at most {MAX_EVENTS} events"), format!("{} events", items.len())));
    }
    items.iter().enumerate().map(|(index, item)| event(index, item, latest)).collect()
}

fn event(index: usize, item: &Value, latest: TimeMs) -> Result<Event, Mistake> {
    let fields = Fields::of(format!("[{index}]"), item)?;
    let kind = fields.required("kind", KINDS, |value| value.as_str().and_then(known_kind))?;
    let labels = fields.required("labels", "an object with node, pod or slurm_job", Value::as_object)?;
    let labels = Fields { at: format!("[{index}].labels"), object: labels };
    let event = Event {
        id: fields.text("id")?,
        time_ms: fields.required("time", "a time such as 2026-11-16T09:00:00Z", time)?,
        run: RunId { cluster: labels.optional_text("cluster")?.unwrap_or_default(), name: fields.text("run")? },
        attempt: fields.required("attempt", "a whole number from 0", small)?,
        rank: fields.optional("rank", "a whole number from 0", small)?,
        what: what(kind, &fields)?,
        place: place(&labels)?,
    };
    let own = ["id", "time", "run", "attempt", "rank", "kind", "labels"];
    fields.only(own.iter().chain(OWN.iter().filter(|(of, _)| *of == kind).flat_map(|(_, names)| *names)).copied())?;
    if event.time_ms > latest {
        let found = fields.object.get("time").map(shown);
        return Err(fields.wrong("time", "a time that is not more than ten minutes ahead of the clock", found));
    }
    Ok(event)
}

const KINDS: &str = "one of start, step, checkpoint, evaluation, restore, end";

/// Fields of each kind, in addition to those that all kinds have.
pub(crate) const OWN: [(&str, &[&str]); 6] = [
    ("start", &["submitted"]),
    ("step", &["step"]),
    ("checkpoint", &["step", "seconds"]),
    ("evaluation", &["seconds"]),
    ("restore", &["step"]),
    ("end", &["status"]),
];

const SECONDS: &str = "a number of seconds, 0 or more";

fn seconds(value: &Value) -> Option<f64> {
    value.as_f64().filter(|s| (0.0..=MAX_NUMBER as f64).contains(s))
}

fn known_kind(text: &str) -> Option<&'static str> {
    OWN.iter().map(|(kind, _)| *kind).find(|kind| *kind == text)
}

fn what(kind: &str, fields: &Fields<'_>) -> Result<What, Mistake> {
    let step = || fields.required("step", "a whole number from 0 to 2^53", large);
    Ok(match kind {
        "step" => What::Step { step: step()? },
        "checkpoint" => What::Checkpoint { step: step()?, seconds: fields.optional("seconds", SECONDS, seconds)? },
        "evaluation" => What::Evaluation { seconds: fields.required("seconds", SECONDS, seconds)? },
        "restore" => What::Restore { step: step()? },
        "end" => {
            let named = |value: &Value| Status::ALL.iter().copied().find(|status| value == status.name());
            let names: Vec<_> = Status::ALL.iter().map(|status| status.name()).collect();
            What::End { status: fields.required("status", &format!("one of {}", names.join(", ")), named)? }
        }
        _ => What::Start { submitted_ms: fields.optional("submitted", "a time such as 2026-11-16T09:00:00Z", time)? },
    })
}

fn place(labels: &Fields<'_>) -> Result<Place, Mistake> {
    let place = Place {
        node: labels.optional_text("node")?,
        namespace: labels.optional_text("namespace")?,
        pod: labels.optional_text("pod")?,
        slurm_job: labels.optional_text("slurm_job")?,
    };
    labels.only(["cluster", "node", "namespace", "pod", "slurm_job"].into_iter())?;
    if place.node.is_none() && place.holders().is_empty() {
        let found = Some(shown(&Value::Object(labels.object.clone())));
        let expected = "an object with node, pod or slurm_job".into();
        return Err(Mistake { field: labels.at.clone(), expected, found });
    }
    Ok(place)
}

/// The fields of an object and where it is.
struct Fields<'a> {
    at: String,
    object: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    fn of(at: String, item: &'a Value) -> Result<Self, Mistake> {
        match item.as_object() {
            Some(object) => Ok(Self { at, object }),
            None => Err(Mistake { field: at, expected: "an object".into(), found: Some(shown(item)) }),
        }
    }

    fn wrong(&self, name: &str, expected: &str, found: Option<String>) -> Mistake {
        Mistake { field: format!("{}.{name}", self.at), expected: expected.to_owned(), found }
    }

    fn required<T>(&self, name: &str, expected: &str, read: impl Fn(&'a Value) -> Option<T>) -> Result<T, Mistake> {
        let value = self.optional(name, expected, read)?;
        value.ok_or_else(|| self.wrong(name, expected, None))
    }

    /// A null counts as absent.
    fn optional<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Mistake> {
        let Some(value) = self.object.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(name, expected, Some(shown(value))))
    }

    fn text(&self, name: &str) -> Result<String, Mistake> {
        self.required(name, &text_expected(), text)
    }

    fn optional_text(&self, name: &str) -> Result<Option<String>, Mistake> {
        self.optional(name, &text_expected(), text)
    }

    /// A field that is not among these may be a misspelt one.
    fn only<'n>(&self, known: impl Iterator<Item = &'n str>) -> Result<(), Mistake> {
        let known: Vec<&str> = known.collect();
        match self.object.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, value)) => Err(self.wrong(
                &shortened(name),
                &format!("one of the fields {}", known.join(", ")),
                Some(shown(value)),
            )),
            None => Ok(()),
        }
    }
}

fn text_expected() -> String {
    format!("a text of 1 to {MAX_BYTES} bytes without control characters")
}

fn text(value: &Value) -> Option<String> {
    let fits = |text: &&str| (1..=MAX_BYTES).contains(&text.len()) && !text.chars().any(char::is_control);
    value.as_str().filter(fits).map(str::to_owned)
}

fn time(value: &Value) -> Option<TimeMs> {
    value.as_str()?.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

fn small(value: &Value) -> Option<u32> {
    value.as_u64()?.try_into().ok()
}

fn large(value: &Value) -> Option<u64> {
    value.as_u64().filter(|number| *number <= MAX_NUMBER)
}

fn shown(value: &Value) -> String {
    shortened(&value.to_string())
}

/// Enough to be recognised.
fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(80).collect();
    if short.len() < text.len() {
        let _ = write!(short, "…");
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LATEST: TimeMs = 1_800_000_000_000;

    fn read(value: &Value) -> Result<Vec<Event>, Mistake> {
        parse(value.to_string().as_bytes(), LATEST)
    }

    /// A checkpoint with every field.
    fn whole() -> Value {
        json!({
            "id": "a", "time": "2026-11-16T10:00:00.5+01:00", "run": "llama", "attempt": 1, "rank": 0,
            "kind": "checkpoint", "step": 1200, "seconds": 31.5,
            "labels": {"cluster": "c", "node": "n1", "namespace": "ml", "pod": "train-0", "slurm_job": "7"},
        })
    }

    /// The same with some fields exchanged; those that are null are gone.
    fn with(changes: &Value) -> Value {
        let mut event = whole();
        for (name, value) in changes.as_object().unwrap() {
            event[name] = value.clone();
        }
        event.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        event
    }

    #[test]
    fn an_event_has_these_fields() {
        let text = |value: &str| Some(value.to_owned());
        let expected = Event {
            id: "a".into(),
            time_ms: 1_794_819_600_500,
            run: RunId { cluster: "c".into(), name: "llama".into() },
            attempt: 1,
            rank: Some(0),
            what: What::Checkpoint { step: 1200, seconds: Some(31.5) },
            place: Place { node: text("n1"), namespace: text("ml"), pod: text("train-0"), slurm_job: text("7") },
        };
        assert_eq!(read(&json!([whole()])).unwrap(), [expected]);
        assert_eq!(read(&json!([])).unwrap(), []);
    }

    #[test]
    fn each_kind_has_its_own_fields() {
        let none = json!({"step": null, "seconds": null, "rank": null});
        for (changes, what) in [
            (json!({"kind": "start"}), What::Start { submitted_ms: None }),
            (json!({"kind": "start", "submitted": "1970-01-01T00:00:01Z"}), What::Start { submitted_ms: Some(1000) }),
            (json!({"kind": "step", "step": 0}), What::Step { step: 0 }),
            (json!({"kind": "checkpoint", "step": 7}), What::Checkpoint { step: 7, seconds: None }),
            (json!({"kind": "evaluation", "seconds": 38.7}), What::Evaluation { seconds: 38.7 }),
            (json!({"kind": "restore", "step": 1_u64 << 53}), What::Restore { step: 1 << 53 }),
            (json!({"kind": "end", "status": "failed"}), What::End { status: Status::Failed }),
            (json!({"kind": "end", "status": "completed"}), What::End { status: Status::Completed }),
        ] {
            let mut event = with(&none);
            event.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            let events = read(&json!([event])).unwrap();
            assert_eq!(
                (events[0].what, events[0].what.kind(), events[0].rank),
                (what, event["kind"].as_str().unwrap(), None)
            );
        }
    }

    #[test]
    fn what_is_wrong_is_named_by_index_and_field() {
        let text = "a text of 1 to 253 bytes without control characters";
        let whole_number = "a whole number from 0";
        let step = "a whole number from 0 to 2^53";
        let time = "a time such as 2026-11-16T09:00:00Z";
        let place = "an object with node, pod or slurm_job";
        for (changes, field, expected, found) in [
            (json!({"id": null}), "id", text, None),
            (json!({"id": ""}), "id", text, Some("\"\"")),
            (json!({"id": 7}), "id", text, Some("7")),
            (json!({"run": "a\nb"}), "run", text, Some("\"a\\nb\"")),
            (json!({"time": "yesterday"}), "time", time, Some("\"yesterday\"")),
            (json!({"time": 1_800_000_000}), "time", time, Some("1800000000")),
            (
                json!({"time": "2027-01-15T08:00:00.001Z"}),
                "time",
                "a time that is not more than ten minutes ahead of the clock",
                Some("\"2027-01-15T08:00:00.001Z\""),
            ),
            (json!({"attempt": null}), "attempt", whole_number, None),
            (json!({"attempt": -1}), "attempt", whole_number, Some("-1")),
            (json!({"rank": 1.5}), "rank", whole_number, Some("1.5")),
            (json!({"rank": 1_u64 << 32}), "rank", whole_number, Some("4294967296")),
            (json!({"kind": null}), "kind", KINDS, None),
            (json!({"kind": "crash"}), "kind", KINDS, Some("\"crash\"")),
            (json!({"step": null}), "step", step, None),
            (json!({"step": (1_u64 << 53) + 1}), "step", step, Some("9007199254740993")),
            (json!({"seconds": -0.5}), "seconds", SECONDS, Some("-0.5")),
            (json!({"kind": "evaluation", "step": null, "seconds": null}), "seconds", SECONDS, None),
            (
                json!({"kind": "end", "step": null, "seconds": null, "status": "ok"}),
                "status",
                "one of completed, cancelled, failed, preempted",
                Some("\"ok\""),
            ),
            (
                json!({"kind": "start", "seconds": null}),
                "step",
                "one of the fields id, time, run, attempt, rank, kind, labels, submitted",
                Some("1200"),
            ),
            (
                json!({"colour": "red"}),
                "colour",
                "one of the fields id, time, run, attempt, rank, kind, labels, step, seconds",
                Some("\"red\""),
            ),
            (json!({"labels": null}), "labels", place, None),
            (json!({"labels": []}), "labels", place, Some("[]")),
            (json!({"labels": {"namespace": "ml"}}), "labels", place, Some("{\"namespace\":\"ml\"}")),
            (json!({"labels": {"pod": 7}}), "labels.pod", text, Some("7")),
            (
                json!({"labels": {"pod": "a", "gpu": "0"}}),
                "labels.gpu",
                "one of the fields cluster, node, namespace, pod, slurm_job",
                Some("\"0\""),
            ),
        ] {
            let error = read(&json!([whole(), with(&changes)])).unwrap_err();
            let expected =
                Mistake { field: format!("[1].{field}"), expected: expected.into(), found: found.map(str::to_owned) };
            assert_eq!(error, expected, "{changes}");
        }
    }

    #[test]
    fn a_body_that_is_no_list_or_too_long_is_refused_as_a_whole() {
        for (body, expected, found) in [
            (json!({}), "a JSON list of events", "{}"),
            (json!([3]), "an object", "3"),
            (Value::Array(vec![Value::Null; MAX_EVENTS + 1]), "at most 1000 events", "1001 events"),
        ] {
            let error = read(&body).unwrap_err();
            assert_eq!((error.expected.as_str(), error.found.as_deref()), (expected, Some(found)));
        }
        let error = parse(b"[{\"id\": ", LATEST).unwrap_err();
        assert_eq!((error.field.as_str(), error.expected.as_str()), ("", "a JSON list of events"));
        assert!(error.to_string().starts_with("body: expected a JSON list of events, found EOF"), "{error}");
        assert_eq!(read(&json!(["x".repeat(500)])).unwrap_err().found.unwrap().chars().count(), 81);
    }

    proptest::proptest! {
        #[test]
        fn garbage_never_panics(body: Vec<u8>, text in "[\\[\\]{}\":,a-z0-9 .\\-]{0,60}") {
            let _ = parse(&body, LATEST);
            let _ = parse(text.as_bytes(), LATEST);
        }
    }
}
