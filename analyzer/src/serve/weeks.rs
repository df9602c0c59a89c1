//! Notes the findings of weeks that are over, once all of their verdicts are final, and again where these have changed.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::app::Progress;
use crate::ownership::{Book, WEEKS};
use crate::report::{Period, Terms, finding_weeks};
use crate::schedule::instant;
use goodput_exposition::sample::TimeMs;
use goodput_store::{Results, StoreError};

/// After a failure, and between two looks at verdicts that may have changed.
const EVERY: Duration = Duration::from_secs(60);

/// The loop's parts.
pub(super) struct Weeks<S> {
    store: S,
    zone: TimeZone,
    terms: Terms,
    now: fn() -> TimeMs,
    progress: watch::Receiver<Progress>,
    /// The weeks that this process noted, and the version of their verdicts then.
    noted: BTreeMap<String, u64>,
}

impl<S: Results> Weeks<S> {
    pub(super) fn new(
        store: S,
        (now, zone): (fn() -> TimeMs, TimeZone),
        terms: Terms,
        progress: watch::Receiver<Progress>,
    ) -> Self {
        Self { store, zone, terms, now, progress, noted: BTreeMap::new() }
    }

    /// Runs until `stop` is true.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "the findings of a week are not noted; it is tried again");
            }
            tokio::select! {
                () = sleep(EVERY) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Notes what is final and not noted yet, the oldest week first: whether a finding was there before is known then.
    async fn round(&mut self) -> Result<(), StoreError> {
        let Some(final_until) = self.progress.borrow().final_until_ms else { return Ok(()) };
        let mut weeks = vec![Period::last_week(instant((self.now)()), &self.zone)];
        for _ in 1..WEEKS {
            weeks.extend(weeks.last().map(Period::previous));
        }
        let known = match weeks.last().zip(weeks.first()) {
            Some((first, last)) => self.store.finding_weeks([&first.label, &last.label]).await?,
            None => Vec::new(),
        };
        let newest = weeks.first().map(|week| week.label.clone());
        for week in weeks.iter().rev().filter(|week| week.end_ms <= final_until) {
            let version = self.store.version(&(week.start_ms..week.end_ms));
            let is_noted = match self.noted.get(&week.label) {
                Some(noted) => *noted == version,
                // Of the newest week verdicts may have changed since another run of the program noted it.
                None => newest.as_ref() != Some(&week.label) && known.iter().any(|one| one.week == week.label),
            };
            if !is_noted {
                self.note(week).await?;
            }
            self.noted.insert(week.label.clone(), version);
        }
        Ok(())
    }

    async fn note(&self, week: &Period) -> Result<(), StoreError> {
        // As of its end: what was noted of later weeks is not known then.
        let book = Book::read(&self.store, week.start_ms).await?;
        let findings = finding_weeks(&self.store, week, &self.terms, &book).await?;
        self.store.note_finding_week(&week.label, &findings).await?;
        tracing::info!(week = week.label, findings = findings.len(), "findings of the week noted");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::store;
    use goodput_store::{Ownership as _, ReadOwnership as _};
    use goodput_testing::bare;
    use goodput_verdict::{Class, HOUR_MS, Interval};

    /// Monday 2026-11-09, 2026-W46.
    const MONDAY: TimeMs = 1_794_182_400_000;
    const WEEK_MS: i64 = 7 * 24 * HOUR_MS;

    fn now() -> TimeMs {
        MONDAY + 3 * WEEK_MS + 5 * HOUR_MS
    }

    /// Ten hours of a notebook.
    fn held(week: i64, class: Class) -> Interval {
        let start = MONDAY + week * WEEK_MS + HOUR_MS;
        Interval {
            node: "n1".to_owned(),
            gpu: "GPU-a".to_owned(),
            model: Some("NVIDIA A100".to_owned()),
            owner: Some("jupyter-7".to_owned()),
            ms: HOUR_MS,
            ..bare(class, start..start + HOUR_MS)
        }
    }

    #[tokio::test]
    async fn weeks_that_are_final_are_noted_once_and_again_where_verdicts_changed() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        for (week, class) in [(0, Class::IdleHeld), (1, Class::Productive), (2, Class::IdleHeld)] {
            let one = held(week, class);
            store.replace("n1".into(), one.start_ms..one.end_ms, &[one]).await.unwrap();
        }
        let (told, progress) = watch::channel(Progress::default());
        let mut weeks = Weeks::new(store.clone(), (now, TimeZone::UTC), Terms::default(), progress);
        let noted = async || {
            let all = store.finding_weeks(["2026-W01", "2027-W01"]).await.unwrap();
            all.into_iter().map(|one| (one.week, one.lost_ms, one.ran_ms, one.is_first)).collect::<Vec<_>>()
        };
        weeks.round().await.unwrap();
        assert_eq!(noted().await, [], "nothing is final");
        let until = |final_until_ms| Progress { final_until_ms: Some(final_until_ms), ..Progress::default() };
        told.send_replace(until(MONDAY + 2 * WEEK_MS));
        weeks.round().await.unwrap();
        let [first, second] =
            [("2026-W46", HOUR_MS), ("2026-W47", 0)].map(|(week, lost)| (week.to_owned(), lost, HOUR_MS, lost > 0));
        assert_eq!(noted().await, [first.clone(), second.clone()], "the same work was there without the finding");
        let restated = held(1, Class::IdleHeld);
        store.replace("n1".into(), restated.start_ms..restated.end_ms, &[restated]).await.unwrap();
        told.send_replace(until(MONDAY + 3 * WEEK_MS));
        weeks.round().await.unwrap();
        let week = |label: &str| (label.to_owned(), HOUR_MS, HOUR_MS, true);
        assert_eq!(noted().await, [first.clone(), week("2026-W47"), week("2026-W48")]);
        let ids = store.finding_weeks(["2026-W01", "2027-W01"]).await.unwrap();
        assert!(ids.iter().all(|one| one.id == ids[0].id && one.subject == "jupyter-*"), "{ids:?}");
        // Another run of the program notes the newest week again, and no other.
        store
            .note_finding_week(
                "2026-W47",
                &ids[1..2]
                    .iter()
                    .cloned()
                    .map(|one| goodput_verdict::FindingWeek { lost_ms: 7, ..one })
                    .collect::<Vec<_>>(),
            )
            .await
            .unwrap();
        store.note_finding_week("2026-W48", &[]).await.unwrap();
        weeks.noted.clear();
        weeks.round().await.unwrap();
        assert_eq!(noted().await[1..], [("2026-W47".to_owned(), 7, HOUR_MS, true), week("2026-W48")]);
    }
}
