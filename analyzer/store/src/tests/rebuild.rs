//! The index made again from segments, files put back into it, and copies of a directory that is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::super::{Snapshot, backup, rebuild, restore, unquarantine, verify};
use super::*;

fn quiet(_done: u64, _all: u64) {}

/// Two series in three segments, a merged one among them, samples 0 to 39; verdicts; nothing in the write-ahead.
async fn filled(dir: &Path) -> Vec<String> {
    let store = open(dir).await;
    contract::results(&store).await;
    for start in [0, 10, 20, 30] {
        let other = series("kept_other", "ü \"quoted\"\n", &[(start, 1.5)]);
        store.append(batch([ticks(start..start + 10), other])).await.unwrap();
        store.flush().await.unwrap();
        if start == 10 {
            store.compact().await.unwrap();
        }
    }
    store.close().await;
    files(&dir.join("segments"))
}

async fn is_whole(dir: &Path) -> Vec<goodput_verdict::Interval> {
    let store = open(dir).await;
    assert_eq!(times(&store).await, (0..40).collect::<Vec<_>>());
    let other = store.select(&all("kept_other")).await.unwrap();
    assert_eq!(other[0].labels.get("host"), Some("ü \"quoted\"\n"));
    assert_eq!(other[0].samples.len(), 4);
    let verdicts = store.intervals(0..10 * HOUR).await.unwrap();
    // It goes on: no id of a series, a segment or a commit is given twice.
    store.append(batch([series("kept_more", "z", &[(1, 1.0)])])).await.unwrap();
    store.flush().await.unwrap();
    store.close().await;
    assert_eq!(verify(dir, &mut quiet).await.unwrap().problems, Vec::new());
    verdicts
}

#[tokio::test]
async fn without_a_database_the_index_is_made_from_segments_alone() {
    for damaged in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let names = filled(dir.path()).await;
        let database = dir.path().join("goodput.db");
        if damaged {
            let mut bytes = fs::read(&database).unwrap();
            bytes[16..200].fill(0xaa);
            fs::write(&database, bytes).unwrap();
            let error = Store::open(options(dir.path())).await.err().unwrap();
            assert!(error.to_string().contains("store rebuild"), "{error}");
        } else {
            fs::remove_file(&database).unwrap();
        }
        let rebuilt = rebuild(dir.path(), &mut quiet).await.unwrap();
        assert_eq!((rebuilt.segments, rebuilt.samples, rebuilt.series), (3, 44, 2));
        assert_eq!((rebuilt.kept_verdicts, rebuilt.old.is_some(), rebuilt.unknown), (false, damaged, vec![]));
        assert_eq!(files(&dir.path().join("segments")), names);
        assert_eq!(is_whole(dir.path()).await, []);
    }
}

#[tokio::test]
async fn a_sound_database_keeps_its_verdicts_and_an_old_one_gets_what_it_does_not_know() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("goodput.db");
    let store = open(dir.path()).await;
    contract::results(&store).await;
    let verdicts = store.intervals(0..10 * HOUR).await.unwrap();
    store.append(batch([ticks(0..5)])).await.unwrap();
    store.close().await;
    // Samples 0 to 4 are in the write-ahead of this copy, and later in a segment.
    let old = fs::read(&database).unwrap();
    filled(dir.path()).await;
    fs::write(&database, old).unwrap();
    assert!(matches!(Store::open(options(dir.path())).await.err(), Some(StoreError::OldDatabase { .. })));
    let rebuilt = rebuild(dir.path(), &mut quiet).await.unwrap();
    assert!(rebuilt.kept_verdicts && rebuilt.segments == 3 && rebuilt.old.is_some());
    assert_eq!(is_whole(dir.path()).await, verdicts);
}

