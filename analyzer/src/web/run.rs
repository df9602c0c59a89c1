//! `/runs/{run}` and `/clusters/{cluster}/runs/{run}`: what a run held, what came of it, and how it went.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, Query, State};

use super::attempts::{Attempts, attempts};
use super::axis::{Tick, ticks};
use super::chosen::{Chosen, PeriodQuery};
use super::finding::Lines;
use super::link;
use super::page::{Frame, Link, Page, Problem, show};
use super::picker::Picker;
use super::share::{Legend, Shares, Tile, held_tiles, judged_otherwise};
use super::stretch::stretches;
use super::strip::{Mark, marks, resolution};
use super::view::{Fields, Of};
use crate::app::App;
use crate::report::site::escaped;
use crate::report::{Ledger, Losses, Names, Summed, recall_clusters, runs, text};
use goodput_store::{Results, Samples, StoreError, Whose};
use goodput_verdict::{Class, Group, Interval};

/// Lanes of the timeline; a wider run has the GPUs that lost most.
const MAX_LANES: usize = 32;

#[derive(Template)]
#[template(path = "web/run.html")]
struct Run {
    frame: Frame,
    name: String,
    cluster: Option<String>,
    account: Option<String>,
    picker: Picker,
    period: String,
    tiles: Vec<Tile>,
    legend: Legend,
    judged_otherwise: Option<String>,
    findings: Lines,
    gpus: Vec<Gpu>,
    more_gpus: usize,
    ticks: Vec<Tick>,
    resolution: String,
    attempts: Vec<Attempts>,
    api: String,
    /// What asks the API for its findings, its classes and its attempts.
    findings_api: String,
    summary_api: String,
    attempts_api: String,
}

/// A lane of the timeline.
struct Gpu {
    uuid: String,
    link: Link,
    node: Link,
    held: String,
    goodput: String,
    marks: Vec<Mark>,
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
    let intervals = held(app, cluster.as_deref(), &name, &chosen).await?;
    let path = link::run(cluster.as_deref(), &name);
    let Some(first) = intervals.first() else {
        let what = format!("No GPU time of {name} is stored from {}", chosen.show());
        let advice = "Choose another period, or find the run in the list of runs: it may have another name.";
        let all = Link::new(format!("/runs?{}", chosen.query), "All runs of this period");
        return Err(Problem::missing(what, advice, chosen.choices(&path).into_iter().chain([all]).collect()));
    };
    let history = app.store.history(chosen.range()).await?;
    let items = Summed::of(&intervals, &app.terms.prices);
    let ledger = Ledger::of(&items);
    let losses = Losses::of(&items, None, ledger.capacity().ms);
    let (gpus, more_gpus) = gpus(&intervals, &Names::of_all(&app.store), &chosen);
    let of = |id| Of { path: &path, fields, id };
    let named = format!("run={}&{}", escaped(&name), chosen.hours_query());
    show(&Run {
        frame: Frame::new(
            format!("Run {name}"),
            vec![chosen.fleet(), Link::new(format!("/runs?{}", chosen.query), "Runs")],
            chosen.is_open(),
        ),
        account: first.account.clone(),
        picker: Picker::of(&chosen, &path).keeping(fields.kept()),
        period: chosen.show(),
        tiles: held_tiles(&ledger, gpus.len() + more_gpus),
        legend: Shares::of(&ledger).legend(of("classes"))?,
        judged_otherwise: judged_otherwise(&intervals, &chosen.clock),
        findings: Lines::viewed(&losses, &losses.groups, &chosen, of("findings"))?.without_members(),
        gpus,
        more_gpus,
        ticks: ticks(&chosen.range(), &chosen.clock),
        resolution: resolution(&chosen),
        api: api(first, &name, &chosen),
        attempts: attempts(&runs::of(&history, &intervals, &chosen.range()), &chosen.clock, of("attempts"))?,
        summary_api: format!("by=class&{named}"),
        attempts_api: chosen.hours_query(),
        findings_api: named,
        cluster,
        name,
    })
}

/// The time that the run held: that of its ranks, or of the owner of this name, where that is of no run.
async fn held<S: Results>(
    app: &App<S>,
    cluster: Option<&str>,
    name: &str,
    chosen: &Chosen,
) -> Result<Vec<Interval>, StoreError> {
    let of_run = Whose { run: Some(name.to_owned()), ..Whose::default() };
    let of_owner = Whose { owner: Some(name.to_owned()), ..Whose::default() };
    let mut intervals = app.store.intervals_of(chosen.range(), &of_run).await?;
    let of_owner = app.store.intervals_of(chosen.range(), &of_owner).await?;
    intervals.extend(of_owner.into_iter().filter(|i| i.run.is_none()));
    recall_clusters(&mut intervals);
    intervals.retain(|i| i.class.group() != Group::Capacity && (cluster.is_none() || i.cluster.as_deref() == cluster));
    Ok(intervals)
}

/// What asks the API for the run's.
fn api(one: &Interval, name: &str, chosen: &Chosen) -> String {
    let whose = if one.run.is_some() { "run" } else { "owner" };
    format!("{whose}={}&{}", escaped(name), chosen.hours_query())
}

/// The GPUs, the greatest loss first, and how many are left out.
fn gpus(intervals: &[Interval], names: &Names, chosen: &Chosen) -> (Vec<Gpu>, usize) {
    let mut by_gpu: BTreeMap<&str, Vec<&Interval>> = BTreeMap::new();
    intervals.iter().for_each(|i| by_gpu.entry(&i.gpu).or_default().push(i));
    let lost = |intervals: &[&Interval]| -> i64 {
        intervals.iter().filter(|i| i.class != Class::Productive).map(|i| i.ms).sum()
    };
    let mut all: Vec<(&str, Vec<&Interval>)> = by_gpu.into_iter().collect();
    all.sort_by_key(|(_, intervals)| std::cmp::Reverse(lost(intervals)));
    let more = all.len().saturating_sub(MAX_LANES);
    (all.into_iter().take(MAX_LANES).map(|(uuid, intervals)| gpu(uuid, &intervals, names, chosen)).collect(), more)
}

fn gpu(uuid: &str, intervals: &[&Interval], names: &Names, chosen: &Chosen) -> Gpu {
    let ledger = Ledger::unpriced(intervals.iter().copied());
    let (cluster, node) = (intervals[0].cluster.as_deref(), &intervals[0].node);
    Gpu {
        uuid: uuid.to_owned(),
        link: Link::new(format!("{}?{}", link::gpu(uuid), chosen.query), names.short(uuid)),
        node: Link::new(format!("{}?{}", link::node(cluster, node), chosen.query), node),
        held: text::hours(ledger.capacity().ms),
        goodput: text::percent(ledger.goodput()),
        marks: marks(&stretches(intervals.iter().copied()), uuid, chosen),
    }
}
