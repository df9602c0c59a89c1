//! What a file system and an operator may do to a data directory: no sound file is destroyed, and each loss is said.

use std::os::unix::fs::PermissionsExt as _;

use super::super::{Hole, rebuild, status, verify};
use super::*;

/// Samples 0 to 29 in three segments of ten.
async fn three_segments(dir: &Path) -> Vec<String> {
    let store = open(dir).await;
    for start in [0, 10, 20] {
        store.append(batch([ticks(start..start + 10)])).await.unwrap();
        store.flush().await.unwrap();
    }
    store.close().await;
    files(&dir.join("segments"))
}

async fn refused(dir: &Path) -> StoreError {
    Store::open(options(dir)).await.err().expect("a start that is refused")
}

pub(super) fn sql(dir: &Path) -> impl AsyncFn(&'static str) {
    let path = dir.join("goodput.db");
    async move |sql| {
        use sqlx::Connection as _;
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
        let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        sqlx::query(sql).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}

/// Replaces a file by something that opens and cannot be read: a directory, which gives EISDIR.
fn make_unreadable(path: &Path) -> impl FnOnce() + use<> {
    let (path, away) = (path.to_owned(), path.with_extension("away"));
    fs::rename(&path, &away).unwrap();
    fs::create_dir(&path).unwrap();
    move || {
        fs::remove_dir(&path).unwrap();
        fs::rename(away, path).unwrap();
    }
}

#[tokio::test]
async fn a_read_that_the_file_system_fails_is_an_error_and_sets_nothing_aside() {
    let dir = tempfile::tempdir().unwrap();
    let names = three_segments(dir.path()).await;
    let segments = dir.path().join("segments");
    let store = open(dir.path()).await;
    let path = segments.join(&names[1]);
    for absent in [false, true] {
        let heal = make_unreadable(&path);
        if absent {
            fs::remove_dir(&path).unwrap();
        }
        let error = store.select(&all("kept")).await.unwrap_err();
        assert!(matches!(&error, StoreError::Io { path: named, .. } if *named == path), "{error}");
        // A late sample needs to know what is there: it is refused, and its sender tries again.
        let late = store.append(batch([ticks([15])])).await.unwrap_err();
        assert!(matches!(&late, StoreError::NotStored { reason } if reason.contains(&names[1])), "{late}");
        if absent {
            fs::create_dir(&path).unwrap();
        }
        heal();
        assert_eq!(times(&store).await, (0..30).collect::<Vec<_>>());
    }
    let Stats { segments: served, quarantined, read_errors, .. } = store.stats();
    assert_eq!((served, quarantined, read_errors), (3, 0, 4));
    assert_eq!(files(&segments), names);
    assert_eq!(store.append(batch([ticks([15])])).await.unwrap().duplicate, 1);
}

#[tokio::test]
async fn a_merge_and_a_start_that_cannot_read_a_segment_leave_it() {
    let dir = tempfile::tempdir().unwrap();
    let names = three_segments(dir.path()).await;
    let segments = dir.path().join("segments");
    let heal = make_unreadable(&segments.join(&names[2]));
    let store = open(dir.path()).await;
    let error = store.compact().await.unwrap_err();
    assert!(matches!(&error, StoreError::Io { .. }), "{error}");
    store.close().await;
    heal();
    let store = open(dir.path()).await;
    assert_eq!(times(&store).await, (0..30).collect::<Vec<_>>());
    assert_eq!((files(&segments), store.stats().quarantined), (names, 0));
}

#[tokio::test]
async fn a_damaged_segment_that_cannot_be_moved_stays_in_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let names = three_segments(dir.path()).await;
    let (segments, quarantine) = (dir.path().join("segments"), dir.path().join("quarantine"));
    let path = segments.join(&names[1]);
    let good = fs::read(&path).unwrap();
    let mut flipped = good.clone();
    flipped[20] ^= 1;
    fs::write(&path, &flipped).unwrap();
    fs::write(&quarantine, "a file where the directory is to be").unwrap();
    let store = open(dir.path()).await;
    let rest = (0..10).chain(20..30).collect::<Vec<_>>();
    assert_eq!(times(&store).await, rest);
    let Stats { segments: served, quarantined, read_errors, .. } = store.stats();
    assert_eq!((served, quarantined, read_errors), (3, 0, 1));
    assert_eq!(store.holes().iter().map(|hole| (hole.first_ms, hole.last_ms)).collect::<Vec<_>>(), [(10, 19)]);
    assert_eq!(status(dir.path()).await.unwrap().segments.count, 3);
    // Once it can be moved the next read does so.
    fs::remove_file(&quarantine).unwrap();
    assert_eq!(times(&store).await, rest);
    assert_eq!((store.stats().segments, files(&quarantine)), (2, vec![names[1].clone()]));
    assert_eq!(status(dir.path()).await.unwrap().segments.count, 2);
}

