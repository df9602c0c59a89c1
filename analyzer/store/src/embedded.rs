//! The store in one data directory: what callers hold, and what it shares with the writer.

use std::collections::{HashMap, HashSet};
use std::fs::{File, TryLockError};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info, warn};

use super::admit::Row;
use super::arrivals::Arrivals;
use super::bad_rows::Lost;
use super::catalogue::{Catalogue, SeriesId};
use super::changes::Changes;
use super::clock::Clock;
use super::database::Database;
use super::head::Head;
use super::holes::Hole;
use super::queue::{Command, Incoming, Room};
use super::segments::{self, Segment};
use super::stats::{Compacted, Stats, Upkeep};
use super::writer::Writer;
use super::{Appended, Ingest, Options, StoreError, start};
use goodput_exposition::sample::{Batch, Sample, Series, SeriesRef, TimeMs};

/// The store: a handle, cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub(super) shared: Arc<Shared>,
    /// Rows of results that one read may return; such a store reads through a pool of its own.
    pub(super) max_rows: Option<usize>,
    queue: mpsc::UnboundedSender<Command>,
}

pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) clock: Clock,
    pub(super) database: Database,
    pub(super) catalogue: RwLock<Catalogue>,
    pub(super) state: RwLock<State>,
    pub(super) totals: Mutex<Totals>,
    pub(super) room: Room,
    /// Was there too little space when a batch came last?
    was_short: AtomicBool,
    /// The highest id that was given to a segment.
    pub(super) last_segment: AtomicI64,
    /// The last event that is stored.
    pub(super) last_event: AtomicI64,
    /// Write-ahead rows that are damaged and could not be set aside: no flush removes them.
    pub(super) bad_write_ahead: Mutex<Vec<i64>>,
    pub(super) changes: Mutex<Changes>,
    /// Windows that lost rows which could not be read.
    pub(super) lost: Mutex<Lost>,
    /// Starts of the windows whose verdicts were replaced since the start.
    pub(super) replaced: Mutex<HashSet<TimeMs>>,
    /// When something last failed that is not tried again at once.
    pub(super) failed: Mutex<HashMap<&'static str, Instant>>,
    /// Held while events are stored and noted, so that each commit is noted before the next one.
    pub(super) storing_events: tokio::sync::Mutex<()>,
    pub(super) arrivals: Arrivals,
}

/// Where samples are. One lock, so that a flush moves them from head to segment at one instant.
#[derive(Default)]
pub(super) struct State {
    pub(super) head: Head,
    pub(super) segments: Vec<Arc<Segment>>,
    /// The last write-ahead row whose samples are in either.
    pub(super) seq: i64,
    /// Samples before this have been removed.
    pub(super) raw_from: Option<TimeMs>,
    /// Segments of the index whose files are not there.
    pub(super) absent: Vec<Arc<Segment>>,
    /// Where samples cannot be read now.
    pub(super) holes: Vec<Hole>,
}

/// A batch whose series have been looked up once.
struct SortedOut {
    rows: Vec<Row>,
    fresh: Vec<Series>,
    counts: Appended,
    /// The catalogue's, by then.
    removals: u64,
}

#[derive(Default)]
pub(super) struct Totals {
    pub(super) appended: Appended,
    pub(super) write_ahead_bytes: u64,
    pub(super) quarantined: u64,
    pub(super) bad_rows: u64,
    pub(super) last_commit: Option<Duration>,
    pub(super) failed_flushes: u64,
    pub(super) unknown_files: u64,
    pub(super) read_errors: u64,
    pub(super) missing_samples: u64,
    /// Active ones.
    pub(super) series: u64,
    pub(super) evicted_series: u64,
    pub(super) upkeep: Upkeep,
    /// Time of the earliest sample that was not judged when the store was opened.
    pub(super) unjudged_from: Option<TimeMs>,
}

impl Totals {
    pub(super) fn note_unjudged(&mut self, time: TimeMs) {
        self.unjudged_from = Some(self.unjudged_from.map_or(time, |earliest| earliest.min(time)));
    }
}

impl State {
    pub(super) fn add(&mut self, segment: Arc<Segment>) {
        self.seq = self.seq.max(segment.seq);
        self.segments.push(segment);
    }

    /// No segment holds a sample after this; none when there are no segments.
    pub(super) fn flushed_until(&self) -> Option<TimeMs> {
        self.segments.iter().map(|segment| segment.last_ms).max()
    }

    pub(super) fn overlapping(&self, range: &Range<TimeMs>) -> Vec<Arc<Segment>> {
        self.segments.iter().filter(|segment| segment.overlaps(range)).cloned().collect()
    }
}

