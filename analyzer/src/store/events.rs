//! Events of jobs, in SQLite.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::Ordering;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::bad_rows::{self, BadRow};
use super::checked::{self, Reading, Table, Value};
use super::database::Database;
use super::embedded::Shared;
use super::{Events, History, Progress, Store, StoreError, Taken};
use crate::events::{Event, Place, RunId, Status, What, unjudged_from};
use crate::sample::TimeMs;

/// What every read of events selects.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, time_ms, cluster, run, attempt, rank, kind, step, status, seconds, submitted_ms, node, namespace,
    pod, slurm_job, checksum FROM events WHERE ",
            $rest
        )
    };
}

const SELECT_ONE: &str = select!("id = $1");

const SELECT_OF_RUN: &str = select!("cluster = $1 AND run = $2 AND kind <> 'step' ORDER BY attempt, time_ms, id");

/// Of a run's attempts between two numbers, which are among them.
const SELECT_OF_ATTEMPTS: &str = select!(
    "cluster = $1 AND run = $2 AND attempt >= $3 AND attempt <= $4 AND kind <> 'step' ORDER BY attempt, time_ms, id"
);

const INSERT: &str = "INSERT INTO events (id, time_ms, cluster, run, attempt, rank, kind, step, status, seconds,
    submitted_ms, node, namespace, pod, slurm_job, checksum, unjudged_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";

/// Runs with an event in a window, or between two.
const SELECT_RUNS: &str = "SELECT cluster, run FROM attempts GROUP BY cluster, run
    HAVING min(first_ms) < $2 AND max(last_ms) >= $1 ORDER BY cluster, run";

const SELECT_ATTEMPTS: &str = "SELECT cluster, run, attempt, first_ms, last_ms, last_step, checksum FROM attempts
    WHERE cluster = $1 AND run = $2 ORDER BY attempt";

const SELECT_ATTEMPT: &str = "SELECT cluster, run, attempt, first_ms, last_ms, last_step, checksum FROM attempts
    WHERE cluster = $1 AND run = $2 AND attempt = $3";

/// By all events of an attempt, where its row is lost.
const SUM_UP: &str = "SELECT min(time_ms), max(time_ms), max(step) FROM events
    WHERE cluster = $1 AND run = $2 AND attempt = $3";

const NOTE_ATTEMPT: &str = "INSERT INTO attempts (cluster, run, attempt, first_ms, last_ms, last_step, checksum)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (cluster, run, attempt) DO UPDATE SET
    first_ms = excluded.first_ms, last_ms = excluded.last_ms, last_step = excluded.last_step,
    checksum = excluded.checksum";

/// The attempts before and after these of a run.
const SELECT_NEIGHBOURS: &str =
    "SELECT (SELECT max(attempt) FROM attempts WHERE cluster = $1 AND run = $2 AND attempt < $3),
    (SELECT min(attempt) FROM attempts WHERE cluster = $1 AND run = $2 AND attempt > $4)";

const COUNT_ENDS: &str = "SELECT count(*) FROM events
    WHERE cluster = $1 AND run = $2 AND attempt = $3 AND kind = 'end' AND kind <> 'step'";

/// Where an attempt began.
const SELECT_PLACES: &str = "SELECT DISTINCT node, namespace, pod, slurm_job FROM events
    WHERE cluster = $1 AND run = $2 AND attempt = $3 AND kind IN ('start', 'restore') AND kind <> 'step'";

const SELECT_UNJUDGED: &str = "SELECT min(unjudged_ms) FROM events WHERE unjudged_ms IS NOT NULL";

const SELECT_LAST: &str = "SELECT max(seq) FROM events";

const NOTE_JUDGED: &str = "UPDATE events SET unjudged_ms = NULL WHERE unjudged_ms IS NOT NULL AND seq <= $1";

const FORGET: &str = "DELETE FROM events WHERE time_ms < $1";

const FORGET_ATTEMPTS: &str = "DELETE FROM attempts WHERE last_ms < $1";

pub(super) const STATEMENTS: [&str; 17] = [
    SELECT_ONE,
    SELECT_OF_RUN,
    SELECT_OF_ATTEMPTS,
    INSERT,
    SELECT_RUNS,
    SELECT_ATTEMPTS,
    SELECT_ATTEMPT,
    SUM_UP,
    NOTE_ATTEMPT,
    SELECT_NEIGHBOURS,
    COUNT_ENDS,
    SELECT_PLACES,
    SELECT_UNJUDGED,
    SELECT_LAST,
    NOTE_JUDGED,
    FORGET,
    FORGET_ATTEMPTS,
];

