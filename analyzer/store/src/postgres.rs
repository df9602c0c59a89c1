//! Results in PostgreSQL, which several processes read and write. The statements on verdicts are those of their columns, as
//! in SQLite. Samples are never here.

mod address;
mod copy;
mod days;
mod encode;
mod events;
mod outbox;
mod ownership;
mod results;
mod schema;
mod teams;
mod write;

pub use address::{Address, AddressError};
pub use copy::{Copied, Side, Tell, copy};
pub use schema::{Roles, migrate};
pub use write::Counted;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Connection as _, PgConnection};

use super::changes::Changes;
use super::checked::Reading;
use super::columns::ACHIEVED;
use super::{
    History, ReadVerdicts, StoreError, Whose, days as rolled, events as told, intervals, outbox as outgoing, outlook,
    rollup, series_rows, teams as by_team,
};
use goodput_exposition::sample::{Labels, TimeMs};
use goodput_verdict::{Achieved, Interval, Message, Outlook, RollUp, TeamTime, Unsubscribed};

/// Connections of one process.
const CONNECTIONS: u32 = 4;

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Every statement of this folder on results; the others are those that SQLite has too.
#[must_use]
pub fn statements() -> Vec<String> {
    let made = copy::replaced(0..0).into_iter().flat_map(|replaced| [replaced.deletion(), replaced.counting()]);
    write::STATEMENTS.map(str::to_owned).into_iter().chain(made).collect()
}

const SERIES: &str = "SELECT labels FROM series ORDER BY seq";

const NOTE_SERIES: &str = "INSERT INTO series (labels)
    SELECT labels FROM unnest($1::TEXT[]) WITH ORDINALITY AS new (labels, place) ORDER BY place
    ON CONFLICT (md5(labels)) DO NOTHING";

/// Results in a database that was migrated.
#[derive(Clone)]
pub struct Postgres {
    pool: PgPool,
    server: Arc<str>,
    /// The columns that may not be null: table and column.
    required: Arc<HashSet<(String, String)>>,
    /// What this process changed.
    changes: Arc<Mutex<Changes>>,
}

impl Postgres {
    /// Connects. An error where the schema is not that of this release.
    pub async fn connect(address: &Address) -> Result<Self, StoreError> {
        Self::open(address, PgPoolOptions::new().max_connections(CONNECTIONS)).await
    }

    /// Connects to read what there is at one instant: all reads are of one transaction, and nothing can be written.
    pub async fn look(address: &Address) -> Result<Self, StoreError> {
        // A connection that the pool replaced would begin another transaction, of another instant.
        let one = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
        let begin =
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = 0";
        let was_begun = Arc::new(AtomicBool::new(false));
        let begun = one.after_connect(move |connection, _| {
            let is_another = was_begun.swap(true, Ordering::Relaxed);
            Box::pin(async move {
                if is_another {
                    return Err(sqlx::Error::Protocol("the connection was lost while results were read".to_owned()));
                }
                sqlx::raw_sql(begin).execute(connection).await.map(drop)
            })
        });
        Self::open(address, begun).await
    }

    async fn open(address: &Address, pool: PgPoolOptions) -> Result<Self, StoreError> {
        // The pool would try again until its patience ends, and then say nothing of the reason.
        let mut connection = address.connect(PATIENCE).await?;
        schema::check(&mut connection, address).await?;
        let required = schema::required(&mut connection).await.map_err(|error| address.failed(error))?;
        connection.close().await.map_err(|error| address.failed(error))?;
        let pool = pool.acquire_timeout(PATIENCE).connect_lazy_with(address.options().clone());
        let (server, changes) = (address.server().into(), Arc::default());
        Ok(Self { pool, server, required: Arc::new(required), changes })
    }

    /// Ends all connections.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    fn failed(&self, error: sqlx::Error) -> StoreError {
        StoreError::Server { server: self.server.to_string(), error }
    }

    async fn acquire(&self) -> Result<PoolConnection<sqlx::Postgres>, StoreError> {
        self.pool.acquire().await.map_err(|error| self.failed(error))
    }
}