#[tokio::test]
async fn a_damaged_write_ahead_row_that_cannot_be_moved_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    for time in [1, 2, 3] {
        store.append(batch([ticks([time])])).await.unwrap();
    }
    store.close().await;
    sql(dir.path())("UPDATE write_ahead SET samples = zeroblob(length(samples)) WHERE seq = 2").await;
    let quarantine = dir.path().join("quarantine");
    fs::write(&quarantine, "a file where the directory is to be").unwrap();
    let store = open(dir.path()).await;
    assert_eq!((times(&store).await, store.stats().quarantined), (vec![1, 3], 0));
    assert_eq!(store.holes().len(), 1, "its time is known from the file of acknowledged commits");
    store.flush().await.unwrap();
    store.close().await;
    fs::remove_file(&quarantine).unwrap();
    let store = open(dir.path()).await;
    assert_eq!((times(&store).await, store.stats().quarantined), (vec![1, 3], 1));
    assert_eq!(files(&quarantine), ["000000000002.write-ahead"]);
    let holes = store.holes();
    assert_eq!(holes.len(), 0, "a flush has emptied the file of acknowledged commits: the time is not known any more");
}

#[tokio::test]
async fn segments_that_are_absent_at_one_start_are_all_back_at_the_next() {
    for keep_folder in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let names = three_segments(dir.path()).await;
        let (segments, away) = (dir.path().join("segments"), dir.path().join("away"));
        fs::rename(&segments, &away).unwrap();
        if keep_folder {
            fs::create_dir(&segments).unwrap();
        }
        for _ in 0..2 {
            let error = refused(dir.path()).await;
            assert!(matches!(&error, StoreError::SegmentsAbsent { missing: 3, all: 3, .. }), "{error}");
            assert!(error.to_string().contains("store rebuild"), "{error}");
        }
        let _ = fs::remove_dir(&segments);
        fs::rename(&away, &segments).unwrap();
        let store = open(dir.path()).await;
        assert_eq!(times(&store).await, (0..30).collect::<Vec<_>>());
        let found = |store: &Store| (files(&segments), store.stats().quarantined, store.holes());
        assert_eq!(found(&store), (names.clone(), 0, vec![]));
        // For an hour the segments stay as they are, so that the operator can compare them with a copy.
        assert_eq!(store.compact().await.unwrap(), None);
        assert_eq!(found(&store), (names.clone(), 0, vec![]));
        fs::remove_file(dir.path().join("segments.away")).unwrap();
        assert!(store.compact().await.unwrap().is_some(), "afterwards they are merged");
        assert_ne!(files(&segments), names);
    }
}

