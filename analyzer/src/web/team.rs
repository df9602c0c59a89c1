//! `/teams/{team}`: what a team and the teams that are part of it held, what came of it, and how it went over 13 weeks.

use askama::Template;
use axum::extract::{Path, Query, State};

use super::chosen::{Chosen, PeriodQuery};
use super::counted::{Counted, by_loss};
use super::finding::Lines;
use super::link;
use super::page::{Frame, Link, Page, Problem, show};
use super::picker::Picker;
use super::runs;
use super::share::{Legend, Shares, Tile, held_tiles};
use super::sorted::Key;
use super::teams::shares;
use super::view::{Fields, Of, View};
use crate::app::App;
use crate::report::site::escaped;
use crate::report::{
    Item, Ledger, Losses, Only, Period, TeamTable, TeamWeek, chosen as only, items, team_weeks, teams_in,
};
use crate::teams::{Mapping, Teams};
use goodput_store::Results;
use std::collections::BTreeSet;

/// Runs that are listed.
const MAX_RUNS: usize = 50;

#[derive(Template)]
#[template(path = "web/team.html")]
struct Team {
    frame: Frame,
    name: String,
    path: String,
    /// What the configuration says of it.
    facts: Vec<(&'static str, String)>,
    picker: Picker,
    period: String,
    tiles: Vec<Tile>,
    legend: Legend,
    weeks: Vec<Week>,
    weeks_view: View,
    findings: Lines,
    runs: Vec<runs::Row>,
    runs_view: View,
    more_runs: usize,
    has_money: bool,
    /// What asks the API for it, where the period is a week.
    api: Option<String>,
    /// The same of its table of any period.
    summary_api: String,
    weeks_route: String,
    findings_api: String,
}

/// A week of the picture.
struct Week {
    link: Link,
    held: String,
    lost: String,
    productive: String,
    cost: String,
    shares: Shares,
}

pub(super) async fn page<S: Results>(
    State(app): State<App<S>>,
    Path(name): Path<String>,
    Query(query): Query<PeriodQuery>,
    Query(fields): Query<Fields>,
) -> Page {
    let chosen = Chosen::of(&query, (app.now)(), &app.zone)?;
    let teams = teams_in(&app.store, &chosen.period(), &app.terms).await?;
    let all = Link::new(format!("/teams?{}", chosen.query), "Teams");
    let Some(of_team) = Only::of(&teams, &name, chosen.start_ms) else {
        let advice = "Choose another period, or find the team in the list: it may have another name now.";
        return Err(Problem::missing(format!("No team {name} was valid from {}", chosen.show()), advice, vec![all]));
    };
    let every = items(&app.store, &chosen.range(), &app.terms.prices).await?;
    let table = TeamTable::of(&teams, chosen.start_ms, (&every, None), (&[], &[]));
    let path = link::team(&name);
    let of = |id| Of { path: &path, fields: &fields, id };
    let mut weeks = weeks(&app, &chosen, (&teams, &table), &name).await?;
    let weeks_view = weeks_view(&mut weeks, of("weeks"))?;
    let items = only(every, &of_team);
    let ledger = Ledger::of(&items);
    let losses = Losses::of(&items, None, ledger.capacity().ms);
    let losses = losses.with_ownership(&app.book().await?, chosen.start_ms, ((app.now)(), &app.zone));
    let gpus = items.iter().map(|item| item.gpu.as_str()).collect::<BTreeSet<_>>().len();
    let mut runs: Vec<Counted<'_, _>> = by_loss(&items, |item: &Item<'_>| runs::key(item));
    let run_text =
        |run: &Counted<'_, runs::Key<'_>>| format!("{} {}", run.key.1, run.item.account.as_deref().unwrap_or_default());
    let runs_view = of("runs").view(&mut runs, &runs::COLUMNS, runs::order, run_text)?;
    let hours = chosen.hours_query();
    show(&Team {
        frame: Frame::new(format!("Team {name}"), vec![chosen.fleet(), all], chosen.is_open()),
        facts: facts(&teams, &name, &chosen),
        picker: Picker::of(&chosen, &path).keeping(fields.kept()),
        period: chosen.show(),
        tiles: held_tiles(&ledger, gpus),
        legend: Shares::of(&ledger).legend(of("classes"))?,
        weeks_view,
        weeks: weeks.iter().map(|one| week(one, &name, &chosen)).collect(),
        findings: Lines::viewed(&losses, &losses.groups, &chosen, of("findings"))?,
        more_runs: runs.len().saturating_sub(MAX_RUNS),
        runs_view,
        runs: runs.iter().take(MAX_RUNS).map(|run| runs::row(run, &chosen)).collect(),
        has_money: !ledger.capacity().amount(0).cost.is_empty(),
        weeks_route: format!("teams/{}/weeks", escaped(&name)),
        summary_api: format!("team={}&{hours}", escaped(&name)),
        findings_api: format!("team={}&{}", escaped(&name), chosen.week().map_or(hours, |week| format!("week={week}"))),
        api: chosen.week().map(|week| format!("week={week}")),
        path: path.clone(),
        name,
    })
}

