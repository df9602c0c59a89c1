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
use crate::sample::{Sample, TimeMs};
pub(super) use encode::Encoder;

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
        let all = times.decoded(samples as usize)?.iter().zip(values);
        let all = all.map(|(time_ms, value)| Sample { time_ms: *time_ms, value });
        found.extend(all.filter(|sample| range.contains(&sample.time_ms)));
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
mod tests {
    use proptest::prelude::*;

    use super::about::About;
    use super::encode::GROUP_ROWS;
    use super::*;
    use crate::sample::{Labels, STALE_BITS};

    const ALL: Range<TimeMs> = TimeMs::MIN..TimeMs::MAX;

    fn row(id: u32, time_ms: TimeMs, value: f64) -> (SeriesId, Sample) {
        (SeriesId(id), Sample { time_ms, value })
    }

    fn encode(rows: impl Iterator<Item = (SeriesId, Sample)>) -> Result<(Vec<u8>, Vec<RowGroup>), String> {
        let rows: Vec<_> = rows.collect();
        let series = rows.chunk_by(|a, b| a.0 == b.0);
        let series = series.map(|rows| (rows[0].0, rows.iter().map(|(_, sample)| *sample).collect::<Vec<_>>()));
        let series: Vec<_> = series.collect();
        Encoder::of(series.iter().map(|(id, samples)| (*id, samples.as_slice())))?.finish(&About::default(), |_| None)
    }

    fn samples(bytes: &[u8], groups: &[RowGroup], ids: &[u32], range: &Range<TimeMs>) -> Vec<Vec<(TimeMs, u64)>> {
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
        let read = samples(&bytes, &groups, &(0..100).collect::<Vec<_>>(), &ALL);
        let written: Vec<Vec<_>> = rows
            .chunks(1000)
            .map(|series| series.iter().map(|(_, s)| (s.time_ms, s.value.to_bits())).collect())
            .collect();
        assert_eq!(read, written);
    }

    #[test]
    fn only_the_asked_series_and_times_come_back() {
        let rows = (0..1_400_000_u32).map(|i| row(i / 30, i64::from(i % 30), f64::from(i)));
        let (bytes, groups) = encode(rows).unwrap();
        assert_eq!(
            groups.iter().map(|g| (g.first_row, g.rows)).collect::<Vec<_>>(),
            [(0, 1_048_590), (1_048_590, 351_410)]
        );
        let value = |i: u32| f64::from(i).to_bits();
        let got = samples(&bytes, &groups, &[0, 34_953, 46_665, 46_667], &(4..6));
        assert_eq!(got[0], [(4, value(4)), (5, value(5))]);
        assert_eq!(got[1], [(4, value(1_048_594)), (5, value(1_048_595))]);
        assert_eq!(got[2], [(4, value(1_399_954)), (5, value(1_399_955))]);
        assert_eq!(got[3], []);
    }

    #[test]
    fn long_series_are_cut_and_their_own_times_kept() {
        let long = |id: u32, step: i64| (0..10_000).map(move |n| row(id, n * step, n as f64));
        let rows: Vec<_> =
            long(1, 15_000).chain(long(2, 15_000)).chain(long(3, 30_000)).chain(long(4, 15_000)).collect();
        let (bytes, groups) = encode(rows.iter().copied()).unwrap();
        let all = samples(&bytes, &groups, &[1, 2, 3, 4], &ALL);
        let written = rows.chunks(10_000).map(|s| s.iter().map(|(_, s)| (s.time_ms, s.value.to_bits())).collect());
        assert_eq!(all, written.collect::<Vec<Vec<_>>>());
        // The last chunk of series 4 has times that series 3 has not; asked alone, none before it is decoded.
        let end = samples(&bytes, &groups, &[4], &(9_999 * 15_000..TimeMs::MAX));
        assert_eq!(end, [[(9_999 * 15_000, 9_999_f64.to_bits())]]);
    }

    #[test]
    fn a_node_scraped_for_hours_takes_a_byte_per_sample() {
        let counter = |id: u32, n: i64| (n * 50 + i64::from((id * 7 + n as u32 * 31) % 97)) as f64 / 100.0;
        let rows = (0..200_u32).flat_map(|id| (0..1000_i64).map(move |n| row(id, n * 15_000, counter(id, n))));
        let (bytes, groups) = encode(rows).unwrap();
        assert_eq!(groups.iter().map(|group| group.rows).sum::<usize>(), 200_000);
        assert!(bytes.len() < 200_000, "{} bytes", bytes.len());
    }

