//! How the database is opened, and the write-ahead. The catalogue is in `series_rows`. Segments are in `index`, verdicts in `results`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteExecutor, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{Connection, Sqlite, SqliteConnection, Transaction};
use tracing::{error, warn};

use super::StoreError;
use super::catalogue::SeriesId;
use super::checked::is_damage;
use super::{identity, series_rows};
use goodput_exposition::sample::Labels;

mod full;

pub(super) static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");

/// What SQLite's own journal is cut down to once it is in the file, though a long read has made it longer.
const JOURNAL_BYTES: &str = "16777216";

/// Free pages of this many bytes are left in the file: not worth moving.
const SLACK_BYTES: u64 = 1 << 20;

/// Connections that read while another one writes; SQLite's WAL journal lets them run at once.
const READERS: u32 = 4;

pub(super) struct Database {
    path: PathBuf,
    /// The directory's name for itself, which segments carry.
    pub(super) directory: String,
    /// How often the directory was opened: a process that opens it later has a higher one.
    pub(super) generation: AtomicI64,
    /// Has another process opened the directory since?
    superseded: AtomicBool,
    /// See [`writers`].
    pub(super) write: SqlitePool,
    /// For judging, merges and the catalogue.
    pub(super) read: SqlitePool,
    /// For pages and the API, so that long reads of these never keep judging waiting.
    pub(super) pages: SqlitePool,
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
        let identity = identity::load(&write).await.map_err(|error| failed(&path, error))?;
        let readers = |options| SqlitePoolOptions::new().max_connections(READERS).connect_lazy_with(options);
        let options = options.read_only(true);
        let (read, pages) = (readers(options.clone()), readers(options));
        Ok(Self::of(&path, identity, write, read, pages))
    }

    /// With these connections, of a directory of this name and generation.
    fn of(path: &Path, identity: (String, i64), write: SqlitePool, read: SqlitePool, pages: SqlitePool) -> Self {
        let (directory, generation) = identity;
        let (path, generation, superseded) = (path.to_owned(), generation.into(), false.into());
        Self { path, directory, generation, superseded, write, read, pages }
    }

    /// Reads while any other process may have the directory open: one connection in one transaction, so that all that
    /// is read is of one instant. Nothing can be written.
    pub(super) async fn look(path: PathBuf) -> Result<Self, StoreError> {
        look_into(&path).await?.close().await.map_err(|error| failed(&path, error))?;
        // A connection that the pool replaced would begin another transaction, of another instant.
        let read = SqlitePoolOptions::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .after_connect(|connection, _| {
                Box::pin(async move { sqlx::query("BEGIN").execute(connection).await.map(drop) })
            })
            .connect_lazy_with(SqliteConnectOptions::new().filename(&path).read_only(true));
        Ok(Self::of(&path, Default::default(), read.clone(), read.clone(), read))
    }

    pub(super) async fn close(&self) {
        self.pages.close().await;
        self.read.close().await;
        self.write.close().await;
    }

    pub(super) fn failed(&self, error: sqlx::Error) -> StoreError {
        let failed = failed(&self.path, error);
        if matches!(failed, StoreError::Superseded { .. }) && !self.superseded.swap(true, Ordering::Relaxed) {
            error!(%failed, "no further sample is taken");
        }
        failed
    }

    /// An error once another process was found to have opened the directory since.
    pub(super) fn check_owned(&self) -> Result<(), StoreError> {
        if self.superseded.load(Ordering::Relaxed) {
            return Err(StoreError::Superseded { path: self.path.clone() });
        }
        Ok(())
    }

    /// What SQLite finds wrong with its file, if anything.
    pub(super) async fn quick_check(&self) -> sqlx::Result<Option<String>> {
        let lines: Vec<String> = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_all(&self.read).await?;
        Ok(lines.into_iter().find(|line| line != "ok"))
    }

    pub(super) fn generation(&self) -> i64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// A transaction that holds the write lock from its start. An error when another process has opened the directory
    /// since.
    pub(super) async fn begin(&self) -> sqlx::Result<Transaction<'static, Sqlite>> {
        let mut transaction = self.write.begin_with("BEGIN IMMEDIATE").await?;
        let found = identity::generation(&mut transaction).await?;
        if found == self.generation() { Ok(transaction) } else { Err(identity::superseded()) }
    }

    /// Gives free pages back to the file system, except `keep` bytes, which are about to be needed again. Returns how
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

    /// One group commit: new series and the samples. Returns the write-ahead's sequence number.
    pub(super) async fn commit(&self, series: &[(SeriesId, Labels)], samples: &[u8]) -> sqlx::Result<i64> {
        let mut transaction = self.write.begin_with("BEGIN IMMEDIATE").await?;
        series_rows::insert(&mut transaction, series).await?;
        // The generation is checked by the same statement.
        let sql = "INSERT INTO write_ahead (checksum, samples) SELECT $1, $2 FROM directory WHERE generation = $3";
        let written = sqlx::query(sql)
            .bind(crc32fast::hash(samples))
            .bind(samples)
            .bind(self.generation())
            .execute(&mut *transaction)
            .await?;
        if written.rows_affected() == 0 {
            return Err(identity::superseded());
        }
        transaction.commit().await?;
        Ok(written.last_insert_rowid())
    }

    /// Takes series out of the catalogue. Their ids are not given again.
    pub(super) async fn forget_series(&self, gone: &HashSet<SeriesId>) -> sqlx::Result<()> {
        let mut transaction = self.begin().await?;
        for id in gone {
            sqlx::query("DELETE FROM series WHERE id = $1").bind(id.0).execute(&mut *transaction).await?;
        }
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

/// Sequence number, checksum and samples of the first write-ahead row after this one.
pub(super) async fn write_ahead_after(
    connection: impl SqliteExecutor<'_>,
    seq: i64,
) -> sqlx::Result<Option<(i64, u32, Vec<u8>)>> {
    let sql = "SELECT seq, checksum, samples FROM write_ahead WHERE seq > $1 ORDER BY seq LIMIT 1";
    sqlx::query_as(sql).bind(seq).fetch_optional(connection).await
}

/// A connection to read with, while any other process may have the directory open; the file is not changed.
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

/// Files of earlier releases cannot give pages back: they are rewritten, once.
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
        warn!(%error, "goodput.db cannot be compacted; it works as it is, and keeps its size");
    }
}

