//! Courses of memory use with a known end: how long before it the forecast warns, and how often it warns of nothing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of a test are test code")]
#![allow(clippy::print_stdout, reason = "lead times and false alarms are measured, and shown on request")]

mod stored;

use std::ops::Range;

use goodput_exposition::sample::Sample;
use goodput_rules::classify::Thresholds;
use goodput_rules::forecast::exhaustion;
use goodput_verdict::{Exhaustion, Shape};

const SCRAPE_SECONDS: usize = 30;
const CHECK_SECONDS: usize = 300;
/// All courses are of 80 GB.
const LIMIT: f64 = 80e9;

/// A course: the share of the limit in use by seconds since the start; the samples that are missing.
struct Course {
    name: &'static str,
    used: fn(f64) -> f64,
    /// Half of the width of evenly distributed noise, as a share of the limit.
    noise: f64,
    missing: Range<usize>,
    seconds: usize,
    expect: Expect,
}

enum Expect {
    /// It ends out of memory. The warning that lasts until then comes at least `seconds` before.
    Warned { seconds: usize, shape: Shape },
    /// It never does, and after `from` seconds no forecast says so.
    Silent { shape: Shape, from: usize },
}

const NONE: Range<usize> = 0..0;
const HOUR: usize = 3600;

fn saw(seconds: f64, period: f64) -> f64 {
    seconds.rem_euclid(period) / period
}

const COURSES: &[Course] = &[
    Course {
        name: "leak that takes an hour",
        used: |s| 0.3 + 0.7 * s / 3600.0,
        noise: 0.005,
        missing: NONE,
        seconds: 2 * HOUR,
        expect: Expect::Warned { seconds: 1800, shape: Shape::Leak },
    },
    Course {
        name: "leak that takes four hours",
        used: |s| 0.3 + 0.7 * s / 14_400.0,
        noise: 0.01,
        missing: NONE,
        seconds: 5 * HOUR,
        expect: Expect::Warned { seconds: 3 * HOUR, shape: Shape::Leak },
    },
    Course {
        name: "leak that takes a day",
        used: |s| 0.3 + 0.7 * s / 86_400.0,
        noise: 0.01,
        missing: NONE,
        seconds: 25 * HOUR,
        expect: Expect::Warned { seconds: 3 * HOUR, shape: Shape::Leak },
    },
    Course {
        name: "leak beneath a sawtooth of 10 minutes",
        used: |s| 0.3 + 0.5 * s / 14_400.0 + 0.2 * saw(s, 600.0),
        noise: 0.01,
        missing: NONE,
        seconds: 5 * HOUR,
        expect: Expect::Warned { seconds: 2 * HOUR, shape: Shape::Sawtooth },
    },
    Course {
        name: "leak in steps of 20 minutes",
        used: |s| 0.3 + 0.7 * (s / 1200.0).floor() / 12.0,
        noise: 0.0,
        missing: NONE,
        seconds: 5 * HOUR,
        expect: Expect::Warned { seconds: 2 * HOUR, shape: Shape::Leak },
    },
    Course {
        name: "leak that is started anew at 80 %",
        used: |s| if s < 2400.0 { 0.05 + 0.75 * s / 2400.0 } else { 0.05 + 0.95 * (s - 2400.0) / 5400.0 },
        noise: 0.01,
        missing: NONE,
        seconds: 5 * HOUR,
        expect: Expect::Warned { seconds: HOUR, shape: Shape::Leak },
    },
    Course {
        name: "leak with a hole of 40 minutes in the data",
        used: |s| 0.3 + 0.7 * s / 14_400.0,
        noise: 0.01,
        missing: 5400..7800,
        seconds: 5 * HOUR,
        expect: Expect::Warned { seconds: HOUR, shape: Shape::Leak },
    },
    Course {
        name: "taken at the start, 95 %",
        used: |s| if s < 600.0 { 0.02 } else { 0.95 },
        noise: 0.001,
        missing: NONE,
        seconds: 6 * HOUR,
        expect: Expect::Silent { shape: Shape::Plateau, from: 0 },
    },
    Course {
        name: "taken over half an hour, then 95 %",
        used: |s| (s / 1800.0).min(1.0) * 0.95,
        noise: 0.001,
        missing: NONE,
        seconds: 6 * HOUR,
        // Until it has been flat for some minutes, no forecast can tell.
        expect: Expect::Silent { shape: Shape::Plateau, from: 2700 },
    },
    Course {
        name: "growth that would take two weeks",
        used: |s| 0.5 + 0.5 * s / 1_209_600.0,
        noise: 0.0,
        missing: NONE,
        seconds: 24 * HOUR,
        expect: Expect::Silent { shape: Shape::Plateau, from: 0 },
    },
    Course {
        name: "growth that would take a day",
        used: |s| 0.3 + 0.7 * s / 86_400.0,
        noise: 0.002,
        missing: NONE,
        seconds: 19 * HOUR,
        expect: Expect::Silent { shape: Shape::Leak, from: 0 },
    },
    Course {
        name: "sawtooth of 10 minutes up to 95 %",
        used: |s| 0.45 + 0.5 * saw(s, 600.0),
        noise: 0.01,
        missing: NONE,
        seconds: 6 * HOUR,
        expect: Expect::Silent { shape: Shape::Sawtooth, from: 0 },
    },
    Course {
        name: "sawtooth of 50 minutes up to 95 %",
        used: |s| 0.45 + 0.5 * saw(s, 3000.0),
        noise: 0.01,
        missing: NONE,
        seconds: 12 * HOUR,
        // Its first rise is like a leak.
        expect: Expect::Silent { shape: Shape::Sawtooth, from: 3600 },
    },
    Course {
        name: "noise around 90 %",
        used: |_| 0.9,
        noise: 0.05,
        missing: NONE,
        seconds: 24 * HOUR,
        expect: Expect::Silent { shape: Shape::Sawtooth, from: 0 },
    },
    Course {
        name: "plateau with a hole of an hour in the data",
        used: |_| 0.95,
        noise: 0.001,
        missing: 7200..10_800,
        seconds: 6 * HOUR,
        expect: Expect::Silent { shape: Shape::Plateau, from: 0 },
    },
];

