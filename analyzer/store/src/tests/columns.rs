//! Columns of results, on disk and in exported files.

use std::collections::BTreeSet;

use polars::prelude::DataFrame;
use sqlx::sqlite::SqlitePool;
use sqlx::{AssertSqlSafe, Row as _};

use super::*;
use crate::Place;
use crate::checked::checksum;
use crate::columns::{self, Column, Stored, Value};
use crate::parquet;
use goodput_testing::{advisory, interval, risk, standing};
use goodput_verdict::{
    Achieved, Advisory, Cause, CauseKind, Class, Counted, Culprit, Energy, Fault, Histogram, Instance, Interval, Kind,
    Latency, Memory, Outlook, Risk, RollUp, Served, Standing,
};

/// Tables of verdicts.
const TABLES: [&str; 6] = ["intervals", "advisories", "risks", "standings", "achieved", "hours"];

/// A verdict with a value in every column, and one with none where there may be none.
fn intervals() -> [Interval; 2] {
    let full = Interval {
        cluster: Some("east".to_owned()),
        owner: Some("ml/llm-0".to_owned()),
        run: Some("ml/MPIJob/llm".to_owned()),
        account: Some("ml".to_owned()),
        busy_signal: Some("gpu_busy".to_owned()),
        energy: Some(Energy { mj: 7, ms: HOUR, counted_ms: HOUR / 2 }),
        charged_to: Some(Culprit { node: "b".to_owned(), gpu: Some("GPU-2".to_owned()) }),
        cause: Some(Cause { kind: CauseKind::Link, which: Some("mlx5_4/1".to_owned()) }),
        gpu_instance: Some(Instance { id: 9, profile: Some("1g.10gb".to_owned()) }),
        variance_ms2: Some(-3),
        ..interval("a", 1, Class::Straggler)
    };
    let bare = Interval { model: None, variance_ms2: None, version: None, ..interval("a", 1, Class::NoData) };
    [full, bare]
}

fn outlook() -> Outlook {
    Outlook {
        risks: [Kind::Memory(Memory::Gpu), Kind::Hardware(Fault::Xid)].map(|kind| risk("a", 1, kind)).into(),
        advisories: vec![advisory("a", 1)],
        standings: vec![standing("a", 1)],
    }
}

fn achieved() -> Achieved {
    let latency = Histogram::of_cumulative(vec![(0.25, 1.5), (f64::INFINITY, 2.0)]).unwrap();
    Achieved {
        cluster: Some("east".into()),
        metric: "steps_total".to_owned(),
        unit: "steps".to_owned(),
        start_ms: HOUR,
        end_ms: 2 * HOUR,
        owner: Some("ml/llm-0".to_owned()),
        subject: "llm-0".to_owned(),
        amount: 1.5,
        covered_ms: 9,
        ideal: Some(-0.0),
        served: Some(Counted {
            amounts: [(Served::GenerationTokens, (0.1 + 0.2, "vllm:generation_tokens_total".to_owned()))].into(),
            latencies: [(Latency::EndToEnd, latency)].into(),
            demand: vec![Some(0.25), None],
        }),
        model: Some("llama".to_owned()),
    }
}

/// Each is of a node of its own: one names its cluster.
async fn replace(store: &Store) {
    for one in intervals() {
        let place = Place::new(&one.cluster, &one.node);
        store.replace(place, HOUR..2 * HOUR, std::slice::from_ref(&one)).await.unwrap();
    }
}

/// A store with rows in each of [`TABLES`].
async fn filled(dir: &Path) -> Store {
    let store = open(dir).await;
    replace(&store).await;
    store.replace_outlook(crate::contract::east("a"), HOUR..2 * HOUR, &outlook()).await.unwrap();
    store.replace_achieved(HOUR..2 * HOUR, &[achieved()]).await.unwrap();
    store
}

/// Name and type of each column of a table in the database.
async fn on_disk_columns(pool: &SqlitePool, table: &str) -> Vec<(String, String)> {
    let sql = AssertSqlSafe(format!("SELECT name, type FROM pragma_table_info('{table}') ORDER BY cid"));
    sqlx::query_as(sql).fetch_all(pool).await.unwrap()
}

/// Every row of a table, a value a line, as SQL writes it.
async fn on_disk(pool: &SqlitePool, table: &str) -> String {
    let columns = on_disk_columns(pool, table).await;
    let values: Vec<String> = columns.iter().map(|(name, _)| format!("quote({name})")).collect();
    let sql = AssertSqlSafe(format!("SELECT {} FROM {table} ORDER BY rowid", values.join(", ")));
    let mut text = format!("table {table}\n");
    for row in sqlx::query(sql).fetch_all(pool).await.unwrap() {
        for (n, (name, _)) in columns.iter().enumerate() {
            text += &format!("{name} {}\n", row.get::<String, _>(n));
        }
    }
    text
}

fn in_file(name: &str, frame: &DataFrame) -> String {
    let mut text = format!("file {name}\n");
    for column in frame.columns() {
        let values: Vec<String> = (0..frame.height()).map(|n| column.get(n).unwrap().to_string()).collect();
        text += &format!("{} {} {}\n", column.name(), column.dtype(), values.join(" "));
    }
    text
}

