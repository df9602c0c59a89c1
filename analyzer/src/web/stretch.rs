//! Stretches: what a GPU's time went into without a pause, over the hours at which intervals are cut.

use std::collections::BTreeMap;

use super::clock::Clock;
use crate::report::text;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Cause, Class, Culprit, Instance, Interval};

/// Neighbouring intervals of one GPU or instance of it, class, owner, culprit and cause.
#[derive(Clone, Debug)]
pub(super) struct Stretch<'a> {
    pub(super) class: Class,
    pub(super) instance: Option<&'a Instance>,
    pub(super) owner: Option<&'a str>,
    pub(super) charged_to: Option<&'a Culprit>,
    pub(super) cause: Option<&'a Cause>,
    pub(super) start_ms: TimeMs,
    pub(super) end_ms: TimeMs,
    /// GPU-milliseconds of the class within.
    pub(super) ms: i64,
    pub(super) parts: Vec<&'a Interval>,
}

impl<'a> Stretch<'a> {
    fn new(first: &'a Interval) -> Self {
        let (start_ms, end_ms) = (first.start_ms, first.start_ms);
        let (owner, charged_to) = (first.owner.as_deref(), first.charged_to.as_ref());
        let (class, cause, instance) = (first.class, first.cause.as_ref(), first.gpu_instance.as_ref());
        Self { class, instance, owner, charged_to, cause, start_ms, end_ms, ms: 0, parts: Vec::new() }
    }

    fn add(&mut self, next: &'a Interval) {
        self.end_ms = self.end_ms.max(next.end_ms);
        self.ms += next.ms;
        self.parts.push(next);
    }

    /// Which instance of the GPU it is of, to be read behind the GPU's name.
    pub(super) fn of_instance(&self) -> String {
        self.instance.map_or_else(String::new, |instance| format!("instance {instance}"))
    }

    /// Share of the class in this time.
    pub(super) fn share(&self) -> f64 {
        self.ms as f64 / (self.end_ms - self.start_ms).max(1) as f64
    }

    /// 0 to 1, weighted by time.
    pub(super) fn confidence(&self) -> f64 {
        self.parts.iter().map(|i| i.confidence * i.ms as f64).sum::<f64>() / self.ms.max(1) as f64
    }

    /// `dataloader_storage, Sat 21 Nov 2026 14:00–15:12, 1.10 GPU-hours`.
    pub(super) fn label(&self, clock: &Clock) -> String {
        let when = clock.stretch(self.start_ms, self.end_ms);
        let instance = self.instance.map_or_else(String::new, |_| format!(" of {}", self.of_instance()));
        format!("{}{instance}, {when}, {} GPU-hours", self.class.name(), text::hours(self.ms))
    }
}

/// What intervals of one stretch have in common.
type Key<'a> = (Class, Option<&'a Instance>, Option<&'a str>, Option<&'a Culprit>, Option<&'a Cause>);

/// The stretches of one GPU's intervals, in order of time and class.
pub(super) fn stretches<'a>(intervals: impl IntoIterator<Item = &'a Interval>) -> Vec<Stretch<'a>> {
    let mut intervals: Vec<&Interval> = intervals.into_iter().filter(|i| i.ms > 0).collect();
    intervals.sort_by_key(|i| (i.start_ms, i.class));
    let mut all: Vec<Stretch<'a>> = Vec::new();
    let mut last: BTreeMap<Key<'_>, usize> = BTreeMap::new();
    for interval in intervals {
        let (instance, owner) = (interval.gpu_instance.as_ref(), interval.owner.as_deref());
        let key = (interval.class, instance, owner, interval.charged_to.as_ref(), interval.cause.as_ref());
        let index = match last.get(&key) {
            Some(index) if interval.start_ms <= all[*index].end_ms => *index,
            _ => {
                all.push(Stretch::new(interval));
                all.len() - 1
            }
        };
        all[index].add(interval);
        last.insert(key, index);
    }
    all
}
