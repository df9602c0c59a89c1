//! Samples as the bytes of a Parquet file, and back. Only this and [`encode`] know polars in the store.
//!
//! Format 3, which the file's metadata says under the key `goodput.segment`: a row is a chunk, one series' samples of up
//! to [`chunk::MOST`] times. Columns: `series` (u32); `samples` (u32), how many; `first_ms` and `last_ms` (i64); `times`
//! (binary), null where they are those of the row before, as those of one scrape are; `values` (binary). None is null
//! besides. What the binary columns hold is described in [`chunk`]. Rows are in order of series, then time; zstd. A read
//! skips the row groups that its index entry rules out, and of the others decodes the rows that it needs. [`about`] holds
//! what the metadata says besides.
//!
//! Formats 1 and 2 are only read. Format 2 has the same rows and says nothing besides. Format 1 has no key: a row is a
//! sample, columns `series` (u32), `time_ms` (i64), `value` (f64).

pub(super) mod about;
mod encode;

use std::io::Cursor;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};

use polars::prelude::{DataFrame, FileMetadata, ParallelStrategy, ParquetReader, PolarsResult, SerReader};
use serde::{Deserialize, Serialize};

use super::catalogue::SeriesId;
use super::chunk;
pub(super) use encode::Encoder;
use goodput_exposition::sample::{Sample, TimeMs};

/// Where the file's metadata says which format it is.
const FORMAT_KEY: &str = "goodput.segment";
const FORMAT: &str = "3";

/// The same as a number, for the index.
pub(super) const FORMAT_NUMBER: i64 = 3;

/// What a row group holds: bounds are inclusive. The groups of a segment are those of its file, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RowGroup {
    /// Samples in the groups before.
    pub(super) first_row: usize,
    /// Samples.
    pub(super) rows: usize,
    pub(super) first_series: SeriesId,
    pub(super) last_series: SeriesId,
    pub(super) first_ms: TimeMs,
    pub(super) last_ms: TimeMs,
}

impl RowGroup {
    /// May it hold samples of one of these series (in order of id) within the range?
    pub(super) fn may_hold(&self, ids: &[SeriesId], range: &Range<TimeMs>) -> bool {
        let next = ids.partition_point(|id| *id < self.first_series);
        let series = ids.get(next).is_some_and(|id| *id <= self.last_series);
        series && self.first_ms < range.end && range.start <= self.last_ms
    }
}

fn said(error: impl ToString) -> String {
    error.to_string()
}

/// Appends the samples of these series (in order of id) within the range to `out`, which has one place per id.
pub(super) fn decode(
    bytes: &[u8],
    groups: &[RowGroup],
    ids: &[SeriesId],
    range: &Range<TimeMs>,
    out: &mut [Vec<Sample>],
) -> Result<(), String> {
    caught(|| try_decode(bytes, groups, |group| group.may_hold(ids, range), ids, range, out))
}

/// The same of one of the groups alone, and of all times.
pub(super) fn decode_group(
    bytes: &[u8],
    groups: &[RowGroup],
    only: &RowGroup,
    ids: &[SeriesId],
    out: &mut [Vec<Sample>],
) -> Result<(), String> {
    caught(|| try_decode(bytes, groups, |group| group == only, ids, &(TimeMs::MIN..TimeMs::MAX), out))
}

/// Every sample of these series (in order of id), without an index entry.
pub(super) fn decode_all(bytes: &[u8], ids: &[SeriesId]) -> Result<Vec<Vec<Sample>>, String> {
    let all = RowGroup {
        first_row: 0,
        rows: 0,
        first_series: SeriesId(0),
        last_series: SeriesId(u32::MAX),
        first_ms: TimeMs::MIN,
        last_ms: TimeMs::MAX,
    };
    let mut out = vec![Vec::new(); ids.len()];
    caught(|| {
        let metadata = ParquetReader::new(Cursor::new(bytes)).get_metadata().cloned().map_err(said)?;
        let groups = vec![all; metadata.row_groups.len()];
        try_decode(bytes, &groups, |_| true, ids, &(TimeMs::MIN..TimeMs::MAX), &mut out)
    })?;
    Ok(out)
}

/// The series in a file, in order of id, and how many samples it says that it has.
pub(super) fn series_in(bytes: &[u8]) -> Result<(Vec<SeriesId>, u64), String> {
    caught(|| {
        let frame = ParquetReader::new(Cursor::new(bytes)).read_parallel(ParallelStrategy::None).finish();
        let frame = frame.map_err(said)?;
        let whole =
            |name: &str| -> PolarsResult<Vec<u32>> { Ok(frame.column(name)?.u32()?.into_no_null_iter().collect()) };
        let mut ids: Vec<SeriesId> = whole("series").map_err(said)?.into_iter().map(SeriesId).collect();
        // A row of format 1 is a sample.
        let samples = whole("samples").map_or(ids.len() as u64, |all| all.into_iter().map(u64::from).sum());
        ids.dedup();
        Ok((ids, samples))
    })
}

/// Polars' reader panics over some damages of a footer.
fn caught<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let read = panic::catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err("damaged so that the Parquet reader panics".to_owned()))
}

/// Takes out those of the series, in order of id, that have samples in a segment of these bytes.
pub(super) fn take_out(bytes: &[u8], ids: &mut Vec<SeriesId>) -> Result<(), String> {
    let read = || {
        let reader = ParquetReader::new(Cursor::new(bytes)).with_columns(Some(vec!["series".to_owned()]));
        let frame = reader.read_parallel(ParallelStrategy::None).finish()?;
        PolarsResult::Ok(frame.column("series")?.u32()?.into_no_null_iter().collect::<Vec<u32>>())
    };
    let there = caught(|| read().map_err(said))?;
    // Rows are in order of series.
    ids.retain(|id| there.binary_search(&id.0).is_err());
    Ok(())
}

