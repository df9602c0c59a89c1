//! What destinations have of scheduled reports, in SQLite.

use super::checked::{self, Table, Value};
use super::results::read;
use super::row::Row;
use super::{Store, StoreError};
use goodput_verdict::Delivered;

const SELECT: &str = "SELECT week, version, destination, digest, time_ms, checksum FROM deliveries WHERE week = $1
    ORDER BY version, destination";

const INSERT: &str = "INSERT INTO deliveries (week, version, destination, digest, time_ms, checksum)
    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";

pub(super) const STATEMENTS: [&str; 2] = [SELECT, INSERT];

pub(super) static TABLE: Table = Table {
    name: "deliveries",
    columns: &["week", "version", "destination", "digest", "time_ms"],
    key: "hex(week) || ' ' || hex(version) || ' ' || hex(destination)",
    has_window: false,
    decode: |row| decode(row).map(drop),
};

impl Store {
    /// What destinations have of this ISO week.
    pub async fn deliveries(&self, week: &str) -> Result<Vec<Delivered>, StoreError> {
        let of_week = ("week = $1", &[week.to_owned().into()] as &[Value<'static>]);
        read!(self, |connection, reading| reading.all(connection, &TABLE, SELECT, of_week, &[], decode))
    }

    /// Notes what a destination has now. Noting the same again changes nothing.
    pub async fn note_delivery(&self, week: &str, row: &Delivered) -> Result<(), StoreError> {
        let database = &self.shared.database;
        let stored = async {
            let mut transaction = database.begin().await?;
            let values: [Value<'_>; 5] =
                [week.into(), row.version.into(), (&row.destination).into(), row.digest.into(), row.time_ms.into()];
            checked::insert(&mut *transaction, INSERT, &values, &[]).await?;
            transaction.commit().await
        };
        stored.await.map_err(|error| database.failed(error))
    }
}

fn decode(row: Row<'_>) -> sqlx::Result<Delivered> {
    Ok(Delivered {
        version: row.small("version")?,
        destination: row.get("destination")?,
        digest: row.small("digest")?,
        time_ms: row.get("time_ms")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

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
