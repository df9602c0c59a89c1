//! Prometheus servers that run twice and send the same series, told apart by a label of their own.
//!
//! Their samples have different times, so that a store that took both would hold every fact twice. Per target, only one
//! replica is taken, the leader. The lead passes to the next replica that sends samples of the target when nothing at all
//! has been received from the leader for [`Options::takeover`], when the leader says itself that it cannot reach the
//! target (`up` is 0), or when it has not spoken of the target for [`SILENT_TAKEOVERS`] times as long. What is older than
//! the newest sample that was taken of a target is never taken from another replica, so that time does not go twice.
//! Between the last sample of one leader and the first of the next lies at most the takeover and one interval of
//! scraping: well below the five minutes after which a level says nothing any more.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::scrape::UP;
use crate::sample::{Batch, Labels, LabelsRef, Sample, SeriesRef, TimeMs, is_stale};

/// A leader that is alive loses a target of which it has been silent for so many takeovers: it may not scrape it any
/// more. With the default takeover this is the five minutes after which Prometheus itself takes a series for ended.
const SILENT_TAKEOVERS: u32 = 10;

/// Targets and replicas remembered; what is beyond is taken as it comes.
const MAX_TARGETS: usize = 100_000;

/// How replicas are recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The labels that tell replicas apart; they are taken off. Default `prometheus_replica`, which the Prometheus
    /// operator sets, and `__replica__`, which Cortex and Mimir ask for.
    pub labels: Vec<String>,
    /// Default 30 s: two intervals of scraping, and what Cortex and Mimir wait.
    pub takeover: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let labels = ["prometheus_replica", "__replica__"].map(str::to_owned).into();
        Self { labels, takeover: Duration::from_secs(30) }
    }
}

/// Who leads.
#[derive(Debug)]
pub struct Replicas {
    options: Options,
    /// The clock by which leaders are given up.
    now: fn() -> Instant,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// When each replica was last heard.
    heard: HashMap<Labels, Instant>,
    targets: HashMap<Labels, Lead>,
    /// When those that are gone were last forgotten.
    pruned: Option<Instant>,
}

#[derive(Debug)]
struct Lead {
    replica: Labels,
    /// When the leader last spoke of the target; none once it has given it up.
    spoke: Option<Instant>,
    /// Nothing before is taken from whoever leads next.
    newest: TimeMs,
    /// Nothing up to there is taken from this leader.
    since: TimeMs,
}

impl Replicas {
    /// Knows nobody yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self::with_clock(options, Instant::now)
    }

    fn with_clock(options: Options, now: fn() -> Instant) -> Self {
        Self { options, now, known: Mutex::default() }
    }

    /// The samples that are to be stored, without the labels of replicas, and the number of those that are not.
    pub fn settle(&self, batch: Batch) -> (Batch, u64) {
        if !self.options.labels.iter().any(|label| batch.mentions(label)) {
            return (batch, 0);
        }
        let mut kept = Batch::default();
        let known = &mut *self.known.lock();
        for series in batch.series() {
            self.settle_series(series, known, &mut kept);
        }
        let dropped = batch.sample_count() - kept.sample_count();
        (kept, dropped as u64)
    }

    fn settle_series(&self, series: SeriesRef<'_>, known: &mut Known, kept: &mut Batch) {
        let is_replica = |name: &str| self.options.labels.iter().any(|label| label == name);
        let (replica, mut own): (Vec<_>, Vec<_>) = series.labels.iter().partition(|(name, _)| is_replica(name));
        if replica.is_empty() {
            kept.push(series.labels, series.samples);
            return;
        }
        let since = self.since(Labels::new(replica), target(series.labels), series, known);
        series.samples.iter().filter(|sample| sample.time_ms > since).for_each(|sample| kept.add(*sample));
        kept.end(&mut own);
    }

    /// After which time samples of this replica and target are taken.
    fn since(&self, replica: Labels, target: Labels, series: SeriesRef<'_>, known: &mut Known) -> TimeMs {
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
        heard.insert(replica.clone(), now);
        let Some(lead) = targets.get_mut(&target) else {
            let mut lead = Lead { replica, spoke: Some(now), newest: TimeMs::MIN, since: TimeMs::MIN };
            lead.speaks(series, now);
            targets.insert(target, lead);
            return TimeMs::MIN;
        };
        if lead.replica != replica {
            let within = |at: Option<&Instant>, limit| at.is_some_and(|at| now.duration_since(*at) < limit);
            let alive = within(heard.get(&lead.replica), takeover);
            let leads = alive && within(lead.spoke.as_ref(), takeover * SILENT_TAKEOVERS);
            if leads || says_down(series) {
                return TimeMs::MAX;
            }
            *lead = Lead { replica, spoke: Some(now), newest: lead.newest, since: lead.newest };
        }
        lead.speaks(series, now);
        lead.since
    }
}

impl Lead {
    fn speaks(&mut self, series: SeriesRef<'_>, now: Instant) {
        if says_down(series) {
            self.spoke = None;
            return;
        }
        // A marker says nothing of its time that another replica could repeat.
        let facts = series.samples.iter().filter(|sample| !is_stale(sample.value));
        self.newest = facts.map(|sample| sample.time_ms).max().map_or(self.newest, |newest| self.newest.max(newest));
        if series.labels.metric() == UP || self.spoke.is_some() {
            self.spoke = Some(now);
        }
    }
}

