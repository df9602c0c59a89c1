//! What came in, as judging, the pages and the metrics ask for it. The store notes it, for a handler may be dropped while it
//! waits for the store.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use goodput_exposition::sample::{Batch, TimeMs};
use goodput_store::{Appended, Embedded, Events, Ingest, StoreError, Taken};
use goodput_verdict::HOUR_MS;
use goodput_verdict::event::Event;

/// Samples so much older than what is judged are a backlog; a sender that is minutes late is not.
const BACKLOG_MS: i64 = HOUR_MS;

/// A backlog is over when none of it has come for so long: several times what a sender needs from one request to the
/// next.
const QUIET: Duration = Duration::from_secs(5);

/// A store, and the account of what went in.
#[derive(Clone, Debug)]
pub struct Intake<S> {
    store: S,
}

/// What came in so far.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Time of the newest sample by source: the `instance` label.
    pub last_sample: BTreeMap<String, TimeMs>,
    /// What became of all samples.
    pub samples: Appended,
    /// Time of the earliest sample that has not been judged.
    pub(crate) earliest: Option<TimeMs>,
}

impl<S: Embedded> Intake<S> {
    /// In front of this store.
    pub fn new(store: S) -> Self {
        Self { store }
    }

    /// The account so far.
    pub fn account(&self) -> Account {
        let arrivals = self.store.arrivals();
        Account { last_sample: arrivals.newest(), samples: self.store.stats().appended, earliest: arrivals.earliest() }
    }

    /// Verdicts from there on may change.
    pub fn note_earliest(&self, time: TimeMs) {
        self.store.arrivals().note_earliest(time);
    }

    /// Time of the earliest sample since this was last asked: verdicts from there on may change.
    pub fn take_earliest(&self) -> Option<TimeMs> {
        self.store.arrivals().take_earliest()
    }

    /// Everything up to there has been judged once.
    pub(crate) fn note_judged(&self, until: TimeMs) {
        self.store.arrivals().await_backlog_before(until - BACKLOG_MS);
    }

    /// Resolves when samples have come in that are much older than what is judged, and no more of them come.
    pub(crate) async fn backlog(&self) {
        self.store.arrivals().backlog().await;
        while tokio::time::timeout(QUIET, self.store.arrivals().backlog()).await.is_ok() {}
    }
}

impl<S: Ingest> Ingest for Intake<S> {
    async fn append(&self, batch: Batch) -> Result<Appended, StoreError> {
        self.store.append(batch).await
    }

    fn keeps(&self, metric: &str) -> bool {
        self.store.keeps(metric)
    }

    fn takes(&self) -> RangeInclusive<TimeMs> {
        self.store.takes()
    }
}

impl<S: Events> Events for Intake<S> {
    async fn add_events(&self, events: &[Event]) -> Result<Taken, StoreError> {
        self.store.add_events(events).await
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
        let told =
            async || tokio::time::timeout(Duration::from_millis(10), intake.store.arrivals().backlog()).await.is_ok();
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