#[tokio::test]
async fn what_cannot_be_indexed_is_named_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let names = filled(dir.path()).await;
    let segments = dir.path().join("segments");
    let path = segments.join(&names[1]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[50] ^= 1;
    fs::write(&path, bytes).unwrap();
    fs::write(segments.join("000000000099.parquet"), include_bytes!("../../fixtures/segment-format-1.parquet"))
        .unwrap();
    fs::remove_file(dir.path().join("goodput.db")).unwrap();
    let rebuilt = rebuild(dir.path(), &mut quiet).await.unwrap();
    assert_eq!((rebuilt.segments, rebuilt.unknown.len()), (2, 2));
    let reasons: Vec<&str> = rebuilt.unknown.iter().map(|problem| problem.reason.as_str()).collect();
    assert!(reasons[0].contains("does not name its series") && reasons[1].contains("checksum"), "{reasons:?}");
    assert_eq!(files(&dir.path().join("unknown")), [names[1].clone(), "000000000099.parquet".to_owned()]);
}

#[tokio::test]
async fn old_segments_stay_in_a_rebuilt_index_when_their_database_is_sound() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let bytes = include_bytes!("segment-of-0001.parquet");
    fs::write(dir.path().join("segments/000000000003.parquet"), bytes).unwrap();
    store.append(batch([ticks([4])])).await.unwrap();
    let insert = format!(
        "INSERT INTO segments (id, seq, rows, bytes, checksum, first_ms, last_ms) VALUES (3, 0, 4, {}, {}, 0, 3)",
        bytes.len(),
        crc32fast::hash(bytes)
    );
    let mut transaction = store.shared.database.begin().await.unwrap();
    for sql in [insert.as_str(), "INSERT INTO row_groups VALUES (3, 0, 4, 1, 1, 0, 3)"] {
        sqlx::query(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut *transaction).await.unwrap();
    }
    transaction.commit().await.unwrap();
    store.close().await;
    let rebuilt = rebuild(dir.path(), &mut quiet).await.unwrap();
    assert_eq!((rebuilt.segments, rebuilt.unknown), (1, vec![]));
    assert_eq!(times(&open(dir.path()).await).await, [0, 1, 2, 3, 4]);
}

/// A flipped bit of `goodput.db` that SQLite does not notice.
#[tokio::test]
async fn a_damaged_index_entry_or_label_costs_no_segment() {
    for sql in [
        "UPDATE segments SET checksum = checksum + 1 WHERE id = 3",
        "UPDATE segments SET last_ms = 5 WHERE id = 3",
        "UPDATE row_groups SET first_ms = 1000 WHERE segment = 3",
        "DELETE FROM row_groups WHERE segment = 3",
        "UPDATE segments SET bytes = 7 WHERE id = 3",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let names = filled(dir.path()).await;
        super::damage::sql(dir.path())(sql).await;
        assert_eq!(verify(dir.path(), &mut quiet).await.unwrap().problems.len(), 1, "{sql}");
        let store = open(dir.path()).await;
        assert_eq!(times(&store).await, (0..40).collect::<Vec<_>>(), "{sql}");
        assert_eq!((files(&dir.path().join("segments")), store.stats().quarantined), (names, 0), "{sql}");
        store.close().await;
        assert_eq!(verify(dir.path(), &mut quiet).await.unwrap().problems, Vec::new(), "{sql}");
    }
    for labels in ["{", r#"{"__name__":"kept","host":"w"}"#] {
        let dir = tempfile::tempdir().unwrap();
        let names = filled(dir.path()).await;
        let store = open(dir.path()).await;
        let mut transaction = store.shared.database.begin().await.unwrap();
        let update = sqlx::query("UPDATE series SET labels = $1 WHERE id = 1").bind(labels);
        update.execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
        store.close().await;
        // A row of the catalogue that cannot be read costs its own series alone.
        if labels == "{" {
            let store = open(dir.path()).await;
            assert_eq!(store.stats().segments, 3);
            store.close().await;
        }
        let rebuilt = rebuild(dir.path(), &mut quiet).await.unwrap();
        assert_eq!((rebuilt.segments, rebuilt.series, rebuilt.kept_verdicts, rebuilt.unknown), (3, 2, true, vec![]));
        assert_eq!(files(&dir.path().join("segments")), names);
        assert_ne!(is_whole(dir.path()).await, []);
    }
}

