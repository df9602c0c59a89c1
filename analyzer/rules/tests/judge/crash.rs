//! Crashes that signals tell of, in the verdicts on the GPUs of one run, minute by minute.

use std::collections::BTreeMap;
use std::ops::Range;

use goodput_exposition::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use goodput_rules::classify::{Thresholds, judge_onward, judge_series};
use goodput_verdict::{Class, Interval};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// The minutes of one node with one GPU: `w` the pod `ml/a` works, `s` it saves while it works, `A` it holds the GPU
/// without work, `2` works next to a second pod, `.` the GPU is free, ` ` nothing is scraped.
struct Node<'a> {
    name: &'a str,
    minutes: &'a str,
    /// The last XID, from a minute on.
    xid: Option<(usize, f64)>,
    /// The minute in which the kernel started, if that is after the first.
    booted: Option<usize>,
}

const N1: Node<'_> = Node { name: "n1", minutes: "", xid: None, booted: None };

impl Node<'_> {
    fn series(&self) -> Vec<Series> {
        let one = |name: &str, labels: &[(&str, &str)], value: &dyn Fn(usize, char) -> Option<f64>| {
            let mut samples = Vec::new();
            for (minute, c) in self.minutes.chars().enumerate() {
                let value = if c == ' ' { None } else { value(minute, c) };
                let value = value.unwrap_or(f64::from_bits(STALE_BITS));
                samples.extend([0, 30_000].map(|ms| Sample { time_ms: minute as i64 * MINUTE + ms, value }));
            }
            let own = [("__name__", name), ("Hostname", self.name), ("instance", self.name)];
            Series { labels: Labels::new(own.iter().chain(labels).copied()), samples }
        };
        let uuid = format!("GPU-{}", self.name);
        let gpu = [("UUID", uuid.as_str())];
        let owner = |who| [gpu[0], ("owner", who)];
        let boot = self.booted.unwrap_or_default();
        let written: Vec<f64> = self
            .minutes
            .chars()
            .scan(0.0, |sum, c| {
                let before = *sum;
                *sum += if c == 's' { 6e9 } else { 0.0 };
                Some(before)
            })
            .collect();
        // The engine's activity is an average: it covers the time before, except where nothing was scraped.
        let mut engine = one("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &gpu, &|_, _| Some(0.0));
        for sample in engine.samples.iter_mut().filter(|sample| sample.value == 0.0) {
            let at = |ms: i64| self.minutes.chars().nth((ms / MINUTE) as usize);
            let before = at((sample.time_ms - 1).max(0)).filter(|c| *c != ' ');
            let works = before.or(at(sample.time_ms)).is_some_and(|c| "ws2".contains(c));
            sample.value = if works { 0.8 } else { 0.0 };
        }
        vec![
            engine,
            one("DCGM_FI_DEV_FB_USED", &gpu, &|_, c| Some(if c == '.' { 0.0 } else { 40_000.0 })),
            one("DCGM_FI_DEV_XID_ERRORS", &gpu, &|minute, _| {
                Some(self.xid.filter(|(from, _)| *from <= minute).map_or(0.0, |(_, code)| code))
            }),
            one("goodput_gpu_owner_info", &owner("ml/a"), &|_, c| (c != '.').then_some(1.0)),
            one("goodput_gpu_owner_info", &owner("ml/b"), &|_, c| (c == '2').then_some(1.0)),
            one("goodput_node_info", &[("nodename", self.name)], &|_, _| Some(1.0)),
            one("goodput_node_boot_time_seconds", &[], &|_, _| Some((boot * 60) as f64)),
            one("goodput_disk_written_bytes_total", &[("device", "d")], &|minute, _| Some(written[minute])),
        ]
    }

    /// What most of each minute was: `w` productive, `L` lost work, `c` cold start, `.` unallocated, `d` down,
    /// ` ` no data.
    fn classes(&self, intervals: &[Interval]) -> String {
        let gpu = format!("GPU-{}", self.name);
        let of = |minute: usize| {
            let time = minute as i64 * MINUTE;
            let own = intervals.iter().filter(|i| i.gpu == gpu && i.start_ms <= time && time < i.end_ms);
            own.max_by_key(|i| i.ms * HOUR / (i.end_ms - i.start_ms)).map_or('!', |i| match i.class {
                Class::Productive => 'w',
                Class::LostWork => 'L',
                Class::ColdStart => 'c',
                Class::Unallocated => '.',
                Class::NoData => ' ',
                Class::Down => 'd',
                _ => '?',
            })
        };
        (0..self.minutes.len()).map(of).collect()
    }
}

