use super::*;
use goodput_verdict::{Class, FindingAction, Message, MessageState};

const MONDAY: TimeMs = 1_795_392_000_000; // 2026-11-23, a Monday
const HOUR: i64 = 3_600_000;

/// The start of the week of this number, from 0.
fn monday(n: i64) -> TimeMs {
    MONDAY + n * WEEK_MS
}

fn week(n: i64, lost_hours: i64, ran_hours: i64, is_first: bool) -> FindingWeek {
    FindingWeek {
        week: label(monday(n)),
        id: "f".to_owned(),
        start_ms: monday(n),
        end_ms: monday(n + 1),
        cluster: None,
        class: Class::IdleHeld,
        subject: "jupyter-*".to_owned(),
        team: Some("vision".to_owned()),
        lost_ms: lost_hours * HOUR,
        ran_ms: ran_hours * HOUR,
        currency: Some("EUR".to_owned()),
        lost_micro: Some(lost_hours * 2_000_000),
        is_first,
    }
}

/// What a person says a day after the start of a week.
fn said(seq: i64, n: i64, wish: Wish) -> FindingEvent {
    FindingEvent { seq, ..check("f", wish, "ann", monday(n) + DAY_MS).unwrap() }
}

fn wish(action: &str) -> Wish {
    Wish { action: action.to_owned(), ..Wish::default() }
}

fn with(action: &str, change: impl FnOnce(&mut Wish)) -> Wish {
    let mut wish = wish(action);
    change(&mut wish);
    wish
}

/// What happens to a finding: a row of the table.
enum Step {
    /// Someone says this in the week of this number.
    Says(i64, Wish),
    /// The week of this number lost and ran this many hours; it is large enough to be acted on from 10 hours.
    Week(i64, i64, i64),
}
use Step::{Says, Week};

/// What it is about, what happens, and where the finding stands at the start of the week of this number, and why.
type Row = (&'static str, Vec<Step>, i64, State, Option<Reopened>);

fn told(steps: Vec<Step>, at_week: i64) -> (State, Option<Reopened>, Standing) {
    let (mut events, mut weeks) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            Says(n, wish) => events.push(said(events.len() as i64 + 1, n, wish)),
            Week(n, lost, ran) => weeks.push(week(n, lost, ran, lost >= 10)),
        }
    }
    let standing = Book::of(events, weeks).standing("f", monday(at_week));
    (standing.state, standing.reopened, standing)
}

#[test]
fn states_are_the_fold_of_what_was_said_and_of_weeks() {
    let snooze = |n: i64, days: i64| Says(n, with("snooze", |w| w.until_ms = Some(monday(n) + (days + 1) * DAY_MS)));
    let accept = |n: i64| Says(n, with("accept", |w| w.comment = Some("needed".to_owned())));
    let says = |n: i64, action: &str| Says(n, wish(action));
    let rows: Vec<Row> = vec![
        ("nothing was said", vec![], 1, State::Open, None),
        ("acknowledged", vec![says(0, "acknowledge")], 1, State::Acknowledged, None),
        ("claimed without more", vec![says(0, "claim")], 1, State::FixClaimed, None),
        ("claimed after that", vec![says(0, "acknowledge"), says(1, "claim")], 2, State::FixClaimed, None),
        ("a remark changes nothing", vec![says(0, "acknowledge"), says(0, "assign")], 1, State::Acknowledged, None),
        ("opened again", vec![says(0, "claim"), says(1, "reopen")], 2, State::Open, None),
        ("snoozed", vec![snooze(0, 30)], 4, State::Snoozed, None),
        ("to the day", vec![snooze(0, 30)], 5, State::Open, Some(Reopened::SnoozeOver)),
        (
            "back to what it was",
            vec![says(0, "acknowledge"), snooze(0, 30)],
            5,
            State::Acknowledged,
            Some(Reopened::SnoozeOver),
        ),
        (
            "also where it was snoozed twice",
            vec![says(0, "acknowledge"), snooze(0, 5), snooze(0, 12)],
            3,
            State::Acknowledged,
            Some(Reopened::SnoozeOver),
        ),
        ("it grew by less than half", vec![Week(0, 10, 99), snooze(1, 80), Week(1, 14, 99)], 4, State::Snoozed, None),
        (
            "it grew by half",
            vec![Week(0, 10, 99), snooze(1, 80), Week(1, 15, 99)],
            4,
            State::Open,
            Some(Reopened::Grew),
        ),
        ("it grew and is small", vec![Week(0, 2, 99), snooze(1, 80), Week(1, 9, 99)], 4, State::Snoozed, None),
        (
            "it grew bit by bit",
            vec![Week(0, 10, 99), snooze(1, 80), Week(1, 13, 99), Week(2, 16, 99)],
            4,
            State::Open,
            Some(Reopened::Grew),
        ),
        ("accepted", vec![accept(0)], 25, State::Accepted, None),
        ("the review is due", vec![accept(0)], 27, State::Open, Some(Reopened::ReviewDue)),
        (
            "growth does not end what was accepted",
            vec![Week(0, 10, 99), accept(1), Week(1, 90, 99)],
            4,
            State::Accepted,
            None,
        ),
        ("one week without it", vec![Week(0, 10, 99), Week(1, 0, 99)], 9, State::Open, None),
        ("two weeks without it", vec![Week(0, 10, 99), Week(1, 0, 99), Week(2, 0, 99)], 9, State::Gone, None),
        ("without its owner", vec![Week(0, 10, 99), Week(1, 0, 0), Week(2, 0, 0)], 9, State::Open, None),
        ("without any word of it", vec![Week(0, 10, 99)], 9, State::Open, None),
        (
            "weeks without its owner say nothing",
            vec![Week(0, 10, 99), Week(1, 0, 99), Week(2, 0, 0), Week(3, 0, 99)],
            9,
            State::Gone,
            None,
        ),
        (
            "back",
            vec![says(0, "acknowledge"), Week(0, 10, 99), Week(1, 0, 99), Week(2, 0, 99), Week(3, 1, 99)],
            9,
            State::Open,
            Some(Reopened::Back),
        ),
        (
            "what was claimed is said though it is gone",
            vec![Week(0, 10, 99), says(1, "claim"), Week(1, 0, 99), Week(2, 0, 99)],
            9,
            State::FixClaimed,
            None,
        ),
        (
            "and ends when it is back",
            vec![Week(0, 10, 99), says(1, "claim"), Week(1, 0, 99), Week(2, 0, 99), Week(3, 9, 99)],
            9,
            State::Open,
            Some(Reopened::Back),
        ),
        (
            "opened though it is gone",
            vec![Week(0, 10, 99), Week(1, 0, 99), Week(2, 0, 99), says(3, "reopen")],
            4,
            State::Open,
            None,
        ),
    ];
    for (name, steps, at_week, state, reopened) in rows {
        let (found, why, standing) = told(steps, at_week);
        assert_eq!((found, why), (state, reopened), "{name}: {standing:?}");
    }
}

