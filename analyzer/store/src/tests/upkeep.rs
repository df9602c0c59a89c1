//! Merging and retention, as callers of the store see them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::super::segments;
use super::super::{Compacted, Mark};
use super::*;

const DAY: TimeMs = 24 * HOUR;

/// Waits until the writer has come so far.
async fn until(store: &Store, reached: impl Fn(&Stats) -> bool) {
    while !reached(&store.stats()) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Stores the samples in a segment of their own.
async fn segment(store: &Store, times: impl IntoIterator<Item = TimeMs>) {
    store.append(batch([ticks(times)])).await.unwrap();
    store.flush().await.unwrap();
}

async fn compacted(store: &Store) -> Compacted {
    let mut all = Compacted::default();
    while let Some(one) = store.compact().await.unwrap() {
        all.segments += one.segments;
        all.into_segments += one.into_segments;
    }
    all
}

#[tokio::test]
async fn small_segments_are_merged_by_and_by_and_nothing_changes_for_readers() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    for n in 0..20 {
        segment(&store, [10 * n, 10 * n + 1]).await;
        assert_eq!(times(&store).await, (0..=n).flat_map(|n| [10 * n, 10 * n + 1]).collect::<Vec<_>>());
    }
    until(&store, |stats| stats.upkeep.merges >= 2 && stats.segments < 10).await;
    let expected = (0..20).flat_map(|n| [10 * n, 10 * n + 1]).collect::<Vec<_>>();
    assert_eq!(times(&store).await, expected);
    assert_eq!(compacted(&store).await.into_segments, 1);
    assert_eq!((times(&store).await, store.stats().segments), (expected.clone(), 1));
    assert_eq!(files(&dir.path().join("segments")).len(), 1, "the files of the old ones are gone");
    store.close().await;
    let store = open(dir.path()).await;
    assert_eq!(times(&store).await, expected);
    let repeat = store.append(batch([ticks([100, 101, 105])])).await.unwrap();
    assert_eq!(repeat, Appended { stored: 1, duplicate: 2, ..Appended::default() }, "known wherever they lie");
}

fn spans(store: &Store) -> Vec<(TimeMs, TimeMs)> {
    let mut spans: Vec<_> = store.shared.state.read().segments.iter().map(|s| (s.first_ms, s.last_ms)).collect();
    spans.sort_unstable();
    spans
}

#[tokio::test]
async fn a_merge_cuts_every_six_hours() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    for end in [6 * HOUR, DAY] {
        segment(&store, [end - 2, end, end + 1]).await;
        segment(&store, [end - 1, end + 2]).await;
    }
    compacted(&store).await;
    let of = |end| [(end - 2, end - 1), (end, end + 2)];
    assert_eq!(spans(&store), [of(6 * HOUR), of(DAY)].concat());
    assert_eq!(times(&store).await, (6 * HOUR - 2..6 * HOUR + 3).chain(DAY - 2..DAY + 3).collect::<Vec<_>>());
}

/// Earlier releases merged by day.
#[tokio::test]
async fn a_segment_of_a_whole_day_is_cut_when_something_joins_it_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Options { history: true, ..options(dir.path()) }).await.unwrap();
    segment(&store, (0..24).map(|hour| hour * HOUR)).await;
    segment(&store, [7 * HOUR + 1]).await;
    assert_eq!(compacted(&store).await, Compacted::default(), "of later hours");
    assert_eq!(spans(&store), [(0, 23 * HOUR), (7 * HOUR + 1, 7 * HOUR + 1)]);
    segment(&store, [1]).await;
    compacted(&store).await;
    assert_eq!(spans(&store), [0, 6, 12, 18].map(|hour| (hour * HOUR, (hour + 5) * HOUR)));
    let expected = (0..24).map(|hour| hour * HOUR).chain([1, 7 * HOUR + 1]);
    assert_eq!(times(&store).await, expected.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_read_that_has_begun_ends_with_the_segments_it_began_with() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    segment(&store, [1]).await;
    segment(&store, [2]).await;
    let before = store.shared.state.read().segments.clone();
    compacted(&store).await;
    let segments = dir.path().join("segments");
    assert_eq!(files(&segments).len(), 3, "the old ones are still read");
    let found = segments::read(&segments, &before, &[SeriesId(1)], &(0..10)).unwrap();
    assert!(found.bad.is_empty() && found.samples[0].len() == 2);
    drop((before, found));
    assert_eq!(files(&segments).len(), 1);
    assert_eq!(store.stats().quarantined, 0);
}

