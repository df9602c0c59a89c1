//! What people said about findings, and in which weeks findings were there.

use sqlx::{Connection as _, PgConnection};

use super::write::LIMITS;
use super::{Postgres, ask};
use crate::StoreError;
use crate::checked::Reading;
use crate::ownership::{Ownership, ReadOwnership, Said, all_events, note_week, say, weeks};
use crate::writer::panicked;
use goodput_verdict::{FindingEvent, FindingWeek};

/// Those who say something take turns: each looks at which number is the last.
pub(super) const TURN: &str = "SELECT pg_advisory_xact_lock(7449633602174)";

impl ReadOwnership for Postgres {
    async fn finding_events(&self) -> Result<Vec<FindingEvent>, StoreError> {
        ask!(self, |connection, reading| all_events(connection, &mut reading))
    }

    async fn finding_weeks(&self, between: [&str; 2]) -> Result<Vec<FindingWeek>, StoreError> {
        ask!(self, |connection, reading| weeks(connection, &mut reading, between))
    }
}

impl Ownership for Postgres {
    async fn say(&self, after: Option<i64>, event: &FindingEvent) -> Result<Said, StoreError> {
        // The caller may leave at any time; see [`Postgres::write`].
        let (pool, event) = (self.pool.clone(), event.clone());
        let saying = tokio::spawn(async move {
            let mut connection = pool.acquire().await?;
            let mut transaction = connection.begin().await?;
            sqlx::query(LIMITS).execute(&mut *transaction).await?;
            sqlx::query(TURN).execute(&mut *transaction).await?;
            let said = say(&mut *transaction, after, &event).await?;
            transaction.commit().await?;
            Ok(said)
        });
        saying.await.map_err(panicked)?.map_err(|error| self.failed(error))
    }

    async fn note_finding_week(&self, week: &str, findings: &[FindingWeek]) -> Result<(), StoreError> {
        let (pool, week, findings) = (self.pool.clone(), week.to_owned(), findings.to_vec());
        let noting = tokio::spawn(async move {
            let mut connection = pool.acquire().await?;
            let mut transaction = connection.begin().await?;
            sqlx::query(LIMITS).execute(&mut *transaction).await?;
            sqlx::query(TURN).execute(&mut *transaction).await?;
            note_week(&mut *transaction, &week, &findings).await?;
            transaction.commit().await
        });
        noting.await.map_err(panicked)?.map_err(|error| self.failed(error))
    }
}
