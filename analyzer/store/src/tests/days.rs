//! The roll-up of days: it says what the hours say, whenever it is asked for.

use super::*;
use crate::Place;
use goodput_testing::interval;
use goodput_verdict::{Class, DAY_MS, Interval, RollUp};

/// Two nodes of one name and another, over two days and an hour.
async fn filled(dir: &Path) -> Store {
    let store = open(dir).await;
    for hour in 0..49 {
        put(&store, hour, Class::ALL[hour as usize % Class::ALL.len()]).await;
    }
    store
}

async fn put(store: &Store, hour: i64, class: Class) {
    for (cluster, node) in [(None, "a"), (Some("east"), "a"), (None, "b")] {
        let cluster = cluster.map(str::to_owned);
        let one = Interval { cluster: cluster.clone(), ..interval(node, hour, class) };
        store.replace(Place::new(&cluster, node), hour * HOUR..(hour + 1) * HOUR, &[one]).await.unwrap();
    }
}

fn by_place(mut all: Vec<RollUp>) -> Vec<RollUp> {
    all.sort_by_key(|one| (one.cluster.clone(), one.node.clone(), one.start_ms));
    all
}

/// The hours of a day, and what they are together.
async fn expected(store: &Store, day: i64) -> [Vec<RollUp>; 2] {
    let hours = by_place(store.hours(day * DAY_MS..(day + 1) * DAY_MS, None).await.unwrap());
    let of_node = hours.chunk_by(|a, b| (&a.cluster, &a.node) == (&b.cluster, &b.node));
    let days = of_node.filter_map(|hours| RollUp::joined(hours.to_vec())).collect();
    [hours, days]
}

async fn day(store: &Store, day: i64) -> Vec<RollUp> {
    by_place(store.day(day * DAY_MS).await.unwrap())
}

#[tokio::test]
async fn a_day_is_its_hours_joined_until_one_of_them_changes() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    store.roll_up_days().await.unwrap();
    for n in 0..2 {
        let [hours, days] = expected(&store, n).await;
        assert_eq!((hours.len(), days.len()), (72, 3));
        assert_eq!(day(&store, n).await, days);
        let looked = Directory::new(dir.path()).day(n * DAY_MS).await.unwrap();
        assert_eq!(by_place(looked), days);
    }
    let [running, _] = expected(&store, 2).await;
    assert_eq!(day(&store, 2).await, running, "it is not over");
    assert_eq!(day(&store, 3).await, []);

    put(&store, 30, Class::HostNoise).await;
    let [hours, days] = expected(&store, 1).await;
    assert_eq!(day(&store, 1).await, hours, "until it is rolled up again");
    store.roll_up_days().await.unwrap();
    assert_eq!(day(&store, 1).await, days);
}

/// Another hour changes after its node's hours were joined.
#[tokio::test]
async fn a_day_that_changes_while_it_is_rolled_up_is_rolled_up_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    store.roll_up_days().await.unwrap();
    put(&store, 3, Class::HostNoise).await;
    let database = &store.shared.database;
    let (start, nodes) = database.begin_day().await.unwrap().unwrap();
    assert_eq!(start, 0);
    for node in nodes {
        database.join_hours(start, &node).await.unwrap();
    }
    put(&store, 4, Class::Checkpoint).await;
    database.join_hours(start, "a").await.unwrap();
    assert!(!database.end_day(start).await.unwrap());
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM days").fetch_one(&database.read).await.unwrap();
    assert_eq!(rows, 3, "those of the other day");
    let [hours, days] = expected(&store, 0).await;
    assert_eq!(day(&store, 0).await, hours);
    store.roll_up_days().await.unwrap();
    assert_eq!(day(&store, 0).await, days);
}

#[tokio::test]
async fn a_day_of_which_hours_are_forgotten_is_what_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    store.roll_up_days().await.unwrap();
    store.shared.database.forget_verdicts(DAY_MS + 6 * HOUR).await.unwrap();
    assert_eq!(day(&store, 0).await, []);
    let [hours, days] = expected(&store, 1).await;
    assert_eq!((hours.len(), day(&store, 1).await), (54, hours));
    store.roll_up_days().await.unwrap();
    assert_eq!(day(&store, 1).await, days);
}

#[tokio::test]
async fn days_are_rolled_up_once_the_store_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path()).await.close().await;
    let store = open(dir.path()).await;
    let rolled = async {
        while day(&store, 0).await.len() > 3 || day(&store, 1).await.len() > 3 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), rolled).await.unwrap();
}