#[tokio::test]
async fn a_crash_on_either_side_of_the_exchange_leaves_one_set() {
    for after in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (kept, saved) = (dir.path().join("segments"), dir.path().join("saved"));
        let store = open(dir.path()).await;
        segment(&store, [1, 3]).await;
        segment(&store, [2]).await;
        store.close().await;
        fs::create_dir(&saved).unwrap();
        let copy = |from: &Path, to: &Path| {
            for name in files(from) {
                fs::copy(from.join(&name), to.join(&name)).unwrap();
            }
        };
        copy(&kept, &saved);
        if after {
            // The exchange is in the index, and the old files have not been removed.
            let store = open(dir.path()).await;
            compacted(&store).await;
            store.close().await;
            copy(&saved, &kept);
        } else {
            // The new file is whole, and not in the index.
            fs::copy(kept.join(&files(&kept)[0]), kept.join("000000000009.parquet")).unwrap();
            fs::write(kept.join("000000000010.tmp"), b"half").unwrap();
        }
        let store = open(dir.path()).await;
        assert_eq!(times(&store).await, [1, 2, 3], "after: {after}");
        assert_eq!(files(&kept).len(), if after { 1 } else { 2 });
    }
}

#[tokio::test]
async fn when_the_exchange_fails_the_old_segments_stay_and_the_new_file_goes_later() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    segment(&store, [1]).await;
    segment(&store, [2]).await;
    let execute = async |sql: String| {
        let mut transaction = store.shared.database.begin().await.unwrap();
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
    };
    // Neither the exchange nor what would clean up behind it succeeds.
    for what in ["DELETE ON segments", "UPDATE ON upkeep"] {
        let name = what.split(' ').next().unwrap();
        let sql = format!("CREATE TRIGGER refuse_{name} BEFORE {what} BEGIN SELECT RAISE(ABORT, 'refused'); END");
        execute(sql).await;
    }
    let error = store.compact().await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    assert_eq!((times(&store).await, store.stats().segments), (vec![1, 2], 2));
    assert_eq!(files(&dir.path().join("segments")).len(), 3, "a crash might yet find the commit complete");
    for name in ["DELETE", "UPDATE"] {
        execute(format!("DROP TRIGGER refuse_{name}")).await;
    }
    segment(&store, [3]).await;
    while files(&dir.path().join("segments")).len() > 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(times(&store).await, [1, 2, 3]);
}

#[tokio::test]
async fn a_bad_segment_is_set_aside_by_the_merge_and_the_rest_served() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    for n in 0..3 {
        segment(&store, [n]).await;
    }
    let name = files(&dir.path().join("segments"))[1].clone();
    let path = dir.path().join("segments").join(&name);
    let mut bytes = fs::read(&path).unwrap();
    bytes[20] ^= 1;
    fs::write(&path, bytes).unwrap();
    compacted(&store).await;
    assert_eq!((times(&store).await, store.stats().quarantined), (vec![0, 2], 1));
    assert_eq!(files(&dir.path().join("quarantine")), [name]);
}

