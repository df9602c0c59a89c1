//! What the store reports about itself.

use std::time::Duration;

use super::{Appended, Options};
use goodput_exposition::sample::TimeMs;

/// What the store has done since it was opened, and what it holds.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Samples by what became of them, since the store was opened.
    pub appended: Appended,
    /// Active series: those that count towards `max_series`.
    pub series: u64,
    /// Series in the catalogue: those that have samples, evicted ones included.
    pub catalogue_series: u64,
    /// Bytes of their labels.
    pub label_bytes: u64,
    /// Series that had ended and were evicted to make room, since the store was opened.
    pub evicted_series: u64,
    /// Bytes of batches that wait for the writer.
    pub queue_bytes: u64,
    /// Free bytes of the data directory's file system; none when it does not tell.
    pub free_bytes: Option<u64>,
    /// Are samples refused because so few are free?
    pub short_of_space: bool,
    /// Memory of samples that are not in a segment yet.
    pub head_bytes: u64,
    /// Their size in the write-ahead.
    pub write_ahead_bytes: u64,
    /// Segments that are served.
    pub segments: u64,
    /// Their size on disk.
    pub segment_bytes: u64,
    /// Segments and write-ahead rows that are set aside because they are damaged.
    pub quarantined: u64,
    /// Files in `unknown/`: the index does not know them, and they were kept.
    pub unknown_files: u64,
    /// Reads of segments that the file system failed, since the store was opened.
    pub read_errors: u64,
    /// Acknowledged samples that were found missing when the store was opened.
    pub missing_samples: u64,
    /// Rows of results, events and series that are set aside as damaged.
    pub bad_rows: u64,
    /// How long the last group commit took, fsync included; none before the first.
    pub last_commit: Option<Duration>,
    /// Flushes that failed, since the store was opened.
    pub failed_flushes: u64,
    /// Is the clock of this machine in doubt?
    pub clock_in_doubt: bool,
    /// Samples before this have been removed by retention; none when none ever were.
    pub raw_from: Option<TimeMs>,
    /// Merges and removals, since the store was opened.
    pub upkeep: Upkeep,
    /// The bounds that hold.
    pub limits: Options,
}

/// Merges and removals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Merges done.
    pub merges: u64,
    /// Segments that they replaced.
    pub merged_segments: u64,
    /// Segments that retention removed.
    pub removed_segments: u64,
    /// Samples in these.
    pub removed_samples: u64,
    /// Their size on disk.
    pub removed_bytes: u64,
    /// Rows of verdicts that retention removed.
    pub removed_verdicts: u64,
    /// Series that left the catalogue when retention had removed all their samples.
    pub removed_series: u64,
    /// Merges and removals that failed, and are tried again.
    pub failures: u64,
}

/// One merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Segments before.
    pub segments: u64,
    /// Their size on disk.
    pub bytes: u64,
    /// Segments after.
    pub into_segments: u64,
    /// Their size on disk.
    pub into_bytes: u64,
}
