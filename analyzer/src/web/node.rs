//! `/nodes/{node}` and `/clusters/{cluster}/nodes/{node}`: a node, GPU by GPU.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, Query, State};

use super::axis::{Tick, ticks};
use super::chosen::{Chosen, PeriodQuery};
use super::link;
use super::page::{Frame, Page, Problem, show};
use super::picker::Picker;
use super::share::{Legend, Shares, Tile, greatest_loss, judged_otherwise, tiles};
use super::sorted::Key;
use super::stretch::stretches;
use super::strip::{Mark, marks, resolution};
use super::view::{Fields, Of, View};
use crate::app::App;
use crate::report::site::escaped;
use crate::report::{Amount, Ledger, Names, recall_clusters, text};
use goodput_store::{Results, Samples, Whose};
use goodput_verdict::{Class, Group, Interval};

#[derive(Template)]
#[template(path = "web/node.html")]
struct Node {
    frame: Frame,
    name: String,
    cluster: Option<String>,
    picker: Picker,
    period: String,
    tiles: Vec<Tile>,
    legend: Legend,
    judged_otherwise: Option<String>,
    gpus: Vec<Gpu>,
    ticks: Vec<Tick>,
    resolution: String,
    api: String,
    owners: Vec<Owner>,
    owners_view: View,
}

/// A lane of the timeline.
struct Gpu {
    uuid: String,
    name: String,
    model: String,
    href: String,
    goodput: String,
    marks: Vec<Mark>,
}

