//! How far samples are judged, and the end of old verdicts, in SQLite.

use std::collections::BTreeMap;
use std::ops::Range;

use sqlx::{AssertSqlSafe, SqliteConnection};

use super::checked::is_damage;
use super::columns::DAYS;
use super::database::Database;
use super::{bad_rows, days, events};
use goodput_exposition::sample::TimeMs;

const SELECT: &str = "SELECT seq FROM judged";

const NOTE: &str = "INSERT INTO judged (one, seq) VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET seq = excluded.seq";

const NOTE_FIRST: &str = "INSERT INTO judged (one, seq) VALUES (1, $1) ON CONFLICT (one) DO NOTHING";

const SELECT_WINDOWS: &str = "SELECT start_ms, end_ms FROM windows WHERE start_ms >= $1 AND start_ms < $2";

const NOTE_WINDOW: &str = "INSERT INTO windows (start_ms, end_ms) VALUES ($1, $2)
    ON CONFLICT (start_ms) DO UPDATE SET end_ms = excluded.end_ms";

/// Where verdicts are; each has the time that it is about.
pub(super) const TABLES: [&str; 6] = ["intervals", "advisories", "risks", "standings", "achieved", "hours"];

/// Which windows were judged, and until when.
pub(super) const WINDOWS: &str = "windows";

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

/// Notes that the window that begins then was judged up to `until`.
pub(super) async fn note_window(connection: &mut SqliteConnection, start: TimeMs, until: TimeMs) -> sqlx::Result<()> {
    sqlx::query(NOTE_WINDOW).bind(start).bind(until).execute(connection).await.map(drop)
}

impl Database {
    /// [`note_window`] where the table is sound. Where it is damaged, the stored verdicts say which windows were judged.
    pub(super) async fn note_window_around_damage(&self, start: TimeMs, until: TimeMs) -> sqlx::Result<()> {
        let mut connection = self.write.acquire().await?;
        match note_window(&mut connection, start, until).await {
            Err(error) if !is_damage(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Until when the windows that begin in the range were judged, by their starts; none where the table is damaged.
    pub(super) async fn judged_windows(&self, range: Range<TimeMs>) -> sqlx::Result<BTreeMap<TimeMs, TimeMs>> {
        let query = sqlx::query_as(SELECT_WINDOWS).bind(range.start).bind(range.end);
        match query.fetch_all(&self.read).await {
            Ok(windows) => Ok(windows.into_iter().collect()),
            Err(error) if is_damage(&error) => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        }
    }

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
        for sql in TABLES.into_iter().chain([WINDOWS, DAYS.table.name]).map(forget) {
            let deleted = sqlx::query(AssertSqlSafe(sql)).bind(until).execute(&mut *transaction).await?;
            rows += deleted.rows_affected();
        }
        days::forget(&mut transaction, until).await?;
        rows += bad_rows::forget(&mut transaction, until).await?;
        transaction.commit().await?;
        Ok(rows)
    }
}
