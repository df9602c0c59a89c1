//! Pages and answers of the API are made on threads of their own, a bounded number at once.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use goodput_store::Results;
use tokio::runtime::Handle;

use crate::app::App;
use crate::{api, web};

/// Makes an answer on a thread of its own, once there is a place. The place is kept until the answer is made, also when the
/// client does not wait for it. What reads no results needs no place.
pub(super) async fn bounded<S: Results + Clone + 'static>(
    State(app): State<App<S>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let reads_nothing = ["/state", "/api/v1/health", "/api/v1/openapi.json"];
    if reads_nothing.contains(&path) || path.starts_with("/assets/") {
        return next.run(request).await;
    }
    let is_api = path.starts_with("/api/");
    let place = match app.reads.place().await {
        Ok(place) => place,
        Err(busy) => return if is_api { api::busy(busy) } else { web::busy(busy) },
    };
    let runtime = Handle::current();
    let work = tokio::task::spawn_blocking(move || {
        let _place = place;
        runtime.block_on(next.run(request))
    });
    work.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a page panicked");
        (StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made; the log says why\n").into_response()
    })
}
