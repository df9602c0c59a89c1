//! Store to verdict and report: loads series, runs the rules, stores the intervals, loads them again.
//!
//! Verdicts are stored by node and window. Windows are UTC hours, cut once more at full local hours where the report's
//! zone is not whole hours from UTC, so that every day and week of that zone consists of whole windows. Judging a window
//! again replaces its verdicts, so that nothing is counted twice.

mod reader;
mod recut;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
pub use reader::Reader;
pub use recut::cut_otherwise;

use crate::application::{Counter, measure};
use crate::classify::{
    self, CRASH_SIGNALS, Class, Declared, FailedNode, Interval, Judged, LEFT_NODE, LONG_START_REACH_MS,
    LONG_START_SIGNALS,
    LOOK_AHEAD_MS, LOOK_BACK_MS, LOST_REACH_MS, Paired, Seen, Thresholds, judge_told,
};
use crate::events::Told;
use crate::forecast::{self, Outlook, Prospect};
use crate::frame::MAX_BRIDGE_MS;
use crate::report::{self, Period, Price, Report, throughput};
use crate::sample::{Series, TimeMs};
use crate::signal;
use crate::store::{Replacement, Results, Samples, Selection, StoreError, Verdicts};
use crate::tuning::{self, Standing};

/// Length of a window.
pub const HOUR_MS: i64 = 3_600_000;
/// GPUs are remembered for a day after their last sample.
const MEMORY_MS: i64 = 24 * HOUR_MS;
/// Ends of windows for which the GPUs seen until then are kept at hand: those of the open hour and the two before it,
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

/// Judges windows of a store.
#[derive(Debug)]
pub struct Judge<S> {
    store: S,
    thresholds: Thresholds,
    counters: Vec<Counter>,
    maintenance: Vec<Declared>,
    /// The GPUs seen until then, by end of a judged window.
    seen: Mutex<BTreeMap<TimeMs, Vec<Seen>>>,
    /// Holes for which the log says that verdicts stay.
    said: Mutex<BTreeSet<String>>,
}

