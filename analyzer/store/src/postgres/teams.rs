//! What teams had in weeks that are delivered.

use sqlx::Connection as _;

use super::Postgres;
use super::write::LIMITS;
use crate::StoreError;
use crate::teams::note;
use crate::writer::panicked;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::TeamTime;

/// Those who note teams take turns: each looks at which version is the last.
pub(super) const TURN: &str = "SELECT pg_advisory_xact_lock(7449633602173)";

impl Postgres {
    pub(super) async fn store_teams(
        &self,
        (week, start_ms): (&str, TimeMs),
        content: &str,
        times: &[TeamTime],
    ) -> Result<(), StoreError> {
        // The caller may leave at any time; see [`Postgres::write`].
        let (pool, week, content, times) = (self.pool.clone(), week.to_owned(), content.to_owned(), times.to_vec());
        let noting = tokio::spawn(async move {
            let mut connection = pool.acquire().await?;
            let mut transaction = connection.begin().await?;
            sqlx::query(LIMITS).execute(&mut *transaction).await?;
            sqlx::query(TURN).execute(&mut *transaction).await?;
            note(&mut *transaction, (&week, start_ms), &content, &times).await?;
            transaction.commit().await
        });
        noting.await.map_err(panicked)?.map_err(|error| self.failed(error))
    }
}
