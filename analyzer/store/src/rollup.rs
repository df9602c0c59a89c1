//! The roll-up of intervals in SQLite: read for sums over weeks, and made for the verdicts of earlier releases.

use std::ops::Range;
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, SqliteConnection};
use tracing::{error, info};

use super::checked::{self, Reading};
use super::columns::{HOURS, IN_WINDOW, Stored as _, in_window};
use super::database::Database;
use super::intervals;
use super::row::Session;
use super::writer::Writer;
use super::{Embedded as _, Store, StoreError, Whose, days};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{HOUR_MS, RollUp};

/// Between two hours that are rolled up after an upgrade, so that samples are stored in between.
const PAUSE: Duration = Duration::from_millis(20);

/// How often the log says how far the roll-up is.
const TELL_EVERY: Duration = Duration::from_secs(10);

const SELECT_FROM: &str = "SELECT from_ms FROM rolled_up";

const NOTE_FROM: &str = "UPDATE rolled_up SET from_ms = $1";

const NOTE_END: &str = "DELETE FROM rolled_up";

const LAST_BEFORE: &str = "SELECT max(start_ms) FROM intervals WHERE start_ms < $1";

/// The roll-up of verdicts of an earlier release, from the newest hour to the oldest.
#[derive(Debug)]
pub(super) struct Rolling {
    due: Instant,
    told: Instant,
    hours: u64,
}

/// Resolves when an hour is to be rolled up; never when all are.
pub(super) async fn due(rolling: &Option<Rolling>) {
    match rolling {
        Some(rolling) => tokio::time::sleep_until(rolling.due.into()).await,
        None => std::future::pending().await,
    }
}

impl Rolling {
    /// None where nothing is left to be rolled up.
    pub(super) async fn begin(database: &Database) -> sqlx::Result<Option<Self>> {
        let mut connection = database.read.acquire().await?;
        let from = rolled_from(&mut connection).await?;
        let now = Instant::now();
        Ok(from.map(|_| Self { due: now, told: now, hours: 0 }))
    }
}

/// Since when intervals are rolled up; none when all are.
pub(super) async fn rolled_from(connection: &mut SqliteConnection) -> sqlx::Result<Option<TimeMs>> {
    sqlx::query_scalar(SELECT_FROM).fetch_optional(connection).await
}

/// The roll-up of a window, or that of one node. What is not rolled up yet is folded from its intervals.
pub(super) async fn select(
    connection: &mut SqliteConnection,
    reading: &mut Reading,
    window: &Range<TimeMs>,
    node: Option<&str>,
) -> sqlx::Result<Vec<RollUp>> {
    let from = rolled_from(connection).await?.unwrap_or(TimeMs::MIN).clamp(window.start, window.end);
    let mut hours = Vec::new();
    if from > window.start {
        hours = folded(connection, reading, &(window.start..from), node).await?;
    }
    let rest = from..window.end;
    hours.extend(stored(connection, reading, &rest, node).await?);
    Ok(hours)
}

/// The roll-up of a window that was rolled up, or that of one node. Bad rows are folded from the intervals.
pub(super) async fn stored(
    connection: &mut impl Session,
    reading: &mut Reading,
    window: &Range<TimeMs>,
    node: Option<&str>,
) -> sqlx::Result<Vec<RollUp>> {
    let (columns, more): (&[&str], _) = match node {
        Some(node) => (&["node"], vec![node.into()]),
        None => (&[], Vec::new()),
    };
    let sql = AssertSqlSafe(HOURS.selection(columns));
    let rows = reading.all(connection, &HOURS.table, sql, (IN_WINDOW, &in_window(window)), &more, RollUp::read).await?;
    if is_bad(reading) { folded(connection, reading, window, node).await } else { Ok(rows) }
}

/// Are some roll-ups not as they were written? Their intervals say the same.
fn is_bad(reading: &Reading) -> bool {
    reading.skipped.iter().any(|skipped| std::ptr::eq(skipped.table, &raw const HOURS.table))
}

