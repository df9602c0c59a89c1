//! Roll-up of verdicts: what the GPUs of a node did in an hour or a day, without the evidence. Reports and pages sum these.

mod day;
mod sums;

pub use sums::Sums;

use std::collections::BTreeMap;

use goodput_exposition::sample::TimeMs;

use crate::{Cause, Class, Culprit, Energy, HOUR_MS, Instance, Interval, Version};

/// Time zones are whole quarters of an hour from UTC, so that windows begin and end at these.
const QUARTER_MS: i64 = HOUR_MS / 4;

/// The intervals of a node within an hour or a day of UTC, those that only differ in time and evidence summed. Where no
/// interval reaches over a quarter of an hour, the time before it and after it are two of these: windows of half an hour
/// are never put together. A day is all of its hours [joined](Self::joined).
#[derive(Clone, Debug, PartialEq)]
pub struct RollUp {
    /// The cluster of the node; `None` where its series name none, and in verdicts of earlier releases.
    pub cluster: Option<String>,
    /// The node.
    pub node: String,
    /// Start of the first interval, Unix milliseconds, UTC.
    pub start_ms: TimeMs,
    /// End of the last interval, Unix milliseconds, UTC.
    pub end_ms: TimeMs,
    /// What the verdicts rest on; parts name these by their place.
    pub grounds: Vec<Grounds>,
    /// By GPU and who held it.
    pub held: Vec<Held>,
}

/// Which signals verdicts rest on.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grounds {
    /// As of an interval.
    pub busy_signal: Option<String>,
    /// As of an interval.
    pub missing: Vec<String>,
    /// Names of the evidence that contradicts other signals, or says that they are no readings.
    pub contradictions: Vec<String>,
}

/// A GPU, and who held it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Allocation {
    /// The GPU's UUID.
    pub gpu: String,
    /// As of an interval.
    pub gpu_instance: Option<Instance>,
    /// As of an interval.
    pub model: Option<String>,
    /// As of an interval.
    pub owner: Option<String>,
    /// As of an interval.
    pub run: Option<String>,
    /// As of an interval.
    pub account: Option<String>,
}

/// What a GPU did while one owner held it, or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The GPU and its owner.
    pub allocation: Allocation,
    /// By class; a class that rests on several grounds has several.
    pub parts: Vec<Part>,
}

/// Time of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// As of an interval.
    pub class: Class,
    /// As of an interval.
    pub charged_to: Option<Culprit>,
    /// As of an interval.
    pub cause: Option<Cause>,
    /// Place in [`RollUp::grounds`].
    pub grounds: usize,
    /// As of an interval.
    pub version: Option<Version>,
    /// GPU-milliseconds.
    pub ms: i64,
    /// Sum of each interval's confidence times its milliseconds.
    pub confidence_ms: f64,
    /// Sum of what is known.
    pub energy: Option<Energy>,
    /// Sum of the variances; `None` where one is not known.
    pub variance_ms2: Option<i64>,
    /// When, in order; those that touch are one.
    pub stretches: Vec<Stretch>,
}

/// From (inclusive) to (exclusive), with the GPU time in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Unix milliseconds.
    pub start_ms: TimeMs,
    /// Unix milliseconds.
    pub end_ms: TimeMs,
    /// GPU-milliseconds.
    pub ms: i64,
}

impl From<(TimeMs, TimeMs, i64)> for Stretch {
    fn from((start_ms, end_ms, ms): (TimeMs, TimeMs, i64)) -> Self {
        Self { start_ms, end_ms, ms }
    }
}

impl Stretch {
    /// The union of stretches that are in order of their starts: those that touch or overlap become one.
    pub fn join(stretches: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut joined: Vec<Self> = Vec::new();
        for next in stretches {
            match joined.last_mut() {
                Some(last) if next.start_ms <= last.end_ms => {
                    last.end_ms = last.end_ms.max(next.end_ms);
                    last.ms = last.ms.saturating_add(next.ms);
                }
                _ => joined.push(next),
            }
        }
        joined
    }
}

impl RollUp {
    /// The roll-up of these intervals, in order of cluster, node and time. It does not depend on their order.
    #[must_use]
    pub fn fold(intervals: &[Interval]) -> Vec<Self> {
        let mut by_hour: BTreeMap<_, Vec<&Interval>> = BTreeMap::new();
        for interval in intervals {
            let hour = interval.start_ms.div_euclid(HOUR_MS) * HOUR_MS;
            by_hour.entry((&interval.cluster, &interval.node, hour)).or_default().push(interval);
        }
        by_hour
            .into_iter()
            .flat_map(|((.., hour), intervals)| uncrossed(hour, &intervals))
            .map(|part| of(&part))
            .collect()
    }

