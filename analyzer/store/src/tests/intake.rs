//! What comes in while others flood the store, and while the disk is nearly full.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

#[tokio::test]
async fn a_flood_of_one_sender_does_not_delay_anothers_commit() {
    const FLOOD: usize = 40;
    const EACH: usize = 1000;
    let dir = tempfile::tempdir().unwrap();
    // A group commit holds one batch of the flood.
    let store = Store::open(Options { head_bytes: 4 * EACH * size_of::<Sample>(), ..options(dir.path()) });
    let store = store.await.unwrap();
    let waiting = async |bytes: u64| {
        while store.stats().queue_bytes < bytes {
            tokio::task::yield_now().await;
        }
        store.stats().queue_bytes
    };
    // Nothing is committed while another transaction writes to the database.
    let writing = store.shared.database.begin().await.unwrap();
    let append = |batch: goodput_exposition::sample::Batch| {
        let store = store.clone();
        tokio::spawn(async move { store.append(batch).await.unwrap() })
    };
    let flood = (0..FLOOD).map(|n| {
        let from = (n * EACH) as TimeMs;
        append(batch([ticks(from..from + EACH as TimeMs)]).sent_by("flood"))
    });
    let flood: Vec<_> = flood.collect();
    let flooded = waiting((FLOOD * EACH * size_of::<Sample>()) as u64).await;
    let other = append(batch([series("kept_other", "y", &[(1, 1.0)])]).sent_by("other"));
    waiting(flooded + 1).await;
    writing.rollback().await.unwrap();

    assert_eq!(other.await.unwrap(), stored(1));
    let before = store.stats().appended.stored;
    assert!(before <= 1 + 4 * EACH as u64, "{before} samples were stored first");
    assert!(store.stats().queue_bytes > 0, "the flood is over");
    for batch in flood {
        assert_eq!(batch.await.unwrap(), stored(EACH as u64));
    }
    assert_eq!(times(&store).await, (0..(FLOOD * EACH) as TimeMs).collect::<Vec<_>>(), "in order, all of them");
    assert_eq!(store.stats().queue_bytes, 0);
}

#[tokio::test]
async fn while_the_disk_is_nearly_full_nothing_is_taken_and_all_else_goes_on() {
    static FREE: AtomicU64 = AtomicU64::new(1000);
    let free_space = |_: &Path| Some(FREE.load(Ordering::Relaxed));
    let dir = tempfile::tempdir().unwrap();
    let limited = Options { min_free_disk_space_bytes: 1000, free_space, ..options(dir.path()) };
    let store = Store::open(limited).await.unwrap();
    store.append(batch([ticks(0..5)])).await.unwrap();
    assert!(!store.stats().short_of_space);

    FREE.store(999, Ordering::Relaxed);
    let refused = store.append(batch([ticks(5..10)])).await.unwrap_err();
    assert!(matches!(refused, StoreError::NoSpace { free: 999, minimum: 1000, .. }), "{refused}");
    assert!(refused.to_string().contains("store.min_free_disk_space_bytes (1000)"), "{refused}");
    let stats = store.stats();
    assert_eq!((stats.short_of_space, stats.free_bytes), (true, Some(999)));
    store.flush().await.unwrap();
    contract::results(&store).await;
    assert_eq!(times(&store).await, (0..5).collect::<Vec<_>>());

    FREE.store(1000, Ordering::Relaxed);
    assert_eq!(store.append(batch([ticks(5..10)])).await.unwrap(), stored(5));
    assert_eq!(times(&store).await, (0..10).collect::<Vec<_>>());
}

#[test]
fn the_file_system_tells_how_much_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let free_space = Options::new(dir.path(), |_| true).free_space;
    assert!(free_space(dir.path()).unwrap() > 0);
    assert_eq!(free_space(&dir.path().join("missing")), None);
}
