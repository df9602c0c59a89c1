//! What is written and read: the contract of stores, events, and what a window costs.

use goodput_store::postgres::Postgres;
use goodput_store::{Events as _, Options, Place, ReadVerdicts as _, Replacement, Results as _, Store, StoreError};
use goodput_testing::{event, interval, saved, standing};
use goodput_tests::postgres::Postgres as Server;
use goodput_verdict::{Class, HOUR_MS, Interval, Outlook, RollUp};
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

use super::verdicts::{HOURS, MONDAY, events};
use super::{address, contract, migrated, prepared, psql, roles};

#[tokio::test]
async fn keeps_the_contract_of_results() {
    let server = migrated().await;
    let store = Postgres::connect(&address(&server, "goodput_worker")).await.unwrap();
    contract::results(&store).await;
    contract::teams(&store).await;
    contract::outbox(&store).await;
    contract::ownership::holds(&store).await;
    contract::outlook(&store).await;
    let judged = store.judged_windows(0..HOUR_MS * 100).await.unwrap();
    assert!(judged.is_empty(), "{judged:?}");
    let window = 50 * HOUR_MS..51 * HOUR_MS;
    store.store_judged(window.clone(), window.end - 5, &[]).await.unwrap();
    let judged = store.judged_windows(0..HOUR_MS * 100).await.unwrap();
    assert_eq!(judged.into_iter().collect::<Vec<_>>(), [(window.start, window.end - 5)]);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_events_at_once_are_all_there() {
    let server = migrated().await;
    let store = Postgres::connect(&address(&server, "goodput_worker")).await.unwrap();
    contract::ownership::loses_no_event(&store).await;
    store.close().await;
}

/// What PostgreSQL alone cannot keep costs its node.
#[tokio::test]
async fn a_text_with_a_nul_and_a_null_where_there_may_be_none_cost_their_node() {
    let server = migrated().await;
    let store = Postgres::connect(&address(&server, "goodput_worker")).await.unwrap();
    let window = MONDAY * HOUR_MS..(MONDAY + 1) * HOUR_MS;
    let sound = interval("a", MONDAY, Class::Productive);
    let nul = Interval { owner: Some("a\0b".into()), ..interval("b", MONDAY, Class::Productive) };
    let null = Interval { confidence: f64::NAN, ..interval("c", MONDAY, Class::Productive) };
    let mut escaped = standing("d", MONDAY);
    (escaped.cluster, escaped.pool) = (None, Some("\0".into()));
    let outlook = Outlook { standings: vec![escaped], ..Outlook::default() };
    let of = |node: &'static str, interval| Replacement {
        place: Place::from(node),
        intervals: Some(std::slice::from_ref(interval)),
        outlook: None,
    };
    let standing = Replacement { place: "d".into(), intervals: None, outlook: Some(&outlook) };
    let new = [of("a", &sound), of("b", &nul), of("c", &null), standing];
    let refused = store.replace_window(window.clone(), &new).await.unwrap();
    let refused: Vec<_> = refused.into_iter().map(|(n, error)| (n, error.to_string())).collect();
    for (n, expected) in
        [(1, "owner of intervals has a NUL"), (2, "confidence of intervals has no value"), (3, "a NUL")]
    {
        assert!(refused.iter().any(|(place, error)| *place == n && error.contains(expected)), "{refused:?}");
    }
    assert_eq!(store.intervals(window).await.unwrap(), [sound]);
    store.close().await;
}

#[tokio::test]
async fn events_are_taken_as_by_the_embedded_store() {
    let server = migrated().await;
    let store = Postgres::connect(&address(&server, "goodput_worker")).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let embedded = Store::open(Options::new(dir.path(), |_| true)).await.unwrap();
    let (all, within) = (events(), HOURS.start * HOUR_MS..HOURS.end * HOUR_MS);
    let again = event((MONDAY + 6) * HOUR_MS, 2, saved(1600));
    for batch in [&all[..3], &all[1..4], &all[4..], &[again.clone(), again]] {
        assert_eq!(store.add_events(batch).await.unwrap(), embedded.add_events(batch).await.unwrap());
        let (ours, theirs) =
            (store.history(within.clone()).await.unwrap(), embedded.history(within.clone()).await.unwrap());
        assert_eq!(ours, theirs);
    }
    let mut other = all[0].clone();
    other.time_ms += 1;
    for stored in [store.add_events(&[other.clone()]).await, embedded.add_events(&[other.clone()]).await] {
        assert!(matches!(&stored, Err(StoreError::Contradicted { id }) if *id == other.id), "{stored:?}");
    }
    assert_eq!(store.history(within.clone()).await.unwrap(), embedded.history(within).await.unwrap());
    embedded.close().await;
    store.close().await;
}

