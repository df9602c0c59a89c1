//! `/gpus/{uuid}`: how a GPU is, its time, to zoom into, and what its jobs made of it.

use std::ops::Range;

use askama::Template;
use axum::extract::{Path, Query, State};

use super::axis::{Tick, ticks};
use super::chosen::{Chosen, PeriodQuery};
use super::clock::HOUR_MS;
use super::health::Health;
use super::jobs::{Job, jobs};
use super::link;
use super::page::{Frame, Link, Page, Problem, show};
use super::picker::Picker;
use super::share::{Legend, Shares, Tile, judged_otherwise, tiles};
use super::sorted::Key;
use super::stretch::{Stretch, stretches};
use super::strip::{Mark, marks, resolution};
use super::view::{Fields, Of, View};
use crate::app::App;
use crate::report::site::escaped;
use crate::report::{Ledger, Names, Period, text};
use goodput_exposition::sample::TimeMs;
use goodput_store::{Results, Samples, Whose};
use goodput_verdict::{Class, Culprit, Interval};

/// Stretches of other GPUs that are listed.
const MAX_CAUSED: usize = 200;
const DAY_MS: i64 = 24 * HOUR_MS;
/// A longer period is divided into days, not hours.
const MAX_HOURLY_MS: i64 = 36 * HOUR_MS;

#[derive(Template)]
#[template(path = "web/gpu.html")]
struct Gpu {
    frame: Frame,
    /// Its index and node, where that is known.
    name: String,
    health: Health,
    uuid: String,
    node: String,
    model: String,
    node_href: String,
    picker: Picker,
    zoom: Vec<Link>,
    nearer: Vec<Link>,
    period: String,
    tiles: Vec<Tile>,
    legend: Legend,
    judged_otherwise: Option<String>,
    marks: Vec<Mark>,
    ticks: Vec<Tick>,
    resolution: String,
    jobs: Vec<Job>,
    stretches: View,
    api: String,
    /// What asks the API for what others lost, and for what may fail.
    caused_api: String,
    risks_api: String,
    summary_api: String,
    left_out: usize,
    caused: Vec<Caused>,
    caused_view: View,
    caused_hours: String,
}

/// A stretch in which another GPU waited for this one.
struct Caused {
    node: String,
    link: Link,
    from: String,
    to: String,
    hours: String,
}

pub(super) async fn page<S: Samples + Results>(
    State(app): State<App<S>>,
    Path(uuid): Path<String>,
    Query(query): Query<PeriodQuery>,
    Query(fields): Query<Fields>,
) -> Page {
    let chosen = Chosen::of(&query, (app.now)(), &app.zone)?;
    let intervals = app.store.intervals_of(chosen.range(), &Whose::gpu(&uuid)).await?;
    let path = link::gpu(&uuid);
    let Some(last) = intervals.last() else {
        let what = format!("No verdict is stored for GPU {uuid} from {}", chosen.show());
        let advice = "Choose another period, or find the GPU under its node in the list of the fleet.";
        return Err(Problem::missing(what, advice, chosen.choices(&path)));
    };
    let (node, model) = (last.node.clone(), intervals.iter().find_map(|i| i.model.clone()));
    let node_href = format!("{}?{}", link::node(last.cluster.as_deref(), &node), chosen.query);
    let trail = vec![chosen.fleet(), Link::new(node_href.clone(), format!("Node {node}"))];
    let of = |id| Of { path: &path, fields: &fields, id };
    let (ledger, stretches) = (Ledger::unpriced(&intervals), stretches(&intervals));
    let (jobs, left_out, view) = jobs(&stretches, &uuid, &chosen, of("stretches"))?;
    let names = Names::of_gpu(&app.store, &uuid);
    let health = Health::of(&app.store, &uuid, &chosen).await?;
    let health = health.judged(&app.progress.borrow(), &uuid, (&names, &chosen), of("risks"))?;
    let whose = Whose { charged_to: Some(uuid.clone()), ..Whose::default() };
    let elsewhere = app.store.intervals_of(chosen.range(), &whose).await?;
    let (caused, caused_view) = caused(&elsewhere, &chosen, of("caused"))?;
    show(&Gpu {
        frame: Frame::new(names.on_node(&node, &uuid), trail, chosen.is_open()),
        name: names.on_node(&node, &uuid),
        health,
        model: model.unwrap_or_else(|| "model unknown".to_owned()),
        picker: Picker::of(&chosen, &path).keeping(fields.kept()),
        zoom: zoom(&path, &chosen),
        nearer: nearer(&path, &chosen),
        period: chosen.show(),
        tiles: tiles(&ledger),
        legend: Shares::of(&ledger).legend(of("classes"))?,
        judged_otherwise: judged_otherwise(&intervals, &chosen.clock),
        marks: marks(&stretches, &uuid, &chosen),
        ticks: ticks(&chosen.range(), &chosen.clock),
        resolution: resolution(&chosen),
        jobs,
        stretches: view,
        api: format!("gpu={}&{}", escaped(&uuid), chosen.hours_query()),
        caused_api: format!("charged_to={}&{}", escaped(&uuid), chosen.hours_query()),
        risks_api: format!("node={}", escaped(&node)),
        summary_api: format!("by=class&gpu={}&{}", escaped(&uuid), chosen.hours_query()),
        left_out,
        caused,
        caused_view,
        caused_hours: text::hours(elsewhere.iter().map(|i| i.ms).sum()),
        uuid,
        node,
        node_href,
    })
}

