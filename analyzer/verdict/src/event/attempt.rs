//! Runs put together from their events: attempts, how each ended, and what was lost with it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Serialize;

use super::{Event, Place, RunId, Status, What};
use goodput_exposition::sample::TimeMs;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It said so itself.
    Told(TimeMs, Status),
    /// It did not say so, but the next attempt began then: it crashed at some time before.
    Superseded(TimeMs),
    /// It may go on.
    Open,
}

impl Ending {
    /// When, at the latest; `None` where it may go on.
    #[must_use]
    pub fn time_ms(self) -> Option<TimeMs> {
        match self {
            Self::Told(time, _) | Self::Superseded(time) => Some(time),
            Self::Open => None,
        }
    }

    /// Did the attempt end against its will?
    #[must_use]
    pub fn is_failure(self) -> bool {
        match self {
            Self::Told(_, status) => status.is_failure(),
            Self::Superseded(_) => true,
            Self::Open => false,
        }
    }

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Told(_, status) => status.name(),
            Self::Superseded(_) => "superseded",
            Self::Open => "open",
        }
    }
}

/// What was saved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Checkpoint {
    /// When the last of the ranks that mark it had it.
    pub time_ms: TimeMs,
    /// The last step in it.
    pub step: u64,
    /// How long training stood still for it, by the slowest rank; `None` where no rank says so.
    pub seconds: Option<f64>,
}

/// An attempt at a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The run.
    pub run: RunId,
    /// Its number.
    pub number: u32,
    /// When it began to wait for its GPUs; `None` where no event says so.
    pub submitted_ms: Option<TimeMs>,
    /// The first `start` or `restore`; without either, the first event.
    pub begun_ms: TimeMs,
    /// How it ended.
    pub ending: Ending,
    /// The step of the checkpoint that it went on from; the lowest where ranks differ.
    pub restored: Option<u64>,
    /// In order of time.
    pub checkpoints: Vec<Checkpoint>,
    /// When its ranks evaluated; each for itself, so that spans may overlap.
    pub evaluations: Vec<Range<TimeMs>>,
    /// Those that any event names.
    pub ranks: BTreeSet<u32>,
    /// Where its GPUs are.
    pub places: BTreeSet<Place>,
}

/// What an attempt lost that ended against its will.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// The run.
    pub run: RunId,
    /// The GPUs that did the work.
    pub places: BTreeSet<Place>,
    /// Since then nothing was kept.
    pub from_ms: TimeMs,
    /// Is that a checkpoint? Else the attempt's begin.
    pub is_saved: bool,
    /// The crash; where no event reports it, the next attempt's begin.
    pub until_ms: TimeMs,
    /// The next attempt's begin, and its GPUs.
    pub again: Option<(TimeMs, BTreeSet<Place>)>,
}

/// The attempts of the runs that the events are about, in order of run and number.
#[must_use]
pub fn attempts(events: &[Event]) -> Vec<Attempt> {
    let mut by_attempt: BTreeMap<(&RunId, u32), Vec<&Event>> = BTreeMap::new();
    for event in events {
        by_attempt.entry((&event.run, event.attempt)).or_default().push(event);
    }
    let mut attempts: Vec<Attempt> = by_attempt.values().filter_map(|events| Attempt::of(events)).collect();
    for n in 1..attempts.len() {
        let (before, after) = attempts.split_at_mut(n);
        let (Some(last), Some(next)) = (before.last_mut(), after.first()) else { continue };
        if last.run == next.run && last.ending == Ending::Open {
            last.ending = Ending::Superseded(next.begun_ms.max(last.begun_ms));
        }
    }
    attempts
}

impl Attempt {
    /// Of its events; there is at least one.
    fn of(events: &[&Event]) -> Option<Self> {
        let times = |begins: fn(&What) -> bool| events.iter().filter(move |e| begins(&e.what)).map(|e| e.time_ms).min();
        let first = times(|what| matches!(what, What::Start { .. } | What::Restore { .. })).or_else(|| times(|_| true));
        let submitted = events.iter().filter_map(|e| match e.what {
            What::Start { submitted_ms } => submitted_ms,
            _ => None,
        });
        let restored = events.iter().filter_map(|e| match e.what {
            What::Restore { step } => Some(step),
            _ => None,
        });
        Some(Self {
            run: events.first()?.run.clone(),
            number: events.first()?.attempt,
            submitted_ms: submitted.min(),
            begun_ms: first?,
            ending: ending(events),
            restored: restored.min(),
            checkpoints: checkpoints(events),
            evaluations: evaluations(events),
            ranks: events.iter().filter_map(|e| e.rank).collect(),
            places: events.iter().map(|e| e.place.clone()).collect(),
        })
    }

