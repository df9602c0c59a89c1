//! Data directories of every earlier release, opened by this one.

use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

use super::super::database::MIGRATIONS;
use super::super::{status, verify};
use super::*;
use goodput_verdict::{Outlook, RollUp};

/// Series 1 with the values 0 to 3 at these milliseconds, as the first release wrote it: a segment of 4 rows.
const SEGMENT: &[u8] = include_bytes!("segment-of-0001.parquet");

/// Series 1 with the values 4 and 5 at these milliseconds, as the first release wrote it.
const WRITE_AHEAD: &[u8] = &[1, 2, 2, 8, 0, 0, 0, 0, 0, 0, 0x10, 0x40, 2, 0, 0, 0, 0, 0, 0, 0x14, 0x40];

/// What each release since the first could store, from when on, and how it can be seen.
const ROWS: &[(i64, &str)] = &[
    (1, r#"INSERT INTO series (id, labels) VALUES (1, '{"__name__":"kept","host":"x"}')"#),
    (
        1,
        "INSERT INTO intervals (node, start_ms, end_ms, gpu, class, ms, confidence, evidence, missing)
            VALUES ('a', 0, 3600000, 'GPU-1', 'idle_held', 3600000, 0.9, '[]', '[]')",
    ),
    (1, "INSERT INTO quarantine (name, reason, found_ms) VALUES ('000000000001.parquet', 'torn', 5)"),
    (
        2,
        "INSERT INTO advisories (node, start_ms, end_ms, gpu, advice, confidence, evidence)
            VALUES ('a', 0, 3600000, 'GPU-1', 'cross_numa', 0.9, '[]')",
    ),
    (3, "UPDATE intervals SET energy_mj = 7, energy_ms = 3600000, energy_counted_ms = 0"),
    (4, "INSERT INTO deliveries (week, version, destination, digest, time_ms) VALUES ('2026-W47', 1, 'webhook', 1, 5)"),
    (
        5,
        "INSERT INTO achieved (start_ms, end_ms, metric, unit, subject, amount, covered_ms)
            VALUES (0, 3600000, 'steps_total', 'steps', 'train-0', 1.5, 9)",
    ),
    (6, "INSERT INTO judged VALUES (1, 3)"),
    (
        23,
        r#"INSERT INTO hours (node, start_ms, end_ms, sums) VALUES ('a', 0, 3600000, '{"names":["GPU-1"],
            "grounds":[[null,[],[]]],"held":[[0,null,null,null,null,null,
            [["idle_held",0,3600000,3240000.0,[[0,3600000,3600000]],null,null,[7,3600000,0],null]]]]}')"#,
    ),
    (24, "INSERT INTO rolled_days VALUES (0, 0)"),
];

