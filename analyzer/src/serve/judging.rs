//! The loop that keeps verdicts up to date.
//!
//! Once a minute the open hour is judged up to [`SETTLE_MS`] ago. Those verdicts are provisional: when everything that
//! they may depend on is there ([`LOOK_AHEAD_MS`] after the hour), the hour is judged once more, for good. After a start,
//! hours that were missed are judged the same way; hours for which samples come in late are judged again, and a backlog
//! that has come in is not left until the minute is over.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use jiff::tz::TimeZone;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::intake::Intake;
use crate::classify::{Interval, LOOK_AHEAD_MS, LOST_REACH_MS};
use crate::forecast::Prospect;
use crate::judge::{HOUR_MS, Judge, JudgeError, Reader, windows};
use crate::sample::TimeMs;
use crate::store::{Mark, Results, Samples, StoreError};

/// Samples of a minute get this long to arrive before it is judged.
const SETTLE_MS: i64 = MINUTE_MS;
/// How far back hours are judged that were missed while the analyzer was down. Older ones take `classify`.
const CATCH_UP_MS: i64 = 14 * 24 * HOUR_MS;
const MINUTE_MS: i64 = 60_000;
const TICK: Duration = Duration::from_secs(60);
/// The short window that gauges show.
const LAST_MINUTES: i64 = 5;

/// What the loop has come to.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Every minute that ends here or before is judged.
    pub judged_until_ms: Option<TimeMs>,
    /// Verdicts of hours that end here or before will not change, unless samples come in late.
    pub final_until_ms: Option<TimeMs>,
    /// How often samples that came in late have opened hours again that were final.
    pub reopened: u64,
    /// The last window that is over.
    pub last_hour: Vec<Interval>,
    /// The last minutes that are judged.
    pub last_minutes: Vec<Interval>,
    /// What is to be expected of every memory, as at the last minute that is judged.
    pub prospects: Vec<Prospect>,
    /// What could not be joined to a node in the open hour, and why.
    pub unjoined: Vec<String>,
    /// How long the last round took.
    pub took: Duration,
    /// Rounds that failed.
    pub failures: u64,
}

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
    /// How far samples could be read when the last round began, or before the first one.
    marked: Mutex<Mark>,
    /// Since when work was lost before hours that were judged again, by crashes that these told of; those of the last round.
    restated: Mutex<BTreeSet<TimeMs>>,
}

