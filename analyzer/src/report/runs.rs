//! Runs by what their jobs reported, in addition to the ledger of the GPU time that they held: how often they failed,
//! how much of their time was kept, and how often they should save.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::text;
use goodput_exposition::sample::TimeMs;
use goodput_rules::frame::union_ms;
use goodput_rules::median::median;
use goodput_store::{History, Progress};
use goodput_verdict::event::{Attempt, Place, RunId, attempts};
use goodput_verdict::{Class, Group, Interval};

/// Failures below which no interval is advised. With five the 90 % interval of the mean time to failure reaches from
/// 0.48 to 2.5 of the estimate (chi-squared, 12 and 10 degrees of freedom), and at either end the interval that follows
/// costs a tenth more than the best one: (x + 1/x) / 2 with x = 0.69 and 1.59.
pub const MIN_FAILURES: usize = 5;

/// A run in a period. Its time is that of the clock, from the first attempt's begin on, or since when it waited for it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Run {
    /// As its job calls it.
    pub run: String,
    /// Null where the job names none.
    pub cluster: Option<String>,
    /// How many ranks are named by events of one attempt, at most.
    pub ranks: usize,
    /// Those that lie in the period, in order.
    pub attempts: Vec<Try>,
    /// Attempts that failed in the period, were pre-empted, or were followed by another without reporting their end.
    pub failures: usize,
    /// Milliseconds in which an attempt that had told since when, or that followed a failure, waited for GPUs.
    pub queued_ms: i64,
    /// Does the first attempt tell since when it waited? Else that is not in `queued_ms`.
    pub is_first_queue_known: bool,
    /// Milliseconds in which the run held GPUs, by the share of its GPU time that was productive and is kept.
    pub productive_ms: i64,
    /// Of the productive milliseconds those in which it evaluated; null where its job reports no evaluation.
    pub evaluating_ms: Option<i64>,
    /// The rest of the milliseconds in which it held GPUs.
    pub unproductive_ms: i64,
    /// Milliseconds in which neither is known.
    pub unknown_ms: i64,
    /// Effective training time ratio: productive / (queued + productive + unproductive); null where it held nothing that
    /// is known of.
    pub ettr: Option<f64>,
    /// Mean time to failure: the time in which it held GPUs / failures; null without failures.
    pub mttf_seconds: Option<f64>,
    /// Median time from one checkpoint of an attempt to the next; null with fewer than two.
    pub checkpoint_interval_seconds: Option<f64>,
    /// What a checkpoint costs; null where nothing tells.
    pub checkpoint_cost: Option<CheckpointCost>,
    /// Young's and Daly's interval, sqrt(2 x cost x mean time to failure); null where it cannot be computed.
    pub advised_interval_seconds: Option<f64>,
    /// Why there is none; null where there is.
    pub no_advice: Option<String>,
}

/// An attempt at a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Attempt")]
pub struct Try {
    /// Its number.
    pub attempt: u32,
    /// Its begin, Unix milliseconds, UTC.
    pub begun_ms: TimeMs,
    /// Its end, at the latest, Unix milliseconds, UTC; null where it may go on.
    pub ended_ms: Option<TimeMs>,
    /// `completed`, `cancelled`, `failed`, `preempted`; `superseded` where the next one began and it had not
    /// reported its end; `open`.
    #[schemars(extend("enum" = ["completed", "cancelled", "failed", "preempted", "superseded", "open"]))]
    pub ending: &'static str,
    /// The highest step that an event names; null where none does.
    pub last_step: Option<u64>,
    /// Its last checkpoint, Unix milliseconds, UTC; null where it reported none.
    pub saved_ms: Option<TimeMs>,
    /// The step of the checkpoint that it went on from; null where it reported none.
    pub restored_step: Option<u64>,
}

/// How long a checkpoint keeps the run from training.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CheckpointCost {
    /// Seconds.
    pub seconds: f64,
    /// Where that is from, in words.
    pub source: &'static str,
}

