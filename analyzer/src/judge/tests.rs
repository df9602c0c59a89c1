//! Judging over a real store.

use goodput_exposition::Format;
use jiff::tz::TimeZone;

use super::*;
use goodput_exposition::{Limits, parse};
use goodput_store::{Ingest, Options, ReadVerdicts as _, Store};
use goodput_verdict::{Class, Energy};

const MINUTE: i64 = 60_000;
/// A full hour in 2026.
pub(crate) const START: TimeMs = 1_795_230_000_000;

/// A store whose clock stands 12 hours after [`START`].
pub(crate) async fn store(dir: &std::path::Path) -> Store {
    let now = || START + 12 * HOUR_MS;
    Store::open(Options { now, ..Options::new(dir, signal::is_known) }).await.unwrap()
}

/// Scrapes of one idle GPU that an owner holds, every 15 s.
pub(crate) async fn idle_gpu(store: &impl Ingest, uuid: &str, node: &str, times: Range<TimeMs>) {
    let gpu = format!("{{gpu=\"0\",UUID=\"{uuid}\",Hostname=\"{node}\",instance=\"{node}:9400\"}}");
    let text =
        format!("DCGM_FI_DEV_GPU_UTIL{gpu} 0\nDCGM_FI_DEV_POWER_USAGE{gpu} 120\nDCGM_FI_DEV_FB_USED{gpu} 20000\n");
    for time in times.step_by(15_000) {
        store.append(parse(&text, Format::Text, Limits::NONE, time).unwrap()).await.unwrap();
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
    goodput_store::unquarantine(dir.path(), name).await.unwrap();
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
    let declared = [Declared { node: glob::Pattern::new("n?").unwrap(), cluster: None, gpu: None, span }];
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
    let east = Some("east".to_owned());
    for (cluster, node) in [(None, "renamed"), (east, "n1")] {
        stale.iter_mut().for_each(|i| (i.cluster, i.node) = (cluster.clone(), node.to_owned()));
        store.replace(Place::new(&cluster, node), hour(0), &stale).await.unwrap();
        judge_window(&judge, &hour(0), hour(0).end).await.unwrap();
        assert_eq!(sums(&store, hour(0)).await.values().sum::<i64>(), HOUR_MS, "counted once");
    }
}

#[test]
fn a_node_that_failed_keeps_its_own_and_not_what_another_cluster_calls_alike() {
    let failed = FailedNode::new("east", "n1", "a reason");
    let new = [goodput_testing::interval("n1", 0, Class::IdleHeld)];
    let keeps = |cluster: Option<&str>, node: &str, new: &[Interval]| {
        keeps_its_own(&failed, &(cluster.map(str::to_owned), node.to_owned()), new)
    };
    assert!(keeps(Some("east"), "n1", &[]) && keeps(Some("east"), "n1", &new));
    assert!(keeps(None, "n1", &[]), "its verdicts of a release that told no cluster");
    assert!(!keeps(None, "n1", &new) && !keeps(Some("west"), "n1", &[]) && !keeps(Some("east"), "n2", &[]));
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

#[tokio::test]
async fn what_servers_count_needs_no_configuration_and_counters_of_jobs_stay_without_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).await;
    idle_gpu(&store, "GPU-a", "n1", hour(0)).await;
    let metric = "vllm:generation_tokens_total";
    for (n, time) in hour(0).step_by(15_000).enumerate() {
        let text = format!("{metric}{{instance=\"s:8000\",owner=\"slurm-7\",model_name=\"m\"}} {}\n", 150 * n);
        store.append(parse(&text, Format::Text, Limits::NONE, time).unwrap()).await.unwrap();
    }
    let counter = Counter {
        metric: metric.into(),
        unit: "tokens".into(),
        owner_label: "owner".into(),
        ideal: None,
        combine: goodput_rules::application::Combine::Sum,
    };
    let judge = Judge::new(store.clone(), Thresholds::default()).counting(vec![counter]);
    judge_window(&judge, &hour(0), hour(2).end).await.unwrap();
    let both = store.achieved(hour(0)).await.unwrap();
    assert_eq!(both.iter().filter(|row| row.served.is_some()).count(), 1, "{both:#?}");
    assert_eq!((both.len(), both[0].amount, both[1].amount), (2, 35_850.0, 35_850.0), "239 times 150");
    judge_window(&Judge::new(store.clone(), Thresholds::default()), &hour(0), hour(2).end).await.unwrap();
    assert_eq!(store.achieved(hour(0)).await.unwrap(), both);
}
