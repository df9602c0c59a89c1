//! `/api/v1/…`: what is stored, as JSON for programs. Read-only, but for events, which are a way in; described by `openapi.json`, which is served too.
//!
//! A query with a parameter that a route does not know is an error, so that a misspelt filter never means "everything".

mod inventory;
mod problem;
mod query;
mod results;
mod runs;
mod series;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;

use crate::serve::{App, Busy};
use crate::store::{Results, Samples};
use problem::Problem;

/// The description of all routes, OpenAPI 3.1.
const OPENAPI: &str = include_str!("openapi.json");

/// An answer, or why there is none.
type Answer<T> = Result<axum::Json<T>, Problem>;

/// A part of a list.
#[derive(Serialize)]
struct Page<T> {
    data: Vec<T>,
    /// The `cursor` that asks for what follows; null at the end.
    next: Option<usize>,
}

/// The answer when a limit of reads is reached.
pub(crate) fn busy(busy: Busy) -> Response {
    Problem::busy(busy).into_response()
}

/// All routes.
pub(crate) fn routes<S: Samples + Results + Clone + 'static>() -> Router<App<S>> {
    let routes = Router::new()
        .route("/health", get(inventory::health::<S>))
        .route("/nodes", get(inventory::nodes::<S>))
        .route("/gpus", get(inventory::gpus::<S>))
        .route("/intervals", get(results::intervals::<S>))
        .route("/advisories", get(results::advisories::<S>))
        .route("/risks", get(results::risks::<S>))
        .route("/standings", get(results::standings::<S>))
        .route("/forecasts", get(results::forecasts::<S>))
        .route("/findings", get(results::findings::<S>))
        .route("/report", get(results::report::<S>))
        .route("/runs", get(runs::list::<S>))
        .route("/signals", get(series::signals))
        .route("/series", get(series::series::<S>))
        .route("/openapi.json", get(async || ([(header::CONTENT_TYPE, "application/json")], OPENAPI)))
        .fallback(async || Problem::nothing_here())
        .layer(from_fn(tagged));
    Router::new().nest("/api/v1", routes)
}

/// Gives every answer a tag of its content, and answers 304 to a client that has it already.
async fn tagged(request: Request, next: Next) -> Response {
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let (mut parts, body) = next.run(request).await.into_parts();
    if parts.status != StatusCode::OK {
        return Response::from_parts(parts, body);
    }
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return Problem::failed(&"the answer broke off").into_response();
    };
    let tag = format!("\"{:08x}-{:x}\"", crc32fast::hash(&bytes), bytes.len());
    if let Ok(value) = HeaderValue::from_str(&tag) {
        parts.headers.insert(header::ETAG, value);
    }
    // Verdicts may be restated at any time: ask whether it is still the same.
    parts.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    let same =
        known.as_ref().and_then(|value| value.to_str().ok()).is_some_and(|all| all.split(", ").any(|t| t == tag));
    if same {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(header::CONTENT_LENGTH);
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, Body::from(bytes))
}
