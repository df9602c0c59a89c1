//! Samples as the bytes of a Parquet file, and back. The only file that knows polars.
//!
//! Columns `series` (u32), `time_ms` (i64), `value` (f64), none of them nullable in practice; rows in order of series,
//! then time; zstd. Row groups are small, so that a read can skip most of a file.

use std::io::Cursor;
use std::ops::Range;

use polars::prelude::{
    Column, DataFrame, ParallelStrategy, ParquetCompression, ParquetReader, ParquetWriter, PolarsResult, Schema,
    SerReader,
};

use super::catalogue::SeriesId;
use crate::sample::{Sample, TimeMs};

/// Rows of a row group: about 0.3 MiB decoded per column of 8 bytes, small against the cost of opening the file.
const GROUP_ROWS: usize = 32 * 1024;

/// What a row group holds: bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowGroup {
    pub(super) first_row: usize,
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

/// Encodes rows that are in order of series, then time.
pub(super) fn encode(rows: impl Iterator<Item = (SeriesId, Sample)>) -> Result<(Vec<u8>, Vec<RowGroup>), String> {
    try_encode(rows).map_err(|error| error.to_string())
}

fn try_encode(rows: impl Iterator<Item = (SeriesId, Sample)>) -> PolarsResult<(Vec<u8>, Vec<RowGroup>)> {
    let mut rows = rows.peekable();
    let mut bytes = Vec::new();
    let mut groups: Vec<RowGroup> = Vec::new();
    let schema = Schema::clone(frame(&[])?.schema());
    let writer = ParquetWriter::new(&mut bytes).with_compression(ParquetCompression::Zstd(None)).set_parallel(false);
    let mut writer = writer.batched(&schema)?;
    let mut chunk = Vec::with_capacity(GROUP_ROWS);
    while rows.peek().is_some() {
        chunk.clear();
        chunk.extend(rows.by_ref().take(GROUP_ROWS));
        writer.write_batch(&frame(&chunk)?)?;
        let first_row = groups.last().map_or(0, |group| group.first_row + group.rows);
        groups.extend(row_group(first_row, &chunk));
    }
    writer.finish()?;
    drop(writer);
    Ok((bytes, groups))
}

fn frame(rows: &[(SeriesId, Sample)]) -> PolarsResult<DataFrame> {
    let series: Vec<u32> = rows.iter().map(|(id, _)| id.0).collect();
    let times: Vec<i64> = rows.iter().map(|(_, sample)| sample.time_ms).collect();
    let values: Vec<f64> = rows.iter().map(|(_, sample)| sample.value).collect();
    let columns = vec![
        Column::new("series".into(), series),
        Column::new("time_ms".into(), times),
        Column::new("value".into(), values),
    ];
    DataFrame::new(rows.len(), columns)
}

fn row_group(first_row: usize, rows: &[(SeriesId, Sample)]) -> Option<RowGroup> {
    let times = || rows.iter().map(|(_, sample)| sample.time_ms);
    Some(RowGroup {
        first_row,
        rows: rows.len(),
        first_series: rows.first()?.0,
        last_series: rows.last()?.0,
        first_ms: times().min()?,
        last_ms: times().max()?,
    })
}

