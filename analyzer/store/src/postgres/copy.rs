//! Copies the results of a data directory, which another process may have open. Rows are copied as they are, with their
//! checksums; one that the embedded store would leave out is named and left out here.

mod reader;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use sqlx::{AssertSqlSafe, Connection as _, SqlSafeStr as _, SqliteConnection};
use tokio_stream::StreamExt as _;

use super::Postgres;
use super::results::NODE;
use super::write::{Change, Counted, Judged, Replaced, STARTING};
use crate::checked::Table;
use crate::columns::{ACHIEVED, ADVISORIES, HOURS, INTERVALS, RISKS, STANDINGS};
use crate::options::database_path;
use crate::row::Session as _;
use crate::{StoreError, database, delivery, events, outbox, ownership, rollup, series_rows, teams};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::HOUR_MS;
use reader::{Nodes, Reader, selected};

/// Says what is being done, how much of it is done, and how much there is.
pub type Tell<'t> = dyn FnMut(&'static str, u64, u64) + Send + 't;

/// Rows of a table, or what there is of them, by the table's name.
pub type Side = BTreeMap<&'static str, Counted>;

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// What was read in the directory.
    pub from: Side,
    /// What there is of it in PostgreSQL.
    pub to: Side,
    /// Damaged rows of the directory, which were left out.
    pub left_out: u64,
}

/// Tables of nodes.
static OF_NODES: [&Table; 5] = [&INTERVALS.table, &HOURS.table, &ADVISORIES.table, &RISKS.table, &STANDINGS.table];

/// Tables without windows, and what names a row.
static BY_KEY: [(&Table, &[&str]); 9] = [
    (&events::TABLE, &["id"]),
    (&events::ATTEMPTS, &["cluster", "run", "attempt"]),
    (&delivery::TABLE, &["week", "version", "destination"]),
    (&teams::VERSIONS, &["version"]),
    (&teams::TIMES, &["week", "team", "class", "currency"]),
    (&outbox::MESSAGES, &["destination", "contact", "week"]),
    (&outbox::UNSUBSCRIBED, &["destination", "contact"]),
    (&ownership::EVENTS, &["id", "seq"]),
    (&ownership::WEEKS, &["week", "id"]),
];

/// Rows of such a table that are copied at once.
const AT_ONCE: u64 = 5_000;

/// What is replaced in each table.
pub(super) fn replaced(hour: Range<TimeMs>) -> Vec<Replaced> {
    let of_nodes = OF_NODES.map(|table| Replaced::within(table, STARTING, &hour, &NODE)).into_iter();
    let achieved =
        [Replaced::within(&ACHIEVED.table, STARTING, &hour, &["cluster"]), Replaced::all(&ACHIEVED.table, &hour)];
    of_nodes.chain(achieved).chain(BY_KEY.map(|(table, key)| Replaced::by_key(table, key))).collect()
}

const WINDOWS: &str = "SELECT start_ms, end_ms FROM windows WHERE start_ms >= $1 AND start_ms < $2 ORDER BY start_ms";

/// Copies verdicts, roll-ups, events, deliveries, and which series of these metrics there are. What is there of the same nodes
/// and hours is replaced, so that copying can be interrupted and repeated. Counts both sides in the end.
pub async fn copy(dir: &Path, to: &Postgres, naming: &[String], tell: &mut Tell<'_>) -> Result<Copied, StoreError> {
    let path = database_path(dir);
    let source = database::look_into(&path).await?;
    let mut copying = Copying { source, path, to, copied: Copied::default(), whose: Nodes::default() };
    let extent = copying.hours(tell).await?;
    for (table, key) in BY_KEY {
        copying.by_key(table, key, tell).await?;
    }
    let series = series_rows::of_metrics(&mut copying.source, naming).await;
    to.note_series(&series.map_err(|error| copying.failed(error))?).await?;
    to.roll_up_days(&mut |done, all| tell("rolling up days", done, all)).await?;
    tell("comparing", 0, 1);
    copying.compare(&extent).await?;
    let Copying { source, path, copied, .. } = copying;
    source.close().await.map_err(|error| database::failed(&path, error))?;
    Ok(copied)
}

