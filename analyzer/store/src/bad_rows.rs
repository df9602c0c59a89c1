//! Rows of results and events that cannot be read or do not match their checksum: found, moved to the table `bad_rows`,
//! listed. A row leaves its table in the transaction that writes it to `bad_rows`, and never without it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{AssertSqlSafe, Connection as _, Row as _, SqliteConnection};
use tokio_stream::StreamExt;
use tracing::{error, warn};

use super::checked::{Skipped, Table, Value, is_damage};
use super::columns::{ACHIEVED, ADVISORIES, DAYS, HOURS, INTERVALS, RISKS, STANDINGS};
use super::embedded::Shared;
use super::options::{database_path, wall_clock};
use super::row::Row;
use super::{StoreError, database, days, delivery, events, outbox, ownership, teams};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::HOUR_MS;

/// Every table whose rows have checksums.
pub(super) static TABLES: [&Table; 16] = [
    &INTERVALS.table,
    &ADVISORIES.table,
    &RISKS.table,
    &STANDINGS.table,
    &ACHIEVED.table,
    &delivery::TABLE,
    &events::TABLE,
    &events::ATTEMPTS,
    &HOURS.table,
    &DAYS.table,
    &teams::VERSIONS,
    &teams::TIMES,
    &outbox::MESSAGES,
    &outbox::UNSUBSCRIBED,
    &ownership::EVENTS,
    &ownership::WEEKS,
];

/// After a failure the next attempt to set rows aside, or to make indices again, waits this long.
const RETRY: Duration = Duration::from_secs(60);

/// How long a command waits for the server's transactions.
const BUSY: Duration = Duration::from_secs(30);

/// Windows are an hour at most; a row that says otherwise has lost its window.
const MAX_WINDOW_MS: i64 = HOUR_MS;

/// A row that is not as it was written.
#[derive(Clone, Debug)]
pub(super) struct BadRow {
    table: &'static Table,
    /// The rowid, or the primary key in hexadecimal.
    pub(super) place: String,
    pub(super) reason: String,
    content: String,
    window: Option<Range<TimeMs>>,
}

/// What a search found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) bad: Vec<BadRow>,
    /// A row is sound, but an index shows other values of it.
    index_differs: bool,
}

/// A row that was set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowAside {
    /// The table it was in.
    pub name: String,
    /// Its rowid, or its primary key in hexadecimal.
    pub place: String,
    /// What is wrong with it.
    pub reason: String,
    /// When it was found.
    pub found_ms: TimeMs,
    /// Start of the window that lost it; `None` when it belongs to none, or that is not known.
    pub start_ms: Option<TimeMs>,
    /// End of that window.
    pub end_ms: Option<TimeMs>,
    /// When the window that lost it was judged again.
    pub judged_ms: Option<TimeMs>,
    /// Its values as far as they could be read: a JSON object.
    pub content: String,
}

/// Which of the rows that were set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those whose window was judged again, and those that belong to no window.
    Settled,
    /// All of them.
    All,
}

impl BadRow {
    /// A row that belongs to no window.
    pub(super) fn of(table: &'static Table, place: String, reason: String, content: String) -> Self {
        Self { table, place, reason, content, window: None }
    }

    pub(super) fn describe(&self) -> String {
        format!("row {} of {}: {}", self.place, self.table.name, self.reason)
    }
}

