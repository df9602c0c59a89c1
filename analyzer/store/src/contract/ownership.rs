//! What every store of results does with what people say about findings.

use goodput_verdict::{Class, FindingAction, FindingEvent, FindingWeek};

use crate::{Results, Said};

/// Something said about a finding, with all that an event may have.
pub(crate) fn said(id: &str, action: FindingAction) -> FindingEvent {
    FindingEvent {
        seq: 0,
        id: id.to_owned(),
        time_ms: 5,
        actor: "ann".to_owned(),
        action,
        until_ms: Some(7),
        assignee: Some("bob".to_owned()),
        comment: Some("\"quoted\"\n<b>größe</b>".to_owned()),
        url: Some("https://tickets.example/1".to_owned()),
    }
}

/// A finding of a week.
pub(crate) fn week(week: &str, id: &str) -> FindingWeek {
    FindingWeek {
        week: week.to_owned(),
        id: id.to_owned(),
        start_ms: 1,
        end_ms: 9,
        cluster: None,
        class: Class::IdleHeld,
        subject: "jupyter-*".to_owned(),
        team: Some("vision".to_owned()),
        lost_ms: 3,
        ran_ms: 4,
        currency: Some("EUR".to_owned()),
        lost_micro: Some(-5),
        is_first: true,
    }
}

/// The suite, over a store in which nothing was said.
pub(crate) async fn holds(store: &impl Results) {
    assert_eq!(store.finding_events().await.unwrap(), []);
    let bare =
        FindingEvent { until_ms: None, assignee: None, comment: None, url: None, ..said("a", FindingAction::Reopen) };
    let mut expected = Vec::new();
    let all = [(said("b", FindingAction::Comment), 1), (said("a", FindingAction::Snooze), 1), (bare, 2)];
    for (event, seq) in all {
        assert_eq!(store.say(None, &event).await.unwrap(), Said::Stored { seq });
        expected.push(FindingEvent { seq, ..event });
    }
    expected.rotate_left(1);
    assert_eq!(store.finding_events().await.unwrap(), expected);

    // Who knew an earlier event of the finding is too late; events of other findings change nothing.
    let late = said("a", FindingAction::Claim);
    assert_eq!(store.say(Some(1), &late).await.unwrap(), Said::TooLate { last: 2 });
    assert_eq!(store.say(Some(3), &said("c", FindingAction::Claim)).await.unwrap(), Said::TooLate { last: 0 });
    assert_eq!(store.finding_events().await.unwrap(), expected);
    assert_eq!(store.say(Some(2), &late).await.unwrap(), Said::Stored { seq: 3 });
    assert_eq!(store.say(Some(0), &said("c", FindingAction::Claim)).await.unwrap(), Said::Stored { seq: 1 });

    let all = [week("2026-W46", "a"), week("2026-W47", "a"), week("2026-W47", "b")];
    store.note_finding_week("2026-W47", &all[1..]).await.unwrap();
    store.note_finding_week("2026-W46", &all[..1]).await.unwrap();
    assert_eq!(store.finding_weeks(["2026-W46", "2026-W47"]).await.unwrap(), all);
    let none = FindingWeek { cluster: Some("east".to_owned()), team: None, currency: None, ..week("2026-W47", "c") };
    let none = FindingWeek { lost_micro: None, lost_ms: 0, is_first: false, ..none };
    store.note_finding_week("2026-W47", std::slice::from_ref(&none)).await.unwrap();
    assert_eq!(store.finding_weeks(["2026-W47", "2026-W47"]).await.unwrap(), [none]);
    assert_eq!(store.finding_weeks(["2026-W46", "2026-W46"]).await.unwrap(), all[..1]);
}

/// 1,000 events at once, of two hundred findings: all are there, each once. Of those that say which event they follow, one
/// is first.
pub(crate) async fn loses_no_event<S: Results + Clone + 'static>(store: &S) {
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..1_000 {
        let store = store.clone();
        let event = FindingEvent { time_ms: n, ..said(&format!("finding-{}", n % 200), FindingAction::Comment) };
        tasks.spawn(async move { (n, store.say(None, &event).await.unwrap()) });
    }
    let mut told: Vec<(String, i64, i64)> = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let (n, Said::Stored { seq }) = done.unwrap() else { panic!("nothing was to be followed") };
        told.push((format!("finding-{}", n % 200), seq, n));
    }
    told.sort_unstable();
    let stored = store.finding_events().await.unwrap();
    assert_eq!(stored.iter().map(|event| (event.id.clone(), event.seq, event.time_ms)).collect::<Vec<_>>(), told);
    for of_one in told.chunk_by(|a, b| a.0 == b.0) {
        assert_eq!(of_one.iter().map(|(_, seq, _)| *seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    }

    for n in 0..20 {
        let store = store.clone();
        let event = FindingEvent { time_ms: n, ..said("contested", FindingAction::Acknowledge) };
        tasks.spawn(async move { (n, store.say(Some(0), &event).await.unwrap()) });
    }
    let mut first = 0;
    while let Some(done) = tasks.join_next().await {
        first += usize::from(matches!(done.unwrap(), (_, Said::Stored { .. })));
    }
    assert_eq!(first, 1);
}
