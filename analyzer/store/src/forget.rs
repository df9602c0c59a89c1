//! Series whose samples retention has removed leave the catalogue: pods come and go, and their series with them.

use std::collections::HashSet;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tokio::task::{JoinError, JoinHandle};
use tracing::{info, warn};

use super::catalogue::SeriesId;
use super::embedded::State;
use super::segment;
use super::segments::Segment;
use super::writer::Writer;
use goodput_exposition::sample::TimeMs;

/// A look into every segment for which of some series are still there.
pub(super) type Sweep = JoinHandle<Result<Vec<SeriesId>, String>>;

type Outcome = Result<Result<Vec<SeriesId>, String>, JoinError>;

/// Resolves when the sweep is over; never when there is none.
pub(super) async fn swept(sweep: &mut Option<Sweep>) -> Outcome {
    match sweep {
        Some(sweep) => sweep.await,
        None => pending().await,
    }
}

/// Those of the series, in order of id, that are in no segment. Of those that still come most are in the newest one.
fn in_none(dir: &Path, mut segments: Vec<Arc<Segment>>, mut ids: Vec<SeriesId>) -> Result<Vec<SeriesId>, String> {
    segments.sort_by_key(|segment| std::cmp::Reverse(segment.last_ms));
    for segment in segments {
        let all = TimeMs::MIN..TimeMs::MAX;
        if segment.groups.iter().any(|group| group.may_hold(&ids, &all)) {
            let loaded = segment.load(dir).map_err(|error| error.to_string());
            loaded
                .and_then(|bytes| segment::take_out(&bytes, &mut ids))
                .map_err(|reason| format!("{}: {reason}", segment.file_name()))?;
        }
    }
    Ok(ids)
}

impl Writer {
    /// Begins a look for series without samples, if samples were removed since the last one. What is imported may be of any
    /// time, so that only segments tell what there is; then nothing is looked for.
    pub(super) fn begin_sweep(&mut self) {
        if !self.sweep_due || self.sweep.is_some() || self.shared.options.history {
            return;
        }
        self.sweep_due = false;
        let state = self.shared.state.read();
        let ids = self.shared.catalogue.read().all();
        let ids = self.maybe_gone(&state, ids);
        let (shared, segments) = (Arc::clone(&self.shared), state.segments.clone());
        drop(state);
        if !ids.is_empty() {
            self.sweep = Some(tokio::task::spawn_blocking(move || in_none(&shared.options.segments(), segments, ids)));
        }
    }

    /// Without those that surely have samples: in the head, or committed and as late as the first of all segments.
    fn maybe_gone(&self, state: &State, mut ids: Vec<SeriesId>) -> Vec<SeriesId> {
        let first = state.segments.iter().map(|segment| segment.first_ms).min().unwrap_or(TimeMs::MAX);
        let is_old = |id| self.newest_of(id).is_none_or(|newest| newest < first);
        ids.retain(|id| state.head.series(*id).is_empty() && is_old(*id));
        ids
    }

    /// Removes the series that were found to have no samples, and have got none since.
    pub(super) async fn after_sweep(&mut self, outcome: Outcome) {
        self.sweep = None;
        // Samples may have been removed meanwhile, and another sweep is due.
        self.upkeep_due = Instant::now();
        let gone = match outcome.map_err(|error| error.to_string()).flatten() {
            Ok(gone) => gone,
            Err(reason) => {
                warn!(reason, "series without samples stay in the catalogue until samples are removed again");
                return;
            }
        };
        let gone: HashSet<SeriesId> = self.maybe_gone(&self.shared.state.read(), gone).into_iter().collect();
        if gone.is_empty() {
            return;
        }
        if let Err(error) = self.shared.database.forget_series(&gone).await {
            warn!(%error, "series without samples stay in the catalogue until samples are removed again");
            return;
        }
        self.shared.catalogue.write().remove(&gone);
        for id in &gone {
            *self.newest.get_mut(*id) = None;
            self.active.remove(*id);
        }
        self.newest.shrink();
        self.active.shrink();
        self.note_fullness();
        self.shared.totals.lock().upkeep.removed_series += gone.len() as u64;
        info!(series = gone.len(), "series removed: all their samples are beyond retention");
    }
}
