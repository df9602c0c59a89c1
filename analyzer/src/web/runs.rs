//! `/runs`: who held GPUs in a period.

use askama::Template;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::chosen::{Chosen, PeriodQuery};
use super::counted::{Counted, by_loss};
use super::link;
use super::page::{Frame, Link, Page, show};
use super::part::{Part, PartQuery};
use super::picker::Picker;
use super::share::{Shares, greatest_loss};
use crate::app::App;
use crate::report::site::escaped;
use crate::report::{Item, Ledger, items, text};
use goodput_store::Results;
use goodput_verdict::Group;

/// Which runs are wanted.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Wanted {
    account: Option<String>,
}

#[derive(Template)]
#[template(path = "web/runs.html")]
struct Runs {
    frame: Frame,
    picker: Picker,
    period: String,
    account: Option<String>,
    rows: Vec<Row>,
    part: Part,
    api: String,
    has_money: bool,
}

/// A run: a job, or an owner that is none's.
struct Row {
    link: Link,
    /// Its cluster and account, where known.
    part_of: Vec<String>,
    gpus: usize,
    held: String,
    cost: String,
    goodput: String,
    shares: Shares,
    greatest_loss: Option<(&'static str, String)>,
}

/// Cluster and name.
type Key<'a> = (Option<&'a str>, &'a str);

pub(super) async fn page<S: Results>(
    State(app): State<App<S>>,
    Query(query): Query<PeriodQuery>,
    Query(part): Query<PartQuery>,
    Query(Wanted { account }): Query<Wanted>,
) -> Page {
    let chosen = Chosen::of(&query, (app.now)(), &app.zone)?;
    let items = items(&app.store, &chosen.range(), &app.pricing.prices).await?;
    let is_wanted = |item: &&Item<'_>| account.is_none() || item.account == account;
    let runs = by_loss(&items, |item| Some(item).filter(is_wanted).and_then(key));
    let of_account = account.as_ref().map_or(String::new(), |account| format!("&account={}", escaped(account)));
    let part = Part::of(&part, runs.len(), &format!("/runs?{}{of_account}", chosen.query))?;
    show(&Runs {
        frame: Frame::new("Runs", vec![chosen.fleet()], chosen.is_open()),
        picker: Picker::of(&chosen, "/runs").comparing(&chosen, None, None),
        period: chosen.show(),
        account,
        has_money: !Ledger::of(&items).lost().cost.is_empty(),
        api: format!("by=run&{}{of_account}", chosen.hours_query()),
        rows: runs[part.rows.clone()].iter().map(|run| row(run, &chosen)).collect(),
        part,
    })
}

/// Time that a run held.
fn key<'a>(item: &'a Item<'_>) -> Option<Key<'a>> {
    let held = Some(item).filter(|item| item.class.group() != Group::Capacity)?;
    Some((held.cluster.as_deref(), held.holder()?))
}

fn row(Counted { key: (cluster, name), gpus, ledger, item }: &Counted<'_, Key<'_>>, chosen: &Chosen) -> Row {
    let account = item.account.as_ref().map(|account| format!("account {account}"));
    let held = ledger.capacity();
    Row {
        link: Link::new(format!("{}?{}", link::run(*cluster, name), chosen.query), *name),
        part_of: cluster.map(|cluster| format!("cluster {cluster}")).into_iter().chain(account).collect(),
        gpus: gpus.len(),
        held: text::hours(held.ms),
        cost: ledger.lost().money(),
        goodput: text::percent(ledger.goodput()),
        shares: Shares::of(ledger),
        greatest_loss: greatest_loss(ledger),
    }
}
