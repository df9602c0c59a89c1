//! The data directory looked at, copied and put back.

use super::super::{Problem, Snapshot, backup, restore, status, verify};
use super::*;

fn quiet(_done: u64, _all: u64) {}

/// Ten samples in two segments, five in the write-ahead, and verdicts.
async fn filled(dir: &Path) -> Store {
    let store = open(dir).await;
    contract::results(&store).await;
    for start in [0, 5] {
        store.append(batch([ticks(start..start + 5)])).await.unwrap();
        store.flush().await.unwrap();
    }
    store.append(batch([ticks(10..15)])).await.unwrap();
    store
}

async fn problems(dir: &Path) -> Vec<Problem> {
    verify(dir, &mut quiet).await.unwrap().problems
}

#[tokio::test]
async fn status_and_verify_look_on_while_the_store_is_open() {
    let dir = tempfile::tempdir().unwrap();
    status(dir.path()).await.expect_err("there is nothing yet");
    let store = filled(dir.path()).await;
    let now = status(dir.path()).await.unwrap();
    let segments = (now.segments.count, now.segments.samples, now.segments.first_ms, now.segments.last_ms);
    assert_eq!(segments, (2, 10, Some(0), Some(9)));
    assert_eq!((now.series, now.write_ahead.rows, now.verdicts[0].name), (1, 1, "intervals"));
    assert_eq!(now.verdicts[0].rows, store.intervals(0..10 * HOUR).await.unwrap().len() as u64);
    let verified = verify(dir.path(), &mut quiet).await.unwrap();
    assert_eq!((verified.segments, verified.samples, verified.write_ahead, verified.problems), (2, 10, 1, vec![]));
}

#[tokio::test]
async fn verify_names_what_is_bad() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    let segments = dir.path().join("segments");
    let path = segments.join(&files(&segments)[1]);
    let good = fs::read(&path).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    for (bytes, reason) in [(&flipped[..], "checksum"), (&good[..9], "bytes long"), (&[], "bytes long")] {
        fs::write(&path, bytes).unwrap();
        let [problem] = &problems(dir.path()).await[..] else { panic!("one problem") };
        assert!(problem.path == path && problem.reason.contains(reason), "{problem:?}");
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(problems(dir.path()).await.len(), 1, "missing, though it is in the index");
    fs::write(&path, &good).unwrap();
    for (sql, reason) in [
        ("UPDATE segments SET seq = 7 WHERE id = 1", "its index entry is not as it was written"),
        // As earlier releases wrote them.
        ("UPDATE segments SET entry_checksum = NULL, bytes = 9 WHERE id = 2", "9 were written"),
        ("UPDATE segments SET entry_checksum = NULL", "9 were written"),
        ("UPDATE row_groups SET last_ms = last_ms + 1 WHERE segment = 1", "not those of the index"),
        ("UPDATE row_groups SET last_ms = last_ms - 1, rows = 6 WHERE segment = 1", "the index says 6"),
        ("UPDATE write_ahead SET samples = x'01'", "write-ahead row 3: checksum"),
        ("UPDATE series SET id = 7", "0 samples of known series"),
    ] {
        let mut transaction = store.shared.database.begin().await.unwrap();
        sqlx::query(sql).execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
        let found = problems(dir.path()).await;
        assert!(found.iter().any(|problem| problem.reason.contains(reason)), "{sql}: {found:?}");
    }
}