/// The same noise in every run.
fn noise(seed: usize) -> f64 {
    let mixed = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ (mixed >> 32)) % 2001) as f64 / 1000.0 - 1.0
}

impl Course {
    fn samples(&self) -> Vec<Sample> {
        let times = (0..self.seconds).step_by(SCRAPE_SECONDS).filter(|s| !self.missing.contains(s));
        let value = |s: usize| LIMIT * ((self.used)(s as f64) + self.noise * noise(s));
        let all = times.map(|s| Sample { time_ms: s as i64 * 1000, value: value(s) });
        all.take_while(|s| s.value < LIMIT).collect()
    }

    /// The forecasts, and the seconds at which they were made.
    fn forecasts(&self) -> Vec<(usize, Option<Exhaustion>)> {
        let samples = self.samples();
        let end = samples.last().unwrap().time_ms as usize / 1000;
        let at = |now: usize| {
            let known: Vec<Sample> = samples.iter().filter(|s| s.time_ms <= now as i64 * 1000).copied().collect();
            exhaustion(&known, LIMIT, now as i64 * 1000, &Thresholds::default())
        };
        (CHECK_SECONDS..=end).step_by(CHECK_SECONDS).map(|now| (now, at(now))).collect()
    }
}

fn warns(forecast: Option<&Exhaustion>) -> bool {
    forecast.is_some_and(|f| f.at_risk.is_some())
}

#[test]
fn warnings_come_in_time_and_only_where_memory_ends() {
    let mut failures = Vec::new();
    for course in COURSES {
        let forecasts = course.forecasts();
        let end = course.samples().last().unwrap().time_ms as usize / 1000;
        let last = forecasts.last().and_then(|(_, f)| f.as_ref()).map(|f| f.shape);
        let warnings = forecasts.iter().filter(|(_, f)| warns(f.as_ref())).count();
        match course.expect {
            Expect::Warned { seconds, shape } => {
                let lasting = forecasts.iter().rev().take_while(|(_, f)| warns(f.as_ref())).last();
                let lead = lasting.map_or(0, |(at, _)| end - at);
                println!("{:45} warned {lead:6} s before the end", course.name);
                if lead < seconds || last != Some(shape) {
                    failures.push(format!("{}: warned {lead} s before, shape {last:?}", course.name));
                }
            }
            Expect::Silent { shape, from } => {
                let late = forecasts.iter().filter(|(at, f)| *at >= from && warns(f.as_ref())).count();
                println!("{:45} {warnings} of {} forecasts warn of nothing", course.name, forecasts.len());
                if late > 0 || last != Some(shape) {
                    failures.push(format!("{}: {late} warnings, shape {last:?}", course.name));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Of the warnings of steady leaks, the share whose interval holds the true end.
#[test]
fn the_interval_holds_the_end() {
    let (mut all, mut right) = (0, 0);
    for course in COURSES.iter().filter(|c| c.name.starts_with("leak that takes")) {
        let end = course.samples().last().unwrap().time_ms as f64 / 1000.0;
        for (now, forecast) in course.forecasts() {
            let Some(risk) = forecast.and_then(|f| f.at_risk) else { continue };
            let left = end - now as f64;
            // The end is that of the first sample at the limit: within a scrape, and within the noise.
            let slack = 0.02 * end;
            all += 1;
            let latest = risk.latest_seconds.unwrap_or(f64::INFINITY);
            right += usize::from(risk.soonest_seconds - slack <= left && left <= latest + slack);
        }
    }
    println!("{right} of {all} intervals hold the end");
    assert!(all > 50 && right * 10 >= all * 8, "{right} of {all}");
}

#[test]
fn too_little_or_too_old_data_is_no_forecast() {
    let thresholds = Thresholds::default();
    let rising = |seconds: Range<i64>| -> Vec<Sample> {
        seconds.step_by(30).map(|s| Sample { time_ms: s * 1000, value: 1e7 * s as f64 }).collect()
    };
    let at = |samples: &[Sample], now: i64| exhaustion(samples, LIMIT, now * 1000, &thresholds);
    assert_eq!(at(&[], 7200), None);
    assert_eq!(at(&rising(0..1200), 1200), None, "four peaks");
    assert!(at(&rising(0..3600), 3600).is_some());
    assert_eq!(at(&rising(0..3600), 3600 + 301 + 30), None, "the last sample is older than five minutes");
}
