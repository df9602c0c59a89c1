//! The tables of `migrations/postgres` compared with those of `migrations/sqlite`: results have the same columns in both, and
//! PostgreSQL understands every statement on them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test, in helpers too")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use goodput_store::{Options, Store, postgres, statements};
use goodput_tests::postgres::Postgres;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

/// Tables of results and events, which both databases have.
const TABLES: &str = "('intervals', 'advisories', 'risks', 'standings', 'achieved', 'hours', 'days', 'rolled_days',
    'deliveries', 'events', 'attempts', 'team_versions', 'report_teams', 'outbox', 'unsubscribed',
    'finding_events', 'finding_weeks')";

/// A line for every column: table, column, class of its type, whether it may be null, default.
const SQLITE_COLUMNS: &str = "
    SELECT concat_ws(' ', 'column', t.name, c.name, lower(c.type),
        CASE WHEN c.\"notnull\" OR c.pk > 0 THEN 'not null' ELSE 'null' END, 'default ' || c.dflt_value)
    FROM sqlite_schema t, pragma_table_xinfo(t.name) c
    WHERE t.type = 'table' AND t.name IN ";

const POSTGRES_COLUMNS: &str = "
    SELECT concat_ws(' ', 'column', table_name, column_name,
        CASE data_type WHEN 'bigint' THEN 'integer' WHEN 'double precision' THEN 'real' WHEN 'bytea' THEN 'blob'
            ELSE data_type END,
        CASE is_nullable WHEN 'YES' THEN 'null' ELSE 'not null' END, 'default ' || column_default)
    FROM information_schema.columns WHERE table_schema = 'public' AND table_name IN ";

/// A line for every primary key, unique key and index: table and columns in order.
const SQLITE_KEYS: &str = "
    SELECT 'primary ' || t.name || ' ' || (SELECT group_concat(name, ',') FROM (
        SELECT name FROM pragma_table_info(t.name) WHERE pk > 0 ORDER BY pk))
    FROM sqlite_schema t
    WHERE t.type = 'table' AND EXISTS (SELECT 1 FROM pragma_table_info(t.name) WHERE pk > 0) AND t.name IN {tables}
    UNION ALL
    SELECT CASE WHEN i.\"unique\" THEN 'unique ' ELSE 'index ' END || t.name || ' ' || (SELECT group_concat(name, ',') FROM (
        SELECT name FROM pragma_index_info(i.name) ORDER BY seqno))
    FROM sqlite_schema t, pragma_index_list(t.name) i
    WHERE t.type = 'table' AND i.origin <> 'pk' AND t.name IN ";

const POSTGRES_KEYS: &str = "
    SELECT CASE WHEN i.indisprimary THEN 'primary ' WHEN i.indisunique THEN 'unique ' ELSE 'index ' END
        || t.relname || ' ' || string_agg(a.attname, ',' ORDER BY k.place)
    FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
        CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (number, place)
        JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.number
    WHERE t.relnamespace = 'public'::regnamespace AND t.relname IN {tables}
    GROUP BY i.indexrelid, i.indisprimary, i.indisunique, t.relname";

