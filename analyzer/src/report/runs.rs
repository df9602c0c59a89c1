//! Runs by what their jobs reported, in addition to the ledger of the GPU time that they held: how often they failed,
//! how much of their time was kept, and how often they should save.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Serialize;

use super::text;
use crate::classify::{Class, Group, Interval};
use crate::events::{Attempt, Place, RunId, attempts};
use crate::frame::union_ms;
use crate::median::median;
use crate::sample::TimeMs;
use crate::store::{History, Progress};

/// Failures below which no interval is advised. With five the 90 % interval of the mean time to failure reaches from
/// 0.48 to 2.5 of the estimate (chi-squared, 12 and 10 degrees of freedom), and at either end the interval that follows
/// costs a tenth more than the best one: (x + 1/x) / 2 with x = 0.69 and 1.59.
pub const MIN_FAILURES: usize = 5;

/// A run in a period. Its time is that of the clock, from the first attempt's begin on, or since when it waited for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Try {
    /// Its number.
    pub attempt: u32,
    /// Its begin.
    pub begun_ms: TimeMs,
    /// Its end, at the latest; null where it may go on.
    pub ended_ms: Option<TimeMs>,
    /// `completed`, `cancelled`, `failed`, `preempted`; `superseded` where the next one began and it had not
    /// reported its end; `open`.
    pub ending: &'static str,
    /// The highest step that an event names; null where none does.
    pub last_step: Option<u64>,
    /// Its last checkpoint; null where it reported none.
    pub saved_ms: Option<TimeMs>,
    /// The step of the checkpoint that it went on from; null where it reported none.
    pub restored_step: Option<u64>,
}

/// How long a checkpoint keeps the run from training.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
mod tests {
    use super::*;
    use crate::events::tests::{START, ended, event, saved};
    use crate::events::{Event, Status, What};
    use crate::report::{Period, Report, html, markdown};

    const HOUR: i64 = 3_600_000;
    const PERIOD: Range<TimeMs> = 0..100 * HOUR;

    fn interval(class: Class, hours: Range<i64>, share: f64) -> Interval {
        let ms = ((hours.end - hours.start) as f64 * share * HOUR as f64) as i64;
        Interval {
            cluster: None,
            gpu: "GPU-a".into(),
            node: "n1".into(),
            model: None,
            owner: Some("ml/a".into()),
            class,
            start_ms: hours.start * HOUR,
            end_ms: hours.end * HOUR,
            ms,
            confidence: 0.9,
            busy_signal: None,
            evidence: Vec::new(),
            missing: Vec::new(),
            charged_to: None,
            gpu_instance: None,
            energy: None,
            run: None,
            account: None,
            variance_ms2: Some(0),
            version: None,
        }
    }

    fn history(events: Vec<Event>) -> History {
        let progress = Progress {
            run: events[0].run.clone(),
            attempt: 0,
            first_ms: 0,
            last_ms: events.iter().map(|e| e.time_ms).max().unwrap(),
            last_step: Some(7),
        };
        History { events, progress: vec![progress] }
    }

    fn one(events: Vec<Event>, intervals: &[Interval]) -> Run {
        let mut runs = build(&history(events), intervals, &PERIOD);
        assert_eq!(runs.len(), 1);
        runs.remove(0)
    }

    /// Waits for an hour, works for six, fails; waits for two, works for two of four, and goes on.
    fn example() -> (Vec<Event>, Vec<Interval>) {
        let submitted = What::Start { submitted_ms: Some(HOUR) };
        let events = vec![
            event(2 * HOUR, 0, submitted),
            event(8 * HOUR, 0, ended(Status::Failed)),
            event(10 * HOUR, 1, START),
            event(11 * HOUR, 1, saved(7)),
            event(13 * HOUR, 1, saved(9)),
        ];
        let intervals = vec![
            interval(Class::Productive, 2..8, 0.5),
            interval(Class::LostWork, 2..8, 0.5),
            interval(Class::Productive, 10..12, 1.0),
            interval(Class::Checkpoint, 12..14, 1.0),
            interval(Class::NoData, 14..20, 1.0),
            Interval { owner: Some("ml/b".into()), ..interval(Class::Productive, 2..50, 1.0) },
        ];
        (events, intervals)
    }