fn try_decode(
    bytes: &[u8],
    groups: &[RowGroup],
    wanted: impl Fn(&RowGroup) -> bool,
    ids: &[SeriesId],
    range: &Range<TimeMs>,
    out: &mut [Vec<Sample>],
) -> Result<(), String> {
    let mut reader = ParquetReader::new(Cursor::new(bytes));
    let metadata = reader.get_metadata().map_err(said)?.clone();
    let pick = match format(&metadata) {
        None => pick_samples,
        Some(FORMAT | "2") => pick_chunks,
        Some(other) => return Err(format!("format {other}, expected at most {FORMAT}")),
    };
    if metadata.row_groups.len() != groups.len() {
        return Err(format!("{} row groups, {} in the index", metadata.row_groups.len(), groups.len()));
    }
    let mut first_row = 0;
    for (group, stored) in groups.iter().zip(&metadata.row_groups) {
        if wanted(group) {
            let mut reader = ParquetReader::new(Cursor::new(bytes))
                .with_slice(Some((first_row, stored.num_rows())))
                .read_parallel(ParallelStrategy::None);
            reader.set_metadata(metadata.clone());
            pick(&reader.finish().map_err(said)?, ids, range, out)?;
        }
        first_row += stored.num_rows();
    }
    Ok(())
}

fn format(metadata: &FileMetadata) -> Option<&str> {
    value(metadata, FORMAT_KEY)
}

fn value<'a>(metadata: &'a FileMetadata, key: &str) -> Option<&'a str> {
    let pairs = metadata.key_value_metadata.as_ref()?;
    pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
}

/// Formats 2 and 3. Both the frame and the ids are in order of series: one walk over both.
fn pick_chunks(
    frame: &DataFrame,
    ids: &[SeriesId],
    range: &Range<TimeMs>,
    out: &mut [Vec<Sample>],
) -> Result<(), String> {
    let whole = |name: &str| -> PolarsResult<_> { Ok(frame.column(name)?.u32()?.into_no_null_iter()) };
    let time = |name: &str| -> PolarsResult<_> { Ok(frame.column(name)?.i64()?.into_no_null_iter()) };
    let bytes = |name: &str| -> PolarsResult<_> { Ok(frame.column(name)?.binary()?.iter()) };
    let series = whole("series").map_err(said)?.zip(whole("samples").map_err(said)?);
    let bounds = time("first_ms").map_err(said)?.zip(time("last_ms").map_err(said)?);
    let blobs = bytes("times").map_err(said)?.zip(bytes("values").map_err(said)?);
    let mut wanted = ids.iter().zip(out).peekable();
    let mut times = Times::default();
    for (((series, samples), (first_ms, last_ms)), (own_times, values)) in series.zip(bounds).zip(blobs) {
        times.row(own_times);
        while wanted.next_if(|(id, _)| id.0 < series).is_some() {}
        let Some((id, found)) = wanted.peek_mut() else { break };
        if id.0 != series || first_ms >= range.end || last_ms < range.start {
            continue;
        }
        let values = chunk::decode_values(values.ok_or("a row without values")?, samples as usize)?;
        let times = times.decoded(samples as usize)?;
        let at = |time| times.partition_point(|known| *known < time);
        let within = at(range.start)..at(range.end);
        let wanted = times.get(within.clone()).zip(values.get(within)).ok_or("times that are not in order")?;
        let sample = |(time_ms, value): (&TimeMs, &f64)| Sample { time_ms: *time_ms, value: *value };
        found.extend(wanted.0.iter().zip(wanted.1).map(sample));
    }
    Ok(())
}

/// The times of a row, which may be those of one before; decoded when they are asked for.
#[derive(Default)]
struct Times<'a> {
    bytes: &'a [u8],
    decoded: Option<Vec<TimeMs>>,
}

impl<'a> Times<'a> {
    fn row(&mut self, own: Option<&'a [u8]>) {
        if let Some(bytes) = own {
            *self = Self { bytes, decoded: None };
        }
    }

    fn decoded(&mut self, count: usize) -> Result<&[TimeMs], String> {
        let times = match self.decoded.take() {
            Some(times) if times.len() == count => times,
            _ => chunk::decode_times(self.bytes, count)?,
        };
        Ok(self.decoded.insert(times))
    }
}

/// Format 1. Both the frame and the ids are in order of series: one walk over both.
fn pick_samples(
    frame: &DataFrame,
    ids: &[SeriesId],
    range: &Range<TimeMs>,
    out: &mut [Vec<Sample>],
) -> Result<(), String> {
    let series = frame.column("series").and_then(|column| column.u32()).map_err(said)?.into_no_null_iter();
    let times = frame.column("time_ms").and_then(|column| column.i64()).map_err(said)?.into_no_null_iter();
    let values = frame.column("value").and_then(|column| column.f64()).map_err(said)?.into_no_null_iter();
    let mut wanted = ids.iter().zip(out).peekable();
    for ((series, time_ms), value) in series.zip(times).zip(values) {
        while wanted.next_if(|(id, _)| id.0 < series).is_some() {}
        match wanted.peek_mut() {
            None => break,
            Some((id, samples)) if id.0 == series && range.contains(&time_ms) => {
                samples.push(Sample { time_ms, value });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
