use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use goodput_exposition::sample::TimeMs;
use goodput_settings::kind::{Age, Bytes, Count, Period, Size, Switch, Unset};
use goodput_settings::settings;

settings! {
    /// Where the store lives, what it keeps, and its bounds.
    #[derive(Clone, Debug)]
    pub struct Options: "store" {
        /// The data directory; created when absent.
        pub dir: PathBuf = PathBuf::new(),
        /// Is a metric of this name worth keeping? Series of others are counted and dropped. A series once stored goes on
        /// being stored.
        pub keep: fn(&str) -> bool = |_| true,
        /// Further metrics that are worth keeping: those that the configuration names.
        pub also: BTreeSet<String> = BTreeSet::new(),
        /// The clock against which [`Options::future`] is measured.
        pub now: fn() -> TimeMs = wall_clock,
        /// The time since boot, against which the clock is compared.
        pub since_boot: fn() -> Duration = since_boot,
        /// The earliest time that a sample may have. Default 2000-01-01 UTC: an earlier one is a mistake.
        pub earliest: TimeMs = YEAR_2000,
        /// Takes samples of any age, [`Options::out_of_order`] or not: history that is imported. Whatever is stored already
        /// is looked up first, so that it costs more than samples that are new. Default false.
        pub history: bool = false,
        /// How far ahead of the clock a sample may be. Default 10 min, as Prometheus bounds the timestamps it scrapes.
        pub future: Duration = Duration::from_mins(10),
        /// Free bytes of the directory's file system; none when it does not tell.
        pub free_space: fn(&Path) -> Option<u64> = free_space,
    }
    // About 4 million samples.
    head_bytes: Bytes = 64 << 20,
        "Memory of samples that are not in a segment. A full head is flushed; when that fails, samples are taken up to twice as much, then refused with status 503.",
        limit "goodput_analyzer_store_head_bytes";
    // Late samples mostly meet the head.
    head_age: Period = Duration::from_hours(2),
        "Age at which a head is flushed, however small it is.";
    // The span that a Prometheus keeps in its own write-ahead log and can still deliver after an outage.
    out_of_order: Period = Duration::from_hours(2),
        "How much older than the newest sample of its series a sample may be. Older ones are refused and counted as `out_of_bounds`.";
    max_series: Count = 1_000_000,
        "Active series, very roughly 1 KiB of memory each. Series that ended first are evicted to make room; when none has ended, samples of further series are refused and counted as `over_limit`. The catalogue holds four times as many, evicted series included.",
        limit "goodput_analyzer_store_series";
    max_series_per_sender: Unset<Count> = None,
        "Active series of one sender (an address), and of a scrape job that has no `max_series` of its own. Unless set, four fifths of `max_series`, so that others find room.",
        limit;
    // A million series of 500 bytes.
    max_label_bytes: Bytes<u64> = 512 << 20,
        "Bytes of the labels of all series in the catalogue, series that ended included. Samples of further series are refused and counted as `over_limit`.",
        limit "goodput_analyzer_store_label_bytes";
    max_gpus: Count = 20_000,
        "GPUs that are judged, about 90 KiB of memory each besides their samples. Samples of further GPUs are stored and not judged, those that were stored last; the log says so.",
        limit "goodput_analyzer_judge_dropped_gpus";
    keep_unknown: Switch = false,
        "Keep series of metrics that no signal uses; otherwise their samples are dropped and counted as `unknown`.";
    retention: Age = None,
        "How long samples are kept at least. Whole segments are removed; most hold six hours or less.",
        limit "goodput_analyzer_store_raw_from_timestamp_seconds";
    // Verdicts that are not final rest on the samples of the last 6 h.
    retention_bytes: Size = None,
        "Disk for segments. The oldest are removed, but none with samples of the last 6 hours.",
        limit "goodput_analyzer_store_segment_bytes";
    retention_results: Age = None,
        "How long verdicts are kept: as long as samples, or longer.",
        limit "goodput_analyzer_store_removed_verdicts_total";
    segment_bytes: Bytes<u64> = 32 << 20,
        "What one merge reads, and so the largest segment that it makes; segments above half of it are not merged. A merge takes up to three times as much memory, and about 50 MiB.",
        limit "goodput_analyzer_store_segments";
    // A quarter holds the largest request of remote write.
    queue_bytes: Bytes = 32 << 20,
        "Memory of batches that wait to be committed, a quarter of it from one sender (an address, or a scraped target). Senders are served in turn; further batches wait at their senders.",
        limit "goodput_analyzer_store_queue_bytes";
    // VictoriaMetrics' `-storage.minFreeDiskSpaceBytes` has the same default.
    min_free_disk_space_bytes: Bytes<u64> = 100_000_000,
        "What is kept free on the disk for flushes, merges and verdicts. With less, samples are refused with status 503 and `Retry-After: 10` until there is room again; judging and reading go on, `/state` says so, `goodput_analyzer_store_short_of_space` is 1.",
        limit "goodput_analyzer_store_free_bytes";
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, keep: fn(&str) -> bool) -> Self {
        Self { dir: dir.into(), keep, ..Self::default() }
    }

    pub(super) fn keeps(&self, metric: &str) -> bool {
        self.keep_unknown || (self.keep)(metric) || self.also.contains(metric)
    }

    pub(super) fn series_per_sender(&self) -> usize {
        self.max_series_per_sender.unwrap_or(self.max_series - self.max_series / 5)
    }

    /// The bounds that hold, with that of one sender where none is set.
    pub(super) fn in_force(&self) -> Self {
        Self { max_series_per_sender: Some(self.series_per_sender()), ..self.clone() }
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