#[tokio::test]
async fn one_absent_segment_is_a_hole_until_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let names = three_segments(dir.path()).await;
    let (path, away) = (dir.path().join("segments").join(&names[1]), dir.path().join("away"));
    fs::rename(&path, &away).unwrap();
    let store = open(dir.path()).await;
    assert_eq!(times(&store).await, (0..10).chain(20..30).collect::<Vec<_>>());
    let hole = Hole { name: format!("segments/{}", names[1]), first_ms: 10, last_ms: 19, found_ms: NOW };
    assert_eq!((store.holes(), store.stats().quarantined), (vec![hole], 0));
    store.append(batch([ticks([30])])).await.unwrap();
    store.close().await;
    assert_eq!(status(dir.path()).await.unwrap().segments.count, 3, "its row stays");
    let found = verify(dir.path(), &mut |_, _| {}).await.unwrap().problems;
    assert!(found.len() == 1 && found[0].path == path, "{found:?}");
    // Back while the store is open: the next upkeep, which follows a flush, serves it.
    let store = open(dir.path()).await;
    fs::rename(&away, &path).unwrap();
    store.flush().await.unwrap();
    while !store.holes().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(times(&store).await, (0..31).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_directory_without_its_database_is_refused_and_stays_as_it_is() {
    for empty in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let names = three_segments(dir.path()).await;
        let database = dir.path().join("goodput.db");
        let kept = fs::read(&database).unwrap();
        fs::remove_file(&database).unwrap();
        if empty {
            fs::write(&database, "").unwrap();
        }
        for _ in 0..2 {
            let error = refused(dir.path()).await;
            assert!(matches!(&error, StoreError::NoIndex { segments: 3, .. }), "{error}");
            let (named, told) = (dir.path().display().to_string(), error.to_string());
            assert!(told.contains(&named) && told.contains("store rebuild"), "{told}");
        }
        assert_eq!(files(&dir.path().join("segments")), names);
        fs::write(&database, kept).unwrap();
        assert_eq!(times(&open(dir.path()).await).await, (0..30).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn an_old_copy_of_the_database_is_refused_as_often_as_it_is_tried() {
    let dir = tempfile::tempdir().unwrap();
    three_segments(dir.path()).await;
    let database = dir.path().join("goodput.db");
    let old = fs::read(&database).unwrap();
    let store = open(dir.path()).await;
    store.append(batch([ticks(30..40)])).await.unwrap();
    store.flush().await.unwrap();
    store.close().await;
    let (newest, names) = (fs::read(&database).unwrap(), files(&dir.path().join("segments")));
    fs::write(&database, old).unwrap();
    for _ in 0..3 {
        let error = refused(dir.path()).await;
        assert!(matches!(&error, StoreError::OldDatabase { segments: 1, .. }), "{error}");
        assert!(error.to_string().contains("store rebuild"), "{error}");
    }
    assert_eq!(files(&dir.path().join("segments")), names);
    fs::write(&database, newest).unwrap();
    assert_eq!(times(&open(dir.path()).await).await, (0..40).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_altered_record_of_migrations_is_refused_with_what_to_do() {
    for change in [
        "UPDATE _sqlx_migrations SET checksum = x'00' WHERE version = 7",
        "UPDATE _sqlx_migrations SET success = 0 WHERE version = 7",
        "UPDATE _sqlx_migrations SET version = 1007 WHERE version = 7",
        "DELETE FROM _sqlx_migrations WHERE version = 7",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let names = three_segments(dir.path()).await;
        sql(dir.path())(change).await;
        let told = refused(dir.path()).await.to_string();
        assert!(
            told.contains("goodput.db: ") && told.contains("migration 7") && told.contains("store rebuild"),
            "{told}"
        );
        assert_eq!(files(&dir.path().join("segments")), names, "{change}");
        rebuild(dir.path(), &mut |_, _| {}).await.unwrap();
        assert_eq!(times(&open(dir.path()).await).await, (0..30).collect::<Vec<_>>(), "{change}");
    }
}

#[tokio::test]
async fn a_segment_that_the_index_has_lost_is_indexed_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.append(batch([ticks(0..10)])).await.unwrap();
    store.flush().await.unwrap();
    let database = dir.path().join("goodput.db");
    store.close().await;
    let store = open(dir.path()).await;
    // Of the same life of the store: as if damage of the journal had taken the last commits away.
    let before = fs::read(&database).unwrap();
    store.append(batch([ticks(10..20), series("kept_new", "y", &[(1, 1.0)])])).await.unwrap();
    store.flush().await.unwrap();
    store.close().await;
    let names = files(&dir.path().join("segments"));
    fs::write(&database, before).unwrap();

    let store = open(dir.path()).await;
    assert_eq!(times(&store).await, (0..20).collect::<Vec<_>>());
    assert_eq!(store.select(&all("kept_new")).await.unwrap().len(), 1, "its series are in the file");
    assert_eq!(files(&dir.path().join("segments")), names);
    let Stats { missing_samples, unknown_files, .. } = store.stats();
    assert_eq!((missing_samples, unknown_files), (0, 0));
    // It goes on with names and ids that were never given.
    store.append(batch([series("kept_newer", "z", &[(1, 1.0)])])).await.unwrap();
    store.flush().await.unwrap();
    store.close().await;
    let store = open(dir.path()).await;
    assert_eq!(store.select(&all("kept_newer")).await.unwrap().len(), 1);
    assert_eq!(verify(dir.path(), &mut |_, _| {}).await.unwrap().problems, Vec::new());
}

#[tokio::test]
async fn a_merged_segment_that_the_index_has_lost_takes_the_place_of_what_it_replaced() {
    let dir = tempfile::tempdir().unwrap();
    three_segments(dir.path()).await;
    let store = open(dir.path()).await;
    let database = dir.path().join("goodput.db");
    let before = fs::read(&database).unwrap();
    while store.compact().await.unwrap().is_some() {}
    store.close().await;
    fs::write(&database, before).unwrap();
    let store = open(dir.path()).await;
    assert_eq!(times(&store).await, (0..30).collect::<Vec<_>>());
    let Stats { segments, unknown_files, .. } = store.stats();
    assert_eq!((segments, unknown_files, store.holes()), (1, 0, vec![]));
}

#[tokio::test]
async fn commits_that_the_database_has_lost_are_counted_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.append(batch([ticks(0..10)])).await.unwrap();
    store.flush().await.unwrap();
    store.close().await;
    let store = open(dir.path()).await;
    let database = dir.path().join("goodput.db");
    let before = fs::read(&database).unwrap();
    store.append(batch([ticks(10..17)])).await.unwrap();
    store.append(batch([ticks(17..20)])).await.unwrap();
    store.close().await;
    fs::write(&database, before).unwrap();

    let store = open(dir.path()).await;
    assert_eq!((times(&store).await, store.stats().missing_samples), ((0..10).collect::<Vec<_>>(), 10));
    let lost = Hole { name: "commits 2 to 3".to_owned(), first_ms: 10, last_ms: 19, found_ms: NOW };
    assert_eq!(store.holes(), std::slice::from_ref(&lost));
    let kept = store.append(batch([ticks(10..12)])).await.unwrap();
    assert_eq!(kept, stored(2), "a sender that has them may bring them again");
    store.close().await;
    let store = open(dir.path()).await;
    assert_eq!((store.stats().missing_samples, store.holes()), (0, vec![lost]), "said once, known for ever");
    assert_eq!(times(&store).await, (0..12).collect::<Vec<_>>());
}

#[tokio::test]
async fn files_that_the_index_does_not_know_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (other, segments) = (tempfile::tempdir().unwrap(), dir.path().join("segments"));
    let names = three_segments(dir.path()).await;
    let foreign = three_segments(other.path()).await;
    fs::write(segments.join("000000000077.tmp"), "half").unwrap();
    fs::write(segments.join("000000000077.parquet"), "no segment").unwrap();
    fs::write(segments.join("notes.txt"), "not ours").unwrap();
    fs::copy(other.path().join("segments").join(&foreign[0]), segments.join("000000000078.parquet")).unwrap();
    fs::write(segments.join("copy of 1.parquet"), "foreign").unwrap();
    let store = open(dir.path()).await;
    assert_eq!(times(&store).await, (0..30).collect::<Vec<_>>());
    assert_eq!(files(&segments), [names, vec!["notes.txt".to_owned()]].concat());
    let unknown = files(&dir.path().join("unknown"));
    assert_eq!(unknown, ["000000000077.parquet", "000000000078.parquet", "copy of 1.parquet"]);
    assert_eq!(store.stats().unknown_files, 3);
    store.append(batch([ticks([30])])).await.unwrap();
    store.flush().await.unwrap();
    assert!(files(&segments).contains(&"000000000079.parquet".to_owned()), "no name is given that a kept file has");
}

#[tokio::test]
async fn an_interrupted_flush_is_finished_and_a_merge_removed_while_its_inputs_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let (segments, database) = (dir.path().join("segments"), dir.path().join("goodput.db"));
    let store = open(dir.path()).await;
    store.append(batch([ticks(0..5)])).await.unwrap();
    store.append(batch([ticks(5..10)])).await.unwrap();
    store.close().await;
    let before = fs::read(&database).unwrap();
    let store = open(dir.path()).await;
    store.flush().await.unwrap();
    store.close().await;
    // The flush's transaction has not happened, and its file is there: of the generation that the database has.
    fs::write(&database, before).unwrap();
    sql(dir.path())("UPDATE directory SET generation = generation + 1").await;
    let store = open(dir.path()).await;
    assert_eq!((times(&store).await, files(&segments).len()), ((0..10).collect::<Vec<_>>(), 1));
    assert_eq!(
        (store.stats().segments, store.stats().write_ahead_bytes),
        (1, 0),
        "what is in the segment left the head"
    );
    store.append(batch([ticks(10..20)])).await.unwrap();
    store.flush().await.unwrap();
    store.close().await;
    let (names, before) = (files(&segments), fs::read(&database).unwrap());
    let saved: Vec<_> = names.iter().map(|name| fs::read(segments.join(name)).unwrap()).collect();
    let store = open(dir.path()).await;
    while store.compact().await.unwrap().is_some() {}
    store.close().await;
    names.iter().zip(saved).for_each(|(name, bytes)| fs::write(segments.join(name), bytes).unwrap());
    fs::write(&database, before).unwrap();
    sql(dir.path())("UPDATE directory SET generation = generation + 1").await;
    let store = open(dir.path()).await;
    assert_eq!((times(&store).await, files(&segments)), ((0..20).collect::<Vec<_>>(), names));
    assert_eq!(store.stats().unknown_files, 0);
}

#[tokio::test]
async fn a_directory_whose_lock_was_removed_has_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).await;
    first.append(batch([ticks([1])])).await.unwrap();
    fs::remove_file(dir.path().join("lock")).unwrap();
    let error = refused(dir.path()).await;
    assert!(matches!(&error, StoreError::Locked { .. }), "{error}");
    first.append(batch([ticks([2])])).await.unwrap();
}

