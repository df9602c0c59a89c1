//! `/findings/repeat`: findings that come again and again, for administrators.

use askama::Template;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::kept::given;
use super::link;
use super::page::{Frame, Link, Page, show};
use crate::app::App;
use crate::ownership::Offender;
use crate::report::site::escaped;
use crate::report::text;
use goodput_store::Results;

#[derive(Debug, Default, Deserialize)]
pub(super) struct Wanted {
    team: Option<String>,
}

#[derive(Template)]
#[template(path = "web/repeat.html")]
struct Repeat {
    frame: Frame,
    rows: Vec<Row>,
    more: usize,
    team: Option<String>,
    has_teams: bool,
    has_money: bool,
    /// The query that asks the API for the same.
    api: String,
}

struct Row {
    one: Offender,
    hours: String,
    cost: String,
    messages: String,
    state: &'static str,
    /// The page of the team.
    team: Option<Link>,
}

/// Rows that are shown; CSV and JSON have the others.
const MAX_ROWS: usize = 100;

pub(super) async fn page<S: Results>(State(app): State<App<S>>, Query(wanted): Query<Wanted>) -> Page {
    let team = given(&wanted.team);
    let all = app.offenders(team).await?;
    let trail = vec![Link::new("/", "Fleet"), Link::new("/findings", "Findings")];
    show(&Repeat {
        frame: Frame::new("Repeat offenders", trail, false),
        more: all.len().saturating_sub(MAX_ROWS),
        has_teams: all.iter().any(|one| one.team.is_some()),
        has_money: all.iter().any(|one| one.cost.is_some()),
        rows: all.into_iter().take(MAX_ROWS).map(row).collect(),
        api: team.map(|team| format!("team={}", escaped(team))).unwrap_or_default(),
        team: team.map(str::to_owned),
    })
}

fn row(one: Offender) -> Row {
    let cost =
        one.currency.as_ref().zip(one.cost).map(|(currency, cost)| format!("{currency}\u{a0}{}", text::money(cost)));
    let since = one.days_since_message.map(|days| match days {
        0 => "today".to_owned(),
        1 => "1 day ago".to_owned(),
        days => format!("{days} days ago"),
    });
    Row {
        hours: text::hours((one.gpu_hours * 3_600_000.0) as i64),
        cost: cost.unwrap_or_default(),
        messages: since.map_or_else(|| one.messages.to_string(), |since| format!("{}, the last {since}", one.messages)),
        state: one.state.name(),
        team: one.team.as_ref().map(|team| Link::new(link::team(team), team)),
        one,
    }
}
