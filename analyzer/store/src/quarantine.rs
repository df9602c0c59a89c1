//! Sets aside what is damaged: first the file is in `quarantine/`, on disk, then its row leaves the index. Where the first
//! fails nothing changes, and the next read tries again.

use std::path::Path;
use std::sync::Arc;

use tracing::{error, warn};

use super::embedded::Shared;
use super::holes::Hole;
use super::index::{Bad, Kind};
use super::segments::Segment;
use super::{StoreError, aside};
use goodput_exposition::sample::TimeMs;

impl Shared {
    /// Takes a damaged segment out of service, once.
    pub(super) async fn quarantine_segment(&self, segment: &Arc<Segment>, reason: &str) {
        let is_served = self.state.read().segments.iter().any(|other| other.id == segment.id);
        if !is_served {
            return;
        }
        let from = self.options.segments().join(segment.file_name());
        if !segment.is_sound {
            // The entry is damaged, perhaps not the file.
            error!(path = %from.display(), reason, "segment and index entry do not agree, and the entry is damaged; its samples are not served");
            self.totals.lock().read_errors += 1;
            return self.note_hole(segments_hole(segment, (self.options.now)()));
        }
        let to = match aside::move_into(&from, &self.options.quarantine()) {
            Ok(to) => to,
            Err(error) => {
                error!(path = %from.display(), reason, %error, "cannot set a damaged segment aside; it stays in the index and its samples are not served");
                self.totals.lock().read_errors += 1;
                self.note_hole(segments_hole(segment, (self.options.now)()));
                return;
            }
        };
        self.state.write().segments.retain(|other| other.id != segment.id);
        warn!(path = %to.display(), reason, rows = segment.rows(), "damaged segment quarantined; its samples are not served");
        self.note_segment(segment, &to, reason).await;
    }

    /// The segment's file is in quarantine: so its row leaves the index.
    pub(super) async fn note_segment(&self, segment: &Segment, path: &Path, reason: &str) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let times = Some((segment.first_ms, segment.last_ms));
        let bad = Bad { kind: Kind::Segment, id: segment.id, name: &name, reason, times };
        if let Err(error) = self.note_quarantined(bad).await {
            warn!(%error, "cannot take a quarantined segment out of the index; the next start tries again");
        }
    }

    /// A write-ahead row is damaged. Its bytes are kept in a file before it is deleted.
    pub(super) async fn quarantine_write_ahead(
        &self,
        seq: i64,
        bytes: &[u8],
        reason: &str,
        times: Option<(TimeMs, TimeMs)>,
    ) -> Result<(), StoreError> {
        match aside::write_into(&self.options.quarantine(), &format!("{seq:012}.write-ahead"), bytes) {
            Ok(path) => {
                warn!(path = %path.display(), reason, "damaged write-ahead row quarantined; its samples are lost");
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                self.note_quarantined(Bad { kind: Kind::WriteAhead, id: seq, name: &name, reason, times }).await
            }
            Err(error) => {
                error!(seq, reason, %error, "cannot set a damaged write-ahead row aside; it stays, and its samples are not served");
                self.totals.lock().read_errors += 1;
                self.bad_write_ahead.lock().push(seq);
                if let Some((first_ms, last_ms)) = times {
                    let found_ms = (self.options.now)();
                    self.note_hole(Hole { name: format!("write-ahead row {seq}"), first_ms, last_ms, found_ms });
                }
                Ok(())
            }
        }
    }

    async fn note_quarantined(&self, bad: Bad<'_>) -> Result<(), StoreError> {
        self.totals.lock().quarantined += 1;
        let now = (self.options.now)();
        if let Some((first_ms, last_ms)) = bad.times {
            self.note_hole(Hole { name: format!("quarantine/{}", bad.name), first_ms, last_ms, found_ms: now });
        }
        self.query(self.database.quarantine(bad, now)).await
    }

    /// Notes a hole, once by its name.
    pub(super) fn note_hole(&self, hole: Hole) {
        let holes = &mut self.state.write().holes;
        if holes.iter().all(|other| other.name != hole.name) {
            holes.push(hole);
        }
    }

    /// The samples of a hole can be read again.
    pub(super) fn fill_hole(&self, name: &str) {
        self.state.write().holes.retain(|hole| hole.name != name);
    }
}

/// The hole of a segment that is in the index and cannot be read.
pub(super) fn segments_hole(segment: &Segment, found_ms: TimeMs) -> Hole {
    let name = format!("segments/{}", segment.file_name());
    Hole { name, first_ms: segment.first_ms, last_ms: segment.last_ms, found_ms }
}
