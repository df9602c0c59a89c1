//! `/`: what to do now: the first findings, what runs out soon, GPUs that may fail, and then the fleet, node by node.

use askama::Template;
use axum::extract::{Query, State};

use super::chosen::{Chosen, PeriodQuery};
use super::clock::HOUR_MS;
use super::counted::{Counted, by_loss};
use super::finding::Lines;
use super::link;
use super::outlook::Outlook;
use super::page::{Frame, Link, Page, Problem, show};
use super::part::{Part, PartQuery};
use super::picker::Picker;
use super::share::{Shares, Tile, greatest_loss, judged_otherwise, tiles};
use crate::app::App;
use crate::report::{Amount, FORMULA, Item, Ledger, Losses, Names, items, text};
use goodput_store::{Place, Results, Samples};

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
    judged_otherwise: Option<String>,
    first: Lines,
    /// The other findings, in a line, and the page of all.
    others: Option<(String, Link)>,
    outlook: Outlook,
    nodes: Vec<Node>,
    part: Part,
    api: String,
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

pub(super) async fn page<S: Samples + Results>(
    State(app): State<App<S>>,
    Query(query): Query<PeriodQuery>,
    Query(part): Query<PartQuery>,
) -> Page {
    let chosen = Chosen::of(&query, (app.now)(), &app.zone)?;
    let items = items(&app.store, &chosen.range(), &app.pricing.prices).await?;
    let ledger = Ledger::of(&items);
    let newest = if items.is_empty() { newest(&app, &chosen).await? } else { None };
    let losses = Losses::of(&items, None, ledger.capacity().ms);
    let progress = app.progress.borrow();
    let nodes = by_loss(&items, |item| Some(Place::new(&item.cluster, &item.node)));
    let part = Part::of(&part, nodes.len(), &format!("/?{}", chosen.query))?;
    show(&Fleet {
        newest,
        frame: Frame::new("Fleet", Vec::new(), chosen.is_open()),
        picker: Picker::of(&chosen, "/").comparing(&chosen, None, None),
        period: chosen.show(),
        formula: FORMULA,
        tiles: tiles(&ledger),
        shares: Shares::of(&ledger),
        judged_otherwise: judged_otherwise(items.iter().map(Item::interval), &chosen.clock),
        first: Lines::of(&losses, &losses.groups[..losses.groups.len().min(FIRST)], &chosen),
        others: others(&losses, &chosen),
        outlook: Outlook::of(&progress, &Names::of_all(&app.store), &chosen),
        nodes: nodes[part.rows.clone()].iter().map(|node| row(node, &chosen)).collect(),
        part,
        api: format!("by=node&{}", chosen.hours_query()),
        judged_until: progress.judged_until_ms.map(|time| chosen.clock.show(time)),
        sources: app.intake.account().last_sample.len(),
        zone: chosen.clock.zone_name(),
    })
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