/// Partitions are made by the worker that needs them, and dropped by whole weeks.
#[tokio::test]
async fn weeks_are_dropped_whole_and_roll_ups_stay() {
    let server = migrated().await;
    let store = Postgres::connect(&address(&server, "goodput_worker")).await.unwrap();
    let monday = MONDAY * HOUR_MS;
    // A window of a zone of half hours lies in two weeks.
    let windows =
        [monday - HOUR_MS / 2..monday + HOUR_MS / 2, monday + 7 * 24 * HOUR_MS..monday + (7 * 24 + 1) * HOUR_MS];
    let mut stored = Vec::new();
    for window in windows {
        let half = HOUR_MS / 2;
        let cut = |start_ms: i64| Interval {
            start_ms,
            end_ms: start_ms + half,
            ms: half,
            ..interval("a", MONDAY, Class::Productive)
        };
        let all = [cut(window.start), cut(window.start + half)];
        store.replace("a".into(), window.clone(), &all).await.unwrap();
        stored.extend(all);
    }
    let weeks = "SELECT relname FROM pg_class WHERE relname LIKE 'intervals\\_2%' AND relkind = 'r' ORDER BY 1;";
    let made = psql(&server, "goodput_reader", weeks).unwrap();
    assert_eq!(made.lines().collect::<Vec<_>>(), ["intervals_20261109", "intervals_20261116", "intervals_20261123"]);
    let all = 0..(MONDAY + 1000) * HOUR_MS;
    assert_eq!(store.intervals(all.clone()).await.unwrap(), stored);
    // Not before the week is over.
    assert_eq!(store.forget(monday - 1).await.unwrap(), 0);
    assert_eq!(store.forget(monday + 6 * 24 * HOUR_MS).await.unwrap(), 5, "one partition of each table");
    assert_eq!(store.intervals(all.clone()).await.unwrap(), stored[1..]);
    let mut hours = store.hours(all, None).await.unwrap();
    hours.sort_by_key(|hour| hour.start_ms);
    assert_eq!(hours, RollUp::fold(&stored));
    // The week comes back with its next window.
    store.replace("a".into(), monday - HOUR_MS..monday, &[]).await.unwrap();
    assert!(psql(&server, "goodput_reader", weeks).unwrap().contains("intervals_20261109"));
    store.close().await;
}

#[tokio::test]
async fn a_changed_hour_changes_its_day() {
    let server = migrated().await;
    let store = Postgres::connect(&address(&server, "goodput_worker")).await.unwrap();
    let at = |hour: i64| hour * HOUR_MS..(hour + 1) * HOUR_MS;
    let of = |hour: i64| interval("a", hour, Class::Productive);
    for hour in [MONDAY, MONDAY + 1, MONDAY + 30] {
        store.replace("a".into(), at(hour), &[of(hour)]).await.unwrap();
    }
    assert_eq!(store.day(MONDAY * HOUR_MS).await.unwrap().len(), 2);
    store.roll_up_days(&mut |_, _| {}).await.unwrap();
    let day = store.day(MONDAY * HOUR_MS).await.unwrap();
    assert_eq!(day, [RollUp::joined(RollUp::fold(&[of(MONDAY), of(MONDAY + 1)])).unwrap()]);
    let idle = interval("a", MONDAY, Class::IdleHeld);
    store.replace("a".into(), at(MONDAY), std::slice::from_ref(&idle)).await.unwrap();
    let mut hours = store.day(MONDAY * HOUR_MS).await.unwrap();
    hours.sort_by_key(|hour| hour.start_ms);
    assert_eq!(hours, RollUp::fold(&[idle, of(MONDAY + 1)]));
    store.close().await;
}

/// Nodes of eight GPUs with two verdicts each.
fn window_of(nodes: usize) -> Vec<(String, Vec<Interval>)> {
    let node = |n: usize| {
        let of = |gpu: usize| {
            [Class::Productive, Class::DataloaderStorage].map(|class| Interval {
                gpu: format!("GPU-{n:06}-{gpu:04}-4000-8000-000000000000"),
                node: format!("node-{n:05}"),
                ms: HOUR_MS / 2,
                ..interval("a", MONDAY, class)
            })
        };
        (format!("node-{n:05}"), (0..8).flat_map(of).collect())
    };
    (0..nodes).map(node).collect()
}

async fn store_window(store: &Postgres, window: &[(String, Vec<Interval>)]) {
    let new: Vec<Replacement<'_>> = window
        .iter()
        .map(|(node, all)| Replacement { place: node.into(), intervals: Some(all), outlook: Some(&EMPTY) })
        .collect();
    let range = MONDAY * HOUR_MS..(MONDAY + 1) * HOUR_MS;
    assert!(store.store_judged(range.clone(), range.end, &new).await.unwrap().is_empty());
}

static EMPTY: Outlook = Outlook { risks: Vec::new(), advisories: Vec::new(), standings: Vec::new() };

#[tokio::test]
async fn statements_of_a_window_do_not_grow_with_its_rows() {
    let server = prepared(Server::start_with(&["log_statement=all"], None).unwrap());
    goodput_store::postgres::migrate(&address(&server, "goodput_owner"), &roles()).await.unwrap();
    let store = Postgres::connect(&address(&server, "goodput_worker")).await.unwrap();
    let logged = || server.log().lines().filter(|line| line.contains("LOG:  ") && line.contains(": ")).count();
    let mut counts = Vec::new();
    for nodes in [1, 1, 200] {
        let before = logged();
        store_window(&store, &window_of(nodes)).await;
        counts.push(logged() - before);
    }
    println!("statements of a window of 1 node, of 200 nodes: {}, {}", counts[1], counts[2]);
    assert!(counts[1] > 5 && counts[2] == counts[1], "{counts:?}");
    store.close().await;
}

/// A deletion does not see the rows that another transaction is about to commit.
#[tokio::test]
async fn two_writers_of_one_window_leave_its_rows_once() {
    let server = migrated().await;
    let writers = [0, 1].map(|_| address(&server, "goodput_worker"));
    let (one, other) = (Postgres::connect(&writers[0]).await.unwrap(), Postgres::connect(&writers[1]).await.unwrap());
    let window = window_of(100);
    tokio::join!(store_window(&one, &window), store_window(&other, &window));
    let mut connection = PgConnection::connect(&server.url("postgres", "fleet")).await.unwrap();
    let sql = "SELECT (SELECT count(*) FROM intervals), (SELECT count(*) FROM hours)";
    let rows: (i64, i64) = sqlx::query_as(sql).fetch_one(&mut connection).await.unwrap();
    assert_eq!(rows, (1600, 100), "two verdicts of eight GPUs, and a roll-up, for each node");
    connection.close().await.unwrap();
    one.close().await;
    other.close().await;
}
