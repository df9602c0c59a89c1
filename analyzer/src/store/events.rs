//! Events of jobs, in SQLite.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::Ordering;

use sqlx::sqlite::{SqliteExecutor, SqliteRow};
use sqlx::{Row, SqliteConnection};

use super::database::Database;
use super::writer::panicked;
use super::{Events, History, Progress, Store, StoreError, Taken};
use crate::events::{Event, Place, RunId, Status, What, unjudged_from};
use crate::sample::TimeMs;

const SELECT_ONE: &str = "SELECT id, time_ms, cluster, run, attempt, rank, kind, step, status, seconds, submitted_ms,
    node, namespace, pod, slurm_job FROM events WHERE id = $1";

const SELECT_OF_RUN: &str = "SELECT id, time_ms, cluster, run, attempt, rank, kind, step, status, seconds,
    submitted_ms, node, namespace, pod, slurm_job FROM events WHERE cluster = $1 AND run = $2 AND kind <> 'step'
    ORDER BY attempt, time_ms, id";

const INSERT: &str = "INSERT INTO events (id, time_ms, cluster, run, attempt, rank, kind, step, status, seconds,
    submitted_ms, node, namespace, pod, slurm_job, unjudged_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";

/// Runs with an event in a window, or between two.
const SELECT_RUNS: &str = "SELECT cluster, run FROM attempts GROUP BY cluster, run
    HAVING min(first_ms) < $2 AND max(last_ms) >= $1 ORDER BY cluster, run";

const SELECT_ATTEMPTS: &str = "SELECT attempt, first_ms, last_ms, last_step FROM attempts
    WHERE cluster = $1 AND run = $2 ORDER BY attempt";

const NOTE_ATTEMPT: &str = "INSERT INTO attempts (cluster, run, attempt, first_ms, last_ms, last_step)
    VALUES ($1, $2, $3, $4, $4, $5) ON CONFLICT (cluster, run, attempt) DO UPDATE SET
    first_ms = CASE WHEN excluded.first_ms < attempts.first_ms THEN excluded.first_ms ELSE attempts.first_ms END,
    last_ms = CASE WHEN excluded.last_ms > attempts.last_ms THEN excluded.last_ms ELSE attempts.last_ms END,
    last_step = CASE WHEN attempts.last_step IS NULL OR excluded.last_step > attempts.last_step
        THEN excluded.last_step ELSE attempts.last_step END";

const SELECT_UNJUDGED: &str = "SELECT min(unjudged_ms) FROM events WHERE unjudged_ms IS NOT NULL";

const SELECT_LAST: &str = "SELECT max(seq) FROM events";

const NOTE_JUDGED: &str = "UPDATE events SET unjudged_ms = NULL WHERE unjudged_ms IS NOT NULL AND seq <= $1";

const FORGET: &str = "DELETE FROM events WHERE time_ms < $1";

const FORGET_ATTEMPTS: &str = "DELETE FROM attempts WHERE last_ms < $1";

pub(super) const STATEMENTS: [&str; 11] = [
    SELECT_ONE,
    SELECT_OF_RUN,
    INSERT,
    SELECT_RUNS,
    SELECT_ATTEMPTS,
    NOTE_ATTEMPT,
    SELECT_UNJUDGED,
    SELECT_LAST,
    NOTE_JUDGED,
    FORGET,
    FORGET_ATTEMPTS,
];

impl Events for Store {
    async fn add_events(&self, events: &[Event]) -> Result<Taken, StoreError> {
        // A sender may leave at any time: what has to follow the commit is in a task that goes on without the sender.
        let (store, events) = (self.clone(), events.to_vec());
        let taking = tokio::spawn(async move { store.take_events(&events).await });
        taking.await.unwrap_or_else(|error| Err(panicked(error)))
    }
}

