//! The one writer: group commits and flushes, one after the other.

use std::collections::HashMap;
use std::future;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinError;
use tracing::warn;

use super::acknowledged::{Acknowledged, Record};
use super::active::{Active, Owner};
use super::admit::{Bounds, Past, Row, admit};
use super::catalogue::SeriesId;
use super::days::RollingDays;
use super::embedded::{Lock, Shared};
use super::forget::{self, Sweep};
use super::fullness::Fullness;
use super::head::{Head, value_at};
use super::pages::Pages;
use super::queue::{Command, Incoming, Turns};
use super::resolve::since_boot_s;
use super::rollup::{self, Rolling};
use super::start::Begun;
use super::upkeep::{self, Merging};
use super::{Appended, StoreError};
use goodput_exposition::sample::{Labels, Sample, TimeMs, is_stale};

pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    /// Held for as long as this task, or a merge that it began, may write.
    pub(super) lock: Arc<Lock>,
    /// Batches that are to be committed.
    waiting: Turns<Incoming>,
    pub(super) next_series: u32,
    /// The last write-ahead row.
    pub(super) seq: i64,
    /// The head holds the write-ahead rows after this one.
    pub(super) after: i64,
    pub(super) acknowledged: Acknowledged,
    /// Per series: the time of its newest sample; `TimeMs::MIN` when it has none; `None` when only the segments know.
    pub(super) newest: Pages<Option<TimeMs>>,
    /// Which series count towards the limits.
    pub(super) active: Active,
    pub(super) fullness: Fullness,
    /// When the head must be flushed.
    pub(super) deadline: Instant,
    /// When a flush may be tried again.
    pub(super) retry: Instant,
    /// When to look for segments to merge or remove.
    pub(super) upkeep_due: Instant,
    pub(super) merging: Option<Merging>,
    /// Have samples been removed since series without any were last looked for?
    pub(super) sweep_due: bool,
    pub(super) sweep: Option<Sweep>,
    /// Bytes of the write-ahead that the last flush took, until free pages were given back after it.
    pub(super) flushed: Option<u64>,
    /// Files of segments that did not get into the index, or not surely.
    pub(super) leftovers: Vec<PathBuf>,
    /// Verdicts of an earlier release that are not rolled up.
    pub(super) rolling: Option<Rolling>,
    pub(super) days: RollingDays,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, lock: Lock, next_series: u32, begun: Begun) -> Self {
        let (mut newest, mut active) = (Pages::default(), Active::new(shared.options.max_series));
        {
            let state = shared.state.read();
            for id in shared.catalogue.read().all() {
                let ended = state.head.series(id).last().is_none_or(|last| is_stale(last.value));
                active.heard(id, Owner::default(), since_boot_s(&shared.options), ended);
            }
            shared.totals.lock().series = active.len() as u64;
            let flushed = state.flushed_until();
            for (id, samples) in state.head.all() {
                // A late sample says nothing: the newest may be in a segment.
                if let Some(last) = samples.last().filter(|last| Some(last.time_ms) > flushed) {
                    *newest.get_mut(id) = Some(last.time_ms);
                }
            }
        }
        let deadline = Instant::now() + shared.options.head_age;
        let sweep_due = shared.state.read().raw_from.is_some();
        let acknowledged = Acknowledged::new(shared.options.acknowledged());
        Self {
            shared,
            lock: Arc::new(lock),
            waiting: Turns::default(),
            next_series,
            seq: begun.seq,
            after: begun.after,
            acknowledged,
            newest,
            active,
            fullness: Fullness::default(),
            deadline,
            retry: Instant::now(),
            upkeep_due: Instant::now() + upkeep::EVERY,
            merging: None,
            sweep_due,
            sweep: None,
            flushed: None,
            leftovers: Vec::new(),
            rolling: begun.rolling,
            days: RollingDays::new(),
        }
    }

    /// Runs until it is closed, or no sender is left.
    pub(super) async fn run(mut self, mut queue: mpsc::UnboundedReceiver<Command>) {
        loop {
            let (wake, upkeep_due, idle) = (self.deadline.max(self.retry), self.upkeep_due, self.waiting.is_empty());
            let mut command = None;
            tokio::select! {
                received = queue.recv(), if idle => match received {
                    None => return self.cancel_merge().await,
                    received => command = received,
                },
                () = future::ready(()), if !idle => {}
                () = tokio::time::sleep_until(wake.into()) => self.flush_due().await,
                outcome = upkeep::merged(&mut self.merging) => self.after_merge(outcome).await,
                outcome = forget::swept(&mut self.sweep) => self.after_sweep(outcome).await,
                () = tokio::time::sleep_until(upkeep_due.into()) => self.upkeep().await,
                () = rollup::due(&self.rolling) => self.roll_up().await,
                () = self.days.due() => self.roll_up_days().await,
            }
            // Commands that came during the last commit have a turn in this one.
            while let Some(next) = command.take().or_else(|| queue.try_recv().ok()) {
                match next {
                    Command::Append(sender, incoming) => self.waiting.push(sender, incoming),
                    Command::Flush(reply) => {
                        self.commit_all().await;
                        // The caller may have gone; that is no error of the flush.
                        let _ = reply.send(self.flush().await);
                    }
                    Command::Compact(reply) => {
                        self.commit_all().await;
                        let _ = reply.send(self.compact().await);
                    }
                    Command::RollUpDays(reply) => drop(reply.send(self.roll_up_all_days().await)),
                    Command::Close(reply) => {
                        self.commit_all().await;
                        self.cancel_merge().await;
                        self.shared.database.close().await;
                        drop(self.lock);
                        let _ = reply.send(());
                        return;
                    }
                }
            }
            self.commit_some().await;
        }
    }

    /// What has come so far, in as few group commits as memory allows.
    async fn commit_all(&mut self) {
        while !self.waiting.is_empty() {
            self.commit_some().await;
        }
    }

    /// A group commit of what waits, of each sender in turn, that fills a quarter of the head at most, or of one batch.
    async fn commit_some(&mut self) {
        let most = self.shared.options.head_bytes / 4 / size_of::<Sample>();
        let mut samples = 0;
        let group = self.waiting.take_while(|incoming| {
            let fits = samples == 0 || samples + incoming.samples() <= most;
            samples += incoming.samples();
            fits
        });
        let group = self.without_outdated(group);
        if !group.is_empty() {
            self.append_together(group).await;
        }
    }

    /// Without those that were looked up before one of their series was removed; they are to be sent again.
    fn without_outdated(&self, group: Vec<Incoming>) -> Vec<Incoming> {
        let catalogue = self.shared.catalogue.read();
        let is_known = |incoming: &Incoming| {
            incoming.removals == catalogue.removals()
                || incoming.rows.iter().all(|row| catalogue.labels(row.id).is_some())
        };
        let (known, outdated): (Vec<_>, Vec<_>) = group.into_iter().partition(is_known);
        for incoming in outdated {
            let reason = "a series was removed with its last samples just before new ones came".to_owned();
            // The caller may have gone.
            let _ = incoming.reply.send(Err(StoreError::NotStored { reason }));
        }
        known
    }

    /// One group commit, and the answers to all whose batches are in it.
    async fn append_together(&mut self, mut group: Vec<Incoming>) {
        let mut counts: Vec<Appended> = group.iter().map(|incoming| incoming.counts).collect();
        let outcome = match self.make_room().await {
            Ok(()) => self.commit(&mut group, &mut counts).await,
            Err(error) => Err(error),
        };
        for (incoming, counts) in group.into_iter().zip(counts) {
            let answer = match &outcome {
                Ok(()) => Ok(counts),
                Err(StoreError::Superseded { path }) => Err(StoreError::Superseded { path: path.clone() }),
                Err(error) => Err(StoreError::NotStored { reason: error.to_string() }),
            };
            if answer.is_ok() {
                self.shared.totals.lock().appended += counts;
            }
            let _ = incoming.reply.send(answer);
        }
    }

    async fn commit(&mut self, group: &mut [Incoming], counts: &mut [Appended]) -> Result<(), StoreError> {
        let options = &self.shared.options;
        let bounds = Bounds {
            out_of_order_ms: if options.history { TimeMs::MAX } else { millis(options.out_of_order) },
            earliest: self.shared.earliest(),
            latest: (options.now)().saturating_add(millis(options.future)),
        };
        let owners = self.owners_of(group);
        let (mut rows, series) = self.resolve(group, counts, bounds, &owners);
        rows.sort_by_key(|row| (row.id, row.sample.time_ms));
        let late = match self.read_late(&rows, bounds).await {
            Ok(late) => late,
            Err(error) => {
                // What is there already is not known, so nothing is taken now; senders try again.
                self.forget(series.len());
                return Err(error);
            }
        };
        let accepted = {
            let state = self.shared.state.read();
            let past = Stored { head: &state.head, late: &late, newest: &self.newest, latest: bounds.latest };
            admit(&rows, &past, bounds, counts)
        };
        let persisted = if accepted.is_empty() { Ok(()) } else { self.persist(&series, &accepted).await };
        match persisted {
            Ok(()) if accepted.is_empty() => {}
            Ok(()) => {
                self.note_heard(&rows, &owners);
                self.apply(series, &accepted);
            }
            Err(_) => self.forget(series.len()),
        }
        self.note_fullness();
        persisted
    }

    /// Samples in segments that late rows may repeat. In the normal course there are no such rows.
    async fn read_late(&mut self, rows: &[Row], bounds: Bounds) -> Result<HashMap<SeriesId, Vec<Sample>>, StoreError> {
        let (ids, range) = self.late(rows, bounds);
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let segments = self.shared.state.read().overlapping(&range);
        let samples = self.shared.read(segments, ids.clone(), range).await?;
        let late: HashMap<_, _> = ids.into_iter().zip(samples).collect();
        let until = |samples: &[Sample]| newest_until(samples, bounds.latest);
        if self.shared.options.history {
            return Ok(late);
        }
        let state = self.shared.state.read();
        for (id, samples) in &late {
            let slot = self.newest.get_mut(*id);
            if slot.is_none_or(|newest| newest > bounds.latest) {
                *slot = Some(until(samples).max(until(state.head.series(*id))).unwrap_or(TimeMs::MIN));
            }
        }
        Ok(late)
    }

    /// Which series have to be looked up in segments, and over what time.
    fn late(&self, rows: &[Row], bounds: Bounds) -> (Vec<SeriesId>, Range<TimeMs>) {
        let state = self.shared.state.read();
        let flushed = state.flushed_until();
        let (mut ids, mut from, mut last) = (Vec::new(), TimeMs::MAX, TimeMs::MIN);
        for Row { id, sample, .. } in rows {
            let within = |newest: TimeMs| {
                (newest.saturating_sub(bounds.out_of_order_ms)..=newest).contains(&sample.time_ms)
                    && value_at(state.head.series(*id), sample.time_ms).is_none()
            };
            // A newest sample ahead of the clock, which was wrong once, is not the one that counts: that one is looked up.
            let newest = self.newest_of(*id).filter(|newest| *newest <= bounds.latest);
            if flushed >= Some(sample.time_ms) && sample.time_ms <= bounds.latest && newest.is_none_or(within) {
                (from, last) = (from.min(sample.time_ms), last.max(sample.time_ms));
                ids.push(*id);
            }
        }
        ids.dedup();
        // The bounds of live samples depend on the newest sample there is, history's do not.
        let end = if self.shared.options.history { last.saturating_add(1) } else { TimeMs::MAX };
        (ids, from..end)
    }

    pub(super) fn newest_of(&self, id: SeriesId) -> Option<TimeMs> {
        self.newest.get(id).copied().flatten()
    }

    async fn persist(&mut self, series: &[(SeriesId, Labels)], rows: &[(SeriesId, Sample)]) -> Result<(), StoreError> {
        let started = Instant::now();
        let samples = super::write_ahead::encode(rows);
        let database = &self.shared.database;
        self.seq = database.commit(series, &samples).await.map_err(|error| database.failed(error))?;
        self.note_acknowledged(rows);
        let mut totals = self.shared.totals.lock();
        totals.write_ahead_bytes += samples.len() as u64;
        totals.last_commit = Some(started.elapsed());
        Ok(())
    }

    /// Notes the last commit outside the database too.
    fn note_acknowledged(&mut self, rows: &[(SeriesId, Sample)]) {
        let around = |(first, last): (TimeMs, TimeMs), (_, sample): &(SeriesId, Sample)| {
            (first.min(sample.time_ms), last.max(sample.time_ms))
        };
        let (first_ms, last_ms) = rows.iter().fold((TimeMs::MAX, TimeMs::MIN), around);
        let record = Record { seq: self.seq, samples: rows.len() as u64, first_ms, last_ms };
        if let Err(error) = self.acknowledged.note(record) {
            warn!(%error, "cannot note a commit outside goodput.db; it is stored");
        }
    }

    /// The newest series did not get into the database: their ids are free again.
    fn forget(&mut self, series: usize) {
        for id in self.next_series - series as u32..self.next_series {
            *self.newest.get_mut(SeriesId(id)) = None;
            self.active.remove(SeriesId(id));
        }
        self.next_series -= series as u32;
    }

    /// What is on disk now becomes visible.
    fn apply(&mut self, series: Vec<(SeriesId, Labels)>, rows: &[(SeriesId, Sample)]) {
        if !series.is_empty() {
            let mut catalogue = self.shared.catalogue.write();
            for (id, labels) in series {
                catalogue.insert(id, labels);
            }
        }
        // Before a reader can see the samples: who judges up to a mark has taken the times of all that is before it.
        self.shared.arrivals.note(rows, &self.shared.catalogue.read());
        let mut state = self.shared.state.write();
        state.seq = self.seq;
        if state.head.is_empty() {
            self.deadline = Instant::now() + self.shared.options.head_age;
        }
        for (id, sample) in rows {
            state.head.insert(*id, *sample);
            let newest = self.newest.get_mut(*id);
            // A piece of history does not tell what is the newest.
            if newest.is_some() || !self.shared.options.history {
                *newest = (*newest).max(Some(sample.time_ms));
            }
        }
    }
}