/// Does the replica say that it cannot reach the target?
fn says_down(series: SeriesRef<'_>) -> bool {
    let last = series.samples.iter().max_by_key(|sample| sample.time_ms);
    series.labels.metric() == UP && last.is_some_and(|Sample { value, .. }| *value == 0.0)
}

/// What is scraped: what Prometheus knows a target by, and the cluster that it is in.
fn target(labels: LabelsRef<'_>) -> Labels {
    Labels::new(labels.iter().filter(|(name, _)| ["cluster", "job", "instance"].contains(name)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::sample::Series;

    thread_local! {
        static NOW: Cell<(Option<Instant>, Duration)> = const { Cell::new((None, Duration::ZERO)) };
    }

    fn now() -> Instant {
        let (start, passed) = NOW.get();
        let start = start.unwrap_or_else(Instant::now);
        NOW.set((Some(start), passed));
        start + passed
    }

    fn at(seconds: u64) {
        now();
        NOW.set((NOW.get().0, Duration::from_secs(seconds)));
    }

    fn replicas() -> Replicas {
        Replicas::with_clock(Options::default(), now)
    }

    fn series(metric: &str, instance: &str, replica: &str, seconds: &[u64], value: f64) -> Series {
        let labels = [("__name__", metric), ("instance", instance), ("job", "gpu"), ("prometheus_replica", replica)];
        let samples = seconds.iter().map(|s| Sample { time_ms: *s as TimeMs * 1000, value }).collect();
        Series { labels: Labels::new(labels), samples }
    }

    /// Which seconds of the metric `m` are kept.
    fn send(replicas: &Replicas, series: impl IntoIterator<Item = Series>) -> Vec<i64> {
        let (kept, _) = replicas.settle(series.into_iter().collect());
        assert!(!kept.mentions("prometheus_replica"));
        let of_m = kept.series().filter(|s| s.labels.metric() == "m");
        of_m.flat_map(|s| s.samples.iter().map(|sample| sample.time_ms / 1000).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn of_two_replicas_one_is_taken_until_it_falls_silent() {
        let replicas = replicas();
        let m = |replica: &str, seconds: &[u64]| [series("m", "n1", replica, seconds, 1.0)];
        at(0);
        assert_eq!(send(&replicas, m("a", &[0])), [0]);
        at(7);
        assert_eq!(send(&replicas, m("b", &[7])), [0; 0]);
        at(15);
        assert_eq!(send(&replicas, m("a", &[15])), [15]);
        for seconds in [22, 37] {
            at(seconds);
            assert_eq!(send(&replicas, m("b", &[seconds])), [0; 0], "a may only be late");
        }
        at(52);
        assert_eq!(send(&replicas, m("b", &[7, 15, 22, 52])), [22, 52], "what the first had is not taken twice");
        at(55);
        assert_eq!(send(&replicas, m("a", &[30, 45])), [0; 0], "b leads now");
    }

    #[test]
    fn a_leader_that_catches_up_keeps_the_lead() {
        let replicas = replicas();
        let m = |replica: &str, seconds: &[u64]| [series("m", "n1", replica, seconds, 1.0)];
        at(1000);
        assert_eq!(send(&replicas, m("a", &[10])), [10]);
        assert_eq!(send(&replicas, m("b", &[990])), [0; 0]);
        at(1020);
        assert_eq!(send(&replicas, m("a", &[500])), [500]);
    }

    #[test]
    fn a_leader_that_cannot_reach_a_target_loses_only_that_one() {
        let replicas = replicas();
        let m = |instance: &str, replica: &str, second| series("m", instance, replica, &[second], 1.0);
        let up = |replica: &str, second, value| series(UP, "n1", replica, &[second], value);
        at(0);
        assert_eq!(send(&replicas, [m("n1", "a", 0), m("n2", "a", 0)]), [0, 0]);
        at(15);
        send(&replicas, [up("a", 15, 0.0)]);
        assert_eq!(send(&replicas, [up("b", 16, 0.0), m("n2", "b", 16)]), [0; 0], "b cannot either");
        at(22);
        assert_eq!(send(&replicas, [m("n1", "b", 22), m("n2", "b", 22)]), [22]);
        assert_eq!(send(&replicas, [m("n1", "a", 23), m("n2", "a", 23)]), [23]);
    }

    #[test]
    fn a_leader_that_no_longer_scrapes_a_target_loses_it() {
        let replicas = replicas();
        let m = |instance: &str, replica: &str, second| series("m", instance, replica, &[second], 1.0);
        at(0);
        send(&replicas, [m("n1", "a", 0), m("n2", "a", 0)]);
        for second in (15..300).step_by(15) {
            at(second);
            assert_eq!(send(&replicas, [m("n2", "a", second)]).len(), 1);
            assert_eq!(send(&replicas, [m("n1", "b", second)]), [0; 0], "{second}");
        }
        at(300);
        assert_eq!(send(&replicas, [m("n1", "b", 300)]), [300]);
    }

    #[test]
    fn what_has_no_replica_is_left_alone() {
        let labels = Labels::new([("__name__", "m"), ("instance", "n1"), ("why", "prometheus_replica")]);
        let batch: Batch = [Series { labels, samples: vec![Sample { time_ms: 1, value: 1.0 }] }].into_iter().collect();
        assert_eq!(replicas().settle(batch.clone()), (batch, 0));
    }
}
