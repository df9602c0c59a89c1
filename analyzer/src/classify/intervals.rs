//! From booked cells to intervals: neighbouring cells of one class, owner and busy signal become one.

use std::collections::BTreeMap;
use std::ops::Range;

use super::cell::Part;
use super::{Class, Evidence, Fact, Interval};
use crate::sample::TimeMs;

/// What must agree for two neighbouring parts to be one interval.
type Key = (Class, Option<String>, Option<&'static str>);

/// Builds the intervals of one GPU.
#[derive(Default)]
pub(super) struct Builder {
    open: BTreeMap<Key, Open>,
    done: Vec<(Key, Open)>,
}

struct Open {
    span: Range<TimeMs>,
    ms: i64,
    /// Sum of confidence times milliseconds.
    confidence: f64,
    /// Per fact, the sums of value and threshold times milliseconds, and of milliseconds.
    facts: BTreeMap<(&'static str, &'static str), [f64; 3]>,
    missing: Vec<String>,
}

impl Builder {
    /// Adds the next cell, which begins where the last one ended.
    pub(super) fn add(&mut self, cell: &Range<TimeMs>, parts: Vec<(Part, i64)>) {
        for (part, ms) in parts {
            let key = (part.class, part.owner.clone(), part.rung);
            let fresh =
                || Open { span: cell.clone(), ms: 0, confidence: 0.0, facts: BTreeMap::new(), missing: Vec::new() };
            self.open.entry(key).or_insert_with(fresh).extend(cell.end, &part, ms);
        }
        let ended: Vec<Key> = self.open.iter().filter(|(_, o)| o.span.end < cell.end).map(|(k, _)| k.clone()).collect();
        for key in ended {
            self.done.extend(self.open.remove_entry(&key));
        }
    }

    /// The intervals, in order of time and class.
    pub(super) fn finish(self, gpu: &str, node: &str, model: Option<&str>) -> Vec<Interval> {
        let all = self.done.into_iter().chain(self.open);
        let mut intervals: Vec<Interval> = all.map(|(key, open)| open.interval(key, gpu, node, model)).collect();
        intervals.sort_by(|a, b| (a.start_ms, a.class, &a.owner).cmp(&(b.start_ms, b.class, &b.owner)));
        intervals
    }
}

impl Open {
    fn extend(&mut self, end: TimeMs, part: &Part, ms: i64) {
        let weight = ms as f64;
        self.span.end = end;
        self.ms += ms;
        self.confidence += part.confidence * weight;
        for Fact { signal, unit, value, threshold } in &part.facts {
            let sums = self.facts.entry((signal, unit)).or_default();
            for (sum, x) in sums.iter_mut().zip([*value, *threshold, 1.0]) {
                *sum += x * weight;
            }
        }
        let new = part.missing.iter().map(|s| s.name()).filter(|name| !self.missing.iter().any(|m| m == name));
        self.missing.extend(new.map(str::to_owned).collect::<Vec<_>>());
    }

    fn interval(self, (class, owner, rung): Key, gpu: &str, node: &str, model: Option<&str>) -> Interval {
        let evidence = self.facts.into_iter().map(|((signal, unit), [value, threshold, ms])| {
            Evidence::from(Fact { signal, unit, value: value / ms, threshold: threshold / ms })
        });
        Interval {
            gpu: gpu.to_owned(),
            node: node.to_owned(),
            model: model.map(str::to_owned),
            owner,
            class,
            start_ms: self.span.start,
            end_ms: self.span.end,
            ms: self.ms,
            confidence: self.confidence / self.ms as f64,
            busy_signal: rung.map(str::to_owned),
            evidence: evidence.collect(),
            missing: self.missing,
        }
    }
}
