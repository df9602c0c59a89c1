//! Samples into the bytes of a segment.

use std::cell::RefCell;
use std::io::{self, Write};
use std::mem;
use std::rc::Rc;

use polars::prelude::{
    BatchedWriter, Column, DataFrame, KeyValueMetadata, ParquetCompression, ParquetWriter, PolarsResult, Schema,
};

use super::about::{self, About};
use super::{RowGroup, said};
use crate::catalogue::SeriesId;
use crate::chunk;
use goodput_exposition::sample::{Labels, Sample, TimeMs};

/// Samples of a row group, but for the chunk that goes beyond: about as many bytes. Reading a group makes some ten
/// decompression contexts whatever is in it, which cost more than the decompression itself where groups are small: of
/// groups a quarter as large they were a fifth of the CPU time of judging a day.
const GROUP_SAMPLES: usize = 1 << 20;

/// Rows of a row group at most, so that one of series with few samples takes some 8 MiB of memory while it is filled.
pub(super) const GROUP_ROWS: usize = 1 << 16;

/// A segment's bytes in the making: it is given series by series in order of id, and writes each row group once it is full.
pub(crate) struct Encoder {
    bytes: Bytes,
    writer: BatchedWriter<Bytes>,
    /// The group that is not full yet.
    rows: Rows,
    groups: Vec<RowGroup>,
    /// Every series once, in order of id.
    series: Vec<SeriesId>,
}

impl Encoder {
    pub(crate) fn new() -> Result<Self, String> {
        let bytes = Bytes::default();
        let schema = Rows::default().frame().map(|frame| Schema::clone(frame.schema())).map_err(said)?;
        let writer =
            ParquetWriter::new(bytes.clone()).with_compression(ParquetCompression::Zstd(None)).set_parallel(false);
        let writer = writer.batched(&schema).map_err(said)?;
        Ok(Self { bytes, writer, rows: Rows::default(), groups: Vec::new(), series: Vec::new() })
    }

    /// With all of these series, in order of id.
    pub(crate) fn of<'a>(all: impl Iterator<Item = (SeriesId, &'a [Sample])>) -> Result<Self, String> {
        let mut encoder = Self::new()?;
        for (id, samples) in all {
            encoder.push(id, samples)?;
        }
        Ok(encoder)
    }

    /// Adds a series' next samples, in order of time.
    pub(crate) fn push(&mut self, id: SeriesId, samples: &[Sample]) -> Result<(), String> {
        if !samples.is_empty() && self.series.last() != Some(&id) {
            self.series.push(id);
        }
        for chunk in samples.chunks(chunk::MOST) {
            self.rows.push(id, chunk)?;
            if self.rows.count >= GROUP_SAMPLES || self.rows.series.len() >= GROUP_ROWS {
                self.end_group()?;
            }
        }
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), String> {
        let rows = mem::take(&mut self.rows);
        let first_row = self.groups.last().map_or(0, |group| group.first_row + group.rows);
        if let Some(group) = rows.group(first_row) {
            self.writer.write_batch(&rows.frame().map_err(said)?).map_err(said)?;
            self.groups.push(group);
        }
        Ok(())
    }

    /// The file's bytes, and what its row groups hold: there are none when there were no samples. A series without labels
    /// is not named in it.
    pub(crate) fn finish(
        mut self,
        about: &About,
        labels: impl Fn(SeriesId) -> Option<Labels>,
    ) -> Result<(Vec<u8>, Vec<RowGroup>), String> {
        self.end_group()?;
        let series = self.series.iter().filter_map(|id| Some((*id, labels(*id)?)));
        let pairs = KeyValueMetadata::from_static(about::pairs(about, &self.groups, series)?);
        // What the file says of itself is known only now, which polars' own way to end it has no place for.
        let KeyValueMetadata::Static(pairs) = pairs else { return Err("no metadata to write".to_owned()) };
        self.writer.get_writer().lock().map_err(said)?.end(Some(pairs)).map_err(said)?;
        let mut bytes = self.bytes.0.take();
        about::sign(&mut bytes)?;
        Ok((bytes, self.groups))
    }
}

/// What was written so far: polars' writer does not give back what it writes to.
#[derive(Clone, Default)]
struct Bytes(Rc<RefCell<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The rows of one group.
#[derive(Default)]
struct Rows {
    series: Vec<u32>,
    samples: Vec<u32>,
    first_ms: Vec<i64>,
    last_ms: Vec<i64>,
    times: Vec<Option<Vec<u8>>>,
    values: Vec<Vec<u8>>,
    /// Times of the last row.
    last_times: Vec<TimeMs>,
    /// Samples of all rows.
    count: usize,
}

impl Rows {
    /// Adds a series' next samples as a row: at least one, and at most [`chunk::MOST`].
    fn push(&mut self, id: SeriesId, samples: &[Sample]) -> Result<(), String> {
        let (times, values): (Vec<TimeMs>, Vec<f64>) = samples.iter().map(|s| (s.time_ms, s.value)).unzip();
        let (Some(first), Some(last)) = (times.first(), times.last()) else { return Ok(()) };
        self.series.push(id.0);
        self.samples.push(times.len() as u32);
        self.first_ms.push(*first);
        self.last_ms.push(*last);
        self.times.push(if times == self.last_times { None } else { Some(chunk::encode_times(&times)?) });
        self.values.push(chunk::encode_values(&values)?);
        self.count += times.len();
        self.last_times = times;
        Ok(())
    }

    fn frame(&self) -> PolarsResult<DataFrame> {
        let times: Vec<Option<&[u8]>> = self.times.iter().map(Option::as_deref).collect();
        let values: Vec<&[u8]> = self.values.iter().map(Vec::as_slice).collect();
        let columns = vec![
            Column::new("series".into(), &self.series),
            Column::new("samples".into(), &self.samples),
            Column::new("first_ms".into(), &self.first_ms),
            Column::new("last_ms".into(), &self.last_ms),
            Column::new("times".into(), times),
            Column::new("values".into(), values),
        ];
        DataFrame::new(self.series.len(), columns)
    }

    fn group(&self, first_row: usize) -> Option<RowGroup> {
        Some(RowGroup {
            first_row,
            rows: self.count,
            first_series: SeriesId(*self.series.first()?),
            last_series: SeriesId(*self.series.last()?),
            first_ms: *self.first_ms.iter().min()?,
            last_ms: *self.last_ms.iter().max()?,
        })
    }
}
