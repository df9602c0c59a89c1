//! Store to verdict: loads series, runs the rules, stores the intervals.
//!
//! Verdicts are stored by node and window. Windows are UTC hours, cut again at full local hours where the report's zone
//! is not whole hours from UTC, so that every day and week of that zone consists of whole windows. Judging a window
//! again replaces its verdicts, so that nothing is counted twice.

mod outlook;
mod reader;
mod recut;
#[cfg(test)]
pub(crate) mod tests;
mod vanished;
#[cfg(test)]
mod vanished_tests;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use jiff::Timestamp;
use parking_lot::Mutex;
pub use reader::Reader;
pub use recut::cut_otherwise;
pub(crate) use recut::{hour_of, reaches_over, spans};
pub(crate) use windows::selection;
pub use windows::windows;

use goodput_exposition::sample::TimeMs;
use goodput_rules::application::{Counter, measure};
use goodput_rules::classify::{
    self, CRASH_SIGNALS, Capacity, Declared, Judged, LONG_START_REACH_MS, LONG_START_SIGNALS, LOOK_AHEAD_MS,
    LOOK_BACK_MS, LOST_REACH_MS, NETWORK_SIGNALS, Seen, Thresholds, VANISHED_MS, judge_told,
};
use goodput_rules::frame::{FailedNode, MAX_BRIDGE_MS};
use goodput_rules::serving;
use goodput_rules::signal;
use goodput_rules::told::Told;
use goodput_store::{Embedded, Place, Replacement, Results, Samples, StoreError};
use goodput_verdict::{HOUR_MS, Interval, Outlook};

/// Ends of windows for which the GPUs seen until then are kept in memory: those of the open hour and the two before it,
/// cut in two.
const KEPT_ENDS: usize = 6;

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Retention has removed samples that the verdicts rest on; judged without them they would become `no_data`.
    #[error(
        "window from {} to {}: samples before {} have been removed by retention, so it cannot be judged again; its verdicts stay",
        shown(.window.start), shown(.window.end), shown(*.raw_from)
    )]
    AgedOut {
        /// What was to be judged.
        window: Range<TimeMs>,
        /// Since when samples are there.
        raw_from: TimeMs,
    },
    /// Samples that the verdicts rest on cannot be read now; judged without them they would become `no_data`.
    #[error(
        "window from {} to {}: samples of {} are missing, so it is not judged again until they are back; its verdicts stay",
        shown(.window.start), shown(.window.end), .hole
    )]
    Hole {
        /// What was to be judged.
        window: Range<TimeMs>,
        /// The file or the commits.
        hole: String,
    },
    /// The judging thread panicked.
    #[error("window from {} to {} ms: the judging thread died", .0.start, .0.end)]
    Died(Range<TimeMs>),
}

/// The cluster and name of a node.
type Node = (Option<String>, String);

/// Judges windows of samples, and stores what it finds among the results.
#[derive(Debug)]
pub struct Judge<S, R = S> {
    samples: S,
    results: R,
    max_gpus: usize,
    thresholds: Thresholds,
    counters: Vec<Counter>,
    maintenance: Vec<Declared>,
    /// The GPUs seen until then, by end of a judged window.
    seen: Mutex<BTreeMap<TimeMs, Vec<Seen>>>,
    /// Holes for which the log says that verdicts stay.
    said: Mutex<BTreeSet<String>>,
}

impl<S: Embedded + Clone> Judge<S> {
    /// A judge of this store's samples, within the store's limit of GPUs.
    pub fn new(store: S, thresholds: Thresholds) -> Self {
        let max_gpus = store.stats().limits.max_gpus;
        Self::over(store.clone(), store, max_gpus, thresholds)
    }
}

impl<S: Samples, R: Results> Judge<S, R> {
    /// A judge of these samples, of at most `max_gpus` GPUs. Its verdicts go to these results.
    pub fn over(samples: S, results: R, max_gpus: usize, thresholds: Thresholds) -> Self {
        Self {
            samples,
            results,
            max_gpus,
            thresholds,
            counters: Vec::new(),
            maintenance: Vec::new(),
            seen: Mutex::default(),
            said: Mutex::default(),
        }
    }

    /// The same, which also notes what jobs achieved by these counters.
    #[must_use]
    pub fn counting(self, counters: Vec<Counter>) -> Self {
        Self { counters, ..self }
    }

    /// The same, which books time without an owner as maintenance where that is declared.
    #[must_use]
    pub fn maintaining(self, maintenance: Vec<Declared>) -> Self {
        Self { maintenance, ..self }
    }

    /// Is everything there that verdicts on the window rest on, or has retention removed some of it?
    pub fn judgeable(&self, window: &Range<TimeMs>) -> Result<(), JudgeError> {
        let reach = (LOOK_BACK_MS + LONG_START_REACH_MS).max(self.forecast_window_ms());
        match self.samples.raw_from() {
            Some(raw_from) if window.start - reach < raw_from => {
                Err(JudgeError::AgedOut { window: window.clone(), raw_from })
            }
            _ => Ok(()),
        }
    }