/// The runs of a period, in order of cluster and name.
#[must_use]
pub fn build(history: &History, intervals: &[Interval], period: &Range<TimeMs>) -> Vec<Run> {
    let mut by_run: BTreeMap<RunId, Vec<Attempt>> = BTreeMap::new();
    for attempt in attempts(&history.events) {
        by_run.entry(attempt.run.clone()).or_default().push(attempt);
    }
    by_run.into_iter().filter_map(|(id, all)| Run::of(&id, &all, &history.progress, intervals, period)).collect()
}

/// Of these runs those that held some of the intervals.
pub(crate) fn of(history: &History, intervals: &[Interval], period: &Range<TimeMs>) -> Vec<Run> {
    let holds = |place: &Place| intervals.iter().any(|i| place.is_of(&i.node, i.owner.as_deref()));
    let theirs: BTreeSet<RunId> = attempts(&history.events)
        .into_iter()
        .filter(|attempt| attempt.places.iter().any(holds))
        .map(|attempt| attempt.run)
        .collect();
    let events = history.events.iter().filter(|event| theirs.contains(&event.run)).cloned().collect();
    build(&History { events, progress: history.progress.clone() }, intervals, period)
}

/// The nodes that the runs of a period ran on; none where a job did not tell its node. Intervals of other nodes say
/// nothing of the runs.
#[must_use]
pub fn nodes(history: &History) -> Option<BTreeSet<String>> {
    let places = attempts(&history.events).into_iter().flat_map(|attempt| attempt.places);
    places.map(|place| place.node).collect()
}

/// A run that names no cluster may be in any, and so may a verdict.
fn is_in(interval: &Interval, cluster: &str) -> bool {
    cluster.is_empty() || interval.cluster.as_deref().is_none_or(|own| own == cluster)
}

/// GPU time that a run held.
struct Held {
    spans: Vec<Range<TimeMs>>,
    /// GPU-milliseconds.
    all: f64,
    productive: f64,
    /// Productive while a rank of the run evaluated.
    evaluating: f64,
    checkpoint: f64,
}

impl Held {
    fn of<'a>(all: &[Attempt], intervals: impl Iterator<Item = &'a Interval>, within: &Range<TimeMs>) -> Self {
        let places: BTreeSet<&Place> = all.iter().flat_map(|a| &a.places).collect();
        let mut held = Held { spans: Vec::new(), all: 0.0, productive: 0.0, evaluating: 0.0, checkpoint: 0.0 };
        let (mut spans, mut shares) = (Vec::new(), Vec::new());
        let theirs = |i: &&Interval| places.iter().any(|place| place.is_of(&i.node, i.owner.as_deref()));
        for i in intervals.filter(|i| i.class.group() != Group::Capacity).filter(theirs) {
            let span = i.start_ms.max(within.start)..i.end_ms.min(within.end);
            if span.is_empty() {
                continue;
            }
            let share = i.ms as f64 / (i.end_ms - i.start_ms) as f64;
            let ms = (span.end - span.start) as f64 * share;
            held.all += ms;
            held.checkpoint += if i.class == Class::Checkpoint { ms } else { 0.0 };
            if i.class == Class::Productive {
                held.productive += ms;
                spans.push(span.clone());
                shares.push(share);
            }
            held.spans.push(span);
        }
        let evaluations = all.iter().flat_map(|a| a.evaluations.iter().cloned()).collect();
        let evaluated = union_ms(evaluations, &spans);
        held.evaluating = evaluated.iter().zip(shares).map(|(ms, share)| *ms as f64 * share).sum();
        held
    }
}