/// Releases read the rows of earlier ones, and notebooks their files: only new columns may change what is recorded.
#[tokio::test]
async fn rows_and_files_are_as_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    let mut text = String::new();
    for table in TABLES {
        text += &on_disk(&store.shared.database.read, table).await;
    }
    let read = store.verdicts(HOUR..2 * HOUR).await.unwrap();
    text += &in_file("intervals", &parquet::results(&read.intervals).unwrap());
    text += &in_file("advisories", &parquet::results(&read.outlook.advisories).unwrap());
    text += &in_file("risks", &parquet::results(&read.outlook.risks).unwrap());
    text += &in_file("achieved", &parquet::results(&read.achieved).unwrap());
    text += &in_file("no intervals", &parquet::results::<Interval>(&[]).unwrap());
    check("src/tests/columns.txt", &text);
}

/// The type of a column in SQL, and in words.
fn types(column: &Column) -> (&'static str, &'static str) {
    match column.kind {
        columns::Kind::Text => ("TEXT", "text"),
        columns::Kind::Integer => ("INTEGER", "integer"),
        columns::Kind::Real => ("REAL", "float"),
        columns::Kind::Time => ("INTEGER", "timestamp"),
    }
}

/// A migration adds a column to the database, and a row to `columns`.
#[tokio::test]
async fn every_column_of_the_database_has_its_row() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let rows = [Interval::COLUMNS, Advisory::COLUMNS, Risk::COLUMNS, Standing::COLUMNS, Achieved::COLUMNS];
    let rows = rows.into_iter().chain([RollUp::COLUMNS]);
    for (table, rows) in TABLES.into_iter().zip(rows) {
        let known = rows.iter().map(|column| (column.name, types(column).0)).chain([("checksum", "INTEGER")]);
        let known: BTreeSet<_> = known.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect();
        let found = on_disk_columns(&store.shared.database.read, table).await;
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), known, "{table}");
    }
}

/// Columns are added at the end: rows of the release before have checksums that end where theirs did.
#[tokio::test]
async fn a_row_that_lacks_the_last_columns_is_sound_as_long_as_they_are_null() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    let [full, bare] = intervals();
    assert!(!full.values().contains(&Value::Null), "a value in every column");
    let nulls = bare.values().iter().rev().take_while(|value| **value == Value::Null).count();
    for (row, fewer, sound) in [(&bare, 1, 2), (&bare, nulls, 2), (&bare, nulls + 1, 1), (&full, 1, 1)] {
        let values = row.values();
        let sum = checksum(&values[..values.len() - fewer]);
        let sql = "UPDATE intervals SET checksum = $1 WHERE class = $2";
        let update = sqlx::query(sql).bind(sum).bind(row.class.name());
        update.execute(&store.shared.database.write).await.unwrap();
        let read = Directory::new(dir.path()).verdicts(HOUR..2 * HOUR).await.unwrap();
        assert_eq!(read.intervals.len(), sound, "{fewer} columns fewer");
        replace(&store).await;
    }
}

fn in_page<T: Stored>(table: &str) -> (String, String) {
    let mut text = "| column | type | |\n|---|---|---|\n".to_owned();
    for (name, column) in parquet::shape::<T>() {
        text += &format!("| `{name}` | {} | {} |\n", types(&column).1, column.about);
    }
    (format!("columns of {table}"), text)
}

#[test]
fn the_page_shows_every_column_of_exported_files() {
    let path = "../../docs/use/history.md";
    let mut page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let tables = [
        in_page::<Interval>("intervals"),
        in_page::<Advisory>("advisories"),
        in_page::<Risk>("risks"),
        in_page::<Achieved>("achieved"),
    ];
    for (mark, table) in tables {
        let (before, rest) = page.split_once(&format!("<!-- {mark} -->\n")).unwrap();
        let (_, after) = rest.split_once(&format!("<!-- /{mark} -->")).unwrap();
        page = format!("{before}<!-- {mark} -->\n{table}<!-- /{mark} -->{after}");
    }
    check(path, &page);
}

/// Compares a file with what it is to be; `UPDATE_GOLDEN=1` writes it.
fn check(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).unwrap();
    }
    let recorded = fs::read_to_string(&path).unwrap();
    let differs = recorded.lines().zip(text.lines()).find(|(then, now)| then != now);
    assert!(recorded == text, "{}: {differs:?}; UPDATE_GOLDEN=1 writes it", path.display());
}

/// With years of verdicts a scan takes minutes. Statements without the window's bounds are not about one.
#[tokio::test]
async fn no_statement_reads_a_whole_table_for_a_window() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).await.close().await;
    let pool = SqlitePool::connect(dir.path().join("goodput.db").to_str().unwrap()).await.unwrap();
    let mut windows = 0;
    for sql in crate::statements().into_iter().filter(|sql| sql.contains(columns::IN_WINDOW)) {
        windows += 1;
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
        let plan = sqlx::query(explain).fetch_all(&pool).await.unwrap();
        let mut steps = plan.iter().map(|row| row.get::<String, _>("detail"));
        assert!(!steps.any(|step| step.starts_with("SCAN")), "{sql}");
    }
    assert!(windows > 2 * TABLES.len());
    pool.close().await;
}
