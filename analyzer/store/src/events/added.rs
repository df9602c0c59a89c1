//! Events that come in: which are new, from when on verdicts change by them, and how far their attempts are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use sqlx::{Row, SqliteConnection};

use super::super::bad_rows::{self, BadRow};
use super::super::checked::{self, Reading, Value};
use super::super::embedded::Shared;
use super::super::{Progress, Taken};
use super::*;

impl Shared {
    pub(super) async fn add_events(&self, events: &[Event]) -> sqlx::Result<Result<Taken, String>> {
        let mut transaction = self.database.begin().await?;
        let mut aside = Vec::new();
        let (taken, last) = match add(&mut transaction, events, (self.options.now)(), &mut aside).await? {
            Ok(added) => added,
            Err(id) => return Ok(Err(id)),
        };
        transaction.commit().await?;
        self.note_bad_rows(&aside);
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
