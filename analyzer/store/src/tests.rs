//! The embedded store: the contract, and what only it can get wrong.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

mod bad_rows;
mod catalogue_rows;
mod clocks;
mod columns;
mod copies;
mod damage;
mod days;
mod intake;
mod limits;
mod rebuild;
mod upgrade;
mod upkeep;

use super::catalogue::SeriesId;
use super::contract::{self, HOUR, NOW, all, batch, series};
use super::{
    Appended, Directory, Embedded, Ingest, Options, ReadOwnership as _, ReadVerdicts, Results, Samples, Selection,
    Stats, Store, StoreError,
};
use goodput_exposition::sample::{Sample, Series, TimeMs};

fn options(dir: &Path) -> Options {
    Options { now: || NOW, earliest: TimeMs::MIN, ..Options::new(dir, |metric| metric.starts_with("kept")) }
}

async fn open(dir: &Path) -> Store {
    Store::open(options(dir)).await.unwrap()
}

/// Samples of `kept`, whose value is their time.
fn ticks(times: impl IntoIterator<Item = TimeMs>) -> Series {
    series("kept", "x", &times.into_iter().map(|t| (t, t as f64)).collect::<Vec<_>>())
}

async fn times(store: &Store) -> Vec<TimeMs> {
    let read = store.select(&all("kept")).await.unwrap();
    read.iter().flat_map(|series| series.samples.iter().map(|sample| sample.time_ms)).collect()
}

fn stored(stored: u64) -> Appended {
    Appended { stored, ..Appended::default() }
}

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    contract::samples(&store).await;
    contract::results(&store).await;
    contract::teams(&store).await;
    contract::outbox(&store).await;
    contract::ownership::holds(&store).await;
    contract::outlook(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_events_at_once_are_all_there_also_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    contract::ownership::loses_no_event(&store).await;
    let said = store.finding_events().await.unwrap();
    store.close().await;
    assert_eq!(open(dir.path()).await.finding_events().await.unwrap(), said);
}

#[tokio::test]
async fn everything_is_there_after_reopening_from_the_write_ahead_and_from_segments() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.append(batch([ticks(0..10)])).await.unwrap();
    store.flush().await.unwrap();
    store.append(batch([ticks(10..20)])).await.unwrap();
    store.close().await;
    assert!(matches!(store.append(batch([ticks([20])])).await, Err(StoreError::Closed)));

    let store = open(dir.path()).await;
    assert_eq!(times(&store).await, (0..20).collect::<Vec<_>>());
    let Stats { segments, write_ahead_bytes, series, .. } = store.stats();
    assert!(segments == 1 && write_ahead_bytes > 0 && series == 1);
    store.flush().await.unwrap();
    let Stats { segments, write_ahead_bytes, head_bytes, .. } = store.stats();
    assert_eq!((segments, write_ahead_bytes, head_bytes), (2, 0, 0));
    store.close().await;

    let store = open(dir.path()).await;
    assert_eq!((store.stats().write_ahead_bytes, store.stats().head_bytes), (0, 0), "flushed, yet still there");
    assert_eq!(times(&store).await, (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_repeat_is_recognised_wherever_the_first_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.append(batch([ticks([10, 20, 30])])).await.unwrap();
    store.flush().await.unwrap();
    let repeat = batch([ticks([10, 20, 25, 30, 40]), series("kept", "x", &[(20, 0.0)])]);
    let expected = Appended { stored: 2, duplicate: 3, conflicting: 1, ..Appended::default() };
    assert_eq!(store.append(repeat.clone()).await.unwrap(), expected);
    store.flush().await.unwrap();
    store.close().await;
    // Nothing is known in memory now.
    let store = open(dir.path()).await;
    let expected = Appended { duplicate: 5, conflicting: 1, ..Appended::default() };
    assert_eq!(store.append(repeat).await.unwrap(), expected);
    assert_eq!(times(&store).await, [10, 20, 25, 30, 40]);
}

#[tokio::test]
async fn the_out_of_order_window_outlives_flush_and_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.append(batch([ticks([10 * HOUR])])).await.unwrap();
    store.flush().await.unwrap();
    store.append(batch([ticks([9 * HOUR])])).await.unwrap(); // only this late one is in the write-ahead
    store.close().await;
    let store = open(dir.path()).await;
    let appended = store.append(batch([ticks([8 * HOUR - 1, 8 * HOUR])])).await.unwrap();
    assert_eq!(appended, Appended { stored: 1, out_of_bounds: 1, ..Appended::default() });
    assert_eq!(times(&store).await, [8 * HOUR, 9 * HOUR, 10 * HOUR]);
}

