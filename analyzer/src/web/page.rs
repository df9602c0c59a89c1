//! What all pages have in common, and the page that says why there is none.

use std::fmt::Display;

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};

use super::assets::{ICON, SCRIPT, STYLE};
use crate::app::{Busy, NoReport, later};
use goodput_store::StoreError;

/// A page, or why there is none.
pub(super) type Page = Result<Html<String>, Problem>;

/// What stands around the content.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) title: String,
    pub(super) style: &'static str,
    pub(super) script: &'static str,
    pub(super) icon: &'static str,
    /// The pages above this one.
    pub(super) trail: Vec<Link>,
    /// Would it be another page a minute later?
    pub(super) changes: bool,
}

/// Somewhere to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) href: String,
    pub(super) text: String,
    /// It leads to the page that it stands on.
    pub(super) is_current: bool,
}

impl Link {
    pub(super) fn new(href: impl Into<String>, text: impl Into<String>) -> Self {
        Self { href: href.into(), text: text.into(), is_current: false }
    }
}

impl Frame {
    pub(super) fn new(title: impl Into<String>, trail: Vec<Link>, changes: bool) -> Self {
        let title = title.into();
        Self { title, style: &STYLE.name, script: &SCRIPT.name, icon: &ICON.name, trail, changes }
    }
}

/// Why there is no page, and what to do.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    /// One line that names what is wrong.
    pub(super) what: String,
    /// What to do about it.
    pub(super) advice: String,
    pub(super) links: Vec<Link>,
}

#[derive(Template)]
#[template(path = "web/problem.html")]
struct ProblemPage<'a> {
    frame: Frame,
    p: &'a Problem,
}

impl Problem {
    /// The query cannot be understood.
    pub(super) fn bad(what: impl Into<String>) -> Self {
        let advice = "Correct the address, or start from one of these pages.".to_owned();
        Self { status: StatusCode::BAD_REQUEST, what: what.into(), advice, links: Vec::new() }
    }

    /// There is no such thing, or nothing is known of it then.
    pub(super) fn missing(what: impl Into<String>, advice: impl Into<String>, links: Vec<Link>) -> Self {
        Self { status: StatusCode::NOT_FOUND, what: what.into(), advice: advice.into(), links }
    }

    /// It is not the reader's fault.
    pub(super) fn failed(error: &dyn Display) -> Self {
        tracing::error!(%error, "cannot show a page");
        let advice = "The analyzer could not do it; its log says the same. Try again in a minute.".to_owned();
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, what: error.to_string(), advice, links: Vec::new() }
    }
}

impl Problem {
    /// A limit of reads is reached.
    pub(super) fn busy(busy: Busy) -> Self {
        let advice = "Try again in some seconds.".to_owned();
        Self { status: StatusCode::SERVICE_UNAVAILABLE, what: busy.to_string(), advice, links: Vec::new() }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::TooMuch { .. } => {
                Self { status: StatusCode::UNPROCESSABLE_ENTITY, ..Self::bad(error.to_string()) }
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
        let frame = Frame::new(self.what.clone(), Vec::new(), false);
        match (ProblemPage { frame, p: &self }).render() {
            Ok(page) if self.status == StatusCode::SERVICE_UNAVAILABLE => later((self.status, Html(page))),
            Ok(page) => (self.status, Html(page)).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        }
    }
}

/// The template, written down.
pub(super) fn show(template: &impl Template) -> Page {
    template.render().map(Html).map_err(|error| Problem::failed(&error))
}

/// Everything that has no page.
pub(super) async fn nothing_here() -> Problem {
    Problem::missing("There is no such page", "Start from one of these pages.", Vec::new())
}
