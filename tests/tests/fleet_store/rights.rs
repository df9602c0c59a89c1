//! What the three roles may do.

use goodput_store::postgres::Postgres;
use goodput_store::{ReadVerdicts as _, Results as _};
use goodput_testing::interval;
use goodput_verdict::{Class, HOUR_MS};

use super::verdicts::MONDAY;
use super::{address, migrated, psql};

#[tokio::test]
async fn the_reader_reads_and_cannot_write() {
    let server = migrated().await;
    let window = MONDAY * HOUR_MS..(MONDAY + 1) * HOUR_MS;
    let written = [interval("a", MONDAY, Class::Productive)];
    let worker = Postgres::connect(&address(&server, "goodput_worker")).await.unwrap();
    worker.replace("a".into(), window.clone(), &written).await.unwrap();
    let reader = Postgres::connect(&address(&server, "goodput_reader")).await.unwrap();
    assert_eq!(reader.intervals(window.clone()).await.unwrap(), written);
    let refused = [
        reader.replace("a".into(), window.clone(), &[]).await,
        reader.replace_achieved(window.clone(), &[]).await,
        reader.note_series(&[]).await,
        reader.forget(i64::MAX).await.map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err().to_string();
        assert!(error.starts_with("PostgreSQL fleet at /") && error.contains("permission denied"), "{error}");
    }
    for sql in ["DELETE FROM intervals;", "INSERT INTO fleet VALUES (1, 'UTC', 0);", "DELETE FROM intervals_20261116;"]
    {
        let error = psql(&server, "goodput_reader", sql).unwrap_err().to_string();
        assert!(error.contains("permission denied"), "{sql}: {error}");
    }
    assert_eq!(reader.intervals(window.clone()).await.unwrap(), written);
    // What looks at one instant writes nothing, whatever its role.
    let looking = Postgres::look(&address(&server, "goodput_worker")).await.unwrap();
    assert_eq!(looking.intervals(window.clone()).await.unwrap(), written);
    worker.replace("a".into(), window.clone(), &[]).await.unwrap();
    assert_eq!(looking.intervals(window.clone()).await.unwrap(), written, "of the instant of its first read");
    let error = looking.replace("a".into(), window, &[]).await.unwrap_err().to_string();
    assert!(error.contains("read-only"), "{error}");
    for store in [worker, reader, looking] {
        store.close().await;
    }
}

#[tokio::test]
async fn the_worker_cannot_change_the_schema() {
    let server = migrated().await;
    let worker = Postgres::connect(&address(&server, "goodput_worker")).await.unwrap();
    let window = MONDAY * HOUR_MS..(MONDAY + 1) * HOUR_MS;
    worker.replace("a".into(), window, &[interval("a", MONDAY, Class::Productive)]).await.unwrap();
    worker.close().await;
    for sql in [
        "CREATE TABLE mine (one BIGINT);",
        "ALTER TABLE intervals ADD COLUMN mine BIGINT;",
        "DROP TABLE hours;",
        "DROP TABLE intervals_20261116;",
        "TRUNCATE hours;",
        "UPDATE _sqlx_migrations SET version = 9;",
        "CREATE OR REPLACE FUNCTION goodput_drop_partitions(BIGINT) RETURNS BIGINT LANGUAGE sql AS 'SELECT 1::BIGINT';",
        "SELECT goodput_make_partitions(0, 900000000000);",
    ] {
        let error = psql(&server, "goodput_worker", sql).unwrap_err().to_string();
        assert!(
            error.contains("permission denied")
                || error.contains("must be owner")
                || error.contains("more than a week"),
            "{sql}: {error}"
        );
    }
    // What runs with the owner's rights is not led to other tables.
    let start = MONDAY * HOUR_MS + 14 * 24 * HOUR_MS;
    let led = format!(
        "CREATE TEMP TABLE intervals (start_ms BIGINT) PARTITION BY RANGE (start_ms);
        SET search_path = pg_temp, public; SELECT goodput_make_partitions({start}, {start} + 1);
        SELECT relnamespace::regnamespace FROM pg_class WHERE relname = 'intervals_20261130';"
    );
    let made = psql(&server, "goodput_worker", &led).unwrap();
    assert_eq!(made.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(), ["public"]);
    let called = psql(&server, "goodput_reader", "SELECT goodput_drop_partitions(0);").unwrap_err().to_string();
    assert!(called.contains("permission denied"), "{called}");
}
