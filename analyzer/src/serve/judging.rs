//! The loop that keeps verdicts up to date.
//!
//! Once a minute the open hour is judged up to [`SETTLE_MS`] ago. Those verdicts are provisional: when everything that
//! they may depend on is there ([`LOOK_AHEAD_MS`] after the hour), the hour is judged again, for good. After a start,
//! hours that were missed are judged the same way; hours for which samples come in late are judged again, and a backlog
//! that has come in is not left until the minute is over.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::app::{Intake, Progress};
use crate::judge::{Judge, JudgeError, Reader, cut_otherwise, windows};
use goodput_exposition::sample::TimeMs;
use goodput_rules::classify::{Judged, LOOK_AHEAD_MS, LOST_REACH_MS};
use goodput_rules::frame::FailedNode;
use goodput_store::{Embedded, Mark, StoreError};
use goodput_verdict::HOUR_MS;

/// Samples of a minute get this long to arrive before it is judged.
const SETTLE_MS: i64 = MINUTE_MS;
/// How far back hours are judged that were missed while the analyzer was down. Older ones take `classify`.
const CATCH_UP_MS: i64 = 14 * 24 * HOUR_MS;
const MINUTE_MS: i64 = 60_000;
const TICK: Duration = Duration::from_secs(60);
/// The short window that gauges show.
const LAST_MINUTES: i64 = 5;

/// The loop's parts.
#[derive(Debug)]
pub(super) struct Judging<S> {
    store: S,
    intake: Intake<S>,
    judge: Judge<S>,
    zone: TimeZone,
    now: fn() -> TimeMs,
    progress: watch::Sender<Progress>,
    stop: watch::Receiver<bool>,
    /// Is it noted that judging has begun?
    begun: AtomicBool,
    /// How far samples could be read when the last round began, or before the first one.
    marked: Mutex<Mark>,
    /// Since when hours before those that were judged rest on crashes and ends of long starts in these; of the last round.
    restated: Mutex<BTreeSet<TimeMs>>,
}

impl<S: Embedded> Judging<S> {
    /// Before any sample comes in: what comes from now on is known to be unjudged, even if the first round is cut short.
    pub(super) async fn begin(
        store: S,
        intake: Intake<S>,
        judge: Judge<S>,
        zone: TimeZone,
        now: fn() -> TimeMs,
        progress: watch::Sender<Progress>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let mark = store.mark();
        // On a full disk nothing can be noted, and nothing be stored that the note would be about: rounds note it first.
        let begun = store.note_begun(mark).await;
        if let Err(error) = &begun {
            tracing::error!(%error, "cannot note where judging begins; the next attempt is before the first round");
        }
        Self {
            store,
            intake,
            judge,
            zone,
            now,
            progress,
            stop,
            begun: AtomicBool::new(begun.is_ok()),
            marked: Mutex::new(mark),
            restated: Mutex::default(),
        }
    }