/// Reads results with a connection and a [`Reading`]. Bad rows are left out and named in the log.
macro_rules! ask {
    ($postgres:ident, |$connection:ident, $reading:ident| $read:expr) => {{
        let mut acquired = $postgres.acquire().await?;
        let mut $reading = Reading::default();
        let $connection: &mut PgConnection = &mut acquired;
        let read = $read.await.map_err(|error| $postgres.failed(error))?;
        $reading.warn();
        Ok(read)
    }};
}

use ask;

impl ReadVerdicts for Postgres {
    async fn intervals_of(&self, window: Range<TimeMs>, whose: &Whose) -> Result<Vec<Interval>, StoreError> {
        ask!(self, |connection, reading| intervals::select(connection, &mut reading, &window, whose))
    }

    async fn hours(&self, window: Range<TimeMs>, node: Option<&str>) -> Result<Vec<RollUp>, StoreError> {
        ask!(self, |connection, reading| rollup::stored(connection, &mut reading, &window, node))
    }

    async fn day(&self, time: TimeMs) -> Result<Vec<RollUp>, StoreError> {
        let day = rolled::day_of(time);
        let found: Result<_, StoreError> =
            ask!(self, |connection, reading| rolled::rolled(connection, &mut reading, &day));
        match found? {
            Some(rows) => Ok(rows),
            None => self.hours(day, None).await,
        }
    }

    async fn extent(&self) -> Result<Option<Range<TimeMs>>, StoreError> {
        ask!(self, |connection, _reading| intervals::extent(connection))
    }

    async fn outlook(&self, window: Range<TimeMs>) -> Result<Outlook, StoreError> {
        ask!(self, |connection, reading| outlook::select(connection, &mut reading, &window))
    }

    async fn achieved(&self, window: Range<TimeMs>) -> Result<Vec<Achieved>, StoreError> {
        ask!(self, |connection, reading| ACHIEVED.select(connection, &mut reading, &window))
    }

    async fn history(&self, window: Range<TimeMs>) -> Result<History, StoreError> {
        ask!(self, |connection, reading| told::select(connection, &mut reading, &window))
    }

    async fn teams_of(&self, week: &str) -> Result<Option<String>, StoreError> {
        ask!(self, |connection, reading| by_team::of_week(connection, &mut reading, week))
    }

    async fn team_times(&self, weeks: [&str; 2]) -> Result<Vec<TeamTime>, StoreError> {
        ask!(self, |connection, reading| by_team::times(connection, &mut reading, weeks))
    }

    async fn messages(&self, weeks: [&str; 2]) -> Result<Vec<Message>, StoreError> {
        ask!(self, |connection, reading| outgoing::messages(connection, &mut reading, weeks))
    }

    async fn unsubscribed(&self) -> Result<Vec<Unsubscribed>, StoreError> {
        ask!(self, |connection, reading| outgoing::all_unsubscribed(connection, &mut reading))
    }

    /// Those that were noted: samples stay in their engine.
    async fn series_of(&self, metrics: &[String]) -> Result<Vec<Labels>, StoreError> {
        let noted: Result<Vec<String>, _> = sqlx::query_scalar(SERIES).fetch_all(&self.pool).await;
        let noted = noted.map_err(|error| self.failed(error))?;
        let series = noted.iter().filter_map(|labels| series_rows::labels(labels).ok());
        Ok(series.filter(|series| metrics.iter().any(|metric| metric == series.metric())).collect())
    }
}

impl Postgres {
    /// Notes the labels of series that name GPUs; those that are noted already stay.
    pub async fn note_series(&self, series: &[Labels]) -> Result<(), StoreError> {
        let noted = async {
            let all: Vec<String> = series.iter().map(series_rows::json).collect::<sqlx::Result<_>>()?;
            sqlx::query(NOTE_SERIES).bind(all).execute(&self.pool).await
        };
        noted.await.map(drop).map_err(|error| self.failed(error))
    }
}
