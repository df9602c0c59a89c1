//! What destinations have of scheduled reports, in SQLite.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{Store, StoreError};
use crate::deliver::Delivered;

const SELECT: &str = "SELECT version, destination, digest, time_ms FROM deliveries WHERE week = $1
    ORDER BY version, destination";

const INSERT: &str = "INSERT INTO deliveries (week, version, destination, digest, time_ms) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT DO NOTHING";

pub(super) const STATEMENTS: [&str; 2] = [SELECT, INSERT];

impl Store {
    /// What destinations have of this ISO week.
    pub async fn deliveries(&self, week: &str) -> Result<Vec<Delivered>, StoreError> {
        let database = &self.shared.database;
        let rows = sqlx::query(SELECT).bind(week).fetch_all(&database.read).await;
        let rows = rows.and_then(|rows| rows.iter().map(decode).collect());
        rows.map_err(|error| database.failed(error))
    }

    /// Notes what a destination has now. The same once more changes nothing.
    pub async fn note_delivery(&self, week: &str, row: &Delivered) -> Result<(), StoreError> {
        let database = &self.shared.database;
        let stored = async {
            let mut transaction = database.begin().await?;
            sqlx::query(INSERT)
                .bind(week)
                .bind(row.version)
                .bind(&row.destination)
                .bind(row.digest)
                .bind(row.time_ms)
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await
        };
        stored.await.map_err(|error| database.failed(error))
    }
}

fn decode(row: &SqliteRow) -> sqlx::Result<Delivered> {
    Ok(Delivered {
        version: row.try_get("version")?,
        destination: row.try_get("destination")?,
        digest: row.try_get("digest")?,
        time_ms: row.try_get("time_ms")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Options;

    #[tokio::test]
    async fn deliveries_are_remembered_by_week_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let row = |destination: &str, digest, time_ms| Delivered {
            version: 1,
            destination: destination.to_owned(),
            digest,
            time_ms,
        };
        let (file, message) = (row("directory", u32::MAX, Some(5)), row("webhook", 7, None));
        let store = Store::open(Options::new(dir.path(), |_| true)).await.unwrap();
        for row in [&file, &message, &row("webhook", 8, Some(9))] {
            store.note_delivery("2026-W47", row).await.unwrap();
        }
        store.close().await;
        let store = Store::open(Options::new(dir.path(), |_| true)).await.unwrap();
        assert_eq!(store.deliveries("2026-W47").await.unwrap(), [file, message]);
        assert_eq!(store.deliveries("2026-W48").await.unwrap(), []);
    }
}
