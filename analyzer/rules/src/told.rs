//! What rules may know by the events of jobs.

use std::ops::Range;

use goodput_exposition::sample::TimeMs;
use goodput_verdict::event::{Attempt, Event, Loss, Place, attempts, losses};

/// What jobs reported about themselves; nothing, by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    attempts: Vec<Attempt>,
    losses: Vec<Loss>,
}

/// Whose time is asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) node: &'a str,
    pub(crate) owner: Option<&'a str>,
}

impl Who<'_> {
    /// A run that names no cluster may be in any.
    fn is_in<'p>(&self, cluster: &str, mut places: impl Iterator<Item = &'p Place>) -> bool {
        (cluster.is_empty() || cluster == self.cluster) && places.any(|place| place.is_of(self.node, self.owner))
    }
}

impl Told {
    /// By all events of runs but steps, in any order.
    #[must_use]
    pub fn of(events: &[Event]) -> Self {
        let attempts = attempts(events);
        let losses = losses(&attempts);
        Self { attempts, losses }
    }

    /// The loss that takes the most of the span, and how many milliseconds of it.
    pub(crate) fn lost(&self, who: Who<'_>, span: &Range<TimeMs>) -> Option<(&Loss, i64)> {
        let overlap = |loss: &Loss| loss.until_ms.min(span.end) - loss.from_ms.max(span.start);
        let all = self.losses.iter().map(|loss| (loss, overlap(loss))).filter(|(_, ms)| *ms > 0);
        all.filter(|(loss, _)| who.is_in(&loss.run.cluster, loss.places.iter())).max_by_key(|(_, ms)| *ms)
    }

    /// Crashes within the range of the runs whose GPUs these are, before or after them.
    pub(crate) fn crashes(&self, who: Who<'_>, range: &Range<TimeMs>) -> impl Iterator<Item = &Loss> {
        let near = move |loss: &&Loss| {
            let times = [Some(loss.until_ms), loss.again.as_ref().map(|(time, _)| *time)];
            times.into_iter().flatten().any(|time| range.contains(&time))
        };
        let places = |loss: &Loss| {
            let after = loss.again.iter().flat_map(|(_, places)| places);
            loss.places.iter().chain(after).cloned().collect::<Vec<_>>()
        };
        self.losses.iter().filter(near).filter(move |loss| who.is_in(&loss.run.cluster, places(loss).iter()))
    }

    /// Did an attempt tell of its end, however it ended, within the range?
    pub(crate) fn ends(&self, who: Who<'_>, range: &Range<TimeMs>) -> bool {
        let within = |a: &&Attempt| a.ending.time_ms().is_some_and(|time| range.contains(&time));
        self.attempts.iter().filter(within).any(|a| who.is_in(&a.run.cluster, a.places.iter()))
    }

    /// The last checkpoint of the attempt that goes on at a time; `None` where no attempt does that marks any, and the
    /// attempt's begin where it has marked none until then.
    pub(crate) fn saved(&self, who: Who<'_>, time: TimeMs) -> Option<TimeMs> {
        let goes_on = |a: &&Attempt| {
            a.begun_ms <= time && a.ending.time_ms().is_none_or(|end| time <= end) && !a.checkpoints.is_empty()
        };
        let attempt = self.attempts.iter().filter(goes_on).find(|a| who.is_in(&a.run.cluster, a.places.iter()))?;
        let last = attempt.checkpoints.iter().rfind(|c| c.time_ms <= time);
        Some(last.map_or(attempt.begun_ms, |c| c.time_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_testing::{START, ended, event, saved};
    use goodput_verdict::event::Status;

    const OWNER: Who<'_> = Who { cluster: "c", node: "n1", owner: Some("ml/a") };

    fn told() -> Told {
        let events =
            [event(0, 0, START), event(10, 0, saved(1)), event(30, 0, ended(Status::Failed)), event(40, 1, START)];
        Told::of(&events)
    }

    #[test]
    fn lost_is_what_lies_between_checkpoint_and_crash() {
        let told = told();
        for (span, ms) in [(0..10, None), (5..15, Some(5)), (10..20, Some(10)), (25..35, Some(5)), (30..40, None)] {
            assert_eq!(told.lost(OWNER, &span).map(|(_, ms)| ms), ms, "{span:?}");
        }
        assert!(told.lost(Who { owner: Some("ml/b"), ..OWNER }, &(10..20)).is_none());
        let mut elsewhere = event(0, 0, START);
        elsewhere.run.cluster = "d".into();
        let crash = Event { run: elsewhere.run.clone(), ..event(9, 0, ended(Status::Failed)) };
        assert!(Told::of(&[elsewhere, crash]).lost(OWNER, &(0..5)).is_none());
    }

    #[test]
    fn crashes_are_near_themselves_and_the_next_begin() {
        let told = told();
        for (range, count) in [(0..30, 0), (0..31, 1), (31..40, 0), (31..41, 1)] {
            assert_eq!(told.crashes(OWNER, &range).count(), count, "{range:?}");
        }
        assert!(told.ends(OWNER, &(30..31)) && !told.ends(OWNER, &(31..41)));
    }

    #[test]
    fn what_was_saved_is_known_of_an_attempt_that_marks_checkpoints() {
        let told = told();
        for (time, saved) in [(5, Some(0)), (10, Some(10)), (30, Some(10)), (31, None), (45, None)] {
            assert_eq!(told.saved(OWNER, time), saved, "{time}");
        }
    }
}