impl Store {
    /// Opens or creates the data directory. Needs a tokio runtime, on which the writer then runs.
    pub async fn open(options: Options) -> Result<Self, StoreError> {
        start::create(&options.dir)?;
        let lock = lock(&options.dir)?;
        start::check(&options).await?;
        let database = Database::open(options.database()).await?;
        let clock = Clock::open(&options, &database).await?;
        let (queue, commands) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            room: Room::new(options.queue_bytes),
            was_short: AtomicBool::new(false),
            options,
            clock,
            database,
            catalogue: RwLock::default(),
            state: RwLock::default(),
            totals: Mutex::default(),
            last_segment: AtomicI64::default(),
            last_event: AtomicI64::default(),
            bad_write_ahead: Mutex::default(),
            changes: Mutex::default(),
            lost: Mutex::default(),
            replaced: Mutex::default(),
            failed: Mutex::default(),
            storing_events: tokio::sync::Mutex::default(),
            arrivals: Arrivals::default(),
        });
        let begun = shared.load().await?;
        let next_series = shared.query(shared.database.next_series()).await?;
        tokio::spawn(Writer::new(Arc::clone(&shared), lock, next_series, begun).run(commands));
        Ok(Self { shared, max_rows: None, queue })
    }

    /// The same store for pages: no read of results returns more rows than this, and none keeps judging waiting.
    #[must_use]
    pub fn for_pages(&self, max_rows: usize) -> Self {
        Self { max_rows: Some(max_rows), ..self.clone() }
    }

    /// Writes what is in the head to a segment now.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.ask(Command::Flush).await?
    }

    /// Merges small segments of the same six hours, however few; `None` when there is nothing left to merge.
    pub async fn compact(&self) -> Result<Option<Compacted>, StoreError> {
        self.ask(Command::Compact).await?
    }

    /// Rolls up the days that are over now; this goes on by itself while the store is open.
    pub async fn roll_up_days(&self) -> Result<(), StoreError> {
        self.ask(Command::RollUpDays).await?
    }

    /// Stores what is queued and releases the directory. What is in the write-ahead stays there.
    pub async fn close(&self) {
        // An error means that it is closed already.
        let _ = self.ask(Command::Close).await;
    }

    /// Counts and sizes, for metrics.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let free = self.shared.free();
        let state = self.shared.state.read();
        let totals = self.shared.totals.lock();
        Stats {
            queue_bytes: self.shared.room.taken(),
            free_bytes: free,
            short_of_space: self.shared.is_short(free),
            appended: totals.appended,
            series: totals.series,
            evicted_series: totals.evicted_series,
            catalogue_series: self.shared.catalogue.read().len() as u64,
            label_bytes: self.shared.catalogue.read().label_bytes(),
            head_bytes: state.head.bytes() as u64,
            write_ahead_bytes: totals.write_ahead_bytes,
            segments: state.segments.len() as u64,
            segment_bytes: state.segments.iter().map(|segment| segment.bytes).sum(),
            quarantined: totals.quarantined,
            bad_rows: totals.bad_rows,
            last_commit: totals.last_commit,
            failed_flushes: totals.failed_flushes,
            unknown_files: totals.unknown_files,
            read_errors: totals.read_errors,
            missing_samples: totals.missing_samples,
            clock_in_doubt: self.shared.clock.in_doubt(),
            raw_from: state.raw_from,
            upkeep: totals.upkeep,
            limits: self.shared.options.in_force(),
        }
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(command(reply)).map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)
    }
}

impl Ingest for Store {
    async fn append(&self, batch: Batch) -> Result<Appended, StoreError> {
        self.shared.check_space()?;
        self.shared.clock.compare(&batch)?;
        let bytes = batch.sample_count() * size_of::<Row>() + batch.label_bytes();
        let place = self.shared.room.take(batch.sender(), bytes).await;
        let SortedOut { rows, fresh, counts, removals } = self.shared.sort_out(&batch);
        if rows.is_empty() && fresh.is_empty() {
            self.shared.totals.lock().appended += counts;
            return Ok(counts);
        }
        let (sender, job) = (Arc::clone(batch.sender()), batch.job().cloned());
        drop(batch);
        let source = (Arc::clone(&sender), job);
        let incoming = |reply| Incoming { rows, fresh, counts, removals, source, reply, _place: place };
        self.ask(|reply| Command::Append(sender, incoming(reply))).await?
    }

    fn keeps(&self, metric: &str) -> bool {
        self.shared.options.keeps(metric)
    }

