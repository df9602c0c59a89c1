//! Every SQL statement for samples, and how the database is opened. Verdicts are in `results`.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteExecutor, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteRow, SqliteSynchronous,
};
use sqlx::{Connection, QueryBuilder, Row, Sqlite, SqliteConnection, Transaction};
use tracing::warn;

use super::StoreError;
use super::catalogue::SeriesId;
use super::segment::RowGroup;
use super::segments::Segment;
use crate::sample::{Labels, TimeMs};

mod full;

pub(super) static MIGRATIONS: Migrator = sqlx::migrate!("../migrations/sqlite");

/// What SQLite's own journal is cut down to once it is in the file, though a long read has made it longer.
const JOURNAL_BYTES: &str = "16777216";

/// Free pages of so many bytes are left in the file: not worth to be moved.
const SLACK_BYTES: u64 = 1 << 20;

/// Connections that read beside the one that writes; SQLite's WAL journal lets them run at once.
const READERS: u32 = 4;

/// Series of a statement: two values each, of the 32,766 that SQLite takes at most (SQLITE_MAX_VARIABLE_NUMBER).
const SERIES_AT_ONCE: usize = 1000;

pub(super) struct Database {
    path: PathBuf,
    /// See [`writers`].
    pub(super) write: SqlitePool,
    pub(super) read: SqlitePool,
}