impl Run {
    fn of(
        id: &RunId,
        all: &[Attempt],
        progress: &[Progress],
        intervals: &[Interval],
        period: &Range<TimeMs>,
    ) -> Option<Self> {
        let of_run: Vec<&Progress> = progress.iter().filter(|p| p.run == *id).collect();
        let first = all.first()?;
        let from = first.submitted_ms.unwrap_or(first.begun_ms).min(first.begun_ms).max(period.start);
        let last = all.last()?.ending.time_ms();
        let own = intervals.iter().filter(|i| is_in(i, &id.cluster));
        let held = Held::of(all, own, &(from..last.unwrap_or(period.end).min(period.end)));
        // One that may go on is known of as long as it holds GPUs or tells anything.
        let heard = held.spans.iter().map(|span| span.end).chain(of_run.iter().map(|p| p.last_ms));
        let until = last.or(heard.max()).unwrap_or(from).clamp(from, period.end.max(from));
        let whole = from..until;
        let wall = |spans: Vec<Range<TimeMs>>| -> i64 { union_ms(spans, std::slice::from_ref(&whole)).iter().sum() };
        let held_ms = wall(held.spans.clone());
        let known_ms = wall([waits(all), held.spans.clone()].concat());
        let by_share = |part: f64| if held.all > 0.0 { (held_ms as f64 * part / held.all).round() as i64 } else { 0 };
        let productive_ms = by_share(held.productive);
        let tells_of_evaluation = all.iter().any(|a| !a.evaluations.is_empty());
        let queued_ms = known_ms - held_ms;
        let ended = |a: &&Attempt| a.ending.time_ms().is_some_and(|time| period.contains(&time));
        let failures = all.iter().filter(ended).filter(|a| a.ending.is_failure()).count();
        let overlaps =
            |a: &&Attempt| a.begun_ms < period.end && a.ending.time_ms().is_none_or(|time| period.start <= time);
        let last_step = |a: &Attempt| of_run.iter().find(|p| p.attempt == a.number).and_then(|p| p.last_step);
        let mttf_seconds = (failures > 0 && held_ms > 0).then(|| held_ms as f64 / 1000.0 / failures as f64);
        let cost = cost(all, period, held_ms as f64 * held.checkpoint / held.all);
        let advice = advise(failures, mttf_seconds, cost.as_ref());
        Some(Self {
            run: id.name.clone(),
            cluster: Some(id.cluster.clone()).filter(|name| !name.is_empty()),
            ranks: all.iter().map(|a| a.ranks.len()).max().unwrap_or(0),
            attempts: all.iter().filter(overlaps).map(|a| Try::of(a, last_step(a))).collect(),
            failures,
            queued_ms,
            is_first_queue_known: first.submitted_ms.is_some(),
            productive_ms,
            evaluating_ms: tells_of_evaluation.then(|| by_share(held.evaluating)),
            unproductive_ms: held_ms - productive_ms,
            unknown_ms: whole.end - whole.start - known_ms,
            ettr: (held_ms > 0).then(|| productive_ms as f64 / known_ms as f64),
            mttf_seconds,
            checkpoint_interval_seconds: interval(all, period),
            checkpoint_cost: cost,
            advised_interval_seconds: advice.as_ref().ok().copied(),
            no_advice: advice.err(),
        })
    }

    /// A number of seconds in minutes, to be read.
    #[must_use]
    pub fn minutes(&self, seconds: &Option<f64>) -> String {
        seconds.map_or_else(|| text::UNKNOWN.to_owned(), |seconds| format!("{} min", text::number(seconds / 60.0)))
    }

    /// The hours in which it was productive, and which of them it evaluated, to be read.
    #[must_use]
    pub fn productive(&self) -> String {
        let hours = text::hours(self.productive_ms);
        let evaluating = |ms: &i64| format!("{hours} ({} evaluating)", text::hours(*ms));
        self.evaluating_ms.as_ref().map_or_else(|| hours.clone(), evaluating)
    }