#[tokio::test]
async fn a_full_head_is_flushed_and_stays_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Options { head_bytes: 16 * 1024, ..options(dir.path()) }).await.unwrap();
    for start in (0..20_000).step_by(500) {
        store.append(batch([ticks(start..start + 500)])).await.unwrap();
        assert!(store.stats().head_bytes < 2 * 16 * 1024);
    }
    let Stats { segments, upkeep, .. } = store.stats();
    assert!(segments + upkeep.merged_segments > 5);
    assert_eq!(times(&store).await, (0..20_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_old_head_is_flushed_without_further_traffic() {
    let dir = tempfile::tempdir().unwrap();
    let age = std::time::Duration::from_millis(1);
    let store = Store::open(Options { head_age: age, ..options(dir.path()) }).await.unwrap();
    store.append(batch([ticks([1])])).await.unwrap();
    while store.stats().segments == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(times(&store).await, [1]);
}

#[tokio::test]
async fn batches_of_many_senders_are_all_stored() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let send = |n: TimeMs| {
        let store = store.clone();
        // Everybody brings the same new series, an own sample, and one that all of them bring.
        tokio::spawn(async move { store.append(batch([ticks([n, 1000])])).await.unwrap() })
    };
    let mut total = Appended::default();
    for task in (0..100).map(send).collect::<Vec<_>>() {
        total += task.await.unwrap();
    }
    assert_eq!(total, Appended { stored: 101, duplicate: 99, ..Appended::default() });
    assert_eq!(times(&store).await, (0..100).chain([1000]).collect::<Vec<_>>());
    assert_eq!(store.stats().appended, total);
}

#[tokio::test]
async fn a_bad_segment_is_set_aside_and_the_rest_is_served() {
    for torn in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        for start in [0, 10, 20] {
            store.append(batch([ticks(start..start + 10)])).await.unwrap();
            store.flush().await.unwrap();
        }
        store.close().await;
        let (segments, quarantine) = (dir.path().join("segments"), dir.path().join("quarantine"));
        let names = files(&segments);
        let path = segments.join(&names[1]);
        let mut bytes = fs::read(&path).unwrap();
        if torn {
            bytes.truncate(bytes.len() / 2);
        } else {
            bytes[10] ^= 1;
        }
        fs::write(&path, &bytes).unwrap();

        let store = open(dir.path()).await;
        assert_eq!(times(&store).await, (0..10).chain(20..30).collect::<Vec<_>>());
        let Stats { segments: served, quarantined, .. } = store.stats();
        assert_eq!((served, quarantined), (2, 1));
        assert_eq!(files(&quarantine), [names[1].clone()]);
        assert_eq!(files(&segments), [names[0].clone(), names[2].clone()]);
        store.close().await;
        let store = open(dir.path()).await;
        assert_eq!((store.stats().segments, store.stats().quarantined), (2, 1));
    }
}

#[tokio::test]
async fn a_flipped_write_ahead_row_is_set_aside_and_the_rest_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    for time in [1, 2, 3] {
        store.append(batch([ticks([time])])).await.unwrap();
    }
    let sql = "UPDATE write_ahead SET samples = zeroblob(length(samples)) WHERE seq = 2";
    let mut transaction = store.shared.database.begin().await.unwrap();
    sqlx::query(sql).execute(&mut *transaction).await.unwrap();
    transaction.commit().await.unwrap();
    store.close().await;
    let store = open(dir.path()).await;
    assert_eq!((times(&store).await, store.stats().quarantined), (vec![1, 3], 1));
    assert_eq!(files(&dir.path().join("quarantine")), ["000000000002.write-ahead"]);
}

#[tokio::test]
async fn samples_survive_a_flush_that_fails() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.append(batch([ticks([1])])).await.unwrap();
    let segments = dir.path().join("segments");
    fs::remove_dir(&segments).unwrap();
    assert!(matches!(store.flush().await, Err(StoreError::Io { .. })));
    assert_eq!(store.append(batch([ticks([2])])).await.unwrap(), stored(1));
    assert_eq!(times(&store).await, [1, 2]);
    fs::create_dir(&segments).unwrap();
    store.flush().await.unwrap();
    assert_eq!((times(&store).await, store.stats().segments), (vec![1, 2], 1));
}

