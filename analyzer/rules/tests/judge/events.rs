//! What jobs tell of themselves, in the verdicts on one GPU, minute by minute.

use goodput_exposition::sample::{Labels, Sample, Series};
use goodput_rules::classify::{Judged, Thresholds, judge_told};
use goodput_rules::told::Told;
use goodput_verdict::Class;
use goodput_verdict::event::{Event, Place, RunId, Status, What};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

const START: What = What::Start { submitted_ms: None };

/// `.` is free; the pod `ml/a` works at 0.8 in `w` and holds the GPU without work in `A`.
fn series(minutes: &str) -> Vec<Series> {
    let one = |name, labels: &[(&str, &str)], value: fn(char) -> Option<f64>| {
        let samples = minutes.chars().enumerate().filter_map(|(i, c)| Some((i as i64 * MINUTE, value(c)?)));
        let twice = samples.flat_map(|(time, value)| [0, 30_000].map(|ms| Sample { time_ms: time + ms, value }));
        let own = [("__name__", name), ("UUID", "GPU-1"), ("Hostname", "n1")];
        Series { labels: Labels::new(own.iter().chain(labels).copied()), samples: twice.collect() }
    };
    // The engine's activity is an average: it covers the time before.
    let before = |ms: i64| minutes.chars().nth(((ms - 1).max(0) / MINUTE) as usize).unwrap_or('.');
    let mut engine = one("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &[], |c| Some(busy(c)));
    engine.samples.iter_mut().for_each(|sample| sample.value = busy(before(sample.time_ms)));
    vec![
        engine,
        one("DCGM_FI_DEV_FB_USED", &[], |c| Some(if c == '.' { 0.0 } else { 40_000.0 })),
        one("DCGM_FI_DEV_GPU_UTIL", &[("pod", "a"), ("namespace", "ml")], |c| (c != '.').then(|| busy(c))),
    ]
}

fn busy(minute: char) -> f64 {
    if minute == 'w' { 0.8 } else { 0.0 }
}

/// Events of attempts at the run `r`, at these minutes.
fn told(events: &[(f64, u32, What)]) -> Told {
    let event = |(minute, attempt, what): &(f64, u32, What)| Event {
        id: format!("{minute} {attempt}"),
        time_ms: (minute * MINUTE as f64) as i64,
        run: RunId { cluster: String::new(), name: "r".into() },
        attempt: *attempt,
        rank: None,
        what: *what,
        place: Place { namespace: Some("ml".into()), pod: Some("a".into()), ..Place::default() },
    };
    Told::of(&events.iter().map(event).collect::<Vec<_>>())
}

fn judged(minutes: &str, events: &[(f64, u32, What)]) -> Judged {
    let end = minutes.len() as i64 * MINUTE;
    judge_told(&series(minutes), &[], told(events), 0..end, &Thresholds::default())
}

/// What most of each minute was: `w` productive, `L` lost work, `c` cold start, `i` idle, `.` unallocated.
fn classes(minutes: &str, events: &[(f64, u32, What)]) -> String {
    let judged = judged(minutes, events);
    let of = |minute: usize| {
        let time = minute as i64 * MINUTE;
        let within = judged.intervals.iter().filter(|i| i.start_ms <= time && time < i.end_ms);
        let share = |i: &&goodput_verdict::Interval| i.ms * HOUR / (i.end_ms - i.start_ms);
        within.max_by_key(share).map_or(' ', |i| match i.class {
            Class::Productive => 'w',
            Class::LostWork => 'L',
            Class::ColdStart => 'c',
            Class::IdleHeld => 'i',
            Class::Unallocated => '.',
            _ => '?',
        })
    };
    (0..minutes.len()).map(of).collect()
}

fn saved(step: u64) -> What {
    What::Checkpoint { step, seconds: None }
}

fn ended(status: Status) -> What {
    What::End { status }
}

#[test]
fn work_since_the_last_checkpoint_and_the_next_start_are_lost() {
    let gpu = "..AAwwwwwwww......AAwwww";
    let crash = (12.0, 0, ended(Status::Failed));
    for (events, expected) in [
        (&[][..], "..ccwwwwwwww......ccwwww"),
        (&[(2.0, 0, START), (8.0, 0, saved(1)), crash, (18.0, 1, START)], "..ccwwwwLLLL......LLwwww"),
        (&[(2.0, 0, START), crash, (18.0, 1, START)], "..ccLLLLLLLL......LLwwww"),
        // No event reports the crash, but there is a next attempt.
        (&[(2.0, 0, START), (8.0, 0, saved(1)), (18.0, 1, START)], "..ccwwwwLLLL......LLwwww"),
        // The last checkpoint was no good.
        (
            &[(2.0, 0, START), (6.0, 0, saved(1)), (8.0, 0, saved(2)), crash, (18.0, 1, What::Restore { step: 1 })],
            "..ccwwLLLLLL......LLwwww",
        ),
        (
            &[(2.0, 0, START), (8.0, 0, saved(1)), (12.0, 0, ended(Status::Completed)), (18.0, 1, START)],
            "..ccwwwwwwww......ccwwww",
        ),
    ] {
        assert_eq!(classes(gpu, events), expected, "{events:?}");
    }
}

#[test]
fn an_attempt_that_begins_anew_in_its_place_is_seen() {
    let gpu = "..AAwwwwwwwwAAAwwww";
    let events = [(2.0, 0, START), (10.0, 0, saved(1)), (12.0, 0, ended(Status::Failed)), (13.0, 1, START)];
    assert_eq!(classes(gpu, &events), "..ccwwwwwwLLLLLwwww");
}

#[test]
fn a_minute_is_lost_from_the_checkpoint_on() {
    let events = [(2.0, 0, START), (8.5, 0, saved(1)), (10.0, 0, ended(Status::Preempted))];
    let judged = judged("..AAwwwwww..", &events);
    let lost = judged.intervals.iter().filter(|i| i.class == Class::LostWork);
    assert_eq!(lost.clone().map(|i| i.ms).sum::<i64>(), MINUTE * 8 / 10 * 3 / 2);
    let evidence = &lost.max_by_key(|i| i.start_ms).unwrap().evidence;
    assert_eq!((evidence[0].signal.as_str(), evidence[0].value), ("crash after the last checkpoint told", 90.0));
}

#[test]
fn hours_of_a_loss_are_judged_alike_one_by_one_and_at_once() {
    let gpu = format!("..{}{}", "w".repeat(150), ".".repeat(28));
    let events = [(2.0, 0, START), (10.0, 0, saved(1)), (152.0, 0, ended(Status::Failed))];
    let once = judged(&gpu, &events);
    let (mut parts, mut seen) = (Vec::new(), Vec::new());
    for hour in 0..3 {
        let window = hour * HOUR..(hour + 1) * HOUR;
        let part = judge_told(&series(&gpu), &seen, told(&events), window, &Thresholds::default());
        (parts, seen) = ([parts, part.intervals].concat(), part.seen);
    }
    let lost: i64 = once.intervals.iter().filter(|i| i.class == Class::LostWork).map(|i| i.ms).sum();
    assert_eq!(lost, 142 * MINUTE * 8 / 10);
    assert_eq!(parts, once.intervals);
}
