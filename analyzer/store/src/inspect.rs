//! A data directory looked at from outside, also while a server has it: what it holds, and whether all of it is sound.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sqlx::{Connection as _, Row, SqliteConnection};

use super::bad_rows::{self, RowAside};
use super::catalogue::SeriesId;
use super::columns::DAYS;
use super::options::{database_path, segments_path, unknown_path};
use super::segments::Segment;
use super::series_rows::{self, BadSeries, SeriesRows};
use super::{StoreError, aside, database, index, judged, segment, write_ahead};
use goodput_exposition::sample::{Sample, TimeMs};

/// What a data directory holds. Times are milliseconds since the Unix epoch, UTC.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Version of the schema.
    pub schema: i64,
    /// Series in the catalogue.
    pub series: u64,
    /// Segments in the index.
    pub segments: Held,
    /// Samples acknowledged and not yet in a segment; one row per group commit.
    pub write_ahead: Written,
    /// Size of the database file, its journal included.
    pub database_bytes: u64,
    /// Samples before this were removed by retention.
    pub raw_from_ms: Option<TimeMs>,
    /// Verdicts by kind.
    pub verdicts: Vec<Rows>,
    /// What is damaged and was set aside.
    pub quarantine: Vec<SetAside>,
    /// Files in `unknown/`.
    pub unknown_files: u64,
    /// Acknowledged samples that starts have found missing.
    pub missing_samples: u64,
    /// Segments of the index whose files are absent.
    pub absent_segments: Vec<String>,
    /// Rows of results and events that could not be read and were set aside.
    pub bad_rows: Vec<RowAside>,
}

/// Segments and what is in them.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// Files.
    pub count: u64,
    /// Their size.
    pub bytes: u64,
    /// Samples in them.
    pub samples: u64,
    /// Time of the first sample.
    pub first_ms: Option<TimeMs>,
    /// Time of the last one.
    pub last_ms: Option<TimeMs>,
}

/// The write-ahead.
#[derive(Clone, Debug, Serialize)]
pub struct Written {
    /// Group commits.
    pub rows: u64,
    /// Their size.
    pub bytes: u64,
}

/// Rows of one kind of verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Rows {
    /// Kind.
    pub name: &'static str,
    /// How many.
    pub rows: u64,
    /// Start of the first one.
    pub first_ms: Option<TimeMs>,
    /// End of the last one.
    pub last_ms: Option<TimeMs>,
}

/// Something in `quarantine/`.
#[derive(Clone, Debug, Serialize)]
pub struct SetAside {
    /// File.
    pub name: String,
    /// Why.
    pub reason: String,
    /// When it was found.
    pub found_ms: TimeMs,
}

/// What was read, and what is wrong.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Segments that were read.
    pub segments: u64,
    /// Samples in them.
    pub samples: u64,
    /// Write-ahead rows that were read.
    pub write_ahead: u64,
    /// What is wrong: file or row, and how.
    pub problems: Vec<Problem>,
    /// Rows of the catalogue, results and events that are bad, and those that were set aside before.
    pub bad_rows: Vec<Problem>,
}

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// Tells how far something has come: done and all, in bytes.
pub type Tell<'a> = &'a mut dyn FnMut(u64, u64);

/// Counts and sizes of a data directory, which another process may have open.
pub async fn status(dir: &Path) -> Result<Status, StoreError> {
    let path = database_path(dir);
    let mut connection = database::look_into(&path).await?;
    let read = async {
        let mut transaction = connection.begin().await?;
        count(&mut transaction, &path).await
    };
    let mut status = read.await.map_err(|error| database::failed(&path, error))?;
    let segments = index::segments(&mut connection).await.map_err(|error| database::failed(&path, error))?;
    let absent = segments.iter().filter(|segment| segment.is_absent(&segments_path(dir)));
    status.absent_segments = absent.map(Segment::file_name).collect();
    let unknown = unknown_path(dir);
    status.unknown_files = aside::count(&unknown).map_err(|error| StoreError::Io { path: unknown, error })?;
    Ok(status)
}