impl<S: Samples + Results> Judge<S> {
    /// A judge of this store's samples.
    pub fn new(store: S, thresholds: Thresholds) -> Self {
        Self {
            store,
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

    /// The same, which books what is nobody's time as maintenance where that is declared.
    #[must_use]
    pub fn maintaining(self, maintenance: Vec<Declared>) -> Self {
        Self { maintenance, ..self }
    }

    /// Is everything there that verdicts on the window rest on, or has retention removed some of it?
    pub fn judgeable(&self, window: &Range<TimeMs>) -> Result<(), JudgeError> {
        let reach = (LOOK_BACK_MS + LONG_START_REACH_MS).max(self.forecast_window_ms());
        match self.store.raw_from() {
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
        let holes = self.store.holes();
        let hole = holes.into_iter().find(|hole| hole.overlaps(&range) && window.end <= hole.found_ms);
        match hole {
            Some(hole) if !self.store.intervals(window.clone()).await?.is_empty() => {
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

    /// What windows are read with that are judged one after another, of which the last ends then: it spares reading
    /// again what several of them rest on. What the store is given meanwhile may be missing.
    pub fn reader(&self, end: TimeMs) -> Reader<'_, S> {
        Reader::new(&self.store, end, self.store.stats().limits.max_gpus as usize)
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
            by_node.entry(interval.node.clone()).or_default().push(interval.clone());
        }
        for node in outlook.iter().flat_map(BTreeMap::keys) {
            by_node.entry(node.clone()).or_default();
        }
        for failed in &judged.failed {
            by_node.remove(&failed.node);
        }
        let none = Outlook::default();
        let new: Vec<Replacement<'_>> = by_node
            .iter()
            .map(|(node, intervals)| Replacement {
                node,
                intervals: Some(intervals),
                outlook: outlook.as_ref().map(|outlook| outlook.get(node).unwrap_or(&none)),
            })
            .collect();
        for (node, reason) in self.store.replace_window(window.clone(), &new).await? {
            judged.failed.push(FailedNode::new("", &node, reason));
        }
        self.count(reader, window, until, &judged.intervals).await?;
        if window.end <= until {
            self.remember(window.end, judged.seen.clone());
        }
        Ok(judged)
    }

    /// Every node that has results in the window; what is stored of it is replaced, also where nothing is judged of it now.
    async fn nodes_of(&self, window: &Range<TimeMs>) -> Result<BTreeMap<String, Vec<Interval>>, StoreError> {
        let Outlook { risks, advisories, standings } = self.store.outlook(window.clone()).await?;
        let intervals = self.store.intervals(window.clone()).await?;
        let nodes = intervals.into_iter().map(|i| i.node).chain(risks.into_iter().map(|r| r.last.node));
        let nodes = nodes.chain(advisories.into_iter().map(|a| a.node)).chain(standings.into_iter().map(|s| s.node));
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
        let far = signal::metrics_of(&[CRASH_SIGNALS, LONG_START_SIGNALS].concat());
        let near = reader.around(&self.near(&far), &range, (LOOK_BACK_MS, LOOK_AHEAD_MS)).await?;
        let reach = (LOOK_BACK_MS + LONG_START_REACH_MS, LOOK_AHEAD_MS + LOST_REACH_MS.max(LONG_START_REACH_MS));
        let far = reader.around(&far, &range, reach).await?;
        let (seen, thresholds) = (self.seen_until(range.start).await?, self.thresholds.clone());
        let part = range.clone();
        let history = self.store.history(range.start - reach.0..range.end + reach.1).await?;
        let told = Told::of(&history.events);
        let judging = move || judge_told(near.iter().chain(&*far), &seen, told, part, &thresholds);
        let judged = tokio::task::spawn_blocking(judging).await;
        let mut judged = judged.map_err(|_| JudgeError::Died(range))?;
        judged.intervals.extend(classify::stay_declared(&judged.left, &self.maintenance));
        judged.intervals = classify::declare(judged.intervals, &self.maintenance);
        stay(&mut judged);
        Ok(judged)
    }

    /// The metrics of all signals but these.
    fn near(&self, others: &[String]) -> Vec<String> {
        signal::metric_names().filter(|name| !others.iter().any(|other| other == name)).map(str::to_owned).collect()
    }

    /// Risks, advisories and standings, by node.
    async fn look_ahead(
        &self,
        reader: &mut Reader<'_, S>,
        window: &Range<TimeMs>,
        until: TimeMs,
        judged: &Judged,
    ) -> Result<BTreeMap<String, Outlook>, JudgeError> {
        let range = window.start..window.end.min(until);
        let standings = self.standings(reader, &range, judged.paired.clone()).await?;
        let series = self.foreseen(reader, &range).await?;
        let (span, thresholds) = (window.clone(), self.thresholds.clone());
        let risks = tokio::task::spawn_blocking(move || forecast::risks(&series, &span, until, &thresholds)).await;
        let mut by_node: BTreeMap<String, Outlook> = BTreeMap::new();
        for risk in risks.map_err(|_| JudgeError::Died(window.clone()))? {
            by_node.entry(risk.last.node.clone()).or_default().risks.push(risk);
        }
        for advisory in &judged.advisories {
            by_node.entry(advisory.node.clone()).or_default().advisories.push(advisory.clone());
        }
        for standing in standings {
            by_node.entry(standing.node.clone()).or_default().standings.push(standing);
        }
        Ok(by_node)
    }

    /// How every node is set up at the end of the range, with how it kept up.
    async fn standings(
        &self,
        reader: &mut Reader<'_, S>,
        range: &Range<TimeMs>,
        paired: Vec<Paired>,
    ) -> Result<Vec<Standing>, JudgeError> {
        let look = range.end..range.end;
        let series = reader.within(&tuning::metrics(), &look, (tuning::LOOK_MS, 0)).await?;
        let span = range.clone();
        let standings = tokio::task::spawn_blocking(move || tuning::standings(&series, &span, &paired)).await;
        standings.map_err(|_| JudgeError::Died(range.clone()))
    }

    /// What is to be expected, by all samples before a time; stores nothing.
    pub async fn prospects(&self, reader: &mut Reader<'_, S>, now: TimeMs) -> Result<Vec<Prospect>, JudgeError> {
        let series = self.foreseen(reader, &(now..now)).await?;
        let thresholds = self.thresholds.clone();
        let prospects = tokio::task::spawn_blocking(move || forecast::prospects(&series, now, &thresholds)).await;
        prospects.map_err(|_| JudgeError::Died(now..now))
    }

    /// The series that forecasts within the range look at.
    async fn foreseen(&self, reader: &mut Reader<'_, S>, range: &Range<TimeMs>) -> Result<Vec<Series>, StoreError> {
        let metrics = signal::metrics_of(&forecast::SIGNALS);
        reader.within(&metrics, range, (self.forecast_window_ms(), 0)).await
    }

    async fn count(
        &self,
        reader: &mut Reader<'_, S>,
        window: &Range<TimeMs>,
        until: TimeMs,
        intervals: &[Interval],
    ) -> Result<(), StoreError> {
        if self.counters.is_empty() {
            return Ok(());
        }
        let metrics: Vec<String> = self.counters.iter().map(|counter| counter.metric.clone()).collect();
        let series = reader.within(&metrics, window, (MAX_BRIDGE_MS, MAX_BRIDGE_MS)).await?;
        let judged = window.start..window.end.min(until);
        let mut achieved = measure(&self.counters, &series, intervals, &judged);
        achieved.retain(|one| one.amount.is_finite());
        self.store.replace_achieved(window.clone(), &achieved).await
    }

    fn remember(&self, end: TimeMs, gpus: Vec<Seen>) {
        let mut seen = self.seen.lock();
        seen.insert(end, gpus);
        while seen.len() > KEPT_ENDS {
            seen.pop_first();
        }
    }

    /// The GPUs that were there until then: at hand, else as stored verdicts tell.
    async fn seen_until(&self, time: TimeMs) -> Result<Vec<Seen>, StoreError> {
        if let Some(seen) = self.seen.lock().get(&time) {
            return Ok(seen.clone());
        }
        let intervals = self.store.intervals(time - MEMORY_MS..time).await?;
        let (mut seen, left) = (seen_in(&intervals), left_in(&intervals));
        seen.retain(|seen| !left.contains(seen.gpu.as_str()));
        Ok(seen)
    }
}

/// A GPU under maintenance stays in capacity though nothing is heard of it, as stored verdicts tell too.
fn stay(judged: &mut Judged) {
    let maintained: Vec<Interval> =
        judged.intervals.iter().filter(|i| i.class == Class::Maintenance).cloned().collect();
    for last in seen_in(&maintained) {
        match judged.seen.iter_mut().find(|seen| seen.gpu == last.gpu) {
            Some(seen) => seen.last_ms = seen.last_ms.max(last.last_ms),
            None => judged.seen.push(last),
        }
    }
}

/// A moment as people write it, in UTC.
fn shown(time: TimeMs) -> String {
    Timestamp::from_millisecond(time).map_or_else(|_| format!("{time} ms"), |time| format!("{time:.0}"))
}

/// The GPUs that left capacity, by their last verdicts.
fn left_in(intervals: &[Interval]) -> BTreeSet<&str> {
    let mut last: BTreeMap<&str, (TimeMs, bool)> = BTreeMap::new();
    for i in intervals {
        let is_told = i.evidence.iter().any(|e| e.signal == LEFT_NODE);
        let known = last.entry(&i.gpu).or_insert((i.end_ms, is_told));
        *known = (*known).max((i.end_ms, is_told));
    }
    last.into_iter().filter(|(_, (_, has_left))| *has_left).map(|(gpu, _)| gpu).collect()
}

/// Every GPU with data in the intervals, and when that ended.
fn seen_in(intervals: &[Interval]) -> Vec<Seen> {
    let mut seen: BTreeMap<&str, Seen> = BTreeMap::new();
    for i in intervals.iter().filter(|i| i.class != Class::NoData) {
        let last_ms = seen.get(i.gpu.as_str()).map_or(i.end_ms, |s| s.last_ms.max(i.end_ms));
        let (cluster, model) = (i.cluster.clone().unwrap_or_default(), i.model.clone());
        let last = Seen { gpu: i.gpu.clone(), cluster, node: i.node.clone(), model, last_ms };
        seen.insert(&i.gpu, last);
    }
    seen.into_values().collect()
}

/// All series near the window that verdicts on it rest on.
pub(crate) fn selection(window: &Range<TimeMs>) -> Selection {
    Selection {
        metrics: signal::metric_names().map(str::to_owned).collect(),
        labels: Vec::new(),
        range: window.start - LOOK_BACK_MS..window.end + LOOK_AHEAD_MS,
    }
}

/// The report of a period and the intervals that it rests on, which `read` gets from a store.
pub async fn report<F>(
    read: impl Fn(Range<TimeMs>) -> F,
    period: Period,
    prices: &[Price],
) -> Result<(Report, Vec<Interval>), StoreError>
where
    F: Future<Output = Result<Verdicts, StoreError>>,
{
    let before = period.previous();
    let Verdicts { mut intervals, outlook, achieved, history } = read(period.start_ms..period.end_ms).await?;
    let mut previous = read(before.start_ms..before.end_ms).await?.intervals;
    report::recall_clusters(&mut [&mut intervals, &mut previous]);
    let mut around = Vec::new();
    // Verdicts never reach over a full hour of UTC.
    for edge in [before.start_ms, period.start_ms, period.end_ms].into_iter().filter(|edge| edge % HOUR_MS != 0) {
        around.push((edge, read(recut::hour_of(&(edge..edge))).await?));
    }
    let warnings = recut::lacking(&period, &around);
    let throughput = throughput::build(&achieved, &intervals);
    let runs = report::runs::build(&history, &intervals, &(period.start_ms..period.end_ms));
    let report = report::build(&intervals, &previous, period, prices).with_outlook(&outlook);
    Ok((Report { throughput, runs, warnings, ..report }, intervals))
}

/// The windows that together cover the range, in order; the first and the last may reach out of it.
#[must_use]
pub fn windows(range: Range<TimeMs>, zone: &TimeZone) -> Vec<Range<TimeMs>> {
    let mut windows = Vec::new();
    let mut hour = range.start.div_euclid(HOUR_MS) * HOUR_MS;
    while hour < range.end && !range.is_empty() {
        let cut = hour + into_hour(hour, zone);
        let parts = [hour..cut, cut..hour + HOUR_MS];
        windows.extend(parts.into_iter().filter(|w| !w.is_empty() && w.end > range.start && w.start < range.end));
        hour += HOUR_MS;
    }
    windows
}

/// How long after the full UTC hour the zone's clocks show a full hour.
fn into_hour(hour: TimeMs, zone: &TimeZone) -> i64 {
    let instant = Timestamp::from_millisecond(hour).unwrap_or_default();
    let offset_ms = i64::from(zone.to_offset(instant).seconds()) * 1000;
    (-offset_ms).rem_euclid(HOUR_MS)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::classify::Energy;
    use crate::ingest::Limits;
    use crate::ingest::text::{Format, parse};
    use crate::store::{Options, Store};

    const MINUTE: i64 = 60_000;
    /// A full hour in 2026.
    pub(crate) const START: TimeMs = 1_795_230_000_000;

    /// A store whose clock stands 12 hours after [`START`].
    pub(crate) async fn store(dir: &std::path::Path) -> Store {
        let now = || START + 12 * HOUR_MS;
        Store::open(Options { now, ..Options::new(dir, signal::is_known) }).await.unwrap()
    }

    /// Scrapes of one idle GPU that somebody holds, every 15 s.
    pub(crate) async fn idle_gpu(store: &impl Samples, uuid: &str, node: &str, times: Range<TimeMs>) {
        let gpu = format!("{{gpu=\"0\",UUID=\"{uuid}\",Hostname=\"{node}\",instance=\"{node}:9400\"}}");
        let text =
            format!("DCGM_FI_DEV_GPU_UTIL{gpu} 0\nDCGM_FI_DEV_POWER_USAGE{gpu} 120\nDCGM_FI_DEV_FB_USED{gpu} 20000\n");
        for time in times.step_by(15_000) {
            store.append(parse(&text, Format::Text, &Limits::default(), time).unwrap()).await.unwrap();
        }
    }

    async fn sums(store: &Store, window: Range<TimeMs>) -> BTreeMap<(String, Class), i64> {
        let mut sums = BTreeMap::new();
        for i in store.intervals(window).await.unwrap() {
            *sums.entry((i.gpu, i.class)).or_default() += i.ms;
        }
        sums
    }

    async fn judge_window(judge: &Judge<Store>, window: &Range<TimeMs>, until: TimeMs) -> Result<Judged, JudgeError> {
        judge.judge(&mut judge.reader(until), window, until).await
    }

    fn hour(n: i64) -> Range<TimeMs> {
        START + n * HOUR_MS..START + (n + 1) * HOUR_MS
    }

    fn key(gpu: &str, class: Class) -> (String, Class) {
        (gpu.to_owned(), class)
    }

    #[tokio::test]
    async fn judging_again_changes_nothing_and_an_open_hour_ends_where_it_is_judged() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        idle_gpu(&store, "GPU-a", "n1", START..START + 40 * MINUTE).await;
        let judge = Judge::new(store.clone(), Thresholds::default());
        for _ in 0..2 {
            judge_window(&judge, &hour(0), START + 30 * MINUTE).await.unwrap();
            let want = BTreeMap::from([(key("GPU-a", Class::IdleHeld), 30 * MINUTE)]);
            assert_eq!(sums(&store, hour(0)).await, want);
            let energy = store.intervals(hour(0)).await.unwrap()[0].energy;
            let drawn = Energy { mj: 120 * 30 * MINUTE, ms: 30 * MINUTE, counted_ms: 0 };
            assert_eq!(energy, Some(drawn), "120 W at each scrape");
        }
    }

    #[tokio::test]
    async fn verdicts_stay_while_their_samples_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let first = store(dir.path()).await;
        idle_gpu(&first, "GPU-a", "n1", START..START + HOUR_MS).await;
        first.flush().await.unwrap();
        let judge = Judge::new(first.clone(), Thresholds::default());
        judge_window(&judge, &hour(0), hour(2).end).await.unwrap();
        let verdicts = first.intervals(hour(0)).await.unwrap();
        assert_eq!(verdicts.iter().map(|i| (i.class, i.ms)).collect::<Vec<_>>(), [(Class::IdleHeld, HOUR_MS)]);
        first.close().await;
        let name = "000000000001.parquet";
        let (path, aside) = (dir.path().join("segments").join(name), dir.path().join("quarantine").join(name));
        let good = std::fs::read(&path).unwrap();
        let mut flipped = good.clone();
        flipped[40] ^= 1;
        std::fs::write(&path, flipped).unwrap();

        // The damage is found by the reading that judges again, and later by the start.
        for _ in 0..2 {
            let store = store(dir.path()).await;
            idle_gpu(&store, "GPU-a", "n1", START + HOUR_MS..START + 2 * HOUR_MS).await;
            let judge = Judge::new(store.clone(), Thresholds::default());
            let kept = judge_window(&judge, &hour(0), hour(2).end).await.unwrap();
            assert_eq!((kept, store.holes().len()), (Judged::default(), 1));
            assert_eq!(store.intervals(hour(0)).await.unwrap(), verdicts);
            store.close().await;
        }
        // An hour that has no verdicts yet is judged with what is there.
        let store_now = store(dir.path()).await;
        let judge = Judge::new(store_now.clone(), Thresholds::default());
        judge_window(&judge, &hour(1), hour(2).end).await.unwrap();
        assert_ne!(store_now.intervals(hour(1)).await.unwrap(), []);
        store_now.close().await;
        // The hole is filled: judged as ever.
        std::fs::write(&aside, good).unwrap();
        crate::store::unquarantine(dir.path(), name).await.unwrap();
        let store = store(dir.path()).await;
        let judge = Judge::new(store.clone(), Thresholds::default());
        assert_ne!(judge_window(&judge, &hour(0), hour(2).end).await.unwrap(), Judged::default());
        assert_eq!(store.intervals(hour(0)).await.unwrap(), verdicts);
    }

    #[tokio::test]
    async fn a_vanished_gpu_stays_in_capacity_for_a_day_across_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        idle_gpu(&store, "GPU-a", "n1", START..START + HOUR_MS).await;
        for n in 0..27 {
            // A new judge each hour remembers nothing.
            judge_window(&Judge::new(store.clone(), Thresholds::default()), &hour(n), hour(n).end).await.unwrap();
        }
        let no_data = BTreeMap::from([(key("GPU-a", Class::NoData), HOUR_MS)]);
        assert_eq!(sums(&store, hour(5)).await, no_data);
        assert_eq!(sums(&store, hour(23)).await, no_data);
        assert_eq!(sums(&store, hour(26)).await, BTreeMap::new());
    }

    #[tokio::test]
    async fn declared_maintenance_takes_what_is_nobodys_and_keeps_the_gpu_in_capacity() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        idle_gpu(&store, "GPU-a", "n1", START..START + HOUR_MS).await;
        let span = START..hour(29).end;
        let declared = [Declared { node: glob::Pattern::new("n?").unwrap(), gpu: None, span }];
        let one = Judge::new(store.clone(), Thresholds::default()).maintaining(declared.to_vec());
        let mut told = Vec::new();
        for n in 0..56 {
            // Every second judge is new and remembers nothing.
            let new = Judge::new(store.clone(), Thresholds::default()).maintaining(declared.to_vec());
            let judge = if n % 2 == 0 { &one } else { &new };
            judge_window(judge, &hour(n), hour(n).end).await.unwrap();
            told.push(sums(&store, hour(n)).await.into_keys().map(|(_, class)| class).collect::<Vec<_>>());
        }
        assert_eq!(told[0], [Class::IdleHeld], "who holds it goes on");
        assert!(told[1..30].iter().all(|classes| *classes == [Class::Maintenance]), "{told:?}");
        assert!(told[30..54].iter().all(|classes| *classes == [Class::NoData]), "for a day: {told:?}");
        assert!(told[55].is_empty(), "{told:?}");
    }

