//! Runs, by what their jobs told.

use super::parameters::{CURSOR, LIMIT, Parameter};
use super::query::Asked;
use super::results::MAX_HOURS;
use super::route::Route;
use super::table::Table;
use super::{Answer, Page};
use crate::app::App;
use crate::report::{Run, runs};
use goodput_store::Results;

const RUN: Parameter = Parameter::new::<String>("run", "Only runs of this name.");
const CLUSTER: Parameter = Parameter::new::<String>("cluster", "Only runs of this cluster.");

pub(super) fn routes<S: Results + Clone + 'static>(table: Table<S>) -> Table<S> {
    table.get(
        Route::new("/runs", "Runs by what their jobs told").hours(MAX_HOURS).asks(&[RUN, CLUSTER, LIMIT, CURSOR]),
        list,
    )
}

async fn list<S: Results>(app: App<S>, asked: Asked) -> Answer<Page<Run>> {
    let range = asked.range((app.now)(), &app.zone)?;
    let history = app.store.history(range.clone()).await?;
    let intervals = if history.events.is_empty() { Vec::new() } else { app.store.intervals(range.clone()).await? };
    let wanted = |run: &Run| asked.wants("run", Some(&run.run)) && asked.wants("cluster", run.cluster.as_deref());
    Ok(asked.part()?.of(runs::build(&history, &intervals, &range).into_iter().filter(wanted)))
}
