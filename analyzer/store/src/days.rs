//! The roll-up of days in SQLite: the hours of each node, joined, once a day of UTC is over. Sums over weeks read a 24th
//! of the rows. What changes an hour makes its day one that is not rolled up, in the same transaction; such a day is read
//! hour by hour until it is rolled up again.

use std::ops::Range;
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, SqliteConnection};
use tracing::{error, warn};

use super::checked::{self, Reading};
use super::columns::{DAYS, IN_WINDOW, Stored as _, in_window};
use super::database::Database;
use super::row::Session;
use super::writer::Writer;
use super::{Place, ReadVerdicts as _, Store, StoreError, rollup};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{DAY_MS, RollUp};

/// Between two nodes that are rolled up, so that samples are stored in between.
const PAUSE: Duration = Duration::from_millis(2);

/// How often it is asked whether a day is over, or was changed.
const EVERY: Duration = Duration::from_mins(10);

const CHANGED: &str = "INSERT INTO rolled_days (start_ms, state) VALUES ($1, 0)
    ON CONFLICT (start_ms) DO UPDATE SET state = 0";

const ALL_CHANGED: &str = "UPDATE rolled_days SET state = 0";

const NEXT: &str = "SELECT max(start_ms) FROM rolled_days
    WHERE state < 2 AND start_ms < (SELECT max(start_ms) FROM rolled_days)";

const BEGIN: &str = "UPDATE rolled_days SET state = 1 WHERE start_ms = $1";

const IS_BEGUN: &str = "SELECT count(*) FROM rolled_days WHERE start_ms = $1 AND state = 1";

const CLEAR: &str = "DELETE FROM days WHERE start_ms >= $1 AND start_ms < $2";

const NODES: &str = "SELECT DISTINCT node FROM hours WHERE start_ms >= $1 AND start_ms < $2";

const END: &str = "UPDATE rolled_days SET state = 2 WHERE start_ms = $1 AND state = 1";

const FORGET: &str = "DELETE FROM rolled_days WHERE start_ms <= $1";

const CUT: &str = "UPDATE rolled_days SET state = 0 WHERE start_ms < $1";

const IS_ROLLED: &str = "EXISTS (SELECT 1 FROM rolled_days WHERE rolled_days.start_ms = $3 AND rolled_days.state = 2)";

/// As `statements` of a table: the one that reads a day.
pub(super) fn selection() -> String {
    DAYS.selection_where(IS_ROLLED)
}

/// The day of UTC that a time lies in.
pub(super) fn day_of(time: TimeMs) -> Range<TimeMs> {
    let start = time.div_euclid(DAY_MS) * DAY_MS;
    start..start + DAY_MS
}

/// Notes that hours of a window have changed. What was rolled up of their days goes at once: a damaged state brings no old
/// sums back.
pub(super) async fn note_changed(connection: &mut SqliteConnection, window: &Range<TimeMs>) -> sqlx::Result<()> {
    let mut day = day_of(window.start);
    while day.start < window.end {
        sqlx::query(CHANGED).bind(day.start).execute(&mut *connection).await?;
        sqlx::query(CLEAR).bind(day.start).bind(day.end).execute(&mut *connection).await?;
        day = day.end..day.end + DAY_MS;
    }
    Ok(())
}

/// Notes that a row of a day is gone.
pub(super) async fn note_lost(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    sqlx::query(ALL_CHANGED).execute(connection).await.map(drop)
}

/// Hours that end at or before this are gone, and so are days.
pub(super) async fn forget(connection: &mut SqliteConnection, until: TimeMs) -> sqlx::Result<()> {
    sqlx::query(FORGET).bind(until - DAY_MS).execute(&mut *connection).await?;
    sqlx::query(CUT).bind(until).execute(connection).await.map(drop)
}

