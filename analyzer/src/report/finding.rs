//! Sums to findings: one per class and run; where no owner held the GPU, one per class and node.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashMap, HashMapExt as _, HashSet};

use super::caused::{causes, main_cause, ports, storage, waiting};
use super::chart::ticks;
use super::evidence::Curves;
use super::fill::{About, filled};
use super::sum::{Amount, Sum};
use super::summed::{Item, Number};
use super::{Finding, Period, Place, Port, Proof, Recoverable, Span};
use goodput_verdict::{Basis, Class, Evidence, Gain, Group, Instance, Interval, Stretch};

const MS_PER_SECOND: f64 = 1000.0;

/// What belongs to one finding: class, cluster, run, and node where no owner held the GPU.
pub(super) type Key<'a> = (Class, Option<&'a str>, Option<&'a str>, Option<&'a str>);

pub(super) fn key(interval: &Interval) -> Key<'_> {
    let node = interval.owner.is_none().then_some(interval.node.as_str());
    (interval.class, interval.cluster.as_deref(), interval.holder(), node)
}

/// The same by numbers of names, within one sum.
pub(super) type NumberedKey<'a> = (Class, Option<&'a str>, Option<Number>, Option<Number>);

pub(super) fn numbered_key<'a>(item: &'a Item<'_>) -> NumberedKey<'a> {
    let (interval, numbers) = (item.interval(), item.numbers());
    (interval.class, interval.cluster.as_deref(), numbers.holder, interval.owner.is_none().then_some(numbers.node))
}

/// What items have that belong to one finding.
pub(super) fn by_finding<'i, 'p>(items: &'i [Item<'p>]) -> HashMap<Key<'i>, Sum<'p>> {
    let mut sums: HashMap<NumberedKey<'_>, (&'i Item<'p>, Sum<'p>)> = HashMap::new();
    for item in items {
        sums.entry(numbered_key(item)).or_insert_with(|| (item, Sum::default())).1.add(item);
    }
    sums.into_values().map(|(item, sum)| (key(item), sum)).collect()
}

/// All time of the period that is compared, in milliseconds, and that of each finding.
pub(super) type Before<'i, 'p> = (i64, HashMap<Key<'i>, Sum<'p>>);

/// Everything that is not productive, by class, cluster, run and node, without evidence.
pub(super) fn findings(items: &[Item<'_>], before: Option<&Before<'_, '_>>, capacity_ms: i64) -> Vec<Finding> {
    let mut groups: HashMap<NumberedKey<'_>, Vec<&Item<'_>>> = HashMap::new();
    for item in items.iter().filter(|i| i.class != Class::Productive && i.ms > 0) {
        groups.entry(numbered_key(item)).or_default().push(item);
    }
    let held = held_by(items);
    let finding = |(key, group): (Key<'_>, Vec<&Item<'_>>)| {
        let previous = before.map(|(whole, sums)| sums.get(&key).cloned().unwrap_or_default().amount(*whole));
        let sum = Sum::of(group.iter().copied());
        let lost = sum.amount(capacity_ms);
        let of_class = key.0.info().gain;
        let whole = of_class.map(|gain| (gain, recoverable(gain, &lost, &group, &held)));
        let (gain, recoverable) = whole.or_else(|| of_causes(&group, capacity_ms, &held)).unzip();
        Finding { interval: sum.bounds(capacity_ms), previous, gain, recoverable, ..bare(key, &group, lost) }
    };
    let mut groups: Vec<_> = groups.into_values().filter_map(|group| Some((key(group.first()?), group))).collect();
    groups.sort_unstable_by_key(|(key, _)| *key);
    groups.into_iter().map(finding).collect()
}

fn bare((class, cluster, owner, node): Key<'_>, group: &[&Item<'_>], lost: Amount) -> Finding {
    let lost_ms = lost.gpu_ms;
    let intervals = || group.iter().map(|item| item.interval());
    let places = places_of(group, lost_ms, |i| Some((&i.node, &i.gpu, i.gpu_instance.as_ref())));
    let culprits = places_of(group, lost_ms, |i| {
        let culprit = i.charged_to.as_ref()?;
        Some((&culprit.node, culprit.gpu.as_deref()?, None))
    });
    let causes = causes(group, lost_ms);
    let main_cause = main_cause(&causes, lost_ms);
    // What is done about a GPU or a port that is waited for is done there.
    let is_main = |item: &&&Item<'_>| main_cause.is_none_or(|kind| item.cause.as_ref().is_some_and(|c| c.kind == kind));
    let main: Vec<&Item<'_>> = group.iter().filter(is_main).copied().collect();
    let (main_ports, main_storage) = (ports(&main, lost_ms), storage(&main, lost_ms));
    let about = match (culprits.first(), main_ports.first()) {
        (None, Some(Port { node, which, .. })) => {
            About { node: Some(node), owner, port: which.as_deref(), ..About::default() }
        }
        (culprit, _) => {
            let place = culprit.or(places.first());
            let (node, gpu) = (place.map(|p| p.node.as_str()), place.map(|p| p.gpu.as_str()));
            let mount = main_storage.first().map(|storage| storage.which.as_str());
            About { node, gpu, owner, mount, ..About::default() }
        }
    };
    let remedies = class.remedies(main_cause);
    Finding {
        commands: filled(remedies, &about),
        cluster: cluster.map(str::to_owned),
        class,
        meaning: class.info().meaning,
        owner: owner.map(str::to_owned),
        node: node.map(str::to_owned),
        places,
        culprits,
        ports: ports(group, lost_ms),
        port_table: None,
        mount_table: None,
        collectives: None,
        storage: storage(group, lost_ms),
        waiting: waiting(group, lost_ms),
        causes,
        spans: spans(group),
        confidence: intervals().map(|i| i.confidence * i.ms as f64).sum::<f64>() / lost_ms as f64,
        rule_versions: rule_versions(intervals()),
        evidence: Vec::new(),
        missing: missing(group.iter().map(|item| item.grounds.missing.as_slice())),
        remedies,
        check: class.info().check,
        lost,
        interval: None,
        previous: None,
        gain: None,
        recoverable: None,
        curves: Vec::new(),
        ticks: Vec::new(),
    }
}

