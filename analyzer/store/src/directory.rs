//! Results of a data directory that another process may have open. Writes nothing.

use std::ops::Range;
use std::path::{Path, PathBuf};

use sqlx::SqliteConnection;

use super::checked::Reading;
use super::columns::ACHIEVED;
use super::options::database_path;
use super::{
    History, ReadOwnership, ReadVerdicts, StoreError, Whose, database, days, events, intervals, outbox, outlook,
    ownership, rollup, series_rows, teams,
};
use goodput_exposition::sample::{Labels, TimeMs};
use goodput_verdict::{
    Achieved, FindingEvent, FindingWeek, Interval, Message, Outlook, RollUp, TeamTime, Unsubscribed,
};

/// Verdicts of a data directory that another process may have open. Rows that cannot be read are left out and named in the log.
#[derive(Debug)]
pub struct Directory {
    database: PathBuf,
    /// Opened by the first read: a report has a thousand of them.
    connection: tokio::sync::Mutex<Option<SqliteConnection>>,
}

impl Directory {
    /// The data directory of this path.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self { database: database_path(dir), connection: tokio::sync::Mutex::default() }
    }
}

/// Reads results of a directory, with a connection and a [`Reading`].
macro_rules! look {
    ($directory:ident, |$connection:ident, $reading:ident| $read:expr) => {{
        let mut held = $directory.connection.lock().await;
        let mut $reading = Reading::default();
        let $connection = match &mut *held {
            Some(open) => open,
            none => none.insert(database::look_into(&$directory.database).await?),
        };
        let read = $read.await.map_err(|error| database::failed(&$directory.database, error))?;
        $reading.warn();
        Ok(read)
    }};
}

impl ReadOwnership for Directory {
    async fn finding_events(&self) -> Result<Vec<FindingEvent>, StoreError> {
        look!(self, |connection, reading| ownership::all_events(connection, &mut reading))
    }

    async fn finding_weeks(&self, weeks: [&str; 2]) -> Result<Vec<FindingWeek>, StoreError> {
        look!(self, |connection, reading| ownership::weeks(connection, &mut reading, weeks))
    }
}

impl ReadVerdicts for Directory {
    async fn intervals_of(&self, window: Range<TimeMs>, whose: &Whose) -> Result<Vec<Interval>, StoreError> {
        look!(self, |connection, reading| intervals::select(connection, &mut reading, &window, whose))
    }

    async fn hours(&self, window: Range<TimeMs>, node: Option<&str>) -> Result<Vec<RollUp>, StoreError> {
        look!(self, |connection, reading| rollup::select(connection, &mut reading, &window, node))
    }

    async fn day(&self, time: TimeMs) -> Result<Vec<RollUp>, StoreError> {
        look!(self, |connection, reading| days::select(connection, &mut reading, time))
    }

    async fn extent(&self) -> Result<Option<Range<TimeMs>>, StoreError> {
        look!(self, |connection, _reading| intervals::extent(connection))
    }

    async fn outlook(&self, window: Range<TimeMs>) -> Result<Outlook, StoreError> {
        look!(self, |connection, reading| outlook::select(connection, &mut reading, &window))
    }

    async fn achieved(&self, window: Range<TimeMs>) -> Result<Vec<Achieved>, StoreError> {
        look!(self, |connection, reading| ACHIEVED.select(connection, &mut reading, &window))
    }

    async fn history(&self, window: Range<TimeMs>) -> Result<History, StoreError> {
        look!(self, |connection, reading| events::select(connection, &mut reading, &window))
    }

    async fn teams_of(&self, week: &str) -> Result<Option<String>, StoreError> {
        look!(self, |connection, reading| teams::of_week(connection, &mut reading, week))
    }

    async fn team_times(&self, weeks: [&str; 2]) -> Result<Vec<TeamTime>, StoreError> {
        look!(self, |connection, reading| teams::times(connection, &mut reading, weeks))
    }

    async fn messages(&self, weeks: [&str; 2]) -> Result<Vec<Message>, StoreError> {
        look!(self, |connection, reading| outbox::messages(connection, &mut reading, weeks))
    }

    async fn unsubscribed(&self) -> Result<Vec<Unsubscribed>, StoreError> {
        look!(self, |connection, reading| outbox::all_unsubscribed(connection, &mut reading))
    }

    async fn series_of(&self, metrics: &[String]) -> Result<Vec<Labels>, StoreError> {
        look!(self, |connection, _reading| series_rows::of_metrics(connection, metrics))
    }
}
