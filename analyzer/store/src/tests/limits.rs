//! Limits on series: honest new ones get in, memory is bounded, and nothing that is stored is lost.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::*;
use goodput_exposition::sample::{Batch, STALE_BITS, ScrapeJob};

const STALE: f64 = f64::from_bits(STALE_BITS);

fn refused(over_limit: u64) -> Appended {
    Appended { over_limit, ..Appended::default() }
}

/// Series of one pod, one sample each; `ends`: a staleness marker comes with it.
fn pod(name: &str, count: usize, time: TimeMs, ends: bool) -> Batch {
    let samples = if ends { vec![(time, 1.0), (time + 1, STALE)] } else { vec![(time, 1.0)] };
    batch((0..count).map(|n| series("kept", &format!("{name}-{n}"), &samples)))
}

#[tokio::test]
async fn pods_that_ended_make_room_and_stay_readable() {
    let dir = tempfile::tempdir().unwrap();
    let limited = || Options { max_series: 60, ..options(dir.path()) };
    let store = Store::open(limited()).await.unwrap();
    for n in 0..20 {
        let appended = store.append(pod(&n.to_string(), 10, n, true).sent_by("10.0.0.1")).await.unwrap();
        assert_eq!(appended, stored(20), "pod {n}");
        if n == 10 {
            store.flush().await.unwrap();
        }
    }
    let Stats { series, catalogue_series, evicted_series, .. } = store.stats();
    assert_eq!((series, catalogue_series, evicted_series), (48, 200, 152), "one sender has four fifths of the limit");
    let read = store.select(&all("kept")).await.unwrap();
    assert_eq!((read.len(), read.iter().map(|s| s.samples.len()).sum::<usize>()), (200, 400));
    store.close().await;
    let store = Store::open(limited()).await.unwrap();
    assert_eq!(store.append(pod("new", 10, 30, false)).await.unwrap(), stored(10), "after a restart too");
    assert_eq!(store.append(pod("0", 10, 31, false)).await.unwrap(), stored(10), "one that comes back is taken");
    assert_eq!(store.select(&all("kept")).await.unwrap().len(), 210);
}

#[tokio::test]
async fn series_that_are_silent_for_an_hour_make_room_and_others_do_not() {
    static SINCE_BOOT: AtomicI64 = AtomicI64::new(0);
    let since_boot = || Duration::from_secs(SINCE_BOOT.load(Ordering::Relaxed).cast_unsigned());
    let dir = tempfile::tempdir().unwrap();
    let limited = Options { max_series: 10, max_series_per_sender: Some(10), since_boot, ..options(dir.path()) };
    let store = Store::open(limited).await.unwrap();
    assert_eq!(store.append(pod("a", 6, 1, false)).await.unwrap(), stored(6));
    SINCE_BOOT.store(1800, Ordering::Relaxed);
    assert_eq!(store.append(pod("b", 4, 1, false)).await.unwrap(), stored(4));
    assert_eq!(store.append(pod("c", 1, 1, false)).await.unwrap(), refused(1));
    assert_eq!(store.append(pod("a", 2, 2, false)).await.unwrap(), stored(2), "known series go on");
    SINCE_BOOT.store(3700, Ordering::Relaxed);
    let appended = store.append(pod("c", 5, 3, false)).await.unwrap();
    assert_eq!(appended, Appended { stored: 4, over_limit: 1, ..Appended::default() });
    assert_eq!((store.stats().series, store.stats().evicted_series), (10, 4));
}

/// A short form of a flood of 10⁶ series; `tests/tests/store_flood.rs` has the long one.
#[tokio::test]
async fn a_flood_of_series_leaves_room_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let limited = Options { max_series: 2000, ..options(dir.path()) };
    let store = Store::open(limited).await.unwrap();
    let mut flood = Appended::default();
    for n in 0..20 {
        flood += store.append(pod(&format!("flood{n}"), 1000, 1, false).sent_by("10.0.0.66")).await.unwrap();
    }
    assert_eq!(flood, Appended { stored: 1600, over_limit: 18_400, ..Appended::default() });
    let job = |max_series| ScrapeJob { name: "gpu".into(), max_series };
    let honest = [
        (pod("a", 150, 1, false).sent_by("10.0.0.1"), stored(150)),
        (pod("b", 150, 1, false).sent_by("10.0.0.2"), stored(150)),
        (pod("c", 60, 1, false).sent_by("http://a/metrics").scraped_for(job(Some(100))), stored(60)),
        (
            pod("d", 60, 1, false).sent_by("http://b/metrics").scraped_for(job(Some(100))),
            Appended { stored: 40, over_limit: 20, ..Appended::default() },
        ),
    ];
    for (batch, expected) in honest {
        assert_eq!(store.append(batch).await.unwrap(), expected);
    }
    let stats = store.stats();
    assert_eq!((stats.series, stats.catalogue_series, stats.limits.max_series_per_sender), (2000, 2000, Some(1600)));
}

#[tokio::test]
async fn bytes_of_labels_are_bounded_and_counted_as_series_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let long = |n: usize| series("kept", &format!("{n}{}", "x".repeat(5000)), &[(1, 1.0)]);
    let limited = || Options { max_label_bytes: 60_000, ..options(dir.path()) };
    let store = Store::open(limited()).await.unwrap();
    let appended = store.append(batch((0..20).map(long))).await.unwrap();
    assert_eq!(appended, Appended { stored: 11, over_limit: 9, ..Appended::default() });
    let bytes = store.stats().label_bytes;
    assert!((11 * 5000..60_000).contains(&bytes), "{bytes}");
    assert_eq!(store.append(batch([ticks([1])])).await.unwrap(), stored(1), "what still fits is stored");
    let small = store.stats().label_bytes - bytes;
    store.close().await;
    let store = Store::open(limited()).await.unwrap();
    assert_eq!(store.stats().label_bytes, bytes + small);
    let gone = store.shared.catalogue.read().matching(&all("kept")).into_iter().take(11).collect();
    store.shared.catalogue.write().remove(&gone);
    assert_eq!(store.stats().label_bytes, small);
}

#[tokio::test]
async fn ended_series_are_kept_up_to_four_times_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Options { max_series: 10, ..options(dir.path()) }).await.unwrap();
    for n in 0..5 {
        assert_eq!(store.append(pod(&n.to_string(), 8, n, true)).await.unwrap(), stored(16));
    }
    assert_eq!(store.append(pod("5", 8, 5, true)).await.unwrap(), refused(16), "40 series have samples");
    assert_eq!(store.select(&all("kept")).await.unwrap().len(), 40);
}