impl Copied {
    /// The tables whose rows are not all in PostgreSQL.
    pub fn differing(&self) -> impl Iterator<Item = &'static str> {
        let differ = self.from.iter().filter(|(table, counted)| self.to.get(*table) != Some(*counted));
        differ.map(|(table, _)| *table)
    }
}

/// What was read of an hour, by table; whose it is; its windows, and until when they were judged.
type Read<'t> = (Vec<Reader<'t>>, Nodes, Vec<(TimeMs, TimeMs)>);

struct Copying<'t> {
    source: SqliteConnection,
    path: PathBuf,
    to: &'t Postgres,
    copied: Copied,
    whose: Nodes,
}

impl<'t> Copying<'t> {
    fn failed(&self, error: sqlx::Error) -> StoreError {
        database::failed(&self.path, error)
    }

    /// Copies what begins in each hour. Returns from the first to the last of them.
    async fn hours(&mut self, tell: &mut Tell<'_>) -> Result<Range<TimeMs>, StoreError> {
        let last = self.edge("max", TimeMs::MIN).await?.unwrap_or(TimeMs::MIN);
        let mut extent = None::<Range<TimeMs>>;
        let mut next = self.edge("min", TimeMs::MIN).await?;
        while let Some(start) = next {
            let start = start.div_euclid(HOUR_MS) * HOUR_MS;
            let hour = start..start + HOUR_MS;
            let first = extent.get_or_insert_with(|| hour.clone());
            let of = |time: TimeMs| u64::try_from((time - first.start) / HOUR_MS).unwrap_or_default();
            tell("copying hours", of(start), of(last) + 1);
            first.end = hour.end;
            self.hour(&hour).await?;
            next = self.edge("min", hour.end).await?;
        }
        Ok(extent.unwrap_or_default())
    }

    /// The first or the last start of a row from a time on.
    async fn edge(&mut self, which: &str, from: TimeMs) -> Result<Option<TimeMs>, StoreError> {
        let mut found = Vec::new();
        for table in OF_NODES.iter().map(|table| table.name).chain([ACHIEVED.table.name, "windows"]) {
            let sql = AssertSqlSafe(format!("SELECT {which}(start_ms) FROM {table} WHERE start_ms >= $1"));
            let start: Result<Option<TimeMs>, _> = sqlx::query_scalar(sql).bind(from).fetch_one(&mut self.source).await;
            found.extend(start.map_err(|error| self.failed(error))?);
        }
        Ok(if which == "max" { found.into_iter().max() } else { found.into_iter().min() })
    }

    /// Copies what begins in an hour, in one transaction.
    async fn hour(&mut self, hour: &Range<TimeMs>) -> Result<(), StoreError> {
        let read = self.read(hour).await.map_err(|error| self.failed(error))?;
        let (readers, whose, windows) = read;
        let mut tables = Vec::with_capacity(readers.len());
        for reader in readers {
            let mut replaced = self.counted(reader);
            if replaced.table.name == ACHIEVED.table.name {
                whose.clusters.iter().for_each(|cluster| replaced.key([cluster.as_deref()]));
            } else {
                whose.nodes.iter().for_each(|(node, cluster)| replaced.key([Some(node.as_str()), cluster.as_deref()]));
            }
            tables.push(replaced);
        }
        let named: BTreeSet<&str> =
            whose.clusters.iter().map(|cluster| cluster.as_deref().unwrap_or_default()).collect();
        let clusters: Vec<String> = named.into_iter().map(str::to_owned).collect();
        let judged = |(start, until): (TimeMs, TimeMs)| Judged {
            clusters: clusters.clone(),
            window: start..start + HOUR_MS,
            until,
        };
        let judged = windows.into_iter().map(judged).collect();
        self.whose.extend(whose);
        self.to.write(Change { window: hour.clone(), tables, judged }).await
    }

