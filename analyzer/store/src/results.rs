//! Verdicts in SQLite.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use sqlx::error::{DatabaseError, ErrorKind};
use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, Sqlite, SqliteConnection};
use tracing::warn;

use super::checked::{self, Reading};
use super::columns::{ACHIEVED, ADVISORIES, DAYS, HOURS, INTERVALS, RISKS, STANDINGS};
use super::database::Database;
use super::{
    Arrivals, Embedded, History, Mark, Place, ReadVerdicts, Replacement, Results, Samples as _, Selection, Stats,
    Store, StoreError, Whose, days, delivery, events, intervals, judged, outbox, outlook, ownership, teams,
};
use goodput_exposition::sample::{Labels, TimeMs};
use goodput_verdict::{Achieved, Interval, Message, Outlook, RollUp, TeamTime, Unsubscribed};

/// Every statement on results that SQLite and PostgreSQL share, which `tests/tests/postgres.rs` holds them to.
#[must_use]
pub fn statements() -> Vec<String> {
    let kept = [INTERVALS.statements(), ADVISORIES.statements(), RISKS.statements()].into_iter();
    let kept =
        kept.chain([STANDINGS.statements(), ACHIEVED.statements(), HOURS.statements(), DAYS.statements()]).flatten();
    let fixed = delivery::STATEMENTS.iter().chain(&events::STATEMENTS).chain(&teams::STATEMENTS);
    let fixed = fixed.chain(&outbox::STATEMENTS).chain(&ownership::STATEMENTS);
    intervals::statements()
        .chain(kept)
        .chain(fixed.map(|sql| (*sql).to_owned()))
        .chain(judged::TABLES.map(judged::forget))
        .chain(judged::TABLES.map(judged::across))
        .chain([days::selection()])
        .collect()
}

impl ReadVerdicts for Store {
    async fn intervals_of(&self, window: Range<TimeMs>, whose: &Whose) -> Result<Vec<Interval>, StoreError> {
        read!(self, |connection, reading| intervals::select(connection, &mut reading, &window, whose))
    }

    async fn hours(&self, window: Range<TimeMs>, node: Option<&str>) -> Result<Vec<RollUp>, StoreError> {
        self.rolled_up(window, node).await
    }

    async fn day(&self, time: TimeMs) -> Result<Vec<RollUp>, StoreError> {
        self.rolled_up_day(time).await
    }

    async fn extent(&self) -> Result<Option<Range<TimeMs>>, StoreError> {
        loop {
            let mut connection = self.reader().await?;
            let found = intervals::extent(&mut *connection).await;
            drop(connection);
            if let Some(found) = self.end(found, &Reading::default()).await? {
                return Ok(found);
            }
        }
    }

    async fn outlook(&self, window: Range<TimeMs>) -> Result<Outlook, StoreError> {
        read!(self, |connection, reading| outlook::select(connection, &mut reading, &window))
    }

    async fn achieved(&self, window: Range<TimeMs>) -> Result<Vec<Achieved>, StoreError> {
        read!(self, |connection, reading| ACHIEVED.select(connection, &mut reading, &window))
    }

    async fn history(&self, window: Range<TimeMs>) -> Result<History, StoreError> {
        read!(self, |connection, reading| events::select(connection, &mut reading, &window))
    }

    async fn teams_of(&self, week: &str) -> Result<Option<String>, StoreError> {
        read!(self, |connection, reading| teams::of_week(connection, &mut reading, week))
    }

    async fn team_times(&self, weeks: [&str; 2]) -> Result<Vec<TeamTime>, StoreError> {
        read!(self, |connection, reading| teams::times(connection, &mut reading, weeks))
    }

    async fn messages(&self, weeks: [&str; 2]) -> Result<Vec<Message>, StoreError> {
        read!(self, |connection, reading| outbox::messages(connection, &mut reading, weeks))
    }

    async fn unsubscribed(&self) -> Result<Vec<Unsubscribed>, StoreError> {
        read!(self, |connection, reading| outbox::all_unsubscribed(connection, &mut reading))
    }

    async fn series_of(&self, metrics: &[String]) -> Result<Vec<Labels>, StoreError> {
        Ok(self.known(&Selection { metrics: metrics.to_vec(), labels: Vec::new(), range: 0..0 }))
    }
}