pub(super) static TABLE: Table = Table {
    name: "events",
    columns: &[
        "id",
        "time_ms",
        "cluster",
        "run",
        "attempt",
        "rank",
        "kind",
        "step",
        "status",
        "seconds",
        "submitted_ms",
        "node",
        "namespace",
        "pod",
        "slurm_job",
    ],
    key: "rowid",
    has_window: false,
    decode: |row| decode(row).map(drop),
};

pub(super) static ATTEMPTS: Table = Table {
    name: "attempts",
    columns: &["cluster", "run", "attempt", "first_ms", "last_ms", "last_step"],
    key: "hex(cluster) || ' ' || hex(run) || ' ' || hex(attempt)",
    has_window: false,
    decode: |row| progress(row).map(drop),
};

impl Events for Store {
    async fn add_events(&self, events: &[Event]) -> Result<Taken, StoreError> {
        self.shared.check_space()?;
        let shared = &self.shared;
        let mut added = shared.add_events(events).await;
        if let Err(error) = &added
            && shared.heal(error).await
        {
            added = shared.add_events(events).await;
        }
        let added = added.map_err(|error| shared.database.failed(error))?;
        added.map_err(|id| StoreError::Contradicted { id })
    }
}

impl Shared {
    async fn add_events(&self, events: &[Event]) -> sqlx::Result<Result<Taken, String>> {
        let mut transaction = self.database.begin().await?;
        let mut aside = Vec::new();
        let (taken, last) = match add(&mut transaction, events, (self.options.now)(), &mut aside).await? {
            Ok(added) => added,
            Err(id) => return Ok(Err(id)),
        };
        transaction.commit().await?;
        self.note_bad_rows(&aside);
        self.last_event.fetch_max(last.unwrap_or(0), Ordering::AcqRel);
        if taken.stored > 0 {
            self.changes.lock().everywhere();
        }
        Ok(Ok(taken))
    }
}

