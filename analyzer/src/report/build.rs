//! Intervals to report: sums, groups and orders, nothing else.

use std::collections::{BTreeMap, BTreeSet};

use super::chart::Timeline;
use super::remedy::{meaning, remedies};
use super::{
    Amount, BusySignal, ClassAmount, ClassRow, Coverage, FORMULA, Finding, Fleet, Period, Place, Previous, Proof,
    Report, Row, SCHEMA_VERSION, Span, ratio,
};
use crate::classify::{Class, Evidence, Group, Interval};

/// Computes the report of `period` from its intervals and those of the period before it.
///
/// All sums are sums of `ms` of the intervals, so that they agree with the ledger to the millisecond.
#[must_use]
pub fn build(intervals: &[Interval], previous: &[Interval], period: Period) -> Report {
    let ledger = Ledger::of(intervals);
    let before = (!previous.is_empty()).then(|| Ledger::of(previous));
    let findings = findings(intervals, &ledger);
    let (unjudged, findings) = findings.into_iter().partition(|f| is_unjudged(f.class));
    let accounted = accounted(intervals);
    let axis = accounted.as_ref().map_or_else(|| period.clone(), |span| period.around(span.start_ms, span.end_ms));
    Report {
        schema_version: SCHEMA_VERSION,
        accounted,
        fleet: fleet(intervals, &ledger),
        classes: classes(&ledger, before.as_ref()),
        previous: before.map(|before| compare(&ledger, &before, &period)),
        coverage: coverage(intervals, &ledger),
        findings,
        unjudged,
        owners: rows(intervals.iter().filter(|i| is_held(i.class)), |i| (i.owner.clone(), None)),
        nodes: rows(intervals.iter(), |i| (Some(i.node.clone()), None)),
        models: rows(intervals.iter(), |i| (i.model.clone(), None)),
        gpus: rows(intervals.iter(), |i| (Some(i.gpu.clone()), Some(i.node.clone()))),
        timeline: Timeline::of(intervals, axis),
        period,
    }
}

fn is_held(class: Class) -> bool {
    class.group() != Group::Capacity
}

/// No cause can be named: there are no samples, or not enough evidence.
fn is_unjudged(class: Class) -> bool {
    matches!(class, Class::NoData | Class::Unexplained)
}

/// Milliseconds by class.
#[derive(Default)]
pub(crate) struct Ledger(BTreeMap<Class, i64>);

impl Ledger {
    pub(crate) fn of<'a>(intervals: impl IntoIterator<Item = &'a Interval>) -> Self {
        let mut ledger = Self::default();
        intervals.into_iter().for_each(|i| ledger.add(i));
        ledger
    }

    fn add(&mut self, interval: &Interval) {
        *self.0.entry(interval.class).or_default() += interval.ms;
    }

    pub(crate) fn get(&self, class: Class) -> i64 {
        self.0.get(&class).copied().unwrap_or_default()
    }

    pub(crate) fn capacity(&self) -> i64 {
        self.0.values().sum()
    }

    pub(crate) fn allocated(&self) -> i64 {
        self.0.iter().filter(|(class, _)| is_held(**class)).map(|(_, ms)| ms).sum()
    }

    pub(crate) fn with_data(&self) -> i64 {
        self.capacity() - self.get(Class::NoData)
    }

    /// Unknown when nothing at all was seen: zero would be a claim.
    pub(crate) fn goodput(&self) -> Option<f64> {
        ratio(self.get(Class::Productive), self.capacity()).filter(|_| self.with_data() > 0)
    }

    pub(crate) fn losses(&self) -> Vec<ClassAmount> {
        let whole = self.capacity();
        let lost = self.0.iter().filter(|(class, ms)| **class != Class::Productive && **ms > 0);
        let mut losses: Vec<ClassAmount> =
            lost.map(|(class, ms)| ClassAmount { class: *class, amount: Amount::of(*ms, whole) }).collect();
        losses.sort_by_key(|loss| std::cmp::Reverse(loss.amount.gpu_ms));
        losses
    }
}

