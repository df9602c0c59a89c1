//! GPU time by team.

use schemars::JsonSchema;
use serde::Serialize;

use super::parameters::{CURSOR, LIMIT, TEAM_NAME, WEEK};
use super::query::Asked;
use super::results::{build, build_of};
use super::route::Route;
use super::table::Table;
use super::{Answer, Page};
use crate::app::App;
use crate::report::{FindingGroup, Row, TeamRow, TeamWeek, team_weeks, teams_in};
use crate::teams::{Contact, Mapping};
use goodput_store::Results;

pub(super) fn routes<S: Results + Clone + 'static>(table: Table<S>) -> Table<S> {
    table
        .get(
            Route::new("/teams", "GPU time of a week by team")
                .about(
                    "Greatest loss first, then unassigned and platform. A week whose report was delivered keeps the teams \
                     that it was delivered with.",
                )
                .asks(&[WEEK, LIMIT, CURSOR]),
            teams,
        )
        .get(
            Route::new("/teams/{name}", "What a team and the teams that are part of it had in a week")
                .about("Its runs, its findings, and its weeks as far as their reports were delivered.")
                .asks(&[TEAM_NAME, WEEK]),
            team,
        )
        .get(
            Route::new("/teams/{name}/weeks", "The weeks of a team and of the teams that are part of it")
                .about("The last 13 weeks whose report was delivered, in order; the last is the week asked for.")
                .asks(&[TEAM_NAME, WEEK, LIMIT, CURSOR]),
            weeks,
        )
}

/// A team in a week.
#[derive(Serialize, JsonSchema)]
struct Team {
    /// ISO week, such as 2026-W47.
    week: String,
    /// Its row of the table of teams, without that of the teams that are part of it; null where it had no time.
    row: Option<TeamRow>,
    /// Whom to write to, as the configuration says.
    contacts: Vec<Contact>,
    /// The last 13 weeks whose report was delivered, in order; the last is `week`.
    weeks: Vec<TeamWeek>,
    /// Its runs, greatest loss first.
    runs: Vec<Row>,
    /// Its findings, in the order of reports. Places of their findings are those of `/report` with this team.
    findings: Vec<FindingGroup>,
}

async fn teams<S: Results>(app: App<S>, asked: Asked) -> Answer<Page<TeamRow>> {
    let report = build(&app, asked.week((app.now)(), &app.zone)?).await?;
    Ok(asked.part()?.of(report.teams.rows.iter().cloned()))
}

async fn weeks<S: Results + Clone>(app: App<S>, asked: Asked) -> Answer<Page<TeamWeek>> {
    let part = asked.part()?;
    Ok(part.of(team(app, asked).await?.weeks))
}

async fn team<S: Results>(app: App<S>, asked: Asked) -> Answer<Team> {
    let name = asked.owned("name").unwrap_or_default();
    let week = build(&app, asked.week((app.now)(), &app.zone)?).await?;
    let report = build_of(&app, Some(week.period.clone()), ("name", Some(&name))).await?;
    let teams = teams_in(&app.store, &week.period, &app.terms).await?;
    let mapping = Mapping::at(&teams, week.period.start_ms);
    let place = mapping.place(&name);
    let names = mapping.names_below(&name);
    let weeks = team_weeks(&app.store, (&week.period, Some(&week.teams)), &names).await?;
    Ok(Team {
        week: week.period.label.clone(),
        row: week.teams.row(&name).cloned(),
        contacts: place.map(|place| mapping.teams()[place].contacts.clone()).unwrap_or_default(),
        weeks,
        runs: report.owners.clone(),
        findings: report.groups.clone(),
    })
}
