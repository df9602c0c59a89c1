use super::*;
use crate::{Embedded as _, Options, ReadVerdicts as _};
use goodput_testing::{START, ended, event, saved};

async fn open(dir: &std::path::Path) -> Store {
    Store::open(Options::new(dir, |_| true)).await.unwrap()
}

/// Every kind, with and without what may be missing.
fn every_kind() -> Vec<Event> {
    let place = Place { node: Some("n1".into()), slurm_job: Some("7".into()), ..Place::default() };
    vec![
        Event { rank: Some(3), place, ..event(5, 0, What::Start { submitted_ms: Some(1) }) },
        event(6, 0, What::Restore { step: 1 << 53 }),
        event(10, 0, saved(1)),
        event(15, 0, What::Checkpoint { step: 2, seconds: Some(0.5) }),
        event(17, 0, What::Evaluation { seconds: 0.002 }),
        event(20, 0, ended(Status::Failed)),
        event(30, u32::MAX, START),
    ]
}

#[tokio::test]
async fn an_event_is_stored_once_however_often_it_comes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let events = every_kind();
    let twice = [&events[..], &events[..2]].concat();
    let taken = store.add_events(&twice).await.unwrap();
    assert_eq!(taken, Taken { stored: 7, duplicate: 2, unjudged_from_ms: Some(5) });
    let again = store.add_events(&events).await.unwrap();
    assert_eq!(again, Taken { stored: 0, duplicate: 7, unjudged_from_ms: None });
    store.close().await;
    assert_eq!(open(dir.path()).await.history(0..100).await.unwrap().events, events);
}

#[tokio::test]
async fn another_content_under_a_known_id_takes_nothing_of_the_request() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let first = event(10, 0, START);
    store.add_events(std::slice::from_ref(&first)).await.unwrap();
    let other = Event { rank: Some(1), ..first.clone() };
    for request in [vec![event(20, 0, saved(1)), other.clone()], vec![event(21, 0, saved(1)), event(21, 0, saved(2))]] {
        let refused = store.add_events(&request).await;
        let Err(StoreError::Contradicted { id }) = &refused else { panic!("{refused:?}") };
        assert_eq!(*id, request[1].id);
    }
    assert_eq!(store.history(0..100).await.unwrap().events, [first]);
}

#[tokio::test]
async fn runs_are_found_by_their_extent_and_steps_only_tell_how_far_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let steps = [event(50, 0, What::Step { step: 9 }), event(40, 0, What::Step { step: 8 })];
    let taken = store.add_events(&steps).await.unwrap();
    assert_eq!(taken.unjudged_from_ms, None, "nothing is judged by steps");
    store.add_events(&[event(10, 0, START), event(90, 1, START)]).await.unwrap();
    let history = store.history(60..70).await.unwrap();
    assert_eq!(history.events, [event(10, 0, START), event(90, 1, START)]);
    let far: Vec<_> = history.progress.iter().map(|p| (p.attempt, p.first_ms, p.last_ms, p.last_step)).collect();
    assert_eq!(far, [(0, 10, 50, Some(9)), (1, 90, 90, None)]);
    for window in [0..10, 91..100] {
        assert_eq!(store.history(window).await.unwrap(), History::default());
    }
}

#[tokio::test]
async fn what_is_not_judged_is_remembered_until_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.add_events(&[event(10, 0, START), event(20, 0, saved(1))]).await.unwrap();
    let mark = store.mark();
    store.add_events(&[event(40, 0, ended(Status::Failed))]).await.unwrap();
    store.close().await;
    let store = open(dir.path()).await;
    assert_eq!(store.unjudged_from(), Some(10));
    store.note_judged(mark).await.unwrap();
    store.close().await;
    let store = open(dir.path()).await;
    assert_eq!(store.unjudged_from(), Some(20), "what the crash changed");
    store.note_judged(store.mark()).await.unwrap();
    store.close().await;
    assert_eq!(open(dir.path()).await.unjudged_from(), None);
}

#[tokio::test]
async fn events_go_with_the_verdicts_of_their_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.add_events(&every_kind()).await.unwrap();
    assert_eq!(store.shared.database.forget_verdicts(30).await.unwrap(), 6);
    let history = store.history(0..100).await.unwrap();
    assert_eq!((history.events.len(), history.progress.len()), (1, 1));
}

/// Events of two attempts of a run, drawn by a number each.
fn drawn(numbers: &[u32]) -> Vec<Event> {
    let draw = |(n, number): (usize, &u32)| {
        let (kind, attempt, time) = (number % 6, number / 6 % 3, i64::from(number / 18 % 60));
        let what = match kind {
            0 => START,
            1 => What::Restore { step: u64::from(number % 7) },
            2 => ended(Status::ALL[n % Status::ALL.len()]),
            3 => What::Evaluation { seconds: 1.0 },
            _ => saved(u64::from(number % 11)),
        };
        let place = Place { node: Some(format!("n{}", number / 1080 % 2)), ..Place::default() };
        Event { id: format!("e{n}"), place, ..event(time, attempt, what) }
    };
    numbers.iter().enumerate().map(draw).collect()
}

#[test]
fn what_events_change_is_found_without_the_other_events_of_the_run() {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config::with_cases(24));
    let draws = proptest::collection::vec(any::<u32>(), 1..24);
    let outcome = runner.run(&draws, |numbers| {
        let events = drawn(&numbers);
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let store = open(dir.path()).await;
            for n in 0..events.len() {
                let taken = store.add_events(&events[n..=n]).await.unwrap();
                assert_eq!(taken.unjudged_from_ms, unjudged_from(&events[..n], &events[n..=n]), "{n}: {events:?}");
            }
            store.close().await;
        });
        Ok(())
    });
    outcome.unwrap();
}

#[tokio::test]
async fn a_save_is_stored_without_a_read_of_the_saves_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.add_events(&[event(1, 0, START)]).await.unwrap();
    let saves: Vec<Event> = (2..50).map(|time| event(time, 0, saved(time.cast_unsigned()))).collect();
    store.add_events(&saves).await.unwrap();
    // Were they read, they would be found to be bad, and set aside.
    sqlx::query("UPDATE events SET time_ms = 0 WHERE kind = 'checkpoint'")
        .execute(&store.shared.database.write)
        .await
        .unwrap();
    let taken = store.add_events(&[event(60, 0, saved(60))]).await.unwrap();
    assert_eq!((taken.stored, taken.unjudged_from_ms, store.stats().bad_rows), (1, Some(60), 0));
}