    /// An error when verdicts on the window rest on samples that are missing now: those that are stored are the better ones.
    /// A window that was open when the hole was found, or that has none, is judged with what is there.
    async fn check_holes(&self, window: &Range<TimeMs>) -> Result<(), JudgeError> {
        let reach = (LOOK_BACK_MS + LONG_START_REACH_MS).max(self.forecast_window_ms());
        let ahead = LOOK_AHEAD_MS + LOST_REACH_MS.max(LONG_START_REACH_MS);
        let range = window.start.saturating_sub(reach)..window.end.saturating_add(ahead);
        let holes = self.samples.holes();
        let hole = holes.into_iter().find(|hole| hole.overlaps(&range) && window.end <= hole.found_ms);
        match hole {
            Some(hole) if !self.results.intervals(window.clone()).await?.is_empty() => {
                Err(JudgeError::Hole { window: window.clone(), hole: hole.name })
            }
            _ => Ok(()),
        }
    }

    /// A window over a hole keeps what is stored, which the log says once for each hole. Other errors are errors.
    fn keep_verdicts(&self, reason: JudgeError) -> Result<Judged, JudgeError> {
        let JudgeError::Hole { hole, .. } = &reason else { return Err(reason) };
        if self.said.lock().insert(hole.clone()) {
            tracing::warn!(%reason, "hours are not judged again");
        }
        Ok(Judged::default())
    }

    fn forecast_window_ms(&self) -> i64 {
        (self.thresholds.forecast_window_seconds * 1000.0) as i64
    }

