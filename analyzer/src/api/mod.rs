//! `/api/v1/…`: what is stored, as JSON for programs. Read-only, but for events, which are a way in, and for what people say
//! about findings. `openapi.json`
//! describes all of it: it is made of the table of routes and of the types of their answers.
//!
//! A query with a parameter that a route does not know is an error, so that a misspelt filter never means "everything".

#[cfg(test)]
mod check;
mod csv;
mod events;
mod findings;
mod inventory;
mod parameters;
mod problem;
mod query;
mod responses;
mod results;
mod route;
mod runs;
mod series;
mod serving;
mod summary;
mod table;
mod teams;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::{App, Busy};
use goodput_store::Embedded;
use problem::Problem;
use table::Table;

/// An answer, or why there is none.
type Answer<T> = Result<T, Problem>;

/// A part of a list.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Page<T> {
    data: Vec<T>,
    /// The `cursor` that asks for what follows; null at the end.
    next: Option<usize>,
}

/// The answer when a limit of reads is reached.
pub(crate) fn busy(busy: Busy) -> Response {
    Problem::busy(busy).into_response()
}

/// All routes that are read.
fn table<S: Embedded + Clone + 'static>() -> Table<S> {
    let rooms = [
        inventory::routes,
        results::routes,
        findings::routes,
        runs::routes,
        series::routes,
        serving::routes,
        summary::routes,
        teams::routes,
    ];
    rooms.into_iter().fold(Table::new(), |table, add| add(table))
}

/// The same, to be served.
pub(crate) fn routes<S: Embedded + Clone + 'static>() -> Router<App<S>> {
    let (routes, _) = table().finish();
    let routes = routes.fallback(async || Problem::nothing_here()).layer(from_fn(tagged));
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
    let own = parts.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    let tag = own.unwrap_or_else(|| format!("\"{:08x}-{:x}\"", crc32fast::hash(&bytes), bytes.len()));
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
