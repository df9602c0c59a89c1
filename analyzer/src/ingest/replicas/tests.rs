use std::cell::Cell;

use super::*;
use goodput_exposition::sample::Series;

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
    let of = |replica: &str, second| -> Batch { [series("m", "n1", replica, &[second], 1.0)].into_iter().collect() };
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
