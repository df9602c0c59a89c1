//! Samples (SQLite write-ahead and catalogue, Parquet segments) and results (SQLite).

use std::future::Future;
use std::ops::Range;
use std::path::PathBuf;

use crate::classify::Interval;
use crate::sample::{Batch, Series, TimeMs};

/// What became of a batch. Every sample of it is in exactly one of the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// On disk now, fsynced.
    pub stored: u64,
    /// Already there with the same time and value.
    pub duplicate: u64,
    /// Older than the out-of-order window, or newer than the clock allows.
    pub out_of_bounds: u64,
    /// Of a metric that no signal uses.
    pub unknown: u64,
}

/// Which series, and when.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Metric names; empty means all.
    pub metrics: Vec<String>,
    /// Label equalities that all must hold.
    pub labels: Vec<(String, String)>,
    /// From (inclusive) and to (exclusive).
    pub range: Range<TimeMs>,
}

/// Why the store could not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The data directory was written by a newer release.
    #[error(
        "{path}: written by a newer goodput-analyzer (schema {found}, this one knows {known}); upgrade, or use another --data.dir"
    )]
    Newer {
        /// The database file.
        path: PathBuf,
        /// Schema version found.
        found: i64,
        /// Newest version known.
        known: i64,
    },
    /// The file system.
    #[error("{path}: {error}")]
    Io {
        /// File or directory.
        path: PathBuf,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The database.
    #[error("{path}: {error}")]
    Database {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        error: sqlx::Error,
    },
    /// A segment that cannot be read. It is quarantined; everything else is served.
    #[error("{path}: bad segment: {reason}")]
    Segment {
        /// The segment file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Time series.
pub trait Samples: Send + Sync {
    /// Stores a batch; when this returns Ok, everything counted as stored survives `kill -9`.
    fn append(&self, batch: Batch) -> impl Future<Output = Result<Appended, StoreError>> + Send;

    /// Reads series; each at most once, samples in order of time, no duplicates.
    fn select(&self, selection: &Selection) -> impl Future<Output = Result<Vec<Series>, StoreError>> + Send;
}

/// Verdicts.
pub trait Results: Send + Sync {
    /// Replaces the intervals of one node and window, in one transaction.
    fn replace(
        &self,
        node: &str,
        window: Range<TimeMs>,
        intervals: &[Interval],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The intervals that lie in the window; those that reach out of it do not exist, for windows are cut at hours.
    fn intervals(&self, window: Range<TimeMs>) -> impl Future<Output = Result<Vec<Interval>, StoreError>> + Send;
}
