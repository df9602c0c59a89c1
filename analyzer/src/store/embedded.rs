//! The store in one data directory: what callers hold, and what it shares with the writer.

use std::fs::{self, File, TryLockError};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info, warn};

use super::admit::Row;
use super::arrivals::Arrivals;
use super::catalogue::{Catalogue, SeriesId};
use super::database::{self, Bad, Database, Kind};
use super::head::Head;
use super::queue::{Command, Incoming, Room};
use super::segments::{self, Segment, settle};
use super::stats::{Compacted, Stats, Upkeep};
use super::writer::Writer;
use super::{Appended, Options, Samples, Selection, StoreError, write_ahead};
use crate::sample::{Batch, Sample, Series, SeriesRef, TimeMs};

/// The store: a handle, cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub(super) shared: Arc<Shared>,
    queue: mpsc::UnboundedSender<Command>,
}

pub(super) struct Shared {
    pub(super) options: Options,
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
    pub(super) last_commit: Option<Duration>,
    pub(super) failed_flushes: u64,
    pub(super) upkeep: Upkeep,
    /// Time of the earliest sample that was not judged when the store was opened.
    pub(super) unjudged_from: Option<TimeMs>,
}

impl Totals {
    fn note_unjudged(&mut self, time: TimeMs) {
        self.unjudged_from = Some(self.unjudged_from.map_or(time, |earliest| earliest.min(time)));
    }
}

impl State {
    fn add(&mut self, segment: Arc<Segment>) {
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
        for dir in [&options.dir, &options.segments(), &options.quarantine()] {
            fs::create_dir_all(dir).map_err(|error| StoreError::Io { path: dir.clone(), error })?;
        }
        let lock = lock(&options.dir)?;
        let database = Database::open(options.database()).await?;
        let (queue, commands) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            room: Room::new(options.queue_bytes),
            was_short: AtomicBool::new(false),
            options,
            database,
            catalogue: RwLock::default(),
            state: RwLock::default(),
            totals: Mutex::default(),
            last_segment: AtomicI64::default(),
            last_event: AtomicI64::default(),
            storing_events: tokio::sync::Mutex::default(),
            arrivals: Arrivals::default(),
        });
        let seq = shared.load().await?;
        let next_series = shared.query(shared.database.next_series()).await?;
        tokio::spawn(Writer::new(Arc::clone(&shared), lock, next_series, seq).run(commands));
        Ok(Self { shared, queue })
    }

    /// Writes what is in the head to a segment now.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.ask(Command::Flush).await?
    }

    /// Merges small segments of the same six hours, however few; `None` when there is nothing left to merge.
    pub async fn compact(&self) -> Result<Option<Compacted>, StoreError> {
        self.ask(Command::Compact).await?
    }

    /// Stores what is queued and lets go of the directory. What is in the write-ahead stays there.
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
            series: self.shared.catalogue.read().len() as u64,
            head_bytes: state.head.bytes() as u64,
            write_ahead_bytes: totals.write_ahead_bytes,
            segments: state.segments.len() as u64,
            segment_bytes: state.segments.iter().map(|segment| segment.bytes).sum(),
            quarantined: totals.quarantined,
            last_commit: totals.last_commit,
            failed_flushes: totals.failed_flushes,
            raw_from: state.raw_from,
            upkeep: totals.upkeep,
            limits: self.shared.options.limits(),
        }
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(command(reply)).map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)
    }
}

impl Samples for Store {
    async fn append(&self, batch: Batch) -> Result<Appended, StoreError> {
        self.shared.check_space()?;
        let bytes = batch.sample_count() * size_of::<Row>() + batch.label_bytes();
        let place = self.shared.room.take(batch.sender(), bytes).await;
        let SortedOut { rows, fresh, counts, removals } = self.shared.sort_out(&batch);
        if rows.is_empty() && fresh.is_empty() {
            self.shared.totals.lock().appended += counts;
            return Ok(counts);
        }
        let sender = Arc::clone(batch.sender());
        drop(batch);
        self.ask(|reply| Command::Append(sender, Incoming { rows, fresh, counts, removals, reply, _place: place }))
            .await?
    }

    fn keeps(&self, metric: &str) -> bool {
        self.shared.options.keeps(metric)
    }

    fn takes(&self) -> RangeInclusive<TimeMs> {
        let Options { now, future, .. } = self.shared.options;
        let ahead = TimeMs::try_from(future.as_millis()).unwrap_or(TimeMs::MAX);
        self.shared.earliest()..=now().saturating_add(ahead)
    }