/// The evidence of a finding, interval by interval.
pub(super) struct Proving {
    proofs: Proofs,
    curves: Curves,
    axis: Period,
}

impl Proving {
    /// Of a finding in the time of the axis.
    pub(super) fn of(finding: &Finding, axis: &Period) -> Self {
        Self { proofs: Proofs::default(), curves: Curves::default(), axis: finding.zoomed(axis) }
    }

    pub(super) fn add(&mut self, interval: &Interval) {
        self.proofs.add(&interval.evidence, interval.ms as f64);
        self.curves.add(interval, &self.axis);
    }
}

impl Finding {
    /// Is the interval's time part of it?
    pub(super) fn has(&self, interval: &Interval) -> bool {
        interval.ms > 0 && key(interval) == self.key()
    }

    pub(super) fn key(&self) -> Key<'_> {
        (self.class, self.cluster.as_deref(), self.owner.as_deref(), self.node.as_deref())
    }

    pub(super) fn prove(&mut self, proving: Proving) {
        (self.evidence, self.curves) = (proving.proofs.means(), proving.curves.drawn());
        self.ticks = ticks(&proving.axis);
    }

    /// The part of the axis from the first to the last loss, with half of its length before and after.
    fn zoomed(&self, axis: &Period) -> Period {
        let (first, last) = (self.first_ms(), self.spans.iter().map(|span| span.end_ms).max().unwrap_or_default());
        let margin = (last - first) / 2;
        axis.around(first - margin, last + margin)
    }
}

/// Milliseconds for which a run held a GPU.
type Held = HashMap<(Option<Number>, Number), i64>;

fn pair(item: &Item<'_>) -> (Option<Number>, Number) {
    (item.numbers().holder, item.numbers().gpu)
}

