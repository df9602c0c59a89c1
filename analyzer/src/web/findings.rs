//! `/findings`: what was lost in a period, by cost, with the evidence of each.

use askama::Template;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::chosen::{Chosen, PeriodQuery};
use super::finding::{Lines, columns, key};
use super::kept::{Kept, given};
use super::page::{Frame, Link, Page, show};
use super::part::PartQuery;
use super::picker::Picker;
use super::share::{Tile, tiles};
use super::table::{On, Table, holds};
use crate::app::App;
use crate::report::{FindingGroup, Ledger, Losses, items};
use goodput_store::Results;

/// Which findings are wanted, by parts of names.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Wanted {
    class: Option<String>,
    run: Option<String>,
    node: Option<String>,
}

#[derive(Template)]
#[template(path = "web/findings.html")]
struct Findings {
    frame: Frame,
    picker: Picker,
    period: String,
    tiles: Vec<Tile>,
    all: Lines,
    table: Table,
    /// The report of the week, where the period is one.
    report: Option<Link>,
    api: String,
}

pub(super) async fn page<S: Results>(
    State(app): State<App<S>>,
    Query(query): Query<PeriodQuery>,
    Query(part): Query<PartQuery>,
    Query(wanted): Query<Wanted>,
) -> Page {
    let chosen = Chosen::of(&query, (app.now)(), &app.zone)?;
    let items = items(&app.store, &chosen.range(), &app.terms.prices).await?;
    let ledger = Ledger::of(&items);
    let losses = Losses::of(&items, None, ledger.capacity().ms);
    let losses = losses.with_ownership(&app.book().await?, chosen.start_ms, ((app.now)(), &app.zone));
    let mut groups: Vec<FindingGroup> =
        losses.groups.iter().filter(|group| wanted.has(group, &losses)).cloned().collect();
    let fields = [("class", "class", &wanted.class), ("run", "run", &wanted.run), ("node", "node", &wanted.node)];
    let on = On { path: "/findings", chosen: &chosen, fields, others: Kept::default() };
    let key = |group: &FindingGroup, column: &str| key(&losses, group, column);
    let mut table = Table::of(on, &part, &mut groups, columns(&losses), key)?;
    show(&Findings {
        frame: Frame::new("Findings", vec![chosen.fleet()], chosen.is_open()),
        picker: Picker::of(&chosen, "/findings").keeping(table.kept.clone()).comparing(&chosen, None, None),
        period: chosen.show(),
        tiles: tiles(&ledger),
        all: Lines {
            heads: std::mem::take(&mut table.heads),
            ..Lines::of(&losses, &groups[table.part.rows.clone()], &chosen)
        },
        table,
        api: chosen.week().map_or_else(|| chosen.hours_query(), |week| format!("week={week}")),
        report: chosen.week().map(|week| Link::new(format!("/report?week={week}"), format!("The report of {week}"))),
    })
}

impl Wanted {
    /// A group is, where one of its findings is.
    fn has(&self, group: &FindingGroup, losses: &Losses) -> bool {
        let is_class = holds(group.class.name(), &self.class) || holds(group.class.title(), &self.class);
        is_class
            && group.findings.iter().filter_map(|n| losses.findings.get(*n)).any(|finding| {
                let is_run = holds(finding.owner.as_deref().unwrap_or_default(), &self.run);
                is_run && (given(&self.node).is_none() || finding.places.iter().any(|p| holds(&p.node, &self.node)))
            })
    }
}