    /// The cost of a checkpoint, to be read.
    #[must_use]
    pub fn cost(&self) -> String {
        let shown = |cost: &CheckpointCost| format!("{} s ({})", text::number(cost.seconds), cost.source);
        self.checkpoint_cost.as_ref().map_or_else(|| text::UNKNOWN.to_owned(), shown)
    }

    /// The interval that is advised, or why there is none, to be read.
    #[must_use]
    pub fn advice(&self) -> String {
        let none = || self.no_advice.as_ref().map_or_else(|| text::UNKNOWN.to_owned(), |why| format!("none: {why}"));
        self.advised_interval_seconds.map_or_else(none, |_| self.minutes(&self.advised_interval_seconds))
    }
}

impl Try {
    fn of(attempt: &Attempt, last_step: Option<u64>) -> Self {
        Self {
            attempt: attempt.number,
            begun_ms: attempt.begun_ms,
            ended_ms: attempt.ending.time_ms(),
            ending: attempt.ending.name(),
            last_step,
            saved_ms: attempt.checkpoints.last().map(|c| c.time_ms),
            restored_step: attempt.restored,
        }
    }
}

/// When attempts waited for GPUs: since they say, else since the failure before them.
fn waits(all: &[Attempt]) -> Vec<Range<TimeMs>> {
    let failed = |n: usize| {
        let before = n.checked_sub(1).and_then(|n| all.get(n))?;
        before.ending.time_ms().filter(|_| before.ending.is_failure())
    };
    let wait = |(n, a): (usize, &Attempt)| Some(a.submitted_ms.or_else(|| failed(n))?..a.begun_ms);
    all.iter().enumerate().filter_map(wait).filter(|wait| !wait.is_empty()).collect()
}

/// The median time between checkpoints that follow each other in an attempt.
fn interval(all: &[Attempt], period: &Range<TimeMs>) -> Option<f64> {
    let pairs = all.iter().flat_map(|a| a.checkpoints.windows(2));
    let within = pairs.filter(|pair| pair.iter().all(|c| period.contains(&c.time_ms)));
    median(within.map(|pair| (pair[1].time_ms - pair[0].time_ms) as f64 / 1000.0).collect())
}

/// As the job measured it, else by the time that the ledger has for it.
fn cost(all: &[Attempt], period: &Range<TimeMs>, ledger_ms: f64) -> Option<CheckpointCost> {
    let saved: Vec<_> = all.iter().flat_map(|a| &a.checkpoints).filter(|c| period.contains(&c.time_ms)).collect();
    let told = median(saved.iter().filter_map(|c| c.seconds).collect());
    let told = told.map(|seconds| CheckpointCost { seconds, source: "as the job measured it" });
    let booked = ledger_ms / 1000.0 / saved.len() as f64;
    let booked = CheckpointCost { seconds: booked, source: "time booked on checkpoint" };
    told.or_else(|| (ledger_ms > 0.0 && !saved.is_empty()).then_some(booked))
}

/// The interval between checkpoints that loses the least to first order: J. W. Young, A First Order Approximation to the
/// Optimum Checkpoint Interval, 1974; J. T. Daly, A Higher Order Estimate of the Optimum Checkpoint Interval for Restart
/// Dumps, 2006, by which it holds for costs below half the mean time to failure.
fn advise(failures: usize, mttf_seconds: Option<f64>, cost: Option<&CheckpointCost>) -> Result<f64, String> {
    if failures < MIN_FAILURES {
        return Err(format!("{failures} failures, and fewer than {MIN_FAILURES} say too little"));
    }
    let mttf = mttf_seconds.ok_or("nothing is known of the time that it held GPUs")?;
    let cost = cost.ok_or("nothing tells what a checkpoint costs")?.seconds;
    if cost <= 0.0 || cost >= mttf / 2.0 {
        return Err(
            "a checkpoint costs nothing, or half the mean time to failure, for which the formula is not made".into()
        );
    }
    Ok((2.0 * cost * mttf).sqrt())
}

#[cfg(test)]
mod tests;
