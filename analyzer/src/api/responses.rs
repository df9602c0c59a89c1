//! What a route may answer instead of what is asked for: one row per status.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::problem::ErrorBody;
use super::route::Reads;

/// Status, name, and when it is given.
const REFUSALS: [(&str, &str, &str); 9] = [
    ("304", "NotModified", "If-None-Match names the answer's ETag."),
    ("400", "BadRequest", "A parameter is wrong."),
    (
        "401",
        "Unauthorized",
        "No user or token, or a wrong one; WWW-Authenticate names the scheme. Only where a web configuration, a token \
         or a proxy says who asks.",
    ),
    (
        "403",
        "Forbidden",
        "The user or token has not the scope that this needs, the Host is not a name of this server, or a page of \
         another site sends the request.",
    ),
    ("404", "NotFound", "There is nothing of the name in the path."),
    ("422", "TooMuch", "The period has more rows of verdicts than `reads.max_rows`: ask for a shorter one."),
    (
        "429",
        "TooManyRequests",
        "More requests than rate_limit of the web configuration lets through; Retry-After says when to ask again.",
    ),
    ("500", "Failed", "The analyzer could not do it; its log says the same."),
    (
        "503",
        "Busy",
        "As many reads as `reads.requests` or `reads.reports` allows are in work: ask again after Retry-After.",
    ),
];

/// What the front door answers, in plain text.
const FRONT_DOOR: [&str; 3] = ["401", "403", "429"];

/// Refusals of a route that reads this, whose path may have a name.
pub(super) fn of(reads: Reads, has_name: bool) -> Map<String, Value> {
    named(|status| match status {
        "404" => has_name,
        "422" => reads == Reads::Verdicts,
        "503" => reads != Reads::Little,
        _ => true,
    })
}

/// What every request may get.
pub(super) fn of_the_front_door() -> Map<String, Value> {
    named(|status| FRONT_DOOR.contains(&status))
}

fn named(is_given: impl Fn(&str) -> bool) -> Map<String, Value> {
    let given = REFUSALS.iter().filter(|(status, ..)| is_given(status));
    let named = |name| json!({ "$ref": format!("#/components/responses/{name}") });
    given.map(|(status, name, _)| ((*status).to_owned(), named(name))).collect()
}

/// All refusals, by name.
pub(super) fn all(schemas: &mut SchemaGenerator) -> Map<String, Value> {
    let error = schemas.subschema_for::<ErrorBody>();
    let described = |status: &str, about: &str| match status {
        "304" => json!({ "description": about }),
        "503" => {
            let mut busy = json(about, &error);
            let seconds = json!({ "description": "Seconds to wait.", "schema": { "type": "integer" } });
            busy["headers"] = json!({ "Retry-After": seconds });
            busy
        }
        _ if FRONT_DOOR.contains(&status) => {
            json!({ "description": about, "content": { "text/plain": { "schema": { "type": "string" } } } })
        }
        _ => json(about, &error),
    };
    REFUSALS.iter().map(|(status, name, about)| ((*name).to_owned(), described(status, about))).collect()
}

/// An answer in JSON.
pub(super) fn json(about: &str, schema: &Schema) -> Value {
    json!({ "description": about, "content": { "application/json": { "schema": schema } } })
}