pub(super) fn panicked(error: JoinError) -> StoreError {
    StoreError::NotStored { reason: error.to_string() }
}

/// Head, segments and what is known without reading, as one past.
struct Stored<'a> {
    head: &'a Head,
    late: &'a HashMap<SeriesId, Vec<Sample>>,
    newest: &'a Pages<Option<TimeMs>>,
    /// Later samples were stored while the clock was wrong.
    latest: TimeMs,
}

impl Past for Stored<'_> {
    fn newest(&self, id: SeriesId) -> TimeMs {
        // Not known, and not looked up either: then every segment ends before the rows begin.
        let head = || newest_until(self.head.series(id), self.latest);
        // Of history a part was looked up, after which there may be more.
        let history = || self.late.contains_key(&id).then_some(TimeMs::MAX);
        let known = self.newest.get(id).copied().flatten().filter(|newest| *newest <= self.latest);
        known.or_else(history).or_else(head).unwrap_or(TimeMs::MIN)
    }

    fn value(&self, id: SeriesId, time_ms: TimeMs) -> Option<f64> {
        let late = || self.late.get(&id).and_then(|samples| value_at(samples, time_ms));
        value_at(self.head.series(id), time_ms).or_else(late)
    }
}

/// The time of the newest sample that is not later; of samples in order of time.
fn newest_until(samples: &[Sample], latest: TimeMs) -> Option<TimeMs> {
    let count = samples.partition_point(|sample| sample.time_ms <= latest);
    samples.get(..count)?.last().map(|sample| sample.time_ms)
}

fn millis(duration: Duration) -> TimeMs {
    TimeMs::try_from(duration.as_millis()).unwrap_or(TimeMs::MAX)
}
