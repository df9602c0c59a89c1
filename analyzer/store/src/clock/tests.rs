//! A clock that steps, and senders that disagree with it.

use super::*;

const MINUTE_MS: i64 = 60_000;
const YEAR_MS: i64 = 365 * SOUND_MS;
const START: Reading = Reading { wall_ms: 1_700_000_000_000, since_boot_ms: 50_000 };

fn state() -> State {
    let anchor = Anchor::at(START);
    State { admission: anchor, retention: anchor, senders: HashMap::new(), contradicted_ms: None, doubt: None }
}

/// So long after the start, with a clock that is wrong by so much.
fn after(ms: i64, wrong_by_ms: i64) -> Reading {
    Reading { wall_ms: START.wall_ms + ms + wrong_by_ms, since_boot_ms: START.since_boot_ms + ms }
}

/// What a second since the start shows: is the clock in doubt, and how far is retention's time from the right one?
fn seen(state: &mut State, now: Reading) -> (bool, i64) {
    state.look(now);
    let right = START.wall_ms + now.since_boot_ms - START.since_boot_ms;
    (state.doubt.is_some(), state.retention.believed(now) - right)
}

#[test]
fn a_step_is_in_doubt_until_it_is_taken_back() {
    for step in [YEAR_MS, HOUR_MS, 2 * MINUTE_MS, -15 * MINUTE_MS, -YEAR_MS] {
        let mut state = state();
        assert_eq!(seen(&mut state, after(1000, 0)), (false, 0));
        assert_eq!(seen(&mut state, after(2000, step)), (true, step.min(0)), "{step}");
        assert_eq!(seen(&mut state, after(75_000, step)), (true, step.min(0)), "{step}");
        assert_eq!(seen(&mut state, after(76_000, 0)), (false, 0), "{step}");
    }
}

#[test]
fn a_clock_that_drifts_is_followed() {
    let mut state = state();
    for minute in 1..2000 {
        assert!(!seen(&mut state, after(minute * MINUTE_MS, minute * 30)).0, "{minute}");
    }
}

#[test]
fn a_step_is_believed_after_an_hour_and_by_retention_after_a_day() {
    let mut state = state();
    let at = |hours: i64| after(hours * HOUR_MS + MINUTE_MS, YEAR_MS);
    assert_eq!(seen(&mut state, after(MINUTE_MS, YEAR_MS)), (true, 0));
    assert_eq!(seen(&mut state, at(1)), (false, 0));
    assert_eq!(seen(&mut state, at(23)), (false, 0));
    assert_eq!(seen(&mut state, at(24)), (false, YEAR_MS));
}

#[test]
fn senders_confirm_a_step_one_for_admission_and_two_for_retention() {
    let mut state = state();
    assert_eq!(seen(&mut state, after(MINUTE_MS, HOUR_MS)), (true, 0));
    state.hear(&"a".into(), after(MINUTE_MS, HOUR_MS), 10, 0);
    assert_eq!(seen(&mut state, after(MINUTE_MS, HOUR_MS)), (false, 0));
    state.hear(&"b".into(), after(MINUTE_MS, HOUR_MS), 10, 0);
    assert_eq!(seen(&mut state, after(MINUTE_MS, HOUR_MS)), (false, HOUR_MS));
}

#[test]
fn what_was_said_before_a_step_does_not_confirm_it() {
    let mut state = state();
    for sender in ["a", "b"] {
        state.hear(&sender.into(), after(1000, 0), 10, 0);
    }
    assert_eq!(seen(&mut state, after(1000, 0)), (false, 0));
    assert_eq!(seen(&mut state, after(2000, YEAR_MS)), (true, 0));
}

#[test]
fn how_long_the_analyzer_was_stopped_is_not_known() {
    for (stopped_for, wrong_by, seen_by_retention) in [
        (HOUR_MS, 0, 0),
        (0, YEAR_MS, 0),
        (HOUR_MS, YEAR_MS, -HOUR_MS),
        (3 * SOUND_MS, 0, -3 * SOUND_MS),
        (0, -HOUR_MS, -HOUR_MS),
    ] {
        let mut state = state();
        state.retention.at.wall_ms -= stopped_for;
        state.retention.stopped_ms = STOPPED_MS;
        assert_eq!(seen(&mut state, after(0, wrong_by)).1, seen_by_retention, "{stopped_for} {wrong_by}");
        let later = if stopped_for > SOUND_MS { -stopped_for } else { 0 };
        assert_eq!(seen(&mut state, after(1000, 0)).1, later, "the clock is right");
    }
}

#[test]
fn only_several_senders_that_bring_most_samples_contradict_a_clock_that_did_not_step() {
    for (heard, doubt) in [
        (&[("a", 0, 1000)][..], false),
        (&[("a", 0, 10), ("b", 0, 10)], true),
        (&[("a", 0, 10), ("b", 0, 10), ("c", 100, 0)], false),
        (&[("a", 10, 0), ("b", 0, 100)], false),
    ] {
        let mut state = state();
        for (sender, agree, ahead) in heard {
            state.hear(&(*sender).into(), after(0, 0), *agree, *ahead);
        }
        assert_eq!(seen(&mut state, after(0, 0)).0, doubt, "{heard:?}");
        assert!(!seen(&mut state, after(HEARD_MS + 1, 0)).0, "what was said long ago counts no more");
    }
}
