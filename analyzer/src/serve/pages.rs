//! What people look at: the landing page and the report.

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;

use super::App;
use crate::classify::Class;
use crate::judge;
use crate::report::{self, Period};
use crate::sample::TimeMs;
use crate::store::{Appended, Results, StoreError};

/// Sources that the landing page lists.
const MAX_SOURCES: usize = 100;

#[derive(Template)]
#[template(path = "landing.html")]
struct Landing<'a> {
    version: &'static str,
    classes: &'a [Class],
    this_week: String,
    last_week: String,
    zone: &'a str,
    judged_until: Option<String>,
    failures: u64,
    unjoined: Vec<String>,
    samples: Appended,
    sources: Vec<(String, String)>,
    more_sources: usize,
}

/// `week` of the query; this week when there is none.
#[derive(Debug, Deserialize)]
pub(super) struct Week {
    week: Option<String>,
}

pub(super) async fn landing<S>(State(app): State<App<S>>) -> Response {
    let (progress, account, zone) = (app.progress.borrow().clone(), app.intake.account(), &app.zone);
    let now = instant((app.now)());
    let mut sources: Vec<(String, TimeMs)> = account.last_sample.into_iter().collect();
    sources.sort_by_key(|(_, time)| *time);
    let more_sources = sources.len().saturating_sub(MAX_SOURCES);
    sources.truncate(MAX_SOURCES);
    let page = Landing {
        version: env!("CARGO_PKG_VERSION"),
        classes: Class::ALL,
        this_week: Period::this_week(now, zone).label,
        last_week: Period::last_week(now, zone).label,
        zone: zone.iana_name().unwrap_or("UTC"),
        judged_until: progress.judged_until_ms.map(|time| show(time, zone)),
        failures: progress.failures,
        unjoined: progress.unjoined,
        samples: account.samples,
        sources: sources.into_iter().map(|(source, time)| (source, show(time, zone))).collect(),
        more_sources,
    };
    html(page.render())
}

pub(super) async fn report<S: Results>(State(app): State<App<S>>, Query(query): Query<Week>) -> Response {
    let period = match query.week {
        Some(week) => Period::iso_week(&week, &app.zone),
        None => Ok(Period::this_week(instant((app.now)()), &app.zone)),
    };
    let period = match period {
        Ok(period) => period,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let range = period.start_ms..period.end_ms;
    let read = async {
        let (report, _) = judge::report(|window| app.store.intervals(window), period).await?;
        Ok::<_, StoreError>(report.with_outlook(&app.store.outlook(range).await?))
    };
    match read.await {
        Ok(report) => html(report::html::render(&report)),
        Err(error) => failed(&error),
    }
}

fn html(page: Result<String, askama::Error>) -> Response {
    match page {
        Ok(page) => Html(page).into_response(),
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::error::Error) -> Response {
    tracing::error!(%error, "cannot show a page");
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
}

fn instant(ms: TimeMs) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or_default()
}

fn show(time: TimeMs, zone: &TimeZone) -> String {
    instant(time).to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