impl Database {
    /// Opens or creates the file and brings its schema up to date.
    pub(super) async fn open(path: PathBuf) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .pragma("journal_size_limit", JOURNAL_BYTES)
            .busy_timeout(Duration::from_secs(5));
        let connected = writers().connect_with(options.clone().auto_vacuum(SqliteAutoVacuum::Incremental)).await;
        let write = match connected {
            Ok(write) => write,
            Err(error) if full::is_it(&path, &error) => return full::open(&path, options, error).await,
            Err(error) => return Err(failed(&path, error)),
        };
        migrate(&write, &path).await?;
        make_shrinkable(&write).await;
        let read = SqlitePoolOptions::new().max_connections(READERS).connect_lazy_with(options.read_only(true));
        Ok(Self { path, write, read })
    }

    /// Reads beside whatever process has the directory: one connection in one transaction, so that all that is read is of
    /// one instant. Nothing can be written.
    pub(super) async fn look(path: PathBuf) -> Result<Self, StoreError> {
        look_into(&path).await?.close().await.map_err(|error| failed(&path, error))?;
        let read = SqlitePoolOptions::new()
            .max_connections(1)
            .after_connect(|connection, _| {
                Box::pin(async move { sqlx::query("BEGIN").execute(connection).await.map(drop) })
            })
            .connect_lazy_with(SqliteConnectOptions::new().filename(&path).read_only(true));
        Ok(Self { path, write: read.clone(), read })
    }

    pub(super) async fn close(&self) {
        self.read.close().await;
        self.write.close().await;
    }

    pub(super) fn failed(&self, error: sqlx::Error) -> StoreError {
        failed(&self.path, error)
    }

    /// A transaction that holds the write lock from its start.
    pub(super) async fn begin(&self) -> sqlx::Result<Transaction<'static, Sqlite>> {
        self.write.begin_with("BEGIN IMMEDIATE").await
    }

    /// Gives free pages back to the file system, but for so many bytes, which are about to be needed again. Returns how
    /// many bytes.
    pub(super) async fn give_back(&self, keep: u64) -> sqlx::Result<u64> {
        let mut connection = self.write.acquire().await?;
        let page: i64 = sqlx::query_scalar("PRAGMA page_size").fetch_one(&mut *connection).await?;
        let free: i64 = sqlx::query_scalar("PRAGMA freelist_count").fetch_one(&mut *connection).await?;
        let (page, free) = (page.cast_unsigned(), free.cast_unsigned());
        let surplus = (free * page).saturating_sub(keep);
        if surplus < SLACK_BYTES {
            return Ok(0);
        }
        let sql = format!("PRAGMA incremental_vacuum({})", surplus / page);
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut *connection).await?;
        // The file is cut when the journal is in it. As far as that goes without waiting for readers.
        sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut *connection).await?;
        Ok(surplus)
    }

    /// The id that the next series gets.
    pub(super) async fn next_series(&self) -> sqlx::Result<u32> {
        let last: Option<i64> = sqlx::query_scalar("SELECT seq FROM sqlite_sequence WHERE name = 'series'")
            .fetch_optional(&self.read)
            .await?;
        u32::try_from(last.unwrap_or(0) + 1).map_err(|error| sqlx::Error::Decode(error.into()))
    }

    pub(super) async fn series(&self) -> sqlx::Result<Vec<(SeriesId, Labels)>> {
        series(&mut *self.read.acquire().await?).await
    }

    pub(super) async fn segments(&self) -> sqlx::Result<Vec<Segment>> {
        segments(&mut *self.read.acquire().await?).await
    }

    pub(super) async fn quarantined(&self) -> sqlx::Result<u64> {
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM quarantine").fetch_one(&self.read).await?;
        Ok(count.cast_unsigned())
    }

    /// One group commit: new series and the samples. Returns the write-ahead's sequence number.
    pub(super) async fn commit(&self, series: &[(SeriesId, Labels)], samples: &[u8]) -> sqlx::Result<i64> {
        let mut transaction = self.begin().await?;
        // A statement is a way to the connection's thread and back, which costs more than the row.
        for series in series.chunks(SERIES_AT_ONCE) {
            let mut insert = QueryBuilder::new("INSERT INTO series (id, labels) ");
            let rows = series.iter().map(|(id, labels)| Ok((id.0, json(labels)?))).collect::<sqlx::Result<Vec<_>>>()?;
            insert.push_values(rows, |mut row, (id, labels)| {
                row.push_bind(id).push_bind(labels);
            });
            insert.build().persistent(false).execute(&mut *transaction).await?;
        }
        let written = sqlx::query("INSERT INTO write_ahead (checksum, samples) VALUES ($1, $2)")
            .bind(crc32fast::hash(samples))
            .bind(samples)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(written.last_insert_rowid())
    }

    /// The last step of a flush: the segment exists and the write-ahead that it holds does not, or neither.
    pub(super) async fn commit_segment(&self, segment: &Segment) -> sqlx::Result<()> {
        let mut transaction = self.begin().await?;
        insert_segment(&mut transaction, segment).await?;
        sqlx::query("DELETE FROM write_ahead WHERE seq <= $1").bind(segment.seq).execute(&mut *transaction).await?;
        transaction.commit().await
    }

    /// The last step of a merge, or of a removal, which has no new segments and says before when samples are missing now.
    pub(super) async fn replace_segments(
        &self,
        old: &[Arc<Segment>],
        new: &[Segment],
        raw_from: Option<TimeMs>,
    ) -> sqlx::Result<()> {
        let mut transaction = self.begin().await?;
        for segment in new {
            insert_segment(&mut transaction, segment).await?;
        }
        for segment in old {
            sqlx::query("DELETE FROM segments WHERE id = $1").bind(segment.id).execute(&mut *transaction).await?;
        }
        // The row is written in any case, so that even without segments there is a commit.
        let sql = "UPDATE upkeep SET raw_from_ms = coalesce(max(coalesce(raw_from_ms, $1), $1), raw_from_ms)";
        sqlx::query(sql).bind(raw_from).execute(&mut *transaction).await?;
        transaction.commit().await
    }

    /// The highest id that a segment ever had, and since when samples have not been removed.
    pub(super) async fn upkeep(&self) -> sqlx::Result<(i64, Option<TimeMs>)> {
        sqlx::query_as("SELECT last_segment, raw_from_ms FROM upkeep").fetch_one(&self.read).await
    }

    /// Takes series out of the catalogue. Their ids are not given again.
    pub(super) async fn forget_series(&self, gone: &HashSet<SeriesId>) -> sqlx::Result<()> {
        let mut transaction = self.begin().await?;
        for id in gone {
            sqlx::query("DELETE FROM series WHERE id = $1").bind(id.0).execute(&mut *transaction).await?;
        }
        transaction.commit().await
    }

    /// Takes a bad segment or write-ahead row out of the index and notes it.
    pub(super) async fn quarantine(&self, bad: Bad<'_>, now: TimeMs) -> sqlx::Result<()> {
        let mut transaction = self.begin().await?;
        let sql = match bad.kind {
            Kind::Segment => "DELETE FROM segments WHERE id = $1",
            Kind::WriteAhead => "DELETE FROM write_ahead WHERE seq = $1",
        };
        sqlx::query(sql).bind(bad.id).execute(&mut *transaction).await?;
        sqlx::query("INSERT INTO quarantine (name, reason, found_ms) VALUES ($1, $2, $3)")
            .bind(bad.name)
            .bind(bad.reason)
            .bind(now)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await
    }
}