#[tokio::test]
async fn what_is_not_judged_is_not_merged_with_what_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    segment(&store, [10]).await;
    segment(&store, [11]).await;
    store.note_judged(store.mark()).await.unwrap();
    segment(&store, [20]).await;
    segment(&store, [21]).await;
    assert_eq!(compacted(&store).await.into_segments, 1);
    assert_eq!(store.stats().segments, 3);
    store.close().await;
    let store = open(dir.path()).await;
    assert_eq!(store.unjudged_from(), Some(20), "not from the beginning of the day");
    assert_eq!(store.mark(), Mark { samples: 4, events: 0 });
}

#[tokio::test]
async fn samples_go_by_age_verdicts_stay_and_older_ones_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let retention = Some(Duration::from_hours(48));
    let store = Store::open(Options { retention, ..options(dir.path()) }).await.unwrap();
    contract::results(&store).await;
    let verdicts = store.intervals(0..10 * HOUR).await.unwrap();
    for day in 0..4 {
        segment(&store, [day * DAY, day * DAY + HOUR]).await;
    }
    until(&store, |stats| stats.raw_from.is_some()).await;
    let from = DAY + 1;
    assert_eq!(store.raw_from(), Some(HOUR + 1));
    assert_eq!(times(&store).await, [DAY, DAY + HOUR, 2 * DAY, 2 * DAY + HOUR, 3 * DAY, 3 * DAY + HOUR]);
    let upkeep = store.stats().upkeep;
    assert_eq!((upkeep.removed_segments, upkeep.removed_samples), (1, 2));
    let late = batch([series("kept", "new", &[(HOUR, 1.0)]), series("kept", "later", &[(from + 2 * HOUR, 1.0)])]);
    let appended = store.append(late).await.unwrap();
    assert_eq!(appended, Appended { stored: 1, out_of_bounds: 1, ..Appended::default() });
    let known = batch([series("kept", "later", &[(DAY + HOUR - 1, 1.0), (DAY + HOUR, 1.0)])]);
    let appended = store.append(known).await.unwrap();
    assert_eq!(appended, Appended { stored: 1, out_of_bounds: 1, ..Appended::default() }, "of a known series too");
    assert_eq!(store.intervals(0..10 * HOUR).await.unwrap(), verdicts, "verdicts stay");
    store.close().await;
    let store = open(dir.path()).await;
    assert_eq!(store.raw_from(), Some(HOUR + 1), "known after a restart, whatever the setting is now");
    assert_eq!(files(&dir.path().join("segments")).len() as u64, store.stats().segments);
}

#[tokio::test]
async fn samples_go_by_size_and_verdicts_by_their_own_age() {
    let dir = tempfile::tempdir().unwrap();
    let limits =
        Options { retention_bytes: Some(1), retention_results: Some(Duration::from_hours(9)), ..options(dir.path()) };
    let store = Store::open(limits).await.unwrap();
    contract::results(&store).await;
    contract::outlook(&store).await;
    for hour in [1, 4, 11] {
        segment(&store, [hour * HOUR]).await;
    }
    until(&store, |stats| stats.upkeep.removed_segments == 2 && stats.upkeep.removed_verdicts > 0).await;
    assert_eq!(times(&store).await, [11 * HOUR], "the last hours stay whatever the size");
    assert_eq!(store.intervals(0..2 * HOUR).await.unwrap(), []);
    assert_ne!(store.intervals(0..10 * HOUR).await.unwrap(), [], "younger ones stay");
    assert_eq!(store.outlook(0..2 * HOUR).await.unwrap(), goodput_verdict::Outlook::default());
}

#[tokio::test]
async fn a_clock_that_jumps_ahead_removes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    segment(&store, [HOUR]).await;
    store.close().await;
    let limits = Options { retention: Some(Duration::from_hours(24)), now: || 100 * NOW, ..options(dir.path()) };
    let store = Store::open(limits).await.unwrap();
    segment(&store, [2 * HOUR]).await;
    assert_eq!(times(&store).await, [HOUR, 2 * HOUR]);
    assert_eq!(store.raw_from(), None);
}

