//! What the writer does between commits: it merges segments and removes what is older or more than is kept.

use std::fs;
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinHandle};
use tracing::{error, info};

use super::away;
use super::compact::{self, Rules};
use super::embedded::Shared;
use super::merge::{self, Failure};
use super::quarantine::segments_hole;
use super::retain::{self, Keep};
use super::segment::about::About;
use super::segments::{self, Segment, Unreadable};
use super::stats::Compacted;
use super::writer::Writer;
use super::{StoreError, writer};
use goodput_exposition::sample::TimeMs;

/// How often is looked for work when nothing is flushed.
pub(super) const EVERY: Duration = Duration::from_mins(1);

/// A merge under way. It holds the directory's lock, so that no other process takes the directory while it writes.
pub(super) struct Merging {
    inputs: Vec<Arc<Segment>>,
    cancel: Arc<AtomicBool>,
    task: JoinHandle<Result<Vec<Segment>, Failure>>,
}

type Outcome = Result<Result<Vec<Segment>, Failure>, JoinError>;

/// Resolves when the merge is over; never when there is none.
pub(super) async fn merged(merging: &mut Option<Merging>) -> Outcome {
    match merging {
        Some(merging) => (&mut merging.task).await,
        None => pending().await,
    }
}

impl Writer {
    /// Removes what is not kept any longer, and begins a merge if there is none and one is worth it.
    pub(super) async fn upkeep(&mut self) {
        self.upkeep_due = Instant::now() + EVERY;
        if self.shared.database.check_owned().is_err() {
            return;
        }
        self.take_back();
        self.note_fullness();
        let done = async {
            self.clear_leftovers().await?;
            self.forget_retired().await?;
            self.keep_clock().await?;
            self.retain().await?;
            self.shared.query(self.shared.count_bad_rows()).await?;
            self.begin_sweep();
            self.give_back().await?;
            if self.merging.is_none() {
                self.merging = self.begin_merge(false).await?;
            }
            Ok::<_, StoreError>(())
        };
        if let Err(error) = done.await {
            self.note_failure(&error);
        }
    }

    async fn keep_clock(&self) -> Result<(), StoreError> {
        let Some(now) = self.shared.clock.to_keep() else { return Ok(()) };
        let database = &self.shared.database;
        database.keep_clock(now).await.map_err(|error| database.failed(error))
    }

    /// Pages of `goodput.db` that the next write-ahead will not take, going by the last one, are given back.
    async fn give_back(&mut self) -> Result<(), StoreError> {
        let Some(flushed) = self.flushed.take() else { return Ok(()) };
        let database = &self.shared.database;
        // A quarter more: rows do not fill their last pages.
        let bytes = database.give_back(flushed + flushed / 4).await.map_err(|error| database.failed(error))?;
        if bytes > 0 {
            info!(bytes, "free pages of goodput.db given back");
        }
        Ok(())
    }

    fn note_failure(&self, error: &StoreError) {
        error!(%error, retry_s = EVERY.as_secs(), "cannot merge or remove segments; they stay as they are");
        self.shared.totals.lock().upkeep.failures += 1;
    }

    /// The next merge that there is, to its end; `None` when there is nothing to merge.
    pub(super) async fn compact(&mut self) -> Result<Option<Compacted>, StoreError> {
        self.shared.database.check_owned()?;
        if self.merging.is_none() {
            self.merging = self.begin_merge(true).await?;
        }
        if self.merging.is_none() {
            return Ok(None);
        }
        let outcome = merged(&mut self.merging).await;
        self.finish_merge(outcome).await.map(Some)
    }

    async fn begin_merge(&self, eager: bool) -> Result<Option<Merging>, StoreError> {
        let Shared { options, database, .. } = &*self.shared;
        if away::untouched_until(&options.dir).is_some() {
            return Ok(None);
        }
        let judged = database.judged().await.map_err(|error| database.failed(error))?.unwrap_or(i64::MAX);
        let segments = self.shared.state.read().segments.clone();
        let newest = retain::reference(&segments, self.shared.clock.for_retention()).unwrap_or(TimeMs::MIN);
        let over_until = retain::before(newest, options.out_of_order + options.head_age);
        let rules = Rules { segment_bytes: options.segment_bytes, judged, over_until, eager };
        let inputs = compact::plan(&segments, rules);
        if inputs.is_empty() {
            return Ok(None);
        }
        let (shared, lock, cancel) = (Arc::clone(&self.shared), Arc::clone(&self.lock), Arc::<AtomicBool>::default());
        let (read, stop) = (inputs.clone(), Arc::clone(&cancel));
        let task = tokio::task::spawn_blocking(move || {
            let _held = lock;
            let labels = |id| shared.catalogue.read().labels(id).cloned();
            merge::merge(&shared.options.segments(), &read, &stop, labels, || shared.about(shared.next_segment()))
        });
        Ok(Some(Merging { inputs, cancel, task }))
    }

