//! `/runs`: who held GPUs in a period.

use askama::Template;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::chosen::{Chosen, PeriodQuery};
use super::counted::{Counted, by_loss};
use super::kept::{Kept, given};
use super::link;
use super::page::{Frame, Link, Page, show};
use super::part::PartQuery;
use super::picker::Picker;
use super::share::{Shares, greatest_loss};
use super::sorted::Key as SortKey;
use super::table::{On, Table, holds};
use crate::app::App;
use crate::report::{Item, Ledger, has_one_price, items, text};
use goodput_store::Results;
use goodput_verdict::Group;

/// Which runs are wanted.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Wanted {
    account: Option<String>,
    /// A part of the name.
    run: Option<String>,
}

/// What runs are sorted by; the first is how they are counted, the last where all has one price.
pub(super) const COLUMNS: [&str; 6] = ["loss", "run", "gpus", "held", "productive", "cost"];

#[derive(Template)]
#[template(path = "web/runs.html")]
struct Runs {
    frame: Frame,
    picker: Picker,
    period: String,
    account: Option<String>,
    rows: Vec<Row>,
    table: Table,
    api: String,
    has_money: bool,
}

/// A run: a job, or an owner that is none's.
pub(super) struct Row {
    pub(super) link: Link,
    /// Its cluster and account, where known.
    pub(super) part_of: Vec<String>,
    pub(super) gpus: usize,
    pub(super) held: String,
    pub(super) cost: String,
    pub(super) goodput: String,
    pub(super) shares: Shares,
    pub(super) greatest_loss: Option<(&'static str, String)>,
}

/// Cluster and name.
pub(super) type Key<'a> = (Option<&'a str>, &'a str);

pub(super) async fn page<S: Results>(
    State(app): State<App<S>>,
    Query(query): Query<PeriodQuery>,
    Query(part): Query<PartQuery>,
    Query(Wanted { account, run }): Query<Wanted>,
) -> Page {
    let chosen = Chosen::of(&query, (app.now)(), &app.zone)?;
    let items = items(&app.store, &chosen.range(), &app.terms.prices).await?;
    let account = given(&account).map(str::to_owned);
    let is_wanted = |item: &&Item<'_>| account.is_none() || item.account == account;
    let named = |key: &Key<'_>| holds(key.1, &run);
    let mut runs = by_loss(&items, |item| Some(item).filter(is_wanted).and_then(key).filter(named));
    let of_account = Kept::of([("account", &account)]).query();
    let fields = [("run", "run", &run), ("account", "account", &account)];
    let by_money = has_one_price(runs.iter().map(|run| run.ledger.lost()));
    let columns = if by_money { &COLUMNS[..] } else { &COLUMNS[..COLUMNS.len() - 1] };
    let on = On { path: "/runs", chosen: &chosen, fields, others: Kept::default() };
    let table = Table::of(on, &part, &mut runs, columns, order)?;
    show(&Runs {
        frame: Frame::new("Runs", vec![chosen.fleet()], chosen.is_open()),
        picker: Picker::of(&chosen, "/runs").keeping(table.kept.clone()).comparing(&chosen, None, None),
        period: chosen.show(),
        account,
        has_money: !Ledger::of(&items).lost().cost.is_empty(),
        api: format!("by=run&{}{of_account}", chosen.hours_query()),
        rows: runs[table.part.rows.clone()].iter().map(|run| row(run, &chosen)).collect(),
        table,
    })
}

/// What the table is sorted by.
pub(super) fn order(Counted { key: (_, name), gpus, ledger, .. }: &Counted<'_, Key<'_>>, column: &str) -> SortKey {
    match column {
        "run" => SortKey::Text((*name).to_owned()),
        "gpus" => SortKey::count(gpus.len()),
        "held" => SortKey::number(ledger.capacity().ms),
        "productive" => SortKey::ratio(ledger.goodput()),
        "cost" => SortKey::number(ledger.lost().cost.first().map(|cost| cost.micros)),
        _ => SortKey::number(ledger.lost().gpu_ms),
    }
}

/// Time that a run held.
pub(super) fn key<'a>(item: &'a Item<'_>) -> Option<Key<'a>> {
    let held = Some(item).filter(|item| item.class.group() != Group::Capacity)?;
    Some((held.cluster.as_deref(), held.holder()?))
}

pub(super) fn row(Counted { key: (cluster, name), gpus, ledger, item }: &Counted<'_, Key<'_>>, chosen: &Chosen) -> Row {
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
