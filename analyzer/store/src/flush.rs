//! The head becomes a segment, and its write-ahead goes.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use super::head::Head;
use super::segment::Encoder;
use super::segment::about::About;
use super::writer::{Writer, panicked};
use super::{StoreError, segments};

/// How long to leave a failed flush alone: a full disk is rarely freed sooner.
const RETRY: Duration = Duration::from_secs(10);

impl Writer {
    /// Flushes a full head. While flushing fails samples are still taken, until the head is twice as large.
    pub(super) async fn make_room(&mut self) -> Result<(), StoreError> {
        self.shared.database.check_owned()?;
        let limit = self.shared.options.head_bytes;
        if self.shared.state.read().head.bytes() < limit {
            return Ok(());
        }
        if self.retry <= Instant::now() {
            self.flush_due().await;
        }
        let bytes = self.shared.state.read().head.bytes();
        if bytes < limit.saturating_mul(2) {
            return Ok(());
        }
        let reason = format!("{bytes} bytes wait to be written to a segment, which fails; the limit is {limit}");
        Err(StoreError::NotStored { reason })
    }

    pub(super) async fn flush_due(&mut self) {
        if let Err(error) = self.flush().await {
            error!(%error, retry_s = RETRY.as_secs(), "cannot write a segment; its samples stay in the write-ahead");
            self.shared.totals.lock().failed_flushes += 1;
            self.retry = Instant::now() + RETRY;
        }
    }

    /// Moves the head into a segment. Commits wait meanwhile: 0.14 s for a head of 64 MiB, on the two cores it was tried on.
    pub(super) async fn flush(&mut self) -> Result<(), StoreError> {
        self.shared.database.check_owned()?;
        let shared = Arc::clone(&self.shared);
        // A new name each time: a commit that failed may be found complete after a crash, and then needs its own file.
        let about = About { seq: self.seq, after: Some(self.after), ..shared.about(shared.next_segment()) };
        let written = tokio::task::spawn_blocking(move || {
            let state = shared.state.read();
            let encoder = Encoder::of(state.head.all()).map_err(|reason| StoreError::NotStored { reason })?;
            let catalogue = shared.catalogue.read();
            segments::write(&shared.options.segments(), &about, encoder, |id| catalogue.labels(id).cloned())
        });
        let written = written.await.map_err(panicked)??;
        self.deadline = Instant::now() + self.shared.options.head_age;
        let Some(segment) = written else { return Ok(()) };
        let database = &self.shared.database;
        let keep = self.shared.bad_write_ahead.lock().clone();
        if let Err(error) = database.commit_segment(&segment, &keep).await {
            self.leftovers.push(self.shared.options.segments().join(segment.file_name()));
            return Err(database.failed(error));
        }
        info!(segment = segment.file_name(), rows = segment.rows(), bytes = segment.bytes, "segment written");
        self.after = segment.seq;
        if let Err(error) = self.acknowledged.restart(segment.seq) {
            warn!(%error, "cannot empty the file of acknowledged commits; the next flush tries again");
        }
        let mut state = self.shared.state.write();
        state.segments.push(Arc::new(segment));
        state.head = Head::default();
        self.flushed = Some(mem::take(&mut self.shared.totals.lock().write_ahead_bytes));
        self.upkeep_due = Instant::now();
        Ok(())
    }
}