    /// A merge in the background is over.
    pub(super) async fn after_merge(&mut self, outcome: Outcome) {
        match self.finish_merge(outcome).await {
            Ok(_) => self.upkeep_due = Instant::now(),
            Err(error) => self.note_failure(&error),
        }
    }

    async fn finish_merge(&mut self, outcome: Outcome) -> Result<Compacted, StoreError> {
        let inputs = self.merging.take().map(|merging| merging.inputs).unwrap_or_default();
        let outputs = match outcome {
            Ok(Ok(outputs)) => outputs,
            Ok(Err(Failure::Failed(error))) => return Err(error),
            Ok(Err(Failure::Cancelled)) => return Ok(Compacted::default()),
            Ok(Err(Failure::Bad(segment, Unreadable::Damaged(reason)))) => {
                self.shared.quarantine_segment(&segment, &reason).await;
                return Ok(Compacted::default());
            }
            Ok(Err(Failure::Bad(segment, error))) => {
                let error = error.at(self.shared.path_of(&segment));
                self.shared.note_read_error(&error);
                return Err(error);
            }
            Err(error) => return Err(writer::panicked(error)),
        };
        let served = |input: &Arc<Segment>| self.shared.state.read().segments.iter().any(|s| s.id == input.id);
        if !inputs.iter().all(served) {
            // One was removed or set aside meanwhile; the others are merged another time.
            self.leftovers.extend(outputs.iter().map(|segment| self.shared.path_of(segment)));
            return Ok(Compacted::default());
        }
        self.put_in_place(&inputs, outputs).await
    }

    async fn put_in_place(&mut self, inputs: &[Arc<Segment>], outputs: Vec<Segment>) -> Result<Compacted, StoreError> {
        let database = &self.shared.database;
        if let Err(error) = database.replace_segments(inputs, &outputs, None).await {
            self.leftovers.extend(outputs.iter().map(|segment| self.shared.path_of(segment)));
            return Err(database.failed(error));
        }
        let bytes = |segments: &mut dyn Iterator<Item = &Segment>| segments.map(|s| s.bytes).sum::<u64>();
        let compacted = Compacted {
            segments: inputs.len() as u64,
            bytes: bytes(&mut inputs.iter().map(Arc::as_ref)),
            into_segments: outputs.len() as u64,
            into_bytes: bytes(&mut outputs.iter()),
        };
        info!(?compacted, "segments merged");
        self.take_out(inputs, outputs);
        let totals = &mut self.shared.totals.lock().upkeep;
        totals.merges += 1;
        totals.merged_segments += compacted.segments;
        Ok(compacted)
    }

    /// What is out of the index is no longer read; its files go with their last reader.
    fn take_out(&self, old: &[Arc<Segment>], new: Vec<Segment>) {
        let state = &mut *self.shared.state.write();
        let segments = &mut state.segments;
        segments.retain(|segment| old.iter().all(|old| old.id != segment.id));
        segments.extend(new.into_iter().map(Arc::new));
        let absent = &mut state.absent;
        absent.retain(|segment| old.iter().all(|old| old.id != segment.id));
        let dir = self.shared.options.segments();
        old.iter().for_each(|segment| segment.retire(&dir));
    }

    /// Removes segments that are wholly beyond what is kept, and verdicts that are.
    async fn retain(&mut self) -> Result<(), StoreError> {
        let Shared { options, database, .. } = &*self.shared;
        let segments = self.shared.state.read().segments.clone();
        let now = self.shared.clock.for_retention();
        let keep = Keep { age: options.retention, bytes: options.retention_bytes };
        let expired = retain::expired(&segments, keep, now);
        if let Some(last) = expired.iter().map(|segment| segment.last_ms).max() {
            let gone = |segment: &&Arc<Segment>| segment.last_ms <= last;
            let absent: Vec<_> = self.shared.state.read().absent.iter().filter(gone).cloned().collect();
            let expired = [expired, absent].concat();
            let raw_from = last.saturating_add(1);
            let replaced = database.replace_segments(&expired, &[], Some(raw_from)).await;
            replaced.map_err(|error| database.failed(error))?;
            self.note_removed(&expired, raw_from);
            self.sweep_due = true;
        }
        if let (Some(age), Some(newest)) = (options.retention_results, retain::reference(&segments, now)) {
            let forgotten = database.forget_verdicts(retain::before(newest, age)).await;
            let rows = forgotten.map_err(|error| database.failed(error))?;
            self.shared.totals.lock().upkeep.removed_verdicts += rows;
        }
        Ok(())
    }