pub(super) async fn folded(
    connection: &mut impl Session,
    reading: &mut Reading,
    window: &Range<TimeMs>,
    node: Option<&str>,
) -> sqlx::Result<Vec<RollUp>> {
    let whose = Whose { node: node.map(str::to_owned), ..Whose::default() };
    Ok(RollUp::fold(&intervals::select(connection, reading, window, &whose).await?))
}

/// Makes the roll-up of a window from its intervals.
async fn fold(connection: &mut SqliteConnection, window: &Range<TimeMs>) -> sqlx::Result<()> {
    let hours = folded(connection, &mut Reading::default(), window, None).await?;
    days::note_changed(connection, window).await?;
    HOURS.replace(connection, window, None, &hours).await
}

impl Database {
    /// Rolls up the newest hour that is not. Returns it; none where all are rolled up.
    async fn roll_up(&self) -> sqlx::Result<Option<TimeMs>> {
        let mut transaction = self.begin().await?;
        let Some(from) = rolled_from(&mut transaction).await? else { return Ok(None) };
        let last: Option<TimeMs> = sqlx::query_scalar(LAST_BEFORE).bind(from).fetch_one(&mut *transaction).await?;
        let hour = last.map(|last| last.div_euclid(HOUR_MS) * HOUR_MS);
        match hour {
            Some(hour) => {
                fold(&mut transaction, &(hour..hour + HOUR_MS)).await?;
                sqlx::query(NOTE_FROM).bind(hour).execute(&mut *transaction).await?;
            }
            None => {
                sqlx::query(NOTE_END).execute(&mut *transaction).await?;
            }
        }
        transaction.commit().await?;
        Ok(hour)
    }

    /// Makes the roll-ups of the hours again that these windows begin in.
    async fn fold_again(&self, windows: impl Iterator<Item = Range<TimeMs>>) -> sqlx::Result<()> {
        for start in windows.map(|window| window.start.div_euclid(HOUR_MS) * HOUR_MS) {
            let mut transaction = self.begin().await?;
            fold(&mut transaction, &(start..start + HOUR_MS)).await?;
            transaction.commit().await?;
        }
        Ok(())
    }
}

impl Store {
    /// The roll-up of a window, or that of one node. Rows that are not as they were written are made again from the
    /// intervals of their hours. Where that cannot be stored, the answer is whole all the same.
    pub(super) async fn rolled_up(&self, window: Range<TimeMs>, node: Option<&str>) -> Result<Vec<RollUp>, StoreError> {
        loop {
            let mut reading = Reading::up_to(self.max_rows);
            let mut connection = self.reader().await?;
            let found = select(&mut connection, &mut reading, &window, node).await;
            drop(connection);
            let Some(found) = self.end(found, &reading).await? else { continue };
            let lost = self.lost_windows().into_iter().filter(|lost| window.contains(&lost.start));
            if is_bad(&reading)
                && let Err(error) = self.shared.database.fold_again(lost).await
            {
                error!(%error, "bad roll-ups cannot be made again; they are folded each time that they are read");
            }
            return Ok(found);
        }
    }
}

impl Writer {
    /// Rolls up an hour of verdicts of an earlier release. After a failure the next start tries again; until then the hours
    /// that are left are folded each time that they are read.
    pub(super) async fn roll_up(&mut self) {
        let Some(rolling) = &mut self.rolling else { return };
        match self.shared.database.roll_up().await {
            Ok(Some(hour)) => {
                let now = Instant::now();
                rolling.hours += 1;
                rolling.due = now + PAUSE;
                if now.duration_since(rolling.told) > TELL_EVERY {
                    rolling.told = now;
                    info!(hours = rolling.hours, from_ms = hour, "rolling up verdicts of an earlier release");
                }
            }
            Ok(None) => {
                info!(hours = rolling.hours, "verdicts of an earlier release are rolled up");
                self.rolling = None;
            }
            Err(error) => {
                self.rolling = None;
                let is_damage = checked::is_damage(&error);
                error!(%error, is_damage, "cannot roll up verdicts of an earlier release; the next start tries again");
            }
        }
    }
}
