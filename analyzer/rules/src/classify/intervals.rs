//! From booked cells to intervals: neighbouring cells of one class, owner and busy signal become one.

use std::collections::BTreeMap;
use std::ops::Range;

use super::cell::Part;
use super::{Advisory, Cause, Class, Culprit, Energy, Evidence, Fact, Interval, Node, Version, advisory};
use crate::frame::{Accounts, GpuFrame, Runs, named};
use crate::signal::Signal;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::Instance;

/// What must agree for two neighbouring parts to be one interval.
pub(super) type Key = (Class, Option<String>, Option<Culprit>, Option<Cause>, Option<&'static str>);

/// Some milliseconds of a cell.
pub(super) struct Entry<K> {
    pub(super) key: K,
    pub(super) grounds: Grounds,
    pub(super) ms: i64,
    /// What was drawn in them; advisories have none.
    pub(super) energy: Option<Energy>,
    /// What sampling leaves unknown of `ms`, in ms²; advisories have none.
    pub(super) variance_ms2: i64,
}

/// Why they have their key.
pub(super) struct Grounds {
    pub(super) confidence: f64,
    pub(super) facts: Vec<Fact>,
    pub(super) missing: Vec<Signal>,
}

impl Part {
    pub(super) fn entry(self, ms: i64, energy: Option<Energy>, variance_ms2: i64) -> Entry<Key> {
        let grounds = Grounds { confidence: self.confidence, facts: self.facts, missing: self.missing };
        Entry {
            key: (self.class, self.owner, self.charged_to, self.cause, self.rung),
            grounds,
            ms,
            energy,
            variance_ms2,
        }
    }
}

/// The GPU, or the instance of it, whose intervals they are.
pub(super) struct Whose<'a> {
    pub(super) gpu: &'a str,
    pub(super) instance: Option<&'a Instance>,
    pub(super) cluster: &'a str,
    pub(super) node: &'a str,
    pub(super) model: Option<&'a str>,
    pub(super) runs: &'a Runs,
    pub(super) accounts: &'a Accounts,
}

/// Joins the neighbouring cells of one GPU that have a key in common.
pub(super) struct Builder<K> {
    open: BTreeMap<K, Open>,
    done: Vec<(K, Open)>,
}

struct Open {
    span: Range<TimeMs>,
    ms: i64,
    /// Sum of confidence times milliseconds.
    confidence: f64,
    /// Per fact, the sums of value and threshold times milliseconds, and of milliseconds.
    facts: BTreeMap<(&'static str, &'static str), [f64; 3]>,
    missing: Vec<String>,
    energy: Option<Energy>,
    variance_ms2: i64,
}

impl<K: Ord + Clone> Builder<K> {
    pub(super) fn new() -> Self {
        Builder { open: BTreeMap::new(), done: Vec::new() }
    }

    /// Adds the next cell, which begins where the last one ended.
    pub(super) fn add(&mut self, cell: &Range<TimeMs>, parts: impl IntoIterator<Item = Entry<K>>) {
        for Entry { key, grounds, ms, energy, variance_ms2 } in parts {
            let open = self.open.entry(key).or_insert_with(|| Open::at(cell));
            open.extend(cell.end, &grounds, ms);
            open.energy = Energy::sum(open.energy, energy);
            // Evidence of bad samples: as much as can be is as unknown as more.
            open.variance_ms2 = open.variance_ms2.saturating_add(variance_ms2);
        }
        let ended: Vec<K> = self.open.iter().filter(|(_, o)| o.span.end < cell.end).map(|(k, _)| k.clone()).collect();
        for key in ended {
            self.done.extend(self.open.remove_entry(&key));
        }
    }

    fn all(self) -> impl Iterator<Item = (K, Open)> {
        self.done.into_iter().chain(self.open)
    }
}