    fn takes(&self) -> RangeInclusive<TimeMs> {
        let Options { now, future, .. } = self.shared.options;
        let ahead = TimeMs::try_from(future.as_millis()).unwrap_or(TimeMs::MAX);
        self.shared.earliest()..=now().saturating_add(ahead)
    }
}

impl Shared {
    fn free(&self) -> Option<u64> {
        (self.options.free_space)(&self.options.dir)
    }

    fn is_short(&self, free: Option<u64>) -> bool {
        free.is_some_and(|free| free < self.options.min_free_disk_space_bytes)
    }

    /// An error while there is too little space; says in the log when that begins and ends.
    pub(super) fn check_space(&self) -> Result<(), StoreError> {
        let free = self.free();
        let short = self.is_short(free);
        if self.was_short.swap(short, Ordering::Relaxed) != short {
            let minimum = self.options.min_free_disk_space_bytes;
            if short {
                error!(free, minimum, "the disk is nearly full: no samples are taken until there is room");
            } else {
                info!(free, minimum, "there is room on the disk again: samples are taken");
            }
        }
        let (Some(free), true) = (free, short) else { return Ok(()) };
        Err(StoreError::NoSpace {
            path: self.options.dir.clone(),
            free,
            minimum: self.options.min_free_disk_space_bytes,
        })
    }

    /// Looks up every series once: rows of known ones, and the series that are worth creating.
    fn sort_out(&self, batch: &Batch) -> SortedOut {
        let catalogue = self.catalogue.read();
        let mut counts = Appended::default();
        let mut fresh = Vec::new();
        let mut rows = Vec::with_capacity(batch.sample_count());
        for SeriesRef { labels, samples } in batch.series() {
            if let Some(id) = catalogue.id(labels) {
                rows.extend(samples.iter().map(|sample| Row { id, batch: 0, sample: *sample }));
            } else if self.options.keeps(labels.metric()) {
                fresh.push(Series { labels: labels.to_labels(), samples: samples.to_vec() });
            } else {
                counts.unknown += samples.len() as u64;
            }
        }
        SortedOut { rows, fresh, counts, removals: catalogue.removals() }
    }

    /// Reads series (in order of id) from segments. A damaged one is quarantined and the rest returned; what the file
    /// system refuses to read is an error.
    pub(super) async fn read(
        &self,
        segments: Vec<Arc<Segment>>,
        ids: Vec<SeriesId>,
        range: Range<TimeMs>,
    ) -> Result<Vec<Vec<Sample>>, StoreError> {
        if segments.is_empty() || ids.is_empty() {
            return Ok(vec![Vec::new(); ids.len()]);
        }
        let dir = self.options.segments();
        let read = tokio::task::spawn_blocking(move || segments::read(&dir, &segments, &ids, &range)).await;
        let read = read.unwrap_or_else(|error| Err(StoreError::ReadFailed { reason: error.to_string() }));
        let found = read.inspect_err(|error| self.note_read_error(error))?;
        for (segment, reason) in found.bad {
            self.quarantine_segment(&segment, &reason).await;
        }
        Ok(found.samples)
    }

    /// Counts a read that failed, and says so.
    pub(super) fn note_read_error(&self, error: &StoreError) {
        self.totals.lock().read_errors += 1;
        warn!(%error, "a read failed; nothing is set aside for it");
    }

    pub(super) async fn query<T>(&self, query: impl Future<Output = sqlx::Result<T>>) -> Result<T, StoreError> {
        query.await.map_err(|error| self.database.failed(error))
    }
}

/// A directory that is this process's: its file `lock`, and the directory itself, whose lock cannot be removed.
pub(super) struct Lock(Vec<File>);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child that another thread is starting has the file open too until its program runs.
        // What cannot be unlocked is so once the last of them has closed it.
        for file in &self.0 {
            let _ = file.unlock();
        }
    }
}

/// Takes the directory for this process; the lock ends with the file handle, so also by `kill -9`.
pub(super) fn lock(dir: &Path) -> Result<Lock, StoreError> {
    let path: PathBuf = dir.join("lock");
    let opened = File::options().write(true).create(true).truncate(false).open(&path);
    let file = match opened {
        Ok(file) => file,
        Err(error) => return Err(StoreError::Io { path, error }),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(StoreError::Locked { path }),
        Err(TryLockError::Error(error)) => return Err(StoreError::Io { path, error }),
    }
    let whole = File::open(dir).map_err(|error| StoreError::Io { path: dir.to_owned(), error })?;
    match whole.try_lock() {
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: dir.to_owned() }),
        // Network file systems lock no directories. The generation in the database is checked at every commit.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Lock(vec![file, whole])),
    }
}
