//! The catalogue's rows in SQLite: how they are written, checked, and made again from segments, which name their series.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, SqliteConnection};
use tokio_stream::StreamExt as _;
use tracing::{error, info, warn};

use super::StoreError;
use super::bad_rows::{self, BadRow};
use super::catalogue::SeriesId;
use super::checked::{self, Table};
use super::database::Database;
use super::embedded::Shared;
use super::segment::about;
use super::segments::Segment;
use goodput_exposition::sample::Labels;

/// The table, as one that rows are set aside from.
static TABLE: Table =
    Table { name: "series", columns: &["id", "labels"], key: "rowid", has_window: false, decode: |_| Ok(()) };

/// A row that cannot be read, or is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadSeries {
    pub(super) id: i64,
    pub(super) reason: String,
    /// The labels, as far as they can be read.
    content: String,
}

impl BadSeries {
    pub(super) fn describe(&self) -> String {
        format!("row {} of {}: {}", self.id, TABLE.name, self.reason)
    }
}

/// All rows, in order of id.
#[derive(Debug, Default)]
pub(super) struct SeriesRows {
    pub(super) good: Vec<(SeriesId, Labels)>,
    pub(super) bad: Vec<BadSeries>,
}

/// Labels as they are stored.
pub(super) fn json(labels: &Labels) -> sqlx::Result<String> {
    let pairs: BTreeMap<_, _> = labels.iter().collect();
    serde_json::to_string(&pairs).map_err(|error| sqlx::Error::Encode(error.into()))
}

/// What [`json`] made.
pub(super) fn labels(json: &str) -> Result<Labels, String> {
    let pairs: BTreeMap<String, String> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    Ok(Labels::new(pairs))
}

/// Over the id too: a row under another id would give its labels to another series' samples.
fn checksum(id: i64, json: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&id.to_le_bytes());
    hasher.update(json.as_bytes());
    hasher.finalize()
}

/// Writes new series; a row that is there stays.
pub(super) async fn insert(connection: &mut SqliteConnection, series: &[(SeriesId, Labels)]) -> sqlx::Result<()> {
    write(connection, series, " ON CONFLICT (id) DO NOTHING").await
}

/// Writes series in place of what their rows hold.
pub(super) async fn replace(connection: &mut SqliteConnection, series: &[(SeriesId, Labels)]) -> sqlx::Result<()> {
    let conflict = " ON CONFLICT (id) DO UPDATE SET labels = excluded.labels, checksum = excluded.checksum";
    write(connection, series, conflict).await
}

/// Series of a statement: three values each, of the 32,766 that SQLite takes at most (SQLITE_MAX_VARIABLE_NUMBER).
const AT_ONCE: usize = 1000;

