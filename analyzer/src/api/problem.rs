//! Why there is no answer, as JSON: `{"error": {"field": …, "expected": …, "found": …}}`.

use std::fmt::Display;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::{Busy, NoReport, later};
use goodput_store::StoreError;

/// Why there is no answer.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    /// The parameter; null when it is about none.
    field: Option<String>,
    /// What was expected, or what failed.
    expected: String,
    /// What the parameter says; null when it is not there.
    found: Option<String>,
}

/// Why there is no answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(super) struct ErrorBody {
    /// What is wrong.
    error: Problem,
}

impl Problem {
    pub(super) fn bad(field: &str, expected: impl Into<String>, found: Option<&str>) -> Self {
        let (field, found) = (Some(field.to_owned()), found.map(str::to_owned));
        Self { status: StatusCode::BAD_REQUEST, field, expected: expected.into(), found }
    }

    /// Nothing has the name in the path.
    pub(super) fn missing(field: &str, expected: impl Into<String>, found: &str) -> Self {
        Self { status: StatusCode::NOT_FOUND, ..Self::bad(field, expected, Some(found)) }
    }

    /// It is refused for what is neither in the query nor in the path.
    pub(super) fn refused(status: StatusCode, field: &str, expected: impl Into<String>, found: Option<&str>) -> Self {
        Self { status, ..Self::bad(field, expected, found) }
    }

    pub(super) fn nothing_here() -> Self {
        let expected = "a route that /api/v1/openapi.json describes".to_owned();
        Self { status: StatusCode::NOT_FOUND, field: None, expected, found: None }
    }

    /// It is not the reader's fault.
    pub(super) fn failed(error: &dyn Display) -> Self {
        tracing::error!(%error, "cannot answer");
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, field: None, expected: error.to_string(), found: None }
    }
}

impl Problem {
    /// A limit of reads is reached.
    pub(super) fn busy(busy: Busy) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, field: None, expected: busy.to_string(), found: None }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::TooMuch { .. } => {
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                Self { status, field: Some("start".to_owned()), expected: error.to_string(), found: None }
            }
            error => Self::failed(&error),
        }
    }
}

impl From<NoReport> for Problem {
    fn from(none: NoReport) -> Self {
        match none {
            NoReport::Busy(busy) => Self::busy(busy),
            NoReport::Store(error) => error.into(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status;
        let response = (status, Json(ErrorBody { error: self }));
        if status == StatusCode::SERVICE_UNAVAILABLE { later(response) } else { response.into_response() }
    }
}
