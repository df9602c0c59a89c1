//! Intervals, advisories, risks, forecasts, findings, the report.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};

use super::query::Asked;
use super::{Answer, Page, Problem};
use crate::classify::{Advice, Advisory, Class, Interval};
use crate::forecast::{Kind, Memory, Prospect, Risk, Sort};
use crate::report::{Finding, Period, Report};
use crate::serve::App;
use crate::store::{Results, Whose};
use crate::tuning::Standing;

/// Verdicts of a longer time are not read at once.
pub(super) const MAX_HOURS: i64 = 35 * 24;

type Given = Query<BTreeMap<String, String>>;

pub(super) async fn intervals<S: Results>(State(app): State<App<S>>, given: Given) -> Answer<Page<Interval>> {
    let place = ["cluster", "node", "gpu", "owner", "run", "account"];
    let known = [&place[..], &["start", "end", "class", "charged_to", "limit", "cursor"]].concat();
    let asked = Asked::of(given.0, &known)?;
    let range = asked.range((app.now)(), &app.zone, MAX_HOURS)?;
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
    Ok(Json(part.begins(app.store.intervals_of(range, &whose).await?)))
}

pub(super) async fn advisories<S: Results>(State(app): State<App<S>>, given: Given) -> Answer<Page<Advisory>> {
    let known = ["start", "end", "cluster", "node", "gpu", "owner", "run", "advice", "limit", "cursor"];
    let asked = Asked::of(given.0, &known)?;
    let range = asked.range((app.now)(), &app.zone, MAX_HOURS)?;
    let advice = asked.named("advice", Advice::ALL, Advice::name)?;
    let all = app.store.outlook(range).await?.advisories.into_iter().filter(|a| {
        asked.wants("cluster", a.cluster.as_deref())
            && asked.wants("node", Some(&a.node))
            && asked.wants("gpu", Some(&a.gpu))
            && asked.wants("owner", a.owner.as_deref())
            && asked.wants("run", a.run.as_deref())
            && advice.is_none_or(|advice| a.advice == advice)
    });
    Ok(Json(asked.part()?.of(all)))
}

pub(super) async fn risks<S: Results>(State(app): State<App<S>>, given: Given) -> Answer<Page<Risk>> {
    let asked = Asked::of(given.0, &["start", "end", "cluster", "node", "kind", "memory", "limit", "cursor"])?;
    let range = asked.range((app.now)(), &app.zone, MAX_HOURS)?;
    let is = wanted(&asked)?;
    let all = app.store.outlook(range).await?.risks.into_iter().filter(|risk| is(&risk.last));
    Ok(Json(asked.part()?.of(all)))
}

pub(super) async fn standings<S: Results>(State(app): State<App<S>>, given: Given) -> Answer<Page<Standing>> {
    let asked = Asked::of(given.0, &["start", "end", "cluster", "node", "limit", "cursor"])?;
    let range = asked.range((app.now)(), &app.zone, MAX_HOURS)?;
    let is_wanted = |s: &Standing| asked.wants("cluster", s.cluster.as_deref()) && asked.wants("node", Some(&s.node));
    Ok(Json(asked.part()?.of(app.store.outlook(range).await?.standings.into_iter().filter(is_wanted))))
}

/// As at the last minute that is judged.
pub(super) async fn forecasts<S: Results>(State(app): State<App<S>>, given: Given) -> Answer<Page<Prospect>> {
    let asked = Asked::of(given.0, &["cluster", "node", "kind", "memory", "limit", "cursor"])?;
    let is = wanted(&asked)?;
    let prospects = app.progress.borrow().prospects.clone();
    Ok(Json(asked.part()?.of(prospects.into_iter().filter(|prospect| is(prospect)))))
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

pub(super) async fn findings<S: Results>(State(app): State<App<S>>, given: Given) -> Answer<Page<Finding>> {
    let asked = Asked::of(given.0, &["week", "limit", "cursor"])?;
    let report = build(&app, asked.week((app.now)(), &app.zone)?).await?;
    Ok(Json(asked.part()?.of(report.findings.iter().cloned())))
}

pub(super) async fn report<S: Results>(State(app): State<App<S>>, given: Given) -> Answer<Arc<Report>> {
    let asked = Asked::of(given.0, &["week"])?;
    Ok(Json(build(&app, asked.week((app.now)(), &app.zone)?).await?))
}

async fn build<S: Results>(app: &App<S>, period: Period) -> Result<Arc<Report>, Problem> {
    Ok(app.reads.report(&app.store, period, &app.prices).await?)
}