#[tokio::test]
async fn samples_are_refused_before_memory_runs_out_when_flushing_fails() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Options { head_bytes: 1024, ..options(dir.path()) }).await.unwrap();
    fs::remove_dir(dir.path().join("segments")).unwrap();
    let mut acknowledged = Vec::new();
    let error = loop {
        let next = acknowledged.len() as TimeMs;
        match store.append(batch([ticks([next])])).await {
            Ok(_) => acknowledged.push(next),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("the limit is 1024"), "{error}");
    let Stats { head_bytes, failed_flushes, .. } = store.stats();
    assert!((2048..4096).contains(&head_bytes) && failed_flushes == 1);
    assert_eq!(times(&store).await, acknowledged);
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_passes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.append(batch([ticks([1])])).await.unwrap();
    // To SQLite this is what a full disk is: no further page can be had.
    let limit = async |sql| {
        let mut transaction = store.shared.database.begin().await.unwrap();
        sqlx::query(sql).execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
    };
    limit("PRAGMA max_page_count = 1").await;
    let large = batch([ticks(2..20_000), series("kept_too", "y", &[(1, 1.0)])]);
    let error = store.append(large.clone()).await.unwrap_err();
    assert!(matches!(&error, StoreError::NotStored { reason } if reason.contains("full")), "{error}");
    assert_eq!(times(&store).await, [1]);
    assert_eq!(store.select(&all("kept_too")).await.unwrap(), []);
    limit("PRAGMA max_page_count = 1000000").await;
    assert_eq!(store.append(large).await.unwrap(), stored(19_999));
    let ids = store.shared.catalogue.read().matching(&Selection { range: 0..1, ..Selection::default() });
    assert_eq!(ids, [SeriesId(1), SeriesId(2)], "the failed attempt used up an id");
    store.close().await;
    assert_eq!(times(&open(dir.path()).await).await, (1..20_000).collect::<Vec<_>>());
}

/// A thousand nodes that arrive at once: the memory of their samples stays near what is configured, and none is lost.
#[tokio::test]
async fn a_thousand_nodes_arriving_are_kept_within_the_head() {
    let dir = tempfile::tempdir().unwrap();
    // All samples together would take ten times this, those waiting at the same time more than twice.
    let head_bytes = 1 << 20;
    let store = Store::open(Options { head_bytes, ..options(dir.path()) }).await.unwrap();
    let node = |n: usize| {
        let samples: Vec<_> = (0..48).map(|t| (t * 15_000, n as f64 + t as f64)).collect();
        batch((0..12).map(|metric| series(&format!("kept_{metric}"), &n.to_string(), &samples)))
    };
    let sent = (0..1000).map(|n| {
        let (store, batch) = (store.clone(), node(n));
        tokio::spawn(async move {
            let appended = store.append(batch).await.unwrap();
            (appended.stored, store.stats().head_bytes)
        })
    });
    let (mut stored, mut peak) = (0, 0);
    for answer in sent.collect::<Vec<_>>() {
        let (new, held) = answer.await.unwrap();
        (stored, peak) = (stored + new, peak.max(held));
    }
    assert_eq!(stored, 1000 * 12 * 48);
    assert!(peak < 2 * head_bytes as u64, "{peak} bytes in the head");
    assert!(store.stats().segments > 0, "the head never was full: the test does not test it");
    let read = store.select(&all("kept_11")).await.unwrap();
    assert_eq!(read.iter().map(|series| series.samples.len()).sum::<usize>(), 1000 * 48);
}

#[tokio::test]
async fn series_beyond_the_limit_are_counted_and_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Options { max_series: 2, ..options(dir.path()) }).await.unwrap();
    let hosts = ["a", "b", "c"].map(|host| series("kept", host, &[(1, 1.0)]));
    let appended = store.append(batch(hosts)).await.unwrap();
    assert_eq!(appended, Appended { stored: 2, over_limit: 1, ..Appended::default() });
    assert_eq!(store.append(batch([series("kept", "a", &[(2, 1.0)])])).await.unwrap(), stored(1));
}