    #[test]
    fn time_is_queued_productive_unproductive_or_unknown() {
        let (events, intervals) = example();
        let run = one(events, &intervals);
        let hours = [run.queued_ms, run.productive_ms, run.unproductive_ms, run.unknown_ms].map(|ms| ms / HOUR);
        assert_eq!((hours, run.is_first_queue_known), ([3, 5, 5, 0], true));
        assert_eq!((run.ettr, run.failures, run.mttf_seconds), (Some(5.0 / 13.0), 1, Some(36_000.0)));
        assert_eq!((run.checkpoint_interval_seconds, run.attempts.len()), (Some(7200.0), 2));
        let expected = CheckpointCost { seconds: 3600.0, source: "time booked on checkpoint" };
        assert_eq!(run.checkpoint_cost, Some(expected));
        assert_eq!(run.no_advice.as_deref(), Some("1 failures, and fewer than 5 say too little"));
        let (first, second) = (&run.attempts[0], &run.attempts[1]);
        assert_eq!((first.ending, first.last_step, first.ended_ms), ("failed", Some(7), Some(8 * HOUR)));
        assert_eq!((second.ending, second.last_step, second.saved_ms), ("open", None, Some(13 * HOUR)));
    }

    #[test]
    fn a_run_has_the_time_of_its_own_cluster() {
        let (mut events, intervals) = example();
        let within = |cluster: &str, all: &[Interval]| -> Vec<Interval> {
            all.iter().map(|i| Interval { cluster: Some(cluster.to_owned()), ..i.clone() }).collect()
        };
        let elsewhere = within("west", &[interval(Class::IdleHeld, 2..14, 1.0)]);
        let both = [within("east", &intervals), elsewhere].concat();
        let unknown = one(events.clone(), &both);
        assert!(unknown.unproductive_ms > 5 * HOUR, "it may be in any");
        events.iter_mut().for_each(|event| event.run.cluster = "east".to_owned());
        let hours = |run: &Run| [run.productive_ms, run.unproductive_ms].map(|ms| ms / HOUR);
        assert_eq!(hours(&one(events.clone(), &both)), [5, 5]);
        assert_eq!(hours(&one(events, &intervals)), [5, 5], "verdicts that do not tell");
    }

    #[test]
    fn time_without_data_is_unknown_and_no_ratio_is_made_of_nothing() {
        let events = vec![event(0, 0, START), event(10 * HOUR, 0, ended(Status::Completed))];
        let run = one(events.clone(), &[interval(Class::Productive, 0..4, 1.0)]);
        assert_eq!((run.unknown_ms, run.ettr, run.mttf_seconds), (6 * HOUR, Some(1.0), None));
        let run = one(events, &[]);
        assert_eq!((run.unknown_ms, run.ettr, run.queued_ms, run.is_first_queue_known), (10 * HOUR, None, 0, false));
    }

    #[test]
    fn evaluation_is_productive_and_shown_apart() {
        let evaluated = |at: i64, minutes: f64| event(at, 0, What::Evaluation { seconds: 60.0 * minutes });
        // Two ranks tell of one evaluation; another is at a time when half of the GPU time was lost.
        let told = vec![
            event(0, 0, START),
            Event { id: "0".into(), rank: Some(0), ..evaluated(2 * HOUR, 30.0) },
            Event { id: "1".into(), rank: Some(1), ..evaluated(2 * HOUR, 60.0) },
            evaluated(5 * HOUR, 30.0),
            event(10 * HOUR, 0, ended(Status::Completed)),
        ];
        let half = [interval(Class::Productive, 4..6, 0.5), interval(Class::DataloaderCpu, 4..6, 0.5)];
        let intervals = [&[interval(Class::Productive, 0..4, 1.0)], &half[..]].concat();
        let run = one(told, &intervals);
        assert_eq!((run.productive_ms, run.evaluating_ms), (5 * HOUR, Some(5 * HOUR / 4)));
        assert_eq!(run.productive(), "5.00 (1.25 evaluating)");
        let run = one(vec![event(0, 0, START), event(10 * HOUR, 0, ended(Status::Completed))], &intervals);
        assert_eq!((run.evaluating_ms, run.productive().as_str()), (None, "5.00"));
    }

