//! Events that come in: which are new, from when on verdicts change by them, and how far their attempts are.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::Ordering;

use sqlx::SqliteConnection;

use super::super::bad_rows::{self, BadRow};
use super::super::checked::{self, Reading, Value};
use super::super::embedded::Shared;
use super::super::row::Session;
use super::super::{Progress, Taken};
use super::*;

impl Shared {
    pub(super) async fn add_events(&self, events: &[Event]) -> sqlx::Result<Result<Taken, String>> {
        let mut transaction = self.database.begin().await?;
        let mut aside = Aside { now: (self.options.now)(), rows: Vec::new() };
        let (taken, last) = match add(&mut *transaction, events, &mut aside).await? {
            Ok(added) => added,
            Err(id) => return Ok(Err(id)),
        };
        transaction.commit().await?;
        self.note_bad_rows(&aside.rows);
        if let Some(from) = taken.unjudged_from_ms {
            self.arrivals.note_earliest(from);
        }
        self.last_event.fetch_max(last.unwrap_or(0), Ordering::AcqRel);
        if taken.stored > 0 {
            self.changes.lock().everywhere();
        }
        Ok(Ok(taken))
    }
}

/// What becomes of stored rows that are in the way and bad.
pub(crate) trait Clear<S> {
    /// Deals with what was left out so far.
    fn clear(&mut self, connection: &mut S, reading: &mut Reading) -> impl Future<Output = sqlx::Result<()>> + Send;
}

/// Rows that were set aside.
struct Aside {
    now: TimeMs,
    rows: Vec<BadRow>,
}

impl Clear<SqliteConnection> for Aside {
    async fn clear(&mut self, connection: &mut SqliteConnection, reading: &mut Reading) -> sqlx::Result<()> {
        for skipped in std::mem::take(&mut reading.skipped) {
            let found = bad_rows::find(connection, skipped.table, skipped.condition, &skipped.values).await?;
            bad_rows::set_aside(connection, &found.bad, self.now).await?;
            self.rows.extend(found.bad);
        }
        Ok(())
    }
}

/// Adds events: what became of them and the last event's number, or the id of one that is there with another content.
pub(crate) async fn add<S: Session>(
    connection: &mut S,
    events: &[Event],
    bad: &mut impl Clear<S>,
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
    bad.clear(connection, &mut reading).await?;
    let progress = progress_with(connection, &mut reading, &fresh).await?;
    bad.clear(connection, &mut reading).await?;
    for event in &fresh {
        insert(connection, event, unjudged_from_ms).await?;
    }
    for progress in progress {
        note(connection, progress).await?;
    }
    let last: Option<i64> = connection.one(SELECT_LAST, &[]).await?.row().at(0)?;
    Ok(Ok((Taken { stored: fresh.len(), duplicate: events.len() - fresh.len(), unjudged_from_ms }, last)))
}

async fn find(connection: &mut impl Session, reading: &mut Reading, id: &str) -> sqlx::Result<Option<Event>> {
    let among = ("id = $1", &[id.to_owned().into()] as &[Value<'static>]);
    let found = reading.all(connection, &TABLE, SELECT_ONE, among, &[], decode).await?;
    Ok(found.into_iter().next())
}

/// From when on verdicts change by the events.
async fn unjudged(
    connection: &mut impl Session,
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
async fn loses_nothing(connection: &mut impl Session, run: &RunId, added: &[Event]) -> sqlx::Result<bool> {
    let goes_on = |event: &Event| matches!(event.what, What::Checkpoint { .. } | What::Evaluation { .. });
    let Some(attempt) = added.first().map(|event| event.attempt) else { return Ok(true) };
    if added.iter().any(|event| !goes_on(event) || event.attempt != attempt) {
        return Ok(false);
    }
    let (_, next) = neighbours(connection, run, attempt, attempt).await?;
    let values = of_attempt(run, attempt);
    let ends: i64 = connection.one(COUNT_ENDS, &values).await?.row().at(0)?;
    if next.is_some() || ends > 0 {
        return Ok(false);
    }
    let places = connection.all(SELECT_PLACES, &values).await?;
    let places: BTreeSet<Place> = places.iter().map(|found| place(found.row())).collect::<sqlx::Result<_>>()?;
    Ok(added.iter().all(|event| places.contains(&event.place)))
}

/// The attempts before and after these of a run.
async fn neighbours(
    connection: &mut impl Session,
    run: &RunId,
    first: u32,
    last: u32,
) -> sqlx::Result<(Option<i64>, Option<i64>)> {
    let values = [(&run.cluster).into(), (&run.name).into(), first.into(), last.into()];
    let found = connection.one(SELECT_NEIGHBOURS, &values).await?;
    Ok((found.row().at(0)?, found.row().at(1)?))
}

/// The run and the number of an attempt.
fn of_attempt(run: &RunId, attempt: u32) -> [Value<'static>; 3] {
    [run.cluster.clone().into(), run.name.clone().into(), attempt.into()]
}

/// The events of the attempts that were added to, and of those before and after: what an attempt lost depends on the next
/// one, and on no other.
async fn around(
    connection: &mut impl Session,
    reading: &mut Reading,
    run: &RunId,
    added: &[Event],
) -> sqlx::Result<Vec<Event>> {
    let attempts = || added.iter().map(|event| event.attempt);
    let (first, last) = (attempts().min().unwrap_or_default(), attempts().max().unwrap_or_default());
    let (before, after) = neighbours(connection, run, first, last).await?;
    let (first, last) = (before.unwrap_or(first.into()), after.unwrap_or(last.into()));
    let numbers = [first.into(), last.into()];
    reading.all(connection, &TABLE, SELECT_OF_ATTEMPTS, (OF_RUN, &of_run(run)), &numbers, decode).await
}

/// How far the attempts of the events are with them.
async fn progress_with(
    connection: &mut impl Session,
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
        let values = of_attempt(run, attempt);
        let among = ("cluster = $1 AND run = $2 AND attempt = $3", &values as &[Value<'static>]);
        let skipped = reading.skipped.len();
        let stored = reading.all(connection, &ATTEMPTS, SELECT_ATTEMPT, among, &[], progress).await?;
        stored.iter().for_each(|p| known.join((p.first_ms, p.last_ms, p.last_step)));
        if reading.skipped.len() > skipped {
            let found = connection.one(SUM_UP, &values).await?;
            let row = found.row();
            let step: Option<i64> = row.at(2)?;
            let times: Option<(TimeMs, TimeMs)> = row.at::<Option<_>>(0)?.zip(row.at::<Option<_>>(1)?);
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

async fn note(connection: &mut impl Session, progress: Progress) -> sqlx::Result<()> {
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
