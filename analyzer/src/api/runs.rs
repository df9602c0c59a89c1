//! Runs, by what their jobs told.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Query, State};

use super::query::Asked;
use super::results::MAX_HOURS;
use super::{Answer, Page};
use crate::report::{Run, runs};
use crate::serve::App;
use crate::store::Results;

pub(super) async fn list<S: Results>(
    State(app): State<App<S>>,
    given: Query<BTreeMap<String, String>>,
) -> Answer<Page<Run>> {
    let asked = Asked::of(given.0, &["start", "end", "run", "cluster", "limit", "cursor"])?;
    let range = asked.range((app.now)(), &app.zone, MAX_HOURS)?;
    let history = app.store.history(range.clone()).await?;
    let intervals = if history.events.is_empty() { Vec::new() } else { app.store.intervals(range.clone()).await? };
    let wanted = |run: &Run| asked.wants("run", Some(&run.run)) && asked.wants("cluster", run.cluster.as_deref());
    Ok(Json(asked.part()?.of(runs::build(&history, &intervals, &range).into_iter().filter(wanted))))
}
