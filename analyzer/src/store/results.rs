//! Verdicts in SQLite.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;

use sqlx::error::{DatabaseError, ErrorKind};
use sqlx::pool::PoolConnection;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Connection as _, Row, Sqlite, SqliteConnection};

use super::checked::{self, Reading, Table, Value};
use super::database::Database;
use super::options::database_path;
use super::{
    Arrivals, History, Hole, Mark, Replacement, Results, Stats, Store, StoreError, Verdicts, Whose, application,
    database, delivery, events, judged, outlook,
};
use crate::application::Achieved;
use crate::classify::{Class, Culprit, Energy, Evidence, Interval, Version};
use crate::forecast::Outlook;
use crate::mig::Instance;
use crate::sample::TimeMs;

const INSERT: &str = "INSERT INTO intervals
    (node, start_ms, end_ms, gpu, model, owner, class, ms, confidence, busy_signal, evidence, missing,
    energy_mj, energy_ms, energy_counted_ms, charged_node, charged_gpu, gpu_instance, gpu_instance_profile,
    variance_ms2, rule_version, rules_version, run, account, cluster, checksum)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
    $24, $25, $26)";

const SELECT: &str = "SELECT node, start_ms, end_ms, gpu, model, owner, class, ms, confidence, busy_signal, evidence,
    missing, energy_mj, energy_ms, energy_counted_ms, charged_node, charged_gpu, gpu_instance, gpu_instance_profile,
    variance_ms2, rule_version, rules_version, run, account, cluster, checksum FROM intervals
    WHERE start_ms >= $1 AND end_ms <= $2";

const ORDER: &str = "ORDER BY node, gpu, start_ms, class, owner NULLS FIRST,
    charged_node NULLS FIRST, charged_gpu NULLS FIRST,
    gpu_instance NULLS FIRST, gpu_instance_profile NULLS FIRST";

const DELETE: &str = "DELETE FROM intervals WHERE node = $1 AND start_ms >= $2 AND end_ms <= $3";

pub(super) static TABLE: Table = Table {
    name: "intervals",
    columns: &[
        "node",
        "start_ms",
        "end_ms",
        "gpu",
        "model",
        "owner",
        "class",
        "ms",
        "confidence",
        "busy_signal",
        "evidence",
        "missing",
        "energy_mj",
        "energy_ms",
        "energy_counted_ms",
        "charged_node",
        "charged_gpu",
        "gpu_instance",
        "gpu_instance_profile",
        "variance_ms2",
        "rule_version",
        "rules_version",
        "run",
        "account",
        "cluster",
    ],
    key: "rowid",
    has_window: true,
    decode: |row| decode(row).map(drop),
};

/// What intervals can be chosen by.
const CONDITIONS: [&str; 8] = ["cluster", "node", "gpu", "owner", "run", "account", "class", "charged_gpu"];

/// Every statement on results. SQLite and PostgreSQL understand them alike, which `tests/tests/postgres.rs` holds them to.
#[must_use]
pub fn statements() -> Vec<String> {
    let chosen = (0..1 << CONDITIONS.len()).map(|choice: u32| {
        let columns = (0..).zip(CONDITIONS).filter(|(n, _)| choice >> n & 1 == 1).map(|(_, column)| column);
        selection(columns)
    });
    let fixed = [INSERT, DELETE].iter().chain(&outlook::STATEMENTS).chain(&application::STATEMENTS);
    let fixed = fixed
        .chain(&delivery::STATEMENTS)
        .chain(&judged::STATEMENTS)
        .chain(&events::STATEMENTS)
        .map(|sql| (*sql).to_owned());
    chosen.chain(fixed).chain(judged::TABLES.map(judged::forget)).chain(judged::TABLES.map(judged::across)).collect()
}

