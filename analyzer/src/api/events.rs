//! How `POST /api/v1/events` is described; `ingest::events` answers it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::problem::ErrorBody;
use super::responses::{self, json as answer};
use crate::ingest::event_body::{MAX_BYTES, MAX_EVENTS, MAX_NUMBER, OWN};
use crate::ingest::events::Answer;
use goodput_verdict::event::Status;

/// Statuses of its own, and when they are given.
const REFUSALS: [(&str, &str); 5] = [
    ("400", "An event is wrong; `field` names its index and field."),
    ("409", "An event of that id and another content is there already; `found` is the id."),
    ("413", "The body is too large."),
    ("415", "The content type is not application/json."),
    ("503", "Too much is in work, or the store could not write: send it again."),
];

/// What OpenAPI calls a path item.
pub(super) fn described(schemas: &mut SchemaGenerator) -> Value {
    let mut responses = responses::of_the_front_door();
    let error = schemas.subschema_for::<ErrorBody>();
    responses.extend(REFUSALS.map(|(status, about)| (status.to_owned(), answer(about, &error))));
    responses.insert("200".to_owned(), answer("All are on disk.", &schemas.subschema_for::<Answer>()));
    let events = json!({ "type": "array", "maxItems": MAX_EVENTS, "items": schemas.subschema_for::<Event>() });
    json!({ "post": {
        "summary": "What jobs report of themselves",
        "description": "A request is taken as a whole or not at all, and may be sent again: an event of an id that is known \
            is the same event. At most 1,000 events and 1 MiB.",
        "operationId": "events",
        "requestBody": {
            "required": true,
            "content": { "application/json": { "schema": events, "example": example() } },
        },
        "responses": responses,
    } })
}

/// An event as `ingest::event_body` reads it, which is by hand so that its errors name index, field and expectation.
struct Event;

impl JsonSchema for Event {
    fn schema_name() -> Cow<'static, str> {
        "Event".into()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        let text = json!({ "type": "string", "minLength": 1, "maxLength": MAX_BYTES });
        let of = |mut schema: Value, about: &str| {
            schema["description"] = about.into();
            schema
        };
        let time = |about: &str| json!({ "type": "string", "format": "date-time", "description": about });
        let number = |about: &str| json!({ "type": "integer", "minimum": 0, "description": about });
        json_schema!({
            "type": "object",
            "description": "Something that a job did. Each kind has fields of its own and no others.",
            "required": ["id", "time", "run", "attempt", "kind", "labels"],
            "properties": {
                "id": of(text.clone(), "The sender's; the same id is the same event."),
                "time": time("When it was over; at most ten minutes ahead of the clock."),
                "run": of(text.clone(), "What is run, however often it has to restart."),
                "attempt": number("A restart is a new attempt, of a higher number."),
                "rank": number("Which of its processes; without it, all of them."),
                "kind": { "type": "string", "enum": OWN.map(|(kind, _)| kind) },
                "step": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": MAX_NUMBER,
                    "description":
                        "Of step: the one that is done; of checkpoint and restore: the last one that is saved.",
                },
                "seconds": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": MAX_NUMBER,
                    "description": "Of checkpoint: how long training stood still for it; of evaluation, which needs it: \
                        how long it took.",
                },
                "submitted": time("Of start: when the attempt began to wait for its GPUs."),
                "status": of(schemas.subschema_for::<Status>().into(), "Of end."),
                "labels": {
                    "type": "object",
                    "description": "Which GPUs: node, pod or slurm_job at least.",
                    "properties": { "cluster": text, "node": text, "namespace": text, "pod": text, "slurm_job": text },
                },
            },
        })
    }
}

/// One attempt that fails, and the next, which goes on from its checkpoint.
fn example() -> Value {
    let pod = json!({ "pod": "train-0", "namespace": "ml" });
    json!([
        {
            "id": "llama-0-start", "time": "2026-11-16T09:00:00Z", "run": "llama", "attempt": 0, "rank": 0,
            "kind": "start", "submitted": "2026-11-16T08:40:00Z", "labels": pod,
        },
        {
            "id": "llama-0-checkpoint-1200", "time": "2026-11-16T10:00:00Z", "run": "llama", "attempt": 0, "rank": 0,
            "kind": "checkpoint", "step": 1200, "seconds": 31.5, "labels": pod,
        },
        {
            "id": "llama-0-end", "time": "2026-11-16T10:20:00Z", "run": "llama", "attempt": 0, "rank": 0,
            "kind": "end", "status": "failed", "labels": pod,
        },
        {
            "id": "llama-1-restore", "time": "2026-11-16T10:30:00Z", "run": "llama", "attempt": 1, "rank": 0,
            "kind": "restore", "step": 1200, "labels": { "slurm_job": "4711", "node": "n1", "cluster": "eu" },
        },
    ])
}
