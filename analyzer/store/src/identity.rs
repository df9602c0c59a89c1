//! Which data directory this is, and who opened it last: a process whose directory was opened by another one since may
//! commit nothing more, whatever became of its lock.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};

use std::sync::atomic::Ordering;

use sqlx::sqlite::SqliteExecutor;
use sqlx::{SqliteConnection, SqlitePool};
use tracing::warn;

use super::database::Database;

/// Another process has the directory now.
#[derive(Debug)]
struct Superseded;

impl fmt::Display for Superseded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("opened by another goodput-analyzer since")
    }
}

impl std::error::Error for Superseded {}

pub(super) fn superseded() -> sqlx::Error {
    sqlx::Error::Configuration(Box::new(Superseded))
}

pub(super) fn is_superseded(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Configuration(cause) if cause.is::<Superseded>())
}

/// The directory's name for itself, and its generation; none in a new directory.
pub(super) async fn read(connection: impl SqliteExecutor<'_>) -> sqlx::Result<Option<(String, i64)>> {
    sqlx::query_as("SELECT id, generation FROM directory").fetch_optional(connection).await
}

/// As [`read`]. A new directory gets a name by chance.
pub(super) async fn load(write: &SqlitePool) -> sqlx::Result<(String, i64)> {
    if let Some(known) = read(write).await? {
        return Ok(known);
    }
    let name = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
    let sql = "INSERT INTO directory (one, id, generation) VALUES (1, $1, 0)";
    sqlx::query(sql).bind(&name).execute(write).await?;
    Ok((name, 0))
}

impl Database {
    /// Raises the generation, so that a process that opened the directory before commits nothing more. Where nothing can be
    /// written, as on a full disk, it stays, and reading goes on.
    pub(super) async fn raise_generation(&self) {
        let sql = "UPDATE directory SET generation = generation + 1 RETURNING generation";
        let raised = async {
            // The row is there before the statement has ended, and on a full disk its end is what fails.
            let mut transaction = self.write.begin_with("BEGIN IMMEDIATE").await?;
            let raised: i64 = sqlx::query_scalar(sql).fetch_one(&mut *transaction).await?;
            transaction.commit().await?;
            self.generation.store(raised, Ordering::Relaxed);
            // Into the file itself, so that damage of the journal does not take it back.
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.write).await
        };
        if let Err(error) = raised.await {
            warn!(%error, "cannot note in goodput.db that the data directory was opened");
        }
    }
}

pub(super) async fn generation(connection: &mut SqliteConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT generation FROM directory").fetch_one(connection).await
}
