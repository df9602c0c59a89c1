//! A clock that is wrong for a while: nothing is removed by it, and nothing is refused once it is right again.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use goodput_exposition::sample::{Batch, ScrapeJob};

const MINUTE: TimeMs = 60_000;
const DAYS_400: TimeMs = 400 * 24 * HOUR;

fn scraped(time: TimeMs) -> Batch {
    batch([ticks([time])])
        .sent_by("http://n1:9400/metrics")
        .scraped_for(ScrapeJob { name: "gpu".into(), max_series: None })
}

/// A clock that a test sets, and the time since boot, which goes its own way.
macro_rules! clocks {
    ($set:ident, $options:ident) => {
        static WALL: AtomicI64 = AtomicI64::new(NOW);
        static SINCE_BOOT: AtomicU64 = AtomicU64::new(0);
        // So long after the start, with a clock that is wrong by so much.
        let $set = |after: TimeMs, wrong_by: TimeMs| {
            SINCE_BOOT.store(after.cast_unsigned(), Ordering::Relaxed);
            WALL.store(NOW + after + wrong_by, Ordering::Relaxed);
        };
        let $options = |dir: &Path| Options {
            now: || WALL.load(Ordering::Relaxed),
            since_boot: || Duration::from_millis(SINCE_BOOT.load(Ordering::Relaxed)),
            ..options(dir)
        };
    };
}

#[tokio::test]
async fn a_clock_that_was_ahead_removes_nothing_and_bounds_nothing() {
    clocks!(set, options);
    let dir = tempfile::tempdir().unwrap();
    // Too small for merges.
    let options = |dir| Options { retention: Some(Duration::from_hours(24)), segment_bytes: 1, ..options(dir) };
    let store = Store::open(options(dir.path())).await.unwrap();
    for hours in [23, 1] {
        assert_eq!(store.append(scraped(NOW - hours * HOUR)).await.unwrap(), stored(1));
        store.flush().await.unwrap();
    }
    let (before, wrong) = (NOW - HOUR, NOW + DAYS_400);
    set(1000, DAYS_400);
    assert_eq!(store.append(scraped(wrong + 1000)).await.unwrap(), stored(1));
    store.flush().await.unwrap();
    // A sender's clock is right, and what it brings is right too: what is a day older goes, and nothing else.
    set(20 * HOUR, DAYS_400);
    let right = NOW + 20 * HOUR;
    assert_eq!(
        store.append(batch([series("kept", "y", &[(right, 1.0)])]).sent_by("10.0.0.1")).await.unwrap(),
        stored(1)
    );
    assert_eq!(store.append(scraped(wrong + 20 * HOUR)).await.unwrap(), stored(1));
    store.flush().await.unwrap();
    while store.stats().upkeep.removed_segments == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(times(&store).await, [before, wrong + 1000, wrong + 20 * HOUR, right]);

    set(20 * HOUR + MINUTE, 0);
    assert_eq!(store.append(scraped(right + MINUTE)).await.unwrap(), stored(1), "at once");
    assert_eq!(store.append(scraped(right + MINUTE)).await.unwrap(), Appended { duplicate: 1, ..stored(0) });
    store.close().await;
    let store = Store::open(options(dir.path())).await.unwrap();
    set(20 * HOUR + 2 * MINUTE, 0);
    assert_eq!(store.append(scraped(right + 2 * MINUTE)).await.unwrap(), stored(1), "after a restart");
    let late = Appended { duplicate: 1, ..stored(0) };
    assert_eq!(store.append(scraped(right + MINUTE)).await.unwrap(), late, "known in the segments");
    assert_eq!(store.append(scraped(right - 3 * HOUR)).await.unwrap(), Appended { out_of_bounds: 1, ..stored(0) });
    store.flush().await.unwrap();
    let kept = [before, right + MINUTE, right + 2 * MINUTE, wrong + 1000, wrong + 20 * HOUR, right];
    assert_eq!(times(&store).await, kept);
}

