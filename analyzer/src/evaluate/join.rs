//! From the entities of a truth to the GPUs of the series: by the name of the node and the GPU's index on it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::trace::{Row, Trace};
use super::{Cell, EvaluateError};
use goodput_exposition::sample::{Labels, TimeMs};
use goodput_rules::classify::Judged;
use goodput_rules::signal::{hostname_of, resolve};
use goodput_verdict::{Class, Culprit, Interval};

/// UUIDs by node name and index.
pub(super) struct Gpus(BTreeMap<(String, String), BTreeSet<String>>);

/// UUIDs by entity of the truth.
pub(super) type Entities = BTreeMap<String, BTreeSet<String>>;

impl Gpus {
    /// A GPU is known by every name that its node has: the one it was judged under, its host name, its label `node`.
    pub(super) fn of(trace: &Trace, judged: &Judged) -> Gpus {
        let nodes: BTreeMap<&str, &str> = judged.intervals.iter().map(|i| (i.gpu.as_str(), i.node.as_str())).collect();
        let mut gpus: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        for labels in trace.series.iter().map(|s| &s.labels) {
            let Some((uuid, index)) = identity(labels) else { continue };
            let label = resolve(labels).and_then(|meaning| meaning.node);
            for host in [nodes.get(uuid).copied(), hostname_of(labels), label].into_iter().flatten() {
                gpus.entry((host.to_owned(), index.to_owned())).or_default().insert(uuid.to_owned());
            }
        }
        Gpus(gpus)
    }

    /// The GPUs of every entity of the truth; one that has none is an error.
    pub(super) fn join(&self, trace: &Trace) -> Result<Entities, EvaluateError> {
        let mut entities = Entities::new();
        for row in trace.truth.iter().chain(&trace.ooms).chain(&trace.damages) {
            let (host, index) = row.host_and_index();
            let Some(uuids) = self.0.get(&(host.to_owned(), index.to_owned())) else {
                return Err(trace.wrong(row.line, self.missing(&row.entity)));
            };
            entities.insert(row.entity.clone(), uuids.clone());
        }
        Ok(entities)
    }

    fn missing(&self, entity: &str) -> String {
        let known: Vec<String> = self.0.keys().map(|(host, index)| format!("{host}/gpu{index}")).collect();
        format!("entity: {entity} joins no GPU of metrics.om; its series have {}", known.join(", "))
    }
}

/// UUID and index of the GPU that a series is about.
fn identity(labels: &Labels) -> Option<(&str, &str)> {
    let uuid = labels.get("UUID").or_else(|| labels.get("uuid"))?;
    Some((uuid, labels.get("gpu")?))
}

/// The verdicts on the truth's entities, cell by cell. `name` is what a class is called.
pub(super) fn cells(
    trace: &Trace,
    entities: &Entities,
    intervals: &[Interval],
    name: impl Fn(Class) -> &'static str,
) -> Vec<Cell> {
    let path = trace.path.display().to_string();
    let mut cells = Vec::new();
    for (entity, uuids) in entities {
        for (span, classes) in spans(uuids, intervals, &name) {
            let cell = |((class, culprit), told): ((&'static str, Option<&Culprit>), Told)| Cell {
                trace: path.clone(),
                entity: entity.clone(),
                span: span.clone(),
                class,
                confidence: told.confidence / told.ms.max(1) as f64,
                charged_to: culprit.map(|culprit| spelled(culprit, entities)),
                ms: told.ms,
            };
            cells.extend(classes.into_iter().map(cell));
        }
    }
    cells
}

/// The culprit as the truth spells it, where the truth names it.
fn spelled(culprit: &Culprit, entities: &Entities) -> String {
    let known = entities.iter().find(|(_, uuids)| culprit.gpu.as_ref().is_some_and(|gpu| uuids.contains(gpu)));
    known.map_or_else(
        || format!("{}/{}", culprit.node, culprit.gpu.as_deref().unwrap_or_default()),
        |(entity, _)| entity.clone(),
    )
}

type Classes<'a> = BTreeMap<(&'static str, Option<&'a Culprit>), Told>;

/// Of one class in one cell.
#[derive(Default)]
struct Told {
    ms: i64,
    /// Sum of confidence times milliseconds.
    confidence: f64,
}

/// What each cell has. Where a GPU was replaced by another of the same index, the one with data counts.
fn spans<'a>(
    uuids: &BTreeSet<String>,
    intervals: &'a [Interval],
    name: impl Fn(Class) -> &'static str,
) -> Vec<(Range<TimeMs>, Classes<'a>)> {
    let mut spans: BTreeMap<(TimeMs, TimeMs), BTreeMap<&str, Classes<'a>>> = BTreeMap::new();
    for i in intervals.iter().filter(|i| uuids.contains(&i.gpu)) {
        let gpus = spans.entry((i.start_ms, i.end_ms)).or_default();
        let told = gpus.entry(&i.gpu).or_default().entry((name(i.class), i.charged_to.as_ref())).or_default();
        told.ms += i.ms;
        told.confidence += i.confidence * i.ms as f64;
    }
    let unknown = |classes: &Classes<'_>| classes.get(&(Class::NoData.name(), None)).map_or(0, |told| told.ms);
    let known = spans.into_iter().filter_map(|((start, end), gpus)| {
        let classes = gpus.into_values().min_by_key(|classes| unknown(classes))?;
        Some((start..end, classes))
    });
    known.collect()
}

/// The rows of an entity that lie in a span, and for how long.
pub(super) fn within<'a>(rows: &[&'a Row], span: &Range<TimeMs>) -> Vec<(&'a Row, i64)> {
    let first = rows.partition_point(|row| row.span.end <= span.start);
    let overlapping = rows[first..].iter().take_while(|row| row.span.start < span.end);
    let ms = |row: &&&'a Row| row.span.end.min(span.end) - row.span.start.max(span.start);
    overlapping.map(|row| (*row, ms(&row))).collect()
}