fn accounted(intervals: &[Interval]) -> Option<Span> {
    let start_ms = intervals.iter().map(|i| i.start_ms).min()?;
    let end_ms = intervals.iter().map(|i| i.end_ms).max()?;
    Some(Span { start_ms, end_ms, gpu_ms: intervals.iter().map(|i| i.ms).sum() })
}

fn fleet(intervals: &[Interval], ledger: &Ledger) -> Fleet {
    let (capacity, productive) = (ledger.capacity(), ledger.get(Class::Productive));
    Fleet {
        formula: FORMULA,
        goodput: ledger.goodput(),
        goodput_of_known: ratio(productive, ledger.with_data()),
        goodput_at_most: ratio(productive + ledger.get(Class::NoData), capacity),
        gpus: distinct(intervals, |i| &i.gpu),
        nodes: distinct(intervals, |i| &i.node),
        capacity: Amount::of(capacity, capacity),
        allocated: Amount::of(ledger.allocated(), capacity),
        productive: Amount::of(productive, capacity),
    }
}

fn distinct<'a>(intervals: &'a [Interval], key: impl Fn(&'a Interval) -> &'a str) -> usize {
    intervals.iter().map(key).collect::<BTreeSet<_>>().len()
}

fn classes(ledger: &Ledger, before: Option<&Ledger>) -> Vec<ClassRow> {
    let row = |class: &Class| ClassRow {
        class: *class,
        group: class.group(),
        amount: Amount::of(ledger.get(*class), ledger.capacity()),
        previous: before.map(|b| Amount::of(b.get(*class), b.capacity())),
    };
    Class::ALL.iter().map(row).collect()
}

fn compare(ledger: &Ledger, before: &Ledger, period: &Period) -> Previous {
    let change = |(now, then)| now - then;
    Previous {
        label: period.previous().label,
        goodput: before.goodput(),
        goodput_change: ledger.goodput().zip(before.goodput()).map(change),
        capacity: Amount::of(before.capacity(), before.capacity()),
    }
}

fn coverage(intervals: &[Interval], ledger: &Ledger) -> Coverage {
    let mut by_signal: BTreeMap<Option<&str>, i64> = BTreeMap::new();
    for interval in intervals.iter().filter(|i| i.class != Class::NoData) {
        *by_signal.entry(interval.busy_signal.as_deref()).or_default() += interval.ms;
    }
    let with_data = ledger.with_data();
    let busy = |(signal, ms): (Option<&str>, i64)| BusySignal {
        signal: signal.map(str::to_owned),
        amount: Amount::of(ms, with_data),
    };
    let mut busy_signals: Vec<BusySignal> = by_signal.into_iter().map(busy).collect();
    busy_signals.sort_by_key(|s| std::cmp::Reverse(s.amount.gpu_ms));
    Coverage { with_data: Amount::of(with_data, ledger.capacity()), busy_signals }
}

/// What belongs to one finding: a class and its owner; where nobody held the GPU, the node.
type FindingKey<'a> = (Class, Option<&'a str>, Option<&'a str>);

fn findings(intervals: &[Interval], ledger: &Ledger) -> Vec<Finding> {
    let mut groups: BTreeMap<FindingKey, Vec<&Interval>> = BTreeMap::new();
    for i in intervals.iter().filter(|i| i.class != Class::Productive && i.ms > 0) {
        let node = i.owner.is_none().then_some(i.node.as_str());
        groups.entry((i.class, i.owner.as_deref(), node)).or_default().push(i);
    }
    let finding = |((class, owner, _), group): (FindingKey, Vec<&Interval>)| {
        let lost = group.iter().map(|i| i.ms).sum();
        Finding {
            class,
            meaning: meaning(class),
            lost: Amount::of(lost, ledger.capacity()),
            owner: owner.map(str::to_owned),
            places: places(&group, lost),
            spans: spans(&group),
            confidence: group.iter().map(|i| i.confidence * i.ms as f64).sum::<f64>() / lost as f64,
            evidence: evidence(&group),
            missing: missing(&group),
            remedies: remedies(class),
        }
    };
    let mut findings: Vec<Finding> = groups.into_iter().map(finding).collect();
    findings.sort_by_key(|f| std::cmp::Reverse(f.lost.gpu_ms));
    findings
}

