//! `/unsubscribe`: a contact ends messages of a destination, with the link that its mail has (RFC 8058).
//!
//! It needs no login: the token of the link says who asks. Looking at the page changes nothing, for mail is opened by
//! programs that follow its links.

use std::path::PathBuf;
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::middleware::map_response;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use serde::Deserialize;

use super::secured;
use crate::deliver::unsubscribe::Key;
use goodput_exposition::sample::TimeMs;
use goodput_store::Results;
use goodput_verdict::Unsubscribed;

struct Leaving<S> {
    store: S,
    key: Option<PathBuf>,
    now: fn() -> TimeMs,
}

#[derive(Deserialize)]
struct Asked {
    destination: String,
    contact: String,
    token: String,
}

#[derive(Template)]
#[template(path = "unsubscribe.html")]
struct Page<'a> {
    contact: &'a str,
    destination: &'a str,
    is_done: bool,
}

/// The page, and what its button does. Without a key there is none.
pub(super) fn router<S: Results + 'static>(store: S, key: Option<PathBuf>, now: fn() -> TimeMs) -> Router {
    let leaving = Arc::new(Leaving { store, key, now });
    let routes = Router::new().route("/unsubscribe", get(ask::<S>).post(leave::<S>));
    routes.layer(map_response(secured)).with_state(leaving)
}

impl<S: Results> Leaving<S> {
    fn verifies(&self, asked: &Asked) -> bool {
        let key = self.key.as_deref().map(Key::of_file);
        let Asked { destination, contact, token } = asked;
        match key {
            Some(Ok(key)) => key.verifies(destination, contact, token),
            Some(Err(error)) => {
                tracing::error!(error, "cannot read report.unsubscribe_key_file");
                false
            }
            None => false,
        }
    }
}

async fn ask<S: Results>(State(leaving): State<Arc<Leaving<S>>>, Query(asked): Query<Asked>) -> Response {
    if leaving.verifies(&asked) { page(&asked, false) } else { refused() }
}

async fn leave<S: Results>(State(leaving): State<Arc<Leaving<S>>>, Query(asked): Query<Asked>) -> Response {
    if !leaving.verifies(&asked) {
        return refused();
    }
    let (destination, contact) = (asked.destination.clone(), asked.contact.clone());
    let who = Unsubscribed { destination, contact, time_ms: (leaving.now)() };
    if let Err(error) = leaving.store.unsubscribe(&who).await {
        tracing::error!(%error, "cannot note who unsubscribed");
        return (StatusCode::SERVICE_UNAVAILABLE, "cannot be noted now; please try again\n").into_response();
    }
    tracing::info!(destination = who.destination, contact = who.contact, "unsubscribed");
    page(&asked, true)
}

fn page(asked: &Asked, is_done: bool) -> Response {
    let page = Page { contact: &asked.contact, destination: &asked.destination, is_done };
    match page.render() {
        // Without a referrer browsers say `Origin: null` of what the form sends, which the front door refuses.
        Ok(text) => ([(header::REFERRER_POLICY, "same-origin")], Html(text)).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

fn refused() -> Response {
    (StatusCode::FORBIDDEN, "this link is not one that a message of this analyzer has\n").into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use tower_service::Service as _;

    use super::*;
    use crate::judge::tests::store;
    use goodput_store::ReadVerdicts as _;

    #[tokio::test]
    async fn only_the_button_ends_messages_and_only_with_the_token_of_the_link() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, [7; 32]).unwrap();
        let store = store(&dir.path().join("data")).await;
        let link = Key::of_file(&path).unwrap().link("", "people", "a<b@c.d");
        let answer = async |request: Request<Body>, key: Option<PathBuf>| {
            let response = router(store.clone(), key, || 7).call(request).await.unwrap();
            let status = response.status().as_u16();
            let has_policy = response.headers().contains_key("content-security-policy");
            let text = to_bytes(response.into_body(), 100_000).await.unwrap();
            (status, has_policy, String::from_utf8(text.to_vec()).unwrap())
        };
        let asked = |link: &str| Request::get(link).body(Body::empty()).unwrap();
        let posted = |link: &str| Request::post(link).body("List-Unsubscribe=One-Click".into()).unwrap();
        let (status, has_policy, text) = answer(asked(&link), Some(path.clone())).await;
        assert!(
            (status, has_policy) == (200, true) && text.contains("a&#60;b@c.d") && text.contains("<form"),
            "{text}"
        );
        for (wrong, key) in [(link.replace("people", "others"), Some(path.clone())), (link.clone(), None)] {
            assert_eq!(answer(posted(&wrong), key).await.0, 403);
        }
        assert_eq!(store.unsubscribed().await.unwrap(), []);
        assert_eq!(answer(posted(&link), Some(path)).await.0, 200);
        let who = Unsubscribed { destination: "people".into(), contact: "a<b@c.d".into(), time_ms: 7 };
        assert_eq!(store.unsubscribed().await.unwrap(), [who]);
    }
}