#[tokio::test]
async fn series_leave_the_catalogue_with_their_last_samples() {
    let dir = tempfile::tempdir().unwrap();
    let limits = || Options { retention: Some(Duration::from_hours(48)), ..options(dir.path()) };
    let store = Store::open(limits()).await.unwrap();
    // Every day has pods of its own; one more series stays.
    for day in 0..10 {
        let at = [(day * DAY, day as f64)];
        let pods = (0..20).map(|pod| series("kept_pod", &format!("{day}-{pod}"), &at));
        store.append(batch(pods.chain([series("kept", "x", &at)]))).await.unwrap();
        store.flush().await.unwrap();
    }
    // Days 7 to 9 are left.
    until(&store, |stats| stats.series == 3 * 20 + 1).await;
    assert_eq!(store.stats().upkeep.removed_series, 7 * 20);
    assert_eq!(times(&store).await, [7 * DAY, 8 * DAY, 9 * DAY]);
    assert_eq!(store.select(&all("kept_pod")).await.unwrap().len(), 60);
    assert_eq!(super::super::status(dir.path()).await.unwrap().series, 61, "in the table too");
    assert_eq!(super::super::verify(dir.path(), &mut |_, _| {}).await.unwrap().problems, Vec::new());
    store.close().await;

    // What comes back is a new series; what an earlier release left in the catalogue goes after the start.
    let store = Store::open(limits()).await.unwrap();
    let back = series("kept_pod", "0-0", &[(9 * DAY + 1, 1.0)]);
    store.append(batch([back.clone()])).await.unwrap();
    assert_eq!(store.stats().series, 62);
    let id = |store: &Store| store.shared.catalogue.read().id(back.labels.as_ref()).unwrap();
    assert_eq!(id(&store), SeriesId(202), "no id is given twice");
    store.close().await;
    let store = Store::open(limits()).await.unwrap();
    assert_eq!(id(&store), SeriesId(202));
    let mut transaction = store.shared.database.begin().await.unwrap();
    let sql = r#"INSERT INTO series (id, labels) VALUES (500, '{"__name__":"kept_gone"}')"#;
    sqlx::query(sql).execute(&mut *transaction).await.unwrap();
    transaction.commit().await.unwrap();
    store.close().await;
    let store = Store::open(limits()).await.unwrap();
    assert_eq!(store.stats().series, 63);
    // Day 7 is over by now, too.
    segment(&store, [9 * DAY + 2]).await;
    until(&store, |stats| stats.upkeep.removed_series == 21).await;
    let read = store.select(&Selection { metrics: vec!["kept_pod".to_owned()], ..all("") }).await.unwrap();
    assert_eq!((read.len(), store.stats().series), (41, 42));
}

#[tokio::test]
async fn the_database_gives_back_what_a_large_write_ahead_once_took() {
    const MANY: usize = 400_000;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("goodput.db");
    let store = open(dir.path()).await;
    store.append(batch([ticks(0..MANY as TimeMs)])).await.unwrap();
    store.flush().await.unwrap();
    store.close().await;
    let large = fs::metadata(&file).unwrap().len();
    assert!(large > 3_000_000, "{large} bytes");
    // It is kept for the next write-ahead, until that turns out to be small.
    let store = open(dir.path()).await;
    segment(&store, [MANY as TimeMs]).await;
    while fs::metadata(&file).unwrap().len() > 500_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(times(&store).await.len(), MANY + 1);
    assert_eq!(super::super::verify(dir.path(), &mut |_, _| {}).await.unwrap().problems, Vec::new());
}

#[tokio::test]
async fn closing_does_not_leave_a_merge_behind() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    for n in 0..8 {
        segment(&store, [n]).await;
    }
    store.close().await;
    // Whether the merge came to its end or not: the directory is free and whole.
    let store = open(dir.path()).await;
    assert_eq!(times(&store).await, (0..8).collect::<Vec<_>>());
    assert_eq!(Arc::strong_count(&store.shared), 2, "this handle and the writer");
}