/// The bad rows of a table where a condition holds.
pub(super) async fn find(
    connection: &mut SqliteConnection,
    table: &'static Table,
    condition: &str,
    values: &[Value<'_>],
) -> sqlx::Result<Found> {
    let columns = table.columns.join(", ");
    let select = format!("SELECT {columns}, checksum, CAST({} AS TEXT) AS place FROM {}", table.key, table.name);
    let sql = AssertSqlSafe(format!("{select} WHERE {condition}"));
    let mut candidates = Vec::new();
    {
        let query = values.iter().fold(sqlx::query(sql), |query, value| value.bind(query));
        let mut rows = query.fetch(&mut *connection);
        while let Some(row) = rows.try_next().await? {
            if let Err(reason) = table.check(Row::Sqlite(&row)) {
                candidates.push(bad_row(table, &row, reason)?);
            }
        }
    }
    let mut found = Found::default();
    for candidate in candidates {
        // An index may answer in place of its table: only what the table itself says is the row's fault.
        let sql = AssertSqlSafe(format!("{select} WHERE {}", by_place(table)));
        let row = sqlx::query(sql).bind(&candidate.place).fetch_optional(&mut *connection).await?;
        match row.map(|row| table.check(Row::Sqlite(&row))) {
            Some(Err(reason)) => found.bad.push(BadRow { reason, ..candidate }),
            Some(Ok(())) | None => found.index_differs = true,
        }
    }
    Ok(found)
}

fn by_place(table: &Table) -> String {
    if table.key == "rowid" { "rowid = CAST($1 AS INTEGER)".to_owned() } else { format!("{} = $1", table.key) }
}

fn bad_row(table: &'static Table, row: &SqliteRow, reason: String) -> sqlx::Result<BadRow> {
    let time = |column: &str| row.try_get::<TimeMs, _>(column).ok().filter(|_| table.has_window);
    let window = time("start_ms").zip(time("end_ms")).map(|(start, end)| start..end);
    let is_window = |w: &Range<TimeMs>| w.start >= 0 && (1..=MAX_WINDOW_MS).contains(&w.end.saturating_sub(w.start));
    Ok(BadRow {
        table,
        place: row.try_get("place")?,
        reason,
        content: table.content(Row::Sqlite(row)),
        window: window.filter(is_window),
    })
}

/// Moves rows to `bad_rows`.
pub(super) async fn set_aside(connection: &mut SqliteConnection, rows: &[BadRow], now: TimeMs) -> sqlx::Result<()> {
    for row in rows {
        let sql = "INSERT INTO bad_rows (name, place, reason, content, found_ms, start_ms, end_ms)
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let written = sqlx::query(sql).bind(row.table.name).bind(&row.place).bind(&row.reason).bind(&row.content);
        let (start, end) = (row.window.as_ref().map(|w| w.start), row.window.as_ref().map(|w| w.end));
        written.bind(now).bind(start).bind(end).execute(&mut *connection).await?;
        let sql = AssertSqlSafe(format!("DELETE FROM {} WHERE {}", row.table.name, by_place(row.table)));
        sqlx::query(sql).bind(&row.place).execute(&mut *connection).await?;
    }
    if rows.iter().any(|row| row.table.name == DAYS.table.name) {
        days::note_lost(connection).await?;
    }
    Ok(())
}

/// Every row that was set aside.
pub(super) async fn list(connection: &mut SqliteConnection) -> sqlx::Result<Vec<RowAside>> {
    let sql = "SELECT name, place, reason, found_ms, start_ms, end_ms, judged_ms, content FROM bad_rows
        ORDER BY found_ms, name, place";
    let rows = sqlx::query(sql).fetch_all(connection).await?;
    let decode = |row: &SqliteRow| {
        Ok(RowAside {
            name: row.try_get(0)?,
            place: row.try_get(1)?,
            reason: row.try_get(2)?,
            found_ms: row.try_get(3)?,
            start_ms: row.try_get(4)?,
            end_ms: row.try_get(5)?,
            judged_ms: row.try_get(6)?,
            content: row.try_get(7)?,
        })
    };
    rows.iter().map(decode).collect()
}

/// Removes rows set aside whose window ends at or before this, or that belong to none and were found by then: the rows
/// that they were would be gone too. Returns how many.
pub(super) async fn forget(connection: &mut SqliteConnection, until: TimeMs) -> sqlx::Result<u64> {
    let sql = "DELETE FROM bad_rows WHERE coalesce(end_ms, found_ms) <= $1";
    Ok(sqlx::query(sql).bind(until).execute(connection).await?.rows_affected())
}

async fn remove(connection: &mut SqliteConnection, which: Which) -> sqlx::Result<u64> {
    let sql = match which {
        Which::Settled => "DELETE FROM bad_rows WHERE judged_ms IS NOT NULL OR start_ms IS NULL OR end_ms IS NULL",
        Which::All => "DELETE FROM bad_rows",
    };
    Ok(sqlx::query(sql).execute(connection).await?.rows_affected())
}

/// The rows of a data directory that were set aside. Another process may have it open.
pub async fn bad_rows(dir: &Path) -> Result<Vec<RowAside>, StoreError> {
    let path = database_path(dir);
    let mut connection = database::look_into(&path).await?;
    let rows = list(&mut connection).await;
    connection.close().await.map_err(|error| database::failed(&path, error))?;
    rows.map_err(|error| database::failed(&path, error))
}

/// Sets aside what is bad and still in its table, then removes rows that were set aside. Returns how many were removed.
/// Another process may have the directory open.
pub async fn remove_bad_rows(dir: &Path, which: Which) -> Result<u64, StoreError> {
    let path = database_path(dir);
    let failed = |error| database::failed(&path, error);
    database::look_into(&path).await?.close().await.map_err(failed)?;
    let options = SqliteConnectOptions::new().filename(&path).foreign_keys(true).busy_timeout(BUSY);
    let mut connection = SqliteConnection::connect_with(&options).await.map_err(failed)?;
    let removed = async {
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        for table in TABLES {
            let found = find(&mut transaction, table, "1 = 1", &[]).await?;
            set_aside(&mut transaction, &found.bad, wall_clock()).await?;
        }
        let removed = remove(&mut transaction, which).await?;
        transaction.commit().await?;
        Ok(removed)
    };
    let removed = removed.await.map_err(failed);
    connection.close().await.map_err(failed)?;
    removed
}

impl Shared {
    /// Counts the rows set aside so far, and remembers the windows that lost them.
    pub(super) async fn load_bad_rows(&self) -> sqlx::Result<()> {
        let read = &self.database.read;
        self.count_bad_rows().await?;
        let sql = "SELECT DISTINCT start_ms, end_ms FROM bad_rows
            WHERE start_ms IS NOT NULL AND end_ms IS NOT NULL AND judged_ms IS NULL";
        let windows: Vec<(TimeMs, TimeMs)> = sqlx::query_as(sql).fetch_all(read).await?;
        self.lost.lock().extend(windows);
        Ok(())
    }

    /// Counts the rows set aside; a command or retention may have removed some.
    pub(super) async fn count_bad_rows(&self) -> sqlx::Result<()> {
        let sql = "SELECT count(*) FROM bad_rows";
        let rows: i64 = sqlx::query_scalar(sql).fetch_one(&self.database.read).await?;
        self.totals.lock().bad_rows = rows.cast_unsigned();
        Ok(())
    }

    /// Sets aside what a read left out, and names each row. Where that fails the read goes on without them.
    pub(super) async fn set_bad_rows_aside(&self, skipped: &[Skipped]) {
        for skipped in skipped {
            if !self.may_try(skipped.table.name) {
                continue;
            }
            if let Err(error) = self.sweep(skipped).await {
                let Skipped { table, rows, reason, content, .. } = skipped;
                error!(table = table.name, rows, reason, content, %error, "bad rows are left out and cannot be set aside");
                self.note_failed(table.name);
            }
        }
    }

    async fn sweep(&self, skipped: &Skipped) -> sqlx::Result<()> {
        let table = skipped.table;
        match self.move_bad_rows(skipped).await {
            Ok(false) => Ok(()),
            Err(error) if !is_damage(&error) => Err(error),
            Ok(true) | Err(_) => {
                self.reindex(table).await?;
                self.move_bad_rows(skipped).await.map(drop)
            }
        }
    }

    /// Does an index differ from its table?
    async fn move_bad_rows(&self, skipped: &Skipped) -> sqlx::Result<bool> {
        let mut transaction = self.database.begin().await?;
        let Found { bad, index_differs } =
            find(&mut transaction, skipped.table, skipped.condition, &skipped.values).await?;
        set_aside(&mut transaction, &bad, (self.options.now)()).await?;
        transaction.commit().await?;
        self.note_bad_rows(&bad);
        Ok(index_differs)
    }

    /// Names and counts rows that were set aside.
    pub(super) fn note_bad_rows(&self, bad: &[BadRow]) {
        for row in bad {
            let BadRow { table, place, reason, content, window } = row;
            warn!(table = table.name, row = place, reason, content, "bad row set aside in the table bad_rows");
            self.totals.lock().bad_rows += 1;
            self.lost.lock().extend(window.as_ref().map(|w| (w.start, w.end)));
            self.changes.lock().everywhere();
        }
    }

    async fn reindex(&self, table: &Table) -> sqlx::Result<()> {
        sqlx::query(AssertSqlSafe(format!("REINDEX {}", table.name))).execute(&self.database.write).await?;
        warn!(table = table.name, "an index did not match its table; all indices of the table were made again");
        Ok(())
    }

    /// After SQLite found damage: makes the indices of results again, where the damage may be. Says whether to try again.
    pub(super) async fn heal(&self, error: &sqlx::Error) -> bool {
        const ALL: &str = "indices of results";
        if !is_damage(error) || !self.may_try(ALL) {
            return false;
        }
        self.note_failed(ALL);
        for table in TABLES {
            if let Err(error) = self.reindex(table).await {
                error!(table = table.name, %error, "the database is damaged, and not in an index alone");
                return false;
            }
        }
        true
    }

    fn may_try(&self, what: &'static str) -> bool {
        self.failed.lock().get(what).is_none_or(|failed| failed.elapsed() > RETRY)
    }

    fn note_failed(&self, what: &'static str) {
        self.failed.lock().insert(what, Instant::now());
    }

    /// The windows that lost rows and were not judged again, in order.
    pub(super) fn lost_windows(&self) -> Vec<Range<TimeMs>> {
        self.lost.lock().iter().map(|(start, end)| *start..*end).collect()
    }

    /// A window that lost rows was judged again, or cannot be: then it is named again at the next start.
    pub(super) async fn note_rejudged(&self, window: &Range<TimeMs>, judged: bool) -> sqlx::Result<()> {
        if judged {
            let sql = "UPDATE bad_rows SET judged_ms = $1 WHERE start_ms = $2 AND end_ms = $3 AND judged_ms IS NULL";
            let query = sqlx::query(sql).bind((self.options.now)()).bind(window.start).bind(window.end);
            query.execute(&self.database.write).await?;
        }
        self.lost.lock().remove(&(window.start, window.end));
        Ok(())
    }
}

/// Windows that lost rows: start and end.
pub(super) type Lost = BTreeSet<(TimeMs, TimeMs)>;