    /// What it lost, if it ended against its will; `next` is the attempt after it.
    fn loss(&self, next: Option<&Attempt>) -> Option<Loss> {
        let until_ms = self.ending.time_ms().filter(|_| self.ending.is_failure())?;
        // A checkpoint beyond the one that the next attempt went on from was not whole.
        let restored = next.and_then(|next| next.restored).unwrap_or(u64::MAX);
        let kept = self.checkpoints.iter().rfind(|c| c.time_ms <= until_ms && c.step <= restored);
        Some(Loss {
            run: self.run.clone(),
            places: self.places.clone(),
            from_ms: kept.map_or(self.begun_ms, |c| c.time_ms).min(until_ms),
            is_saved: kept.is_some(),
            until_ms,
            again: next.map(|next| (next.begun_ms.max(until_ms), next.places.clone())),
        })
    }
}

/// A failure of any rank is the attempt's, from the first one on; else it is over with its last rank.
fn ending(events: &[&Event]) -> Ending {
    let ends = events.iter().filter_map(|e| match e.what {
        What::End { status } => Some((e.time_ms, status)),
        _ => None,
    });
    let (failed, others): (Vec<_>, Vec<_>) = ends.partition(|(_, status)| status.is_failure());
    let first = failed.into_iter().min_by_key(|(time, _)| *time);
    let decisive = first.or_else(|| others.into_iter().max_by_key(|(time, _)| *time));
    decisive.map_or(Ending::Open, |(time, status)| Ending::Told(time, status))
}

fn checkpoints(events: &[&Event]) -> Vec<Checkpoint> {
    let mut by_step: BTreeMap<u64, Checkpoint> = BTreeMap::new();
    for (time_ms, what) in events.iter().map(|e| (e.time_ms, e.what)) {
        let What::Checkpoint { step, seconds } = what else { continue };
        let checkpoint = by_step.entry(step).or_insert(Checkpoint { time_ms, step, seconds });
        checkpoint.time_ms = checkpoint.time_ms.max(time_ms);
        checkpoint.seconds = checkpoint.seconds.into_iter().chain(seconds).reduce(f64::max);
    }
    let mut checkpoints: Vec<Checkpoint> = by_step.into_values().collect();
    checkpoints.sort_by_key(|c| c.time_ms);
    checkpoints
}

fn evaluations(events: &[&Event]) -> Vec<Range<TimeMs>> {
    let span = |e: &&Event| match e.what {
        What::Evaluation { seconds } => Some(e.time_ms - (seconds * 1000.0).round() as TimeMs..e.time_ms),
        _ => None,
    };
    events.iter().filter_map(span).collect()
}

/// What was lost by attempts that ended against their will; `attempts` as [`attempts`] gives them.
#[must_use]
pub fn losses(attempts: &[Attempt]) -> Vec<Loss> {
    let next = |n: usize, run: &RunId| attempts.get(n + 1).filter(|next| next.run == *run);
    attempts.iter().enumerate().filter_map(|(n, attempt)| attempt.loss(next(n, &attempt.run))).collect()
}

