//! Files of samples with timestamps: OpenMetrics text, plain or compressed, and Parquet. They are read piece by piece, for
//! they may be larger than memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::iter;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use tokio::sync::mpsc::Sender;

use super::Limits;
use super::skipped::excerpt;
use super::text::{Format, LineByLine, TextError};
use crate::parquet::{ParquetError, read_samples};
use crate::sample::{Batch, Labels, Sample, Series};

/// Samples of a batch: enough that storing it costs little per sample.
const BATCH: usize = 100_000;
/// A longer line is no sample: 64 labels of 5 KiB, and room to spare.
const LINE_BYTES: usize = 1 << 20;

/// Bad lines of a file that are kept to be shown.
const SHOWN: usize = 5;

/// Lines of a file that were passed over.
#[derive(Debug, Default)]
pub struct BadLines {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: Vec<TextError>,
}

impl BadLines {
    fn add(&mut self, error: TextError) {
        self.count += 1;
        if self.first.len() < SHOWN {
            self.first.push(error);
        }
    }
}

/// Why a file cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file system, or a compressed stream that is broken.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What failed.
        error: io::Error,
    },
    /// Not Parquet, or other columns.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// Parquet begins at its end.
    #[error("standard input: expected OpenMetrics text, found Parquet, which is read from a file only")]
    ParquetStream,
}

/// A file that is open.
pub struct Source {
    path: PathBuf,
    reader: Box<dyn Read + Send>,
    /// Its size on disk, where it is a file.
    pub bytes: Option<u64>,
}

impl Source {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        if path == Path::new("-") {
            return Ok(Self { path: "standard input".into(), reader: Box::new(io::stdin()), bytes: None });
        }
        let failed = |error| FileError::Io { path: path.to_owned(), error };
        let bytes = fs::metadata(path).map_err(failed)?.len();
        let reader = Box::new(File::open(path).map_err(failed)?);
        Ok(Self { path: path.to_owned(), reader, bytes: Some(bytes) })
    }
}

/// Reads a file to its end and passes its samples on; ends early without error when nothing takes them. What the file is
/// is told by its first bytes. Lines that cannot be read, and series that break a limit though the store keeps their
/// metric, are passed over and listed. Blocks.
pub fn read(
    source: Source,
    keeps: &dyn Fn(&str) -> bool,
    bar: &ProgressBar,
    batches: &Sender<Batch>,
) -> Result<BadLines, FileError> {
    let Source { path, reader, bytes } = source;
    let failed = |error| FileError::Io { path: path.clone(), error };
    let mut reader = BufReader::new(reader);
    // As many bytes as the longest of the marks, however they arrive.
    let mut start = Vec::with_capacity(4);
    reader.by_ref().take(4).read_to_end(&mut start).map_err(failed)?;
    let rest = bar.wrap_read(io::Cursor::new(start.clone()).chain(reader));
    match start.as_slice() {
        b"PAR1" if bytes.is_none() => Err(FileError::ParquetStream),
        b"PAR1" => {
            let total = bytes.unwrap_or_default();
            read_samples(&path, |batch, part| {
                bar.set_position((total as f64 * part) as u64);
                batches.blocking_send(batch).is_ok()
            })?;
            Ok(BadLines::default())
        }
        [0x1f, 0x8b, ..] => lines(flate2::read::MultiGzDecoder::new(rest), keeps, batches).map_err(failed),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let decoder = zstd::Decoder::new(rest).map_err(failed)?;
            lines(decoder, keeps, batches).map_err(failed)
        }
        _ => lines(rest, keeps, batches).map_err(failed),
    }
}

fn lines(reader: impl Read, keeps: &dyn Fn(&str) -> bool, batches: &Sender<Batch>) -> io::Result<BadLines> {
    let limits = Limits::default();
    let (mut parser, mut batch) = (LineByLine::new(Format::OpenMetrics, &limits), Building::default());
    let mut bad = BadLines::default();
    let mut reader = BufReader::with_capacity(1 << 20, reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(LINE_BYTES as u64 + 1).read_until(b'\n', &mut line) {
            Err(error) => {
                // An error here says that nothing takes the samples any more, and why is known there.
                let _ = batches.blocking_send(batch.take());
                return Err(error);
            }
            Ok(0) => break,
            Ok(_) => {}
        }
        let is_too_long = line.len() > LINE_BYTES && line.last() != Some(&b'\n');
        if is_too_long {
            parser.pass();
            bad.add(parser.error(format!("expected a line of at most {LINE_BYTES} bytes")));
            skip_line(&mut reader)?;
        } else if let Err(error) = one(&mut parser, &line, keeps, &mut batch) {
            bad.add(error);
        }
        if batch.samples >= BATCH && batches.blocking_send(batch.take()).is_err() {
            return Ok(bad);
        }
    }
    let _ = batches.blocking_send(batch.take());
    if let Err(error) = parser.finish() {
        bad.add(error);
    }
    Ok(bad)
}

/// Reads on to the end of a line, which is not kept.
fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let held = reader.fill_buf()?;
        let end = held.iter().position(|byte| *byte == b'\n');
        let (length, is_over) = (end.map_or(held.len(), |end| end + 1), end.is_some() || held.is_empty());
        reader.consume(length);
        if is_over {
            return Ok(());
        }
    }
}

fn one(
    parser: &mut LineByLine<'_>,
    line: &[u8],
    keeps: &dyn Fn(&str) -> bool,
    batch: &mut Building,
) -> Result<(), TextError> {
    let (line, has_line_feed) = line.strip_suffix(b"\n").map_or((line, false), |line| (line, true));
    let Ok(text) = str::from_utf8(line) else {
        parser.pass();
        return Err(parser.error("expected UTF-8"));
    };
    let Some(point) = parser.point(text, has_line_feed)? else { return Ok(()) };
    let Some(time_ms) = point.time_ms else {
        return Err(parser.error("expected a timestamp in seconds after the value: history has to say when it was"));
    };
    let sample = Sample { time_ms, value: point.value };
    match point.fault {
        // Without labels, the sample is counted as unknown.
        Some(_) if !point.name.is_empty() && !keeps(&point.name) => {
            batch.add(Labels::new::<&str, &str>([]), sample);
            Ok(())
        }
        Some(fault) => {
            let metric = excerpt(&point.name).to_owned();
            Err(parser.error(format!("series of metric {metric:?} skipped: {}", fault.detail)))
        }
        None => {
            let name = iter::once((Cow::Borrowed("__name__"), point.name));
            batch.add(Labels::new(name.chain(point.labels)), sample);
            Ok(())
        }
    }
}

/// A batch that grows.
#[derive(Default)]
struct Building {
    series: HashMap<Labels, Vec<Sample>>,
    samples: usize,
}

impl Building {
    fn add(&mut self, labels: Labels, sample: Sample) {
        self.series.entry(labels).or_default().push(sample);
        self.samples += 1;
    }

    fn take(&mut self) -> Batch {
        self.samples = 0;
        let series = std::mem::take(&mut self.series).into_iter();
        series.map(|(labels, samples)| Series { labels, samples }).collect()
    }
}