impl Store {
    async fn take_events(&self, events: &[Event]) -> Result<Taken, StoreError> {
        let _turn = self.shared.storing_events.lock().await;
        self.shared.check_space()?;
        let database = &self.shared.database;
        let failed = |error| database.failed(error);
        let mut transaction = database.begin().await.map_err(failed)?;
        let mut fresh: BTreeMap<&str, &Event> = BTreeMap::new();
        for event in events {
            let stored = find(&mut transaction, &event.id).await.map_err(failed)?;
            let known = stored.as_ref().or_else(|| fresh.get(event.id.as_str()).copied());
            if known.is_some_and(|known| known != event) {
                return Err(StoreError::Contradicted { id: event.id.clone() });
            }
            if known.is_none() {
                fresh.insert(&event.id, event);
            }
        }
        let fresh: Vec<Event> = events.iter().filter(|e| fresh.remove(e.id.as_str()).is_some()).cloned().collect();
        let stored = async {
            let unjudged_from_ms = unjudged(&mut transaction, &fresh).await?;
            for event in &fresh {
                insert(&mut transaction, event, unjudged_from_ms).await?;
            }
            let last: Option<i64> = sqlx::query_scalar(SELECT_LAST).fetch_one(&mut *transaction).await?;
            transaction.commit().await?;
            if let Some(from) = unjudged_from_ms {
                self.shared.arrivals.note_earliest(from);
            }
            self.shared.last_event.fetch_max(last.unwrap_or(0), Ordering::AcqRel);
            Ok(Taken { stored: fresh.len(), duplicate: events.len() - fresh.len(), unjudged_from_ms })
        };
        stored.await.map_err(failed)
    }

    pub(super) async fn history_in(&self, window: &Range<TimeMs>) -> Result<History, StoreError> {
        let database = &self.shared.database;
        let read = async { select(&mut *database.read.acquire().await?, window).await };
        read.await.map_err(|error| database.failed(error))
    }
}

impl Database {
    /// From when on verdicts do not rest on all events.
    pub(super) async fn events_unjudged_from(&self) -> sqlx::Result<Option<TimeMs>> {
        sqlx::query_scalar(SELECT_UNJUDGED).fetch_one(&self.read).await
    }

    /// The last event that is stored; 0 before the first.
    pub(super) async fn last_event(&self) -> sqlx::Result<i64> {
        let last: Option<i64> = sqlx::query_scalar(SELECT_LAST).fetch_one(&self.read).await?;
        Ok(last.unwrap_or(0))
    }

    pub(super) async fn note_events_judged(&self, seq: i64) -> sqlx::Result<()> {
        sqlx::query(NOTE_JUDGED).bind(seq).execute(&self.write).await.map(drop)
    }
}

/// Removes events before this.
pub(super) async fn forget(transaction: &mut SqliteConnection, until: TimeMs) -> sqlx::Result<u64> {
    sqlx::query(FORGET_ATTEMPTS).bind(until).execute(&mut *transaction).await?;
    Ok(sqlx::query(FORGET).bind(until).execute(transaction).await?.rows_affected())
}

pub(super) async fn select(connection: &mut SqliteConnection, window: &Range<TimeMs>) -> sqlx::Result<History> {
    let mut history = History::default();
    let runs = sqlx::query(SELECT_RUNS).bind(window.start).bind(window.end).fetch_all(&mut *connection).await?;
    for run in &runs {
        let run = RunId { cluster: run.try_get("cluster")?, name: run.try_get("run")? };
        history.events.extend(of_run(&mut *connection, &run).await?);
        let attempts = sqlx::query(SELECT_ATTEMPTS).bind(&run.cluster).bind(&run.name);
        for row in attempts.fetch_all(&mut *connection).await? {
            history.progress.push(Progress {
                run: run.clone(),
                attempt: whole(&row, "attempt")?,
                first_ms: row.try_get("first_ms")?,
                last_ms: row.try_get("last_ms")?,
                last_step: row.try_get::<Option<i64>, _>("last_step")?.map(i64::cast_unsigned),
            });
        }
    }
    Ok(history)
}

async fn find(connection: &mut SqliteConnection, id: &str) -> sqlx::Result<Option<Event>> {
    let row = sqlx::query(SELECT_ONE).bind(id).fetch_optional(connection).await?;
    row.as_ref().map(decode).transpose()
}

async fn of_run(executor: impl SqliteExecutor<'_>, run: &RunId) -> sqlx::Result<Vec<Event>> {
    let rows = sqlx::query(SELECT_OF_RUN).bind(&run.cluster).bind(&run.name).fetch_all(executor).await?;
    rows.iter().map(decode).collect()
}