    fn note_removed(&self, expired: &[Arc<Segment>], raw_from: TimeMs) {
        let (samples, bytes) = expired
            .iter()
            .fold((0, 0), |(samples, bytes), segment| (samples + segment.rows() as u64, bytes + segment.bytes));
        info!(segments = expired.len(), samples, bytes, until_ms = raw_from, "samples removed: beyond retention");
        self.take_out(expired, Vec::new());
        let raw = &mut self.shared.state.write().raw_from;
        *raw = (*raw).max(Some(raw_from));
        let totals = &mut self.shared.totals.lock().upkeep;
        totals.removed_segments += expired.len() as u64;
        totals.removed_samples += samples;
        totals.removed_bytes += bytes;
    }

    /// Serves segments whose files are there again.
    fn take_back(&self) {
        let dir = self.shared.options.segments();
        let absent = self.shared.state.read().absent.clone();
        for segment in absent.into_iter().filter(|segment| segment.check(&dir).is_ok()) {
            info!(segment = segment.file_name(), "segment file is there again; its samples are served");
            self.shared.fill_hole(&segments_hole(&segment, 0).name);
            let state = &mut *self.shared.state.write();
            state.absent.retain(|other| other.id != segment.id);
            state.segments.push(segment);
        }
    }

    /// Forgets which segments were written off once their files are gone.
    async fn forget_retired(&self) -> Result<(), StoreError> {
        let Shared { options, database, .. } = &*self.shared;
        let retired = database.retired().await.map_err(|error| database.failed(error))?;
        let is_gone =
            |id: &i64| options.segments().join(segments::file_name(*id)).try_exists().is_ok_and(|there| !there);
        let gone: Vec<i64> = retired.into_iter().filter(is_gone).collect();
        if gone.is_empty() {
            return Ok(());
        }
        database.forget_retired(&gone).await.map_err(|error| database.failed(error))
    }

    /// Removes files whose transaction failed. A failed commit may be found complete after a crash, until a later one
    /// has taken its place in SQLite's journal: only then are the files surely not in the index.
    async fn clear_leftovers(&mut self) -> Result<(), StoreError> {
        if self.leftovers.is_empty() {
            return Ok(());
        }
        let database = &self.shared.database;
        database.replace_segments(&[], &[], None).await.map_err(|error| database.failed(error))?;
        for path in self.leftovers.drain(..) {
            // What stays is an orphan, which the next start removes.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// The end of the writer: no merge goes on after it.
    pub(super) async fn cancel_merge(&mut self) {
        if let Some(merging) = self.merging.take() {
            merging.cancel.store(true, Ordering::Relaxed);
            if let Ok(Ok(outputs)) = merging.task.await {
                // They are not in the index, and all that is in them is in the inputs.
                let paths = outputs.iter().map(|segment| self.shared.path_of(segment));
                paths.for_each(|path| drop(fs::remove_file(path)));
            }
        }
    }
}

impl Shared {
    fn path_of(&self, segment: &Segment) -> PathBuf {
        self.options.segments().join(segment.file_name())
    }

    /// Where a new segment belongs.
    pub(super) fn about(&self, id: i64) -> About {
        let (directory, generation) = (self.database.directory.clone(), self.database.generation());
        About { directory, generation, id, ..About::default() }
    }

    /// An id that no segment ever had.
    pub(super) fn next_segment(&self) -> i64 {
        self.last_segment.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Samples before this are not taken: they are removed, or would be at once.
    pub(super) fn earliest(&self) -> TimeMs {
        let state = self.state.read();
        let oldest = self.options.retention.zip(retain::reference(&state.segments, self.clock.for_retention()));
        let oldest = oldest.map_or(TimeMs::MIN, |(age, newest)| retain::before(newest, age));
        oldest.max(state.raw_from.unwrap_or(TimeMs::MIN)).max(self.options.earliest)
    }
}