/// Who held GPUs of the node.
struct Owner {
    name: String,
    /// The page of its run.
    href: Option<String>,
    /// Its run, where that has another name, and the account that its time counts to, where known.
    part_of: Vec<String>,
    hours: String,
    goodput: String,
    shares: Shares,
    greatest_loss: Option<(&'static str, String)>,
}

pub(super) async fn page<S: Samples + Results>(
    State(app): State<App<S>>,
    Path(name): Path<String>,
    Query(query): Query<PeriodQuery>,
    Query(fields): Query<Fields>,
) -> Page {
    render(&app, None, name, (&query, &fields)).await
}

pub(super) async fn page_within<S: Samples + Results>(
    State(app): State<App<S>>,
    Path((cluster, name)): Path<(String, String)>,
    Query(query): Query<PeriodQuery>,
    Query(fields): Query<Fields>,
) -> Page {
    render(&app, Some(cluster), name, (&query, &fields)).await
}

async fn render<S: Samples + Results>(
    app: &App<S>,
    cluster: Option<String>,
    name: String,
    (query, fields): (&PeriodQuery, &Fields),
) -> Page {
    let chosen = Chosen::of(query, (app.now)(), &app.zone)?;
    let mut intervals = app.store.intervals_of(chosen.range(), &Whose::node(&name)).await?;
    recall_clusters(&mut intervals);
    intervals.retain(|i| cluster.is_none() || i.cluster == cluster);
    let path = link::node(cluster.as_deref(), &name);
    if intervals.is_empty() {
        let what = format!("No verdict is stored for node {name} from {}", chosen.show());
        let advice =
            "Choose another period, or find the node in the list of the fleet: it may have another name, or be silent.";
        return Err(Problem::missing(what, advice, chosen.choices(&path)));
    }
    let ledger = Ledger::unpriced(&intervals);
    let of = |id| Of { path: &path, fields, id };
    let (owners, owners_view) = owners(&intervals, &chosen, of("owners"))?;
    show(&Node {
        frame: Frame::new(format!("Node {name}"), vec![chosen.fleet()], chosen.is_open()),
        picker: Picker::of(&chosen, &path).keeping(fields.kept()).comparing(&chosen, Some(&name), cluster.as_ref()),
        period: chosen.show(),
        tiles: tiles(&ledger),
        legend: Shares::of(&ledger).legend(of("classes"))?,
        judged_otherwise: judged_otherwise(&intervals, &chosen.clock),
        gpus: gpus(&intervals, &Names::of_all(&app.store), &chosen),
        ticks: ticks(&chosen.range(), &chosen.clock),
        resolution: resolution(&chosen),
        api: api(cluster.as_deref(), &name, &chosen),
        owners,
        owners_view,
        cluster,
        name,
    })
}

/// What asks the API for the node's.
fn api(cluster: Option<&str>, name: &str, chosen: &Chosen) -> String {
    let within = cluster.map_or_else(String::new, |cluster| format!("&cluster={}", escaped(cluster)));
    format!("node={}{within}&{}", escaped(name), chosen.hours_query())
}

fn gpus(intervals: &[Interval], names: &Names, chosen: &Chosen) -> Vec<Gpu> {
    let mut by_gpu: BTreeMap<&str, Vec<&Interval>> = BTreeMap::new();
    intervals.iter().for_each(|i| by_gpu.entry(&i.gpu).or_default().push(i));
    let gpu = |(uuid, intervals): (&str, Vec<&Interval>)| Gpu {
        uuid: uuid.to_owned(),
        name: names.short(uuid),
        model: intervals.iter().find_map(|i| i.model.clone()).unwrap_or_else(|| "model unknown".to_owned()),
        href: format!("{}?{}", link::gpu(uuid), chosen.query),
        goodput: text::percent(Ledger::unpriced(intervals.iter().copied()).goodput()),
        marks: marks(&stretches(intervals), uuid, chosen),
    };
    let mut all: Vec<(&str, Vec<&Interval>)> = by_gpu.into_iter().collect();
    all.sort_by_key(|(uuid, _)| names.order(uuid));
    all.into_iter().map(gpu).collect()
}

fn part_of(interval: &Interval) -> Vec<String> {
    let run = interval.run.as_ref().filter(|run| Some(*run) != interval.owner.as_ref()).map(|run| format!("run {run}"));
    run.into_iter().chain(interval.account.as_ref().map(|account| format!("account {account}"))).collect()
}

/// Who held GPUs here, greatest loss first unless another order is asked for.
fn owners(intervals: &[Interval], chosen: &Chosen, of: Of<'_>) -> Result<(Vec<Owner>, View), Problem> {
    let mut by_owner: BTreeMap<Option<&str>, Vec<&Interval>> = BTreeMap::new();
    for interval in intervals.iter().filter(|i| i.class.group() != Group::Capacity) {
        by_owner.entry(interval.owner.as_deref()).or_default().push(interval);
    }
    let lost = |ledger: &Ledger<'_>| ledger.capacity().ms - ledger.get(Class::Productive).ms;
    let mut owners: Vec<(&str, &Interval, Ledger<'_>)> = by_owner
        .into_iter()
        .map(|(name, intervals)| (name.unwrap_or(text::UNKNOWN), intervals[0], Ledger::unpriced(intervals)))
        .collect();
    owners.sort_by_key(|(.., ledger)| std::cmp::Reverse(lost(ledger)));
    let key = |(name, _, ledger): &(&str, &Interval, Ledger<'_>), column: &str| match column {
        "owner" => Key::Text((*name).to_owned()),
        "held" => Key::number(ledger.capacity().ms),
        "productive" => Key::ratio(ledger.goodput()),
        _ => Key::number(lost(ledger)),
    };
    let text = |(name, one, _): &(&str, &Interval, Ledger<'_>)| format!("{name} {}", part_of(one).join(" "));
    let view = of.view(&mut owners, &["loss", "owner", "held", "productive"], key, text)?;
    Ok((owners.iter().map(|(name, one, ledger)| owner(name, one, ledger, chosen)).collect(), view))
}

fn owner(name: &str, one: &Interval, ledger: &Ledger<'_>, chosen: &Chosen) -> Owner {
    let held = ledger.capacity().ms;
    Owner {
        name: name.to_owned(),
        part_of: part_of(one),
        href: link::run_of(one, chosen),
        hours: Amount::of(held, held).hours(),
        goodput: text::percent(ledger.goodput()),
        shares: Shares::of(ledger),
        greatest_loss: greatest_loss(ledger),
    }
}
