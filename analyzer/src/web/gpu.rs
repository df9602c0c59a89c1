//! `/gpus/{uuid}`: a GPU's time, to zoom into, and each stretch of it.

use std::ops::Range;

use askama::Template;
use axum::extract::{Path, Query, State};

use super::axis::{Tick, ticks};
use super::chosen::{Chosen, PeriodQuery};
use super::clock::{HOUR_MS, length};
use super::link;
use super::page::{Frame, Link, Page, Problem, show};
use super::share::{Shares, Tile, judged_otherwise, tiles};
use super::stretch::{Stretch, stretches};
use super::strip::{Mark, marks, resolution};
use crate::app::App;
use crate::report::{Ledger, Period, text};
use goodput_exposition::sample::TimeMs;
use goodput_store::{Results, Whose};
use goodput_verdict::{Class, Culprit, Interval};

/// A longer table is not read; a shorter period lists what this one leaves out.
const MAX_ROWS: usize = 200;
const DAY_MS: i64 = 24 * HOUR_MS;
/// A longer period is divided into days, not hours.
const MAX_HOURLY_MS: i64 = 36 * HOUR_MS;

#[derive(Template)]
#[template(path = "web/gpu.html")]
struct Gpu {
    frame: Frame,
    uuid: String,
    node: String,
    model: String,
    node_href: String,
    periods: Vec<Link>,
    zoom: Vec<Link>,
    nearer: Vec<Link>,
    period: String,
    tiles: Vec<Tile>,
    shares: Shares,
    judged_otherwise: Option<String>,
    marks: Vec<Mark>,
    ticks: Vec<Tick>,
    resolution: String,
    rows: Vec<Row>,
    left_out: usize,
    caused: Vec<Caused>,
    caused_hours: String,
}

/// A stretch.
struct Row {
    class: &'static str,
    href: String,
    from: String,
    to: String,
    length: String,
    hours: String,
    share: String,
    owner: String,
    instance: String,
    waited_for: Option<Link>,
    confidence: String,
}

/// A stretch in which another GPU waited for this one.
struct Caused {
    node: String,
    link: Link,
    from: String,
    to: String,
    hours: String,
}

pub(super) async fn page<S: Results>(
    State(app): State<App<S>>,
    Path(uuid): Path<String>,
    Query(query): Query<PeriodQuery>,
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
    let trail =
        vec![Link::new(format!("/?{}", chosen.query), "Fleet"), Link::new(node_href.clone(), format!("Node {node}"))];
    let (ledger, stretches) = (Ledger::unpriced(&intervals), stretches(&intervals));
    let (rows, left_out) = rows(&stretches, &uuid, &chosen);
    let whose = Whose { charged_to: Some(uuid.clone()), ..Whose::default() };
    let elsewhere = app.store.intervals_of(chosen.range(), &whose).await?;
    show(&Gpu {
        frame: Frame::new(format!("GPU {uuid}"), trail, chosen.is_open()),
        model: model.unwrap_or_else(|| "model unknown".to_owned()),
        periods: chosen.choices(&path),
        zoom: zoom(&path, &chosen),
        nearer: nearer(&path, &chosen),
        period: chosen.show(),
        tiles: tiles(&ledger),
        shares: Shares::of(&ledger),
        judged_otherwise: judged_otherwise(&intervals, &chosen.clock),
        marks: marks(&stretches, &uuid, &chosen),
        ticks: ticks(&chosen.range(), &chosen.clock),
        resolution: resolution(&chosen),
        rows,
        left_out,
        caused: caused(&elsewhere, &chosen),
        caused_hours: text::hours(elsewhere.iter().map(|i| i.ms).sum()),
        uuid,
        node,
        node_href,
    })
}

/// Before, after, and the hour, day and week around.
fn zoom(path: &str, chosen: &Chosen) -> Vec<Link> {
    let (range, length) = (chosen.range(), chosen.length_ms());
    let middle = range.start + length / 2;
    let hour = middle - chosen.clock.past_hour(middle);
    let date = chosen.clock.local(middle).date();
    let midnight = |days: i64| {
        let date = date.saturating_add(jiff::Span::new().days(days));
        let zoned = date.to_zoned(chosen.clock.zone.clone());
        zoned.map_or(hour, |midnight| midnight.timestamp().as_millisecond())
    };
    let week = Period::this_week(chosen.clock.local(middle).timestamp(), &chosen.clock.zone);
    let mut links = vec![chosen.to(path, &(range.start - length..range.start), "earlier")];
    links.push(chosen.to(path, &(range.end..range.end + length), "later"));
    links.push(chosen.to(path, &(hour..hour + HOUR_MS), "hour"));
    links.push(chosen.to(path, &(midnight(0)..midnight(1)), "day"));
    links.push(chosen.to(path, &(week.start_ms..week.end_ms), "week"));
    links
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

/// The stretches with the most GPU-time, in order of time, and how many are left out.
fn rows(stretches: &[Stretch<'_>], uuid: &str, chosen: &Chosen) -> (Vec<Row>, usize) {
    let mut longest: Vec<&Stretch<'_>> = stretches.iter().collect();
    longest.sort_by_key(|s| std::cmp::Reverse(s.ms));
    longest.truncate(MAX_ROWS);
    longest.sort_by_key(|s| (s.start_ms, s.class));
    let row = |s: &Stretch<'_>| Row {
        class: s.class.name(),
        href: link::evidence(uuid, s),
        from: chosen.clock.show(s.start_ms),
        to: chosen.clock.show(s.end_ms),
        length: length(s.end_ms - s.start_ms),
        hours: text::hours(s.ms),
        share: text::percent(Some(s.share())),
        owner: holder(s).to_owned(),
        instance: s.of_instance(),
        waited_for: s.charged_to.map(|culprit| waited_for(culprit, &chosen.query)),
        confidence: text::percent(Some(s.confidence())),
    };
    (longest.iter().map(|s| row(s)).collect(), stretches.len().saturating_sub(MAX_ROWS))
}

/// What others lost while they waited for the GPU, the most first.
fn caused(intervals: &[Interval], chosen: &Chosen) -> Vec<Caused> {
    let mut all: Vec<Stretch<'_>> = intervals.chunk_by(|a, b| a.gpu == b.gpu).flat_map(stretches).collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.ms));
    all.truncate(MAX_ROWS);
    let line = |s: &Stretch<'_>| Caused {
        node: s.parts[0].node.clone(),
        link: Link::new(link::evidence(&s.parts[0].gpu, s), s.parts[0].gpu.clone()),
        from: chosen.clock.show(s.start_ms),
        to: chosen.clock.show(s.end_ms),
        hours: text::hours(s.ms),
    };
    all.iter().map(line).collect()
}

/// The page of the GPU that was waited for.
pub(super) fn waited_for(culprit: &Culprit, query: &str) -> Link {
    Link::new(format!("{}?{query}", link::gpu(&culprit.gpu)), format!("GPU {} on {}", culprit.gpu, culprit.node))
}

/// Who held the GPU, in words.
pub(super) fn holder<'a>(stretch: &Stretch<'a>) -> &'a str {
    let nobody = matches!(stretch.class, Class::Unallocated | Class::StrandedMig);
    stretch.owner.unwrap_or(if nobody { "nobody" } else { text::UNKNOWN })
}
