//! `/`: the fleet, node by node.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use axum::extract::{Query, State};

use super::chosen::{Chosen, PeriodQuery};
use super::clock::HOUR_MS;
use super::link;
use super::page::{Frame, Link, Page, Problem, show};
use super::share::{Shares, Tile, greatest_loss, judged_otherwise, tiles};
use crate::app::App;
use crate::report::{Amount, FORMULA, Item, Ledger, items, text};
use goodput_store::{Place, Results};

#[derive(Template)]
#[template(path = "web/fleet.html")]
struct Fleet {
    frame: Frame,
    periods: Vec<Link>,
    period: String,
    formula: &'static str,
    tiles: Vec<Tile>,
    shares: Shares,
    judged_otherwise: Option<String>,
    nodes: Vec<Node>,
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
    lost_ms: i64,
}

pub(super) async fn page<S: Results>(State(app): State<App<S>>, Query(query): Query<PeriodQuery>) -> Page {
    let chosen = Chosen::of(&query, (app.now)(), &app.zone)?;
    let items = items(&app.store, &chosen.range()).await?;
    let ledger = Ledger::of(&items);
    let newest = if items.is_empty() { newest(&app, &chosen).await? } else { None };
    show(&Fleet {
        newest,
        frame: Frame::new("Fleet", Vec::new(), chosen.is_open()),
        periods: chosen.choices("/"),
        period: chosen.show(),
        formula: FORMULA,
        tiles: tiles(&ledger),
        shares: Shares::of(&ledger),
        judged_otherwise: judged_otherwise(items.iter().map(Item::interval), &chosen.clock),
        nodes: nodes(&items, &chosen),
        judged_until: app.progress.borrow().judged_until_ms.map(|time| chosen.clock.show(time)),
        sources: app.intake.account().last_sample.len(),
        zone: chosen.clock.zone_name(),
    })
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

/// The nodes, greatest loss first.
fn nodes(items: &[Item<'_>], chosen: &Chosen) -> Vec<Node> {
    let mut by_node: BTreeMap<Place<'_>, Vec<&Item<'_>>> = BTreeMap::new();
    items.iter().for_each(|i| by_node.entry(Place::new(&i.cluster, &i.node)).or_default().push(i));
    let mut nodes: Vec<Node> = by_node.into_iter().map(|(place, items)| node(place, &items, chosen)).collect();
    nodes.sort_by_key(|node| std::cmp::Reverse(node.lost_ms));
    nodes
}

fn node(Place { cluster, node: name }: Place<'_>, items: &[&Item<'_>], chosen: &Chosen) -> Node {
    let ledger = Ledger::of(items.iter().copied());
    let capacity = ledger.capacity().ms;
    Node {
        cluster: cluster.map(str::to_owned),
        name: name.to_owned(),
        href: format!("{}?{}", link::node(cluster, name), chosen.query),
        gpus: items.iter().map(|i| &i.gpu).collect::<BTreeSet<_>>().len(),
        hours: Amount::of(capacity, capacity).hours(),
        goodput: text::percent(ledger.goodput()),
        shares: Shares::of(&ledger),
        greatest_loss: greatest_loss(&ledger),
        lost_ms: ledger.lost().gpu_ms,
    }
}
