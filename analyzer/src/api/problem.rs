//! Why there is no answer, as JSON: `{"error": {"field": …, "expected": …, "found": …}}`.

use std::fmt::Display;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::store::StoreError;

/// Why there is no answer.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    /// The parameter of the query; null when it is about none.
    field: Option<String>,
    /// What was expected, or what failed.
    expected: String,
    /// What the parameter says; null when it is not there.
    found: Option<String>,
}

impl Problem {
    pub(super) fn bad(field: &str, expected: impl Into<String>, found: Option<&str>) -> Self {
        let (field, found) = (Some(field.to_owned()), found.map(str::to_owned));
        Self { status: StatusCode::BAD_REQUEST, field, expected: expected.into(), found }
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

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::failed(&error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(serde_json::json!({ "error": self }))).into_response()
    }
}
