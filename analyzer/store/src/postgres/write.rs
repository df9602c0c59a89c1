//! How results are written: one transaction for each window, whose statements do not grow with its rows.

use std::ops::{AddAssign, Range};

use sqlx::postgres::{PgArguments, PgPool};
use sqlx::{Arguments as _, AssertSqlSafe, Connection as _, PgConnection};

use super::Postgres;
use super::encode::Rows;
use crate::checked::Table;
use crate::columns::IN_WINDOW;
use crate::writer::panicked;
use crate::{StoreError, events};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{DAY_MS, HOUR_MS};

/// A transaction waits for locks for seconds, and no statement of it takes longer than a minute. A process that stops
/// inside of one does not hold its locks for longer.
pub(super) const LIMITS: &str =
    "SELECT set_config('lock_timeout', '5s', TRUE), set_config('statement_timeout', '60s', TRUE),
    set_config('idle_in_transaction_session_timeout', '60s', TRUE)";

/// Writers of one hour take turns: a deletion does not see the rows that another transaction is about to commit. The first number
/// is our own.
const TAKE_TURNS: &str =
    "SELECT pg_advisory_xact_lock(7449, hour::INT) FROM generate_series($1::BIGINT, $2::BIGINT) AS hour";

const MAKE_PARTITIONS: &str = "SELECT goodput_make_partitions($1, $2)";

const DROP_PARTITIONS: &str = "SELECT goodput_drop_partitions($1)";

/// A window may be of several clusters. That it was judged is all that is noted: what is due is not decided here.
const NOTE_WINDOW: &str = "INSERT INTO windows (cluster, start_ms, end_ms, due_ms, done, read_until_ms)
    SELECT cluster, $2::BIGINT, $3::BIGINT, $3::BIGINT, CASE WHEN $4::BIGINT >= $3::BIGINT THEN 1 ELSE 0 END, $4::BIGINT
    FROM unnest($1::TEXT[]) AS of (cluster)
    ON CONFLICT (cluster, start_ms) DO UPDATE SET end_ms = excluded.end_ms,
        read_until_ms = greatest(windows.read_until_ms, excluded.read_until_ms)";

const JUDGED: &str = "SELECT start_ms, min(read_until_ms) FROM windows
    WHERE start_ms >= $1 AND start_ms < $2 AND read_until_ms IS NOT NULL GROUP BY start_ms";

const FORGET_WINDOWS: &str = "DELETE FROM windows WHERE end_ms <= $1";

const NOTE_CHANGED: &str = "INSERT INTO rolled_days (start_ms, state)
    SELECT day, 0 FROM generate_series($1::BIGINT, $2::BIGINT, 86400000) AS day
    ON CONFLICT (start_ms) DO UPDATE SET state = 0";

pub(super) const CLEAR_DAYS: &str = "DELETE FROM days WHERE start_ms >= $1 AND start_ms < $2";

/// The statements of this folder that are not made of columns.
pub(super) const STATEMENTS: [&str; 14] = [
    LIMITS,
    TAKE_TURNS,
    MAKE_PARTITIONS,
    DROP_PARTITIONS,
    NOTE_WINDOW,
    JUDGED,
    FORGET_WINDOWS,
    NOTE_CHANGED,
    CLEAR_DAYS,
    super::days::NEXT,
    super::days::TAKE,
    super::days::END,
    super::SERIES,
    super::NOTE_SERIES,
];

/// Rows that start in a window, whatever their end.
pub(super) const STARTING: &str = "start_ms >= $1 AND start_ms < $2";

/// What is replaced in one table.
#[derive(Debug)]
pub(super) struct Replaced {
    pub(super) table: &'static Table,
    /// Which rows go, in SQL.
    condition: String,
    /// The condition's, before its keys.
    window: Option<Range<TimeMs>>,
    /// Columns of texts, of as many rows each.
    keys: Vec<Vec<Option<String>>>,
    pub(super) rows: Rows,
}

/// How many rows there are, and what they sum up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct Counted {
    /// Rows.
    pub rows: i64,
    /// The sum of their checksums: rows of other values have another.
    pub checksums: i64,
    /// GPU-milliseconds of intervals.
    pub gpu_ms: i64,
    /// Millijoules of intervals.
    pub energy_mj: i64,
}

impl AddAssign for Counted {
    fn add_assign(&mut self, other: Self) {
        self.rows += other.rows;
        self.checksums += other.checksums;
        self.gpu_ms += other.gpu_ms;
        self.energy_mj += other.energy_mj;
    }
}

