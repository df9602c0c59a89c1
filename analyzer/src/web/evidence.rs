//! `/gpus/{uuid}/evidence`: why a stretch of a GPU's time has its class: the numbers, their courses, what was missing and
//! what to do.

use std::ops::Range;

use askama::Template;
use axum::extract::{Path, Query, State};
use jiff::Timestamp;
use serde::Deserialize;

use super::chosen::Chosen;
use super::clock::{Clock, HOUR_MS, length};
use super::curve::{self, Chart};
use super::gpu::{holder, waited_for};
use super::link;
use super::page::{Frame, Link, Page, Problem, show};
use super::sorted::Key;
use super::stretch::{Stretch, stretches};
use super::view::{Fields, Of, View};
use crate::app::App;
use crate::report::site::escaped;
use crate::report::{About, Names, Proof, evidence, filled, missing, other_rules, rule_versions, text, units};
use goodput_exposition::sample::TimeMs;
use goodput_rules::classify::busy_signals;
use goodput_rules::signal::{Signal, named_in};
use goodput_store::{Results, Samples, Whose};
use goodput_verdict::{Cause, Class, Interval, Remedy, Version};

/// The longest stretch whose verdicts are loaded for one page.
const MAX_MS: i64 = 35 * 24 * HOUR_MS;

/// The fields of the query.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    class: Option<String>,
    start: Option<String>,
    end: Option<String>,
    owner: Option<String>,
    /// The run, or the owner where it has none: in place of `owner`.
    holder: Option<String>,
    charged_to: Option<String>,
    /// The cause; `charged_node` and `which` say whose it is, and count with it only.
    cause: Option<String>,
    charged_node: Option<String>,
    which: Option<String>,
    instance: Option<u32>,
}

