//! What came in: passes batches on to the store and remembers, per source, when its last sample was taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::sample::{Batch, Series, TimeMs};
use crate::store::{Appended, Samples, Selection, StoreError};

/// Sources remembered; those beyond are stored all the same, only not shown.
const MAX_SOURCES: usize = 10_000;

/// A store that keeps account of what goes in.
#[derive(Clone, Debug)]
pub struct Intake<S> {
    store: S,
    account: Arc<Mutex<Account>>,
}

/// What came in so far.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Time of the newest sample by source: the `instance` label.
    pub last_sample: BTreeMap<String, TimeMs>,
    /// What became of all samples.
    pub samples: Appended,
    earliest: Option<TimeMs>,
}

impl<S> Intake<S> {
    /// In front of this store.
    pub fn new(store: S) -> Self {
        Self { store, account: Arc::default() }
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

impl<S: Samples> Samples for Intake<S> {
    async fn append(&self, batch: Batch) -> Result<Appended, StoreError> {
        let seen: Vec<_> = batch.series.iter().filter_map(times).collect();
        let appended = self.store.append(batch).await?;
        self.account.lock().add(seen, appended);
        Ok(appended)
    }

    async fn select(&self, selection: &Selection) -> Result<Vec<Series>, StoreError> {
        self.store.select(selection).await
    }
}

/// The source, and the times of its first and last sample.
fn times(series: &Series) -> Option<(String, TimeMs, TimeMs)> {
    let source = series.labels.get("instance").unwrap_or("(no instance label)");
    Some((source.to_owned(), series.samples.first()?.time_ms, series.samples.last()?.time_ms))
}

impl Account {
    fn add(&mut self, seen: Vec<(String, TimeMs, TimeMs)>, appended: Appended) {
        self.samples += appended;
        if appended.stored == 0 {
            return;
        }
        for (source, first, last) in seen {
            self.earliest = Some(self.earliest.map_or(first, |earliest| earliest.min(first)));
            if self.last_sample.len() < MAX_SOURCES || self.last_sample.contains_key(&source) {
                let newest = self.last_sample.entry(source).or_insert(last);
                *newest = last.max(*newest);
            }
        }
    }
}