/// The roll-up of a day, one of each node; none where it is not rolled up, or cannot be read.
pub(super) async fn rolled(
    connection: &mut impl Session,
    reading: &mut Reading,
    day: &Range<TimeMs>,
) -> sqlx::Result<Option<Vec<RollUp>>> {
    let (sql, more) = (AssertSqlSafe(selection()), [day.start.into()]);
    match reading.all(connection, &DAYS.table, sql, (IN_WINDOW, &in_window(day)), &more, RollUp::read).await {
        Ok(rows) => Ok(Some(rows).filter(|rows| !rows.is_empty() && reading.skipped.is_empty())),
        Err(error) if checked::is_damage(&error) => {
            warn!(%error, "the roll-up of a day cannot be read; its hours are read instead");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The roll-up of the day that a time lies in: one of each node, or what there is of each hour.
pub(super) async fn select(
    connection: &mut SqliteConnection,
    reading: &mut Reading,
    time: TimeMs,
) -> sqlx::Result<Vec<RollUp>> {
    let day = day_of(time);
    match rolled(connection, reading, &day).await? {
        Some(rows) => Ok(rows),
        None => rollup::select(connection, reading, &day, None).await,
    }
}

impl Store {
    /// As [`select`]. Bad days are set aside here, bad hours where hours are read.
    pub(super) async fn rolled_up_day(&self, time: TimeMs) -> Result<Vec<RollUp>, StoreError> {
        let day = day_of(time);
        loop {
            let mut reading = Reading::up_to(self.max_rows);
            let mut connection = self.reader().await?;
            let found = rolled(&mut *connection, &mut reading, &day).await;
            drop(connection);
            match self.end(found, &reading).await? {
                Some(Some(rows)) => return Ok(rows),
                Some(None) => return self.hours(day, None).await,
                None => {}
            }
        }
    }
}

/// The rolling up of days.
#[derive(Debug)]
pub(super) struct RollingDays {
    due: Instant,
    /// The day that was begun, and its nodes that are left.
    begun: Option<(TimeMs, Vec<String>)>,
}

impl RollingDays {
    pub(super) fn new() -> Self {
        Self { due: Instant::now(), begun: None }
    }

    /// When there is something to do.
    pub(super) async fn due(&self) {
        tokio::time::sleep_until(self.due.into()).await;
    }

    /// Rolls up a node, or finds the next day. Is there more to do now?
    async fn step(&mut self, database: &Database) -> sqlx::Result<bool> {
        let Some((day, nodes)) = &mut self.begun else {
            self.begun = database.begin_day().await?;
            return Ok(self.begun.is_some());
        };
        match nodes.pop() {
            Some(node) => database.join_hours(*day, &node).await?,
            None => {
                let day = *day;
                self.begun = None;
                return database.end_day(day).await;
            }
        }
        Ok(true)
    }
}

impl Database {
    /// [`note_changed`] where the tables are sound. What cannot be noted cannot be read either: hours are read instead.
    pub(super) async fn note_changed_around_damage(&self, window: &Range<TimeMs>) -> Result<(), StoreError> {
        let noted = async {
            let mut connection = self.write.acquire().await?;
            note_changed(&mut connection, window).await
        };
        match noted.await {
            Err(error) if !checked::is_damage(&error) => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    /// Begins the newest day that is over and not rolled up, with its nodes.
    pub(super) async fn begin_day(&self) -> sqlx::Result<Option<(TimeMs, Vec<String>)>> {
        // Most of the time there is none: no transaction for that.
        let next: Option<TimeMs> = sqlx::query_scalar(NEXT).fetch_one(&self.read).await?;
        let Some(day) = next.map(day_of) else { return Ok(None) };
        let mut transaction = self.begin().await?;
        sqlx::query(BEGIN).bind(day.start).execute(&mut *transaction).await?;
        sqlx::query(CLEAR).bind(day.start).bind(day.end).execute(&mut *transaction).await?;
        let nodes = sqlx::query_scalar(NODES).bind(day.start).bind(day.end).fetch_all(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(Some((day.start, nodes)))
    }

    /// False where an hour of it was changed since it began: more of them may come soon.
    pub(super) async fn end_day(&self, day: TimeMs) -> sqlx::Result<bool> {
        let mut transaction = self.begin().await?;
        let ended = sqlx::query(END).bind(day).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(ended.rows_affected() > 0)
    }

    /// Joins the hours of a node, which may be one of several clusters, unless an hour was changed since the day was begun. A
    /// day with a bad row is not rolled up: who reads its hours has the row made again.
    pub(super) async fn join_hours(&self, day: TimeMs, node: &str) -> sqlx::Result<()> {
        let day = day_of(day);
        let mut transaction = self.begin().await?;
        let begun: i64 = sqlx::query_scalar(IS_BEGUN).bind(day.start).fetch_one(&mut *transaction).await?;
        if begun == 0 {
            return Ok(());
        }
        let mut reading = Reading::default();
        let mut hours = rollup::select(&mut transaction, &mut reading, &day, Some(node)).await?;
        if !reading.skipped.is_empty() {
            reading.warn();
            note_changed(&mut transaction, &day).await?;
            return transaction.commit().await;
        }
        hours.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        for of_cluster in hours.chunk_by(|a, b| a.cluster == b.cluster) {
            let Some(joined) = RollUp::joined(of_cluster.to_vec()) else { continue };
            let place = Place::new(&joined.cluster, node);
            DAYS.replace(&mut transaction, &day, Some(place), std::slice::from_ref(&joined)).await?;
        }
        transaction.commit().await
    }
}

impl Writer {
    /// Goes on with rolling up days. After a failure it is tried again later; until then they are read hour by hour.
    pub(super) async fn roll_up_days(&mut self) {
        match self.roll_up_step().await {
            Ok(more) => self.days.due = Instant::now() + if more { PAUSE } else { EVERY },
            Err(error) => {
                self.days = RollingDays { due: Instant::now() + EVERY, begun: None };
                let is_damage = checked::is_damage(&error);
                error!(%error, is_damage, "cannot roll up days; it is tried again in ten minutes");
            }
        }
    }

    /// Days that are over are rolled up now; what was begun is begun again.
    pub(super) async fn roll_up_all_days(&mut self) -> Result<(), StoreError> {
        self.days.begun = None;
        loop {
            match self.roll_up_step().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Err(self.shared.database.failed(error)),
            }
        }
        self.days.due = Instant::now() + EVERY;
        Ok(())
    }

    /// Hours of an earlier release are rolled up first.
    async fn roll_up_step(&mut self) -> sqlx::Result<bool> {
        if self.rolling.is_some() {
            return Ok(false);
        }
        self.days.step(&self.shared.database).await
    }
}
