//! The pages below a path: what `--web.external-url=https://ops.example.com/goodput` asks for.
//!
//! A proxy may pass the path on or take it away, so each route is answered with and without it. Links of pages always have
//! it. Templates write them as if there were none; they are completed here, at one place.

use axum::Router;
use axum::body::to_bytes;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::middleware::map_response;
use axum::response::{IntoResponse as _, Response};

/// Attributes with an address of this server. A quote in a text is escaped, so this is never a part of one.
const ADDRESSES: [&str; 3] = ["href=\"/", "src=\"/", "action=\"/"];

/// The routes, also below `path`, which is empty or begins with a slash and does not end with one.
pub(super) fn below(path: &str, routes: Router) -> Router {
    if path.is_empty() {
        return routes;
    }
    let prefix = path.to_owned();
    let routes = routes.layer(map_response(move |response| with_links(response, prefix.clone())));
    Router::new().nest_service(path, routes.clone()).fallback_service(routes)
}

async fn with_links(response: Response, prefix: String) -> Response {
    let is_page = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if !is_page {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // Pages are made whole before they are sent.
    let Ok(page) = to_bytes(body, usize::MAX).await else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let mut page = String::from_utf8_lossy(&page).into_owned();
    for address in ADDRESSES {
        page = page.replace(address, &format!("{}{prefix}/", address.trim_end_matches('/')));
    }
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, page.into())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use axum::response::Html;
    use axum::routing::get;
    use tower_service::Service as _;

    use super::*;

    async fn answer(path: &str, asked: &str) -> (u16, String) {
        let page = || async {
            Html("<a href=\"/report\">r</a><img src=\"/a.svg\"><p>href=&#34;/x <a href=\"https://x/\">x</a>")
        };
        let routes = Router::new().route("/", get(page)).route("/text", get(|| async { "href=\"/report" }));
        let request = Request::get(asked).body(Body::empty()).unwrap();
        let response = below(path, routes).call(request).await.unwrap();
        let status = response.status().as_u16();
        (status, String::from_utf8(to_bytes(response.into_body(), 10_000).await.unwrap().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn each_route_is_there_with_and_without_the_path_and_links_have_it() {
        let expected = "<a href=\"/ops/goodput/report\">r</a><img src=\"/ops/goodput/a.svg\"><p>href=&#34;/x \
                        <a href=\"https://x/\">x</a>";
        for asked in ["/", "/ops/goodput", "/ops/goodput/"] {
            assert_eq!(answer("/ops/goodput", asked).await, (200, expected.to_owned()), "{asked}");
        }
        for asked in ["/text", "/ops/goodput/text"] {
            assert_eq!(answer("/ops/goodput", asked).await, (200, "href=\"/report".to_owned()), "{asked}");
        }
        assert_eq!(answer("/ops/goodput", "/ops/goodputs").await.0, 404);
        assert!(answer("", "/").await.1.starts_with("<a href=\"/report\">"));
    }
}
