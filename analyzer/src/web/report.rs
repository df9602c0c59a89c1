//! `/report`: the weekly report. It is the file that the command writes, so its style stands in it.

use axum::extract::{Query, State};
use axum::http::{HeaderName, header};
use axum::response::Html;
use serde::Deserialize;

use super::clock::instant;
use super::page::Problem;
use crate::app::App;
use crate::report::{Period, html};
use goodput_store::Results;

/// The report loads nothing and runs nothing.
const POLICY: [(HeaderName, &str); 1] = [(
    header::CONTENT_SECURITY_POLICY,
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
)];

/// `week` of the query; this week when there is none.
#[derive(Debug, Deserialize)]
pub(super) struct Week {
    week: Option<String>,
}

type Report = Result<([(HeaderName, &'static str); 1], Html<String>), Problem>;

pub(super) async fn page<S: Results>(State(app): State<App<S>>, Query(query): Query<Week>) -> Report {
    let period = match query.week {
        Some(week) => Period::iso_week(&week, &app.zone).map_err(|error| Problem::bad(format!("week: {error}")))?,
        None => Period::this_week(instant((app.now)()), &app.zone),
    };
    let report = app.reads.report(&app.store, period, &app.prices).await?;
    let page = html::render(&report).map_err(|error| Problem::failed(&error))?;
    Ok((POLICY, Html(page)))
}