/// As on a file system that locks nothing.
#[tokio::test]
async fn a_store_whose_directory_another_one_has_opened_writes_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).await;
    first.append(batch([ticks([1])])).await.unwrap();
    first.append(batch([ticks([2])])).await.unwrap();
    // A second name for the directory that the first one's locks do not cover.
    let second_dir = tempfile::tempdir().unwrap();
    for name in ["goodput.db", "goodput.db-wal", "goodput.db-shm", "segments", "acknowledged"] {
        std::os::unix::fs::symlink(dir.path().join(name), second_dir.path().join(name)).unwrap();
    }
    let second = open(second_dir.path()).await;
    assert_eq!(times(&second).await, [1, 2], "all that was acknowledged");
    for _ in 0..2 {
        let error = first.append(batch([ticks([3])])).await.unwrap_err();
        assert!(matches!(&error, StoreError::Superseded { .. }), "{error}");
    }
    first.flush().await.unwrap_err();
    first.compact().await.unwrap_err();
    assert_eq!(second.append(batch([ticks([3, 4])])).await.unwrap(), stored(2));
    second.flush().await.unwrap();
    assert_eq!(times(&second).await, [1, 2, 3, 4]);
    first.close().await;
    second.close().await;
    assert_eq!(times(&open(dir.path()).await).await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_directory_without_rights_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let names = three_segments(dir.path()).await;
    let segments = dir.path().join("segments");
    fs::set_permissions(&segments, fs::Permissions::from_mode(0o000)).unwrap();
    let opened = Store::open(options(dir.path())).await;
    fs::set_permissions(&segments, fs::Permissions::from_mode(0o755)).unwrap();
    // Root may read everything.
    match opened {
        Err(error) => assert!(error.to_string().contains("segments"), "{error}"),
        Ok(store) => store.close().await,
    }
    assert_eq!(files(&segments), names);
    assert_eq!(times(&open(dir.path()).await).await, (0..30).collect::<Vec<_>>());
}