fn known_version() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// The schema's version; `None` in a file without any. An error when it is newer than this release knows, or when its
/// record of migrations is not what this release, or any before it, wrote.
async fn check_version(connection: &mut SqliteConnection, path: &Path) -> Result<Option<i64>, StoreError> {
    let applied = applied(connection).await.map_err(|error| failed(path, error))?;
    let (found, known) = (applied.iter().map(|row| row.version).max(), known_version());
    if let Some(altered) = found.and_then(|found| altered(&applied, found)) {
        let error = sqlx::Error::from(MigrateError::VersionMismatch(altered));
        return Err(StoreError::DamagedDatabase { path: path.to_owned(), error });
    }
    match found {
        Some(found) if found > known => Err(StoreError::Newer { path: path.to_owned(), found, known }),
        found => Ok(found),
    }
}

/// A row of the record of migrations.
#[derive(sqlx::FromRow)]
struct Applied {
    version: i64,
    success: bool,
    checksum: Vec<u8>,
}

async fn applied(connection: &mut SqliteConnection) -> sqlx::Result<Vec<Applied>> {
    let sql = "SELECT name FROM sqlite_schema WHERE name = '_sqlx_migrations'";
    let migrated: Option<String> = sqlx::query_scalar(sql).fetch_optional(&mut *connection).await?;
    match migrated {
        None => Ok(Vec::new()),
        Some(_) => {
            sqlx::query_as("SELECT version, success, checksum FROM _sqlx_migrations").fetch_all(connection).await
        }
    }
}

/// A migration up to this version that was not applied, or otherwise than this release does; releases only add to them.
fn altered(applied: &[Applied], found: i64) -> Option<i64> {
    let expected = MIGRATIONS.iter().filter(|migration| migration.version <= found);
    let mut missing = expected.filter(|migration| {
        let is_it = |row: &Applied| {
            row.version == migration.version && row.success && row.checksum[..] == migration.checksum[..]
        };
        !applied.iter().any(is_it)
    });
    missing.next().map(|migration| migration.version)
}

pub(super) fn failed(path: &Path, error: sqlx::Error) -> StoreError {
    let path = path.to_owned();
    if identity::is_superseded(&error) {
        return StoreError::Superseded { path };
    }
    // What the store wrote there can be decoded.
    let undecodable = matches!(error, sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. });
    if undecodable || is_damage(&error) {
        StoreError::DamagedDatabase { path, error }
    } else {
        StoreError::Database { path, error }
    }
}

/// Is there no database yet, or one without a table of ours? Changes nothing.
pub(super) async fn is_new(path: &Path) -> Result<bool, StoreError> {
    match std::fs::metadata(path) {
        Ok(file) if file.len() == 0 => return Ok(true),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(StoreError::Io { path: path.to_owned(), error }),
    }
    let options = SqliteConnectOptions::new().filename(path).read_only(true);
    let version = async {
        let mut connection = SqliteConnection::connect_with(&options).await.map_err(|error| failed(path, error))?;
        let version = check_version(&mut connection, path).await?;
        connection.close().await.map_err(|error| failed(path, error))?;
        Ok(version)
    };
    match version.await {
        // Opening without room finds out the rest.
        Err(StoreError::Database { error, .. }) if full::is_it(path, &error) => Ok(false),
        version => Ok(version?.is_none()),
    }
}