/// From when on verdicts change by the events.
async fn unjudged(connection: &mut SqliteConnection, fresh: &[Event]) -> sqlx::Result<Option<TimeMs>> {
    let runs: BTreeSet<&RunId> = fresh.iter().map(|event| &event.run).collect();
    let mut earliest = None;
    for run in runs {
        let before = of_run(&mut *connection, run).await?;
        let added: Vec<Event> = fresh.iter().filter(|event| event.run == *run).cloned().collect();
        earliest = earliest.into_iter().chain(unjudged_from(&before, &added)).min();
    }
    Ok(earliest)
}

async fn insert(connection: &mut SqliteConnection, event: &Event, unjudged_ms: Option<TimeMs>) -> sqlx::Result<()> {
    let Event { run, what, place, .. } = event;
    let step = what.step().map(u64::cast_signed);
    let (mut status, mut cost, mut submitted) = (None, None, None);
    match what {
        What::Start { submitted_ms } => submitted = *submitted_ms,
        What::Checkpoint { seconds, .. } => cost = *seconds,
        What::Evaluation { seconds } => cost = Some(*seconds),
        What::End { status: how } => status = Some(how.name()),
        What::Step { .. } | What::Restore { .. } => {}
    }
    sqlx::query(INSERT)
        .bind(&event.id)
        .bind(event.time_ms)
        .bind(&run.cluster)
        .bind(&run.name)
        .bind(event.attempt)
        .bind(event.rank)
        .bind(what.kind())
        .bind(step)
        .bind(status)
        .bind(cost)
        .bind(submitted)
        .bind(&place.node)
        .bind(&place.namespace)
        .bind(&place.pod)
        .bind(&place.slurm_job)
        .bind(unjudged_ms.filter(|_| !matches!(what, What::Step { .. })))
        .execute(&mut *connection)
        .await?;
    let noted = sqlx::query(NOTE_ATTEMPT).bind(&run.cluster).bind(&run.name).bind(event.attempt);
    noted.bind(event.time_ms).bind(step).execute(connection).await.map(drop)
}

fn decode(row: &SqliteRow) -> sqlx::Result<Event> {
    Ok(Event {
        id: row.try_get("id")?,
        time_ms: row.try_get("time_ms")?,
        run: RunId { cluster: row.try_get("cluster")?, name: row.try_get("run")? },
        attempt: whole(row, "attempt")?,
        rank: row.try_get::<Option<i64>, _>("rank")?.map(|rank| small("rank", rank)).transpose()?,
        what: what(row)?,
        place: Place {
            node: row.try_get("node")?,
            namespace: row.try_get("namespace")?,
            pod: row.try_get("pod")?,
            slurm_job: row.try_get("slurm_job")?,
        },
    })
}

fn what(row: &SqliteRow) -> sqlx::Result<What> {
    let step = || row.try_get::<i64, _>("step").map(i64::cast_unsigned);
    Ok(match row.try_get("kind")? {
        "start" => What::Start { submitted_ms: row.try_get("submitted_ms")? },
        "step" => What::Step { step: step()? },
        "checkpoint" => What::Checkpoint { step: step()?, seconds: row.try_get("seconds")? },
        "evaluation" => What::Evaluation { seconds: row.try_get("seconds")? },
        "restore" => What::Restore { step: step()? },
        "end" => {
            let name: &str = row.try_get("status")?;
            let status = Status::ALL.iter().copied().find(|status| status.name() == name);
            What::End { status: status.ok_or_else(|| unknown("status", name))? }
        }
        kind => return Err(unknown("kind", kind)),
    })
}

fn whole(row: &SqliteRow, column: &str) -> sqlx::Result<u32> {
    small(column, row.try_get(column)?)
}

fn small(column: &str, number: i64) -> sqlx::Result<u32> {
    u32::try_from(number).map_err(|_| unknown(column, &number.to_string()))
}