#[tokio::test]
async fn a_clock_that_is_ahead_at_the_start_removes_nothing() {
    clocks!(set, options);
    let dir = tempfile::tempdir().unwrap();
    let options = |dir| Options { retention: Some(Duration::from_hours(24)), segment_bytes: 1, ..options(dir) };
    let store = Store::open(options(dir.path())).await.unwrap();
    store.append(scraped(NOW - HOUR)).await.unwrap();
    store.flush().await.unwrap();
    store.close().await;
    set(MINUTE, DAYS_400);
    let store = Store::open(options(dir.path())).await.unwrap();
    let earliest = || store.shared.earliest();
    for second in 1..4 {
        store.append(scraped(NOW + DAYS_400 + MINUTE + second)).await.unwrap();
        store.flush().await.unwrap();
    }
    assert_eq!(earliest(), NOW - 25 * HOUR, "ages are measured from the newest right sample");
    set(HOUR, 0);
    store.append(scraped(NOW + HOUR)).await.unwrap();
    store.flush().await.unwrap();
    assert_eq!(earliest(), NOW + HOUR - 24 * HOUR, "the clock is right again");
}

#[tokio::test]
async fn samples_ahead_of_a_clock_that_stepped_back_are_put_off() {
    clocks!(set, options);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).await.unwrap();
    let at = |time| batch([ticks([time])]).sent_by("10.0.0.1");
    assert_eq!(store.append(at(NOW)).await.unwrap(), stored(1));
    set(MINUTE, -15 * MINUTE);
    let refused = store.append(at(NOW + MINUTE)).await.unwrap_err();
    assert!(matches!(refused, StoreError::ClockInDoubt) && refused.outcome() == "clock_in_doubt", "{refused}");
    assert!(store.stats().clock_in_doubt);
    let late = store.append(at(NOW - 16 * MINUTE)).await.unwrap();
    assert_eq!(late, stored(1), "what does not lie ahead is taken");
    set(2 * MINUTE, 0);
    assert_eq!(store.append(at(NOW + MINUTE)).await.unwrap(), stored(1), "the sender kept it");
    assert!(!store.stats().clock_in_doubt);
}

#[tokio::test]
async fn one_sender_ahead_of_the_clock_is_refused_and_several_are_put_off() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let ahead = |sender: &str| batch([ticks([NOW + 15 * MINUTE])]).sent_by(sender);
    for _ in 0..3 {
        let refused = Appended { out_of_bounds: 1, ..Appended::default() };
        assert_eq!(store.append(ahead("10.0.0.1")).await.unwrap(), refused);
    }
    assert!(!store.stats().clock_in_doubt);
    assert!(matches!(store.append(ahead("10.0.0.2")).await, Err(StoreError::ClockInDoubt)));
    assert!(matches!(store.append(ahead("10.0.0.1")).await, Err(StoreError::ClockInDoubt)));
    assert!(store.stats().clock_in_doubt);
    let right = batch([ticks(NOW - 100..NOW)]).sent_by("10.0.0.3");
    assert_eq!(store.append(right).await.unwrap(), stored(100), "a sender that agrees with the clock is heard");
    assert!(!store.stats().clock_in_doubt, "most agree with the clock");
}

#[tokio::test]
async fn times_before_the_year_2000_or_ahead_of_the_clock_are_refused_one_by_one() {
    const YEAR_2000: TimeMs = 946_684_800_000;
    for history in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let earliest = Options::new("", |_| true).earliest;
        let store = Store::open(Options { history, earliest, ..options(dir.path()) }).await.unwrap();
        let latest = NOW + 10 * MINUTE;
        let wrong = [TimeMs::MIN, -1, 0, NOW / 1000, YEAR_2000 - 1, latest + 1, NOW * 1000, TimeMs::MAX];
        for time in wrong {
            let new = batch([series("kept_new", &time.to_string(), &[(time, 1.0)])]);
            let refused = Appended { out_of_bounds: 1, ..Appended::default() };
            assert_eq!(store.append(new).await.unwrap(), refused, "{time}, history: {history}");
        }
        let mixed = batch([ticks(wrong.into_iter().chain([NOW]))]);
        let one = Appended { stored: 1, out_of_bounds: wrong.len() as u64, ..Appended::default() };
        assert_eq!(store.append(mixed).await.unwrap(), one);
        assert_eq!(times(&store).await, [NOW]);
        if history {
            assert_eq!(store.append(batch([ticks([YEAR_2000])])).await.unwrap(), stored(1));
        }
    }
}
