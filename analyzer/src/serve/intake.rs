//! What came in: passes batches on to the store and remembers, per source, when its last sample was taken.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::events::Event;
use crate::judge::HOUR_MS;
use crate::sample::{Batch, Series, SeriesRef, TimeMs};
use crate::store::{Appended, Events, Samples, Selection, StoreError, Taken};

/// Sources remembered; those beyond are stored all the same, only not shown.
const MAX_SOURCES: usize = 10_000;

/// Samples so much older than what is judged are a backlog; a sender that is minutes late is not.
const BACKLOG_MS: i64 = HOUR_MS;

/// A backlog is over when none of it has come for so long: several times what a sender needs from one request to the
/// next.
const QUIET: Duration = Duration::from_secs(5);

/// A store that keeps account of what goes in.
#[derive(Clone, Debug)]
pub struct Intake<S> {
    store: S,
    account: Arc<Mutex<Account>>,
    backlog: Arc<Notify>,
}

/// What came in so far.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Time of the newest sample by source: the `instance` label.
    pub last_sample: BTreeMap<String, TimeMs>,
    /// What became of all samples.
    pub samples: Appended,
    /// Time of the earliest sample that has not been judged.
    pub(super) earliest: Option<TimeMs>,
    judged_until: Option<TimeMs>,
}

impl<S> Intake<S> {
    /// In front of this store.
    pub fn new(store: S) -> Self {
        Self { store, account: Arc::default(), backlog: Arc::default() }
    }

    /// The account so far.
    pub fn account(&self) -> Account {
        self.account.lock().clone()
    }

    /// Verdicts from there on may change.
    pub fn note_earliest(&self, time: TimeMs) {
        let earliest = &mut self.account.lock().earliest;
        *earliest = Some(earliest.map_or(time, |earliest| earliest.min(time)));
    }

    /// Time of the earliest sample since this was last asked: verdicts from there on may change.
    pub fn take_earliest(&self) -> Option<TimeMs> {
        self.account.lock().earliest.take()
    }
}

impl<S> Intake<S> {
    /// Everything up to there has been judged once.
    pub(super) fn note_judged(&self, until: TimeMs) {
        self.account.lock().judged_until = Some(until);
    }

    /// Resolves when samples have come in that are much older than what is judged, and no more of them come.
    pub(super) async fn backlog(&self) {
        self.backlog.notified().await;
        while tokio::time::timeout(QUIET, self.backlog.notified()).await.is_ok() {}
    }
}

impl<S: Samples> Samples for Intake<S> {
    async fn append(&self, batch: Batch) -> Result<Appended, StoreError> {
        let seen = sources(&batch);
        let appended = self.store.append(batch).await?;
        if self.account.lock().add(seen, appended) {
            self.backlog.notify_one();
        }
        Ok(appended)
    }

    async fn select(&self, selection: &Selection) -> Result<Vec<Series>, StoreError> {
        self.store.select(selection).await
    }
}

impl<S: Events> Events for Intake<S> {
    async fn add_events(&self, events: &[Event]) -> Result<Taken, StoreError> {
        let taken = self.store.add_events(events).await?;
        if let Some(from) = taken.unjudged_from_ms {
            self.note_earliest(from);
        }
        Ok(taken)
    }
}

/// Each source, and the times of its earliest and latest sample. Series of one source mostly come one after the other.
fn sources(batch: &Batch) -> Vec<(String, TimeMs, TimeMs)> {
    let mut seen: Vec<(String, TimeMs, TimeMs)> = Vec::new();
    for SeriesRef { labels, samples } in batch.series() {
        let source = labels.get("instance").unwrap_or("(no instance label)");
        if seen.last().is_none_or(|(last, ..)| last != source) {
            seen.push((source.to_owned(), TimeMs::MAX, TimeMs::MIN));
        }
        if let Some((_, first, last)) = seen.last_mut() {
            *first = samples.iter().map(|s| s.time_ms).min().unwrap_or(*first).min(*first);
            *last = samples.iter().map(|s| s.time_ms).max().unwrap_or(*last).max(*last);
        }
    }
    seen
}

impl Account {
    /// Says whether there is a backlog among the samples.
    fn add(&mut self, seen: Vec<(String, TimeMs, TimeMs)>, appended: Appended) -> bool {
        self.samples += appended;
        if appended.stored == 0 {
            return false;
        }
        let known = self.judged_until.map(|until| until - BACKLOG_MS);
        let backlog = known.is_some_and(|known| seen.iter().any(|(_, first, _)| *first < known));
        for (source, first, last) in seen {
            self.earliest = Some(self.earliest.map_or(first, |earliest| earliest.min(first)));
            if self.last_sample.len() < MAX_SOURCES || self.last_sample.contains_key(&source) {
                let newest = self.last_sample.entry(source).or_insert(last);
                *newest = last.max(*newest);
            }
        }
        backlog
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{START, idle_gpu, store};

    const MINUTE_MS: i64 = 60_000;

    #[tokio::test]
    async fn a_backlog_is_told_of_and_what_is_new_or_minutes_late_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let intake = Intake::new(store(dir.path()).await);
        let told = async || tokio::time::timeout(Duration::from_millis(10), intake.backlog.notified()).await.is_ok();
        idle_gpu(&intake, "GPU-a", "n1", START..START + MINUTE_MS).await;
        assert!(!told().await, "nothing has been judged yet: the first round takes it all");
        let judged = START + 5 * HOUR_MS;
        intake.note_judged(judged);
        idle_gpu(&intake, "GPU-b", "n1", judged - 5 * MINUTE_MS..judged + MINUTE_MS).await;
        assert!(!told().await);
        idle_gpu(&intake, "GPU-c", "n2", START + HOUR_MS..START + HOUR_MS + MINUTE_MS).await;
        assert!(told().await && !told().await, "once");
    }
}
