//! `/teams`: GPU time of a period by team.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::chosen::{Chosen, PeriodQuery};
use super::kept::Kept;
use super::link;
use super::page::{Frame, Link, Page, show};
use super::part::PartQuery;
use super::picker::Picker;
use super::share::Shares;
use super::sorted::Key;
use super::table::{On, Table, holds};
use crate::app::App;
use crate::report::{Ledger, Losses, TeamClass, TeamRow, TeamTable, has_one_price, items, teams_in};
use goodput_store::Results;
use goodput_verdict::Class;

/// Which teams are wanted, by a part of the name.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Wanted {
    team: Option<String>,
}

/// What teams are sorted by; the first is how they come, the last where all has one price.
const COLUMNS: [&str; 6] = ["lost", "team", "held", "productive", "first", "cost"];

#[derive(Template)]
#[template(path = "web/teams.html")]
struct Teams {
    frame: Frame,
    picker: Picker,
    period: String,
    is_configured: bool,
    shared_loss: &'static str,
    rows: Vec<Row>,
    table: Table,
    has_money: bool,
    /// What asks the API for it, where the period is a week.
    api: Option<String>,
}

struct Row {
    link: Link,
    /// Parent and cost centre, where known.
    notes: Vec<String>,
    held: String,
    productive: String,
    lost: String,
    cost: String,
    shares: Shares,
    first_finding: Option<(&'static str, String)>,
}

pub(super) async fn page<S: Results>(
    State(app): State<App<S>>,
    Query(query): Query<PeriodQuery>,
    Query(part): Query<PartQuery>,
    Query(wanted): Query<Wanted>,
) -> Page {
    let chosen = Chosen::of(&query, (app.now)(), &app.zone)?;
    let teams = teams_in(&app.store, &chosen.period(), &app.terms).await?;
    let items = items(&app.store, &chosen.range(), &app.terms.prices).await?;
    let losses = Losses::of(&items, None, Ledger::of(&items).capacity().ms);
    let found = TeamTable::of(&teams, chosen.start_ms, (&items, None), (&losses.groups, &losses.findings));
    let mut rows: Vec<&TeamRow> = found.rows.iter().filter(|row| holds(&row.name, &wanted.team)).collect();
    let by_money = has_one_price(rows.iter().map(|row| &row.total));
    let columns = if by_money { &COLUMNS[..] } else { &COLUMNS[..COLUMNS.len() - 1] };
    let on = On { path: "/teams", chosen: &chosen, fields: [("team", "team", &wanted.team)], others: Kept::default() };
    let table = Table::of(on, &part, &mut rows, columns, key)?;
    show(&Teams {
        frame: Frame::new("Teams", vec![chosen.fleet()], chosen.is_open()),
        picker: Picker::of(&chosen, "/teams").keeping(table.kept.clone()),
        period: chosen.show(),
        is_configured: found.is_configured,
        shared_loss: found.shared_loss(),
        has_money: found.rows.iter().any(|row| !row.total.cost.is_empty()),
        rows: rows[table.part.rows.clone()].iter().map(|found| row(found, &chosen)).collect(),
        table,
        api: chosen.week().map(|week| format!("week={week}")),
    })
}

/// What the table is sorted by.
fn key(row: &&TeamRow, column: &str) -> Key {
    match column {
        "team" => Key::Text(row.name.clone()),
        "held" => Key::number(row.held.gpu_ms),
        "productive" => Key::ratio(row.productive.share),
        "first" => Key::number(row.first_finding.as_ref().map(|finding| finding.lost.gpu_ms)),
        "cost" => Key::number(row.total.cost.first().map(|cost| cost.micros)),
        _ => Key::number(row.lost.gpu_ms),
    }
}

fn row(row: &TeamRow, chosen: &Chosen) -> Row {
    let part_of = row.parent.as_ref().map(|parent| format!("part of {parent}"));
    let centre = row.cost_centre.as_ref().map(|centre| format!("cost centre {centre}"));
    let finding = row.first_finding.as_ref();
    Row {
        link: Link::new(format!("{}?{}", link::team(&row.name), chosen.query), &row.name),
        notes: part_of.into_iter().chain(centre).collect(),
        held: row.held.hours(),
        productive: row.productive.percent(),
        lost: row.lost.hours(),
        cost: row.total.money(),
        shares: shares(&row.classes),
        first_finding: finding.map(|f| (f.class.name(), format!("{}, {} GPU-hours", f.subject, f.lost.hours()))),
    }
}

/// The bar of a team's time.
pub(super) fn shares(classes: &[TeamClass]) -> Shares {
    let by_class: BTreeMap<Class, i64> = classes.iter().map(|part| (part.class, part.amount.gpu_ms)).collect();
    Shares::of_classes(&by_class)
}