/// The weeks up to the one that the period ends in; that one is of the table, where it is the period.
async fn weeks<S: Results>(
    app: &App<S>,
    chosen: &Chosen,
    (teams, table): (&Teams, &TeamTable),
    name: &str,
) -> Result<Vec<TeamWeek>, Problem> {
    let label = chosen.week_of(chosen.end_ms - 1);
    let Ok(last) = Period::iso_week(&label, &app.zone) else { return Ok(Vec::new()) };
    let mapping = Mapping::at(teams, chosen.start_ms);
    let table = chosen.week().map(|_| table);
    Ok(team_weeks(&app.store, (&last, table), &mapping.names_below(name)).await?)
}

/// Puts the weeks in the order asked for; they come in order of time.
fn weeks_view(weeks: &mut Vec<TeamWeek>, of: Of<'_>) -> Result<View, Problem> {
    let key = |week: &TeamWeek, column: &str| match column {
        "held" => Key::number(week.held.gpu_ms),
        "productive" => Key::ratio(week.productive.share),
        "lost" => Key::number(week.lost.gpu_ms),
        "cost" => Key::number(week.total.cost.first().map(|cost| cost.micros)),
        _ => Key::Text(week.week.clone()),
    };
    of.view(weeks, &["week", "held", "productive", "lost", "cost"], key, |week| week.week.clone())
}

fn facts(teams: &Teams, name: &str, chosen: &Chosen) -> Vec<(&'static str, String)> {
    let mapping = Mapping::at(teams, chosen.start_ms);
    let Some(team) = mapping.place(name).map(|place| mapping.teams()[place]) else { return Vec::new() };
    let parts: Vec<&str> = mapping.names_below(name).into_iter().filter(|part| *part != name).collect();
    let patterns: Vec<String> = team.patterns.iter().map(|p| format!("{} {}", p.field.name(), p.text)).collect();
    let contacts: Vec<String> = team.contacts.iter().map(|c| format!("{} {}", c.channel.name(), c.to)).collect();
    let facts = [
        ("part of", team.parent.clone().unwrap_or_default()),
        ("parts", parts.join(", ")),
        ("cost centre", team.cost_centre.clone().unwrap_or_default()),
        ("contacts", contacts.join(", ")),
        ("has time of", patterns.join(", ")),
    ];
    facts.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

fn week(one: &TeamWeek, name: &str, chosen: &Chosen) -> Week {
    let mut link = Link::new(format!("{}?period={}", link::team(name), one.week), &one.week);
    link.is_current = chosen.week() == Some(one.week.as_str());
    Week {
        link,
        held: one.held.hours(),
        lost: one.lost.hours(),
        productive: one.productive.percent(),
        cost: one.total.money(),
        shares: shares(&one.classes),
    }
}
