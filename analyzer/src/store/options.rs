use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Limits;
use crate::sample::TimeMs;

/// Where the store lives, what it keeps, and its bounds.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory; created when absent.
    pub dir: PathBuf,
    /// Is a metric of this name worth keeping? Series of others are counted and dropped. A series once stored goes on
    /// being stored. `|_| true` keeps everything raw.
    pub keep: fn(&str) -> bool,
    /// Further metrics that are worth keeping: those that the configuration names.
    pub also: BTreeSet<String>,
    /// The clock against which [`Options::future`] is measured.
    pub now: fn() -> TimeMs,
    /// The time since boot, against which the clock is compared.
    pub since_boot: fn() -> Duration,
    /// The earliest time that a sample may have. Default 2000-01-01 UTC: an earlier one is a mistake.
    pub earliest: TimeMs,
    /// How much older than the newest sample of its series a sample may be. Default 2 h, the span that a Prometheus
    /// keeps in its own write-ahead log and can still deliver after an outage.
    pub out_of_order: Duration,
    /// Takes samples of any age, [`Options::out_of_order`] or not: history that is imported. Whatever is stored already is
    /// looked up first, so that it costs more than samples that are new. Default false.
    pub history: bool,
    /// How far ahead of the clock a sample may be. Default 10 min, as Prometheus bounds the timestamps it scrapes.
    pub future: Duration,
    /// Memory for samples that are not yet in a segment; a full head is written out. Default 64 MiB, about 4 million
    /// samples. When writing fails, samples are taken until twice this.
    pub head_bytes: usize,
    /// A head that is older is written out, however small. Default 2 h, so that late samples mostly meet the head.
    pub head_age: Duration,
    /// Bytes of batches that may wait for the writer, a quarter of them from one sender; further ones wait at their
    /// senders. Default 32 MiB: a quarter holds the largest request of remote write.
    pub queue_bytes: usize,
    /// Series that may be active; those that ended first are evicted to make room, and samples of further ones are counted
    /// and refused. The catalogue holds four times as many, evicted ones included. Default 1 million, which take very
    /// roughly 1 GiB of memory.
    pub max_series: usize,
    /// Active series of one sender, and of a scrape job that has no bound of its own. Default: four fifths of
    /// [`Options::max_series`], so that one sender alone may use most of it, and others find room.
    pub max_series_per_sender: Option<usize>,
    /// Bytes of the labels of all series in the catalogue. Default 512 MiB: a million series of 500 bytes.
    pub max_label_bytes: u64,
    /// GPUs that are judged; those that were stored first before others. Default 20,000: judging takes about 90 KiB for each
    /// even where it has one series, so that these take 1.8 GiB.
    pub max_gpus: usize,
    /// How long samples are kept at least; whole segments go, and most hold six hours or less. Default: for ever.
    pub retention: Option<Duration>,
    /// Bytes of segments beyond which the oldest go; those with samples of the last 6 h stay, because verdicts that are
    /// not final rest on them. Default: no limit.
    pub retention_bytes: Option<u64>,
    /// How long verdicts are kept. Default: for ever.
    pub retention_results: Option<Duration>,
    /// Bytes of the segments that one merge reads, and so of the largest one that it makes; it takes up to three times as
    /// much memory, and about 50 MiB. Default 32 MiB.
    pub segment_bytes: u64,
    /// Free bytes of the file system below which no samples are taken, so that flushes, merges and verdicts have room.
    /// Default 100 MB, as VictoriaMetrics' `-storage.minFreeDiskSpaceBytes`.
    pub min_free_disk_space_bytes: u64,
    /// Free bytes of the directory's file system; none when it does not tell.
    pub free_space: fn(&Path) -> Option<u64>,
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, keep: fn(&str) -> bool) -> Self {
        Self {
            dir: dir.into(),
            keep,
            also: BTreeSet::new(),
            now: wall_clock,
            since_boot,
            earliest: YEAR_2000,
            out_of_order: Duration::from_hours(2),
            history: false,
            future: Duration::from_mins(10),
            head_bytes: 64 << 20,
            head_age: Duration::from_hours(2),
            queue_bytes: 32 << 20,
            max_series: 1_000_000,
            max_series_per_sender: None,
            max_label_bytes: 512 << 20,
            max_gpus: 20_000,
            retention: None,
            retention_bytes: None,
            retention_results: None,
            segment_bytes: 32 << 20,
            min_free_disk_space_bytes: 100_000_000,
            free_space,
        }
    }

    pub(super) fn keeps(&self, metric: &str) -> bool {
        (self.keep)(metric) || self.also.contains(metric)
    }

    pub(super) fn series_per_sender(&self) -> usize {
        self.max_series_per_sender.unwrap_or(self.max_series - self.max_series / 5)
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            head_bytes: self.head_bytes as u64,
            max_series: self.max_series as u64,
            max_series_per_sender: self.series_per_sender() as u64,
            max_label_bytes: self.max_label_bytes,
            max_gpus: self.max_gpus as u64,
            queue_bytes: self.queue_bytes as u64,
            segment_bytes: self.segment_bytes,
            min_free_disk_space_bytes: self.min_free_disk_space_bytes,
            retention: self.retention,
            retention_bytes: self.retention_bytes,
            retention_results: self.retention_results,
        }
    }

    pub(super) fn database(&self) -> PathBuf {
        database_path(&self.dir)
    }

    pub(super) fn segments(&self) -> PathBuf {
        segments_path(&self.dir)
    }

    pub(super) fn quarantine(&self) -> PathBuf {
        quarantine_path(&self.dir)
    }

    pub(super) fn unknown(&self) -> PathBuf {
        unknown_path(&self.dir)
    }

    pub(super) fn acknowledged(&self) -> PathBuf {
        self.dir.join("acknowledged")
    }
}

pub(super) fn database_path(dir: &Path) -> PathBuf {
    dir.join("goodput.db")
}

pub(super) fn quarantine_path(dir: &Path) -> PathBuf {
    dir.join("quarantine")
}

pub(super) fn unknown_path(dir: &Path) -> PathBuf {
    dir.join("unknown")
}

pub(super) fn segments_path(dir: &Path) -> PathBuf {
    dir.join("segments")
}

/// 2000-01-01T00:00:00Z.
const YEAR_2000: TimeMs = 946_684_800_000;

/// Goes on while the machine sleeps, and no one can set it.
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// What a user without special rights may still write there: `statvfs`, `f_bavail`.
pub(super) fn free_space(dir: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(dir).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Now, by the system's clock.
#[must_use]
pub fn wall_clock() -> TimeMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimeMs::try_from(since.as_millis()).unwrap_or(TimeMs::MAX)
}
