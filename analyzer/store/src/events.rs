//! Events of jobs.

mod added;
#[cfg(test)]
mod tests;

use std::ops::Range;

use sqlx::SqliteConnection;

use super::checked::{self, Reading, Table, Value};
use super::database::Database;
use super::row::{Row, Session, small, unknown};
use super::writer::panicked;
use super::{Events, History, Progress, Store, StoreError, Taken};
pub(super) use added::{Clear, add};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::event::{Event, Place, RunId, Status, What, unjudged_from};

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

pub(super) const FORGET: &str = "DELETE FROM events WHERE time_ms < $1";

pub(super) const FORGET_ATTEMPTS: &str = "DELETE FROM attempts WHERE last_ms < $1";

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
    connection: &mut impl Session,
    reading: &mut Reading,
    window: &Range<TimeMs>,
) -> sqlx::Result<History> {
    let mut history = History::default();
    for run in connection.all(SELECT_RUNS, &[window.start.into(), window.end.into()]).await? {
        let run = RunId { cluster: run.row().get("cluster")?, name: run.row().get("run")? };
        let among = (OF_RUN, &of_run(&run) as &[Value<'static>]);
        history.events.extend(reading.all(connection, &TABLE, SELECT_OF_RUN, among, &[], decode).await?);
        history.progress.extend(reading.all(connection, &ATTEMPTS, SELECT_ATTEMPTS, among, &[], progress).await?);
    }
    Ok(history)
}

/// The rows of a run.
const OF_RUN: &str = "cluster = $1 AND run = $2";

fn of_run(run: &RunId) -> [Value<'static>; 2] {
    [run.cluster.clone().into(), run.name.clone().into()]
}

async fn insert(connection: &mut impl Session, event: &Event, unjudged_ms: Option<TimeMs>) -> sqlx::Result<()> {
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

fn progress(row: Row<'_>) -> sqlx::Result<Progress> {
    Ok(Progress {
        run: RunId { cluster: row.get("cluster")?, name: row.get("run")? },
        attempt: row.small("attempt")?,
        first_ms: row.get("first_ms")?,
        last_ms: row.get("last_ms")?,
        last_step: row.get::<Option<i64>>("last_step")?.map(i64::cast_unsigned),
    })
}

fn place(row: Row<'_>) -> sqlx::Result<Place> {
    Ok(Place {
        node: row.get("node")?,
        namespace: row.get("namespace")?,
        pod: row.get("pod")?,
        slurm_job: row.get("slurm_job")?,
    })
}

fn decode(row: Row<'_>) -> sqlx::Result<Event> {
    Ok(Event {
        id: row.get("id")?,
        time_ms: row.get("time_ms")?,
        run: RunId { cluster: row.get("cluster")?, name: row.get("run")? },
        attempt: row.small("attempt")?,
        rank: row.get::<Option<i64>>("rank")?.map(|rank| small("rank", rank)).transpose()?,
        what: what(row)?,
        place: place(row)?,
    })
}

fn what(row: Row<'_>) -> sqlx::Result<What> {
    let step = || row.get::<i64>("step").map(i64::cast_unsigned);
    Ok(match row.get::<&str>("kind")? {
        "start" => What::Start { submitted_ms: row.get("submitted_ms")? },
        "step" => What::Step { step: step()? },
        "checkpoint" => What::Checkpoint { step: step()?, seconds: row.get("seconds")? },
        "evaluation" => What::Evaluation { seconds: row.get("seconds")? },
        "restore" => What::Restore { step: step()? },
        "end" => {
            let name: &str = row.get("status")?;
            let status = Status::ALL.iter().copied().find(|status| status.name() == name);
            What::End { status: status.ok_or_else(|| unknown("status", name))? }
        }
        kind => return Err(unknown("kind", kind)),
    })
}