/// The hour, day and week around.
fn zoom(path: &str, chosen: &Chosen) -> Vec<Link> {
    let middle = chosen.start_ms + chosen.length_ms() / 2;
    let hour = middle - chosen.clock.past_hour(middle);
    let date = chosen.clock.local(middle).date();
    let midnight = |days: i64| {
        let date = date.saturating_add(jiff::Span::new().days(days));
        let zoned = date.to_zoned(chosen.clock.zone.clone());
        zoned.map_or(hour, |midnight| midnight.timestamp().as_millisecond())
    };
    let week = Period::this_week(chosen.clock.local(middle).timestamp(), &chosen.clock.zone);
    let around =
        [(hour..hour + HOUR_MS, "hour"), (midnight(0)..midnight(1), "day"), (week.start_ms..week.end_ms, "week")];
    around.into_iter().map(|(range, text)| chosen.to(path, &range, text)).collect()
}

/// The days of a longer period, the hours of a day.
fn nearer(path: &str, chosen: &Chosen) -> Vec<Link> {
    let (step, format) = match chosen.length_ms() {
        0..=HOUR_MS => return Vec::new(),
        ..=MAX_HOURLY_MS => (HOUR_MS, "%H:%M"),
        _ => (DAY_MS, "%a %d %b"),
    };
    let cut = |time: TimeMs| {
        let next = time + step;
        let into = (next + chosen.clock.offset(next)).rem_euclid(step);
        (next - into).max(time + HOUR_MS).min(chosen.end_ms)
    };
    let mut links = Vec::new();
    let mut start = chosen.start_ms;
    while start < chosen.end_ms {
        let range: Range<TimeMs> = start..cut(start);
        links.push(chosen.to(path, &range, chosen.clock.format(start, format)));
        start = range.end;
    }
    links
}

/// What others lost while they waited for the GPU, the most first unless another order is asked for.
fn caused(intervals: &[Interval], chosen: &Chosen, of: Of<'_>) -> Result<(Vec<Caused>, View), Problem> {
    let mut all: Vec<Stretch<'_>> = intervals.chunk_by(|a, b| a.gpu == b.gpu).flat_map(stretches).collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.ms));
    let key = |s: &Stretch<'_>, column: &str| match column {
        "gpu" => Key::Text(s.parts[0].gpu.clone()),
        "node" => Key::Text(s.parts[0].node.clone()),
        "from" => Key::number(s.start_ms),
        "to" => Key::number(s.end_ms),
        _ => Key::number(s.ms),
    };
    let text = |s: &Stretch<'_>| format!("{} {}", s.parts[0].gpu, s.parts[0].node);
    let view = of.view(&mut all, &["hours", "gpu", "node", "from", "to"], key, text)?;
    all.truncate(MAX_CAUSED);
    let line = |s: &Stretch<'_>| Caused {
        node: s.parts[0].node.clone(),
        link: Link::new(link::evidence(&s.parts[0].gpu, s), s.parts[0].gpu.clone()),
        from: chosen.clock.show(s.start_ms),
        to: chosen.clock.show(s.end_ms),
        hours: text::hours(s.ms),
    };
    Ok((all.iter().map(line).collect(), view))
}

/// The page of the GPU that was waited for, or of the node whose port was.
pub(super) fn waited_for(stretch: &Stretch<'_>, query: &str) -> Option<Link> {
    let Culprit { node, gpu } = stretch.charged_to?;
    let (path, name) = match gpu {
        Some(gpu) => (link::gpu(gpu), text::gpu(node, gpu)),
        None => {
            let which = stretch.cause.and_then(|cause| cause.which.as_deref());
            (link::node(stretch.parts[0].cluster.as_deref(), node), text::port(node, which))
        }
    };
    Some(Link::new(format!("{path}?{query}"), name))
}

/// Who held the GPU, in words.
pub(super) fn holder<'a>(stretch: &Stretch<'a>) -> &'a str {
    let nobody = matches!(stretch.class, Class::Unallocated | Class::StrandedMig);
    stretch.owner.unwrap_or(if nobody { "nobody" } else { text::UNKNOWN })
}
