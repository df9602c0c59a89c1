//! What jobs achieved, in SQLite.

use std::ops::Range;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::checked::{self, Reading, Table, Value};
use super::results::{IN_WINDOW, in_window};
use super::{Store, StoreError};
use crate::application::Achieved;
use crate::sample::TimeMs;

const INSERT: &str = "INSERT INTO achieved
    (start_ms, end_ms, metric, unit, owner, subject, amount, covered_ms, ideal, checksum)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

const SELECT: &str = "SELECT start_ms, end_ms, metric, unit, owner, subject, amount, covered_ms, ideal, checksum
    FROM achieved WHERE start_ms >= $1 AND end_ms <= $2 ORDER BY metric, owner NULLS FIRST, subject, start_ms";

const DELETE: &str = "DELETE FROM achieved WHERE start_ms >= $1 AND end_ms <= $2";

pub(super) const STATEMENTS: [&str; 3] = [INSERT, SELECT, DELETE];

pub(super) static TABLE: Table = Table {
    name: "achieved",
    columns: &["start_ms", "end_ms", "metric", "unit", "owner", "subject", "amount", "covered_ms", "ideal"],
    key: "rowid",
    has_window: true,
    decode: |row| decode(row).map(drop),
};

impl Store {
    pub(super) async fn replace_rows(&self, window: &Range<TimeMs>, rows: &[Achieved]) -> Result<(), StoreError> {
        let database = &self.shared.database;
        let stored = async {
            let mut transaction = database.begin().await?;
            sqlx::query(DELETE).bind(window.start).bind(window.end).execute(&mut *transaction).await?;
            for row in rows {
                insert(&mut transaction, row).await?;
            }
            transaction.commit().await
        };
        self.shared.changes.lock().within(window);
        stored.await.map_err(|error| database.failed(error))
    }
}

async fn insert(connection: &mut SqliteConnection, row: &Achieved) -> sqlx::Result<()> {
    let values: [Value<'_>; 9] = [
        row.start_ms.into(),
        row.end_ms.into(),
        (&row.metric).into(),
        (&row.unit).into(),
        row.owner.as_ref().into(),
        (&row.subject).into(),
        row.amount.into(),
        row.covered_ms.into(),
        row.ideal.into(),
    ];
    checked::insert(connection, INSERT, &values, &[]).await
}

pub(super) async fn select(
    connection: &mut SqliteConnection,
    reading: &mut Reading,
    window: &Range<TimeMs>,
) -> sqlx::Result<Vec<Achieved>> {
    let query = sqlx::query(SELECT).bind(window.start).bind(window.end);
    reading.all(connection, &TABLE, query, (IN_WINDOW, &in_window(window)), decode).await
}

fn decode(row: &SqliteRow) -> sqlx::Result<Achieved> {
    Ok(Achieved {
        metric: row.try_get("metric")?,
        unit: row.try_get("unit")?,
        start_ms: row.try_get("start_ms")?,
        end_ms: row.try_get("end_ms")?,
        owner: row.try_get("owner")?,
        subject: row.try_get("subject")?,
        amount: row.try_get("amount")?,
        covered_ms: row.try_get("covered_ms")?,
        ideal: row.try_get("ideal")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Options, Results, read_verdicts};

    fn row(start_ms: TimeMs, owner: Option<&str>, amount: f64) -> Achieved {
        Achieved {
            metric: "steps_total".into(),
            unit: "steps".into(),
            start_ms,
            end_ms: start_ms + 10,
            owner: owner.map(str::to_owned),
            subject: "train-0".into(),
            amount,
            covered_ms: 9,
            ideal: Some(0.1),
        }
    }

    #[tokio::test]
    async fn a_window_is_replaced_and_its_neighbours_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Options::new(dir.path(), |_| true)).await.unwrap();
        store.replace_achieved(0..10, &[row(0, Some("a"), 1.0), row(0, None, 2.0)]).await.unwrap();
        store.replace_achieved(10..20, &[row(10, Some("a"), 3.0)]).await.unwrap();
        store.replace_achieved(0..10, &[row(0, Some("a"), 0.1 + 0.2)]).await.unwrap();
        let expected = [row(0, Some("a"), 0.1 + 0.2), row(10, Some("a"), 3.0)];
        assert_eq!(store.achieved(0..20).await.unwrap(), expected);
        assert_eq!(store.achieved(10..20).await.unwrap(), expected[1..]);
        store.close().await;
        assert_eq!(read_verdicts(dir.path(), 0..20).await.unwrap().achieved, expected);
    }
}
