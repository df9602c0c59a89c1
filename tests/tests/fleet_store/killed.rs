//! A writer that ends inside of its COPY.

use std::time::Duration;

use goodput_lab::process::{Running, until};
use goodput_verdict::HOUR_MS;
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Executor as _};

use super::verdicts::{MONDAY, fill};
use super::{copy, empty, program, psql, said};

/// Rows of an hour in the middle, and what they sum up to.
fn hour(server: &goodput_tests::postgres::Postgres) -> String {
    let start = (MONDAY + 50) * HOUR_MS;
    let of = |table: &str| {
        format!(
            "SELECT count(*), sum(checksum) FROM {table} WHERE start_ms >= {start} AND start_ms < {start} + {HOUR_MS};"
        )
    };
    psql(server, "goodput_reader", &["intervals", "hours", "risks"].map(of).concat()).unwrap()
}

#[tokio::test]
async fn a_writer_killed_inside_its_copy_leaves_the_window_whole() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let server = empty();
    let output = copy(&server, dir.path());
    assert!(output.status.success(), "{}", said(&output));
    let before = hour(&server);
    assert!(before.starts_with("24|"), "{before}");
    // The last row of the hour waits for a lock that the test holds.
    let trigger = format!(
        "CREATE FUNCTION wait() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
            IF new.gpu = 'GPU-n2-1' AND new.start_ms = {} THEN PERFORM pg_advisory_lock(42); END IF;
            RETURN new; END $$;
        CREATE TRIGGER wait BEFORE INSERT ON intervals FOR EACH ROW EXECUTE FUNCTION wait();",
        (MONDAY + 50) * HOUR_MS
    );
    psql(&server, "goodput_owner", &trigger).unwrap();
    let mut holder = PgConnection::connect(&server.url("postgres", "fleet")).await.unwrap();
    holder.execute("SELECT pg_advisory_lock(42)").await.unwrap();
    let mut command = program();
    command.arg("migrate").arg("--from").arg(dir.path());
    command.args(["--database.url", &server.url("goodput_owner", "fleet")]);
    let writer = Running::start(&mut command, &dir.path().join("log")).unwrap();
    let waiting = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'COPY intervals%' AND wait_event = 'advisory';";
    let backend = until("the COPY to wait", Duration::from_secs(60), || {
        let found = psql(&server, "postgres", waiting)?;
        Ok(Some(found).filter(|found| !found.is_empty()))
    });
    let backend = backend.unwrap_or_else(|error| panic!("{error}: {}", writer.log_text()));
    writer.kill().unwrap();
    holder.execute("SELECT pg_advisory_unlock(42)").await.unwrap();
    until("the server to end the connection", Duration::from_secs(60), || {
        let left = psql(&server, "postgres", &format!("SELECT 1 FROM pg_stat_activity WHERE pid = {backend};"))?;
        Ok(left.is_empty().then_some(()))
    })
    .unwrap();
    assert_eq!(hour(&server), before);
    psql(&server, "goodput_owner", "DROP TRIGGER wait ON intervals;").unwrap();
    let again = copy(&server, dir.path());
    assert!(again.status.success() && hour(&server) == before, "{}", said(&again));
}