    /// Every part with its GPU and owner.
    pub fn parts(&self) -> impl Iterator<Item = (&Allocation, &Part)> {
        self.held.iter().flat_map(|held| held.parts.iter().map(|part| (&held.allocation, part)))
    }
}

/// The intervals of an hour, apart at every quarter that none of them reaches over.
fn uncrossed<'a>(hour: TimeMs, intervals: &[&'a Interval]) -> Vec<Vec<&'a Interval>> {
    let quarters = (1..4).map(|n| hour + n * QUARTER_MS);
    let is_crossed = |mark: TimeMs| intervals.iter().any(|i| i.start_ms < mark && mark < i.end_ms);
    let marks: Vec<TimeMs> = quarters.filter(|mark| !is_crossed(*mark)).collect();
    let mut parts = vec![Vec::new(); marks.len() + 1];
    for interval in intervals {
        parts[marks.iter().filter(|mark| **mark <= interval.start_ms).count()].push(*interval);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// What intervals of a part have in common.
type Common<'a> = (Class, Option<&'a Culprit>, Option<&'a Cause>, usize, Option<Version>);

/// The roll-up of intervals of one node.
fn of(intervals: &[&Interval]) -> RollUp {
    let mut sorted = intervals.to_vec();
    sorted.sort_by_key(|i| (i.start_ms, i.end_ms, i.ms));
    let mut grounds: Vec<Grounds> = sorted.iter().map(|i| Grounds::of(i)).collect();
    grounds.sort_unstable();
    grounds.dedup();
    let mut held: BTreeMap<Allocation, BTreeMap<Common<'_>, Vec<&Interval>>> = BTreeMap::new();
    for i in &sorted {
        let place = grounds.binary_search(&Grounds::of(i)).unwrap_or_default();
        let common = (i.class, i.charged_to.as_ref(), i.cause.as_ref(), place, i.version);
        held.entry(Allocation::of(i)).or_default().entry(common).or_default().push(i);
    }
    let held = held.into_iter().map(|(allocation, parts)| Held {
        allocation,
        parts: parts.into_iter().map(|(common, intervals)| part(common, &intervals)).collect(),
    });
    RollUp {
        cluster: sorted.first().and_then(|i| i.cluster.clone()),
        node: sorted.first().map(|i| i.node.clone()).unwrap_or_default(),
        start_ms: sorted.iter().map(|i| i.start_ms).min().unwrap_or_default(),
        end_ms: sorted.iter().map(|i| i.end_ms).max().unwrap_or_default(),
        held: held.collect(),
        grounds,
    }
}

fn part((class, charged_to, cause, grounds, version): Common<'_>, intervals: &[&Interval]) -> Part {
    let variances: Option<Vec<i64>> = intervals.iter().map(|i| i.variance_ms2).collect();
    Part {
        class,
        charged_to: charged_to.cloned(),
        cause: cause.cloned(),
        grounds,
        version,
        ms: intervals.iter().fold(0, |sum, i| sum.saturating_add(i.ms)),
        confidence_ms: intervals.iter().map(|i| i.confidence * i.ms as f64).sum(),
        energy: intervals.iter().fold(None, |sum, i| Energy::sum(sum, i.energy)),
        variance_ms2: variances.map(|all| all.into_iter().fold(0, i64::saturating_add)),
        stretches: Stretch::join(intervals.iter().map(|i| (i.start_ms, i.end_ms, i.ms).into())),
    }
}

impl Grounds {
    fn of(interval: &Interval) -> Self {
        let contradictions = interval.evidence.iter().filter(|evidence| evidence.contradicts());
        let mut contradictions: Vec<String> = contradictions.map(|evidence| evidence.signal.clone()).collect();
        contradictions.sort_unstable();
        contradictions.dedup();
        Self { busy_signal: interval.busy_signal.clone(), missing: interval.missing.clone(), contradictions }
    }
}

impl Allocation {
    fn of(interval: &Interval) -> Self {
        let Interval { gpu, gpu_instance, model, owner, run, account, .. } = interval.clone();
        Self { gpu, gpu_instance, model, owner, run, account }
    }

    /// As of an interval.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.run.as_deref().or(self.owner.as_deref())
    }
}
