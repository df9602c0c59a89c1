//! Parquet files for other programs: written row group by row group, and samples read back.
//!
//! The store's own segments are another format, for one reader, in `store/segment.rs`. Texts that hold several things
//! (labels, evidence) are JSON, which every notebook reads. The columns are documented in `docs/use/history.md`.

mod results;
mod samples;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use polars::io::parquet::write::BatchedWriter;
use polars::prelude::{
    Column, DataFrame, DataType, ParquetCompression, ParquetWriter, PolarsError, PolarsResult, TimeUnit, TimeZone,
};

pub use results::results;
#[cfg(test)]
pub(crate) use results::shape;
pub use samples::{no_samples, read_samples, sample_frames};

use goodput_exposition::sample::TimeMs;

/// Why a Parquet file cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ParquetError {
    /// The file system.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// Its bytes, or what they hold.
    #[error("{path}: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What was expected and what is there.
        reason: String,
    },
}

/// A file that is being written: under another name until it is whole.
pub struct Table {
    path: PathBuf,
    temporary: PathBuf,
    writer: BatchedWriter<File>,
    rows: u64,
}

impl Table {
    /// Begins a file with the columns of this frame, which may have no rows.
    pub fn create(path: &Path, first: &DataFrame) -> Result<Self, ParquetError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".tmp");
        let temporary = path.with_file_name(name);
        let file = File::create(&temporary).map_err(|error| ParquetError::Io { path: temporary.clone(), error })?;
        let writer = ParquetWriter::new(file).with_compression(ParquetCompression::Zstd(None)).set_parallel(false);
        let writer = writer.batched(first.schema()).map_err(|error| bad(path, &error))?;
        let mut table = Self { path: path.to_owned(), temporary, writer, rows: 0 };
        table.write(first)?;
        Ok(table)
    }

    /// Adds rows, as a row group.
    pub fn write(&mut self, frame: &DataFrame) -> Result<(), ParquetError> {
        if frame.height() == 0 {
            return Ok(());
        }
        self.rows += frame.height() as u64;
        self.writer.write_batch(frame).map_err(|error| bad(&self.path, &error))
    }

    /// Gives the file its name. Returns how many rows it has.
    pub fn finish(self) -> Result<u64, ParquetError> {
        self.writer.finish().map_err(|error| bad(&self.path, &error))?;
        fs::rename(&self.temporary, &self.path).map_err(|error| ParquetError::Io { path: self.path.clone(), error })?;
        Ok(self.rows)
    }
}

fn bad(path: &Path, error: &PolarsError) -> ParquetError {
    ParquetError::Content { path: path.to_owned(), reason: error.to_string() }
}

/// A column of times, which readers know to be UTC.
fn known_times(name: &str, times: Vec<Option<TimeMs>>) -> PolarsResult<Column> {
    let utc = DataType::Datetime(TimeUnit::Milliseconds, Some(TimeZone::UTC));
    Column::new(name.into(), times).cast(&utc)
}

fn times(name: &str, times: Vec<TimeMs>) -> PolarsResult<Column> {
    let utc = DataType::Datetime(TimeUnit::Milliseconds, Some(TimeZone::UTC));
    Column::new(name.into(), times).cast(&utc)
}