    #[tokio::test]
    async fn verdicts_of_a_node_that_is_no_more_are_replaced_too() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        idle_gpu(&store, "GPU-a", "n1", START..START + HOUR_MS).await;
        let mut stale = store.intervals(hour(0)).await.unwrap();
        assert_eq!(stale, []);
        let judge = Judge::new(store.clone(), Thresholds::default());
        judge_window(&judge, &hour(0), hour(0).end).await.unwrap();
        stale = store.intervals(hour(0)).await.unwrap();
        stale.iter_mut().for_each(|i| i.node = "renamed".into());
        store.replace("renamed", hour(0), &stale).await.unwrap();
        judge_window(&judge, &hour(0), hour(0).end).await.unwrap();
        assert_eq!(sums(&store, hour(0)).await.values().sum::<i64>(), HOUR_MS, "counted once");
    }

    #[tokio::test]
    async fn an_hour_whose_samples_were_removed_keeps_its_verdicts() {
        let dir = tempfile::tempdir().unwrap();
        let now = || START + 12 * HOUR_MS;
        let retention = Some(std::time::Duration::from_hours(7));
        // Too small for merges.
        let options = Options { now, retention, segment_bytes: 1, ..Options::new(dir.path(), signal::is_known) };
        let store = Store::open(options).await.unwrap();
        for n in 0..12 {
            idle_gpu(&store, "GPU-a", "n1", hour(n)).await;
            store.flush().await.unwrap();
            if n == 2 {
                judge_window(&Judge::new(store.clone(), Thresholds::default()), &hour(2), hour(3).start).await.unwrap();
            }
        }
        while store.stats().raw_from != Some(START + 4 * HOUR_MS - 14_999) {
            tokio::task::yield_now().await;
        }
        let judge = Judge::new(store.clone(), Thresholds::default());
        let refused = judge_window(&judge, &hour(2), hour(12).end).await.unwrap_err();
        assert!(matches!(refused, JudgeError::AgedOut { .. }), "{refused}");
        assert!(refused.to_string().contains("have been removed by retention"), "{refused}");
        assert!(
            judge.verdicts(&mut judge.reader(hour(4).end), &hour(4), hour(12).end).await.is_err(),
            "nor is it half there"
        );
        assert_eq!(sums(&store, hour(2)).await, BTreeMap::from([(key("GPU-a", Class::IdleHeld), HOUR_MS)]));
        judge_window(&judge, &hour(11), hour(12).end).await.unwrap();
        assert_eq!(sums(&store, hour(11)).await, BTreeMap::from([(key("GPU-a", Class::IdleHeld), HOUR_MS)]));
    }

    #[test]
    fn windows_are_utc_hours_and_whole_local_hours() {
        let all = |range, zone: &str| windows(range, &TimeZone::get(zone).unwrap());
        assert_eq!(all(10..HOUR_MS + 1, "Europe/Berlin"), [0..HOUR_MS, HOUR_MS..2 * HOUR_MS]);
        assert_eq!(all(0..HOUR_MS, "Asia/Kolkata"), [0..30 * MINUTE, 30 * MINUTE..HOUR_MS]);
        assert_eq!(all(0..1, "Asia/Kathmandu"), vec![0..30 * MINUTE; 1], "UTC+5:30 until 1986");
        assert_eq!(all(START..START + 1, "Asia/Kathmandu"), vec![START..START + 15 * MINUTE; 1]);
        assert_eq!(all(5..5, "UTC"), []);
    }
}