async fn write(
    connection: &mut SqliteConnection,
    series: &[(SeriesId, Labels)],
    conflict: &'static str,
) -> sqlx::Result<()> {
    // A statement is a way to the connection's thread and back, which costs more than the row.
    for series in series.chunks(AT_ONCE) {
        let mut insert = QueryBuilder::new("INSERT INTO series (id, labels, checksum) ");
        let rows = series.iter().map(|(id, labels)| Ok((i64::from(id.0), json(labels)?)));
        let rows = rows.collect::<sqlx::Result<Vec<_>>>()?;
        insert.push_values(rows, |mut row, (id, labels)| {
            let checksum = checksum(id, &labels);
            row.push_bind(id).push_bind(labels).push_bind(checksum);
        });
        insert.push(conflict);
        insert.build().persistent(false).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Every row of the catalogue.
pub(super) async fn read(connection: &mut SqliteConnection) -> sqlx::Result<SeriesRows> {
    let mut found = SeriesRows::default();
    // Row by row: SQLite's copy of a row takes several times the memory of what it becomes.
    let mut rows = sqlx::query("SELECT id, labels, checksum FROM series ORDER BY id").fetch(connection);
    while let Some(row) = rows.try_next().await? {
        let id: i64 = row.try_get("id")?;
        match decode(id, &row) {
            Ok(series) => found.good.push(series),
            Err(reason) => found.bad.push(BadSeries { id, reason, content: content(&row) }),
        }
    }
    Ok(found)
}

/// The sound rows of series of these metrics; none where the table is damaged, which costs what is read beside it nothing.
pub(super) async fn of_metrics(connection: &mut SqliteConnection, metrics: &[String]) -> sqlx::Result<Vec<Labels>> {
    match select(connection, metrics).await {
        Err(error) if checked::is_damage(&error) => {
            warn!(%error, "the catalogue of series cannot be read; GPUs are named by their UUIDs");
            Ok(Vec::new())
        }
        read => read,
    }
}

async fn select(connection: &mut SqliteConnection, metrics: &[String]) -> sqlx::Result<Vec<Labels>> {
    let mut query = QueryBuilder::new("SELECT id, labels, checksum FROM series WHERE ");
    let mut any = query.separated(" OR ");
    for metric in metrics {
        any.push("instr(labels, ").push_bind_unseparated(of_metric(metric)?).push_unseparated(") > 0");
    }
    let rows = query.build().persistent(false).fetch_all(connection).await?;
    let sound = rows.iter().filter_map(|row| decode(row.try_get("id").ok()?, row).ok());
    Ok(sound.map(|(_, labels)| labels).filter(|labels| metrics.iter().any(|m| m == labels.metric())).collect())
}

/// What the stored labels of a series of the metric have in them.
fn of_metric(metric: &str) -> sqlx::Result<String> {
    let name = serde_json::to_string(metric).map_err(|error| sqlx::Error::Encode(error.into()))?;
    Ok(format!("\"__name__\":{name}"))
}

fn decode(id: i64, row: &SqliteRow) -> Result<(SeriesId, Labels), String> {
    let text: &str = row.try_get("labels").map_err(|error| error.to_string())?;
    let stored: Option<i64> = row.try_get("checksum").map_err(|error| error.to_string())?;
    let found = i64::from(checksum(id, text));
    if let Some(stored) = stored.filter(|stored| *stored != found) {
        return Err(format!("its checksum is {stored:08x}, that of its id and labels is {found:08x}"));
    }
    let id = u32::try_from(id).map_err(|_| "its id is out of range".to_owned())?;
    Ok((SeriesId(id), labels(text)?))
}

fn content(row: &SqliteRow) -> String {
    let bytes = row.try_get_unchecked::<Vec<u8>, _>("labels").unwrap_or_default();
    serde_json::json!({ "labels": String::from_utf8_lossy(&bytes) }).to_string()
}

impl Database {
    /// The sound rows; bad ones are named in the log.
    pub(super) async fn series(&self) -> sqlx::Result<Vec<(SeriesId, Labels)>> {
        let SeriesRows { good, bad } = self.series_rows().await?;
        bad.iter().for_each(warn_left_out);
        Ok(good)
    }

    async fn series_rows(&self) -> sqlx::Result<SeriesRows> {
        read(&mut *self.read.acquire().await?).await
    }
}

fn warn_left_out(BadSeries { id, reason, .. }: &BadSeries) {
    warn!(series = id, reason, "bad row of the catalogue left out; its samples are not served");
}

/// What segments say of the series that the catalogue lacks.
#[derive(Default)]
struct Named {
    series: BTreeMap<SeriesId, Labels>,
    /// Segments that cannot be asked.
    silent: Vec<Arc<Segment>>,
}

impl Shared {
    /// Fills the catalogue. Bad rows are made again from the segments that name their series; one that no segment can hold
    /// samples of is set aside.
    pub(super) async fn load_catalogue(&self) -> Result<(), StoreError> {
        let SeriesRows { good, bad } = self.query(self.database.series_rows()).await?;
        {
            let catalogue = &mut *self.catalogue.write();
            good.into_iter().for_each(|(id, labels)| catalogue.insert(id, labels));
        }
        if bad.is_empty() {
            return Ok(());
        }
        let segments = self.query(self.database.segments()).await?;
        let Named { series, silent } = self.ask_segments(segments, &bad).await;
        let rows: Vec<(SeriesId, Labels)> = series.into_iter().collect();
        let is_named = |row: &BadSeries| rows.iter().any(|(id, _)| i64::from(id.0) == row.id);
        let (useless, left): (Vec<_>, Vec<_>) =
            bad.into_iter().filter(|row| !is_named(row)).partition(|row| silent.iter().all(|s| !s.may_name(row.id)));
        left.iter().for_each(warn_left_out);
        self.store_restored(&rows, &useless).await;
        let catalogue = &mut *self.catalogue.write();
        rows.into_iter().for_each(|(id, labels)| catalogue.insert(id, labels));
        Ok(())
    }

    /// Asks segments, the newest first, until every bad row is known. A row that has another id than it had hides one more
    /// series: so all series that the catalogue lacks are taken.
    async fn ask_segments(&self, segments: Vec<Segment>, bad: &[BadSeries]) -> Named {
        let (mut named, dir) = (Named::default(), self.options.segments());
        let mut wanted: BTreeSet<i64> = bad.iter().map(|row| row.id).collect();
        for segment in segments.into_iter().rev().map(Arc::new) {
            if wanted.is_empty() {
                break;
            }
            let (dir, asked) = (dir.clone(), Arc::clone(&segment));
            let described = tokio::task::spawn_blocking(move || {
                let bytes = asked.load(&dir).map_err(|error| error.to_string())?;
                about::describe(&bytes)
            });
            // A read that fails or panics does not say that the segment lacks a series.
            let Ok(Ok(described)) = described.await else {
                named.silent.push(segment);
                continue;
            };
            let catalogue = self.catalogue.read();
            for (id, labels) in described.series {
                if catalogue.labels(id).is_none() && catalogue.id(labels.as_ref()).is_none() {
                    wanted.remove(&i64::from(id.0));
                    named.series.insert(id, labels);
                }
            }
        }
        named
    }

    async fn store_restored(&self, restored: &[(SeriesId, Labels)], useless: &[BadSeries]) {
        let bad = |row: &BadSeries| BadRow::of(&TABLE, row.id.to_string(), row.reason.clone(), row.content.clone());
        let aside: Vec<BadRow> = useless.iter().map(bad).collect();
        let stored = async {
            let mut transaction = self.database.begin().await?;
            replace(&mut transaction, restored).await?;
            bad_rows::set_aside(&mut transaction, &aside, (self.options.now)()).await?;
            transaction.commit().await
        };
        match stored.await {
            Ok(()) => {
                for (id, labels) in restored {
                    info!(series = id.0, ?labels, "bad or lost row of the catalogue made again from a segment");
                }
                self.note_bad_rows(&aside);
            }
            Err(error) => error!(%error, "rows of the catalogue cannot be made again; the next start tries again"),
        }
    }
}

impl Segment {
    /// May it hold samples of a series of this id, by its index entry?
    fn may_name(&self, id: i64) -> bool {
        self.groups.iter().any(|g| (i64::from(g.first_series.0)..=i64::from(g.last_series.0)).contains(&id))
    }
}