impl Builder<Key> {
    /// The intervals, in order of time, class, owner, culprit and cause.
    pub(super) fn finish(self, whose: &Whose<'_>) -> Vec<Interval> {
        let all = self.all().map(|(key, open)| open.interval(key, whose));
        let mut intervals: Vec<Interval> = all.collect();
        let order = |i: &Interval| (i.start_ms, i.class, i.owner.clone(), i.charged_to.clone(), i.cause.clone());
        intervals.sort_by_cached_key(order);
        intervals
    }
}

impl Builder<advisory::Key> {
    /// The advisories, in order of time.
    pub(super) fn advisories(self, node: &Node, gpu: &GpuFrame) -> Vec<Advisory> {
        let advisory = |((advice, owner, cause, free), open): (advisory::Key, Open)| Advisory {
            gpu: gpu.uuid.clone(),
            cluster: named(&node.cluster),
            node: node.node.clone(),
            model: gpu.model.clone(),
            run: owner.as_deref().map(|owner| node.runs.name(owner).to_owned()),
            owner,
            advice,
            cause,
            free,
            start_ms: open.span.start,
            end_ms: open.span.end,
            confidence: open.confidence / open.ms as f64,
            evidence: open.evidence(),
        };
        let mut advisories: Vec<Advisory> = self.all().map(advisory).collect();
        let order = |a: &Advisory| (a.start_ms, a.advice, a.owner.clone(), a.cause.clone(), a.free.clone());
        advisories.sort_by_cached_key(order);
        advisories
    }
}

impl Open {
    fn at(cell: &Range<TimeMs>) -> Self {
        let (facts, missing) = (BTreeMap::new(), Vec::new());
        Open { span: cell.clone(), ms: 0, confidence: 0.0, facts, missing, energy: None, variance_ms2: 0 }
    }

    fn extend(&mut self, end: TimeMs, part: &Grounds, ms: i64) {
        let weight = ms as f64;
        self.span.end = end;
        self.ms = self.ms.saturating_add(ms);
        self.confidence += part.confidence * weight;
        for Fact { signal, unit, value, threshold } in part.facts.iter().filter(|fact| fact.is_number()) {
            let sums = self.facts.entry((signal, unit)).or_default();
            for (sum, x) in sums.iter_mut().zip([*value, *threshold, 1.0]) {
                *sum += x * weight;
            }
        }
        let new = part.missing.iter().map(|s| s.name()).filter(|name| !self.missing.iter().any(|m| m == name));
        self.missing.extend(new.map(str::to_owned).collect::<Vec<_>>());
    }

    fn evidence(&self) -> Vec<Evidence> {
        let mean = |((signal, unit), [value, threshold, ms]): (&(&'static str, &'static str), &[f64; 3])| {
            Evidence::from(Fact { signal, unit, value: value / ms, threshold: threshold / ms })
        };
        // A number that is not finite is no evidence, and cannot be stored.
        self.facts.iter().map(mean).filter(|e| e.value.is_finite() && e.threshold.is_finite()).collect()
    }

    fn interval(self, (class, owner, charged_to, cause, rung): Key, whose: &Whose<'_>) -> Interval {
        let (runs, accounts) = (whose.runs, whose.accounts);
        Interval {
            run: owner.as_deref().map(|owner| runs.name(owner).to_owned()),
            account: owner.as_deref().and_then(|owner| accounts.name(owner)).map(str::to_owned),
            gpu: whose.gpu.to_owned(),
            gpu_instance: whose.instance.cloned(),
            cluster: named(whose.cluster),
            node: whose.node.to_owned(),
            model: whose.model.map(str::to_owned),
            owner,
            class,
            charged_to,
            cause,
            start_ms: self.span.start,
            end_ms: self.span.end,
            ms: self.ms,
            confidence: self.confidence / self.ms as f64,
            busy_signal: rung.map(str::to_owned),
            evidence: self.evidence(),
            missing: self.missing,
            energy: self.energy,
            variance_ms2: Some(self.variance_ms2),
            version: Some(Version::of(class)),
        }
    }
}