/// From when on verdicts may change by what was `added` to the events of the same runs `before`; `None`: none do.
#[must_use]
pub fn unjudged_from(before: &[Event], added: &[Event]) -> Option<TimeMs> {
    let told = |e: &&Event| !matches!(e.what, What::Step { .. });
    let added: Vec<Event> = added.iter().filter(told).cloned().collect();
    let first = added.iter().map(|e| e.time_ms).min()?;
    let (was, is) = (losses(&attempts(before)), losses(&attempts(&[before, &added].concat())));
    let gone = was.iter().filter(|loss| !is.contains(loss));
    let new = is.iter().filter(|loss| !was.contains(loss));
    gone.chain(new).map(|loss| loss.from_ms).chain([first]).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::tests::{START, ended, event, saved};

    const FAILED: Status = Status::Failed;

    fn restored(step: u64) -> What {
        What::Restore { step }
    }

    /// Kept until, crash, next begin: of each loss.
    fn lost(events: &[(TimeMs, u32, What)]) -> Vec<(TimeMs, TimeMs, Option<TimeMs>)> {
        let events: Vec<Event> = events.iter().map(|(time, attempt, what)| event(*time, *attempt, *what)).collect();
        let losses = losses(&attempts(&events));
        losses.iter().map(|l| (l.from_ms, l.until_ms, l.again.as_ref().map(|(time, _)| *time))).collect()
    }

    #[test]
    fn what_is_lost_begins_with_the_last_checkpoint_that_counts() {
        let step = |step| What::Step { step };
        for (events, expected) in [
            (&[][..], vec![]),
            (&[(0, 0, START), (10, 0, saved(1)), (20, 0, saved(2)), (25, 0, ended(FAILED))], vec![(20, 25, None)]),
            (&[(0, 0, START), (25, 0, ended(Status::Preempted))], vec![(0, 25, None)]),
            (&[(0, 0, START), (10, 0, saved(1)), (25, 0, ended(Status::Completed))], vec![]),
            (&[(0, 0, START), (10, 0, saved(1)), (25, 0, ended(Status::Cancelled))], vec![]),
            (&[(0, 0, START), (10, 0, saved(1)), (25, 0, step(3))], vec![]),
            // No event reports the end, but there is a next attempt.
            (&[(0, 0, START), (10, 0, saved(1)), (30, 1, START)], vec![(10, 30, Some(30))]),
            (&[(0, 0, START), (10, 0, saved(1)), (20, 0, ended(FAILED)), (30, 1, START)], vec![(10, 20, Some(30))]),
            // The second checkpoint was no good.
            (
                &[(0, 0, START), (9, 0, saved(1)), (10, 0, saved(2)), (20, 0, ended(FAILED)), (30, 1, restored(1))],
                vec![(9, 20, Some(30))],
            ),
            // Nothing was saved since the attempt began; a checkpoint after the crash is not before it.
            (&[(5, 3, restored(7)), (9, 3, ended(FAILED)), (11, 3, saved(9))], vec![(5, 9, None)]),
        ] {
            assert_eq!(lost(events), expected, "{events:?}");
        }
    }

    #[test]
    fn a_rank_that_fails_fails_the_attempt_and_a_checkpoint_is_whole_with_its_last_rank() {
        let of_rank = |rank, time, what| Event { rank: Some(rank), ..event(time, 0, what) };
        let slow = What::Checkpoint { step: 1, seconds: Some(4.0) };
        let events = [
            of_rank(0, 0, START),
            of_rank(1, 2, START),
            of_rank(1, 10, saved(1)),
            of_rank(0, 12, slow),
            of_rank(0, 30, ended(Status::Completed)),
            of_rank(1, 20, ended(FAILED)),
            of_rank(2, 25, ended(FAILED)),
        ];
        let attempts = attempts(&events);
        let [attempt] = attempts.as_slice() else { panic!("{attempts:?}") };
        assert_eq!(attempt.checkpoints, [Checkpoint { time_ms: 12, step: 1, seconds: Some(4.0) }]);
        assert_eq!((attempt.begun_ms, attempt.ending, attempt.ranks.len()), (0, Ending::Told(20, FAILED), 3));
    }

    #[test]
    fn runs_of_one_name_in_two_clusters_are_two() {
        let mut other = event(5, 1, START);
        other.run.cluster = "c".into();
        let attempts = attempts(&[event(0, 0, START), other]);
        assert_eq!(attempts.iter().map(|a| a.ending).collect::<Vec<_>>(), [Ending::Open, Ending::Open]);
    }

    #[test]
    fn verdicts_change_from_what_was_lost_on_and_not_by_steps() {
        let before = [event(0, 0, START), event(10, 0, saved(1)), event(20, 0, saved(2))];
        for (added, expected) in [
            (event(30, 0, What::Step { step: 3 }), None),
            (event(30, 0, saved(3)), Some(30)),
            (event(30, 0, ended(Status::Completed)), Some(30)),
            (event(30, 0, ended(FAILED)), Some(20)),
            (event(30, 1, START), Some(20)),
            (event(30, 1, restored(1)), Some(10)),
        ] {
            assert_eq!(unjudged_from(&before, std::slice::from_ref(&added)), expected, "{added:?}");
        }
        // A checkpoint that comes late makes less of the loss.
        let crashed = [&before[..], &[event(30, 0, ended(FAILED))]].concat();
        assert_eq!(unjudged_from(&crashed, &[event(25, 0, saved(3))]), Some(20));
    }
}