/// Adds events: what became of them and the last event's number, or the id of one that is there with another content. A
/// stored row that is in the way and bad is set aside.
async fn add(
    connection: &mut SqliteConnection,
    events: &[Event],
    now: TimeMs,
    aside: &mut Vec<BadRow>,
) -> sqlx::Result<Result<(Taken, Option<i64>), String>> {
    let mut reading = Reading::default();
    let mut fresh: BTreeMap<&str, &Event> = BTreeMap::new();
    for event in events {
        let stored = find(connection, &mut reading, &event.id).await?;
        let known = stored.as_ref().or_else(|| fresh.get(event.id.as_str()).copied());
        if known.is_some_and(|known| known != event) {
            return Ok(Err(event.id.clone()));
        }
        if known.is_none() {
            fresh.insert(&event.id, event);
        }
    }
    let fresh: Vec<Event> = events.iter().filter(|e| fresh.remove(e.id.as_str()).is_some()).cloned().collect();
    let unjudged_from_ms = unjudged(connection, &mut reading, &fresh).await?;
    // Before an attempt is summed up by its events.
    clear(connection, &mut reading, now, aside).await?;
    let progress = progress_with(connection, &mut reading, &fresh).await?;
    clear(connection, &mut reading, now, aside).await?;
    for event in &fresh {
        insert(connection, event, unjudged_from_ms).await?;
    }
    for progress in progress {
        note(connection, progress).await?;
    }
    let last: Option<i64> = sqlx::query_scalar(SELECT_LAST).fetch_one(connection).await?;
    Ok(Ok((Taken { stored: fresh.len(), duplicate: events.len() - fresh.len(), unjudged_from_ms }, last)))
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

pub(super) async fn select(
    connection: &mut SqliteConnection,
    reading: &mut Reading,
    window: &Range<TimeMs>,
) -> sqlx::Result<History> {
    let mut history = History::default();
    let runs = sqlx::query(SELECT_RUNS).bind(window.start).bind(window.end).fetch_all(&mut *connection).await?;
    for run in &runs {
        let run = RunId { cluster: run.try_get("cluster")?, name: run.try_get("run")? };
        let query = sqlx::query(SELECT_OF_RUN).bind(&run.cluster).bind(&run.name);
        history.events.extend(reading.all(connection, &TABLE, query, (OF_RUN, &of_run(&run)), decode).await?);
        let query = sqlx::query(SELECT_ATTEMPTS).bind(&run.cluster).bind(&run.name);
        let progress = reading.all(connection, &ATTEMPTS, query, (OF_RUN, &of_run(&run)), progress).await?;
        history.progress.extend(progress);
    }
    Ok(history)
}

/// Sets aside what was left out so far.
async fn clear(
    connection: &mut SqliteConnection,
    reading: &mut Reading,
    now: TimeMs,
    aside: &mut Vec<BadRow>,
) -> sqlx::Result<()> {
    for skipped in std::mem::take(&mut reading.skipped) {
        let found = bad_rows::find(connection, skipped.table, skipped.condition, &skipped.values).await?;
        bad_rows::set_aside(connection, &found.bad, now).await?;
        aside.extend(found.bad);
    }
    Ok(())
}

/// The rows of a run.
const OF_RUN: &str = "cluster = $1 AND run = $2";

fn of_run(run: &RunId) -> [Value<'static>; 2] {
    [run.cluster.clone().into(), run.name.clone().into()]
}

async fn find(connection: &mut SqliteConnection, reading: &mut Reading, id: &str) -> sqlx::Result<Option<Event>> {
    let among = ("id = $1", &[id.to_owned().into()] as &[Value<'static>]);
    let found = reading.all(connection, &TABLE, sqlx::query(SELECT_ONE).bind(id), among, decode).await?;
    Ok(found.into_iter().next())
}

/// From when on verdicts change by the events.
async fn unjudged(
    connection: &mut SqliteConnection,
    reading: &mut Reading,
    fresh: &[Event],
) -> sqlx::Result<Option<TimeMs>> {
    let told: Vec<&Event> = fresh.iter().filter(|event| !matches!(event.what, What::Step { .. })).collect();
    let runs: BTreeSet<&RunId> = told.iter().map(|event| &event.run).collect();
    let mut earliest = None;
    for run in runs {
        let added: Vec<Event> = told.iter().filter(|event| event.run == *run).map(|event| (*event).clone()).collect();
        let before = if loses_nothing(connection, run, &added).await? {
            Vec::new()
        } else {
            around(connection, reading, run, &added).await?
        };
        earliest = earliest.into_iter().chain(unjudged_from(&before, &added)).min();
    }
    Ok(earliest)
}

/// Are the events saves and evaluations alone of the run's last attempt, which goes on, from where it began? Then no loss
/// changes by them, and the attempt's other events need not be read: a run saves often.
async fn loses_nothing(connection: &mut SqliteConnection, run: &RunId, added: &[Event]) -> sqlx::Result<bool> {
    let goes_on = |event: &Event| matches!(event.what, What::Checkpoint { .. } | What::Evaluation { .. });
    let Some(attempt) = added.first().map(|event| event.attempt) else { return Ok(true) };
    if added.iter().any(|event| !goes_on(event) || event.attempt != attempt) {
        return Ok(false);
    }
    let (_, next) = neighbours(connection, run, attempt, attempt).await?;
    let of_attempt = |sql: &'static str| sqlx::query(sql).bind(&run.cluster).bind(&run.name).bind(attempt);
    let ends: i64 = of_attempt(COUNT_ENDS).fetch_one(&mut *connection).await?.try_get(0)?;
    if next.is_some() || ends > 0 {
        return Ok(false);
    }
    let places = of_attempt(SELECT_PLACES).fetch_all(connection).await?;
    let places: BTreeSet<Place> = places.iter().map(place).collect::<sqlx::Result<_>>()?;
    Ok(added.iter().all(|event| places.contains(&event.place)))
}

/// The attempts before and after these of a run.
async fn neighbours(
    connection: &mut SqliteConnection,
    run: &RunId,
    first: u32,
    last: u32,
) -> sqlx::Result<(Option<i64>, Option<i64>)> {
    let query = sqlx::query_as(SELECT_NEIGHBOURS).bind(&run.cluster).bind(&run.name).bind(first).bind(last);
    query.fetch_one(connection).await
}

/// The events of the attempts that were added to, and of those before and after: what an attempt lost depends on the next
/// one, and on no other.
async fn around(
    connection: &mut SqliteConnection,
    reading: &mut Reading,
    run: &RunId,
    added: &[Event],
) -> sqlx::Result<Vec<Event>> {
    let attempts = || added.iter().map(|event| event.attempt);
    let (first, last) = (attempts().min().unwrap_or_default(), attempts().max().unwrap_or_default());
    let (before, after) = neighbours(connection, run, first, last).await?;
    let (first, last) = (before.unwrap_or(first.into()), after.unwrap_or(last.into()));
    let query = sqlx::query(SELECT_OF_ATTEMPTS).bind(&run.cluster).bind(&run.name).bind(first).bind(last);
    reading.all(connection, &TABLE, query, (OF_RUN, &of_run(run)), decode).await
}

/// How far the attempts of the events are with them.
async fn progress_with(
    connection: &mut SqliteConnection,
    reading: &mut Reading,
    fresh: &[Event],
) -> sqlx::Result<Vec<Progress>> {
    let mut attempts: BTreeMap<(&RunId, u32), Progress> = BTreeMap::new();
    for Event { run, attempt, time_ms, what, .. } in fresh {
        let new = (*time_ms, *time_ms, what.step());
        attempts.entry((run, *attempt)).or_insert_with(|| Progress::of(run, *attempt, new)).join(new);
    }
    let mut all = Vec::with_capacity(attempts.len());
    for ((run, attempt), mut known) in attempts {
        let query = |sql: &'static str| sqlx::query(sql).bind(&run.cluster).bind(&run.name).bind(attempt);
        let values = [run.cluster.clone().into(), run.name.clone().into(), attempt.into()];
        let among = ("cluster = $1 AND run = $2 AND attempt = $3", &values as &[Value<'static>]);
        let skipped = reading.skipped.len();
        let stored = reading.all(connection, &ATTEMPTS, query(SELECT_ATTEMPT), among, progress).await?;
        stored.iter().for_each(|p| known.join((p.first_ms, p.last_ms, p.last_step)));
        if reading.skipped.len() > skipped {
            let row = query(SUM_UP).fetch_one(&mut *connection).await?;
            let step: Option<i64> = row.try_get(2)?;
            let times: Option<(TimeMs, TimeMs)> = row.try_get::<Option<_>, _>(0)?.zip(row.try_get::<Option<_>, _>(1)?);
            times.iter().for_each(|(first, last)| known.join((*first, *last, step.map(i64::cast_unsigned))));
        }
        all.push(known);
    }
    Ok(all)
}

impl Progress {
    fn of(run: &RunId, attempt: u32, (first_ms, last_ms, last_step): (TimeMs, TimeMs, Option<u64>)) -> Self {
        Self { run: run.clone(), attempt, first_ms, last_ms, last_step }
    }

    fn join(&mut self, (first_ms, last_ms, last_step): (TimeMs, TimeMs, Option<u64>)) {
        self.first_ms = self.first_ms.min(first_ms);
        self.last_ms = self.last_ms.max(last_ms);
        self.last_step = self.last_step.max(last_step);
    }
}

async fn note(connection: &mut SqliteConnection, progress: Progress) -> sqlx::Result<()> {
    let Progress { run, attempt, first_ms, last_ms, last_step } = progress;
    let values: [Value<'_>; 6] = [
        (&run.cluster).into(),
        (&run.name).into(),
        attempt.into(),
        first_ms.into(),
        last_ms.into(),
        last_step.map(u64::cast_signed).into(),
    ];
    checked::insert(connection, NOTE_ATTEMPT, &values, &[]).await
}

async fn insert(connection: &mut SqliteConnection, event: &Event, unjudged_ms: Option<TimeMs>) -> sqlx::Result<()> {
    let Event { run, what, place, .. } = event;
    let (mut status, mut cost, mut submitted) = (None, None, None);
    match what {
        What::Start { submitted_ms } => submitted = *submitted_ms,
        What::Checkpoint { seconds, .. } => cost = *seconds,
        What::Evaluation { seconds } => cost = Some(*seconds),
        What::End { status: how } => status = Some(how.name()),
        What::Step { .. } | What::Restore { .. } => {}
    }
    let values: [Value<'_>; 15] = [
        (&event.id).into(),
        event.time_ms.into(),
        (&run.cluster).into(),
        (&run.name).into(),
        event.attempt.into(),
        event.rank.into(),
        what.kind().into(),
        what.step().map(u64::cast_signed).into(),
        status.into(),
        cost.into(),
        submitted.into(),
        place.node.as_ref().into(),
        place.namespace.as_ref().into(),
        place.pod.as_ref().into(),
        place.slurm_job.as_ref().into(),
    ];
    let unjudged_ms = unjudged_ms.filter(|_| !matches!(what, What::Step { .. }));
    checked::insert(connection, INSERT, &values, &[unjudged_ms.into()]).await
}

fn progress(row: &SqliteRow) -> sqlx::Result<Progress> {
    Ok(Progress {
        run: RunId { cluster: row.try_get("cluster")?, name: row.try_get("run")? },
        attempt: whole(row, "attempt")?,
        first_ms: row.try_get("first_ms")?,
        last_ms: row.try_get("last_ms")?,
        last_step: row.try_get::<Option<i64>, _>("last_step")?.map(i64::cast_unsigned),
    })
}

fn place(row: &SqliteRow) -> sqlx::Result<Place> {
    Ok(Place {
        node: row.try_get("node")?,
        namespace: row.try_get("namespace")?,
        pod: row.try_get("pod")?,
        slurm_job: row.try_get("slurm_job")?,
    })
}

fn decode(row: &SqliteRow) -> sqlx::Result<Event> {
    Ok(Event {
        id: row.try_get("id")?,
        time_ms: row.try_get("time_ms")?,
        run: RunId { cluster: row.try_get("cluster")?, name: row.try_get("run")? },
        attempt: whole(row, "attempt")?,
        rank: row.try_get::<Option<i64>, _>("rank")?.map(|rank| small("rank", rank)).transpose()?,
        what: what(row)?,
        place: place(row)?,
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
