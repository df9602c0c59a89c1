//! Hours judged in any order, in parts, twice or at once: the same verdicts.

use std::path::Path;

use goodput_exposition::sample::{Labels, STALE_BITS, Sample, Series};
use goodput_rules::application::Combine;
use goodput_rules::classify::has_vanished;
use goodput_store::{Ingest as _, Options, ReadVerdicts as _, Store};
use goodput_verdict::{Achieved, Class, Interval, Outlook, RollUp};
use jiff::tz::TimeZone;

use super::tests::START;
use super::*;

const MINUTE: i64 = 60_000;
const HOURS: i64 = 40;
const END: TimeMs = START + HOURS * HOUR_MS;

/// A GPU that is scraped in these hours on a node; its target may end with a staleness marker.
fn gpu(uuid: &str, node: &str, hours: Range<i64>, marked: bool) -> Vec<Series> {
    let instance = format!("{node}:9400");
    let target = [("job", "gpu"), ("instance", instance.as_str())];
    let place = [("UUID", uuid), ("Hostname", node), ("exported_pod", "train")];
    let (start, end) = (START + hours.start * HOUR_MS, START + hours.end * HOUR_MS);
    let of = |name: &str, labels: &[(&str, &str)], value: f64| {
        let mut samples: Vec<Sample> =
            (start..end).step_by(MINUTE as usize).map(|time_ms| Sample { time_ms, value }).collect();
        samples.extend(marked.then(|| Sample { time_ms: end, value: f64::from_bits(STALE_BITS) }));
        let labels = Labels::new([&[("__name__", name)], labels, &target].concat());
        Series { labels, samples }
    };
    let mut steps = of("steps_total", &[("owner", "train")], 0.0);
    steps.samples.iter_mut().filter(|s| s.value == 0.0).for_each(|s| s.value = (s.time_ms - START) as f64 / 1000.0);
    let audit = [("Hostname", node), ("check", "swap_off"), ("status", "fail")];
    vec![
        of("DCGM_FI_DEV_GPU_UTIL", &place, 0.0),
        of("DCGM_FI_DEV_POWER_USAGE", &place, 120.0),
        of("DCGM_FI_DEV_ROW_REMAP_PENDING", &place[..2], 1.0),
        of("goodput_audit_status", &audit, 1.0),
        steps,
        of("up", &[], 1.0),
    ]
}

/// GPUs that stay, vanish, return, move, and leave; and one that vanishes with its whole node while all others are gone.
fn fleet() -> Vec<Series> {
    [
        gpu("GPU-stays", "n1", 0..10, false),
        gpu("GPU-vanishes", "n2", 0..2, false),
        gpu("GPU-returns", "n3", 0..3, false),
        gpu("GPU-returns", "n3", 20..22, false),
        gpu("GPU-moves", "n4", 0..4, false),
        gpu("GPU-moves", "n5", 4..6, false),
        gpu("GPU-leaves", "n6", 0..5, true),
    ]
    .concat()
}

/// Judges the store, and what its job achieved.
fn judge(store: &Store) -> Judge<Store> {
    let counter = Counter {
        metric: "steps_total".into(),
        unit: "steps".into(),
        owner_label: "owner".into(),
        ideal: None,
        combine: Combine::Sum,
    };
    Judge::new(store.clone(), Thresholds::default()).counting(vec![counter])
}

async fn store(dir: &Path) -> Store {
    let options = Options { now: || END, ..Options::new(dir, |_| true) };
    let store = Store::open(options).await.unwrap();
    for series in fleet() {
        store.append([series].into_iter().collect()).await.unwrap();
    }
    store
}

fn hour(n: i64) -> Range<TimeMs> {
    START + n * HOUR_MS..START + (n + 1) * HOUR_MS
}

/// Judges these hours one by one, as `classify` does it with each.
async fn judge_one_by_one(judge: &Judge<Store>, hours: impl IntoIterator<Item = i64>) {
    for n in hours {
        judge.judge(&mut judge.reader(END), &hour(n), END).await.unwrap();
        judge.rebook_vanished(hour(n).end, END, &TimeZone::UTC).await.unwrap();
    }
}

/// What the store has of all hours: verdicts, their sums, risks with advisories and standings, and what jobs achieved.
async fn tables(store: &Store) -> (Vec<Interval>, Vec<RollUp>, Outlook, Vec<Achieved>) {
    let all = START..END;
    (
        store.intervals(all.clone()).await.unwrap(),
        store.hours(all.clone(), None).await.unwrap(),
        store.outlook(all.clone()).await.unwrap(),
        store.achieved(all).await.unwrap(),
    )
}

/// The numbers from 0 on, in an order that the seed gives (Fisher and Yates, by a linear congruential generator).
fn shuffled(mut seed: u64) -> Vec<i64> {
    let mut all: Vec<i64> = (0..HOURS).collect();
    for n in (1..all.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all.swap(n, (seed >> 33) as usize % (n + 1));
    }
    all
}

#[tokio::test]
async fn verdicts_are_the_same_whatever_the_order_of_judging() {
    let dir = tempfile::tempdir().unwrap();
    let first = store(dir.path()).await;
    let judge_of_first = judge(&first);
    let mut reader = judge_of_first.reader(END);
    for n in 0..HOURS {
        judge_of_first.judge(&mut reader, &hour(n), END).await.unwrap();
    }
    let whole = tables(&first).await;
    let (expected, hours, outlook, achieved) = &whole;
    assert_eq!(*hours, RollUp::fold(expected));
    let told = (outlook.risks.len(), outlook.advisories.len(), outlook.standings.len(), achieved.len());
    assert!(told.0 > 0 && told.2 > 0 && told.3 > 0, "something to compare: {told:?}");
    let no_data = |gpu: &str| {
        let of_it = expected.iter().filter(|i| i.gpu == gpu && i.class == Class::NoData);
        of_it.map(|i| i.ms).sum::<i64>() / HOUR_MS
    };
    let holes = ["GPU-stays", "GPU-vanishes", "GPU-returns", "GPU-moves", "GPU-leaves"].map(no_data);
    assert_eq!(holes, [24, 24, 17 + 18, 24, 0]);
    assert!(expected.iter().any(has_vanished));

    for seed in 0..5 {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        judge_one_by_one(&judge(&store), shuffled(seed)).await;
        assert_eq!(tables(&store).await, whole, "seed {seed}");
        // Again, by judges that remember nothing.
        for n in shuffled(seed + 100).into_iter().take(5) {
            judge_one_by_one(&judge(&store), [n]).await;
        }
        assert_eq!(tables(&store).await, whole, "twice, seed {seed}");
    }
}

#[tokio::test]
async fn a_window_that_was_never_judged_gets_no_verdicts() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).await;
    judge_one_by_one(&judge(&store), [8, 1]).await;
    let gpus = async |n| {
        let intervals = store.intervals(hour(n)).await.unwrap();
        intervals.into_iter().map(|i| i.gpu).collect::<BTreeSet<_>>()
    };
    assert!(gpus(2).await.is_empty() && gpus(9).await.is_empty());
    assert!(gpus(8).await.contains("GPU-vanishes"), "{:?}", gpus(8).await);
}
