//! Intervals, advisories, risks, forecasts, the report.

use std::sync::Arc;

use super::parameters::{
    ACCOUNT, ADVICE, CHARGED_TO, CLASS, CLUSTER, CURSOR, GPU, KIND, LIMIT, MEMORY, NODE, OWNER, RUN, TEAM, WEEK,
};
use super::query::Asked;
use super::route::{Reads, Route};
use super::table::Table;
use super::{Answer, Page, Problem};
use crate::app::App;
use crate::report::{Only, Period, Report, teams_in};
use goodput_store::{Results, Whose};
use goodput_verdict::{Advice, Advisory, Class, Interval, Kind, Memory, Prospect, Risk, Sort, Standing};

/// Verdicts of a longer time are not read at once.
pub(super) const MAX_HOURS: i64 = 35 * 24;

pub(super) fn routes<S: Results + Clone + 'static>(table: Table<S>) -> Table<S> {
    table
        .get(
            Route::new("/intervals", "The ledger")
                .about("Intervals that lie in the time asked for; they are cut at hours.")
                .hours(MAX_HOURS)
                .asks(&[CLUSTER, NODE, GPU, OWNER, RUN, ACCOUNT, CLASS, CHARGED_TO, LIMIT, CURSOR]),
            intervals,
        )
        .get(
            Route::new("/advisories", "What was advised")
                .hours(MAX_HOURS)
                .asks(&[CLUSTER, NODE, GPU, OWNER, RUN, ADVICE, LIMIT, CURSOR]),
            advisories,
        )
        .get(
            Route::new("/risks", "Memory, disks, pods and GPUs that were at risk")
                .hours(MAX_HOURS)
                .asks(&[CLUSTER, NODE, KIND, MEMORY, LIMIT, CURSOR]),
            risks,
        )
        .get(
            Route::new("/standings", "How nodes were set up, and kept up with the nodes that they worked with")
                .hours(MAX_HOURS)
                .asks(&[CLUSTER, NODE, LIMIT, CURSOR]),
            standings,
        )
        .get(
            Route::new("/forecasts", "What is to be expected now of memory, disks, pods and GPUs")
                .asks(&[CLUSTER, NODE, KIND, MEMORY, LIMIT, CURSOR])
                .reads(Reads::Memory),
            forecasts,
        )
        .get(Route::new("/report", "The report of a week").asks(&[WEEK, TEAM]), report)
}

async fn intervals<S: Results>(app: App<S>, asked: Asked) -> Answer<Page<Interval>> {
    let range = asked.range((app.now)(), &app.zone)?;
    let part = asked.part()?;
    let whose = Whose {
        cluster: asked.owned("cluster"),
        node: asked.owned("node"),
        gpu: asked.owned("gpu"),
        owner: asked.owned("owner"),
        run: asked.owned("run"),
        account: asked.owned("account"),
        class: asked.named("class", Class::ALL, Class::name)?,
        charged_to: asked.owned("charged_to"),
        skip: part.cursor,
        limit: Some(part.limit + 1),
    };
    Ok(part.begins(app.store.intervals_of(range, &whose).await?))
}

async fn advisories<S: Results>(app: App<S>, asked: Asked) -> Answer<Page<Advisory>> {
    let range = asked.range((app.now)(), &app.zone)?;
    let advice = asked.named("advice", Advice::ALL, Advice::name)?;
    let all = app.store.outlook(range).await?.advisories.into_iter().filter(|a| {
        asked.wants("cluster", a.cluster.as_deref())
            && asked.wants("node", Some(&a.node))
            && asked.wants("gpu", Some(&a.gpu))
            && asked.wants("owner", a.owner.as_deref())
            && asked.wants("run", a.run.as_deref())
            && advice.is_none_or(|advice| a.advice == advice)
    });
    Ok(asked.part()?.of(all))
}

async fn risks<S: Results>(app: App<S>, asked: Asked) -> Answer<Page<Risk>> {
    let range = asked.range((app.now)(), &app.zone)?;
    let is = wanted(&asked)?;
    let all = app.store.outlook(range).await?.risks.into_iter().filter(|risk| is(&risk.last));
    Ok(asked.part()?.of(all))
}

async fn standings<S: Results>(app: App<S>, asked: Asked) -> Answer<Page<Standing>> {
    let range = asked.range((app.now)(), &app.zone)?;
    let is_wanted = |s: &Standing| asked.wants("cluster", s.cluster.as_deref()) && asked.wants("node", Some(&s.node));
    Ok(asked.part()?.of(app.store.outlook(range).await?.standings.into_iter().filter(is_wanted)))
}

/// As at the last minute that is judged.
async fn forecasts<S: Results>(app: App<S>, asked: Asked) -> Answer<Page<Prospect>> {
    let is = wanted(&asked)?;
    let prospects = app.progress.borrow().prospects.clone();
    Ok(asked.part()?.of(prospects.into_iter().filter(|prospect| is(prospect))))
}

fn wanted(asked: &Asked) -> Result<impl Fn(&Prospect) -> bool, Problem> {
    let sort = asked.named("kind", Sort::ALL, Sort::name)?;
    let memory = asked.named("memory", Memory::ALL, Memory::name)?;
    Ok(move |prospect: &Prospect| {
        asked.wants("cluster", prospect.cluster.as_deref())
            && asked.wants("node", Some(&prospect.node))
            && sort.is_none_or(|sort| sort == prospect.kind.sort())
            && memory.is_none_or(|memory| Kind::Memory(memory) == prospect.kind)
    })
}

async fn report<S: Results>(app: App<S>, asked: Asked) -> Answer<Arc<Report>> {
    let period = asked.week((app.now)(), &app.zone)?;
    match asked.get("team") {
        None => build(&app, period).await,
        team => build_of(&app, period, ("team", team)).await,
    }
}

/// The same of one team; an error about this field where there is no such team.
pub(super) async fn build_of<S: Results>(
    app: &App<S>,
    period: Option<Period>,
    (field, team): (&str, Option<&str>),
) -> Result<Arc<Report>, Problem> {
    let period = match period {
        Some(period) => period,
        None => build(app, None).await?.period.clone(),
    };
    let teams = teams_in(&app.store, &period, &app.terms).await?;
    if let Some(name) = team.filter(|name| Only::of(&teams, name, period.start_ms).is_none()) {
        let expected = format!("a team that is valid in {}, unassigned or platform", period.label);
        return Err(match field {
            "name" => Problem::missing(field, expected, name),
            _ => Problem::bad(field, expected, Some(name)),
        });
    }
    let report = app.reads.report_of(&app.store, period, &app.terms, team).await?;
    Ok(app.reads.owned(&app.store, report, (app.now)()).await?)
}

/// Of the period; where none is asked for, of the week that `/report` opens.
pub(super) async fn build<S: Results>(app: &App<S>, period: Option<Period>) -> Result<Arc<Report>, Problem> {
    let report = match period {
        Some(period) => app.reads.report(&app.store, period, &app.terms).await,
        None => app.reads.newest_report(&app.store, ((app.now)(), &app.zone), &app.terms).await,
    };
    Ok(app.reads.owned(&app.store, report?, (app.now)()).await?)
}