    /// Runs until `stop` is true; the window that is being judged then is finished.
    pub(super) async fn run(mut self) {
        let mut reader = self.judge.reader(0);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.intake.backlog() => {}
                _ = self.stop.wait_for(|stop| *stop) => return,
            }
            let began = Instant::now();
            let round = self.round(&mut reader).await;
            if let Err(error) = &round {
                tracing::error!(%error, "cannot judge; the next attempt is in a minute");
            }
            let dropped_gpus = reader.dropped_gpus();
            if dropped_gpus > 0 && self.progress.borrow().dropped_gpus == 0 {
                tracing::warn!(
                    dropped_gpus,
                    "more GPUs than store.max_gpus: those that were stored last are not judged"
                );
            }
            self.progress.send_modify(|progress| {
                progress.dropped_gpus = dropped_gpus;
                progress.took = began.elapsed();
                progress.failures += u64::from(round.is_err());
            });
        }
    }

    /// Judges what is due: hours that have become final, and the open hour. Of what the rounds before have read, only what
    /// may have changed is read again.
    async fn round(&self, reader: &mut Reader<'_, S>) -> Result<(), JudgeError> {
        if !self.begun.load(Ordering::Relaxed) {
            let marked = *self.marked.lock();
            self.store.note_begun(marked).await?;
            self.begun.store(true, Ordering::Relaxed);
        }
        let now = self.store.believed((self.now)());
        let until = (now - SETTLE_MS).div_euclid(MINUTE_MS) * MINUTE_MS;
        // The clock may have been ahead, and what was judged by it is to be judged when its time has come.
        self.progress.send_modify(|progress| progress.take_back(until));
        let due = self.due_from(until).await?;
        // The times of samples and events are noted before these can be read: the round has them for all up to the mark.
        let marked = std::mem::replace(&mut *self.marked.lock(), self.store.mark());
        let changed = self.take_changed();
        reader.renew(until, changed);
        let late = changed.map_or(due, |late| late.max(now - CATCH_UP_MS));
        // A clock that was ahead or behind makes no more hours due than a long stop does.
        let from =
            self.judgeable_from(self.from(due, late).max(until - CATCH_UP_MS - LOOK_AHEAD_MS - LOST_REACH_MS), until);
        self.progress.send_modify(|progress| progress.take_back(from));
        let round = self.judge_from(reader, from, until, marked).await;
        if round.is_ok() {
            self.judge_lost(from, until).await?;
        }
        if round.is_err() {
            self.intake.note_earliest(late);
        }
        round
    }

    /// From when on samples have come in since the last round. Who asks meanwhile is told at no moment that these are judged.
    fn take_changed(&self) -> Option<TimeMs> {
        let mut changed = None;
        self.progress.send_modify(|progress| {
            changed = self.intake.take_earliest();
            progress.judged_until_ms = progress.judged_until_ms.min(changed.or(progress.judged_until_ms));
        });
        changed
    }

    /// Where judging begins: what is due, and what samples from `late` on may change. Verdicts that are not final are
    /// judged again anyway; final ones have looked ahead to where the samples are.
    fn from(&self, due: TimeMs, late: TimeMs) -> TimeMs {
        let last_final = self.progress.borrow().final_until_ms;
        let restates = last_final.is_some_and(|last_final| late < last_final + LOOK_AHEAD_MS);
        due.min(if restates { late - LOOK_AHEAD_MS - LOST_REACH_MS } else { late })
    }

    /// As far back as samples are there. Hours before that keep their verdicts.
    fn judgeable_from(&self, from: TimeMs, until: TimeMs) -> TimeMs {
        let windows = windows(from..until, &self.zone);
        let there = windows.iter().find(|window| self.judge.judgeable(window).is_ok());
        match (there, windows.first().map(|first| self.judge.judgeable(first))) {
            (_, None | Some(Ok(()))) => from,
            (there, Some(Err(reason))) => {
                tracing::warn!(%reason, "hours are not judged again");
                there.map_or(until, |window| window.start)
            }
        }
    }

    async fn judge_from(
        &self,
        reader: &mut Reader<'_, S>,
        from: TimeMs,
        until: TimeMs,
        marked: Mark,
    ) -> Result<(), JudgeError> {
        let mut unjoined = Vec::new();
        let mut since = BTreeSet::new();
        for window in windows(from..until, &self.zone) {
            if *self.stop.borrow() {
                return Ok(());
            }
            let Some(judged) = self.judge_window(reader, &window, until).await? else { continue };
            unjoined = judged.unjoined.iter().map(ToString::to_string).collect();
            since.extend(judged.restates_from_ms.filter(|time| *time < from));
            self.progress.send_modify(|progress| progress.advance(&window, until));
        }
        self.restate(since, from, until).await?;
        self.intake.note_judged(until);
        self.store.note_judged(marked).await?;
        self.publish(reader, until, unjoined).await
    }

    /// Judges a window. What is wrong with this one alone is named and counted, and costs no other: `None`.
    async fn judge_window(
        &self,
        reader: &mut Reader<'_, S>,
        window: &Range<TimeMs>,
        until: TimeMs,
    ) -> Result<Option<Judged>, JudgeError> {
        let judged = match self.judge.judge_recut(reader, window, until).await {
            Ok(judged) => judged,
            Err(error @ (JudgeError::Died(_) | JudgeError::Store(StoreError::DamagedDatabase { .. }))) => {
                tracing::error!(%error, window = ?window, "a window is not judged; `classify` judges it again");
                self.progress.send_modify(|progress| progress.failures += 1);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        self.progress.send_modify(|progress| progress.note_nodes(&judged, window.end > until));
        Ok(Some(judged))
    }

    /// Judges windows again whose results lost rows that could not be read; those from `from` on were just judged.
    async fn judge_lost(&self, from: TimeMs, until: TimeMs) -> Result<(), JudgeError> {
        for lost in self.store.lost_windows() {
            let mut judged = true;
            let mut reader = self.judge.reader(lost.end);
            for window in windows(lost.clone(), &self.zone).into_iter().filter(|window| window.start < from) {
                if let Err(reason) = self.judge.judgeable(&window) {
                    tracing::warn!(%reason, "a window that lost rows of its results keeps the rest of them");
                    judged = false;
                    continue;
                }
                judged &= self.judge_window(&mut reader, &window, until).await?.is_some();
            }
            self.judge.rebook_vanished(lost.end, until, &self.zone).await?;
            self.store.note_rejudged(&lost, judged).await?;
        }
        Ok(())
    }

    /// Hours before those that were just judged, if a crash within these took their work away, or they were part of a
    /// long start that ends in these: once for each.
    async fn restate(&self, since: BTreeSet<TimeMs>, from: TimeMs, until: TimeMs) -> Result<(), JudgeError> {
        let new = since.difference(&self.restated.lock()).copied().min();
        let Some(first) = new else { return Ok(()) };
        let mut reader = self.judge.reader(from);
        for window in windows(self.judgeable_from(first, from)..from, &self.zone) {
            self.judge_window(&mut reader, &window, until).await?;
        }
        self.judge.rebook_vanished(from, until, &self.zone).await?;
        *self.restated.lock() = since;
        Ok(())
    }

    /// The open hour, unless an hour before it has become final.
    async fn due_from(&self, until: TimeMs) -> Result<TimeMs, StoreError> {
        let (judged, last_final) = {
            let progress = self.progress.borrow();
            (progress.judged_until_ms, progress.final_until_ms)
        };
        match (judged, last_final) {
            (Some(judged), Some(last_final)) if last_final + HOUR_MS + LOOK_AHEAD_MS > until => Ok(judged),
            (_, Some(last_final)) => Ok(last_final),
            _ => self.resume(until).await,
        }
    }

    /// The last window with verdicts, which may be half judged, or what came in late and was not judged any more; without
    /// verdicts, as far back as is caught up. An hour that is final is judged once more, so that it is known from the first
    /// round on that all before it is.
    async fn resume(&self, until: TimeMs) -> Result<TimeMs, StoreError> {
        let recut = self.recut_from(until).await?;
        let unjudged = self.store.unjudged_from().unwrap_or(until).min(recut);
        let past = windows(until - CATCH_UP_MS..until, &self.zone);
        for window in past.iter().rev() {
            let is_judged = match self.store.intervals(window.clone()).await {
                Ok(intervals) => !intervals.is_empty(),
                // An hour before it, or the whole catch-up, is as good a place to go on from.
                Err(StoreError::DamagedDatabase { .. }) => false,
                Err(error) => return Err(error),
            };
            if is_judged {
                let from = window.start.min(unjudged).saturating_sub(LOOK_AHEAD_MS + HOUR_MS);
                return Ok(from.max(until - CATCH_UP_MS));
            }
        }
        Ok(until - CATCH_UP_MS)
    }

    /// The first hour that was cut for another zone, as far back as is caught up. Older ones are said to need `classify`.
    async fn recut_from(&self, until: TimeMs) -> Result<TimeMs, StoreError> {
        let hours = cut_otherwise(&self.store, &self.zone).await?;
        let (old, recent): (Vec<_>, Vec<_>) = hours
            .into_iter()
            .flat_map(|range| split(range, until - CATCH_UP_MS))
            .partition(|r| r.end <= until - CATCH_UP_MS);
        for Range { start, end } in &old {
            let [start, end] = [*start, *end].map(|time| Timestamp::from_millisecond(time).unwrap_or_default());
            tracing::warn!(%start, %end, "verdicts were cut for another time zone: classify --start --end cuts them again");
        }
        self.progress.send_modify(|progress| progress.cut_otherwise = old);
        Ok(recent.first().map_or(until, |range| range.start))
    }

    async fn publish(
        &self,
        reader: &mut Reader<'_, S>,
        until: TimeMs,
        unjoined: Vec<String>,
    ) -> Result<(), JudgeError> {
        let is_over = |window: &Range<TimeMs>| window.end <= until;
        let last = windows(until - 2 * HOUR_MS..until, &self.zone).into_iter().rev().find(is_over);
        let (last_hour, last_served) = match last {
            Some(window) => (self.store.intervals(window.clone()).await?, self.store.achieved(window).await?),
            None => Default::default(),
        };
        let minutes = until - LAST_MINUTES * MINUTE_MS..until;
        let Judged { intervals: last_minutes, demand, .. } = self.judge.verdicts(reader, &minutes, until).await?;
        let prospects = self.judge.prospects(reader, until).await?;
        self.progress.send_modify(|progress| {
            progress.prospects = prospects;
            progress.last_hour = last_hour;
            progress.last_served = last_served;
            progress.last_minutes = last_minutes;
            progress.demand = demand;
            progress.unjoined = unjoined;
        });
        Ok(())
    }
}

/// The parts of a range before and after a time.
fn split(range: Range<TimeMs>, at: TimeMs) -> impl Iterator<Item = Range<TimeMs>> {
    let at = at.div_euclid(HOUR_MS) * HOUR_MS;
    [range.start..range.end.min(at), range.start.max(at)..range.end].into_iter().filter(|part| !part.is_empty())
}

impl Progress {
    /// Which nodes fail now; a node is named when it begins to. The open hour is the last judging of all.
    fn note_nodes(&mut self, judged: &Judged, is_open: bool) {
        let failed = |cluster: &str, node: &str| judged.failed.iter().any(|f| f.cluster == cluster && f.node == node);
        let sound = judged.intervals.iter().map(|i| (i.cluster.clone().unwrap_or_default(), i.node.clone()));
        for place in sound.filter(|(cluster, node)| !failed(cluster, node)) {
            self.failed_nodes.remove(&place);
        }
        if is_open {
            self.failed_nodes.retain(|(cluster, node), _| failed(cluster, node));
        }
        for FailedNode { cluster, node, reason } in &judged.failed {
            let known = self.failed_nodes.insert((cluster.clone(), node.clone()), reason.clone());
            if known.as_ref() != Some(reason) {
                tracing::error!(cluster, node, reason, "a node is not judged; it keeps the verdicts that it had");
            }
        }
    }

    /// What ends after that moment is to be judged again, and nothing from there on is final any more.
    fn take_back(&mut self, from: TimeMs) {
        self.judged_until_ms = self.judged_until_ms.map(|until| until.min(from));
        if self.final_until_ms.is_some_and(|until| from < until) {
            self.final_until_ms = Some(from.div_euclid(HOUR_MS) * HOUR_MS);
            self.reopened += 1;
        }
    }

    fn advance(&mut self, window: &Range<TimeMs>, until: TimeMs) {
        self.judged_until_ms = self.judged_until_ms.max(Some(window.end.min(until)));
        if window.end + LOOK_AHEAD_MS <= until {
            self.final_until_ms = self.final_until_ms.max(Some(window.end));
        }
    }
}

#[cfg(test)]
mod tests;
