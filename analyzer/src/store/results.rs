//! Verdicts in SQLite.

use std::ops::Range;
use std::path::Path;

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::database::Database;
use super::options::database_path;
use super::{Results, Store, StoreError, Verdicts};
use crate::classify::{Class, Interval};
use crate::sample::TimeMs;

const INSERT: &str = "INSERT INTO intervals
    (node, start_ms, end_ms, gpu, model, owner, class, ms, confidence, busy_signal, evidence, missing)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

const SELECT: &str = "SELECT node, start_ms, end_ms, gpu, model, owner, class, ms, confidence, busy_signal, evidence,
    missing
    FROM intervals WHERE start_ms >= $1 AND end_ms <= $2 ORDER BY node, gpu, start_ms, class, owner";

impl Results for Store {
    async fn replace(&self, node: &str, window: Range<TimeMs>, intervals: &[Interval]) -> Result<(), StoreError> {
        let outside = |i: &&Interval| i.node != node || i.start_ms < window.start || i.end_ms > window.end;
        if let Some(interval) = intervals.iter().find(outside) {
            return Err(StoreError::OutsideWindow {
                interval: Box::new(interval.clone()),
                node: node.to_owned(),
                window,
            });
        }
        let database = &self.shared.database;
        let stored = async {
            let mut transaction = database.begin().await?;
            sqlx::query("DELETE FROM intervals WHERE node = $1 AND start_ms >= $2 AND end_ms <= $3")
                .bind(node)
                .bind(window.start)
                .bind(window.end)
                .execute(&mut *transaction)
                .await?;
            for interval in intervals {
                insert(&mut transaction, interval).await?;
            }
            transaction.commit().await
        };
        stored.await.map_err(|error| database.failed(error))
    }
}

impl Verdicts for Store {
    async fn intervals(&self, window: Range<TimeMs>) -> Result<Vec<Interval>, StoreError> {
        intervals(&self.shared.database, window).await
    }
}

/// The verdicts of a data directory that another process may be writing to.
pub struct StoredVerdicts(Database);

impl StoredVerdicts {
    /// Opens what is there; a directory without a store is an error.
    pub async fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = database_path(dir);
        std::fs::metadata(&path).map_err(|error| StoreError::Io { path: path.clone(), error })?;
        Ok(Self(Database::open(path).await?))
    }
}

impl Verdicts for StoredVerdicts {
    async fn intervals(&self, window: Range<TimeMs>) -> Result<Vec<Interval>, StoreError> {
        intervals(&self.0, window).await
    }
}

async fn intervals(database: &Database, window: Range<TimeMs>) -> Result<Vec<Interval>, StoreError> {
    let rows = sqlx::query(SELECT).bind(window.start).bind(window.end).fetch_all(&database.read).await;
    let decoded = rows.and_then(|rows| rows.iter().map(decode).collect());
    decoded.map_err(|error| database.failed(error))
}

async fn insert(transaction: &mut sqlx::SqliteConnection, interval: &Interval) -> sqlx::Result<()> {
    // JSON has no NaN; it would be written as null and never be read again.
    if let Some(evidence) = interval.evidence.iter().find(|e| !e.value.is_finite() || !e.threshold.is_finite()) {
        return Err(sqlx::Error::Encode(format!("evidence {} is not a finite number", evidence.signal).into()));
    }
    let evidence = serde_json::to_string(&interval.evidence).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let missing = serde_json::to_string(&interval.missing).map_err(|error| sqlx::Error::Encode(error.into()))?;
    sqlx::query(INSERT)
        .bind(&interval.node)
        .bind(interval.start_ms)
        .bind(interval.end_ms)
        .bind(&interval.gpu)
        .bind(&interval.model)
        .bind(&interval.owner)
        .bind(interval.class.name())
        .bind(interval.ms)
        .bind(interval.confidence)
        .bind(&interval.busy_signal)
        .bind(evidence)
        .bind(missing)
        .execute(transaction)
        .await?;
    Ok(())
}

fn decode(row: &SqliteRow) -> sqlx::Result<Interval> {
    let name: &str = row.try_get("class")?;
    let class = Class::ALL.iter().copied().find(|class| class.name() == name);
    let (evidence, missing): (&str, &str) = (row.try_get("evidence")?, row.try_get("missing")?);
    Ok(Interval {
        gpu: row.try_get("gpu")?,
        node: row.try_get("node")?,
        model: row.try_get("model")?,
        owner: row.try_get("owner")?,
        class: class.ok_or_else(|| sqlx::Error::Decode(format!("unknown class {name}").into()))?,
        start_ms: row.try_get("start_ms")?,
        end_ms: row.try_get("end_ms")?,
        ms: row.try_get("ms")?,
        confidence: row.try_get("confidence")?,
        busy_signal: row.try_get("busy_signal")?,
        evidence: serde_json::from_str(evidence).map_err(|error| sqlx::Error::Decode(error.into()))?,
        missing: serde_json::from_str(missing).map_err(|error| sqlx::Error::Decode(error.into()))?,
    })
}