#[derive(Template)]
#[template(path = "web/evidence.html")]
struct Evidence {
    frame: Frame,
    class: &'static str,
    title: &'static str,
    gpu: String,
    meaning: &'static str,
    when: String,
    zone: String,
    facts: Vec<(&'static str, String)>,
    waited_for: Option<Link>,
    run: Option<Link>,
    numbers: Vec<Number>,
    numbers_view: View,
    charts: Vec<Chart>,
    api: String,
    charts_note: Option<String>,
    missing: Vec<String>,
    remedies: &'static [Remedy],
    commands: Vec<Option<String>>,
}

/// A signal against its threshold.
struct Number {
    signal: String,
    mean: String,
    range: String,
    threshold: String,
}

pub(super) async fn page<S: Samples + Results>(
    State(app): State<App<S>>,
    Path(uuid): Path<String>,
    Query(asked): Query<Asked>,
    Query(fields): Query<Fields>,
) -> Page {
    let clock = Clock { zone: app.zone.clone() };
    let (class, range) = (asked.class()?, asked.range()?);
    let hours = range.start.div_euclid(HOUR_MS) * HOUR_MS..-(-range.end).div_euclid(HOUR_MS) * HOUR_MS;
    let around = Chosen::hours(&hours, (app.now)(), clock.clone());
    let whose = Whose { class: Some(class), charged_to: asked.charged_to.clone(), ..Whose::gpu(&uuid) };
    let mut intervals = app.store.intervals_of(hours.clone(), &whose).await?;
    intervals
        .retain(|i| asked.is_of(i) && asked.is_by(i) && i.gpu_instance.as_ref().map(|own| own.id) == asked.instance);
    intervals.retain(|i| i.start_ms < range.end && i.end_ms > range.start);
    let all = stretches(&intervals);
    let names = Names::of_gpu(&app.store, &uuid);
    let back = Link::new(format!("{}?{}", link::gpu(&uuid), around.query), names.short(&uuid));
    // Where time was judged again since, the link may touch several stretches: the longest is meant.
    let Some(stretch) = all.iter().max_by_key(|s| s.ms) else {
        let when = clock.stretch(range.start, range.end);
        let what = format!("No verdict {} is stored for GPU {uuid}, {when}, {}", class.name(), clock.zone_name());
        let advice = "Samples that came in late may have changed the verdict; the GPU's timeline shows what holds now.";
        return Err(Problem::missing(what, advice, vec![back]));
    };
    let elsewhere = Whose { charged_to: Some(uuid.clone()), ..Whose::default() };
    let elsewhere = app.store.intervals_of(hours, &elsewhere).await?;
    let meanwhile = elsewhere.iter().filter(|i| i.start_ms < stretch.end_ms && i.end_ms > stretch.start_ms);
    let caused_ms = meanwhile.map(|i| i.ms).sum();
    let (cluster, node) = (stretch.parts[0].cluster.as_deref(), &stretch.parts[0].node);
    let trail = vec![
        around.fleet(),
        Link::new(format!("{}?{}", link::node(cluster, node), around.query), format!("Node {node}")),
        back,
    ];
    let mut proofs = evidence(stretch.parts.iter().map(|i| (i.evidence.as_slice(), i.ms as f64)));
    let charts = curve::charts(&app.store, stretch, &uuid, &signals(stretch, &proofs), &proofs, &clock).await?;
    let numbers_view = numbers(&mut proofs, &uuid, &fields)?;
    let remedies = class.remedies(stretch.cause.map(|cause| cause.kind));
    show(&Evidence {
        frame: Frame::new(format!("{} on {}", class.title(), names.on_node(node, &uuid)), trail, false),
        class: class.name(),
        title: class.title(),
        gpu: names.on_node(node, &uuid),
        meaning: class.info().meaning,
        when: clock.stretch(stretch.start_ms, stretch.end_ms),
        zone: clock.zone_name(),
        facts: facts(stretch, &uuid, caused_ms),
        waited_for: waited_for(stretch, &around.query),
        run: link::run_of(stretch.parts[0], &around).map(|href| Link::new(href, holder(stretch))),
        numbers: proofs.into_iter().map(number).collect(),
        numbers_view,
        charts_note: charts_note(stretch, &clock),
        charts,
        api: format!("gpu={}&class={}&{}", escaped(&uuid), class.name(), around.hours_query()),
        missing: missing(stretch.parts.iter().map(|part| part.missing.as_slice())),
        remedies,
        commands: filled(remedies, &about(stretch, node, &uuid)),
    })
}

/// That the charts show the beginning of a long stretch alone.
fn charts_note(stretch: &Stretch<'_>, clock: &Clock) -> Option<String> {
    let drawn = curve::range(stretch);
    let (all, shown) = (length(stretch.end_ms - stretch.start_ms), clock.stretch(drawn.start, drawn.end));
    (drawn.end < stretch.end_ms).then(|| {
        format!(
            "The stretch lasts {all}; the charts show its beginning, {shown}. A shorter period of the GPU's timeline \
             leads to its other parts."
        )
    })
}

/// What commands are about: the GPU, or the one or the node that it waited for.
fn about<'a>(stretch: &Stretch<'a>, node: &'a str, uuid: &'a str) -> About<'a> {
    let (culprit, which) = (stretch.charged_to, stretch.cause.and_then(|cause| cause.which.as_deref()));
    About {
        node: Some(culprit.map_or(node, |culprit| &culprit.node)),
        gpu: culprit.map_or(Some(uuid), |culprit| culprit.gpu.as_deref()),
        owner: stretch.owner,
        port: which.filter(|_| culprit.is_some()),
        mount: which.filter(|_| culprit.is_none()),
    }
}

impl Asked {
    fn is_of(&self, interval: &Interval) -> bool {
        match &self.holder {
            Some(holder) => interval.holder() == Some(holder),
            None => interval.owner == self.owner,
        }
    }

    /// Is it of the cause that is asked for, and of its port?
    fn is_by(&self, interval: &Interval) -> bool {
        let Some(name) = &self.cause else { return true };
        let node = interval.charged_to.as_ref().map(|culprit| &culprit.node);
        let is_cause = |cause: &Cause| cause.kind.name() == name && cause.which == self.which;
        interval.cause.as_ref().is_some_and(is_cause) && node == self.charged_node.as_ref()
    }

    fn class(&self) -> Result<Class, Problem> {
        let name = self.class.as_deref().unwrap_or_default();
        Class::named(name).ok_or_else(|| {
            let names: Vec<&str> = Class::ALL.iter().map(|class| class.name()).collect();
            Problem::bad(format!("class: {name:?}: expected one of {}", names.join(", ")))
        })
    }

    fn range(&self) -> Result<Range<TimeMs>, Problem> {
        let time = |field: &str, text: Option<&str>| {
            let text = text.unwrap_or_default();
            let time: Result<Timestamp, _> = text.parse();
            let expected = || Problem::bad(format!("{field}: {text:?}: expected a time such as 2026-11-21T14:00:00Z"));
            time.map(|time| time.as_millisecond()).map_err(|_| expected())
        };
        let (start, end) = (time("start", self.start.as_deref())?, time("end", self.end.as_deref())?);
        if end <= start || end - start > MAX_MS {
            return Err(Problem::bad("end: expected a time after start, and no more than 35 days after it"));
        }
        Ok(start..end)
    }
}

