//! Prometheus servers that run twice and send the same series, told apart by a label of their own.
//!
//! Their samples have different times, so that a store that took both would hold every fact twice. Per target, only one
//! replica is taken, the leader. The lead passes to the next replica that sends samples of the target when the leader has
//! sent nothing new for [`Options::takeover`], when the leader says itself that it cannot reach the target (`up` is 0), or
//! when it has sent nothing new of the target for [`SILENT_TAKEOVERS`] times as long. What is older than the newest sample
//! that was taken of a target is never taken from another replica, so that time does not go twice. Between the last sample
//! of one leader and the first of the next lies at most the takeover and one interval of scraping: well below the five
//! minutes after which a level says nothing any more.
//!
//! Samples that the store refuses for their time, as those of a replica whose clock is wrong, say nothing here: they go on
//! to the store, which counts them. A sample that is not newer than the newest one of its target is not new either, so a
//! leader whose clock was set back loses the lead.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::scrape::UP;
use goodput_exposition::sample::{Batch, Labels, LabelsRef, Sample, SeriesRef, TimeMs, is_stale};
use goodput_settings::kind::Period;
use goodput_settings::settings;
use goodput_store::wall_clock;

/// A leader that is alive loses a target after this many takeovers without a sample of it: it may not scrape it any
/// more. With the default takeover this is the five minutes after which Prometheus itself takes a series for ended.
const SILENT_TAKEOVERS: u32 = 10;

/// A leader that is behind catches up when it is this many times as fast as the clock.
const CATCHING_UP: u32 = 2;

/// Targets and replicas remembered; what is beyond is taken as it comes.
const MAX_TARGETS: usize = 100_000;

settings! {
    /// How replicas are recognised.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Options: "ingest" {
        /// The labels that tell replicas apart; they are taken off. Default `prometheus_replica`, which the Prometheus
        /// operator sets, and `__replica__`, which Cortex and Mimir ask for.
        pub labels: Vec<String> = ["prometheus_replica", "__replica__"].map(str::to_owned).into(),
    }
    // Two intervals of scraping, and what Cortex and Mimir wait.
    takeover as "replica_takeover": Period = Duration::from_secs(30),
        "How long nothing new may come from the leader of several replicas before the next one leads.";
}

/// Who leads.
#[derive(Debug)]
pub struct Replicas {
    options: Options,
    /// The clock by which leaders are given up.
    now: fn() -> Instant,
    /// The clock that samples may not be ahead of.
    wall: fn() -> TimeMs,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// When each replica last sent something new.
    heard: HashMap<Labels, Instant>,
    targets: HashMap<Labels, Lead>,
    /// When those that are gone were last forgotten.
    pruned: Option<Instant>,
}

#[derive(Debug)]
struct Lead {
    replica: Labels,
    /// When the leader last sent something new of the target; none once it has given it up.
    spoke: Option<Instant>,
    /// Nothing before is taken from the next leader.
    newest: TimeMs,
    /// Nothing up to there is taken from this leader.
    since: TimeMs,
    /// Since when another replica has been far ahead, and what was the newest then.
    behind: Option<(Instant, TimeMs)>,
}

