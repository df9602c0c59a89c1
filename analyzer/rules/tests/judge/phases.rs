//! The phases of one GPU over an hour, minute by minute: one character says how the minute was, one what became of it.

use goodput_exposition::sample::{Labels, Sample, Series};
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_verdict::Class;

const MINUTE: i64 = 60_000;

/// `.` is free, `A` and `B` hold it without work, `b` is a burst of A's work of 6 s, `w` is work of A, a space is a hole.
fn series(minutes: &str) -> Vec<Series> {
    let sampled = |value: fn(char) -> f64, of: fn(char) -> bool| {
        let kept = minutes.chars().enumerate().filter(move |(_, c)| of(*c));
        let times = kept.flat_map(|(i, c)| [0, 30_000].map(|ms| (i as i64 * MINUTE + ms, c)));
        times.map(|(time_ms, c)| Sample { time_ms, value: value(c) }).collect::<Vec<_>>()
    };
    // The engine's activity is an average: it covers the time before.
    let before = |ms: i64| minutes.chars().nth(((ms - 1).max(0) / MINUTE) as usize).unwrap_or(' ');
    let averaged = |value: fn(char) -> f64, of: fn(char) -> bool| {
        let samples = sampled(value, of).into_iter();
        samples.map(|sample| Sample { value: value(before(sample.time_ms)), ..sample }).collect::<Vec<_>>()
    };
    let gpu = [("UUID", "GPU-1"), ("Hostname", "n1")];
    let one = |name, pod: Option<&'static str>, samples| {
        let labels = [("__name__", name)].into_iter().chain(gpu).chain(pod.map(|pod| ("pod", pod)));
        Series { labels: Labels::new(labels), samples }
    };
    let busy = |c| [('b', 0.1), ('w', 0.8)].iter().find(|(is, _)| *is == c).map_or(0.0, |(_, busy)| *busy);
    let memory = |c| if c == '.' { 0.0 } else { 40_000.0 };
    vec![
        one("DCGM_FI_PROF_GR_ENGINE_ACTIVE", None, averaged(busy, |c| c != ' ')),
        one("DCGM_FI_DEV_FB_USED", None, sampled(memory, |c| c != ' ')),
        one("DCGM_FI_DEV_GPU_UTIL", Some("a"), sampled(busy, |c| "Abw".contains(c))),
        one("DCGM_FI_DEV_GPU_UTIL", Some("b"), sampled(busy, |c| c == 'B')),
    ]
}

/// By minute: `c` for cold start, `i` for idle, `.` for unallocated, a space for no data, `?` for unexplained; where the
/// minute has several, that of what is not productive; `w` where nothing is lost.
fn phases(minutes: &str) -> String {
    let series = series(minutes);
    let end = minutes.len() as i64 * MINUTE;
    let judged = judge_series(&series, 0..end, &Thresholds::default()).unwrap();
    let of = |minute: i64| {
        let within = |start: i64, end: i64| start <= minute && minute < end;
        let lost = judged.intervals.iter().filter(|i| i.class != Class::Productive && within(i.start_ms, i.end_ms));
        lost.map(|i| i.class).next().map_or('w', |class| match class {
            Class::ColdStart => 'c',
            Class::IdleHeld => 'i',
            Class::Unallocated => '.',
            Class::NoData => ' ',
            _ => '?',
        })
    };
    (0..end).step_by(MINUTE as usize).map(of).collect()
}

#[test]
fn a_start_is_cut_after_twenty_minutes() {
    assert_eq!(phases(&format!(".....{}", "A".repeat(55))), format!(".....{}{}", "c".repeat(20), "i".repeat(35)));
}

#[test]
fn a_burst_does_not_end_a_start_but_work_does() {
    assert_eq!(phases("...AAbAAwwwwAAAwww"), "...ccccc??????????");
}

#[test]
fn another_owner_starts_anew() {
    assert_eq!(phases("...AAwwwwBBBBBBBB"), "...cc????cccccccc");
    assert_eq!(phases("wwwwAAAA......AAAA"), "????????......cccc");
}

#[test]
fn a_start_that_nobody_saw_is_none() {
    assert_eq!(phases("AAAAAAAA"), "iiiiiiii");
    assert_eq!(phases("..AA         AAAAAAAA"), "..cc         iiiiiiii");
}