#[tokio::test]
async fn a_backup_is_one_instant_of_a_store_that_goes_on() {
    for link in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (data, copy, back) = (dir.path().join("data"), dir.path().join("copy"), dir.path().join("back"));
        let store = filled(&data).await;
        let verdicts = store.intervals(0..10 * HOUR).await.unwrap();
        let copied = backup(&data, &copy, link, &mut quiet).await.unwrap();
        assert_eq!(copied.segments, 2);
        // What comes later, and the removal of what was copied, does not concern it.
        store.append(batch([ticks(15..20)])).await.unwrap();
        while store.compact().await.unwrap().is_some() {}
        assert_eq!(problems(&copy).await, Vec::new());
        let restored = restore(&copy, &back, &mut quiet).await.unwrap();
        assert_eq!((restored.segments, restored.samples, restored.write_ahead), (2, 10, 1));
        assert_eq!(files(&back), ["goodput.db", "lock", "segments"]);
        let other = open(&back).await;
        assert_eq!(times(&other).await, (0..15).collect::<Vec<_>>());
        assert_eq!(other.intervals(0..10 * HOUR).await.unwrap(), verdicts);
        assert_eq!(times(&store).await, (0..20).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_goes_on_when_segments_are_merged_under_it() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    let store = filled(&data).await;
    // The first segment is copied, then the second is merged away with it.
    let segments = data.join("segments");
    let names = files(&segments);
    let mut merge = |done: u64, _all: u64| {
        if done > 0 && files(&segments) == names {
            std::thread::scope(|scope| {
                let merge = || tokio::runtime::Runtime::new().unwrap().block_on(store.compact()).unwrap();
                assert!(scope.spawn(merge).join().unwrap().is_some());
            });
        }
    };
    assert_eq!(backup(&data, &copy, false, &mut merge).await.unwrap().segments, 1);
    assert_eq!(files(&copy.join("segments")).len(), 1, "what the first attempt copied is gone");
    assert_eq!(problems(&copy).await, Vec::new());
}

#[tokio::test]
async fn a_snapshot_reads_on_when_its_segments_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    let range = 0..10 * HOUR;
    // One knows the segments and holds none, one has its files open.
    let loose = Snapshot::look(dir.path()).await.unwrap();
    let held = Snapshot::take(dir.path(), &range).await.unwrap();
    while store.compact().await.unwrap().is_some() {}
    store.append(batch([ticks(15..20)])).await.unwrap();
    let selection = Selection { range: range.clone(), ..all("kept") };
    let read = |snapshot: &Snapshot| -> Result<Vec<TimeMs>, StoreError> {
        let series = snapshot.select(&selection)?;
        Ok(series.iter().flat_map(|series| series.samples.iter().map(|sample| sample.time_ms)).collect())
    };
    assert!(matches!(read(&loose), Err(StoreError::Io { .. })), "its files are gone");
    assert!(loose.hold(&range).unwrap().is_some(), "which is found out before anything is read");
    assert_eq!(read(&held).unwrap(), (0..15).collect::<Vec<_>>(), "as it was, piece after piece");
    assert_eq!(read(&held).unwrap().len(), 15);
    let later = Snapshot::take(dir.path(), &range).await.unwrap();
    assert_eq!(read(&later).unwrap(), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn nothing_is_overwritten_and_nothing_bad_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy, back) = (dir.path().join("data"), dir.path().join("copy"), dir.path().join("back"));
    let store = filled(&data).await;
    let refused = backup(&data, &data, false, &mut quiet).await.unwrap_err();
    assert!(matches!(&refused, StoreError::NotEmpty { path } if *path == data), "{refused}");
    backup(&data, &copy, false, &mut quiet).await.unwrap();
    let refused = restore(&copy, &data, &mut quiet).await.unwrap_err();
    assert!(matches!(refused, StoreError::NotEmpty { .. }), "{refused}");
    assert!(restore(dir.path(), &back, &mut quiet).await.unwrap_err().to_string().contains("goodput.db"));

    let segment = copy.join("segments").join(&files(&copy.join("segments"))[0]);
    fs::write(&segment, b"x").unwrap();
    let refused = restore(&copy, &back, &mut quiet).await.unwrap_err();
    assert!(matches!(&refused, StoreError::BadBackup { problems } if problems.len() == 1), "{refused}");
    assert_eq!(files(&back), ["lock"], "nothing is left of the attempt");
    assert_eq!(times(&store).await, (0..15).collect::<Vec<_>>());
}