impl Replicas {
    /// Knows no replica yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self::with_clocks(options, Instant::now, wall_clock)
    }

    fn with_clocks(options: Options, now: fn() -> Instant, wall: fn() -> TimeMs) -> Self {
        Self { options, now, wall, known: Mutex::default() }
    }

    /// The samples that are to be stored, without the labels of replicas, and the number of those that are not. Samples
    /// outside the times that the store takes are all passed on.
    pub fn settle(&self, batch: Batch, takes: &RangeInclusive<TimeMs>) -> (Batch, u64) {
        if !self.options.labels.iter().any(|label| batch.mentions(label)) {
            return (batch, 0);
        }
        let mut kept = Batch::default();
        let known = &mut *self.known.lock();
        for series in batch.series() {
            self.settle_series(series, takes, known, &mut kept);
        }
        let dropped = batch.sample_count() - kept.sample_count();
        (kept, dropped as u64)
    }

    fn settle_series(
        &self,
        series: SeriesRef<'_>,
        takes: &RangeInclusive<TimeMs>,
        known: &mut Known,
        kept: &mut Batch,
    ) {
        let is_replica = |name: &str| self.options.labels.iter().any(|label| label == name);
        let (replica, mut own): (Vec<_>, Vec<_>) = series.labels.iter().partition(|(name, _)| is_replica(name));
        if replica.is_empty() {
            kept.push(series.labels, series.samples);
            return;
        }
        let (replica, target) = (Labels::new(replica), target(series.labels));
        let trusted = *takes.start()..=((self.wall)().saturating_add(millis(self.options.takeover))).min(*takes.end());
        let said = Said::of(series, &trusted);
        let since = match said.any {
            true => self.since(replica, target, &said, known),
            // Nothing that the replica says is of a time that has come: it does not lead, nor stand for another one.
            false if self.is_led_by_another(&replica, &target, known) => TimeMs::MAX,
            false => TimeMs::MIN,
        };
        let passes = |time: TimeMs| time > since || !takes.contains(&time);
        series.samples.iter().filter(|sample| passes(sample.time_ms)).for_each(|sample| kept.add(*sample));
        kept.end(&mut own);
    }

    /// Has another replica that is alive the lead?
    fn is_led_by_another(&self, replica: &Labels, target: &Labels, known: &Known) -> bool {
        let lead = known.targets.get(target).filter(|lead| lead.replica != *replica);
        lead.is_some_and(|lead| self.is_alive(lead, known.heard.get(&lead.replica)))
    }

    fn is_alive(&self, lead: &Lead, heard: Option<&Instant>) -> bool {
        let (now, takeover) = ((self.now)(), self.options.takeover);
        let within = |at: Option<&Instant>, limit| at.is_some_and(|at| now.duration_since(*at) < limit);
        within(heard, takeover) && within(lead.spoke.as_ref(), takeover * SILENT_TAKEOVERS)
    }

    /// After which time samples of this replica and target are taken.
    fn since(&self, replica: Labels, target: Labels, said: &Said, known: &mut Known) -> TimeMs {
        let now = (self.now)();
        let takeover = self.options.takeover;
        let Known { heard, targets, pruned } = known;
        let gone = |at: Instant| now.duration_since(at) >= takeover * SILENT_TAKEOVERS;
        if targets.len().max(heard.len()) >= MAX_TARGETS && pruned.is_none_or(|at| now.duration_since(at) >= takeover) {
            heard.retain(|_, at| !gone(*at));
            targets.retain(|_, lead| lead.spoke.is_some_and(|at| !gone(at)));
            *pruned = Some(now);
        }
        if targets.len().max(heard.len()) >= MAX_TARGETS && !targets.contains_key(&target) {
            return TimeMs::MIN;
        }
        let Some(lead) = targets.get_mut(&target) else {
            heard.insert(replica.clone(), now);
            let mut lead = Lead::new(replica, now, TimeMs::MIN);
            lead.speaks(said, now);
            targets.insert(target, lead);
            return TimeMs::MIN;
        };
        if lead.replica != replica {
            let leads = self.is_alive(lead, heard.get(&lead.replica)) && !lead.lags(said, now, takeover);
            if leads || said.down || said.newest.is_none_or(|newest| newest <= lead.newest) {
                return TimeMs::MAX;
            }
            *lead = Lead::new(replica.clone(), now, lead.newest);
        }
        if lead.speaks(said, now) {
            heard.insert(replica, now);
        }
        lead.since
    }
}

/// What the samples of a series say that the store may take.
struct Said {
    /// There are some.
    any: bool,
    /// The replica cannot reach the target.
    down: bool,
    /// The replica tells whether it reaches the target.
    up: bool,
    /// The newest time with a value. A marker says nothing of its time that another replica could repeat.
    newest: Option<TimeMs>,
}

impl Said {
    fn of(series: SeriesRef<'_>, takes: &RangeInclusive<TimeMs>) -> Self {
        let samples = || series.samples.iter().filter(|sample| takes.contains(&sample.time_ms));
        let up = series.labels.metric() == UP;
        let last = samples().max_by_key(|sample| sample.time_ms);
        Self {
            any: last.is_some(),
            down: up && last.is_some_and(|Sample { value, .. }| *value == 0.0),
            up,
            newest: samples().filter(|sample| !is_stale(sample.value)).map(|sample| sample.time_ms).max(),
        }
    }
}

impl Lead {
    fn new(replica: Labels, now: Instant, since: TimeMs) -> Self {
        Self { replica, spoke: Some(now), newest: since, since, behind: None }
    }

    /// Has another replica been far ahead of the leader for a takeover, in which the leader did not catch up? Then the
    /// leader's clock is slow. A leader that catches up after an outage is faster than the clock.
    fn lags(&mut self, said: &Said, now: Instant, takeover: Duration) -> bool {
        let far = self.newest.saturating_add(millis(takeover * SILENT_TAKEOVERS));
        if said.newest.is_none_or(|newest| newest < far) {
            self.behind = None;
            return false;
        }
        let (since, newest) = *self.behind.get_or_insert((now, self.newest));
        let passed = now.duration_since(since);
        if passed < takeover {
            return false;
        }
        self.behind = None;
        self.newest.saturating_sub(newest) < millis(passed * CATCHING_UP)
    }

    /// Says whether the leader has sent something new.
    fn speaks(&mut self, said: &Said, now: Instant) -> bool {
        if said.down {
            self.spoke = None;
            return true;
        }
        let Some(newest) = said.newest.filter(|newest| *newest >= self.newest) else { return false };
        let is_new = newest > self.newest;
        self.newest = newest;
        if said.up || is_new && self.spoke.is_some() {
            self.spoke = Some(now);
        }
        is_new
    }
}

fn millis(duration: Duration) -> TimeMs {
    TimeMs::try_from(duration.as_millis()).unwrap_or(TimeMs::MAX)
}

/// What is scraped: what Prometheus knows a target by, and the cluster that it is in.
fn target(labels: LabelsRef<'_>) -> Labels {
    Labels::new(labels.iter().filter(|(name, _)| ["cluster", "job", "instance"].contains(name)))
}