    /// What a segment says of itself, of a node's series with the labels that DCGM series have.
    #[test]
    fn labels_take_little_of_a_segment() {
        let labels = |id: SeriesId| {
            let (gpu, metric) = (id.0 % 8, id.0 / 8);
            let host = format!("gpu-node-{:04}", metric / 60);
            let pairs = [
                ("__name__", format!("DCGM_FI_DEV_METRIC_{}", metric % 60)),
                ("Hostname", host.clone()),
                (
                    "UUID",
                    format!("GPU-{:08x}-{:04x}-5f6a-9b1c-{:012x}", id.0 % 8 * 77_777_777, metric / 60, gpu * 99_999),
                ),
                ("device", format!("nvidia{gpu}")),
                ("gpu", gpu.to_string()),
                ("instance", format!("{host}:9400")),
                ("job", "gpu".to_owned()),
                ("modelName", "NVIDIA H100 80GB HBM3".to_owned()),
                ("pod", format!("train-{}-{:x}", gpu / 4, metric / 60 * 7919)),
            ];
            Some(Labels::new(pairs))
        };
        let size = |named: bool| {
            let mut encoder = Encoder::new().unwrap();
            for id in 0..4800 {
                let sample = |n: i64| Sample { time_ms: n * 15_000, value: f64::from(id) + (n * n % 97) as f64 };
                encoder.push(SeriesId(id), &(0..240).map(sample).collect::<Vec<_>>()).unwrap();
            }
            encoder.finish(&About::default(), |id| labels(id).filter(|_| named)).unwrap().0.len()
        };
        let per_series = (size(true) - size(false)) as f64 / 4800.0;
        assert!(per_series < 40.0, "{per_series} bytes per series");
    }

    /// Written in format 1: series 1 and 3 at 0, 15 and 30 s, odd values.
    #[test]
    fn a_segment_of_format_1_is_read() {
        let bytes = include_bytes!("../../tests/store/segment-format-1.parquet");
        let group = RowGroup {
            first_row: 0,
            rows: 6,
            first_series: SeriesId(1),
            last_series: SeriesId(3),
            first_ms: 0,
            last_ms: 30_000,
        };
        let odd = [(0, 0.1_f64.to_bits()), (15_000, STALE_BITS), (30_000, (-0.0_f64).to_bits())];
        assert_eq!(samples(bytes, &[group], &[1, 2, 3], &ALL), [odd.to_vec(), vec![], odd.to_vec()]);
        assert_eq!(samples(bytes, &[group], &[3], &(1..20_000)), [odd[1..2].to_vec()]);
    }

    #[test]
    fn a_format_of_the_future_and_a_wrong_index_are_errors() {
        let (mut bytes, groups) = encode((0..10).map(|n| row(1, n, 0.5))).unwrap();
        let error = decode(&bytes, &[], &[], &ALL, &mut []).unwrap_err();
        assert_eq!(error, "1 row groups, 0 in the index");
        // The value follows its key, its length and the tag of its field.
        let key = bytes.windows(FORMAT_KEY.len()).position(|window| window == FORMAT_KEY.as_bytes()).unwrap();
        let place = key + FORMAT_KEY.len() + 2;
        assert_eq!(&bytes[place..=place], FORMAT.as_bytes());
        bytes[place] = b'2';
        let of = |bytes: &[u8]| samples(bytes, &groups, &[1], &ALL);
        assert_eq!(
            of(&bytes),
            [(0..10).map(|n| (n, 0.5_f64.to_bits())).collect::<Vec<_>>()],
            "format 2 has these rows"
        );
        assert!(about::describe(&bytes).unwrap_err().contains("format 2, which does not name its series"));
        bytes[place] = b'4';
        assert_eq!(decode(&bytes, &groups, &[], &ALL, &mut []).unwrap_err(), "format 4, expected at most 3");
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

    #[test]
    fn series_that_are_there_are_taken_out() {
        let rows = (0..700_000_u32).map(|i| row(2 * (i / 10), i64::from(i % 10), 1.0));
        let (bytes, groups) = encode(rows).unwrap();
        assert_eq!(
            groups.iter().map(|group| group.rows).collect::<Vec<_>>(),
            [10 * GROUP_ROWS, 700_000 - 10 * GROUP_ROWS]
        );
        let mut ids = [0, 1, 131_070, 131_071, 131_072, 139_998, 139_999].map(SeriesId).to_vec();
        take_out(&bytes, &mut ids).unwrap();
        assert_eq!(ids, [1, 131_071, 139_999].map(SeriesId));
        let old = include_bytes!("../../tests/store/segment-format-1.parquet");
        let mut ids = [1, 2, 3].map(SeriesId).to_vec();
        take_out(old, &mut ids).unwrap();
        assert_eq!(ids, [SeriesId(2)]);
        take_out(b"PAR1 but nothing else PAR1", &mut ids).unwrap_err();
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (_, groups) = encode([row(1, 0, 0.5)].into_iter()).unwrap();
            for bytes in [&bytes, &[b"PAR1".as_slice(), &bytes, b"PAR1"].concat()] {
                decode(bytes, &groups, &[SeriesId(1)], &ALL, &mut [Vec::new()]).unwrap_err();
            }
        }
    }
}
