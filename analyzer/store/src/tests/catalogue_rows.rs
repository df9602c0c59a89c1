//! Rows of the catalogue that are not as they were written: made again from segments, or set aside.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

use super::super::{bad_rows, rebuild, verify};
use super::*;
use goodput_exposition::sample::{Batch, Labels};

/// Series 1 and 2 in a segment; with `recent`, series 3 in the write-ahead alone.
async fn filled(dir: &Path, recent: bool) {
    let store = open(dir).await;
    store.append(batch([ticks(0..5), series("kept_b", "y", &[(1, 1.0)])])).await.unwrap();
    store.flush().await.unwrap();
    if recent {
        store.append(batch([series("kept_c", "z", &[(2, 1.0)])])).await.unwrap();
    }
    store.close().await;
}

async fn edit(dir: &Path, sql: &str) {
    let options = SqliteConnectOptions::new().filename(dir.join("goodput.db"));
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

async fn found(dir: &Path) -> Vec<String> {
    let found = verify(dir, &mut |_, _| {}).await.unwrap();
    assert_eq!(found.problems.iter().filter(|p| p.reason.contains("integrity")).count(), 0);
    found.bad_rows.into_iter().map(|row| row.reason).collect()
}

/// What may become of the row of series 2.
const CHANGES: [&str; 6] = [
    "labels = '{'",
    "labels = replace(labels, 'kept_b', 'kept_x')", // can be read, and is another series
    "labels = CAST(x'ff' AS TEXT)",
    "checksum = checksum + 1",
    "id = 66",
    "id = 4294967299",
];

#[tokio::test]
async fn a_bad_row_of_the_catalogue_is_made_again_from_the_segment_that_names_its_series() {
    for change in CHANGES {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), false).await;
        assert_eq!(found(dir.path()).await, [""; 0]);
        edit(dir.path(), &format!("UPDATE series SET {change} WHERE id = 2")).await;
        assert_eq!(found(dir.path()).await.len(), 1, "{change}");
        let store = open(dir.path()).await;
        assert_eq!(times(&store).await, [0, 1, 2, 3, 4], "{change}");
        assert_eq!(store.select(&all("kept_b")).await.unwrap().len(), 1, "{change}");
        assert_eq!(store.select(&all("kept_x")).await.unwrap(), [], "{change}");
        store.close().await;
        // A row under another id names nothing that is stored: it is set aside, and the series has its own again.
        let aside = bad_rows(dir.path()).await.unwrap();
        assert_eq!(aside.len(), usize::from(change.starts_with("id")), "{change}: {aside:?}");
        assert!(aside.iter().all(|row| row.name == "series" && row.content.contains("kept_b")), "{aside:?}");
        assert_eq!(found(dir.path()).await.len(), aside.len(), "{change}");
    }
}

/// Every byte of a row, flipped in the file: the series is served under its own labels, whatever the byte.
#[tokio::test]
async fn no_flipped_byte_of_a_catalogue_row_takes_a_series_away() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), false).await;
    let original = fs::read(dir.path().join("goodput.db")).unwrap();
    let text = b"{\"__name__\":\"kept_b\"";
    let start = original.windows(text.len()).rposition(|window| window == text).unwrap();
    for place in start..start + text.len() {
        let mut bytes = original.clone();
        bytes[place] ^= 0x41;
        fs::write(dir.path().join("goodput.db"), bytes).unwrap();
        assert_eq!(found(dir.path()).await.len(), 1, "byte {place}");
        let store = open(dir.path()).await;
        assert_eq!(store.select(&all("kept_b")).await.unwrap().len(), 1, "byte {place}");
        store.close().await;
        assert_eq!(found(dir.path()).await, [""; 0], "byte {place}");
    }
}

#[tokio::test]
async fn a_bad_row_that_no_segment_names_prevents_nothing() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), true).await;
    edit(dir.path(), "UPDATE series SET labels = CAST(x'ff' AS TEXT) WHERE id = 3").await;
    let store = open(dir.path()).await;
    assert_eq!(times(&store).await, [0, 1, 2, 3, 4]);
    assert_eq!(store.select(&all("kept_c")).await.unwrap(), []);
    assert_eq!(store.stats().bad_rows, 1);
    store.close().await;
}

/// A segment that cannot be read may hold samples of the series: the row stays until it can be asked.
#[tokio::test]
async fn a_bad_row_stays_while_a_segment_cannot_be_asked() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), false).await;
    edit(dir.path(), "UPDATE series SET labels = '{' WHERE id = 2").await;
    let segment = dir.path().join("segments").join(&files(&dir.path().join("segments"))[0]);
    let sound = fs::read(&segment).unwrap();
    let mut bytes = sound.clone();
    bytes[sound.len() / 2] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let store = open(dir.path()).await;
    assert_eq!(store.select(&all("kept_b")).await.unwrap(), []);
    store.close().await;
    assert_eq!(bad_rows(dir.path()).await.unwrap(), []);
    fs::write(&segment, sound).unwrap();
    let store = open(dir.path()).await;
    assert_eq!(store.select(&all("kept_b")).await.unwrap().len(), 1);
    store.close().await;
}

#[tokio::test]
async fn a_rebuild_takes_bad_rows_of_the_catalogue() {
    for change in CHANGES {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), false).await;
        edit(dir.path(), &format!("UPDATE series SET {change} WHERE id = 2")).await;
        let rebuilt = rebuild(dir.path(), &mut |_, _| {}).await.unwrap();
        assert_eq!((rebuilt.series, rebuilt.kept_verdicts), (2, true), "{change}");
        assert_eq!(found(dir.path()).await, [""; 0], "{change}");
    }
}

/// As another process reads them: by name of the metric alone, whatever other labels have in them, and without bad rows.
#[tokio::test]
async fn series_of_metrics_are_read_beside_the_verdicts() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), true).await;
    let metrics = ["kept_b", "kept_c", "absent"].map(str::to_owned);
    let names = |read: Vec<Labels>| read.iter().map(|labels| labels.metric().to_owned()).collect::<Vec<String>>();
    let store = open(dir.path()).await;
    let directory = Directory::new(dir.path());
    assert_eq!(names(store.series_of(&metrics).await.unwrap()), ["kept_b", "kept_c"]);
    assert_eq!(names(directory.series_of(&metrics).await.unwrap()), ["kept_b", "kept_c"]);
    let tricky = Labels::new([("__name__", "kept_a"), ("x", "\"__name__\":\"kept_b\"")]);
    let mut more = Batch::default();
    more.push(tricky.as_ref(), &[Sample { time_ms: 1, value: 1.0 }]);
    store.append(more).await.unwrap();
    store.close().await;
    edit(dir.path(), "UPDATE series SET checksum = checksum + 1 WHERE labels LIKE '%kept_c%'").await;
    assert_eq!(names(directory.series_of(&metrics).await.unwrap()), ["kept_b"]);
}

#[tokio::test]
async fn a_damaged_catalogue_costs_what_is_read_beside_it_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    contract::results(&store).await;
    let intervals = store.intervals(0..10 * HOUR).await.unwrap();
    store.close().await;
    super::bad_rows::break_table(dir.path(), "series").await;
    let directory = Directory::new(dir.path());
    assert_eq!(directory.series_of(&["kept".to_owned()]).await.unwrap(), []);
    assert!(!intervals.is_empty());
    assert_eq!(directory.intervals(0..10 * HOUR).await.unwrap(), intervals);
}
