//! From the entities of a truth to the GPUs of the series: by the name of the node and the GPU's index on it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::trace::{Row, Trace};
use super::{Cell, EvaluateError};
use goodput_exposition::sample::{Labels, TimeMs};
use goodput_rules::classify::Judged;
use goodput_rules::signal::{hostname_of, resolve};
use goodput_verdict::{Cause, Class, Culprit, Interval};

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
        for row in
            trace.truth.iter().chain(&trace.ooms).chain(&trace.damages).filter(|row| !row.host_and_index().0.is_empty())
        {
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
    let names = Names::of(entities, intervals);
    let mut cells = Vec::new();
    for (entity, uuids) in entities {
        for (span, classes) in spans(uuids, intervals, &name) {
            let cell = |((class, culprit, cause), told): (Key<'_>, Told)| Cell {
                trace: path.clone(),
                entity: entity.clone(),
                span: span.clone(),
                class,
                confidence: told.confidence / told.ms.max(1) as f64,
                charged_to: culprit.map(|culprit| names.spelled(culprit, cause)),
                cause: cause.map(|cause| cause.kind.name()),
                which: cause.and_then(|cause| cause.which.clone()),
                ms: told.ms,
            };
            cells.extend(classes.into_iter().map(cell));
        }
    }
    cells
}

/// How the truth spells GPUs and nodes.
struct Names<'a> {
    /// Entities by UUID.
    gpus: BTreeMap<&'a str, &'a str>,
    /// Hosts of entities by the node that verdicts name.
    hosts: BTreeMap<&'a str, &'a str>,
}

impl<'a> Names<'a> {
    fn of(entities: &'a Entities, intervals: &'a [Interval]) -> Self {
        let all = entities.iter().flat_map(|(entity, uuids)| uuids.iter().map(move |uuid| (&**uuid, &**entity)));
        let gpus: BTreeMap<&str, &str> = all.collect();
        let host = |i: &'a Interval| Some((&*i.node, gpus.get(&*i.gpu)?.rsplit_once('/')?.0));
        Names { hosts: intervals.iter().filter_map(host).collect(), gpus }
    }

    /// The culprit as the truth spells it, where the truth names it or its node.
    fn spelled(&self, culprit: &Culprit, cause: Option<&Cause>) -> String {
        let host = || *self.hosts.get(&*culprit.node).unwrap_or(&&*culprit.node);
        match (&culprit.gpu, cause.and_then(|cause| cause.which.as_ref())) {
            (Some(gpu), _) => {
                self.gpus.get(&**gpu).map_or_else(|| format!("{}/{gpu}", culprit.node), |name| (*name).to_owned())
            }
            (None, Some(which)) => format!("{}/{which}", host()),
            (None, None) => host().to_owned(),
        }
    }
}

/// What verdicts of a cell are told apart by: class, culprit and cause.
type Key<'a> = (&'static str, Option<&'a Culprit>, Option<&'a Cause>);
type Classes<'a> = BTreeMap<Key<'a>, Told>;

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
        let key = (name(i.class), i.charged_to.as_ref(), i.cause.as_ref());
        let told = gpus.entry(&i.gpu).or_default().entry(key).or_default();
        told.ms += i.ms;
        told.confidence += i.confidence * i.ms as f64;
    }
    let unknown = |classes: &Classes<'_>| classes.get(&(Class::NoData.name(), None, None)).map_or(0, |told| told.ms);
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

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_testing::bare;
    use goodput_verdict::CauseKind;

    #[test]
    fn culprits_are_spelled_as_the_truth_spells_them() {
        let entities = Entities::from([("alias/gpu0".to_owned(), BTreeSet::from(["GPU-a".to_owned()]))]);
        let interval = Interval { node: "n1.example".into(), ..bare(Class::NetworkSlow, 0..60_000) };
        let intervals = [interval];
        let names = Names::of(&entities, &intervals);
        let at = |node: &str, gpu: Option<&str>, which: Option<&str>| {
            let culprit = Culprit { node: node.into(), gpu: gpu.map(str::to_owned) };
            let cause = Cause { kind: CauseKind::Link, which: which.map(str::to_owned) };
            names.spelled(&culprit, Some(&cause))
        };
        assert_eq!(at("n1.example", Some("GPU-a"), None), "alias/gpu0");
        assert_eq!(at("n1.example", None, Some("mlx5_1/1")), "alias/mlx5_1/1");
        assert_eq!(at("n1.example", None, None), "alias");
        assert_eq!(at("n2", None, Some("mlx5_1/1")), "n2/mlx5_1/1");
        assert_eq!(at("n2", Some("GPU-b"), None), "n2/GPU-b");
    }

    #[test]
    fn verdicts_of_a_cell_that_differ_in_their_cause_are_cells_of_their_own() {
        let slow = |kind, ms| Interval {
            charged_to: Some(Culprit { node: "n1".into(), gpu: None }),
            cause: Some(Cause { kind, which: Some("mlx5_1/1".into()) }),
            ms,
            ..bare(Class::NetworkSlow, 0..60_000)
        };
        let intervals = [slow(CauseKind::Link, 20_000), slow(CauseKind::Errors, 40_000)];
        let entities = Entities::from([("n1/gpu0".to_owned(), BTreeSet::from(["GPU-a".to_owned()]))]);
        let (path, family, series) = ("t".into(), "f".into(), Vec::new());
        let (truth, ooms, damages) = (Vec::new(), Vec::new(), Vec::new());
        let trace = Trace { path, family, series, truth, ooms, damages, has_causes: true };
        let cells = cells(&trace, &entities, &intervals, Class::name);
        let told: Vec<_> = cells.iter().map(|cell| (cell.cause, cell.ms)).collect();
        assert_eq!(told, [(Some("link"), 20_000), (Some("errors"), 40_000)]);
        assert!(cells.iter().all(|cell| cell.charged_to.as_deref() == Some("n1/mlx5_1/1")));
        assert!(cells.iter().all(|cell| cell.which.as_deref() == Some("mlx5_1/1")));
    }
}