/// Signals worth a chart: those that the evidence names, and those that said busy or not.
fn signals(stretch: &Stretch<'_>, proofs: &[Proof]) -> Vec<Signal> {
    let named = proofs.iter().flat_map(|proof| named_in(&proof.signal));
    let busy = stretch.parts.iter().filter_map(|i| i.busy_signal.as_deref()).flat_map(busy_signals);
    let mut signals: Vec<Signal> = Vec::new();
    for signal in named.chain(busy) {
        if !signals.contains(&signal) {
            signals.push(signal);
        }
    }
    if signals.is_empty() { vec![Signal::GpuBusy, Signal::GpuUtilization] } else { signals }
}

/// By which version of its rule it was judged; where that or another rule is not this release's, which one this has.
fn version(stretch: &Stretch<'_>) -> String {
    let judged = text::versions(&rule_versions(stretch.parts.iter().copied()));
    match other_rules(stretch.parts.iter().copied()) {
        Some(_) => format!("{judged}, by rules of another release; this one's is {}", Version::of(stretch.class).rule),
        None => judged,
    }
}

/// The verdict's own numbers.
fn facts(stretch: &Stretch<'_>, uuid: &str, caused_ms: i64) -> Vec<(&'static str, String)> {
    let first: &Interval = stretch.parts[0];
    let lasts = length(stretch.end_ms - stretch.start_ms);
    let mut busy: Vec<&str> = stretch.parts.iter().filter_map(|i| i.busy_signal.as_deref()).collect();
    busy.sort_unstable();
    busy.dedup();
    let share = text::percent(Some(stretch.share()));
    let mut facts = vec![
        ("GPU", format!("{uuid}, {}", first.model.as_deref().unwrap_or("model unknown"))),
        ("node", first.node.clone()),
    ];
    facts.extend(first.cluster.clone().map(|cluster| ("cluster", cluster)));
    if stretch.instance.is_some() {
        facts.push(("of it", format!("MIG {}, whose GPU-time is its share by compute slices", stretch.of_instance())));
    }
    facts.extend([
        ("held by", holder(stretch).to_owned()),
        ("GPU-time", format!("{} GPU-hours, {share} of the {lasts} from first to last cell", text::hours(stretch.ms))),
        ("confidence", format!("{}, weighted over its cells", text::percent(Some(stretch.confidence())))),
        ("rule version", version(stretch)),
    ]);
    facts.extend(stretch.cause.map(|cause| ("cause", text::cause(cause.kind))));
    let own = stretch.cause.filter(|_| stretch.charged_to.is_none()).and_then(|cause| cause.which.clone());
    let waits = if stretch.class == Class::Unallocated { "who waited" } else { "waited for" };
    facts.extend(own.map(|which| (waits, which)));
    if !busy.is_empty() {
        facts.push(("utilisation source", busy.join(", ")));
    }
    if caused_ms > 0 {
        let hours = text::hours(caused_ms);
        facts.push((
            "caused elsewhere",
            format!("{hours} GPU-hours of GPUs that waited for this one meanwhile, on their rows"),
        ));
    }
    facts
}

/// Puts the numbers in the order asked for; they come in the order of the rule.
fn numbers(proofs: &mut Vec<Proof>, uuid: &str, fields: &Fields) -> Result<View, Problem> {
    let path = format!("{}/evidence", link::gpu(uuid));
    let of = Of { path: &path, fields, id: "numbers" };
    let key = |proof: &Proof, column: &str| match column {
        "mean" => Key::number((proof.mean * 1000.0) as i64),
        "range" => Key::number((proof.max * 1000.0) as i64),
        "threshold" => Key::number((proof.threshold * 1000.0) as i64),
        _ => Key::Text(proof.signal.clone()),
    };
    of.view(proofs, &["rule", "signal", "mean", "range", "threshold"], key, |proof| proof.signal.clone())
}

fn number(proof: Proof) -> Number {
    Number {
        mean: units::measure(proof.mean, &proof.unit),
        range: units::range(proof.min, proof.max, &proof.unit),
        threshold: units::measure(proof.threshold, &proof.unit),
        signal: proof.signal,
    }
}
