//! `/`: what to do now: the first findings, what runs out soon, GPUs and links that may fail, and then the fleet, node by node.

use askama::Template;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::chosen::{Chosen, PeriodQuery};
use super::clock::HOUR_MS;
use super::counted::{Counted, by_loss};
use super::finding::Lines;
use super::link;
use super::outlook::Outlook;
use super::page::{Frame, Link, Page, Problem, show};
use super::part::PartQuery;
use super::picker::Picker;
use super::share::{Legend, Shares, Tile, greatest_loss, judged_otherwise, tiles};
use super::sorted::Key;
use super::table::{On, Table, holds};
use super::view::{Fields, Of};
use crate::app::App;
use crate::report::{Amount, FORMULA, Item, Ledger, Losses, Names, items, text};
use goodput_store::{Embedded, Place, Results};

/// What nodes are sorted by; the first is how they are counted.
const COLUMNS: [&str; 5] = ["loss", "node", "gpus", "hours", "goodput"];

/// Which nodes are wanted, by a part of their name.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Wanted {
    node: Option<String>,
}

/// Findings to begin with.
const FIRST: usize = 5;

#[derive(Template)]
#[template(path = "web/fleet.html")]
struct Fleet {
    frame: Frame,
    picker: Picker,
    period: String,
    formula: &'static str,
    tiles: Vec<Tile>,
    shares: Shares,
    legend: Legend,
    judged_otherwise: Option<String>,
    first: Lines,
    /// The other findings, in a line, and the page of all.
    others: Option<(String, Link)>,
    outlook: Outlook,
    nodes: Vec<Node>,
    table: Table,
    api: String,
    /// What asks the API for all of the period.
    hours: String,
    judged_until: Option<String>,
    /// From when until when there is data, and the day that it ends on; where the period has none.
    newest: Option<(String, Link)>,
    sources: usize,
    zone: String,
}

/// A row.
struct Node {
    cluster: Option<String>,
    name: String,
    href: String,
    gpus: usize,
    hours: String,
    goodput: String,
    shares: Shares,
    greatest_loss: Option<(&'static str, String)>,
}

pub(super) async fn page<S: Embedded>(
    State(app): State<App<S>>,
    Query(query): Query<PeriodQuery>,
    Query(part): Query<PartQuery>,
    Query(wanted): Query<Wanted>,
    Query(fields): Query<Fields>,
) -> Page {
    let chosen = Chosen::of(&query, (app.now)(), &app.zone)?;
    let items = items(&app.store, &chosen.range(), &app.terms.prices).await?;
    let ledger = Ledger::of(&items);
    let newest = if items.is_empty() { newest(&app, &chosen).await? } else { None };
    let losses = Losses::of(&items, None, ledger.capacity().ms);
    let losses = losses.with_ownership(&app.book().await?, chosen.start_ms, ((app.now)(), &app.zone));
    let progress = app.progress.borrow();
    let mut nodes =
        by_loss(&items, |item| holds(&item.node, &wanted.node).then(|| Place::new(&item.cluster, &item.node)));
    let on = On { path: "/", chosen: &chosen, fields: [("node", "node", &wanted.node)], others: fields.kept() };
    let table = Table::of(on, &part, &mut nodes, &COLUMNS, key)?;
    let of = |id| Of { path: "/", fields: &fields, id };
    let shares = Shares::of(&ledger);
    show(&Fleet {
        newest,
        frame: Frame::new("Fleet", Vec::new(), chosen.is_open()),
        picker: Picker::of(&chosen, "/").keeping(table.kept.clone()).comparing(&chosen, None, None),
        period: chosen.show(),
        formula: FORMULA,
        tiles: tiles(&ledger),
        legend: shares.legend(of("classes"))?,
        shares,
        judged_otherwise: judged_otherwise(items.iter().map(Item::interval), &chosen.clock),
        first: Lines::viewed(&losses, &losses.groups[..losses.groups.len().min(FIRST)], &chosen, of("first"))?,
        others: others(&losses, &chosen),
        outlook: Outlook::of(&progress, &Names::of_all(&app.store), &chosen, of("due"))?,
        nodes: nodes[table.part.rows.clone()].iter().map(|node| row(node, &chosen)).collect(),
        table,
        api: format!("by=node&{}", chosen.hours_query()),
        hours: chosen.hours_query(),
        judged_until: progress.judged_until_ms.map(|time| chosen.clock.show(time)),
        sources: app.intake.account().last_sample.len(),
        zone: chosen.clock.zone_name(),
    })
}

/// What the table is sorted by.
fn key(counted: &Counted<'_, Place<'_>>, column: &str) -> Key {
    let Counted { key: Place { node, .. }, gpus, ledger, .. } = counted;
    match column {
        "node" => Key::Text((*node).to_owned()),
        "gpus" => Key::count(gpus.len()),
        "hours" => Key::number(ledger.capacity().ms),
        "goodput" => Key::ratio(ledger.goodput()),
        _ => Key::number(ledger.lost().gpu_ms),
    }
}

/// The findings that are not among the first.
fn others(losses: &Losses, chosen: &Chosen) -> Option<(String, Link)> {
    let more = losses.groups.len().checked_sub(FIRST).filter(|more| *more > 0)?;
    let lost = losses.lost_after(FIRST).hours();
    let findings = if more == 1 { "1 more finding".to_owned() } else { format!("{more} more findings") };
    let all = Link::new(format!("/findings?{}", chosen.query), "All findings");
    Some((format!("{findings}, {lost} GPU-hours."), all))
}

/// Where there is data, while the chosen period has none.
async fn newest<S: Results>(app: &App<S>, chosen: &Chosen) -> Result<Option<(String, Link)>, Problem> {
    let extent = app.store.extent().await?;
    Ok(extent.map(|extent| {
        let (start, end) = (chosen.clock.show(extent.start), chosen.clock.show(extent.end));
        let hour = extent.end - 1 - chosen.clock.past_hour(extent.end - 1) + HOUR_MS;
        let day = hour - 24 * HOUR_MS..hour;
        (
            format!("Data reaches from {start} to {end}, {}.", chosen.clock.zone_name()),
            chosen.to("/", &day, "the newest day with data"),
        )
    }))
}

fn row(counted: &Counted<'_, Place<'_>>, chosen: &Chosen) -> Node {
    let Counted { key: Place { cluster, node: name }, gpus, ledger, .. } = counted;
    let capacity = ledger.capacity().ms;
    Node {
        cluster: cluster.map(str::to_owned),
        name: (*name).to_owned(),
        href: format!("{}?{}", link::node(*cluster, name), chosen.query),
        gpus: gpus.len(),
        hours: Amount::of(capacity, capacity).hours(),
        goodput: text::percent(ledger.goodput()),
        shares: Shares::of(ledger),
        greatest_loss: greatest_loss(ledger),
    }
}