impl<S: Samples + Results> Judging<S> {
    /// Before any sample comes in: what comes from now on is known to be unjudged, even if the first round is cut short.
    pub(super) async fn begin(
        store: S,
        intake: Intake<S>,
        judge: Judge<S>,
        zone: TimeZone,
        now: fn() -> TimeMs,
        progress: watch::Sender<Progress>,
        stop: watch::Receiver<bool>,
    ) -> Result<Self, StoreError> {
        let mark = store.mark();
        store.note_begun(mark).await?;
        Ok(Self {
            store,
            intake,
            judge,
            zone,
            now,
            progress,
            stop,
            marked: Mutex::new(mark),
            restated: Mutex::default(),
        })
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
            self.progress.send_modify(|progress| {
                progress.took = began.elapsed();
                progress.failures += u64::from(round.is_err());
            });
        }
    }

    /// Judges what is due: hours that have become final, and the open hour. Of what the rounds before have read, only what
    /// may have changed is read again.
    async fn round(&self, reader: &mut Reader<'_, S>) -> Result<(), JudgeError> {
        let now = (self.now)();
        let until = (now - SETTLE_MS).div_euclid(MINUTE_MS) * MINUTE_MS;
        let due = self.due_from(until).await?;
        // The intake tells of a sample a moment after it can be read: a round may miss the latest, the one after it does not.
        let marked = std::mem::replace(&mut *self.marked.lock(), self.store.mark());
        let changed = self.intake.take_earliest();
        reader.renew(until, changed);
        let late = changed.map_or(due, |late| late.max(now - CATCH_UP_MS));
        let from = self.judgeable_from(self.from(due, late), until);
        self.progress.send_modify(|progress| progress.take_back(from));
        let round = self.judge_from(reader, from, until, marked).await;
        if round.is_err() {
            self.intake.note_earliest(late);
        }
        round
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
        let mut lost = BTreeSet::new();
        for window in windows(from..until, &self.zone) {
            if *self.stop.borrow() {
                return Ok(());
            }
            let judged = self.judge.judge(reader, &window, until).await?;
            unjoined = judged.unjoined.iter().map(ToString::to_string).collect();
            lost.extend(judged.lost_from_ms.filter(|since| *since < from));
            self.progress.send_modify(|progress| progress.advance(&window, until));
        }
        self.restate(lost, from, until).await?;
        self.intake.note_judged(until);
        self.store.note_judged(marked).await?;
        self.publish(reader, until, unjoined).await
    }

    /// Hours before those that were just judged, of which a crash within these took the work away: once for each crash.
    async fn restate(&self, lost: BTreeSet<TimeMs>, from: TimeMs, until: TimeMs) -> Result<(), JudgeError> {
        let new = lost.difference(&self.restated.lock()).copied().min();
        let Some(since) = new else { return Ok(()) };
        let mut reader = self.judge.reader(from);
        for window in windows(self.judgeable_from(since, from)..from, &self.zone) {
            self.judge.judge(&mut reader, &window, until).await?;
        }
        *self.restated.lock() = lost;
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
    /// verdicts, as far back as is caught up.
    async fn resume(&self, until: TimeMs) -> Result<TimeMs, StoreError> {
        let unjudged = self.store.unjudged_from().unwrap_or(until);
        let past = windows(until - CATCH_UP_MS..until, &self.zone);
        for window in past.iter().rev() {
            if !self.store.intervals(window.clone()).await?.is_empty() {
                return Ok((window.start.min(unjudged) - LOOK_AHEAD_MS).max(until - CATCH_UP_MS));
            }
        }
        Ok(until - CATCH_UP_MS)
    }

    async fn publish(
        &self,
        reader: &mut Reader<'_, S>,
        until: TimeMs,
        unjoined: Vec<String>,
    ) -> Result<(), JudgeError> {
        let is_over = |window: &Range<TimeMs>| window.end <= until;
        let last = windows(until - 2 * HOUR_MS..until, &self.zone).into_iter().rev().find(is_over);
        let last_hour = match last {
            Some(window) => self.store.intervals(window).await?,
            None => Vec::new(),
        };
        let minutes = until - LAST_MINUTES * MINUTE_MS..until;
        let last_minutes = self.judge.verdicts(reader, &minutes, until).await?.intervals;
        let prospects = self.judge.prospects(reader, until).await?;
        self.progress.send_modify(|progress| {
            progress.prospects = prospects;
            progress.last_hour = last_hour;
            progress.last_minutes = last_minutes;
            progress.unjoined = unjoined;
        });
        Ok(())
    }
}

impl Progress {
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
mod tests {
    use std::path::Path;

    use super::*;
    use crate::classify::{Class, Thresholds};
    use crate::events::{Event, Place, Status, What};
    use crate::ingest::Limits;
    use crate::ingest::text::{Format, parse};
    use crate::judge::tests::{START, idle_gpu, store};
    use crate::signal;
    use crate::store::{Events, Options, Store};

    /// The clock of the tests: 20 minutes into the fourth hour.
    fn now() -> TimeMs {
        START + 3 * HOUR_MS + 20 * MINUTE_MS
    }

    async fn judging(dir: &Path) -> Judging<Store> {
        let store = store(dir).await;
        let judge = Judge::new(store.clone(), Thresholds::default());
        let intake = Intake::new(store.clone());
        let (progress, stop) = (watch::Sender::default(), watch::channel(false).1);
        Judging::begin(store, intake, judge, TimeZone::UTC, now, progress, stop).await.unwrap()
    }

    async fn total(judging: &Judging<Store>, class: Class) -> i64 {
        let intervals = judging.store.intervals(START..START + 24 * HOUR_MS).await.unwrap();
        intervals.iter().filter(|i| i.class == class).map(|i| i.ms).sum()
    }

    #[tokio::test]
    async fn missed_hours_are_caught_up_once_and_the_open_hour_is_judged_until_now() {
        let dir = tempfile::tempdir().unwrap();
        let judging = judging(dir.path()).await;
        let mut reader = judging.judge.reader(0);
        idle_gpu(&judging.intake, "GPU-a", "n1", START..now()).await;
        for _ in 0..2 {
            judging.round(&mut reader).await.unwrap();
            assert_eq!(total(&judging, Class::IdleHeld).await, now() - SETTLE_MS - START);
        }
        let progress = judging.progress.borrow().clone();
        assert_eq!(progress.judged_until_ms, Some(now() - SETTLE_MS));
        assert_eq!(progress.final_until_ms, Some(START + 2 * HOUR_MS), "the third hour may still change");
        let sum = |intervals: &[Interval]| intervals.iter().map(|i| i.ms).sum::<i64>();
        assert_eq!((sum(&progress.last_hour), sum(&progress.last_minutes)), (HOUR_MS, LAST_MINUTES * MINUTE_MS));
    }

