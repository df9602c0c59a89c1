//! Marks of a time axis, in the configured zone.

use std::ops::Range;

use super::clock::{Clock, HOUR_MS, MINUTE_MS};
use crate::report::text;
use goodput_exposition::sample::TimeMs;

/// No more marks than this: their labels have to fit.
const MAX_TICKS: i64 = 8;
const DAY_MS: i64 = 24 * HOUR_MS;
const STEPS: [i64; 12] = [
    MINUTE_MS,
    2 * MINUTE_MS,
    5 * MINUTE_MS,
    10 * MINUTE_MS,
    15 * MINUTE_MS,
    30 * MINUTE_MS,
    HOUR_MS,
    2 * HOUR_MS,
    3 * HOUR_MS,
    6 * HOUR_MS,
    12 * HOUR_MS,
    DAY_MS,
];

/// A mark.
pub(super) struct Tick {
    /// Percent of the axis' length.
    pub(super) x: String,
    pub(super) label: String,
    /// Narrow screens leave it out.
    pub(super) minor: bool,
}

/// The marks of a stretch of time: full hours or minutes of the zone's clocks, or its midnights.
pub(super) fn ticks(range: &Range<TimeMs>, clock: &Clock) -> Vec<Tick> {
    let length = range.end - range.start;
    let step = STEPS.into_iter().find(|step| length / step < MAX_TICKS);
    let times: Vec<TimeMs> = match step {
        Some(step) if step < DAY_MS => {
            let into = (range.start + clock.offset(range.start)).rem_euclid(step);
            let first = range.start + (step - into) % step;
            (first..range.end).step_by(step as usize).collect()
        }
        _ => midnights(range, clock, length / (MAX_TICKS * DAY_MS) + 1),
    };
    let tick = |(n, time): (usize, TimeMs)| {
        let is_midnight = clock.format(time, "%H:%M") == "00:00";
        let label = clock.format(time, if is_midnight { "%a %d" } else { "%H:%M" });
        let x = (time - range.start) as f64 / length as f64 * 100.0;
        Tick { x: text::fixed(x), label, minor: n % 2 == 1 }
    };
    times.into_iter().enumerate().map(tick).collect()
}

/// A midnight every `days` days.
fn midnights(range: &Range<TimeMs>, clock: &Clock, days: i64) -> Vec<TimeMs> {
    let first = clock.local(range.start).date();
    let nth = |n: i64| first.checked_add(jiff::Span::new().days(n * days)).ok()?.to_zoned(clock.zone.clone()).ok();
    let times = (0..).map_while(nth).map(|midnight| midnight.timestamp().as_millisecond());
    times.skip_while(|time| *time < range.start).take_while(|time| *time < range.end).collect()
}
