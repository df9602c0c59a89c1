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

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::scrape::UP;
use crate::sample::{Batch, Labels, LabelsRef, Sample, SeriesRef, TimeMs, is_stale};
use crate::store::wall_clock;

/// A leader that is alive loses a target of which it has been silent for so many takeovers: it may not scrape it any
/// more. With the default takeover this is the five minutes after which Prometheus itself takes a series for ended.
const SILENT_TAKEOVERS: u32 = 10;

/// A leader that is behind catches up when it is so many times as fast as the clock.
const CATCHING_UP: u32 = 2;

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
    /// Knows nobody yet.
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
        Replicas::with_clocks(Options::default(), now, || 1_000_000_000)
    }

    fn series(metric: &str, instance: &str, replica: &str, seconds: &[u64], value: f64) -> Series {
        let labels = [("__name__", metric), ("instance", instance), ("job", "gpu"), ("prometheus_replica", replica)];
        let samples = seconds.iter().map(|s| Sample { time_ms: *s as TimeMs * 1000, value }).collect();
        Series { labels: Labels::new(labels), samples }
    }

    /// Which seconds of the metric `m` are kept.
    fn send(replicas: &Replicas, series: impl IntoIterator<Item = Series>) -> Vec<i64> {
        let (kept, _) = replicas.settle(series.into_iter().collect(), &(TimeMs::MIN..=TimeMs::MAX));
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
        assert_eq!(replicas().settle(batch.clone(), &(TimeMs::MIN..=TimeMs::MAX)), (batch, 0));
    }

    /// What the store takes of a target, by the rules of its own.
    #[derive(Default)]
    struct Taken(std::collections::BTreeSet<TimeMs>);

    impl Taken {
        fn append(&mut self, batch: &Batch, takes: &std::ops::RangeInclusive<TimeMs>) {
            for sample in batch.series().flat_map(|series| series.samples) {
                let oldest = self.0.last().map_or(TimeMs::MIN, |newest| newest - 7_200_000);
                if takes.contains(&sample.time_ms) && sample.time_ms >= oldest {
                    self.0.insert(sample.time_ms);
                }
            }
        }
    }

    const SCRAPE: u64 = 15;
    /// When the simulated clocks begin: later than any skew.
    const BEGIN: TimeMs = 1_000_000_000;

    /// A replica that is not right: from when on its clock is off, by how much, and from when on it is silent.
    type Wrong = (u64, i64, u64);

    fn wall() -> TimeMs {
        BEGIN + NOW.get().1.as_millis() as TimeMs
    }

    /// The samples of the right replica, at seconds, in whose place the store has none of the target.
    fn lost(wrong: &[Wrong], right: usize, phases: &[u64], end: u64) -> Vec<u64> {
        let replicas = Replicas::with_clocks(Options::default(), now, wall);
        let (mut taken, mut of_right) = (Taken::default(), Vec::new());
        for second in 0..end {
            at(second);
            for (n, phase) in phases.iter().enumerate().filter(|(_, phase)| second % SCRAPE == **phase) {
                let (_, skew, _) = match n.cmp(&right) {
                    std::cmp::Ordering::Equal => (0, 0, 0),
                    order => {
                        let (from, skew, silent) = wrong[n - usize::from(order.is_gt())];
                        if second >= silent {
                            continue;
                        }
                        (from, if second >= from { skew } else { 0 }, silent)
                    }
                };
                let _ = phase;
                let time_ms = wall() + skew * 1000;
                let labels = [("__name__", "m"), ("instance", "n1"), ("prometheus_replica", &format!("r{n}"))];
                let series = Series { labels: Labels::new(labels), samples: vec![Sample { time_ms, value: 1.0 }] };
                let takes = TimeMs::MIN..=wall() + 600_000;
                let (kept, _) = replicas.settle([series].into_iter().collect(), &takes);
                taken.append(&kept, &takes);
                if n == right {
                    of_right.push(second);
                }
            }
        }
        let interval = SCRAPE as TimeMs * 1000;
        let covered = |second: u64| {
            let time = BEGIN + second as TimeMs * 1000;
            taken.0.range(time - interval + 1..time + interval).next().is_some()
        };
        of_right.into_iter().filter(|second| !covered(*second)).collect()
    }

    #[test]
    fn a_leader_whose_clock_is_an_hour_fast_silences_the_right_one_for_a_takeover_only() {
        // The first leads, and its clock is wrong from the second minute on.
        let lost = lost(&[(60, 3600, u64::MAX)], 1, &[0, 7], 600);
        assert!(!lost.is_empty() && lost.len() as u64 <= 30 / SCRAPE + 1, "{lost:?}");
        // It is silent afterwards, which changes nothing.
        assert!(self::lost(&[(60, 3600, 135)], 1, &[0, 7], 600).len() as u64 <= 30 / SCRAPE + 1);
    }

    #[test]
    fn samples_that_the_store_refuses_go_to_it_and_say_nothing() {
        let replicas = Replicas::with_clocks(Options::default(), now, || 0);
        at(0);
        let takes = TimeMs::MIN..=600_000;
        let of =
            |replica: &str, second| -> Batch { [series("m", "n1", replica, &[second], 1.0)].into_iter().collect() };
        assert_eq!(replicas.settle(of("a", 3600), &takes).1, 0, "the store counts it");
        assert_eq!(replicas.settle(of("b", 1), &takes).0.sample_count(), 1, "the first whose sample is taken leads");
        assert_eq!(replicas.settle(of("a", 3600), &takes).0.sample_count(), 1, "it is refused, and not a replica's");
        assert_eq!(replicas.settle(of("a", 300), &takes).1, 1, "ahead of the clock, while another leads");
        at(40);
        assert_eq!(replicas.settle(of("a", 300), &takes).1, 0, "the leader is silent");
    }

    proptest::proptest! {
        #[test]
        fn one_right_replica_is_enough(
            wrong in proptest::collection::vec(
                (0_u64..900, proptest::sample::select(vec![0, 100, 400, 3600, 86_400, -40, -1200, -3600, -10_800, -86_400]), 0_u64..1500),
                1..4,
            ),
            right in 0_usize..4,
            phases in proptest::collection::vec(0_u64..SCRAPE, 4),
        ) {
            let right = right % (wrong.len() + 1);
            let lost = lost(&wrong, right, &phases[..=wrong.len()], 1500);
            // Each replica that becomes wrong, or falls silent, costs a takeover at most.
            let most = wrong.len() as u64 * 2 * (30 / SCRAPE + 1);
            proptest::prop_assert!(lost.len() as u64 <= most, "{lost:?}");
        }
    }
}
