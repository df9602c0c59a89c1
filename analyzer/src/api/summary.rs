//! GPU time of a period, summed.

use super::parameters::{ACCOUNT, BY, CLUSTER, CURSOR, GPU, LIMIT, NODE, RUN, TEAM};
use super::query::Asked;
use super::results::MAX_HOURS;
use super::route::Route;
use super::table::Table;
use super::{Answer, Page, Problem};
use crate::app::App;
use crate::report::{By, Item, Only, Period, Row, chosen, items, teams_in};
use goodput_store::Results;

pub(super) fn routes<S: Results + Clone + 'static>(table: Table<S>) -> Table<S> {
    table.get(
        Route::new("/summary", "GPU time by what it went into, who held it or where it was")
            .about("Greatest loss first. Lines of accounts and runs leave out time without a holder.")
            .hours(MAX_HOURS)
            .asks(&[BY, CLUSTER, NODE, GPU, RUN, ACCOUNT, TEAM, LIMIT, CURSOR]),
        summary,
    )
}

async fn summary<S: Results>(app: App<S>, asked: Asked) -> Answer<Page<Row>> {
    let names = || By::ALL.iter().map(|by| by.name()).collect::<Vec<_>>();
    let by = asked.named("by", By::ALL, By::name)?;
    let by = by.ok_or_else(|| Problem::bad("by", format!("one of {}", names().join(", ")), None))?;
    let range = asked.range((app.now)(), &app.zone)?;
    let mut items = items(&app.store, &range, &app.terms.prices).await?;
    items.retain(|item| is_wanted(&asked, item));
    if let Some(name) = asked.get("team") {
        let period = Period::hours(&range, &app.zone);
        let teams = teams_in(&app.store, &period, &app.terms).await?;
        let expected = || Problem::bad("team", "a team that is valid then, unassigned or platform", Some(name));
        items = chosen(items, &Only::of(&teams, name, range.start).ok_or_else(expected)?);
    }
    Ok(asked.part()?.of(by.rows(&items, None)))
}

fn is_wanted(asked: &Asked, item: &Item<'_>) -> bool {
    asked.wants("cluster", item.cluster.as_deref())
        && asked.wants("node", Some(&item.node))
        && asked.wants("gpu", Some(&item.gpu))
        && asked.wants("run", item.holder())
        && asked.wants("account", item.account.as_deref())
}