#[test]
fn what_was_measured_of_a_fix_is_a_state_that_no_person_sets() {
    let of = |action| FindingEvent { action, ..said(2, 1, wish("claim")) };
    for (action, state) in
        [(FindingAction::Verified, State::Verified), (FindingAction::NotVerified, State::NotVerified)]
    {
        let book = Book::of(vec![said(1, 0, wish("claim")), of(action)], Vec::new());
        assert_eq!(book.standing("f", monday(3)).state, state);
        let error = check("f", wish(action.name()), "ann", MONDAY).unwrap_err();
        assert!(error.field == "action" && !error.expected.contains("verified"), "{error:?}");
    }
}

#[test]
fn names_tickets_and_numbers_are_the_last_ones() {
    let steps = vec![
        Says(0, with("assign", |w| w.assignee = Some("bob".to_owned()))),
        Says(0, with("acknowledge", |w| w.url = Some("https://t.example/1".to_owned()))),
        Says(1, with("comment", |w| w.comment = Some("soon".to_owned()))),
    ];
    let (.., standing) = told(steps, 2);
    let expected = ("ann", Some("bob"), Some("https://t.example/1"), 3, None);
    let Standing { by, assignee, url, seq, reason, .. } = &standing;
    assert_eq!((by.as_deref().unwrap(), assignee.as_deref(), url.as_deref(), *seq, reason.as_deref()), expected);
    let book = Book::of(vec![said(1, 0, with("snooze", |w| w.until_ms = Some(monday(2))))], Vec::new());
    let words = book.ownership("f", monday(1), (monday(1), &TimeZone::UTC)).words;
    assert_eq!(words, ["snoozed until 2026-12-07 by ann"]);
}

#[test]
fn a_finding_is_new_or_back_only_where_weeks_before_tell_it() {
    let other = FindingWeek { id: "other".to_owned(), ..week(0, 1, 1, false) };
    let mark = |weeks: Vec<FindingWeek>| Book::of(Vec::new(), weeks).mark("f", monday(6));
    assert_eq!(mark(vec![]), None, "nothing is known of weeks before");
    assert_eq!(mark(vec![other.clone()]), Some(Mark::New));
    assert_eq!(mark(vec![other.clone(), week(5, 1, 9, false)]), None, "last week");
    assert_eq!(mark(vec![other.clone(), week(6, 1, 9, false)]), Some(Mark::New), "of this week");
    let without = |n| week(n, 0, 9, false);
    assert_eq!(mark(vec![week(0, 1, 9, false), without(1)]), None, "one week may be chance");
    assert_eq!(mark(vec![week(0, 1, 9, false), without(1), without(2)]), Some(Mark::BackAfterWeeks(5)));
    let words = |mark| words::words(&fold::standing(&[], &[], 0), Some(mark), &TimeZone::UTC);
    assert_eq!(words(Mark::BackAfterWeeks(5)), ["back after 5 weeks"]);
    assert_eq!(words(Mark::New), ["new"]);
}

