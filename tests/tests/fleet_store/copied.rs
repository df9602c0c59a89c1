//! `migrate` and `migrate --from`: what is made, what is copied, and reports over both.

use std::fs;
use std::path::Path;

use goodput_store::postgres::{Postgres, migrate};
use goodput_store::{Directory, ReadOwnership as _, ReadVerdicts as _};
use goodput_verdict::HOUR_MS;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, Executor as _};

use super::verdicts::{HOURS, WEEK, fill};
use super::{address, analyzer, copy, empty, migrated, program, psql, roles, said};

const SCHEMA: &str = "SELECT table_name, column_name, data_type FROM information_schema.columns
    WHERE table_schema = 'public' ORDER BY 1, 2;
    SELECT relname, relacl FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1;
    SELECT * FROM _sqlx_migrations;";

#[tokio::test]
async fn migrating_again_changes_nothing_and_two_at_once_take_turns() {
    let server = empty();
    let owner = address(&server, "goodput_owner");
    let (one, other, roles) = (owner.clone(), owner.clone(), roles());
    let (one, other) = tokio::join!(migrate(&one, &roles), migrate(&other, &roles));
    one.unwrap();
    other.unwrap();
    let made = psql(&server, "goodput_owner", SCHEMA).unwrap();
    assert!(made.contains("windows|verdict_digest|bigint") && made.contains("goodput_worker=arwd"), "{made}");
    migrate(&owner, &roles).await.unwrap();
    assert_eq!(psql(&server, "goodput_owner", SCHEMA).unwrap(), made);
}

/// The report of the week in a form, out of the directory or out of the database.
fn report(from: &[&str], format: &str) -> String {
    let output = program().arg("report").args(WEEK).args(["--format", format]).args(from).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().count() >= 5, "{text}");
    text
}

fn reports_are_equal(dir: &Path, url: &str) {
    for format in ["html", "markdown", "json", "csv", "csv-accounts", "csv-intervals"] {
        let (ours, theirs) =
            (report(&["--data.dir", dir.to_str().unwrap()], format), report(&["--database.url", url], format));
        let differs = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
        assert!(ours == theirs, "{format}: {differs:?}");
    }
}

/// Rows of verdicts out of both, as Parquet.
fn exports_are_equal(dir: &Path, url: &str) {
    let out = tempfile::tempdir().unwrap();
    for what in ["intervals", "advisories", "risks", "achieved"] {
        let files = [("ours", ["--data.dir", dir.to_str().unwrap()]), ("theirs", ["--database.url", url])];
        let bytes = files.map(|(name, from)| {
            let path = out.path().join(name);
            let mut command = program();
            command
                .args(["export", "--start", "2026-11-16", "--end", "2026-11-18", "--what", what, "--out"])
                .arg(&path);
            let output = command.args(from).output().unwrap();
            assert!(output.status.success(), "{}", said(&output));
            fs::read(path).unwrap()
        });
        assert!(bytes[0].len() > 1000 && bytes[0] == bytes[1], "{what}");
    }
}

#[tokio::test]
async fn what_was_copied_reads_as_in_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let server = empty();
    let mut tables = Vec::new();
    // The second run replaces what the first one copied.
    for _ in 0..2 {
        let output = copy(&server, dir.path());
        assert!(output.status.success(), "{}", said(&output));
        tables.push(String::from_utf8(output.stdout).unwrap());
    }
    println!("{}", tables[0]);
    assert_eq!(tables[0], tables[1]);
    for line in tables[0].lines().skip(1) {
        let words: Vec<_> = line.rsplitn(3, char::is_whitespace).collect();
        assert!(
            line.split_whitespace().rev().take(2).collect::<std::collections::BTreeSet<_>>().len() == 1,
            "{words:?}"
        );
    }
    assert!(tables[0].contains("GPU-hours") && tables[0].contains("kWh") && tables[0].contains("events"));
    let url = server.url("goodput_reader", "fleet");
    reports_are_equal(dir.path(), &url);
    exports_are_equal(dir.path(), &url);
    let store = Postgres::look(&address(&server, "goodput_reader")).await.unwrap();
    let (directory, all) = (Directory::new(dir.path()), HOURS.start * HOUR_MS..HOURS.end * HOUR_MS);
    assert_eq!(store.verdicts(all.clone()).await.unwrap(), directory.verdicts(all.clone()).await.unwrap());
    assert_eq!(store.extent().await.unwrap(), directory.extent().await.unwrap());
    assert_eq!(store.finding_events().await.unwrap(), directory.finding_events().await.unwrap());
    let weeks = ["2026-W01", "2027-W01"];
    assert_eq!(store.finding_weeks(weeks).await.unwrap(), directory.finding_weeks(weeks).await.unwrap());
    assert_eq!((store.finding_events().await.unwrap().len(), store.finding_weeks(weeks).await.unwrap().len()), (1, 1));
    assert_eq!(store.day(all.start).await.unwrap().len(), 3, "days are rolled up");
    store.close().await;
    let windows = psql(
        &server,
        "goodput_reader",
        "SELECT cluster, count(*) FROM windows WHERE done = wanted GROUP BY 1 ORDER BY 1;",
    );
    assert_eq!(windows.unwrap().lines().collect::<Vec<_>>(), ["|336", "east|336", "west|336"]);
}

