//! From a minute of series to an answer.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::collectives::{CollectivesAnswer, collectives};
use super::health::Health;
use crate::report::{About, advice_meaning, advice_remedies, filled};
use goodput_exposition::sample::{Series, TimeMs};
use goodput_rules::classify::{JudgeError, Thresholds, judge_series};
use goodput_rules::signal::{Entity, resolve};
use goodput_verdict::{Advice, Advisory, Cause, Class, Culprit, Evidence, Interval, Remedy};

const HOUR_MS: i64 = 3_600_000;
/// A smaller part of the time is shown without advice.
pub(super) const MIN_LOSS: f64 = 0.05;

/// What the GPUs of one exporter did while it was scraped.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// How long it was scraped.
    pub seconds: f64,
    /// What is wrong whatever the GPUs do.
    pub health: Health,
    /// Each GPU.
    pub gpus: Vec<GpuAnswer>,
    /// What the ranks of the node did in collectives, by owner; none where NCCL's Inspector tells nothing.
    pub collectives: Vec<CollectivesAnswer>,
    /// What could not be joined to a node, and why.
    pub unjoined: Vec<String>,
}

/// What one GPU did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuAnswer {
    /// The UUID.
    pub gpu: String,
    /// Its index on the node, where a label tells.
    pub index: Option<String>,
    /// The node.
    pub node: String,
    /// The model, where known.
    pub model: Option<String>,
    /// Where its time went, the most first.
    pub classes: Vec<ClassAnswer>,
    /// What to do about the greatest loss; nothing when that is small or unexplained.
    pub remedies: &'static [Remedy],
    /// The commands of `remedies`, in their order, as they are typed; null where there is none, or what it is about is not
    /// known.
    pub commands: Vec<Option<String>>,
    /// What deserves attention though no time is charged to it.
    pub advisories: Vec<AdvisoryAnswer>,
}

/// One advice about a GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdvisoryAnswer {
    /// What is advised.
    pub advice: Advice,
    /// The advice in one sentence.
    pub meaning: &'static str,
    /// 0 to 1.
    pub confidence: f64,
    /// Who held the GPU, where known.
    pub owner: Option<String>,
    /// Of a network what its ports show; null of other advice.
    pub cause: Option<Cause>,
    /// Of `scattered_gpus` the GPUs that were free; null of other advice.
    pub free: Option<String>,
    /// The numbers behind it.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub remedies: &'static [Remedy],
}

/// Time of a GPU in one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassAnswer {
    /// The class.
    pub class: Class,
    /// The class in one sentence.
    pub meaning: &'static str,
    /// 0 to 1, of the time.
    pub share: f64,
    /// 0 to 1.
    pub confidence: f64,
    /// Version of the rules of the class.
    pub rule_version: u32,
    /// Who held the GPU, where known.
    pub owner: Option<String>,
    /// The GPU, or the node whose port, was waited for, where it is named.
    pub charged_to: Option<Culprit>,
    /// Why, where the class has several causes.
    pub cause: Option<Cause>,
    /// Its index, where it is one of the target's.
    #[serde(skip)]
    pub(super) culprit_index: Option<String>,
    /// Which signal said busy or not.
    pub busy_signal: Option<String>,
    /// The numbers behind it.
    pub evidence: Vec<Evidence>,
    /// Signals whose absence kept rules from judging.
    pub missing: Vec<String>,
}

/// Judges the series, whose first sample was taken at `start`.
///
/// They are moved in time so that the first lies on a full hour: then they fill whole cells, as stored samples do.
pub(super) fn answer(
    mut series: Vec<Series>,
    start: TimeMs,
    duration: Duration,
    thresholds: &Thresholds,
) -> Result<Answer, JudgeError> {
    let shift = (-start).rem_euclid(HOUR_MS);
    series.iter_mut().flat_map(|s| &mut s.samples).for_each(|sample| sample.time_ms += shift);
    let length = i64::try_from(duration.as_millis()).unwrap_or(HOUR_MS).min(HOUR_MS);
    let window = start + shift..start + shift + length;
    let window_end = window.end;
    let judged = judge_series(&series, window, &within(thresholds, duration))?;
    let indices = indices(&series);
    let mut by_gpu: BTreeMap<&str, Vec<&Interval>> = BTreeMap::new();
    judged.intervals.iter().for_each(|i| by_gpu.entry(&i.gpu).or_default().push(i));
    let health = Health::of(&series, window_end, &indices, thresholds);
    let advised = |gpu: &str| judged.advisories.iter().filter(|a| a.gpu == gpu).map(advisory_answer).collect();
    let answer = |gpu: &str, intervals: &[&Interval]| {
        let answer = gpu_answer(&indices, intervals, advised(gpu))?;
        // A damaged GPU that is free is not free: what to do is about the damage.
        let remedies = health.remedies(gpu).unwrap_or(answer.remedies);
        let commands = filled(remedies, &answer.about());
        Some(GpuAnswer { remedies, commands, ..answer })
    };
    let gpus = by_gpu.into_iter().filter_map(|(gpu, intervals)| answer(gpu, &intervals));
    let mut gpus: Vec<GpuAnswer> = gpus.collect();
    gpus.sort_by_key(|gpu| (gpu.node.clone(), gpu.number(), gpu.gpu.clone()));
    Ok(Answer {
        seconds: duration.as_secs_f64(),
        health,
        gpus,
        collectives: collectives(&series),
        unjoined: judged.unjoined.iter().map(ToString::to_string).collect(),
    })
}

