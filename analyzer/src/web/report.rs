//! `/report`: the weekly report. It is the file that the command writes, so its style stands in it.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::Html;
use serde::Deserialize;

use super::clock::instant;
use super::kept::given;
use super::page::{Link, Problem};
use crate::app::App;
use crate::report::{Only, Period, Report, Site, html, teams_in};
use goodput_store::Results;

/// The report loads nothing and runs nothing.
const POLICY: [(HeaderName, &str); 1] = [(
    header::CONTENT_SECURITY_POLICY,
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
)];

/// The query.
#[derive(Debug, Deserialize)]
pub(super) struct Week {
    /// The last full week where none is named, or this one so far, where that has no verdicts.
    week: Option<String>,
    /// With any value the annex is unfolded.
    annex: Option<String>,
    /// Only what this team and the teams that are part of it held.
    team: Option<String>,
}

type Answer = Result<([(HeaderName, &'static str); 1], Html<String>), Problem>;

pub(super) async fn page<S: Results>(State(app): State<App<S>>, Query(query): Query<Week>) -> Answer {
    let now = (app.now)();
    let weeks = [Period::last_week(instant(now), &app.zone), Period::this_week(instant(now), &app.zone)];
    let [last, this] = weeks.map(|week| week.as_of(now));
    let report = match &query.week {
        Some(week) => {
            let period = Period::iso_week(week, &app.zone).map_err(|error| Problem::bad(format!("week: {error}")))?;
            app.reads.report(&app.store, period.as_of(now), &app.terms).await?
        }
        None => app.reads.newest_report(&app.store, (now, &app.zone), &app.terms).await?,
    };
    let report = match given(&query.team) {
        None => report,
        Some(name) => of_team(&app, report.period.clone(), name).await?,
    };
    let report = app.reads.owned(&app.store, report, now).await?;
    if report.accounted.is_none() {
        let told = no_data(&app, &report).await?;
        // Who named no week asked for nothing that is missing.
        return Err(if query.week.is_some() { told } else { Problem { status: StatusCode::OK, ..told } });
    }
    let site = Site::served(vec![last, this]).with_annex(query.annex.is_some());
    let page = html::render(&report, &site).map_err(|error| Problem::failed(&error))?;
    Ok((POLICY, Html(page)))
}

/// The report of the same period, of one team.
async fn of_team<S: Results>(app: &App<S>, period: Period, name: &str) -> Result<Arc<Report>, Problem> {
    let teams = teams_in(&app.store, &period, &app.terms).await?;
    if Only::of(&teams, name, period.start_ms).is_none() {
        let all = Link::new(format!("/teams?period={}", period.label), "All teams");
        let advice = "Find the team in the list: it may have another name.";
        return Err(Problem::missing(format!("No team {name} was valid in {}", period.label), advice, vec![all]));
    }
    Ok(app.reads.report_of(&app.store, period, &app.terms, Some(name)).await?)
}

/// That the week has no verdicts, and where there are some.
async fn no_data<S: Results>(app: &App<S>, report: &Report) -> Result<Problem, Problem> {
    let period = &report.period;
    let Some(extent) = app.store.extent().await? else {
        let advice = "Nothing is stored yet: State shows which sources were seen.";
        return Ok(Problem::missing(format!("No data for {}", period.label), advice, Vec::new()));
    };
    let newest = Period::this_week(instant(extent.end - 1), &app.zone);
    let advice = format!("{}.", period.reaching(&extent));
    let link =
        Link::new(format!("/report?week={}", newest.label), format!("The newest week with data, {}", newest.label));
    Ok(Problem::missing(format!("No data for {}", period.label), advice, vec![link]))
}