/// One connection: SQLite takes one writer at a time, and waiting for the connection is fair.
fn writers() -> SqlitePoolOptions {
    // On some errors (a full disk) SQLite rolls back by itself; sqlx then believes for ever that the connection is
    // in a transaction, and it can begin no other. The pool's ping, which comes first, waits for sqlx' rollback.
    let usable = |connection: &mut SqliteConnection| !connection.is_in_transaction();
    SqlitePoolOptions::new()
        .max_connections(1)
        .test_before_acquire(true)
        .before_acquire(move |connection, _| Box::pin(std::future::ready(Ok(usable(connection)))))
}

/// Labels as they are stored.
fn json(labels: &Labels) -> sqlx::Result<String> {
    let pairs: BTreeMap<_, _> = labels.iter().collect();
    serde_json::to_string(&pairs).map_err(|error| sqlx::Error::Encode(error.into()))
}

/// Every series, in order of id.
pub(super) async fn series(connection: &mut SqliteConnection) -> sqlx::Result<Vec<(SeriesId, Labels)>> {
    let rows = sqlx::query("SELECT id, labels FROM series ORDER BY id").fetch_all(connection).await?;
    let decode = |row: &SqliteRow| {
        let pairs: BTreeMap<String, String> =
            serde_json::from_str(row.try_get("labels")?).map_err(|error| sqlx::Error::Decode(error.into()))?;
        Ok((SeriesId(row.try_get("id")?), Labels::new(pairs)))
    };
    rows.iter().map(decode).collect()
}

/// The segment index.
pub(super) async fn segments(connection: &mut SqliteConnection) -> sqlx::Result<Vec<Segment>> {
    let sql = "SELECT id, seq, bytes, checksum, first_ms, last_ms FROM segments ORDER BY id";
    let rows = sqlx::query(sql).fetch_all(&mut *connection).await?;
    let mut segments = Vec::with_capacity(rows.len());
    for row in rows {
        let id = row.try_get("id")?;
        segments.push(Segment {
            id,
            seq: row.try_get("seq")?,
            bytes: row.try_get::<i64, _>("bytes")?.cast_unsigned(),
            checksum: row.try_get("checksum")?,
            first_ms: row.try_get("first_ms")?,
            last_ms: row.try_get("last_ms")?,
            groups: row_groups(connection, id).await?,
            retired: OnceLock::new(),
            held: OnceLock::new(),
        });
    }
    Ok(segments)
}

async fn row_groups(connection: &mut SqliteConnection, segment: i64) -> sqlx::Result<Vec<RowGroup>> {
    let sql = "SELECT first_row, rows, first_series, last_series, first_ms, last_ms
        FROM row_groups WHERE segment = $1 ORDER BY first_row";
    let rows = sqlx::query(sql).bind(segment).fetch_all(connection).await?;
    let decode = |row: &SqliteRow| {
        Ok(RowGroup {
            first_row: row.try_get::<u32, _>("first_row")? as usize,
            rows: row.try_get::<u32, _>("rows")? as usize,
            first_series: SeriesId(row.try_get("first_series")?),
            last_series: SeriesId(row.try_get("last_series")?),
            first_ms: row.try_get("first_ms")?,
            last_ms: row.try_get("last_ms")?,
        })
    };
    rows.iter().map(decode).collect()
}

/// Sequence number, checksum and samples of the first write-ahead row after this one.
pub(super) async fn write_ahead_after(
    connection: impl SqliteExecutor<'_>,
    seq: i64,
) -> sqlx::Result<Option<(i64, u32, Vec<u8>)>> {
    let sql = "SELECT seq, checksum, samples FROM write_ahead WHERE seq > $1 ORDER BY seq LIMIT 1";
    sqlx::query_as(sql).bind(seq).fetch_optional(connection).await
}