/// A GPU that idles for as long as anyone looked cannot be told from one that idles for longer.
fn within(thresholds: &Thresholds, duration: Duration) -> Thresholds {
    let idle_window_seconds = thresholds.idle_window_seconds.min(duration.as_secs_f64());
    Thresholds { idle_window_seconds, ..thresholds.clone() }
}

/// Index by UUID.
fn indices(series: &[Series]) -> BTreeMap<String, String> {
    let index = |s: &Series| match resolve(&s.labels)?.entity {
        Entity::Gpu(uuid) => Some((uuid.to_owned(), s.labels.get("gpu")?.to_owned())),
        _ => None,
    };
    series.iter().filter_map(index).collect()
}

fn gpu_answer(
    indices: &BTreeMap<String, String>,
    intervals: &[&Interval],
    advisories: Vec<AdvisoryAnswer>,
) -> Option<GpuAnswer> {
    let first = intervals.first()?;
    let whole: i64 = intervals.iter().map(|i| i.ms).sum();
    let mut sorted = intervals.to_vec();
    sorted.sort_by_key(|i| std::cmp::Reverse(i.ms));
    let is_worth_while = |i: &&&Interval| i.class != Class::Productive && i.ms as f64 >= MIN_LOSS * whole as f64;
    let loss = sorted.iter().find(is_worth_while).filter(|i| i.class != Class::Unexplained);
    Some(GpuAnswer {
        gpu: first.gpu.clone(),
        index: indices.get(&first.gpu).cloned(),
        node: first.node.clone(),
        model: first.model.clone(),
        remedies: loss.map_or(&[], |i| i.class.remedies(i.cause.as_ref().map(|cause| cause.kind))),
        commands: Vec::new(),
        classes: sorted.into_iter().map(|i| class_answer(i, whole, indices)).collect(),
        advisories,
    })
}

fn advisory_answer(advisory: &Advisory) -> AdvisoryAnswer {
    AdvisoryAnswer {
        advice: advisory.advice,
        meaning: advice_meaning(advisory.advice),
        confidence: advisory.confidence,
        owner: advisory.owner.clone(),
        cause: advisory.cause.clone(),
        free: advisory.free.clone(),
        evidence: advisory.evidence.clone(),
        remedies: advice_remedies(advisory.advice, advisory.cause.as_ref()),
    }
}

fn class_answer(interval: &Interval, whole: i64, indices: &BTreeMap<String, String>) -> ClassAnswer {
    let culprit = interval.charged_to.as_ref().and_then(|culprit| culprit.gpu.as_ref());
    ClassAnswer {
        class: interval.class,
        meaning: interval.class.info().meaning,
        share: interval.ms as f64 / whole as f64,
        confidence: interval.confidence,
        rule_version: interval.class.version(),
        owner: interval.owner.clone(),
        culprit_index: culprit.and_then(|gpu| indices.get(gpu)).cloned(),
        charged_to: interval.charged_to.clone(),
        cause: interval.cause.clone(),
        busy_signal: interval.busy_signal.clone(),
        evidence: interval.evidence.clone(),
        missing: interval.missing.clone(),
    }
}

impl ClassAnswer {
    /// What to do about it; nothing is known of what is unexplained.
    pub(super) fn remedies(&self) -> &'static [Remedy] {
        let cause = self.cause.as_ref().map(|cause| cause.kind);
        if self.class == Class::Unexplained { &[] } else { self.class.remedies(cause) }
    }

    /// The port, mount or disk that has the cause.
    pub(super) fn which(&self) -> Option<&str> {
        self.cause.as_ref()?.which.as_deref()
    }
}

impl Answer {
    /// Only the GPU of this index or UUID.
    pub(super) fn keep_gpu(&mut self, gpu: &str) {
        self.gpus.retain(|g| g.gpu == gpu || g.index.as_deref() == Some(gpu));
        self.narrow_health();
    }

    /// Only GPUs that this owner held.
    pub(super) fn keep_owner(&mut self, owner: &str) {
        self.gpus.retain(|g| g.classes.iter().any(|c| c.owner.as_deref() == Some(owner)));
        self.narrow_health();
    }

    fn narrow_health(&mut self) {
        let is_held =
            |owner: &str| self.gpus.iter().flat_map(|gpu| &gpu.classes).any(|c| c.owner.as_deref() == Some(owner));
        self.collectives.retain(|one| is_held(&one.owner));
        self.health.keep(&self.gpus.iter().map(|g| g.gpu.clone()).collect());
    }
}

impl GpuAnswer {
    /// Index and UUID.
    pub(super) fn name(&self) -> String {
        format!("{} ({})", self.index.as_deref().unwrap_or("?"), self.gpu)
    }

    /// What commands are about, by its greatest loss.
    pub(super) fn about(&self) -> About<'_> {
        self.about_loss(self.classes.iter().find(|class| class.class != Class::Productive))
    }

    /// What commands against a loss are about: the GPU, or the one or the node that it waited for.
    pub(super) fn about_loss<'a>(&'a self, loss: Option<&'a ClassAnswer>) -> About<'a> {
        let (culprit, which) = (loss.and_then(|class| class.charged_to.as_ref()), loss.and_then(ClassAnswer::which));
        About {
            node: Some(culprit.map_or(self.node.as_str(), |culprit| &culprit.node)),
            gpu: culprit.map_or(Some(self.gpu.as_str()), |culprit| culprit.gpu.as_deref()),
            owner: loss.and_then(|class| class.owner.as_deref()),
            port: which.filter(|_| culprit.is_some()),
            mount: which.filter(|_| culprit.is_none()),
        }
    }

    /// The index as a number.
    pub(super) fn number(&self) -> Option<u32> {
        self.index.as_ref().and_then(|index| index.parse().ok())
    }
}

#[cfg(test)]
mod tests;
