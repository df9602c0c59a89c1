//! The roll-up of days. A day is rolled up in one transaction, for which the writers of its hours wait.

use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqlSafeStr as _};
use tokio_stream::StreamExt as _;
use tracing::warn;

use super::Postgres;
use super::encode::Rows;
use super::write::{CLEAR_DAYS, LIMITS, copy};
use crate::StoreError;
use crate::checked::checksum;
use crate::columns::{DAYS, HOURS, Stored as _, in_window};
use crate::days::day_of;
use crate::row::Session as _;
use crate::writer::panicked;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::RollUp;

/// Days that are over and not rolled up.
pub(super) const NEXT: &str = "SELECT start_ms FROM rolled_days
    WHERE state < 2 AND start_ms < (SELECT max(start_ms) FROM rolled_days) ORDER BY start_ms";

pub(super) const TAKE: &str = "SELECT start_ms FROM rolled_days WHERE start_ms = $1 AND state < 2 FOR UPDATE";

pub(super) const END: &str = "UPDATE rolled_days SET state = 2 WHERE start_ms = $1";

/// The joined hours of each node of a day; none where an hour is bad.
async fn joined(connection: &mut PgConnection, day: TimeMs) -> sqlx::Result<Option<Rows>> {
    let (mut encoded, mut of_node): (_, Vec<RollUp>) = (Rows::default(), Vec::new());
    let sql = AssertSqlSafe(HOURS.selection(&[])).into_sql_str();
    let mut rows = connection.rows(sql, &[&in_window(&day_of(day))]);
    while let Some(fetched) = rows.try_next().await? {
        if let Err(reason) = HOURS.table.check(fetched.row()) {
            warn!(day, reason, "a day is not rolled up: one of its hours is bad");
            return Ok(None);
        }
        let hour = RollUp::read(fetched.row())?;
        if of_node.first().is_some_and(|first| first.node != hour.node) {
            add(&mut encoded, std::mem::take(&mut of_node));
        }
        of_node.push(hour);
    }
    add(&mut encoded, of_node);
    Ok(Some(encoded))
}

/// Adds the days of a node, which may be one of several clusters.
fn add(encoded: &mut Rows, mut hours: Vec<RollUp>) {
    hours.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    for of_cluster in hours.chunk_by(|a, b| a.cluster == b.cluster) {
        let Some(joined) = RollUp::joined(of_cluster.to_vec()) else { continue };
        let mut values = joined.values();
        values.push(checksum(&values).into());
        encoded.add(values.iter());
    }
}

async fn roll_up(pool: &PgPool, day: TimeMs) -> sqlx::Result<()> {
    let mut connection = pool.acquire().await?;
    let mut transaction = connection.begin().await?;
    sqlx::query(LIMITS).execute(&mut *transaction).await?;
    let taken: Option<TimeMs> = sqlx::query_scalar(TAKE).bind(day).fetch_optional(&mut *transaction).await?;
    if taken.is_none() {
        return Ok(());
    }
    let Some(rows) = joined(&mut transaction, day).await? else { return Ok(()) };
    let whole = day_of(day);
    sqlx::query(CLEAR_DAYS).bind(whole.start).bind(whole.end).execute(&mut *transaction).await?;
    copy(&mut transaction, &DAYS.table, &rows).await?;
    sqlx::query(END).bind(day).execute(&mut *transaction).await?;
    transaction.commit().await
}

impl Postgres {
    /// Rolls up the days that are over and are not rolled up, so that sums over weeks read a 24th of the rows. `told` is
    /// called with how many are done, and how many there are.
    pub async fn roll_up_days(&self, told: &mut (dyn FnMut(u64, u64) + Send)) -> Result<(), StoreError> {
        let days = sqlx::query_scalar(NEXT).fetch_all(&self.pool).await;
        let days: Vec<TimeMs> = days.map_err(|error| self.failed(error))?;
        for (done, day) in (0_u64..).zip(&days) {
            told(done, days.len() as u64);
            let (pool, day) = (self.pool.clone(), *day);
            let rolled = tokio::spawn(async move { roll_up(&pool, day).await });
            rolled.await.map_err(panicked)?.map_err(|error| self.failed(error))?;
        }
        Ok(())
    }
}