fn unknown(column: &str, value: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("unknown {column} {value}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::tests::{START, ended, event, saved};
    use crate::store::{Options, Results};

    async fn open(dir: &std::path::Path) -> Store {
        Store::open(Options::new(dir, |_| true)).await.unwrap()
    }

    /// Every kind, with and without what may be missing.
    fn every_kind() -> Vec<Event> {
        let place = Place { node: Some("n1".into()), slurm_job: Some("7".into()), ..Place::default() };
        vec![
            Event { rank: Some(3), place, ..event(5, 0, What::Start { submitted_ms: Some(1) }) },
            event(6, 0, What::Restore { step: 1 << 53 }),
            event(10, 0, saved(1)),
            event(15, 0, What::Checkpoint { step: 2, seconds: Some(0.5) }),
            event(17, 0, What::Evaluation { seconds: 0.002 }),
            event(20, 0, ended(Status::Failed)),
            event(30, u32::MAX, START),
        ]
    }

    #[tokio::test]
    async fn an_event_is_stored_once_however_often_it_comes() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        let events = every_kind();
        let twice = [&events[..], &events[..2]].concat();
        let taken = store.add_events(&twice).await.unwrap();
        assert_eq!(taken, Taken { stored: 7, duplicate: 2, unjudged_from_ms: Some(5) });
        let again = store.add_events(&events).await.unwrap();
        assert_eq!(again, Taken { stored: 0, duplicate: 7, unjudged_from_ms: None });
        store.close().await;
        assert_eq!(open(dir.path()).await.history(0..100).await.unwrap().events, events);
    }

    #[tokio::test]
    async fn another_content_under_a_known_id_takes_nothing_of_the_request() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        let first = event(10, 0, START);
        store.add_events(std::slice::from_ref(&first)).await.unwrap();
        let other = Event { rank: Some(1), ..first.clone() };
        for request in
            [vec![event(20, 0, saved(1)), other.clone()], vec![event(21, 0, saved(1)), event(21, 0, saved(2))]]
        {
            let refused = store.add_events(&request).await;
            let Err(StoreError::Contradicted { id }) = &refused else { panic!("{refused:?}") };
            assert_eq!(*id, request[1].id);
        }
        assert_eq!(store.history(0..100).await.unwrap().events, [first]);
    }

    #[tokio::test]
    async fn runs_are_found_by_their_extent_and_steps_only_tell_how_far_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        let steps = [event(50, 0, What::Step { step: 9 }), event(40, 0, What::Step { step: 8 })];
        let taken = store.add_events(&steps).await.unwrap();
        assert_eq!(taken.unjudged_from_ms, None, "nothing is judged by steps");
        store.add_events(&[event(10, 0, START), event(90, 1, START)]).await.unwrap();
        let history = store.history(60..70).await.unwrap();
        assert_eq!(history.events, [event(10, 0, START), event(90, 1, START)]);
        let far: Vec<_> = history.progress.iter().map(|p| (p.attempt, p.first_ms, p.last_ms, p.last_step)).collect();
        assert_eq!(far, [(0, 10, 50, Some(9)), (1, 90, 90, None)]);
        for window in [0..10, 91..100] {
            assert_eq!(store.history(window).await.unwrap(), History::default());
        }
    }

    #[tokio::test]
    async fn what_is_not_judged_is_remembered_until_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        store.add_events(&[event(10, 0, START), event(20, 0, saved(1))]).await.unwrap();
        let mark = store.mark();
        store.add_events(&[event(40, 0, ended(Status::Failed))]).await.unwrap();
        store.close().await;
        let store = open(dir.path()).await;
        assert_eq!(store.unjudged_from(), Some(10));
        store.note_judged(mark).await.unwrap();
        store.close().await;
        let store = open(dir.path()).await;
        assert_eq!(store.unjudged_from(), Some(20), "what the crash changed");
        store.note_judged(store.mark()).await.unwrap();
        store.close().await;
        assert_eq!(open(dir.path()).await.unjudged_from(), None);
    }

    #[tokio::test]
    async fn events_go_with_the_verdicts_of_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        store.add_events(&every_kind()).await.unwrap();
        assert_eq!(store.shared.database.forget_verdicts(30).await.unwrap(), 6);
        let history = store.history(0..100).await.unwrap();
        assert_eq!((history.events.len(), history.progress.len()), (1, 1));
    }
}