/// A query about [`TABLES`].
fn of_tables(query: &str) -> String {
    if query.contains("{tables}") {
        let query = query.replace("{tables}", TABLES);
        return if query.ends_with("IN ") { query + TABLES } else { query };
    }
    query.to_owned() + TABLES
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every migration for this database, in order: name and text.
fn migrations(database: &str) -> Vec<(String, String)> {
    let dir = repository().join("migrations").join(database);
    let paths: BTreeSet<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    paths.into_iter().map(read).collect()
}

/// A PostgreSQL after all migrations.
fn migrated() -> Postgres {
    let server = Postgres::start().unwrap();
    for (name, text) in migrations("postgres") {
        server.psql(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    server
}

/// A line of each row, from the database of a new data directory.
async fn sqlite(queries: &[&str]) -> BTreeSet<String> {
    let dir = tempfile::tempdir().unwrap();
    Store::open(Options::new(dir.path(), |_| true)).await.unwrap().close().await;
    let options = SqliteConnectOptions::new().filename(dir.path().join("goodput.db"));
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let mut lines = BTreeSet::new();
    for query in queries {
        let query = sqlx::query_scalar::<_, String>(AssertSqlSafe(of_tables(query)));
        lines.extend(query.fetch_all(&mut connection).await.unwrap());
    }
    connection.close().await.unwrap();
    lines
}

#[tokio::test]
async fn both_have_the_same_columns_and_keys_of_results() {
    let server = migrated();
    let ours = sqlite(&[SQLITE_COLUMNS, SQLITE_KEYS]).await;
    let queries = [POSTGRES_COLUMNS, POSTGRES_KEYS].map(of_tables).join(";\n") + ";";
    let theirs: BTreeSet<String> = server.psql(&queries).unwrap().lines().map(str::to_owned).collect();
    for line in [
        "column intervals energy_mj integer null",
        "column standings cluster text null",
        "primary deliveries week,version,destination",
        "primary report_teams week,team,class,currency",
        "primary outbox destination,contact,week",
        "primary finding_weeks week,id",
        "primary finding_events id,seq",
        "index intervals gpu,start_ms",
        "unique events id",
    ] {
        assert!(ours.contains(line), "{line} is not in {ours:#?}");
    }
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    assert_eq!((only(&ours, &theirs), only(&theirs, &ours)), (Vec::new(), Vec::new()), "only SQLite, only PostgreSQL");
}

#[test]
fn postgres_understands_every_statement_on_results() {
    let server = migrated();
    let statements: Vec<String> = statements().into_iter().chain(postgres::statements()).collect();
    for (n, sql) in statements.iter().enumerate() {
        let prepared = server.psql(&format!("PREPARE statement_{n} AS {sql};"));
        prepared.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    // It tells what is SQLite's alone, and what is not there.
    for sql in ["UPDATE days SET start_ms = max(start_ms, $1)", "SELECT other FROM days"] {
        server.psql(&format!("PREPARE bad AS {sql};")).unwrap_err();
    }
}

/// Those that the sources of results hold are among the statements that are prepared.
#[test]
fn no_statement_on_results_is_left_out() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let all: Vec<String> = statements().iter().chain(&postgres::statements()).map(|sql| words(sql)).collect();
    let mut found = 0;
    for name in [
        "results",
        "columns/kept",
        "delivery",
        "teams",
        "outbox",
        "ownership",
        "events",
        "postgres",
        "postgres/write",
        "postgres/days",
    ] {
        let path = repository().join(format!("analyzer/store/src/{name}.rs"));
        let source = fs::read_to_string(&path).unwrap();
        for literal in source
            .split('"')
            .filter(|literal| ["SELECT ", "INSERT ", "UPDATE ", "DELETE "].iter().any(|verb| literal.starts_with(verb)))
        {
            // A table that is filled in stands for any.
            let begin = words(literal.split('{').next().unwrap());
            assert!(all.iter().any(|sql| sql.starts_with(&begin)), "{}: {literal}", path.display());
            found += 1;
        }
    }
    assert!(found >= 15, "{found} statements found");
}

#[test]
fn postgres_brings_rows_in_the_order_of_sqlite() {
    let server = migrated();
    let insert = |owner: &str, gpu: &str| {
        format!(
            "INSERT INTO intervals (node, start_ms, end_ms, gpu, owner, class, ms, confidence, evidence, missing)
            VALUES ('n', 0, 1, '{gpu}', {owner}, 'productive', 1, 1, '[]', '[]');"
        )
    };
    let rows = [("'b'", "g"), ("NULL", "g"), ("'B'", "g"), ("'a-1'", "g"), ("'a'", "g"), ("'a'", "G")];
    server.psql("SELECT goodput_make_partitions(0, 1);").unwrap();
    server.psql(&rows.map(|(owner, gpu)| insert(owner, gpu)).concat()).unwrap();
    let sql =
        statements().into_iter().find(|sql| sql.starts_with("SELECT node, start_ms") && !sql.contains("$5")).unwrap();
    let read = server.psql(&format!("PREPARE read AS {sql}; EXECUTE read (0, 1, 10, 0);")).unwrap();
    let order: Vec<_> = read.lines().map(|line| line.split('|').collect::<Vec<_>>()).map(|c| (c[3], c[5])).collect();
    assert_eq!(order, [("G", "a"), ("g", ""), ("g", "B"), ("g", "a"), ("g", "a-1"), ("g", "b")]);
}
