//! Messages about weekly reports.

use sqlx::Connection as _;

use super::Postgres;
use super::write::LIMITS;
use crate::StoreError;
use crate::outbox::{note, unsubscribe};
use crate::writer::panicked;
use goodput_verdict::{Message, Unsubscribed};

impl Postgres {
    pub(super) async fn store_messages(&self, messages: &[Message]) -> Result<(), StoreError> {
        // The caller may leave at any time; see [`Postgres::write`].
        let (pool, messages) = (self.pool.clone(), messages.to_vec());
        let noting = tokio::spawn(async move {
            let mut connection = pool.acquire().await?;
            let mut transaction = connection.begin().await?;
            sqlx::query(LIMITS).execute(&mut *transaction).await?;
            note(&mut *transaction, &messages).await?;
            transaction.commit().await
        });
        noting.await.map_err(panicked)?.map_err(|error| self.failed(error))
    }

    pub(super) async fn store_unsubscribed(&self, who: &Unsubscribed) -> Result<(), StoreError> {
        let (pool, who) = (self.pool.clone(), who.clone());
        let noting = tokio::spawn(async move {
            let mut connection = pool.acquire().await?;
            let mut transaction = connection.begin().await?;
            sqlx::query(LIMITS).execute(&mut *transaction).await?;
            unsubscribe(&mut *transaction, &who).await?;
            transaction.commit().await
        });
        noting.await.map_err(panicked)?.map_err(|error| self.failed(error))
    }
}