impl Results for Store {
    async fn replace_window(
        &self,
        window: Range<TimeMs>,
        nodes: &[Replacement<'_>],
    ) -> Result<Vec<(usize, StoreError)>, StoreError> {
        self.replace_and_note(window, None, nodes).await
    }

    async fn store_judged(
        &self,
        window: Range<TimeMs>,
        until: TimeMs,
        nodes: &[Replacement<'_>],
    ) -> Result<Vec<(usize, StoreError)>, StoreError> {
        self.replace_and_note(window, Some(until), nodes).await
    }

    async fn judged_windows(&self, range: Range<TimeMs>) -> Result<BTreeMap<TimeMs, TimeMs>, StoreError> {
        let database = &self.shared.database;
        database.judged_windows(range).await.map_err(|error| database.failed(error))
    }

    async fn note_teams(&self, week: (&str, TimeMs), content: &str, times: &[TeamTime]) -> Result<(), StoreError> {
        self.store_teams(week, content, times).await
    }

    async fn note_messages(&self, messages: &[Message]) -> Result<(), StoreError> {
        self.store_messages(messages).await
    }

    async fn unsubscribe(&self, who: &Unsubscribed) -> Result<(), StoreError> {
        self.store_unsubscribed(who).await
    }

    fn version(&self, window: &Range<TimeMs>) -> u64 {
        self.shared.changes.lock().version(window)
    }

    async fn hours_across(&self, into_hour_ms: i64) -> Result<Vec<TimeMs>, StoreError> {
        let database = &self.shared.database;
        database.hours_across(into_hour_ms).await.map_err(|error| database.failed(error))
    }

    async fn replace_achieved(&self, window: Range<TimeMs>, achieved: &[Achieved]) -> Result<(), StoreError> {
        self.replace_rows(&window, achieved).await
    }
}

impl Embedded for Store {
    fn lost_windows(&self) -> Vec<Range<TimeMs>> {
        self.shared.lost_windows()
    }

    async fn note_rejudged(&self, window: &Range<TimeMs>, judged: bool) -> Result<(), StoreError> {
        let noted = self.shared.note_rejudged(window, judged).await;
        noted.map_err(|error| self.shared.database.failed(error))
    }

    fn mark(&self) -> Mark {
        Mark { samples: self.shared.state.read().seq, events: self.shared.last_event.load(Ordering::Acquire) }
    }

    async fn note_begun(&self, mark: Mark) -> Result<(), StoreError> {
        let database = &self.shared.database;
        database.note_begun(mark.samples).await.map_err(|error| database.failed(error))
    }

    async fn note_judged(&self, mark: Mark) -> Result<(), StoreError> {
        let database = &self.shared.database;
        let noted = async {
            database.note_events_judged(mark.events).await?;
            database.note_judged(mark.samples).await
        };
        noted.await.map_err(|error| database.failed(error))
    }

    fn unjudged_from(&self) -> Option<TimeMs> {
        self.shared.totals.lock().unjudged_from
    }

    fn believed(&self, time: TimeMs) -> TimeMs {
        self.shared.clock.believed(time)
    }

    fn arrivals(&self) -> &Arrivals {
        &self.shared.arrivals
    }

    fn stats(&self) -> Stats {
        self.stats()
    }
}

impl Store {
    async fn replace_and_note(
        &self,
        window: Range<TimeMs>,
        judged_until: Option<TimeMs>,
        nodes: &[Replacement<'_>],
    ) -> Result<Vec<(usize, StoreError)>, StoreError> {
        self.look_before_replacing(&window).await;
        let database = &self.shared.database;
        let mut replaced = replace(database, &window, judged_until, nodes, false).await;
        if let Err(error) = &replaced
            && checked::is_damage(error)
        {
            self.shared.heal(error).await;
            // Before and after, for a day may be rolled up in between.
            database.note_changed_around_damage(&window).await?;
            replaced = replace(database, &window, None, nodes, true).await;
            database.note_changed_around_damage(&window).await?;
            if let (Ok(_), Some(until)) = (&replaced, judged_until)
                && let Err(error) = database.note_window_around_damage(window.start, until).await
            {
                replaced = Err(error);
            }
        }
        self.shared.changes.lock().within(&window);
        replaced.map_err(|error| database.failed(error))
    }

    /// Reads what another run of the program stored of a window: a row that went bad meanwhile is set aside and named, where
    /// its replacement would remove it without a word.
    async fn look_before_replacing(&self, window: &Range<TimeMs>) {
        if self.shared.replaced.lock().contains(&window.start) {
            return;
        }
        let read = async {
            self.verdicts(window.clone()).await?;
            self.hours(window.clone(), None).await
        };
        match read.await {
            Ok(_) => drop(self.shared.replaced.lock().insert(window.start)),
            Err(error) => warn!(%error, start_ms = window.start, "verdicts that are replaced could not be read"),
        }
    }

    pub(super) async fn reader(&self) -> Result<PoolConnection<Sqlite>, StoreError> {
        let database = &self.shared.database;
        let pool = if self.max_rows.is_some() { &database.pages } else { &database.read };
        pool.acquire().await.map_err(|error| database.failed(error))
    }

    /// Ends a read of results: rows that it left out are named and set aside. `None`: the same read may succeed now.
    pub(super) async fn end<T>(&self, found: sqlx::Result<T>, reading: &Reading) -> Result<Option<T>, StoreError> {
        match found {
            Err(error) if self.shared.heal(&error).await => Ok(None),
            Err(error) => Err(self.shared.database.failed(error)),
            Ok(_) if reading.is_too_much() => Err(StoreError::TooMuch { max_rows: self.max_rows.unwrap_or_default() }),
            Ok(found) => {
                self.shared.set_bad_rows_aside(&reading.skipped).await;
                Ok(Some(found))
            }
        }
    }
}

/// Reads results of a store, with a connection and a [`Reading`].
macro_rules! read {
    ($store:ident, |$connection:ident, $reading:ident| $read:expr) => {
        loop {
            let mut $reading = crate::checked::Reading::up_to($store.max_rows);
            let mut connection = $store.reader().await?;
            let $connection = &mut *connection;
            let found = $read.await;
            drop(connection);
            if let Some(found) = $store.end(found, &$reading).await? {
                return Ok(found);
            }
        }
    };
}
pub(super) use read;

/// All nodes of a window in one transaction. Returns the nodes that cannot be stored; they keep what they had. Damage that
/// the rows of one node meet costs that node alone, where `around_damage` is true.
async fn replace(
    database: &Database,
    window: &Range<TimeMs>,
    judged_until: Option<TimeMs>,
    nodes: &[Replacement<'_>],
    around_damage: bool,
) -> sqlx::Result<Vec<(usize, StoreError)>> {
    let mut refused = Vec::new();
    let mut transaction = database.begin().await?;
    if let Some(until) = judged_until {
        judged::note_window(&mut transaction, window.start, until).await?;
    }
    if !around_damage && nodes.iter().any(|new| new.intervals.is_some()) {
        days::note_changed(&mut transaction, window).await?;
    }
    for (n, new) in nodes.iter().enumerate() {
        if let Some(what) = misplaced(window, new) {
            let (node, window) = (new.place.to_string(), window.clone());
            refused.push((n, StoreError::OutsideWindow { what, node, window }));
            continue;
        }
        let mut savepoint = transaction.begin().await?;
        match replace_node(&mut savepoint, window, new).await {
            Ok(()) => savepoint.commit().await?,
            Err(error) if is_of_its_rows(&error) || around_damage && checked::is_damage(&error) => {
                savepoint.rollback().await?;
                refused.push((n, database.failed(error)));
            }
            Err(error) => return Err(error),
        }
    }
    transaction.commit().await?;
    Ok(refused)
}

/// Is the error that of one node's rows, so that other nodes can be stored?
fn is_of_its_rows(error: &sqlx::Error) -> bool {
    let is_constraint = |error: &dyn DatabaseError| error.kind() != ErrorKind::Other;
    matches!(error, sqlx::Error::Encode(_)) || error.as_database_error().is_some_and(is_constraint)
}

async fn replace_node(
    connection: &mut SqliteConnection,
    window: &Range<TimeMs>,
    new: &Replacement<'_>,
) -> sqlx::Result<()> {
    if let Some(intervals) = new.intervals {
        INTERVALS.replace(connection, window, Some(new.place), intervals).await?;
        HOURS.replace(connection, window, Some(new.place), &RollUp::fold(intervals)).await?;
    }
    match new.outlook {
        Some(outlook) => outlook::replace(connection, new.place, window, outlook).await,
        None => Ok(()),
    }
}

/// The first that does not belong to the node and window, in words.
pub(super) fn misplaced(window: &Range<TimeMs>, new: &Replacement<'_>) -> Option<String> {
    let is_placed = |i: &Interval| Place::new(&i.cluster, &i.node) == new.place;
    let outside = |i: &&Interval| !is_placed(i) || i.start_ms < window.start || i.end_ms > window.end;
    let interval = new.intervals.unwrap_or_default().iter().find(outside).map(|interval| {
        let Interval { gpu, node: on, start_ms, end_ms, .. } = interval;
        format!("interval of {gpu} on {on} from {start_ms} to {end_ms}")
    });
    interval.or_else(|| outlook::misplaced(new.place, window, new.outlook?))
}