#[tokio::test]
async fn a_file_comes_back_from_quarantine_when_it_is_sound_again() {
    let dir = tempfile::tempdir().unwrap();
    let names = filled(dir.path()).await;
    let (path, aside) = (dir.path().join("segments").join(&names[1]), dir.path().join("quarantine").join(&names[1]));
    let good = fs::read(&path).unwrap();
    let mut flipped = good.clone();
    flipped[50] ^= 1;
    fs::write(&path, &flipped).unwrap();
    let store = open(dir.path()).await;
    times(&store).await;
    assert_eq!((store.stats().quarantined, store.holes().len()), (1, 1));
    let id = names[1].trim_start_matches('0').trim_end_matches(".parquet").to_owned();
    let locked = unquarantine(dir.path(), &id).await.unwrap_err();
    assert!(matches!(locked, StoreError::Locked { .. }), "{locked}");
    store.close().await;
    let refused = unquarantine(dir.path(), &id).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Segment { path, .. } if *path == aside), "{refused}");
    assert!(unquarantine(dir.path(), "99").await.unwrap_err().to_string().contains("no file"));
    fs::write(&aside, good).unwrap();
    assert_eq!(unquarantine(dir.path(), &id).await.unwrap(), (path, 11));
    let store = open(dir.path()).await;
    assert_eq!((store.stats().quarantined, store.holes()), (0, vec![]));
    store.close().await;
    is_whole(dir.path()).await;
}

/// As earlier releases set sound files aside when there were too many open files.
#[tokio::test]
async fn a_file_of_an_old_format_comes_back_from_quarantine() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let other = series("kept_other", "y", &[(4, 1.0)]);
    store.append(batch([ticks([4]), other])).await.unwrap();
    store.close().await;
    let (quarantine, name) = (dir.path().join("quarantine"), "000000000003.parquet");
    fs::create_dir(&quarantine).unwrap();
    fs::write(quarantine.join(name), include_bytes!("segment-of-0001.parquet")).unwrap();
    let refused = unquarantine(dir.path(), name).await.unwrap_err();
    assert!(refused.to_string().contains("was not set aside in this directory"), "{refused}");
    let insert = "INSERT INTO quarantine (name, reason, found_ms) VALUES ('000000000003.parquet', 'EMFILE', 5)";
    super::damage::sql(dir.path())(insert).await;
    assert_eq!(unquarantine(dir.path(), name).await.unwrap().1, 4);
    let store = open(dir.path()).await;
    assert_eq!(times(&store).await, [0, 1, 2, 3, 4]);
    assert_eq!((store.stats().quarantined, store.stats().segments), (0, 1));
    assert_eq!(files(&quarantine), [""; 0]);
    store.close().await;
    assert_eq!(verify(dir.path(), &mut quiet).await.unwrap().problems, Vec::new());
    // A file whose series are not in the catalogue stays.
    fs::write(quarantine.join(name), include_bytes!("../../fixtures/segment-format-1.parquet")).unwrap();
    super::damage::sql(dir.path())(insert).await;
    let refused = unquarantine(dir.path(), name).await.unwrap_err();
    assert!(refused.to_string().contains("series 3 is not in the catalogue"), "{refused}");
    assert_eq!(files(&quarantine), [name]);
}