impl Replaced {
    /// All rows of the window.
    pub(super) fn all(table: &'static Table, window: &Range<TimeMs>) -> Self {
        let (condition, window) = (IN_WINDOW.to_owned(), Some(window.clone()));
        Self { table, condition, window, keys: Vec::new(), rows: Rows::default() }
    }

    /// The rows of the window that have the values of [`Replaced::key`] in these columns.
    pub(super) fn within(table: &'static Table, condition: &str, window: &Range<TimeMs>, columns: &[&str]) -> Self {
        let condition = format!("{condition} AND {}", among(columns, 3));
        let (window, keys) = (Some(window.clone()), vec![Vec::new(); columns.len()]);
        Self { table, condition, window, keys, rows: Rows::default() }
    }

    /// The rows that have the values of [`Replaced::key`] in these columns, at any time.
    pub(super) fn by_key(table: &'static Table, columns: &[&str]) -> Self {
        let (condition, keys) = (among(columns, 1), vec![Vec::new(); columns.len()]);
        Self { table, condition, window: None, keys, rows: Rows::default() }
    }

    /// The rows of these values go.
    pub(super) fn key<'k>(&mut self, values: impl IntoIterator<Item = Option<&'k str>>) {
        self.keys.iter_mut().zip(values).for_each(|(column, value)| column.push(value.map(str::to_owned)));
    }

    /// The same rows, to be counted.
    pub(super) fn keys_alone(&self) -> Self {
        let Self { table, condition, window, keys, .. } = self;
        let (condition, window, keys) = (condition.clone(), window.clone(), keys.clone());
        Self { table, condition, window, keys, rows: Rows::default() }
    }

    fn arguments(&self) -> PgArguments {
        let mut arguments = PgArguments::default();
        // Numbers and texts: nothing that cannot be encoded.
        for time in self.window.iter().flat_map(|window| [window.start, window.end]) {
            let _ = arguments.add(time);
        }
        for keys in &self.keys {
            let _ = arguments.add(keys);
        }
        arguments
    }

    pub(super) fn deletion(&self) -> String {
        format!("DELETE FROM {} AS t WHERE {}", self.table.name, self.condition)
    }

    pub(super) fn counting(&self) -> String {
        let sums = if self.table.name == "intervals" { ["ms", "energy_mj"] } else { ["0", "0"] };
        let [ms, energy] = sums.map(|sum| format!("coalesce(sum({sum}), 0)::BIGINT"));
        let sums = format!("coalesce(sum(checksum), 0)::BIGINT AS checksums, {ms} AS gpu_ms, {energy} AS energy_mj");
        format!("SELECT count(*) AS rows, {sums} FROM {} AS t WHERE {}", self.table.name, self.condition)
    }

    /// Two statements, however many rows there are.
    async fn write(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        sqlx::query_with(AssertSqlSafe(self.deletion()), self.arguments()).execute(&mut *connection).await?;
        copy(connection, self.table, &self.rows).await
    }

    /// What there is of the rows that go.
    pub(super) async fn count(&self, pool: &PgPool) -> sqlx::Result<Counted> {
        sqlx::query_as_with(AssertSqlSafe(self.counting()), self.arguments()).fetch_one(pool).await
    }
}

/// The condition that columns have the values of arrays, which are bound from a place on.
fn among(columns: &[&str], place: usize) -> String {
    let arrays: Vec<String> = (place..).zip(columns).map(|(place, _)| format!("${place}::TEXT[]")).collect();
    let equal = columns.iter().map(|column| match *column {
        "cluster" => "k.cluster IS NOT DISTINCT FROM t.cluster".to_owned(),
        "attempt" | "seq" | "version" => format!("k.{column}::BIGINT = t.{column}"),
        column => format!("k.{column} = t.{column}"),
    });
    let equal = equal.collect::<Vec<_>>().join(" AND ");
    format!("EXISTS (SELECT 1 FROM unnest({}) AS k ({}) WHERE {equal})", arrays.join(", "), columns.join(", "))
}

/// Adds rows to a table.
pub(super) async fn copy(connection: &mut PgConnection, table: &Table, rows: &Rows) -> sqlx::Result<()> {
    let columns: Vec<&str> = columns(table).collect();
    let sql = format!("COPY {} ({}) FROM STDIN (FORMAT binary)", table.name, columns.join(", "));
    let mut copy = connection.copy_in_raw(&sql).await?;
    for piece in rows.pieces() {
        copy.send(piece).await?;
    }
    copy.finish().await.map(drop)
}