fn judged(nodes: &[Node<'_>]) -> Vec<String> {
    let series: Vec<Series> = nodes.iter().flat_map(Node::series).collect();
    let minutes = nodes.iter().map(|node| node.minutes.len()).max().unwrap_or_default();
    let judged = judge_series(&series, 0..minutes as i64 * MINUTE, &Thresholds::default()).unwrap();
    nodes.iter().map(|node| node.classes(&judged.intervals)).collect()
}

#[test]
fn an_xid_that_ends_the_program_is_a_crash_and_one_that_it_outlives_is_none() {
    let minutes = "..AAwwwsswwww....AAwwww";
    for (xid, expected) in [
        (None, "..ccwwwwwwwww....ccwwww"),
        (Some((13, 31.0)), "..ccwwwwwLLLL....LLwwww"),
        (Some((12, 94.0)), "..ccwwwwwLLLL....LLwwww"),
        // Long before the end, or of a kind that ends nothing.
        (Some((6, 31.0)), "..ccwwwwwwwww....ccwwww"),
        (Some((13, 63.0)), "..ccwwwwwwwww....ccwwww"),
        // A GPU that has to be reset may hang for minutes before its program ends.
        (Some((10, 119.0)), "..ccwwwwwLLLLddddddwwww"),
    ] {
        assert_eq!(judged(&[Node { minutes, xid, ..N1 }]), [expected], "{xid:?}");
    }
}

#[test]
fn an_xid_may_be_of_somebody_else_on_the_gpu() {
    let shared = Node { minutes: "..AAwwwwww22....", xid: Some((12, 31.0)), ..N1 };
    let all = judged(&[shared]);
    assert!(!all[0].contains('L'), "{all:?}");
}

#[test]
fn a_run_crashes_as_one_and_one_rank_saves_for_all() {
    let one = Node { minutes: "..AAwwwwwwww......", xid: Some((11, 31.0)), ..N1 };
    let other = Node { name: "n2", minutes: "..AAwwsswwwwww....", ..N1 };
    assert_eq!(judged(&[one, other]), ["..ccwwwwLLLL......", "..ccwwwwLLLLLL...."]);
}

#[test]
fn a_node_that_was_started_anew_under_its_job_was_lost() {
    for (booted, expected) in [(Some(14), "..ccwwwwwLLL         ..LLww"), (None, "..ccwwwwwwww         ..ccww")] {
        let node = Node { minutes: "..AAwwwsswww         ..AAww", booted, ..N1 };
        let told = judged(&[node]);
        // Who holds the GPU while nothing is scraped is unknown.
        assert_eq!(told[0].replace('?', " "), expected, "{booted:?}");
    }
    let free = Node { minutes: "..AAwwwsswww...         ..AAww", booted: Some(18), ..N1 };
    assert!(!judged(&[free])[0].contains('L'), "nobody held it");
}

#[test]
fn a_node_that_falls_silent_is_lost_where_the_others_of_its_run_let_go() {
    let silent = |name| Node { name, minutes: "..AAwwsswwww            ", ..N1 };
    let lets_go = Node { minutes: "..AAwwwwwwwwww..........", ..N1 };
    assert_eq!(judged(&[lets_go, silent("n2")]), ["..ccwwwwLLLLLL..........", "..ccwwwwLLLL            "]);
    let goes_on = Node { minutes: "..AAwwwwwwwwwwwwwwwwwwww", ..N1 };
    assert!(judged(&[goes_on, silent("n2")]).iter().all(|told| !told.contains('L')), "the run goes on");
    assert!(judged(&[silent("n1"), silent("n2")]).iter().all(|told| !told.contains('L')), "nobody looked");
}

/// GPU-milliseconds by class and hour.
fn by_hour(intervals: &[Interval]) -> BTreeMap<(TimeMs, Class), i64> {
    let mut sums = BTreeMap::new();
    for i in intervals {
        *sums.entry((i.start_ms.div_euclid(HOUR), i.class)).or_default() += i.ms;
    }
    sums
}

#[test]
fn work_of_hours_is_lost_and_hours_are_judged_alike_one_by_one_and_at_once() {
    let minutes = format!("..AA{}sss{}{}", "w".repeat(26), "w".repeat(150), ".".repeat(57));
    let series = Node { minutes: &minutes, xid: Some((182, 79.0)), ..N1 }.series();
    let judge =
        |seen: &[_], window: Range<TimeMs>| judge_onward(&series, seen, window, &Thresholds::default()).unwrap();
    let once = judge(&[], 0..4 * HOUR);
    assert_eq!(
        once.restates_from_ms,
        Some((183 - 240) * MINUTE),
        "four hours: the last save is out of sight of the crash"
    );
    let (mut parts, mut seen) = (Vec::new(), Vec::new());
    for hour in 0..4 {
        let part = judge(&seen, hour * HOUR..(hour + 1) * HOUR);
        assert_eq!(part.restates_from_ms.is_some(), hour == 3, "the crash is in the last of them");
        (parts, seen) = ([parts, part.intervals].concat(), part.seen);
    }
    assert_eq!(parts, once.intervals);
    let lost: i64 = by_hour(&parts).iter().filter(|((_, class), _)| *class == Class::LostWork).map(|(_, ms)| ms).sum();
    assert_eq!(lost, 150 * MINUTE * 8 / 10);
}

#[test]
fn a_last_save_beyond_reach_leaves_what_was_before_it() {
    let minutes = format!("..AA{}{}", "w".repeat(296), ".".repeat(60));
    let series = Node { minutes: &minutes, xid: Some((300, 31.0)), ..N1 }.series();
    let judged = judge_series(&series, 0..6 * HOUR, &Thresholds::default()).unwrap();
    let lost: i64 = judged.intervals.iter().filter(|i| i.class == Class::LostWork).map(|i| i.ms).sum();
    assert_eq!(lost, 240 * MINUTE * 8 / 10, "four hours");
}