/// Every byte of a file that says itself what it holds is covered by its own checksum.
#[tokio::test]
async fn a_flipped_byte_of_a_segment_is_noticed_without_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let names = filled(dir.path()).await;
    let good = fs::read(dir.path().join("segments").join(&names[0])).unwrap();
    let described = super::super::segment::about::describe(&good).unwrap();
    assert_eq!((described.about.inputs, described.about.replaces), (vec![1, 2], vec![1, 2]));
    let labels: Vec<_> = described.series.iter().map(|(id, labels)| (id.0, labels.metric())).collect();
    assert_eq!(labels, [(1, "kept"), (2, "kept_other")]);
    for place in 0..good.len() {
        let mut flipped = good.clone();
        flipped[place] ^= 0x10;
        assert!(super::super::segment::about::describe(&flipped).is_err(), "byte {place} of {}", good.len());
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_a_store_under_load_is_a_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = Store::open(Options { head_bytes: 4096, ..options(&data) }).await.unwrap();
    let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
    let (stopped, acked) = (Arc::clone(&stop), Arc::clone(&acknowledged));
    let sender = store.clone();
    let load = tokio::spawn(async move {
        for time in 0.. {
            if stopped.load(Ordering::SeqCst) {
                return time;
            }
            sender.append(batch([ticks([time])])).await.unwrap();
            acked.store(time + 1, Ordering::SeqCst);
        }
        0
    });
    for round in 0..4 {
        let goal = 600 * (round + 1);
        while acknowledged.load(Ordering::SeqCst) < goal {
            tokio::task::yield_now().await;
        }
        let (snapshot, copied) = (dir.path().join(format!("s{round}")), dir.path().join(format!("c{round}")));
        let before = acknowledged.load(Ordering::SeqCst);
        backup(&data, &snapshot, round % 2 == 1, &mut quiet).await.unwrap();
        copy(&snapshot, &copied);
        let other = open(&copied).await;
        let read = times(&other).await;
        assert!(read.len() as i64 >= before, "{} of {before}", read.len());
        assert_eq!(read, (0..read.len() as i64).collect::<Vec<_>>());
        let Stats { quarantined, unknown_files, missing_samples, .. } = other.stats();
        assert_eq!((quarantined, unknown_files, missing_samples), (0, 0, 0));
        other.close().await;
        assert_eq!(verify(&copied, &mut quiet).await.unwrap().problems, Vec::new());
    }
    stop.store(true, Ordering::SeqCst);
    let sent = load.await.unwrap();
    assert_eq!(times(&store).await, (0..sent).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_restore_that_is_cut_short_between_its_renames_is_refused_and_ends_when_it_runs_again() {
    for step in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let (data, saved, back) = (dir.path().join("data"), dir.path().join("copy"), dir.path().join("back"));
        filled(&data).await;
        backup(&data, &saved, false, &mut quiet).await.unwrap();
        restore(&saved, &back, &mut quiet).await.unwrap();
        // As after a crash when the first names were in place.
        let partial = back.join("restore.partial");
        fs::create_dir(&partial).unwrap();
        fs::write(back.join("restoring"), "").unwrap();
        for name in ["segments", "goodput.db"].iter().skip(step) {
            fs::rename(back.join(name), partial.join(name)).unwrap();
        }
        let error = Store::open(options(&back)).await.err().unwrap();
        assert!(matches!(&error, StoreError::HalfRestored { .. }), "{error}");
        assert_eq!(restore(&saved, &back, &mut quiet).await.unwrap().samples, 44);
        assert!(!partial.try_exists().unwrap() && !back.join("restoring").try_exists().unwrap());
        is_whole(&back).await;
    }
}

#[tokio::test]
async fn a_copy_and_an_export_name_a_segment_that_is_absent() {
    let dir = tempfile::tempdir().unwrap();
    let names = filled(dir.path()).await;
    let path = dir.path().join("segments").join(&names[1]);
    fs::remove_file(&path).unwrap();
    let error = backup(dir.path(), &dir.path().join("copy"), false, &mut quiet).await.unwrap_err();
    assert!(matches!(&error, StoreError::Io { path: named, .. } if *named == path), "{error}");
    let error = Snapshot::take(dir.path(), &(0..100)).await.err().unwrap();
    assert!(matches!(&error, StoreError::Io { path: named, .. } if *named == path), "{error}");
}