/// The columns of a row that is written, in order.
pub(super) fn columns(table: &Table) -> impl Iterator<Item = &'static str> {
    let changing = (table.name == "events").then_some("unjudged_ms");
    table.columns.iter().copied().chain(["checksum"]).chain(changing)
}

/// A window that was judged.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) clusters: Vec<String>,
    pub(super) window: Range<TimeMs>,
    pub(super) until: TimeMs,
}

/// What becomes of a window.
#[derive(Debug)]
pub(super) struct Change {
    /// The rows begin in it; empty where they are not of tables with partitions.
    pub(super) window: Range<TimeMs>,
    pub(super) tables: Vec<Replaced>,
    pub(super) judged: Vec<Judged>,
}

impl Change {
    /// Writes all or nothing. The partitions come first, in a transaction of their own: they stay, and do no harm.
    async fn write(&self, pool: &PgPool) -> sqlx::Result<()> {
        let mut connection = pool.acquire().await?;
        let Range { start, end } = self.window;
        if start < end {
            sqlx::query(MAKE_PARTITIONS).bind(start).bind(end).execute(&mut *connection).await?;
        }
        let mut transaction = connection.begin().await?;
        sqlx::query(LIMITS).execute(&mut *transaction).await?;
        if start < end {
            let (first, last) = (start.div_euclid(HOUR_MS), (end - 1).div_euclid(HOUR_MS));
            sqlx::query(TAKE_TURNS).bind(first).bind(last).execute(&mut *transaction).await?;
        }
        for replaced in &self.tables {
            replaced.write(&mut transaction).await?;
        }
        for Judged { clusters, window, until } in &self.judged {
            let note = sqlx::query(NOTE_WINDOW).bind(clusters).bind(window.start).bind(window.end).bind(until);
            note.execute(&mut *transaction).await?;
        }
        // Last, because other writers of the day wait for it.
        if self.tables.iter().any(|replaced| replaced.table.name == "hours") {
            let (first, last) = (start.div_euclid(DAY_MS) * DAY_MS, end.saturating_sub(1).max(start));
            sqlx::query(NOTE_CHANGED).bind(first).bind(last).execute(&mut *transaction).await?;
            sqlx::query(CLEAR_DAYS).bind(first).bind(last.saturating_add(1)).execute(&mut *transaction).await?;
        }
        transaction.commit().await
    }
}

impl Postgres {
    /// Writes a change in a task that goes on without the caller: a transaction that is cancelled while it begins would be
    /// left open in the pool (sqlx 0.9.0).
    pub(super) async fn write(&self, change: Change) -> Result<(), StoreError> {
        let (pool, window) = (self.pool.clone(), change.window.clone());
        let written = tokio::spawn(async move { change.write(&pool).await }).await;
        self.changes.lock().within(&window);
        written.map_err(panicked)?.map_err(|error| self.failed(error))
    }

    /// The windows that begin in the range and were judged, by their starts, and until when.
    pub(super) async fn judged(&self, range: &Range<TimeMs>) -> Result<Vec<(TimeMs, TimeMs)>, StoreError> {
        let query = sqlx::query_as(JUDGED).bind(range.start).bind(range.end);
        query.fetch_all(&self.pool).await.map_err(|error| self.failed(error))
    }

    /// Drops the verdicts of weeks that ended at or before this, and what jobs reported before it. Roll-ups stay. Returns how
    /// many partitions were dropped.
    pub async fn forget(&self, until: TimeMs) -> Result<i64, StoreError> {
        let pool = self.pool.clone();
        let forgotten = tokio::spawn(async move {
            let mut transaction = pool.begin().await?;
            sqlx::query(LIMITS).execute(&mut *transaction).await?;
            for sql in [events::FORGET_ATTEMPTS, events::FORGET, FORGET_WINDOWS] {
                sqlx::query(sql).bind(until).execute(&mut *transaction).await?;
            }
            let dropped = sqlx::query_scalar(DROP_PARTITIONS).bind(until).fetch_one(&mut *transaction).await?;
            transaction.commit().await?;
            Ok::<i64, sqlx::Error>(dropped)
        });
        self.changes.lock().everywhere();
        forgotten.await.map_err(panicked)?.map_err(|error| self.failed(error))
    }
}