/// The intervals of a window where these columns have given values, with a limit and an offset.
fn selection<'a>(columns: impl Iterator<Item = &'a str>) -> String {
    let mut next = 3;
    let mut sql = SELECT.to_owned();
    // Conditions that are not there leave the choice of index to those that are.
    for column in columns {
        sql += &format!(" AND {column} = ${next}");
        next += 1;
    }
    format!("{sql} {ORDER} LIMIT ${next} OFFSET ${}", next + 1)
}

impl Results for Store {
    async fn replace_window(
        &self,
        window: Range<TimeMs>,
        nodes: &[Replacement<'_>],
    ) -> Result<Vec<(String, StoreError)>, StoreError> {
        let database = &self.shared.database;
        let mut replaced = replace(database, &window, nodes, false).await;
        if let Err(error) = &replaced
            && checked::is_damage(error)
        {
            self.shared.heal(error).await;
            replaced = replace(database, &window, nodes, true).await;
        }
        self.shared.changes.lock().within(&window);
        replaced.map_err(|error| database.failed(error))
    }

    async fn intervals_of(&self, window: Range<TimeMs>, whose: &Whose) -> Result<Vec<Interval>, StoreError> {
        read!(self, |connection, reading| select(connection, &mut reading, &window, whose))
    }

    async fn outlook(&self, window: Range<TimeMs>) -> Result<Outlook, StoreError> {
        read!(self, |connection, reading| outlook::select(connection, &mut reading, &window))
    }

    async fn history(&self, window: Range<TimeMs>) -> Result<History, StoreError> {
        read!(self, |connection, reading| events::select(connection, &mut reading, &window))
    }

    fn version(&self, window: &Range<TimeMs>) -> u64 {
        self.shared.changes.lock().version(window)
    }

    fn lost_windows(&self) -> Vec<Range<TimeMs>> {
        self.shared.lost_windows()
    }

    async fn note_rejudged(&self, window: &Range<TimeMs>, judged: bool) -> Result<(), StoreError> {
        let noted = self.shared.note_rejudged(window, judged).await;
        noted.map_err(|error| self.shared.database.failed(error))
    }

    async fn hours_across(&self, into_hour_ms: i64) -> Result<Vec<TimeMs>, StoreError> {
        let database = &self.shared.database;
        database.hours_across(into_hour_ms).await.map_err(|error| database.failed(error))
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

    fn holes(&self) -> Vec<Hole> {
        self.shared.state.read().holes.clone()
    }

    fn raw_from(&self) -> Option<TimeMs> {
        self.shared.state.read().raw_from
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

    async fn replace_achieved(&self, window: Range<TimeMs>, achieved: &[Achieved]) -> Result<(), StoreError> {
        self.replace_rows(&window, achieved).await
    }

    async fn achieved(&self, window: Range<TimeMs>) -> Result<Vec<Achieved>, StoreError> {
        read!(self, |connection, reading| application::select(connection, &mut reading, &window))
    }
}

impl Store {
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
            let mut $reading = crate::store::checked::Reading::up_to($store.max_rows);
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

/// Reads what is stored of a period in a data directory that another process may have open; as [`Results::verdicts`].
/// Rows that cannot be read are left out and named in the log.
pub async fn read_verdicts(dir: &Path, window: Range<TimeMs>) -> Result<Verdicts, StoreError> {
    let path = database_path(dir);
    let mut connection = database::look_into(&path).await?;
    let mut reading = Reading::default();
    let read = async {
        let intervals = select(&mut connection, &mut reading, &window, &Whose::default()).await?;
        let outlook = outlook::select(&mut connection, &mut reading, &window).await?;
        let achieved = application::select(&mut connection, &mut reading, &window).await?;
        let history = events::select(&mut connection, &mut reading, &window).await?;
        Ok(Verdicts { intervals, outlook, achieved, history })
    };
    let read = read.await.map_err(|error| database::failed(&path, error))?;
    reading.warn();
    Ok(read)
}

async fn select(
    connection: &mut SqliteConnection,
    reading: &mut Reading,
    window: &Range<TimeMs>,
    whose: &Whose,
) -> sqlx::Result<Vec<Interval>> {
    let class = whose.class.map(|class| class.name().to_owned());
    let values =
        [&whose.cluster, &whose.node, &whose.gpu, &whose.owner, &whose.run, &whose.account, &class, &whose.charged_to];
    let given = || CONDITIONS.into_iter().zip(values).filter_map(|(column, value)| Some((column, value.as_ref()?)));
    let mut query = sqlx::query(AssertSqlSafe(selection(given().map(|(column, _)| column))));
    query = query.bind(window.start).bind(window.end);
    for (_, value) in given() {
        query = query.bind(value.clone());
    }
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    query = query.bind(whose.limit.map_or(i64::MAX, number)).bind(number(whose.skip));
    reading.all(connection, &TABLE, query, (IN_WINDOW, &in_window(window)), decode).await
}

/// The rows of a window, in any table that has windows.
pub(super) const IN_WINDOW: &str = "start_ms >= $1 AND end_ms <= $2";

pub(super) fn in_window(window: &Range<TimeMs>) -> [Value<'static>; 2] {
    [window.start.into(), window.end.into()]
}

/// All nodes of a window in one transaction. Returns the nodes that cannot be stored; they keep what they had. Damage that
/// the rows of one node meet costs that node alone, where `around_damage` is true.
async fn replace(
    database: &Database,
    window: &Range<TimeMs>,
    nodes: &[Replacement<'_>],
    around_damage: bool,
) -> sqlx::Result<Vec<(String, StoreError)>> {
    let mut refused = Vec::new();
    let mut transaction = database.begin().await?;
    for new in nodes {
        if let Some(what) = misplaced(window, new) {
            let (node, window) = (new.node.to_owned(), window.clone());
            refused.push((node.clone(), StoreError::OutsideWindow { what, node, window }));
            continue;
        }
        let mut savepoint = transaction.begin().await?;
        match replace_node(&mut savepoint, window, new).await {
            Ok(()) => savepoint.commit().await?,
            Err(error) if is_of_its_rows(&error) || around_damage && checked::is_damage(&error) => {
                savepoint.rollback().await?;
                refused.push((new.node.to_owned(), database.failed(error)));
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
        sqlx::query(DELETE).bind(new.node).bind(window.start).bind(window.end).execute(&mut *connection).await?;
        for interval in intervals {
            insert(connection, interval).await?;
        }
    }
    match new.outlook {
        Some(outlook) => outlook::replace(connection, new.node, window, outlook).await,
        None => Ok(()),
    }
}

/// The first that does not belong to the node and window, in words.
fn misplaced(window: &Range<TimeMs>, new: &Replacement<'_>) -> Option<String> {
    let outside = |i: &&Interval| i.node != new.node || i.start_ms < window.start || i.end_ms > window.end;
    let interval = new.intervals.unwrap_or_default().iter().find(outside).map(|interval| {
        let Interval { gpu, node: on, start_ms, end_ms, .. } = interval;
        format!("interval of {gpu} on {on} from {start_ms} to {end_ms}")
    });
    interval.or_else(|| outlook::misplaced(new.node, window, new.outlook?))
}

async fn insert(connection: &mut SqliteConnection, interval: &Interval) -> sqlx::Result<()> {
    let missing = serde_json::to_string(&interval.missing).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let values: [Value<'_>; 25] = [
        (&interval.node).into(),
        interval.start_ms.into(),
        interval.end_ms.into(),
        (&interval.gpu).into(),
        interval.model.as_ref().into(),
        interval.owner.as_ref().into(),
        interval.class.name().into(),
        interval.ms.into(),
        interval.confidence.into(),
        interval.busy_signal.as_ref().into(),
        encode_evidence(&interval.evidence)?.into(),
        missing.into(),
        interval.energy.map(|e| e.mj).into(),
        interval.energy.map(|e| e.ms).into(),
        interval.energy.map(|e| e.counted_ms).into(),
        interval.charged_to.as_ref().map(|culprit| &culprit.node).into(),
        interval.charged_to.as_ref().map(|culprit| &culprit.gpu).into(),
        interval.gpu_instance.as_ref().map(|instance| i64::from(instance.id)).into(),
        interval.gpu_instance.as_ref().and_then(|instance| instance.profile.as_ref()).into(),
        interval.variance_ms2.into(),
        interval.version.map(|version| version.rule).into(),
        interval.version.map(|version| version.rules).into(),
        interval.run.as_ref().into(),
        interval.account.as_ref().into(),
        interval.cluster.as_ref().into(),
    ];
    checked::insert(connection, INSERT, &values, &[]).await
}

/// JSON has no NaN; it would be written as null and never be read again.
pub(super) fn encode_evidence(evidence: &[Evidence]) -> sqlx::Result<String> {
    if let Some(evidence) = evidence.iter().find(|e| !e.value.is_finite() || !e.threshold.is_finite()) {
        return Err(sqlx::Error::Encode(format!("evidence {} is not a finite number", evidence.signal).into()));
    }
    serde_json::to_string(evidence).map_err(|error| sqlx::Error::Encode(error.into()))
}

fn decode(row: &SqliteRow) -> sqlx::Result<Interval> {
    let name: &str = row.try_get("class")?;
    let class = Class::ALL.iter().copied().find(|class| class.name() == name);
    let (evidence, missing): (&str, &str) = (row.try_get("evidence")?, row.try_get("missing")?);
    Ok(Interval {
        gpu: row.try_get("gpu")?,
        gpu_instance: instance(row)?,
        cluster: row.try_get("cluster")?,
        node: row.try_get("node")?,
        model: row.try_get("model")?,
        owner: row.try_get("owner")?,
        run: row.try_get("run")?,
        account: row.try_get("account")?,
        class: class.ok_or_else(|| sqlx::Error::Decode(format!("unknown class {name}").into()))?,
        charged_to: culprit(row)?,
        start_ms: row.try_get("start_ms")?,
        end_ms: row.try_get("end_ms")?,
        ms: row.try_get("ms")?,
        confidence: row.try_get("confidence")?,
        busy_signal: row.try_get("busy_signal")?,
        evidence: serde_json::from_str(evidence).map_err(|error| sqlx::Error::Decode(error.into()))?,
        missing: serde_json::from_str(missing).map_err(|error| sqlx::Error::Decode(error.into()))?,
        energy: energy(row)?,
        variance_ms2: row.try_get("variance_ms2")?,
        version: version(row)?,
    })
}

/// Rows of releases whose rules had no versions have none.
fn version(row: &SqliteRow) -> sqlx::Result<Option<Version>> {
    let (rule, rules): (Option<u32>, Option<u32>) = (row.try_get("rule_version")?, row.try_get("rules_version")?);
    Ok(rule.zip(rules).map(|(rule, rules)| Version { rule, rules }))
}

/// Rows of releases before instances were judged have none.
fn instance(row: &SqliteRow) -> sqlx::Result<Option<Instance>> {
    let Some(id) = row.try_get("gpu_instance")? else { return Ok(None) };
    Ok(Some(Instance { id, profile: row.try_get("gpu_instance_profile")? }))
}

/// Rows of releases before there were culprits have none.
fn culprit(row: &SqliteRow) -> sqlx::Result<Option<Culprit>> {
    let (node, gpu): (Option<String>, Option<String>) = (row.try_get("charged_node")?, row.try_get("charged_gpu")?);
    Ok(node.zip(gpu).map(|(node, gpu)| Culprit { node, gpu }))
}

/// Rows of releases before there was energy have none.
fn energy(row: &SqliteRow) -> sqlx::Result<Option<Energy>> {
    let Some(mj) = row.try_get("energy_mj")? else { return Ok(None) };
    Ok(Some(Energy { mj, ms: row.try_get("energy_ms")?, counted_ms: row.try_get("energy_counted_ms")? }))
}
