//! A row of the table of routes.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::parameters::{END, FORMAT, LIMIT, Parameter, START};
use super::responses;

/// A route that is read.
#[derive(Clone, Copy)]
pub(super) struct Route {
    /// Below `/api/v1`.
    pub(super) path: &'static str,
    summary: &'static str,
    /// What a reader has to know beyond the summary; may be empty.
    about: &'static str,
    /// The most hours between `start` and `end`; none where the query has neither.
    pub(super) hours: Option<i64>,
    /// The other parameters.
    asks: &'static [Parameter],
    reads: Reads,
}

/// What a route reads, and so which limits may refuse it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Reads {
    /// At most `reads.max_rows` verdicts, in one of `reads.requests` places.
    Verdicts,
    /// What is in memory, in such a place.
    Memory,
    /// So little that no limit applies: `serve/bounded.rs` lets it through.
    Little,
}

impl Route {
    /// One that reads verdicts and has no parameters.
    pub(super) const fn new(path: &'static str, summary: &'static str) -> Self {
        Self { path, summary, about: "", hours: None, asks: &[], reads: Reads::Verdicts }
    }

    pub(super) const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    pub(super) const fn hours(self, hours: i64) -> Self {
        Self { hours: Some(hours), ..self }
    }

    pub(super) const fn asks(self, asks: &'static [Parameter]) -> Self {
        Self { asks, ..self }
    }

    pub(super) const fn reads(self, reads: Reads) -> Self {
        Self { reads, ..self }
    }

    /// All that a query may have.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &'static Parameter> {
        const TIME: &[Parameter] = &[START, END];
        const FORMATS: &[Parameter] = &[FORMAT];
        let time = if self.hours.is_some() { TIME } else { &[] };
        let formats = if self.is_list() { FORMATS } else { &[] };
        time.iter().chain(self.asks).chain(formats)
    }

    /// Is the answer a part of a list?
    fn is_list(&self) -> bool {
        self.asks.iter().any(|parameter| parameter.name == LIMIT.name)
    }

    /// What OpenAPI calls a path item.
    pub(super) fn described(&self, answer: &Schema, schemas: &mut SchemaGenerator) -> Value {
        let mut responses = responses::of(self.reads, self.parameters().any(|parameter| parameter.is_in_path));
        let mut found = responses::json("The answer, with an ETag.", answer);
        if self.is_list() {
            found["content"]["text/csv"] = json!({ "schema": { "type": "string" } });
        }
        responses.insert("200".to_owned(), found);
        let mut operation = json!({
            "summary": self.summary,
            "operationId": self.path.trim_start_matches('/').trim_end_matches(".json").replace("/{", "_").replace('}', ""),
            "parameters": self.parameters().map(|parameter| parameter.described(schemas)).collect::<Vec<_>>(),
            "responses": responses,
        });
        let hours = self.hours.map(|hours| format!("At most {hours} hours at once.")).unwrap_or_default();
        let about = format!("{} {hours}", self.about);
        if !about.trim().is_empty() {
            operation["description"] = about.trim().into();
        }
        json!({ "get": operation })
    }
}