    async fn select(&self, selection: &Selection) -> Result<Vec<Series>, StoreError> {
        let ids = self.shared.catalogue.read().matching(selection);
        let range = selection.range.clone();
        let (segments, recent) = {
            let state = self.shared.state.read();
            let recent: Vec<Vec<Sample>> = ids.iter().map(|id| state.head.range(*id, &range).to_vec()).collect();
            (state.overlapping(&range), recent)
        };
        let stored = self.shared.read(segments, ids.clone(), range).await;
        let catalogue = self.shared.catalogue.read();
        let join = |((id, mut samples), recent): ((SeriesId, Vec<Sample>), Vec<Sample>)| {
            samples.extend(recent);
            settle(&mut samples);
            let labels = catalogue.labels(id).filter(|_| !samples.is_empty())?.clone();
            Some(Series { labels, samples })
        };
        Ok(ids.into_iter().zip(stored).zip(recent).filter_map(join).collect())
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

    /// Reads series (in order of id) from segments; what cannot be read is quarantined and the rest returned.
    pub(super) async fn read(
        &self,
        segments: Vec<Arc<Segment>>,
        ids: Vec<SeriesId>,
        range: Range<TimeMs>,
    ) -> Vec<Vec<Sample>> {
        if segments.is_empty() || ids.is_empty() {
            return vec![Vec::new(); ids.len()];
        }
        let (dir, all, count) = (self.options.segments(), segments.clone(), ids.len());
        match tokio::task::spawn_blocking(move || segments::read(&dir, &segments, &ids, &range)).await {
            Ok(found) => {
                for (segment, reason) in found.bad {
                    self.quarantine_segment(&segment, &reason).await;
                }
                found.samples
            }
            Err(error) => {
                error!(%error, segments = all.len(), "reading segments panicked");
                vec![Vec::new(); count]
            }
        }
    }

    async fn query<T>(&self, query: impl Future<Output = sqlx::Result<T>>) -> Result<T, StoreError> {
        query.await.map_err(|error| self.database.failed(error))
    }

    /// Fills catalogue, segment index and head. Returns the last write-ahead sequence number.
    async fn load(&self) -> Result<i64, StoreError> {
        for (id, labels) in self.query(self.database.series()).await? {
            self.catalogue.write().insert(id, labels);
        }
        let (last_segment, raw_from) = self.query(self.database.upkeep()).await?;
        self.last_segment.store(last_segment, Ordering::Relaxed);
        self.state.write().raw_from = raw_from;
        self.totals.lock().quarantined = self.query(self.database.quarantined()).await?;
        self.last_event.store(self.query(self.database.last_event()).await?, Ordering::Release);
        if let Some(time) = self.query(self.database.events_unjudged_from()).await? {
            self.totals.lock().note_unjudged(time);
        }
        let dir = self.options.segments();
        let judged = self.query(self.database.judged()).await?.unwrap_or(i64::MAX);
        let found = self.query(self.database.segments()).await?;
        let orphans =
            segments::collect_orphans(&dir, &found).map_err(|error| StoreError::Io { path: dir.clone(), error })?;
        for path in orphans {
            info!(path = %path.display(), "removed what an interrupted flush, merge or removal left");
        }
        for segment in found.into_iter().map(Arc::new) {
            if segment.seq > judged {
                self.totals.lock().note_unjudged(segment.first_ms);
            }
            self.state.write().add(Arc::clone(&segment));
            if let Err(reason) = segment.check(&dir) {
                self.quarantine_segment(&segment, &reason).await;
            }
        }
        self.replay(judged).await
    }

    async fn replay(&self, judged: i64) -> Result<i64, StoreError> {
        let mut last = self.state.read().seq;
        while let Some((seq, checksum, bytes)) =
            self.query(database::write_ahead_after(&self.database.read, last)).await?
        {
            last = seq;
            match write_ahead::open(checksum, &bytes) {
                Ok(rows) => {
                    let mut totals = self.totals.lock();
                    totals.write_ahead_bytes += bytes.len() as u64;
                    if seq > judged {
                        rows.iter().for_each(|(_, sample)| totals.note_unjudged(sample.time_ms));
                    }
                    let head = &mut self.state.write().head;
                    rows.into_iter().for_each(|(id, sample)| head.insert(id, sample));
                }
                Err(reason) => self.quarantine_write_ahead(seq, &bytes, &reason).await?,
            }
        }
        self.state.write().seq = last;
        Ok(last)
    }

    /// Takes a segment out of service, once.
    pub(super) async fn quarantine_segment(&self, segment: &Segment, reason: &str) {
        {
            let segments = &mut self.state.write().segments;
            let before = segments.len();
            segments.retain(|other| other.id != segment.id);
            if segments.len() == before {
                return;
            }
        }
        let name = segment.file_name();
        let (from, to) = (self.options.segments().join(&name), self.options.quarantine().join(&name));
        warn!(path = %to.display(), reason, rows = segment.rows(), "bad segment quarantined; its samples are not served");
        if let Err(error) = fs::rename(&from, &to) {
            warn!(path = %from.display(), %error, "cannot move the bad segment");
        }
        let bad = Bad { kind: Kind::Segment, id: segment.id, name: &name, reason };
        if let Err(error) = self.note_quarantined(bad).await {
            warn!(%error, "cannot take the bad segment out of the index; the next start tries again");
        }
    }

    async fn quarantine_write_ahead(&self, seq: i64, bytes: &[u8], reason: &str) -> Result<(), StoreError> {
        let name = format!("{seq:012}.write-ahead");
        let path = self.options.quarantine().join(&name);
        warn!(path = %path.display(), reason, "bad write-ahead row quarantined; its samples are lost");
        fs::write(&path, bytes).map_err(|error| StoreError::Io { path, error })?;
        self.note_quarantined(Bad { kind: Kind::WriteAhead, id: seq, name: &name, reason }).await
    }

    async fn note_quarantined(&self, bad: Bad<'_>) -> Result<(), StoreError> {
        self.totals.lock().quarantined += 1;
        self.query(self.database.quarantine(bad, (self.options.now)())).await
    }
}

/// A directory that is this process's.
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child that another thread is starting has the file open too until its program runs.
        // What cannot be unlocked is so once the last of them has closed it.
        let _ = self.0.unlock();
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
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path }),
        Err(TryLockError::Error(error)) => Err(StoreError::Io { path, error }),
    }
}