/// Two directories, of a cluster each, go into one database.
#[tokio::test]
async fn a_second_directory_takes_nothing_away_from_the_first() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (dir, gone) in [(&one, "west"), (&other, "east")] {
        fill(dir.path()).await;
        let mut connection = SqliteConnection::connect(dir.path().join("goodput.db").to_str().unwrap()).await.unwrap();
        for table in ["intervals", "hours", "advisories", "risks", "standings"] {
            let sql = format!("DELETE FROM {table} WHERE cluster IS NULL OR cluster = '{gone}'");
            connection.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
        }
        connection.close().await.unwrap();
    }
    let server = empty();
    for dir in [&one, &other, &one] {
        let output = copy(&server, dir.path());
        assert!(output.status.success(), "{}", said(&output));
    }
    let clusters = "SELECT cluster, count(*) FROM intervals GROUP BY 1 ORDER BY 1;";
    let found = psql(&server, "goodput_reader", clusters).unwrap();
    assert_eq!(found.lines().collect::<Vec<_>>(), ["east|2688", "west|2688"]);
}

/// A row that was changed on the disk: the embedded store leaves it out.
#[tokio::test]
async fn a_damaged_row_is_named_and_left_out() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let mut connection = SqliteConnection::connect(dir.path().join("goodput.db").to_str().unwrap()).await.unwrap();
    connection.execute("UPDATE intervals SET ms = ms + 1 WHERE rowid = 5000").await.unwrap();
    connection.execute("UPDATE hours SET sums = '{}' WHERE rowid = 500").await.unwrap();
    connection.close().await.unwrap();
    let server = empty();
    let output = copy(&server, dir.path());
    let (said, table) = (said(&output), String::from_utf8_lossy(&output.stdout).into_owned());
    assert!(
        output.status.success() && table.contains("2 damaged rows of the directory were left out"),
        "{said}{table}"
    );
    assert!(
        said.matches("a damaged row of the directory is left out").count() == 2 && said.contains("checksum"),
        "{said}"
    );
    reports_are_equal(dir.path(), &server.url("goodput_reader", "fleet"));
}

#[tokio::test]
async fn what_differs_in_the_end_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let server = migrated().await;
    // Some row of each hour is lost on its way.
    psql(
        &server,
        "goodput_owner",
        "CREATE FUNCTION lose() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
            RETURN CASE WHEN new.gpu = 'GPU-n2-1' AND new.class = 'productive' THEN NULL ELSE new END; END $$;
        CREATE TRIGGER lose BEFORE INSERT ON intervals FOR EACH ROW EXECUTE FUNCTION lose();",
    )
    .unwrap();
    let output = copy(&server, dir.path());
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(said(&output).contains("rows of intervals differ from those of the directory"), "{}", said(&output));
}

#[tokio::test]
async fn a_directory_that_is_none_is_an_error() {
    let (server, dir) = (migrated().await, tempfile::tempdir().unwrap());
    let output = copy(&server, dir.path());
    assert!(!output.status.success() && said(&output).contains("goodput.db"), "{}", said(&output));
    let report = analyzer(&server.url("goodput_reader", "fleet"), &["report"]);
    assert_eq!(report.status.code(), Some(3), "{}", said(&report));
    assert!(said(&report).contains("Nothing is judged yet"));
}