async fn insert_segment(transaction: &mut SqliteConnection, segment: &Segment) -> sqlx::Result<()> {
    let sql = "INSERT INTO segments (id, seq, rows, bytes, checksum, first_ms, last_ms)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    sqlx::query(sql)
        .bind(segment.id)
        .bind(segment.seq)
        .bind(segment.rows() as i64)
        .bind(segment.bytes.cast_signed())
        .bind(segment.checksum)
        .bind(segment.first_ms)
        .bind(segment.last_ms)
        .execute(&mut *transaction)
        .await?;
    let sql = "INSERT INTO row_groups (segment, first_row, rows, first_series, last_series, first_ms, last_ms)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    for group in &segment.groups {
        sqlx::query(sql)
            .bind(segment.id)
            .bind(group.first_row as i64)
            .bind(group.rows as i64)
            .bind(group.first_series.0)
            .bind(group.last_series.0)
            .bind(group.first_ms)
            .bind(group.last_ms)
            .execute(&mut *transaction)
            .await?;
    }
    let sql = "UPDATE upkeep SET last_segment = max(last_segment, $1)";
    sqlx::query(sql).bind(segment.id).execute(transaction).await?;
    Ok(())
}

/// What holds samples that cannot be read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Segment,
    WriteAhead,
}

/// Something to quarantine.
pub(super) struct Bad<'a> {
    pub(super) kind: Kind,
    pub(super) id: i64,
    /// Its file's name in `quarantine/`.
    pub(super) name: &'a str,
    pub(super) reason: &'a str,
}

/// A connection to read with, beside whatever process has the directory; the file is not changed.
pub(super) async fn look_into(path: &Path) -> Result<SqliteConnection, StoreError> {
    let options = SqliteConnectOptions::new().filename(path).read_only(true);
    let mut connection = SqliteConnection::connect_with(&options).await.map_err(|error| failed(path, error))?;
    let known = known_version();
    match check_version(&mut connection, path).await? {
        Some(found) if found < known => Err(StoreError::Older { path: path.to_owned(), found, known }),
        _ => Ok(connection),
    }
}

async fn migrate(pool: &SqlitePool, path: &Path) -> Result<(), StoreError> {
    let mut connection = pool.acquire().await.map_err(|error| failed(path, error))?;
    check_version(&mut connection, path).await?;
    MIGRATIONS.run(&mut *connection).await.map_err(|error| failed(path, error.into()))
}

/// Files of earlier releases cannot give pages back: they are written anew, once.
async fn make_shrinkable(pool: &SqlitePool) {
    let made = async {
        let mode: i64 = sqlx::query_scalar("PRAGMA auto_vacuum").fetch_one(pool).await?;
        // 2 is incremental, which is asked for with every connection and holds from the next VACUUM on.
        if mode != 2 {
            sqlx::query("VACUUM").execute(pool).await?;
        }
        Ok::<_, sqlx::Error>(())
    };
    if let Err(error) = made.await {
        warn!(%error, "goodput.db cannot be written anew; it works as it is, and stays as large as it ever was");
    }
}

fn known_version() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// The schema's version; `None` in a file without any. An error when it is newer than this release knows.
async fn check_version(connection: &mut SqliteConnection, path: &Path) -> Result<Option<i64>, StoreError> {
    let known = known_version();
    let found = async {
        let sql = "SELECT name FROM sqlite_schema WHERE name = '_sqlx_migrations'";
        let migrated: Option<String> = sqlx::query_scalar(sql).fetch_optional(&mut *connection).await?;
        match migrated {
            None => Ok(None),
            Some(_) => sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations").fetch_one(connection).await,
        }
    };
    let found: Option<i64> = found.await.map_err(|error| failed(path, error))?;
    match found {
        Some(found) if found > known => Err(StoreError::Newer { path: path.to_owned(), found, known }),
        found => Ok(found),
    }
}

pub(super) fn failed(path: &Path, error: sqlx::Error) -> StoreError {
    StoreError::Database { path: path.to_owned(), error }
}
