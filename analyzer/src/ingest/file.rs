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
use super::text::{Format, LineByLine, TextError};
use crate::parquet::{ParquetError, read_samples};
use crate::sample::{Batch, Labels, Sample, Series};

/// Samples of a batch: enough that storing it costs little per sample.
const BATCH: usize = 100_000;
/// A longer line is no sample: 64 labels of 5 KiB, and room to spare.
const LINE_BYTES: usize = 1 << 20;

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
    /// Not OpenMetrics text.
    #[error("{path}: {error}")]
    Text {
        /// The file.
        path: PathBuf,
        /// Where and why.
        error: TextError,
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

/// Reads a file to its end and passes its samples on; ends early without error when nobody takes them. What the file is
/// is told by its first bytes. Blocks.
pub fn read(source: Source, bar: &ProgressBar, batches: &Sender<Batch>) -> Result<(), FileError> {
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
            Ok(())
        }
        [0x1f, 0x8b, ..] => lines(flate2::read::MultiGzDecoder::new(rest), path, batches),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let decoder = zstd::Decoder::new(rest).map_err(failed)?;
            lines(decoder, path, batches)
        }
        _ => lines(rest, path, batches),
    }
}

fn lines(reader: impl Read, path: PathBuf, batches: &Sender<Batch>) -> Result<(), FileError> {
    let limits = Limits::default();
    let (mut parser, mut batch) = (LineByLine::new(Format::OpenMetrics, &limits), Building::default());
    let mut reader = BufReader::with_capacity(1 << 20, reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(LINE_BYTES as u64 + 1).read_until(b'\n', &mut line);
        match read {
            Err(error) => return Err(FileError::Io { path, error }),
            Ok(0) => break,
            Ok(_) => {}
        }
        if let Err(error) = one(&mut parser, &line, &mut batch) {
            // An error here says that nobody takes the samples any more, and why is known there.
            let _ = batches.blocking_send(batch.take());
            return Err(FileError::Text { path, error });
        }
        if batch.samples >= BATCH && batches.blocking_send(batch.take()).is_err() {
            return Ok(());
        }
    }
    let _ = batches.blocking_send(batch.take());
    parser.finish().map_err(|error| FileError::Text { path, error })
}

fn one(parser: &mut LineByLine<'_>, line: &[u8], batch: &mut Building) -> Result<(), TextError> {
    let (text, problem) = match line.strip_suffix(b"\n") {
        None if line.len() > LINE_BYTES => ("#", Some(format!("expected a line of at most {LINE_BYTES} bytes"))),
        None => ("#", Some("expected a line feed at the end of the last line".to_owned())),
        Some(line) => match std::str::from_utf8(line) {
            Ok(text) => (text, None),
            Err(error) => ("#", Some(format!("expected UTF-8: {error}"))),
        },
    };
    let point = parser.point(text);
    if let Some(problem) = problem {
        return Err(parser.error(problem));
    }
    let Some(point) = point? else { return Ok(()) };
    let Some(time_ms) = point.time_ms else {
        return Err(parser.error("expected a timestamp in seconds after the value: history has to say when it was"));
    };
    let name = iter::once(("__name__", Cow::Borrowed(point.name)));
    batch.add(Labels::new(name.chain(point.labels)), Sample { time_ms, value: point.value });
    Ok(())
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