/// A directory as the release with this schema left it: four samples in a segment, two in the write-ahead, and rows of
/// all that it could store.
async fn left_by(version: i64, dir: &Path) {
    let migrations = tempfile::tempdir().unwrap();
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations/sqlite");
    for name in files(&all).iter().filter(|name| name[..4].parse::<i64>().unwrap() <= version) {
        fs::copy(all.join(name), migrations.path().join(name)).unwrap();
    }
    let options = SqliteConnectOptions::new().filename(dir.join("goodput.db")).create_if_missing(true);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    Migrator::new(migrations.path()).await.unwrap().run(&mut connection).await.unwrap();
    fs::create_dir(dir.join("segments")).unwrap();
    fs::write(dir.join("segments/000000000003.parquet"), SEGMENT).unwrap();
    let sql = "INSERT INTO segments (id, rows, bytes, checksum, first_ms, last_ms) VALUES (3, 4, $1, $2, 0, 3)";
    let segment = sqlx::query(sql).bind(SEGMENT.len() as i64).bind(crc32fast::hash(SEGMENT));
    segment.execute(&mut connection).await.unwrap();
    sqlx::query("INSERT INTO row_groups VALUES (3, 0, 4, 1, 1, 0, 3)").execute(&mut connection).await.unwrap();
    let sql = "INSERT INTO write_ahead (seq, checksum, samples) VALUES (4, $1, $2)";
    let row = sqlx::query(sql).bind(crc32fast::hash(WRITE_AHEAD)).bind(WRITE_AHEAD);
    row.execute(&mut connection).await.unwrap();
    for (_, sql) in ROWS.iter().filter(|(since, _)| *since <= version) {
        sqlx::query(*sql).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
}

async fn count(store: &Store, table: &str) -> i64 {
    let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    sqlx::query_scalar(sql).fetch_one(&store.shared.database.read).await.unwrap()
}

#[tokio::test]
async fn a_directory_of_every_earlier_release_keeps_its_data_and_gets_what_is_new() {
    let known = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap();
    for version in MIGRATIONS.iter().map(|migration| migration.version).filter(|version| *version < known) {
        let dir = tempfile::tempdir().unwrap();
        left_by(version, dir.path()).await;
        let error = Directory::new(dir.path()).verdicts(0..HOUR).await.unwrap_err();
        assert!(matches!(error, StoreError::Older { found, .. } if found == version), "{error}");

        let store = open(dir.path()).await;
        assert_eq!(times(&store).await, (0..6).collect::<Vec<_>>(), "schema {version}");
        let verdicts = store.intervals(0..HOUR).await.unwrap();
        assert_eq!((verdicts.len(), verdicts[0].ms), (1, HOUR), "schema {version}");
        let added = (verdicts[0].charged_to.as_ref(), verdicts[0].variance_ms2, verdicts[0].version);
        assert_eq!(added, (None, None, None), "schema {version}");
        assert_eq!(verdicts[0].cluster, None, "schema {version}");
        assert_eq!((verdicts[0].run.as_ref(), verdicts[0].account.as_ref()), (None, None), "schema {version}");
        assert_eq!(verdicts[0].energy.map(|energy| energy.mj), (version >= 3).then_some(7));
        assert_eq!(store.outlook(0..HOUR).await.unwrap().advisories.len(), usize::from(version >= 2));
        assert_eq!(store.achieved(0..HOUR).await.unwrap().len(), usize::from(version >= 5));
        assert_eq!(store.unjudged_from(), (version >= 6).then_some(4), "schema {version}");
        assert_eq!((store.stats().quarantined, store.raw_from()), (1, None));
        // What it says of hours does not depend on whether they are rolled up yet.
        let hours = RollUp::fold(&verdicts);
        assert_eq!(store.hours(0..HOUR, None).await.unwrap(), hours, "schema {version}");
        let rolled = async {
            while count(&store, "rolled_up").await > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), rolled).await.unwrap();
        assert_eq!(count(&store, "hours").await, 1, "schema {version}");
        assert_eq!(store.hours(0..HOUR, None).await.unwrap(), hours, "schema {version}");
        store.replace("a".into(), 24 * HOUR..25 * HOUR, &[]).await.unwrap();
        store.roll_up_days().await.unwrap();
        assert_eq!(count(&store, "days").await, 1, "schema {version}");
        assert_eq!(store.day(0).await.unwrap(), hours, "schema {version}: of one hour, the day is as the hour");

        let mode: i64 = sqlx::query_scalar("PRAGMA auto_vacuum").fetch_one(&store.shared.database.read).await.unwrap();
        assert_eq!(mode, 2, "its database can give pages back");

        // It goes on as one of this release: new segments get new names, old ones are merged.
        store.append(batch([ticks([6, 7])])).await.unwrap();
        store.flush().await.unwrap();
        store.note_judged(store.mark()).await.unwrap();
        while store.compact().await.unwrap().is_some() {}
        assert!(store.shared.state.read().segments.iter().all(|segment| segment.format == 3), "they name their series");
        assert_eq!((times(&store).await, store.stats().segments), ((0..8).collect::<Vec<_>>(), 1));
        store.close().await;
        assert_eq!(verify(dir.path(), &mut |_, _| {}).await.unwrap().problems, Vec::new());
        assert_eq!(status(dir.path()).await.unwrap().schema, known);
        let read = Directory::new(dir.path()).verdicts(0..HOUR).await.unwrap();
        assert_eq!(read.intervals, verdicts);
    }
}

#[tokio::test]
async fn what_the_first_release_did_not_know_can_be_stored_after_the_upgrade() {
    let dir = tempfile::tempdir().unwrap();
    left_by(1, dir.path()).await;
    let store = open(dir.path()).await;
    assert_eq!(store.outlook(0..HOUR).await.unwrap(), Outlook::default(), "there was none yet");
    contract::outlook(&store).await;
    let outlook = store.outlook(0..10 * HOUR).await.unwrap();
    assert_eq!(Directory::new(dir.path()).verdicts(0..10 * HOUR).await.unwrap().outlook, outlook);
}
