//! How far samples are judged, and the end of old verdicts, in SQLite.

use sqlx::AssertSqlSafe;

use super::database::Database;
use super::{bad_rows, events};
use crate::sample::TimeMs;

const SELECT: &str = "SELECT seq FROM judged";

const NOTE: &str = "INSERT INTO judged (one, seq) VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET seq = excluded.seq";

const NOTE_FIRST: &str = "INSERT INTO judged (one, seq) VALUES (1, $1) ON CONFLICT (one) DO NOTHING";

pub(super) const STATEMENTS: [&str; 3] = [SELECT, NOTE, NOTE_FIRST];

/// Where verdicts are; each has the time that it is about.
pub(super) const TABLES: [&str; 5] = ["intervals", "advisories", "risks", "standings", "achieved"];

/// Removes the verdicts of a table on time that ends at or before a given one.
pub(super) fn forget(table: &str) -> String {
    format!("DELETE FROM {table} WHERE start_ms < $1 AND end_ms <= $1")
}

/// The UTC hours of a table's verdicts that reach over a time this many milliseconds after the full hour.
pub(super) fn across(table: &str) -> String {
    format!(
        "SELECT DISTINCT start_ms - start_ms % 3600000 FROM {table}
        WHERE start_ms % 3600000 < $1 AND start_ms % 3600000 + end_ms - start_ms > $1"
    )
}

impl Database {
    /// See [`across`]; of all tables.
    pub(super) async fn hours_across(&self, into_hour_ms: i64) -> sqlx::Result<Vec<TimeMs>> {
        let mut hours = Vec::new();
        for sql in TABLES.map(across) {
            let found: Vec<TimeMs> =
                sqlx::query_scalar(AssertSqlSafe(sql)).bind(into_hour_ms).fetch_all(&self.read).await?;
            hours.extend(found);
        }
        Ok(hours)
    }

    /// The write-ahead's sequence number up to which samples are judged; none before any are.
    pub(super) async fn judged(&self) -> sqlx::Result<Option<i64>> {
        sqlx::query_scalar(SELECT).fetch_optional(&self.read).await
    }

    pub(super) async fn note_judged(&self, seq: i64) -> sqlx::Result<()> {
        sqlx::query(NOTE).bind(seq).execute(&self.write).await.map(drop)
    }

    /// Notes this one if none was noted before.
    pub(super) async fn note_begun(&self, seq: i64) -> sqlx::Result<()> {
        sqlx::query(NOTE_FIRST).bind(seq).execute(&self.write).await.map(drop)
    }

    /// Removes verdicts on time that ends at or before this, events before it, and rows of that time that were set aside. Returns how many rows.
    pub(super) async fn forget_verdicts(&self, until: TimeMs) -> sqlx::Result<u64> {
        let mut transaction = self.begin().await?;
        let mut rows = events::forget(&mut transaction, until).await?;
        for sql in TABLES.map(forget) {
            let deleted = sqlx::query(AssertSqlSafe(sql)).bind(until).execute(&mut *transaction).await?;
            rows += deleted.rows_affected();
        }
        rows += bad_rows::forget(&mut transaction, until).await?;
        transaction.commit().await?;
        Ok(rows)
    }
}
