//! Starts of hours, in the verdicts on the GPUs of one run, minute by minute.

use std::ops::Range;

use goodput_exposition::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use goodput_rules::classify::{Thresholds, judge_onward, judge_series, judge_told};
use goodput_rules::told::Told;
use goodput_verdict::event::{Event, Place, RunId, Status, What};
use goodput_verdict::{Class, Interval};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// The minutes of a node with one GPU: `w` the pod `ml/a` works, `p` it keeps four CPUs busy for its start, `A` it holds
/// the GPU and waits, `.` the GPU is free.
fn series(node: &str, minutes: &str) -> Vec<Series> {
    let uuid = format!("GPU-{node}");
    let one = |name: &str, labels: &[(&str, &str)], value: &mut dyn FnMut(char, char) -> Option<f64>| {
        let mut before = '.';
        let samples = minutes.chars().enumerate().flat_map(|(minute, now)| {
            // The engine's activity is an average: it covers the time before.
            let both = [(0, before), (30_000, now)];
            before = now;
            both.map(|(ms, before)| (minute as i64 * MINUTE + ms, before, now))
        });
        let samples = samples.collect::<Vec<_>>().into_iter().map(|(time_ms, before, now)| Sample {
            time_ms,
            value: value(before, now).unwrap_or(f64::from_bits(STALE_BITS)),
        });
        let own = [("__name__", name), ("Hostname", node), ("instance", node)];
        Series { labels: Labels::new(own.iter().chain(labels).copied()), samples: samples.collect() }
    };
    let gpu = [("UUID", uuid.as_str())];
    let mut used = 0.0;
    vec![
        one("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &gpu, &mut |c, _| Some(if c == 'w' { 0.8 } else { 0.0 })),
        one("DCGM_FI_DEV_FB_USED", &gpu, &mut |_, c| Some(if c == '.' { 0.0 } else { 40_000.0 })),
        one("goodput_gpu_owner_info", &[gpu[0], ("owner", "ml/a")], &mut |_, c| (c != '.').then_some(1.0)),
        one("goodput_node_info", &[("nodename", node)], &mut |_, _| Some(1.0)),
        one("goodput_cgroup_cpu_usage_seconds_total", &[("owner", "ml/a")], &mut |c, _| {
            used += if "pw".contains(c) { 120.0 } else { 3.0 };
            Some(used)
        }),
    ]
}

/// The same with an XID that ends programs from a minute on.
fn crashing(node: &str, minutes: &str, xid_from: usize) -> Vec<Series> {
    let mut all = series(node, minutes);
    let mut xid = all[1].clone();
    let labels = xid.labels.iter().map(|(name, value)| match name {
        "__name__" => (name, "DCGM_FI_DEV_XID_ERRORS"),
        _ => (name, value),
    });
    xid.labels = Labels::new(labels);
    for sample in &mut xid.samples {
        sample.value = if sample.time_ms < xid_from as i64 * MINUTE { 0.0 } else { 31.0 };
    }
    all.push(xid);
    all
}

/// What most of each minute was: `L` lost work, `g` gang wait, `c` cold start, `i` idle, `w` productive, `.` unallocated.
fn classes(node: &str, minutes: usize, intervals: &[Interval]) -> String {
    let gpu = format!("GPU-{node}");
    let of = |minute: usize| {
        let time = minute as i64 * MINUTE;
        let own = intervals.iter().filter(|i| i.gpu == gpu && i.start_ms <= time && time < i.end_ms);
        own.max_by_key(|i| i.ms * HOUR / (i.end_ms - i.start_ms)).map_or('!', |i| match i.class {
            Class::Productive => 'w',
            Class::ColdStart => 'c',
            Class::GangWait => 'g',
            Class::LostWork => 'L',
            Class::IdleHeld => 'i',
            Class::Unallocated => '.',
            _ => '?',
        })
    };
    (0..minutes).map(of).collect()
}

fn judged(nodes: &[&str]) -> Vec<String> {
    let named = || nodes.iter().enumerate().map(|(n, minutes)| (format!("n{n}"), minutes));
    let all: Vec<Series> = named().flat_map(|(name, minutes)| series(&name, minutes)).collect();
    let end = nodes.iter().map(|minutes| minutes.len()).max().unwrap_or_default();
    let judged = judge_series(&all, 0..end as i64 * MINUTE, &Thresholds::default()).unwrap();
    named().map(|(name, minutes)| classes(&name, minutes.len(), &judged.intervals)).collect()
}

/// Runs of minutes, each of one character.
fn minutes_of(runs: &[(char, usize)]) -> String {
    runs.iter().map(|(c, count)| c.to_string().repeat(*count)).collect()
}

#[test]
fn gpus_wait_for_hours_for_the_last_of_their_gang() {
    let first = minutes_of(&[('.', 20), ('A', 160), ('w', 20)]);
    let second = minutes_of(&[('.', 70), ('A', 110), ('w', 20)]);
    let last = minutes_of(&[('.', 170), ('A', 10), ('w', 20)]);
    assert_eq!(
        judged(&[&first, &second, &last]),
        [
            minutes_of(&[('.', 20), ('g', 150), ('c', 10), ('w', 20)]),
            minutes_of(&[('.', 70), ('g', 100), ('c', 10), ('w', 20)]),
            minutes_of(&[('.', 170), ('c', 10), ('w', 20)]),
        ]
    );
}

#[test]
fn what_never_works_or_waits_for_nobody_is_idle() {
    let never = minutes_of(&[('.', 20), ('A', 180)]);
    let other = minutes_of(&[('.', 100), ('A', 100)]);
    let cut = |free: usize, held: usize| minutes_of(&[('.', free), ('c', 20), ('i', held - 20)]);
    assert_eq!(judged(&[&never, &other]), [cut(20, 180), cut(100, 100)], "the gang is there, and does nothing");
    let alone = minutes_of(&[('.', 20), ('A', 160), ('w', 20)]);
    assert_eq!(judged(&[&alone]), [minutes_of(&[('.', 20), ('c', 20), ('i', 140), ('w', 20)])]);
}

#[test]
fn a_start_goes_on_as_long_as_its_owner_works_for_it() {
    let loads = minutes_of(&[('.', 20), ('p', 90), ('w', 20)]);
    assert_eq!(judged(&[&loads]), [minutes_of(&[('.', 20), ('c', 90), ('w', 20)])]);
    let pauses = minutes_of(&[('.', 20), ('p', 40), ('A', 30), ('p', 20), ('w', 20)]);
    let told = &judged(&[&pauses])[0];
    // Five minutes after it the CPUs' work still shows a start.
    assert_eq!(*told, minutes_of(&[('.', 20), ('c', 45), ('i', 25), ('c', 20), ('w', 20)]));
    let ends = minutes_of(&[('.', 20), ('p', 90), ('.', 20)]);
    assert_eq!(judged(&[&ends]), [minutes_of(&[('.', 20), ('c', 20), ('i', 70), ('.', 20)])], "it came to nothing");
}

#[test]
fn a_long_start_after_a_crash_is_lost_as_well() {
    let minutes = minutes_of(&[('.', 20), ('p', 5), ('w', 60), ('.', 3), ('p', 90), ('w', 20)]);
    let all = crashing("n0", &minutes, 84);
    // No series shows what was written, so that the work before the crash is not called lost.
    let expected = minutes_of(&[('.', 20), ('c', 5), ('w', 60), ('.', 3), ('L', 90), ('w', 20)]);
    let judge = |window| judge_series(&all, window, &Thresholds::default()).unwrap().intervals;
    assert_eq!(classes("n0", minutes.len(), &judge(0..4 * HOUR)), expected);
    let hours: Vec<Interval> = (0..4).flat_map(|hour| judge(hour * HOUR..(hour + 1) * HOUR)).collect();
    assert_eq!(classes("n0", minutes.len(), &hours), expected);
}

#[test]
fn a_long_start_after_a_crash_that_the_job_told_is_lost_as_well() {
    let minutes = minutes_of(&[('.', 20), ('p', 5), ('w', 60), ('.', 40), ('p', 90), ('w', 20)]);
    let event = |minute: i64, attempt, what| Event {
        id: minute.to_string(),
        time_ms: minute * MINUTE,
        run: RunId { cluster: String::new(), name: "r".into() },
        attempt,
        rank: None,
        what,
        place: Place { namespace: Some("ml".into()), pod: Some("a".into()), ..Place::default() },
    };
    let start = What::Start { submitted_ms: None };
    let ended = |status| event(84, 0, What::End { status });
    let told = |status| Told::of(&[event(21, 0, start), ended(status), event(126, 1, start)]);
    let judge = |status, window| {
        let told = told(status);
        judge_told(&series("n0", &minutes), &[], told, window, &Thresholds::default()).intervals
    };
    let of = |status| classes("n0", minutes.len(), &judge(status, 0..4 * HOUR));
    // What it worked before the crash that it reported, without any checkpoint, is lost too.
    let expected = minutes_of(&[('.', 20), ('c', 5), ('L', 59), ('w', 1), ('.', 40), ('L', 90), ('w', 20)]);
    assert_eq!(of(Status::Failed), expected);
    let hours: Vec<Interval> = (0..4).flat_map(|hour| judge(Status::Failed, hour * HOUR..(hour + 1) * HOUR)).collect();
    assert_eq!(classes("n0", minutes.len(), &hours), expected);
    assert_eq!(
        of(Status::Completed),
        minutes_of(&[('.', 20), ('c', 5), ('w', 60), ('.', 40), ('c', 90), ('w', 20)]),
        "what ended well lost nothing"
    );
}

#[test]
fn a_start_of_more_than_four_hours_is_none() {
    let first = minutes_of(&[('.', 20), ('A', 250), ('w', 20)]);
    let last = minutes_of(&[('.', 265), ('A', 5), ('w', 20)]);
    assert_eq!(judged(&[&first, &last])[0], minutes_of(&[('.', 20), ('c', 20), ('i', 230), ('w', 20)]));
}

#[test]
fn hours_of_a_start_are_judged_alike_one_by_one_and_at_once() {
    let nodes = [minutes_of(&[('.', 20), ('A', 200), ('w', 20)]), minutes_of(&[('.', 210), ('A', 10), ('w', 20)])];
    let all: Vec<Series> = [series("n0", &nodes[0]), series("n1", &nodes[1])].concat();
    let judge = |seen: &[_], window: Range<TimeMs>| judge_onward(&all, seen, window, &Thresholds::default()).unwrap();
    let once = judge(&[], 0..4 * HOUR);
    assert_eq!(once.restates_from_ms, Some(20 * MINUTE));
    let (mut parts, mut seen) = (Vec::new(), Vec::new());
    for hour in 0..4 {
        let part = judge(&seen, hour * HOUR..(hour + 1) * HOUR);
        assert_eq!(part.restates_from_ms, (hour == 3).then_some(20 * MINUTE), "it ends in the last of them");
        (parts, seen) = ([parts, part.intervals].concat(), part.seen);
    }
    // One by one they come in order of time, at once in order of GPU.
    parts.sort_by(|a, b| (&a.gpu, a.start_ms.div_euclid(HOUR)).cmp(&(&b.gpu, b.start_ms.div_euclid(HOUR))));
    assert_eq!(parts, once.intervals);
}
