//! Opening the database on a file system without any room: for reading alone, until there is room.
//!
//! SQLite's journal needs two files before it lets anyone read, `goodput.db-wal` and `goodput.db-shm`, and removes both at
//! a clean end. Where these cannot be made and no journal is left, `goodput.db` alone is the whole database and is read
//! as a file that does not change. The first connection that can write ends that.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use sqlx::{Connection as _, SqliteConnection};
use tracing::{error, info};

use super::super::options::free_space;
use super::super::{StoreError, identity};
use super::{Database, READERS, check_version, failed, known_version, writers};

/// SQLite's codes for a file that cannot be made or extended: FULL, CANTOPEN and those of IOERR that are about writing
/// and shared memory.
const NO_ROOM: [&str; 6] = ["13", "14", "778", "4618", "4874", "5386"];

/// Less free space than this is none: SQLite's shared memory alone takes 32 KiB.
const ROOM_BYTES: u64 = 1 << 20;

/// How long a write waits for room: then it is refused, and its sender tries again.
const PATIENCE: Duration = Duration::from_secs(1);

/// Did opening fail because the file system is full?
pub(super) fn is_it(path: &Path, error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    let no_room = code.is_some_and(|code| NO_ROOM.contains(&code.as_ref()));
    no_room && path.parent().and_then(free_space).is_some_and(|free| free < ROOM_BYTES)
}

/// The database for reading; it is written to when there is room.
pub(super) async fn open(
    path: &Path,
    options: SqliteConnectOptions,
    full: sqlx::Error,
) -> Result<Database, StoreError> {
    error!(path = %path.display(), "the disk is full: the data directory is open for reading alone until there is room");
    let journal = path.with_extension("db-wal");
    if !path.try_exists().is_ok_and(|exists| exists) {
        return Err(failed(path, full));
    }
    if std::fs::metadata(journal).is_ok_and(|file| file.len() > 0) {
        return with_journal(path, options).await;
    }
    let frozen = SqliteConnectOptions::new().filename(path).read_only(true).immutable(true);
    let mut connection = SqliteConnection::connect_with(&frozen).await.map_err(|error| failed(path, error))?;
    is_current(&mut connection, path, full).await?;
    let identity = identity::read(&mut connection).await.map_err(|error| failed(path, error))?;
    connection.close().await.map_err(|error| failed(path, error))?;
    let thawed = Arc::<Mutex<Option<Instant>>>::default();
    let since = Arc::clone(&thawed);
    let read = SqlitePoolOptions::new()
        .max_connections(READERS)
        .before_acquire(move |_, connection| {
            // What was opened before the first write sees none of what is written.
            let is_old = since.lock().is_some_and(|thawed| connection.age > thawed.elapsed());
            Box::pin(std::future::ready(Ok(!is_old)))
        })
        .connect_lazy_with(frozen);
    let write = thawing(options.clone(), read.clone(), thawed);
    Ok(Database::of(path, identity.unwrap_or_default(), write, read.clone(), read))
}

/// A journal of an end that was not clean has its files: it is read without the write that otherwise comes with opening.
async fn with_journal(path: &Path, options: SqliteConnectOptions) -> Result<Database, StoreError> {
    let write = writers().connect_with(options.clone()).await.map_err(|error| failed(path, error))?;
    let full = sqlx::Error::Io(std::io::ErrorKind::StorageFull.into());
    is_current(&mut *write.acquire().await.map_err(|error| failed(path, error))?, path, full).await?;
    let identity = identity::read(&write).await.map_err(|error| failed(path, error))?;
    let read = SqlitePoolOptions::new().max_connections(READERS).connect_lazy_with(options.read_only(true));
    Ok(Database::of(path, identity.unwrap_or_default(), write, read.clone(), read))
}

/// The connection for writing. It is asked for again and again; once it can be opened, readers see what it writes.
fn thawing(options: SqliteConnectOptions, read: SqlitePool, thawed: Arc<Mutex<Option<Instant>>>) -> SqlitePool {
    let readable = options.clone().read_only(true);
    let opened = move || {
        let mut thawed = thawed.lock();
        if thawed.is_none() {
            read.set_connect_options(readable.clone());
            *thawed = Some(Instant::now());
            info!("there is room on the disk again: the data directory is open for writing");
        }
    };
    let pool = writers().acquire_timeout(PATIENCE).after_connect(move |_, _| {
        opened();
        Box::pin(std::future::ready(Ok(())))
    });
    pool.connect_lazy_with(options)
}

/// An error unless the schema is this release's: an older one is upgraded at the start, which needs room.
async fn is_current(connection: &mut SqliteConnection, path: &Path, full: sqlx::Error) -> Result<(), StoreError> {
    match check_version(connection, path).await? {
        Some(version) if version == known_version() => Ok(()),
        _ => Err(failed(path, full)),
    }
}
