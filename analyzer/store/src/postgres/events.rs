//! What jobs report, where several processes take it.

use sqlx::{Connection as _, PgConnection};

use super::Postgres;
use super::write::LIMITS;
use crate::checked::Reading;
use crate::events::{Clear, add};
use crate::writer::panicked;
use crate::{Events, StoreError, Taken};
use goodput_verdict::event::Event;

/// Those who add events take turns: each looks at what is there first.
const TURN: &str = "SELECT pg_advisory_xact_lock(7449633602172)";

/// A bad row that is in the way is named, and stays.
struct Named;

impl Clear<PgConnection> for Named {
    async fn clear(&mut self, _: &mut PgConnection, reading: &mut Reading) -> sqlx::Result<()> {
        reading.warn();
        reading.skipped.clear();
        Ok(())
    }
}

impl Events for Postgres {
    async fn add_events(&self, events: &[Event]) -> Result<Taken, StoreError> {
        // A sender may leave at any time; see [`Postgres::write`].
        let (pool, events) = (self.pool.clone(), events.to_vec());
        let adding = tokio::spawn(async move {
            let mut connection = pool.acquire().await?;
            let mut transaction = connection.begin().await?;
            sqlx::query(LIMITS).execute(&mut *transaction).await?;
            sqlx::query(TURN).execute(&mut *transaction).await?;
            let added = add(&mut *transaction, &events, &mut Named).await?;
            if added.is_ok() {
                transaction.commit().await?;
            }
            Ok::<_, sqlx::Error>(added)
        });
        let added = adding.await.map_err(panicked)?.map_err(|error| self.failed(error))?;
        self.changes.lock().everywhere();
        added.map(|(taken, _)| taken).map_err(|id| StoreError::Contradicted { id })
    }
}