/// Appends the samples of these series (in order of id) within the range to `out`, which has one place per id.
pub(super) fn decode(
    bytes: &[u8],
    groups: &[RowGroup],
    ids: &[SeriesId],
    range: &Range<TimeMs>,
    out: &mut [Vec<Sample>],
) -> Result<(), String> {
    let mut reader = ParquetReader::new(Cursor::new(bytes));
    let metadata = reader.get_metadata().map_err(|error| error.to_string())?.clone();
    for group in groups.iter().filter(|group| group.may_hold(ids, range)) {
        let mut reader = ParquetReader::new(Cursor::new(bytes))
            .with_slice(Some((group.first_row, group.rows)))
            .read_parallel(ParallelStrategy::None);
        reader.set_metadata(metadata.clone());
        let frame = reader.finish().map_err(|error| error.to_string())?;
        pick(&frame, ids, range, out).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Both the frame and the ids are in order of series: one walk over both.
fn pick(frame: &DataFrame, ids: &[SeriesId], range: &Range<TimeMs>, out: &mut [Vec<Sample>]) -> PolarsResult<()> {
    let series = frame.column("series")?.u32()?.into_no_null_iter();
    let times = frame.column("time_ms")?.i64()?.into_no_null_iter();
    let values = frame.column("value")?.f64()?.into_no_null_iter();
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
mod tests {
    use super::*;
    use crate::sample::STALE_BITS;

    const ALL: Range<TimeMs> = TimeMs::MIN..TimeMs::MAX;

    fn row(id: u32, time_ms: TimeMs, value: f64) -> (SeriesId, Sample) {
        (SeriesId(id), Sample { time_ms, value })
    }

    fn read(bytes: &[u8], groups: &[RowGroup], ids: &[u32], range: &Range<TimeMs>) -> Vec<Vec<(TimeMs, u64)>> {
        let ids: Vec<_> = ids.iter().map(|id| SeriesId(*id)).collect();
        let mut out = vec![Vec::new(); ids.len()];
        decode(bytes, groups, &ids, range, &mut out).unwrap();
        out.iter().map(|samples| samples.iter().map(|s| (s.time_ms, s.value.to_bits())).collect()).collect()
    }

    #[test]
    fn every_bit_pattern_comes_back() {
        let odd = [STALE_BITS, 0x7ff8_0000_0000_0001, 0xfff8_0000_0000_0002, (-0.0_f64).to_bits(), 0, 1, u64::MAX];
        // Many repeats of few values, which is what invites a dictionary.
        let rows: Vec<_> = (0..100_000_u32)
            .map(|i| row(i / 1000, i64::from(i % 1000), f64::from_bits(odd[i as usize % odd.len()])))
            .collect();
        let (bytes, groups) = encode(rows.iter().copied()).unwrap();
        let read = read(&bytes, &groups, &(0..100).collect::<Vec<_>>(), &ALL);
        let written: Vec<Vec<_>> = rows
            .chunks(1000)
            .map(|series| series.iter().map(|(_, s)| (s.time_ms, s.value.to_bits())).collect())
            .collect();
        assert_eq!(read, written);
    }

    #[test]
    fn only_the_asked_series_and_times_come_back() {
        let rows = (0..70_000_u32).map(|i| row(i / 10, i64::from(i % 10), f64::from(i)));
        let (bytes, groups) = encode(rows).unwrap();
        assert_eq!(
            groups.iter().map(|g| (g.first_row, g.rows)).collect::<Vec<_>>(),
            [(0, 32768), (32768, 32768), (65536, 4464)]
        );
        let value = |i: u32| f64::from(i).to_bits();
        let got = read(&bytes, &groups, &[0, 3276, 6999, 8000], &(4..6));
        assert_eq!(got[0], [(4, value(4)), (5, value(5))]);
        assert_eq!(got[1], [(4, value(32764)), (5, value(32765))]);
        assert_eq!(got[2], [(4, value(69994)), (5, value(69995))]);
        assert_eq!(got[3], []);
    }

    #[test]
    fn a_group_is_skipped_when_it_cannot_hold_the_answer() {
        let group = RowGroup {
            first_row: 0,
            rows: 1,
            first_series: SeriesId(5),
            last_series: SeriesId(9),
            first_ms: 100,
            last_ms: 200,
        };
        assert!(group.may_hold(&[SeriesId(9)], &(200..201)));
        assert!(!group.may_hold(&[SeriesId(4), SeriesId(10)], &(0..1000)));
        assert!(!group.may_hold(&[SeriesId(5)], &(0..100)));
        assert!(!group.may_hold(&[SeriesId(5)], &(201..300)));
    }

    #[test]
    fn no_parquet_is_an_error() {
        assert!(decode(b"PAR1 but nothing else PAR1", &[], &[], &ALL, &mut []).is_err());
    }
}
