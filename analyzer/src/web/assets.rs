//! Style, script and icon: part of the program, named by their content, so that browsers may keep them for good.

use std::sync::LazyLock;

use askama::Template;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use goodput_verdict::Class;

#[derive(Template)]
#[template(path = "web/web.css", escape = "none")]
struct Style {
    classes: &'static [Class],
}

/// A file and the name under `/assets/` that changes whenever its content does.
pub(super) struct Asset {
    pub(super) name: String,
    kind: &'static str,
    content: String,
}

impl Asset {
    fn new(stem: &str, extension: &str, kind: &'static str, content: String) -> Self {
        let name = format!("{stem}-{:08x}.{extension}", crc32fast::hash(content.as_bytes()));
        Self { name, kind, content }
    }
}

pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    // Without its style a page is still whole, and the test of the pages fails.
    let content = Style { classes: Class::ALL }.render().unwrap_or_default();
    Asset::new("goodput", "css", "text/css; charset=utf-8", content)
});

pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("../../templates/web/web.js").to_owned();
    Asset::new("goodput", "js", "text/javascript; charset=utf-8", content)
});

pub(super) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("../../templates/web/icon.svg").to_owned();
    Asset::new("goodput", "svg", "image/svg+xml", content)
});

/// The file of this name.
pub(super) async fn file(Path(name): Path<String>) -> Response {
    match [&STYLE, &SCRIPT, &ICON].into_iter().find(|asset| asset.name == name) {
        Some(asset) => {
            let headers =
                [(header::CONTENT_TYPE, asset.kind), (header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
            (headers, asset.content.as_str()).into_response()
        }
        None => (StatusCode::NOT_FOUND, "no such file; reload the page that refers to it\n").into_response(),
    }
}