async fn count(connection: &mut SqliteConnection, path: &Path) -> sqlx::Result<Status> {
    let sql =
        "SELECT count(*), coalesce(sum(bytes), 0), coalesce(sum(rows), 0), min(first_ms), max(last_ms) FROM segments";
    let (count, bytes, samples, first_ms, last_ms): (i64, i64, i64, _, _) =
        sqlx::query_as(sql).fetch_one(&mut *connection).await?;
    let segments = Held {
        count: count.cast_unsigned(),
        bytes: bytes.cast_unsigned(),
        samples: samples.cast_unsigned(),
        first_ms,
        last_ms,
    };
    let sql = "SELECT count(*), coalesce(sum(length(samples)), 0) FROM write_ahead";
    let (rows, bytes): (i64, i64) = sqlx::query_as(sql).fetch_one(&mut *connection).await?;
    let series: i64 = sqlx::query_scalar("SELECT count(*) FROM series").fetch_one(&mut *connection).await?;
    let mut verdicts = Vec::new();
    for name in judged::TABLES.into_iter().chain([DAYS.table.name]) {
        let sql = sqlx::AssertSqlSafe(format!("SELECT count(*), min(start_ms), max(end_ms) FROM {name}"));
        let (rows, first_ms, last_ms): (i64, _, _) = sqlx::query_as(sql).fetch_one(&mut *connection).await?;
        verdicts.push(Rows { name, rows: rows.cast_unsigned(), first_ms, last_ms });
    }
    let rows_aside = sqlx::query("SELECT name, reason, found_ms FROM quarantine").fetch_all(&mut *connection).await?;
    let set_aside = |row: &sqlx::sqlite::SqliteRow| {
        Ok(SetAside { name: row.try_get(0)?, reason: row.try_get(1)?, found_ms: row.try_get(2)? })
    };
    let sql = "SELECT coalesce(sum(samples), 0) FROM missing";
    let missing: i64 = sqlx::query_scalar(sql).fetch_one(&mut *connection).await?;
    Ok(Status {
        schema: sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations").fetch_one(&mut *connection).await?,
        series: series.cast_unsigned(),
        segments,
        write_ahead: Written { rows: rows.cast_unsigned(), bytes: bytes.cast_unsigned() },
        database_bytes: length(path) + length(&path.with_extension("db-wal")),
        raw_from_ms: sqlx::query_scalar("SELECT raw_from_ms FROM upkeep").fetch_one(&mut *connection).await?,
        verdicts,
        quarantine: rows_aside.iter().map(set_aside).collect::<sqlx::Result<_>>()?,
        unknown_files: 0,
        missing_samples: missing.cast_unsigned(),
        absent_segments: Vec::new(),
        bad_rows: bad_rows::list(connection).await?,
    })
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

/// Reads every segment, every write-ahead row and every row of results and events of a data directory, which another
/// process may have open, and compares them with checksums, order and index.
pub async fn verify(dir: &Path, tell: Tell<'_>) -> Result<Verified, StoreError> {
    let path = database_path(dir);
    let mut connection = database::look_into(&path).await?;
    let mut found = Verified::default();
    let read = async {
        let mut transaction = connection.begin().await?;
        // Unlike quick_check it holds every index against its table.
        let sql = "PRAGMA integrity_check";
        for line in sqlx::query_scalar::<_, String>(sql).fetch_all(&mut *transaction).await? {
            if line != "ok" {
                found.problems.push(Problem { path: path.clone(), reason: line });
            }
        }
        let SeriesRows { good, bad } = series_rows::read(&mut transaction).await?;
        let series = good.into_iter().map(|(id, _)| id).collect();
        let segments = index::segments(&mut transaction).await?;
        check_rows(&mut transaction, &path, &bad, &mut found).await?;
        check_write_ahead(&mut transaction, &path, &series, &mut found).await?;
        Ok::<_, sqlx::Error>((series, segments))
    };
    let (series, segments) = match read.await {
        Ok(read) => read,
        // What is known already is worth more than the error alone.
        Err(error) if !found.problems.is_empty() => {
            found.problems.push(Problem { path, reason: error.to_string() });
            return Ok(found);
        }
        Err(error) => return Err(database::failed(&path, error)),
    };
    let all = segments.iter().map(|segment| segment.bytes).sum();
    let mut done = 0;
    for segment in &segments {
        tell(done, all);
        done += segment.bytes;
        match check_segment(&segments_path(dir), segment, &series) {
            Ok(()) => {
                found.segments += 1;
                found.samples += segment.rows() as u64;
            }
            Err(reason) => {
                // A server may have merged or removed it meanwhile.
                let indexed = is_indexed(&mut connection, segment.id).await;
                if indexed.map_err(|error| database::failed(&path, error))? {
                    found.problems.push(Problem { path: segments_path(dir).join(segment.file_name()), reason });
                }
            }
        }
    }
    // To the end, so that none of SQLite's files lies about.
    connection.close().await.map_err(|error| database::failed(&path, error))?;
    Ok(found)
}

async fn is_indexed(connection: &mut SqliteConnection, id: i64) -> sqlx::Result<bool> {
    let sql = "SELECT id FROM segments WHERE id = $1";
    Ok(sqlx::query_scalar::<_, i64>(sql).bind(id).fetch_optional(connection).await?.is_some())
}

/// Rows that are bad, and those that were set aside. A table that cannot be read to its end is a problem of the file.
async fn check_rows(
    connection: &mut SqliteConnection,
    path: &Path,
    series: &[BadSeries],
    found: &mut Verified,
) -> sqlx::Result<()> {
    let problem = |reason| Problem { path: path.to_owned(), reason };
    found.bad_rows.extend(series.iter().map(|row| problem(row.describe())));
    for table in bad_rows::TABLES {
        match bad_rows::find(&mut *connection, table, "1 = 1", &[]).await {
            Ok(rows) => found.bad_rows.extend(rows.bad.iter().map(|row| problem(row.describe()))),
            Err(error) => found.problems.push(problem(format!("table {}: {error}", table.name))),
        }
    }
    let aside = |row: RowAside| {
        problem(format!("row {} of {} was set aside in the table bad_rows: {}", row.place, row.name, row.reason))
    };
    found.bad_rows.extend(bad_rows::list(connection).await?.into_iter().map(aside));
    Ok(())
}

async fn check_write_ahead(
    connection: &mut SqliteConnection,
    path: &Path,
    series: &BTreeSet<SeriesId>,
    found: &mut Verified,
) -> sqlx::Result<()> {
    let mut last = i64::MIN;
    while let Some((seq, checksum, bytes)) = database::write_ahead_after(&mut *connection, last).await? {
        last = seq;
        found.write_ahead += 1;
        let checked = write_ahead::open(checksum, &bytes).and_then(|rows| {
            in_order(&rows)?;
            rows.iter().try_for_each(|(id, _)| known(*id, series))
        });
        if let Err(reason) = checked {
            found.problems.push(Problem { path: path.to_owned(), reason: format!("write-ahead row {seq}: {reason}") });
        }
    }
    Ok(())
}

fn known(id: SeriesId, series: &BTreeSet<SeriesId>) -> Result<(), String> {
    if series.contains(&id) { Ok(()) } else { Err(format!("series {} is not in the catalogue", id.0)) }
}

pub(super) fn in_order(rows: &[(SeriesId, Sample)]) -> Result<(), String> {
    let key = |(id, sample): &(SeriesId, Sample)| (*id, sample.time_ms);
    match rows.windows(2).find(|pair| key(&pair[0]) >= key(&pair[1])) {
        Some(pair) => Err(format!("series {} at {} ms is out of order", pair[1].0.0, pair[1].1.time_ms)),
        None => Ok(()),
    }
}

fn check_segment(dir: &Path, segment: &Segment, series: &BTreeSet<SeriesId>) -> Result<(), String> {
    if !segment.is_sound {
        return Err("its index entry is not as it was written".to_owned());
    }
    let bytes = segment.load(dir).map_err(|error| error.to_string())?;
    let mut before: Option<(SeriesId, TimeMs)> = None;
    for (n, group) in segment.groups.iter().enumerate() {
        let ids: Vec<SeriesId> = series.range(group.first_series..=group.last_series).copied().collect();
        let mut samples = vec![Vec::new(); ids.len()];
        segment::decode_group(&bytes, &segment.groups, group, &ids, &mut samples)?;
        let each = |(id, samples): (SeriesId, Vec<Sample>)| samples.into_iter().map(move |sample| (id, sample));
        let rows: Vec<_> = ids.into_iter().zip(samples).flat_map(each).collect();
        let wrong = |what: &str| Err(format!("row group {n}: {what}"));
        if rows.len() != group.rows {
            return wrong(&format!("{} samples of known series in order, the index says {}", rows.len(), group.rows));
        }
        in_order(&rows).or_else(|reason| wrong(&reason))?;
        let times = || rows.iter().map(|(_, sample)| sample.time_ms);
        let ends = rows.first().zip(rows.last()).map(|(first, last)| (first.0, last.0));
        if ends != Some((group.first_series, group.last_series))
            || (times().min(), times().max()) != (Some(group.first_ms), Some(group.last_ms))
        {
            return wrong("series or times are not those of the index");
        }
        if rows.first().map(|(id, sample)| (*id, sample.time_ms)) <= before {
            return wrong("begins before the one before it ends");
        }
        before = rows.last().map(|(id, sample)| (*id, sample.time_ms));
    }
    Ok(())
}