    #[test]
    fn what_the_job_measures_goes_before_the_ledger_and_five_failures_are_enough() {
        let (mut events, mut intervals) = (Vec::new(), Vec::new());
        for n in 0..5 {
            let at = i64::from(n) * 10 * HOUR;
            events.push(event(at, n, START));
            events.push(event(at + HOUR, n, What::Checkpoint { step: u64::from(n), seconds: Some(50.0) }));
            events.push(event(at + 10 * HOUR, n, ended(Status::Preempted)));
            intervals.push(interval(Class::Productive, i64::from(n) * 10..i64::from(n + 1) * 10, 1.0));
        }
        let run = one(events, &intervals);
        assert_eq!((run.failures, run.mttf_seconds), (5, Some(36_000.0)));
        assert_eq!((run.advised_interval_seconds, run.no_advice), (Some((2.0_f64 * 50.0 * 36_000.0).sqrt()), None));
        assert_eq!(run.checkpoint_cost.map(|c| c.source), Some("as the job measured it"));
    }

    #[test]
    fn advice_is_for_what_the_formula_is_made_for() {
        let cost = |seconds| Some(CheckpointCost { seconds, source: "" });
        // 2048 nodes at 6.50 failures in 1000 node-days, a save of 60 s.
        let mttf = 86_400.0 / (2048.0 * 6.5e-3);
        let advised = advise(5, Some(mttf), cost(60.0).as_ref()).unwrap();
        assert!((mttf / 3600.0 - 1.80).abs() < 0.01 && (advised - 882.5).abs() < 0.5, "{mttf} {advised}");
        for (failures, mttf, cost, why) in [
            (4, Some(1000.0), cost(1.0), "4 failures"),
            (5, None, cost(1.0), "nothing is known of the time"),
            (5, Some(1000.0), None, "nothing tells what"),
            (5, Some(1000.0), cost(500.0), "a checkpoint costs nothing, or half"),
            (5, Some(1000.0), cost(0.0), "a checkpoint costs nothing, or half"),
        ] {
            let said = advise(failures, mttf, cost.as_ref()).unwrap_err();
            assert!(said.starts_with(why), "{said}");
        }
    }

    #[test]
    fn the_section_is_there_where_jobs_tell() {
        let (mut events, intervals) = example();
        events.iter_mut().for_each(|e| e.run.name = "r|<b>".into());
        let week = Period::iso_week("1970-W01", &jiff::tz::TimeZone::UTC).unwrap();
        let runs = build(&history(events), &intervals, &PERIOD);
        let report = Report { runs, ..super::super::build(&intervals, &[], week, &[]) };
        let text = markdown::render(&report).unwrap();
        let row = r"| r\|&lt;b> | 2 | 1 | 38.5 % | 3.00 | 5.00 | 5.00 | 0 | 600 min | 120 min | 3600 s (time booked on checkpoint) | none: 1 failures, and fewer than 5 say too little |";
        assert!(text.contains(row), "{text}");
        let page = html::render(&report).unwrap();
        assert!(page.contains("<h2>Runs</h2>") && page.contains("<td>r|&#60;b&#62;</td>"), "{page}");
        assert!(!markdown::render(&Report { runs: Vec::new(), ..report }).unwrap().contains("## Runs"));
    }
}