    /// Reads for windows that are judged one after another, the last of them up to `end`: what several of them rest on
    /// is not read again. What the store is given meanwhile may be missing.
    pub fn reader(&self, end: TimeMs) -> Reader<'_, S> {
        Reader::new(&self.samples, end, self.max_gpus)
    }

    /// Judges the window, as far as it is over at `until`, and stores the verdicts, risks, advisories and standings in place
    /// of those before, in one transaction. A node that fails keeps what it had, and is named in `failed`.
    pub async fn judge(
        &self,
        reader: &mut Reader<'_, S>,
        window: &Range<TimeMs>,
        until: TimeMs,
    ) -> Result<Judged, JudgeError> {
        if let Err(reason) = self.check_holes(window).await {
            return self.keep_verdicts(reason);
        }
        let mut judged = self.verdicts(reader, window, until).await?;
        // The reading may have found a hole.
        if let Err(reason) = self.check_holes(window).await {
            return self.keep_verdicts(reason);
        }
        let outlook = match self.look_ahead(reader, window, until, &judged).await {
            Ok(outlook) => Some(outlook),
            Err(error @ JudgeError::Died(_)) => {
                tracing::error!(%error, "no forecasts for the window; its verdicts are stored without them");
                None
            }
            Err(error) => return Err(error),
        };
        let mut by_node = self.nodes_of(window).await?;
        for interval in &judged.intervals {
            by_node.entry((interval.cluster.clone(), interval.node.clone())).or_default().push(interval.clone());
        }
        for node in outlook.iter().flat_map(BTreeMap::keys) {
            by_node.entry(node.clone()).or_default();
        }
        by_node.retain(|node, intervals| !judged.failed.iter().any(|failed| keeps_its_own(failed, node, intervals)));
        let none = Outlook::default();
        let new: Vec<Replacement<'_>> = by_node
            .iter()
            .map(|(node, intervals)| Replacement {
                place: Place::new(&node.0, &node.1),
                intervals: Some(intervals),
                outlook: outlook.as_ref().map(|outlook| outlook.get(node).unwrap_or(&none)),
            })
            .collect();
        let judged_until = window.end.min(until);
        for (n, reason) in self.results.store_judged(window.clone(), judged_until, &new).await? {
            let Place { cluster, node } = new[n].place;
            judged.failed.push(FailedNode::new(cluster.unwrap_or_default(), node, reason));
        }
        if judged.failed.is_empty() {
            self.count(reader, window, until, &judged.intervals).await?;
        } else {
            // A node that failed keeps what it had: its owners hold GPUs still.
            let stored = self.results.intervals(window.clone()).await?;
            self.count(reader, window, until, &stored).await?;
        }
        self.remember(window, until, &judged);
        Ok(judged)
    }

    /// Every node that has results in the window; what is stored of it is replaced, also where nothing is judged of it now.
    async fn nodes_of(&self, window: &Range<TimeMs>) -> Result<BTreeMap<Node, Vec<Interval>>, StoreError> {
        let Outlook { risks, advisories, standings } = self.results.outlook(window.clone()).await?;
        let hours = self.results.hours(window.clone(), None).await?.into_iter().map(|hour| (hour.cluster, hour.node));
        let nodes = hours.chain(risks.into_iter().map(|r| (r.last.cluster, r.last.node)));
        let nodes = nodes.chain(advisories.into_iter().map(|a| (a.cluster, a.node)));
        let nodes = nodes.chain(standings.into_iter().map(|s| (s.cluster, s.node)));
        Ok(nodes.map(|node| (node, Vec::new())).collect())
    }

    /// The verdicts of the window, as far as it is over at `until`; stores nothing.
    pub async fn verdicts(
        &self,
        reader: &mut Reader<'_, S>,
        window: &Range<TimeMs>,
        until: TimeMs,
    ) -> Result<Judged, JudgeError> {
        self.judgeable(window)?;
        let range = window.start..window.end.min(until);
        let far = signal::metrics_of(&[CRASH_SIGNALS, LONG_START_SIGNALS, NETWORK_SIGNALS].concat());
        let near = reader.around(&self.near(&far), &range, (LOOK_BACK_MS, LOOK_AHEAD_MS)).await?;
        let reach = (LOOK_BACK_MS + LONG_START_REACH_MS, LOOK_AHEAD_MS + LOST_REACH_MS.max(LONG_START_REACH_MS));
        let far = reader.around(&far, &range, reach).await?;
        let (capacity, thresholds) = (self.capacity_at(range.start).await?, self.thresholds.clone());
        let seen: Vec<Seen> = capacity.clone().at(range.start).collect();
        let part = range.clone();
        let history = self.results.history(range.start - reach.0..range.end + reach.1).await?;
        let told = Told::of(&history.events);
        let judging = move || judge_told(near.iter().chain(&*far), &seen, told, part, &thresholds);
        let judged = tokio::task::spawn_blocking(judging).await;
        let mut judged = judged.map_err(|_| JudgeError::Died(range.clone()))?;
        judged.intervals.extend(classify::stay_declared(&judged.left, &self.maintenance));
        judged.intervals = classify::declare(judged.intervals, &self.maintenance);
        judged.seen = after(capacity, &judged.intervals, range.end);
        Ok(judged)
    }

    /// The metrics of all signals but these.
    fn near(&self, others: &[String]) -> Vec<String> {
        signal::metric_names().filter(|name| !others.iter().any(|other| other == name)).map(str::to_owned).collect()
    }

    /// Stores what jobs achieved by configured counters, and what inference servers served.
    async fn count(
        &self,
        reader: &mut Reader<'_, S>,
        window: &Range<TimeMs>,
        until: TimeMs,
        intervals: &[Interval],
    ) -> Result<(), StoreError> {
        let mut metrics = serving::metrics();
        metrics.extend(self.counters.iter().map(|counter| counter.metric.clone()));
        let series = reader.within(&metrics, window, (MAX_BRIDGE_MS, MAX_BRIDGE_MS)).await?;
        let judged = window.start..window.end.min(until);
        let mut achieved = measure(&self.counters, &series, intervals, &judged);
        achieved.extend(serving::measure(&series, intervals, &judged, &self.thresholds));
        achieved.retain(|one| one.amount.is_finite());
        let stored = self.results.achieved(window.clone()).await?;
        if achieved.is_empty() && stored.is_empty() {
            return Ok(());
        }
        if self.counters.is_empty() {
            // What was counted while counters were configured stays.
            achieved.extend(stored.into_iter().filter(|row| row.served.is_none()));
        }
        self.results.replace_achieved(window.clone(), &achieved).await
    }

    /// Keeps which GPUs are in capacity after the window, if that is what the stored verdicts say too.
    fn remember(&self, window: &Range<TimeMs>, until: TimeMs, judged: &Judged) {
        let mut seen = self.seen.lock();
        seen.split_off(&window.end);
        if window.end <= until && judged.failed.is_empty() {
            seen.insert(window.end, judged.seen.clone());
        }
        while seen.len() > KEPT_ENDS {
            seen.pop_first();
        }
    }

    /// The GPUs in capacity at a time: from memory as far as that goes, otherwise as stored verdicts say.
    async fn capacity_at(&self, time: TimeMs) -> Result<Capacity, StoreError> {
        let known =
            self.seen.lock().range(time - VANISHED_MS..=time).next_back().map(|(end, seen)| (*end, seen.clone()));
        let (from, seen) = known.unwrap_or((time - VANISHED_MS, Vec::new()));
        let mut capacity: Capacity = seen.into_iter().collect();
        if from < time {
            capacity.note(&self.results.intervals(from..time).await?);
        }
        Ok(capacity)
    }
}

/// Is it the node that failed, or the same one in verdicts that did not tell its cluster? It keeps what it has.
fn keeps_its_own(failed: &FailedNode, (cluster, node): &Node, intervals: &[Interval]) -> bool {
    let is_untold = cluster.is_none() && intervals.is_empty();
    failed.node == *node && (is_untold || failed.cluster == cluster.as_deref().unwrap_or_default())
}

/// The GPUs in capacity after a window, by its verdicts.
fn after(mut capacity: Capacity, verdicts: &[Interval], end: TimeMs) -> Vec<Seen> {
    capacity.note(verdicts);
    capacity.at(end).collect()
}

/// A moment as people write it, in UTC.
pub(crate) fn shown(time: TimeMs) -> String {
    Timestamp::from_millisecond(time).map_or_else(|_| format!("{time} ms"), |time| format!("{time:.0}"))
}