    #[tokio::test]
    async fn after_a_restart_judging_goes_on_where_verdicts_end() {
        let dir = tempfile::tempdir().unwrap();
        let first = judging(dir.path()).await;
        idle_gpu(&first.intake, "GPU-a", "n1", START..now()).await;
        first.round(&mut first.judge.reader(0)).await.unwrap();
        let until = now() - SETTLE_MS;
        let second = Judging { progress: watch::Sender::default(), ..first };
        assert_eq!(second.resume(until).await.unwrap(), START + 3 * HOUR_MS - LOOK_AHEAD_MS);
    }

    /// Scrapes of the memory of a GPU that fills it in four hours.
    async fn leaking_gpu(store: &impl Samples, times: Range<TimeMs>) {
        let gpu = "{UUID=\"GPU-a\",Hostname=\"n1\",instance=\"n1:9400\"}";
        for time in times.step_by(60_000) {
            let used = 80_000 * (time - START) / (4 * HOUR_MS);
            let text = format!("DCGM_FI_DEV_FB_USED{gpu} {used}\nDCGM_FI_DEV_FB_FREE{gpu} {}\n", 80_000 - used);
            store.append(parse(&text, Format::Text, &Limits::default(), time).unwrap()).await.unwrap();
        }
    }

    /// Scrapes of a GPU whose owner works and saves nothing, until an XID ends it at a moment.
    async fn crashing_gpu(store: &impl Samples, times: Range<TimeMs>, crash: TimeMs) {
        let gpu = "UUID=\"GPU-a\",Hostname=\"n1\",instance=\"n1:9400\"";
        for time in times.step_by(30_000) {
            let (busy, xid) = if time < crash { (0.8, 0) } else { (0.0, 31) };
            let mut text = format!(
                "DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{gpu}}} {busy}\nDCGM_FI_DEV_XID_ERRORS{{{gpu}}} {xid}\n\
                 DCGM_FI_DEV_FB_USED{{{gpu}}} 0\n\
                 goodput_disk_written_bytes_total{{device=\"d\",instance=\"n1:9400\"}} 0\n",
            );
            if time < crash {
                text += &format!("goodput_gpu_owner_info{{owner=\"ml/a\",{gpu}}} 1\n");
            }
            store.append(parse(&text, Format::Text, &Limits::default(), time).unwrap()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_crash_takes_the_work_of_hours_that_were_final() {
        let dir = tempfile::tempdir().unwrap();
        let judging = judging(dir.path()).await;
        let mut reader = judging.judge.reader(0);
        let crash = START + 3 * HOUR_MS + 10 * MINUTE_MS;
        crashing_gpu(&judging.intake, START..crash - 5 * MINUTE_MS, crash).await;
        judging.round(&mut reader).await.unwrap();
        assert_eq!(total(&judging, Class::LostWork).await, 0, "nothing happened yet");
        crashing_gpu(&judging.intake, crash - 5 * MINUTE_MS..now(), crash).await;
        for _ in 0..2 {
            judging.round(&mut reader).await.unwrap();
            let (lost, kept) = (total(&judging, Class::LostWork).await, total(&judging, Class::Productive).await);
            assert!(lost > 2 * HOUR_MS && kept < 15 * MINUTE_MS, "{lost} ms lost, {kept} ms kept");
        }
        assert_eq!(judging.restated.lock().len(), 1);
        let late = Class::LostWork;
        let before = total(&judging, late).await;
        judging.intake.note_earliest(START + HOUR_MS);
        judging.round(&mut reader).await.unwrap();
        assert_eq!(total(&judging, late).await, before, "hours that are opened again still know of the crash");
    }

    #[tokio::test]
    async fn memory_at_risk_is_known_now_and_kept_once() {
        let dir = tempfile::tempdir().unwrap();
        let judging = judging(dir.path()).await;
        let mut reader = judging.judge.reader(0);
        leaking_gpu(&judging.intake, START..now()).await;
        let kept = async || judging.store.outlook(START..START + 24 * HOUR_MS).await.unwrap().risks;
        judging.round(&mut reader).await.unwrap();
        let risks = kept().await;
        let until = now() - SETTLE_MS;
        assert_eq!(risks.len(), 4, "one per window");
        assert!(risks.windows(2).all(|pair| pair[0].end_ms == pair[1].start_ms), "{risks:?}");
        assert_eq!(risks.last().unwrap().end_ms, until);
        let prospects = judging.progress.borrow().prospects.clone();
        let [prospect] = prospects.as_slice() else { panic!("{prospects:?}") };
        let left = (START + 4 * HOUR_MS - until) as f64 / 1000.0;
        let expected = prospect.at_risk().unwrap().likely_seconds;
        assert!((expected / left - 1.0).abs() < 0.02, "{expected} s, {left} s are left");
        judging.round(&mut reader).await.unwrap();
        assert_eq!(kept().await, risks);
    }

    #[tokio::test]
    async fn a_final_hour_that_looked_ahead_to_late_samples_is_judged_again() {
        let dir = tempfile::tempdir().unwrap();
        let judging = judging(dir.path()).await;
        idle_gpu(&judging.intake, "GPU-a", "n1", START..START + HOUR_MS).await;
        judging.round(&mut judging.judge.reader(0)).await.unwrap();
        assert_eq!(judging.progress.borrow().final_until_ms, Some(START + 2 * HOUR_MS));
        let (due, late) = (now(), START + HOUR_MS);
        assert_eq!(judging.from(due, late), START - LOST_REACH_MS, "crashes are looked for further ahead");
        assert_eq!(judging.from(due, START + 3 * HOUR_MS), START + 3 * HOUR_MS, "no final hour looked so far");
    }

    #[tokio::test]
    async fn samples_that_came_in_late_and_were_not_judged_are_after_a_restart() {
        for flush in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let first = judging(dir.path()).await;
            idle_gpu(&first.intake, "GPU-a", "n1", START + 2 * HOUR_MS..now()).await;
            for _ in 0..2 {
                first.round(&mut first.judge.reader(0)).await.unwrap();
            }
            first.store.close().await;
            let until = now() - SETTLE_MS;
            let second = judging(dir.path()).await;
            assert_eq!(second.resume(until).await.unwrap(), START + 3 * HOUR_MS - LOOK_AHEAD_MS, "all is judged");
            idle_gpu(&second.intake, "GPU-b", "n2", START + HOUR_MS..START + 2 * HOUR_MS).await;
            if flush {
                second.store.flush().await.unwrap();
            }
            second.store.close().await;
            let third = judging(dir.path()).await;
            assert_eq!(third.resume(until).await.unwrap(), START + HOUR_MS - LOOK_AHEAD_MS);
            third.round(&mut third.judge.reader(0)).await.unwrap();
            let intervals = third.store.intervals(START + HOUR_MS..START + 2 * HOUR_MS).await.unwrap();
            assert_eq!(intervals.iter().filter(|i| i.gpu == "GPU-b").map(|i| i.ms).sum::<i64>(), HOUR_MS);
        }
    }

    /// An event of an attempt on the node `n1`.
    fn event(time_ms: TimeMs, what: What) -> Event {
        let place = Place { node: Some("n1".into()), ..Place::default() };
        Event { place, ..crate::events::tests::event(time_ms, 0, what) }
    }

    #[tokio::test]
    async fn events_that_come_late_are_judged_and_after_a_restart_too() {
        let dir = tempfile::tempdir().unwrap();
        let first = judging(dir.path()).await;
        idle_gpu(&first.intake, "GPU-a", "n1", START..now()).await;
        first.round(&mut first.judge.reader(0)).await.unwrap();
        let begin = event(START + 5 * MINUTE_MS, What::Start { submitted_ms: None });
        first.intake.add_events(&[begin]).await.unwrap();
        for _ in 0..2 {
            first.round(&mut first.judge.reader(0)).await.unwrap();
        }
        assert_eq!(total(&first, Class::LostWork).await, 0);
        let crash = |minute| event(START + minute * MINUTE_MS, What::End { status: Status::Failed });
        first.intake.add_events(&[crash(40)]).await.unwrap();
        first.round(&mut first.judge.reader(0)).await.unwrap();
        assert_eq!(total(&first, Class::LostWork).await, 30 * MINUTE_MS, "as long after a crash as is looked at");
        first.intake.add_events(&[crash(10)]).await.unwrap();
        first.store.close().await;
        let second = judging(dir.path()).await;
        second.round(&mut second.judge.reader(0)).await.unwrap();
        let lost: Vec<_> = second.store.intervals(START..START + HOUR_MS).await.unwrap();
        let first = lost.iter().filter(|i| i.class == Class::LostWork).map(|i| i.start_ms).min();
        assert_eq!(first, Some(START + 10 * MINUTE_MS), "the first of two ends is the crash");
    }

    /// A backlog comes in while the first round goes on, and no second one is left the time.
    #[tokio::test]
    async fn samples_beside_the_only_round_are_judged_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let first = judging(dir.path()).await;
        idle_gpu(&first.intake, "GPU-a", "n1", START..START + HOUR_MS / 2).await;
        first.round(&mut first.judge.reader(0)).await.unwrap();
        idle_gpu(&first.intake, "GPU-a", "n1", START + HOUR_MS / 2..now()).await;
        first.store.close().await;
        let second = judging(dir.path()).await;
        second.round(&mut second.judge.reader(0)).await.unwrap();
        assert_eq!(total(&second, Class::NoData).await, 0);
        assert_eq!(total(&second, Class::IdleHeld).await, now() - SETTLE_MS - START);
    }

    #[tokio::test]
    async fn samples_that_come_in_late_are_judged() {
        let dir = tempfile::tempdir().unwrap();
        let judging = judging(dir.path()).await;
        let mut reader = judging.judge.reader(0);
        idle_gpu(&judging.intake, "GPU-a", "n1", START + 2 * HOUR_MS..now()).await;
        judging.round(&mut reader).await.unwrap();
        let before = total(&judging, Class::IdleHeld).await;
        idle_gpu(&judging.intake, "GPU-b", "n2", START + HOUR_MS..START + 2 * HOUR_MS).await;
        judging.round(&mut reader).await.unwrap();
        assert_eq!(total(&judging, Class::IdleHeld).await, before + HOUR_MS);
        let progress = judging.progress.borrow().clone();
        assert_eq!((progress.reopened, progress.final_until_ms), (1, Some(START + 2 * HOUR_MS)), "final once more");
    }

    #[tokio::test]
    async fn hours_whose_samples_were_removed_are_never_judged_again() {
        let dir = tempfile::tempdir().unwrap();
        let first = judging(dir.path()).await;
        idle_gpu(&first.intake, "GPU-a", "n1", START..START + HOUR_MS).await;
        first.store.flush().await.unwrap();
        first.round(&mut first.judge.reader(0)).await.unwrap();
        let before = total(&first, Class::IdleHeld).await;
        assert_eq!(before, HOUR_MS);
        idle_gpu(&first.intake, "GPU-a", "n1", START + 7 * HOUR_MS..START + 8 * HOUR_MS).await;
        first.store.flush().await.unwrap();
        first.store.close().await;

        // The first hour goes for its size; what is left looks as if the GPU had never been seen then.
        let now = || START + 12 * HOUR_MS;
        let options = Options { now, retention_bytes: Some(1), ..Options::new(dir.path(), signal::is_known) };
        let store = Store::open(options).await.unwrap();
        idle_gpu(&store, "GPU-b", "n2", START + 8 * HOUR_MS..START + 9 * HOUR_MS).await;
        store.flush().await.unwrap();
        while store.stats().raw_from.is_none() {
            tokio::task::yield_now().await;
        }
        let judge = Judge::new(store.clone(), Thresholds::default());
        let (progress, stop) = (watch::Sender::default(), watch::channel(false).1);
        let intake = Intake::new(store.clone());
        let second = Judging::begin(store, intake, judge, TimeZone::UTC, now, progress, stop).await.unwrap();
        second.intake.note_earliest(START);
        second.round(&mut second.judge.reader(0)).await.unwrap();
        let first_hour = second.store.intervals(START..START + HOUR_MS).await.unwrap();
        assert_eq!(first_hour.iter().map(|i| (i.class, i.ms)).collect::<Vec<_>>(), [(Class::IdleHeld, HOUR_MS)]);
        let last = second.store.intervals(START + 8 * HOUR_MS..START + 9 * HOUR_MS).await.unwrap();
        assert!(last.iter().any(|i| i.gpu == "GPU-b" && i.class == Class::IdleHeld), "{last:?}");
    }

    #[test]
    fn late_samples_open_final_hours_and_no_others() {
        let mut progress = Progress { final_until_ms: Some(START + 3 * HOUR_MS), ..Progress::default() };
        progress.take_back(START + 3 * HOUR_MS);
        assert_eq!((progress.reopened, progress.final_until_ms), (0, Some(START + 3 * HOUR_MS)));
        progress.take_back(START + HOUR_MS + 5);
        assert_eq!((progress.reopened, progress.final_until_ms), (1, Some(START + HOUR_MS)));
        let mut fresh = Progress::default();
        fresh.take_back(START);
        assert_eq!((fresh.reopened, fresh.final_until_ms), (0, None));
    }
}