    /// Counts what was read.
    fn counted(&mut self, reader: Reader<'_>) -> Replaced {
        *self.copied.from.entry(reader.replaced.table.name).or_default() += reader.counted;
        self.copied.left_out += reader.left_out;
        reader.replaced
    }

    /// The rows that begin in an hour, whose they are, and until when its windows were judged; all of one instant.
    async fn read(&mut self, hour: &Range<TimeMs>) -> sqlx::Result<Read<'t>> {
        let mut transaction = self.source.begin().await?;
        let rolled_from = rollup::rolled_from(&mut transaction).await?.unwrap_or(TimeMs::MIN);
        let (mut readers, mut whose) = (Vec::new(), Nodes::default());
        for table in OF_NODES {
            let mut reader = Reader::new(self.to, Replaced::within(table, STARTING, hour, &NODE));
            let are_sound = reader.rows(&mut transaction, hour, &mut whose).await?;
            if table.name == HOURS.table.name && (!are_sound || rolled_from > hour.start) {
                reader.folded(&mut transaction, hour, &mut whose).await?;
            }
            readers.push(reader);
        }
        let mut reader = Reader::new(self.to, Replaced::within(&ACHIEVED.table, STARTING, hour, &["cluster"]));
        reader.rows(&mut transaction, hour, &mut whose).await?;
        readers.push(reader);
        let windows = sqlx::query_as(WINDOWS).bind(hour.start).bind(hour.end).fetch_all(&mut *transaction).await?;
        Ok((readers, whose, windows))
    }

    /// Copies a table without windows, some rows at a time, and counts what arrived.
    async fn by_key(&mut self, table: &'static Table, key: &[&str], tell: &mut Tell<'_>) -> Result<(), StoreError> {
        let Self { source, path, to, copied, .. } = self;
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {}", table.name));
        let all: Result<i64, _> = sqlx::query_scalar(count).fetch_one(&mut *source).await;
        let all = all.map_err(|error| database::failed(path, error))?.unsigned_abs();
        let sql = AssertSqlSafe(format!("SELECT {} FROM {}", selected(table), table.name)).into_sql_str();
        let (mut rows, mut done, mut is_over) = (source.rows(sql, &[]), 0, false);
        while !is_over {
            tell("copying events", done, all);
            let mut reader = Reader::new(to, Replaced::by_key(table, key));
            let mut read = 0;
            while read < AT_ONCE && !is_over {
                match rows.try_next().await.map_err(|error| database::failed(path, error))? {
                    Some(fetched) => reader.keyed(fetched.row(), key),
                    None => is_over = true,
                }
                read += 1;
            }
            done += read;
            *copied.from.entry(table.name).or_default() += reader.counted;
            copied.left_out += reader.left_out;
            // The rows are gone from it once they are written.
            let keys = reader.replaced.keys_alone();
            to.write(Change { window: 0..0, tables: vec![reader.replaced], judged: Vec::new() }).await?;
            *copied.to.entry(table.name).or_default() +=
                keys.count(&to.pool).await.map_err(|error| to.failed(error))?;
        }
        Ok(())
    }

    /// Counts what there is of the directory's nodes.
    async fn compare(&mut self, extent: &Range<TimeMs>) -> Result<(), StoreError> {
        for table in OF_NODES.into_iter().chain([&ACHIEVED.table]) {
            let of_nodes = table.name != ACHIEVED.table.name;
            let mut asked = Replaced::within(table, STARTING, extent, if of_nodes { &NODE } else { &NODE[1..] });
            if of_nodes {
                self.whose
                    .nodes
                    .iter()
                    .for_each(|(node, cluster)| asked.key([Some(node.as_str()), cluster.as_deref()]));
            } else {
                self.whose.clusters.iter().for_each(|cluster| asked.key([cluster.as_deref()]));
            }
            let counted = asked.count(&self.to.pool).await.map_err(|error| self.to.failed(error))?;
            self.copied.to.insert(table.name, counted);
        }
        Ok(())
    }
}
