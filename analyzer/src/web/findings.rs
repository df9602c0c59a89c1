//! `/findings`: what was lost in a period, by cost, with the evidence of each.

use askama::Template;
use axum::extract::{Query, State};

use super::chosen::{Chosen, PeriodQuery};
use super::finding::Lines;
use super::page::{Frame, Link, Page, show};
use super::part::{Part, PartQuery};
use super::picker::Picker;
use super::share::{Tile, tiles};
use crate::app::App;
use crate::report::{Ledger, Losses, items};
use goodput_store::Results;

#[derive(Template)]
#[template(path = "web/findings.html")]
struct Findings {
    frame: Frame,
    picker: Picker,
    period: String,
    tiles: Vec<Tile>,
    all: Lines,
    part: Part,
    /// The report of the week, where the period is one.
    report: Option<Link>,
    api: String,
}

pub(super) async fn page<S: Results>(
    State(app): State<App<S>>,
    Query(query): Query<PeriodQuery>,
    Query(part): Query<PartQuery>,
) -> Page {
    let chosen = Chosen::of(&query, (app.now)(), &app.zone)?;
    let items = items(&app.store, &chosen.range(), &app.pricing.prices).await?;
    let ledger = Ledger::of(&items);
    let losses = Losses::of(&items, None, ledger.capacity().ms);
    let part = Part::of(&part, losses.groups.len(), &format!("/findings?{}", chosen.query))?;
    show(&Findings {
        frame: Frame::new("Findings", vec![chosen.fleet()], chosen.is_open()),
        picker: Picker::of(&chosen, "/findings").comparing(&chosen, None, None),
        period: chosen.show(),
        tiles: tiles(&ledger),
        all: Lines::of(&losses, &losses.groups[part.rows.clone()], &chosen),
        part,
        api: chosen.week().map_or_else(|| chosen.hours_query(), |week| format!("week={week}")),
        report: chosen.week().map(|week| Link::new(format!("/report?week={week}"), format!("The report of {week}"))),
    })
}