fn held_by(items: &[Item<'_>]) -> Held {
    let mut held = Held::new();
    for item in items.iter().filter(|item| item.class.group() != Group::Capacity) {
        *held.entry(pair(item)).or_default() += item.ms;
    }
    held
}

/// The gain's range as time, never more than was lost.
fn recoverable(gain: &Gain, lost: &Amount, group: &[&Item<'_>], held: &Held) -> Recoverable {
    let lost_ms = lost.gpu_ms as f64;
    let part = |figure: f64| match gain.basis {
        Basis::Loss => figure,
        Basis::Throughput => {
            let pairs: HashSet<_> = group.iter().map(|item| pair(item)).collect();
            let held: i64 = pairs.iter().filter_map(|pair| held.get(pair)).sum();
            held as f64 * figure / (1.0 + figure) / lost_ms
        }
        Basis::Start => figure * MS_PER_SECOND * starts(group) as f64 / lost_ms,
    };
    let amount = |figure: f64| lost.scaled(part(figure).clamp(0.0, 1.0));
    Recoverable { low: amount(gain.low), high: amount(gain.high) }
}

/// The gain of causes that have one, and what it is of their time.
fn of_causes(group: &[&Item<'_>], capacity_ms: i64, held: &Held) -> Option<(&'static Gain, Recoverable)> {
    let gain_of = |item: &Item<'_>| item.cause.as_ref().and_then(|cause| cause.kind.gain());
    let with: Vec<&Item<'_>> = group.iter().copied().filter(|item| gain_of(item).is_some()).collect();
    let gain = gain_of(with.first()?)?;
    let lost = Sum::of(with.iter().copied()).amount(capacity_ms);
    Some((gain, recoverable(gain, &lost, &with, held)))
}

/// Stretches without a pause, GPU by GPU.
fn starts(group: &[&Item<'_>]) -> usize {
    let mut by_gpu: BTreeMap<&str, Vec<&Item<'_>>> = BTreeMap::new();
    group.iter().for_each(|item| by_gpu.entry(&item.gpu).or_default().push(item));
    by_gpu.values().map(|items| spans(items).len()).sum()
}

/// Node, GPU and instance of it.
type Where<'a> = (&'a str, &'a str, Option<&'a Instance>);

/// The loss by node and GPU. A model is that of the GPU whose row it is on.
fn places_of(group: &[&Item<'_>], lost_ms: i64, of: fn(&Interval) -> Option<Where<'_>>) -> Vec<Place> {
    let mut by_gpu: BTreeMap<Where<'_>, (Option<&str>, Sum<'_>)> = BTreeMap::new();
    for item in group {
        let i = item.interval();
        let Some((node, gpu, instance)) = of(i) else { continue };
        let (model, sum) = by_gpu.entry((node, gpu, instance)).or_default();
        *model = model.or(i.model.as_deref().filter(|_| *gpu == i.gpu));
        sum.add(item);
    }
    let place = |((node, gpu, instance), (model, sum)): (Where<'_>, (Option<&str>, Sum<'_>))| Place {
        node: node.into(),
        gpu: gpu.into(),
        gpu_instance: instance.cloned(),
        model: model.map(str::to_owned),
        amount: sum.amount(lost_ms),
    };
    let mut places: Vec<Place> = by_gpu.into_iter().map(place).collect();
    places.sort_by_key(|p| std::cmp::Reverse(p.amount.gpu_ms));
    places
}

/// When: stretches that touch or overlap become one.
fn spans(group: &[&Item<'_>]) -> Vec<Span> {
    let mut all: Vec<Stretch> = group.iter().flat_map(|item| item.stretches.iter().copied()).collect();
    all.sort_by_key(|stretch| (stretch.start_ms, stretch.end_ms));
    let span = |Stretch { start_ms, end_ms, ms }| Span { start_ms, end_ms, gpu_ms: ms };
    Stretch::join(all).into_iter().map(span).collect()
}

/// Each signal's mean, weighted by the time that it explains, in the order in which the rules gave them.
pub(crate) fn evidence<'a>(group: impl Iterator<Item = (&'a [Evidence], f64)>) -> Vec<Proof> {
    let mut proofs = Proofs::default();
    group.for_each(|(evidence, weight)| proofs.add(evidence, weight));
    proofs.means()
}

/// Sums of evidence, each with its weight.
#[derive(Default)]
struct Proofs(Vec<(Proof, f64)>);

impl Proofs {
    fn add(&mut self, evidence: &[Evidence], weight: f64) {
        for item in evidence {
            match self.0.iter_mut().find(|(p, _)| p.signal == item.signal && p.unit == item.unit) {
                Some((proof, weights)) => {
                    proof.mean += item.value * weight;
                    proof.threshold += item.threshold * weight;
                    proof.min = proof.min.min(item.value);
                    proof.max = proof.max.max(item.value);
                    *weights += weight;
                }
                None => self.0.push((first_proof(item, weight), weight)),
            }
        }
    }

    fn means(self) -> Vec<Proof> {
        let mean = |(p, weights): (Proof, f64)| Proof { mean: p.mean / weights, threshold: p.threshold / weights, ..p };
        self.0.into_iter().map(mean).collect()
    }
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

/// Every version of the rules of their class by which they were judged, once; `None` of releases that did not tell.
pub(crate) fn rule_versions<'a>(group: impl Iterator<Item = &'a Interval>) -> Vec<Option<u32>> {
    let versions: BTreeSet<Option<u32>> = group.map(|i| i.version.map(|version| version.rule)).collect();
    versions.into_iter().collect()
}

/// Every signal that some interval missed, once.
pub(crate) fn missing<'a>(group: impl Iterator<Item = &'a [String]>) -> Vec<String> {
    let signals: BTreeSet<&String> = group.flatten().collect();
    signals.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests;