fn places(group: &[&Interval], lost: i64) -> Vec<Place> {
    let mut by_gpu: BTreeMap<(&str, &str), (Option<&str>, i64)> = BTreeMap::new();
    for i in group {
        let (model, ms) = by_gpu.entry((&i.node, &i.gpu)).or_default();
        *model = model.or(i.model.as_deref());
        *ms += i.ms;
    }
    let place = |((node, gpu), (model, ms)): ((&str, &str), (Option<&str>, i64))| Place {
        node: node.into(),
        gpu: gpu.into(),
        model: model.map(str::to_owned),
        amount: Amount::of(ms, lost),
    };
    let mut places: Vec<Place> = by_gpu.into_iter().map(place).collect();
    places.sort_by_key(|p| std::cmp::Reverse(p.amount.gpu_ms));
    places
}

/// The union of the intervals: stretches that touch or overlap become one.
fn spans(group: &[&Interval]) -> Vec<Span> {
    let mut sorted = group.to_vec();
    sorted.sort_by_key(|i| (i.start_ms, i.end_ms));
    let mut spans: Vec<Span> = Vec::new();
    for i in sorted {
        match spans.last_mut() {
            Some(last) if i.start_ms <= last.end_ms => {
                last.end_ms = last.end_ms.max(i.end_ms);
                last.gpu_ms += i.ms;
            }
            _ => spans.push(Span { start_ms: i.start_ms, end_ms: i.end_ms, gpu_ms: i.ms }),
        }
    }
    spans
}

/// Each signal's mean, weighted by the time that it explains, in the order in which the rules gave them.
pub(crate) fn evidence(group: &[&Interval]) -> Vec<Proof> {
    let mut proofs: Vec<(Proof, f64)> = Vec::new();
    for (item, weight) in group.iter().flat_map(|i| i.evidence.iter().map(|e| (e, i.ms as f64))) {
        match proofs.iter_mut().find(|(p, _)| p.signal == item.signal && p.unit == item.unit) {
            Some((proof, weights)) => {
                proof.mean += item.value * weight;
                proof.threshold += item.threshold * weight;
                proof.min = proof.min.min(item.value);
                proof.max = proof.max.max(item.value);
                *weights += weight;
            }
            None => proofs.push((first_proof(item, weight), weight)),
        }
    }
    let mean = |(p, weights): (Proof, f64)| Proof { mean: p.mean / weights, threshold: p.threshold / weights, ..p };
    proofs.into_iter().map(mean).collect()
}

fn first_proof(item: &Evidence, weight: f64) -> Proof {
    Proof {
        signal: item.signal.clone(),
        mean: item.value * weight,
        min: item.value,
        max: item.value,
        threshold: item.threshold * weight,
        unit: item.unit.clone(),
    }
}

/// Every signal that some interval missed, once.
pub(crate) fn missing(group: &[&Interval]) -> Vec<String> {
    let signals: BTreeSet<&String> = group.iter().flat_map(|i| &i.missing).collect();
    signals.into_iter().cloned().collect()
}

/// Name and node of a line.
type RowKey = (Option<String>, Option<String>);

/// What a line sums.
#[derive(Default)]
struct Tally<'a> {
    ledger: Ledger,
    gpus: BTreeSet<&'a str>,
}

fn rows<'a>(intervals: impl Iterator<Item = &'a Interval>, key: impl Fn(&Interval) -> RowKey) -> Vec<Row> {
    let mut tallies: BTreeMap<RowKey, Tally> = BTreeMap::new();
    for interval in intervals {
        let tally = tallies.entry(key(interval)).or_default();
        tally.ledger.add(interval);
        tally.gpus.insert(&interval.gpu);
    }
    let mut rows: Vec<Row> = tallies.into_iter().map(|(key, tally)| row(key, &tally)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total.gpu_ms - row.productive.gpu_ms));
    rows
}

fn row((name, node): RowKey, tally: &Tally) -> Row {
    let total = tally.ledger.capacity();
    Row {
        name,
        node,
        gpus: tally.gpus.len(),
        total: Amount::of(total, total),
        productive: Amount::of(tally.ledger.get(Class::Productive), total),
        losses: tally.ledger.losses(),
    }
}