#[test]
fn what_may_not_be_said_is_named() {
    let long = "x".repeat(MAX_COMMENT + 1);
    for (wish, field, expected) in [
        (wish("forget"), "action", "one of acknowledge, claim, snooze, accept, assign, comment, reopen"),
        (wish("snooze"), "until", "a time to come, in 90 days at most"),
        (with("snooze", |w| w.until_ms = Some(MONDAY)), "until", "a time to come"),
        (
            with("snooze", |w| w.until_ms = Some(MONDAY + 90 * DAY_MS + 1)),
            "until",
            "a time to come, in 90 days at most",
        ),
        (wish("accept"), "comment", "the reason"),
        (with("accept", |w| w.comment = Some(" \r\n".to_owned())), "comment", "the reason"),
        (
            with("accept", |w| (w.comment, w.until_ms) = (Some("a".to_owned()), Some(MONDAY + 181 * DAY_MS))),
            "until",
            "a time to come, in 180 days at most",
        ),
        (with("claim", |w| w.until_ms = Some(MONDAY + 1)), "until", "none, but with snooze and accept"),
        (wish("comment"), "comment", "a text"),
        (with("comment", |w| w.comment = Some(long.clone())), "comment", "at most 4096 bytes"),
        (with("comment", |w| w.comment = Some("a\0b".to_owned())), "comment", "at most 4096 bytes without control"),
        (with("claim", |w| w.assignee = Some("bob".to_owned())), "assignee", "none, but with assign"),
        (with("assign", |w| w.assignee = Some("b\nb".to_owned())), "assignee", "at most 200 bytes"),
        (with("claim", |w| w.url = Some("javascript:alert(1)".to_owned())), "url", "an address that begins with https"),
        (with("claim", |w| w.url = Some("https:///x".to_owned())), "url", "an address"),
        (with("claim", |w| w.url = Some("ftp://a.b/c".to_owned())), "url", "an address"),
        (with("claim", |w| w.url = Some("https://a.b/c d".to_owned())), "url", "at most 2048 bytes"),
    ] {
        let error = check("f", wish.clone(), "ann", MONDAY).unwrap_err();
        assert!(error.field == field && error.expected.starts_with(expected), "{wish:?}: {error:?}");
    }
    assert_eq!(check("f", wish("claim"), " ", MONDAY).unwrap_err().field, "actor");
    let kept = with("comment", |w| w.comment = Some(" two\r\nlines\t<b> ".to_owned()));
    assert_eq!(check("f", kept, "ann", MONDAY).unwrap().comment.as_deref(), Some("two\nlines\t<b>"));
    let whole = with("comment", |w| w.comment = Some("é".repeat(MAX_COMMENT / 2)));
    check("f", whole, "ann", MONDAY).unwrap();
}

#[test]
fn who_comes_again_and_again_is_listed_with_what_it_cost_and_what_was_said() {
    let mut weeks: Vec<FindingWeek> = [0, 5, 6].map(|n| week(n, 10, 99, true)).into();
    weeks.push(week(7, 2, 99, false));
    weeks.push(FindingWeek { id: "once".to_owned(), ..week(5, 500, 500, true) });
    weeks.push(FindingWeek { id: "old".to_owned(), ..week(-20, 10, 99, true) });
    weeks.push(FindingWeek { id: "old".to_owned(), ..week(6, 10, 99, true) });
    let message = |contact: &str, state, day: i64, id: &str| Message {
        destination: "people".to_owned(),
        contact: contact.to_owned(),
        week: "2026-W49".to_owned(),
        version: 1,
        digest: 1,
        state,
        attempts: 1,
        next_ms: 0,
        message_id: "a@b".to_owned(),
        time_ms: monday(8) - day * DAY_MS - HOUR,
        findings: vec![id.to_owned()],
        reason: None,
    };
    let messages = [
        message("a", MessageState::Sent, 9, "f"),
        message("b", MessageState::Sent, 2, "f"),
        message("c", MessageState::Refused, 1, "f"),
        message("d", MessageState::Sent, 1, "once"),
    ];
    let book = Book::of(vec![said(1, 6, with("assign", |w| w.assignee = Some("bob".to_owned())))], weeks);
    let all = offenders(&book, &messages, monday(8));
    let [only] = &all[..] else { panic!("{all:?}") };
    assert_eq!((only.id.as_str(), only.team.as_deref(), only.owner.as_str()), ("f", Some("vision"), "jupyter-*"));
    assert_eq!((only.weeks, only.last_week.as_str()), (3, label(monday(6)).as_str()));
    assert_eq!((only.messages, only.days_since_message), (2, Some(2)));
    assert!((only.gpu_hours - 32.0).abs() < 1e-9, "{only:?}");
    assert_eq!((only.currency.as_deref(), only.cost), (Some("EUR"), Some(64.0)));
    assert_eq!(only.assignee.as_deref(), Some("bob"));
}