#[tokio::test]
async fn a_series_of_impossible_samples_is_not_created() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let appended = store.append(batch([ticks([NOW + HOUR])])).await.unwrap();
    assert_eq!(appended, Appended { out_of_bounds: 1, ..Appended::default() });
    assert_eq!(store.stats().series, 0);
}

#[tokio::test]
async fn a_second_store_in_the_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).await;
    let second = Store::open(options(dir.path())).await.err().unwrap();
    assert!(matches!(&second, StoreError::Locked { .. }), "{second}");
    assert!(second.to_string().contains("in use by another goodput-analyzer"));
    first.close().await;
    open(dir.path()).await;
}

#[tokio::test]
async fn verdicts_can_be_read_while_another_process_has_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    Directory::new(dir.path()).verdicts(0..HOUR).await.expect_err("there is nothing yet");
    let store = open(dir.path()).await;
    contract::results(&store).await;
    let here = store.intervals(0..10 * HOUR).await.unwrap();
    assert_eq!(Directory::new(dir.path()).verdicts(0..10 * HOUR).await.unwrap().intervals, here);
    store.close().await;
    assert_eq!(Directory::new(dir.path()).verdicts(0..10 * HOUR).await.unwrap().intervals, here);
}

#[tokio::test]
async fn a_directory_of_a_newer_release_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let sql = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
        VALUES (99, 'of the future', 1, x'00', 0)";
    let mut transaction = store.shared.database.begin().await.unwrap();
    sqlx::query(sql).execute(&mut *transaction).await.unwrap();
    transaction.commit().await.unwrap();
    store.close().await;
    let error = Store::open(options(dir.path())).await.err().unwrap();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error}");
    let error = Directory::new(dir.path()).verdicts(0..HOUR).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error}");
}

#[tokio::test]
async fn a_directory_that_is_something_else_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("goodput.db"), "this is no database, and long enough to tell so\n".repeat(100)).unwrap();
    let error = Store::open(options(dir.path())).await.err().unwrap();
    assert!(error.to_string().contains("goodput.db") && error.to_string().contains("not a database"), "{error}");
}

/// What may happen to a store between two batches.
#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    Flush,
    Reopen,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the order, the repeats, the batches, the flushes and the restarts: the same samples are read.
    #[test]
    fn the_way_samples_arrive_does_not_matter(
        deliveries in proptest::collection::vec(
            (
                proptest::collection::vec((0_u8..4, 0_i64..40), 1..12),
                prop_oneof![3 => Just(Then::Nothing), 1 => Just(Then::Flush), 1 => Just(Then::Reopen)],
            ),
            1..8,
        )
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let mut store = open(dir.path()).await;
            let mut expected: BTreeMap<String, BTreeMap<TimeMs, f64>> = BTreeMap::new();
            let mut counted = Appended::default();
            let mut sent = 0;
            for (samples, then) in deliveries {
                let value = |host: u8, time: TimeMs| f64::from(host) + time as f64 / 100.0;
                for (host, time) in &samples {
                    expected.entry(host.to_string()).or_default().insert(*time, value(*host, *time));
                }
                let one = |(host, time): &(u8, TimeMs)| series("kept", &host.to_string(), &[(*time, value(*host, *time))]);
                sent += samples.len() as u64;
                counted += store.append(batch(samples.iter().map(one))).await.unwrap();
                match then {
                    Then::Nothing => {}
                    Then::Flush => store.flush().await.unwrap(),
                    Then::Reopen => {
                        store.close().await;
                        store = open(dir.path()).await;
                    }
                }
            }
            let read = store.select(&all("kept")).await.unwrap();
            let plain = |samples: Vec<Sample>| samples.iter().map(|s| (s.time_ms, s.value)).collect::<Vec<_>>();
            let read: BTreeMap<_, _> =
                read.into_iter().map(|s| (s.labels.get("host").unwrap().to_owned(), plain(s.samples))).collect();
            let unique: u64 = expected.values().map(|samples| samples.len() as u64).sum();
            let expected: BTreeMap<_, _> =
                expected.into_iter().map(|(host, samples)| (host, samples.into_iter().collect::<Vec<_>>())).collect();
            assert_eq!(read, expected);
            assert_eq!(counted, Appended { stored: unique, duplicate: sent - unique, ..Appended::default() });
        });
    }
}
