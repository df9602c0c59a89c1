//! `/search?q=`: nodes, GPUs, runs, owners and accounts by part of their name. What was judged last is in memory and is
//! searched as a whole; what ended before is found by its whole name.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::chosen::{Chosen, MAX_DAYS};
use super::clock::{Clock, HOUR_MS, instant};
use super::link;
use super::page::{Frame, Link, Page, show};
use crate::app::{App, Progress};
use crate::report::Names;
use crate::report::site::escaped;
use goodput_store::{Results, Samples, StoreError, Whose};
use goodput_verdict::Interval;

/// Hits of each kind that are shown.
const MAX_HITS: usize = 20;
/// A longer text is no name.
const MAX_LENGTH: usize = 200;

/// The field of the query.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    q: String,
}

#[derive(Template)]
#[template(path = "web/search.html")]
struct Search {
    frame: Frame,
    asked: String,
    found: Vec<Hits>,
    /// Since when whole names were searched.
    since: String,
}

/// What was found of one kind.
struct Hits {
    kind: &'static str,
    links: Vec<Link>,
    more: usize,
}

/// Cluster and name of a node.
type Node<'a> = (Option<&'a str>, &'a str);

/// What can be found.
#[derive(Default)]
struct Known<'a> {
    nodes: BTreeSet<Node<'a>>,
    /// UUID and node.
    gpus: BTreeSet<(&'a str, &'a str)>,
    /// Cluster and name.
    runs: BTreeSet<(Option<&'a str>, &'a str)>,
    /// Name, cluster and run.
    owners: BTreeSet<(&'a str, Option<&'a str>, &'a str)>,
    accounts: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    fn of(intervals: impl Iterator<Item = &'a Interval>) -> Self {
        let mut known = Self::default();
        for i in intervals {
            let cluster = i.cluster.as_deref();
            known.nodes.insert((cluster, &i.node));
            known.gpus.insert((&i.gpu, &i.node));
            known.runs.extend(i.holder().map(|run| (cluster, run)));
            let owner = i.owner.as_deref().zip(i.run.as_deref()).filter(|(owner, run)| owner != run);
            known.owners.extend(owner.map(|(owner, run)| (owner, cluster, run)));
            known.accounts.extend(i.account.as_deref());
        }
        known
    }
}

pub(super) async fn page<S: Samples + Results>(State(app): State<App<S>>, Query(Asked { q }): Query<Asked>) -> Page {
    let now = (app.now)();
    let asked: String = q.trim().chars().take(MAX_LENGTH).collect();
    let recent = Chosen::of(&Default::default(), now, &app.zone)?;
    let mut found = Vec::new();
    if !asked.is_empty() {
        let names = Names::of_all(&app.store);
        found = hits(&recently(&app.progress.borrow()), &asked, &names, &recent.query);
    }
    if found.is_empty() && !asked.is_empty() {
        found = earlier(&app, &asked, now).await?;
    }
    let clock = Clock { zone: app.zone.clone() };
    show(&Search {
        frame: Frame::new("Search", vec![Link::new("/", "Fleet")], false),
        since: clock.format(now - MAX_DAYS * 24 * HOUR_MS, "%Y-%m-%d"),
        asked,
        found,
    })
}

/// The last hour and minutes that are judged.
fn recently(progress: &Progress) -> Known<'_> {
    Known::of(progress.last_hour.iter().chain(&progress.last_minutes))
}

/// What has the text in its name; GPUs by the beginning of their UUID, or as `3@node`.
fn hits(known: &Known<'_>, asked: &str, names: &Names, query: &str) -> Vec<Hits> {
    let asked = asked.to_lowercase();
    let has = |name: &str| name.to_lowercase().contains(&asked);
    let to = |path: String, text: String| Link::new(format!("{path}?{query}"), text);
    let within = |cluster: Option<&str>| cluster.map_or_else(String::new, |cluster| format!(" in {cluster}"));
    let nodes = known.nodes.iter().filter(|(_, name)| has(name));
    let gpus = known.gpus.iter().filter(|(uuid, node)| is_gpu(&asked, uuid, node, names));
    let runs = known.runs.iter().filter(|(_, name)| has(name));
    let owners = known.owners.iter().filter(|(owner, ..)| has(owner));
    let accounts = known.accounts.iter().filter(|account| has(account));
    let all = [
        first("Nodes", nodes.map(|(c, name)| to(link::node(*c, name), format!("{name}{}", within(*c))))),
        first("GPUs", gpus.map(|(uuid, node)| to(link::gpu(uuid), format!("{}, {uuid}", names.on_node(node, uuid))))),
        first("Runs", runs.map(|(c, name)| to(link::run(*c, name), format!("{name}{}", within(*c))))),
        first("Owners", owners.map(|(owner, c, run)| to(link::run(*c, run), format!("{owner}, of the run {run}")))),
        first("Accounts", accounts.map(|account| account_link(account, query))),
    ];
    all.into_iter().filter(|hits| !hits.links.is_empty()).collect()
}

fn first(kind: &'static str, links: impl Iterator<Item = Link>) -> Hits {
    let mut all: Vec<Link> = links.collect();
    let more = all.len().saturating_sub(MAX_HITS);
    all.truncate(MAX_HITS);
    Hits { kind, links: all, more }
}

fn is_gpu(asked: &str, uuid: &str, node: &str, names: &Names) -> bool {
    if let Some((index, on)) = asked.split_once('@') {
        return names.index(uuid) == Some(index) && node.to_lowercase().starts_with(on);
    }
    let uuid = uuid.to_lowercase();
    asked.len() >= 2 && (uuid.starts_with(asked) || uuid.strip_prefix("gpu-").is_some_and(|id| id.starts_with(asked)))
}

fn account_link(account: &str, query: &str) -> Link {
    Link::new(format!("/runs?{query}&account={}", escaped(account)), account)
}

/// What has exactly this name and ended before: over the day after it was first seen.
async fn earlier<S: Results>(app: &App<S>, asked: &str, now: i64) -> Result<Vec<Hits>, StoreError> {
    let range = now - MAX_DAYS * 24 * HOUR_MS..now;
    let name = || Some(asked.to_owned());
    let all = [
        ("Nodes", Whose { node: name(), ..Whose::default() }),
        ("GPUs", Whose { gpu: name(), ..Whose::default() }),
        ("Runs", Whose { run: name(), ..Whose::default() }),
        ("Owners", Whose { owner: name(), ..Whose::default() }),
    ];
    let mut found = Vec::new();
    for (kind, whose) in all {
        let one = app.store.intervals_of(range.clone(), &Whose { limit: Some(1), ..whose }).await?;
        let Some(interval) = one.first() else { continue };
        let hour = interval.start_ms.div_euclid(HOUR_MS) * HOUR_MS;
        let day = Chosen::hours(&(hour..hour + 24 * HOUR_MS), now, Clock { zone: app.zone.clone() });
        let cluster = interval.cluster.as_deref();
        let path = match kind {
            "Nodes" => link::node(cluster, asked),
            "GPUs" => link::gpu(asked),
            _ => link::run(cluster, interval.holder().unwrap_or(asked)),
        };
        let seen = instant(interval.start_ms).to_zoned(app.zone.clone()).strftime("%Y-%m-%d").to_string();
        let link = Link::new(format!("{path}?{}", day.query), format!("{asked}, seen on {seen}"));
        found.push(Hits { kind, links: vec![link], more: 0 });
    }
    Ok(found)
}
