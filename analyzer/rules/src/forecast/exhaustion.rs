//! What runs out: peaks of what is in use, and a robust line through them to the limit.

use super::Exhaustion;
use super::trend::{Trend, theil_sen};
use crate::classify::Thresholds;
use crate::frame::STALENESS_MS;
use goodput_exposition::sample::{Sample, TimeMs};
use goodput_verdict::{Shape, TimeToLimit};

/// Peaks that the window is divided into: one per 5 minutes of 2 hours, longer than a training step or a request.
const PEAKS: i64 = 24;

/// Fewer peaks than this are no trend: half an hour of a window of 2 hours.
const MIN_PEAKS: usize = 6;

/// Will it run out? `used` is in order of time, and in the unit of `limit`. `None` is not known: too little data, or none
/// of the last 5 minutes.
#[must_use]
pub fn exhaustion(used: &[Sample], limit: f64, now: TimeMs, t: &Thresholds) -> Option<Exhaustion> {
    let window_ms = (t.forecast_window_seconds * 1000.0) as i64;
    let at = |time| used.partition_point(|s| s.time_ms < time);
    let admitted = |s: &&Sample| s.value.is_finite() && s.value >= 0.0;
    let samples: Vec<Sample> = used[at(now - window_ms)..at(now + 1)].iter().filter(admitted).copied().collect();
    let latest = samples.last().filter(|s| now - s.time_ms <= STALENESS_MS && limit > 0.0)?;
    let peaks = since_restart(peaks(&samples, window_ms / PEAKS), t.forecast_restart_ratio);
    if peaks.len() < MIN_PEAKS {
        return None;
    }
    let points: Vec<(f64, f64)> = peaks.iter().map(|p| ((p.time_ms - now) as f64 / 1000.0, p.value)).collect();
    let trend = theil_sen(&points)?;
    let first = peaks.first().map_or(now, |p| p.time_ms);
    let course: Vec<f64> = samples.iter().filter(|s| s.time_ms >= first).map(|s| s.value).collect();
    Some(Exhaustion {
        shape: shape(&course, t.forecast_swing_ratio * limit),
        used: peaks.last().map_or(latest.value, |p| p.value),
        limit,
        slope: trend.slope,
        slope_low: trend.low,
        slope_high: trend.high,
        at_risk: time_to_limit(&points, &trend, limit, t),
    })
}

/// The highest sample of each stretch of this length. A hole in the data has none.
fn peaks(samples: &[Sample], length_ms: i64) -> Vec<Sample> {
    let stretches = samples.chunk_by(|a, b| a.time_ms.div_euclid(length_ms) == b.time_ms.div_euclid(length_ms));
    stretches.filter_map(|s| s.iter().max_by(|a, b| a.value.total_cmp(&b.value)).copied()).collect()
}

/// The peaks since the last fall to next to nothing: what was before was another program, or the same before a restart.
fn since_restart(mut peaks: Vec<Sample>, ratio: f64) -> Vec<Sample> {
    let last = peaks.windows(2).rposition(|pair| pair[1].value <= ratio * pair[0].value);
    peaks.drain(..last.map_or(0, |i| i + 1));
    peaks
}

/// Falls that undo at least half of all rises are a sawtooth. Ups and downs smaller than a swing are noise.
fn shape(course: &[f64], swing: f64) -> Shape {
    let (mut level, mut rises, mut falls) = (course.first().copied().unwrap_or(0.0), 0.0, 0.0);
    for value in course.iter().copied() {
        if (value - level).abs() >= swing {
            rises += (value - level).max(0.0);
            falls += (level - value).max(0.0);
            level = value;
        }
    }
    match () {
        () if rises + falls == 0.0 => Shape::Plateau,
        () if 2.0 * falls >= rises => Shape::Sawtooth,
        () => Shape::Leak,
    }
}

/// At risk is what grows for sure, by enough to matter and until now, and gets there within the horizon.
fn time_to_limit(peaks: &[(f64, f64)], trend: &Trend, limit: f64, t: &Thresholds) -> Option<TimeToLimit> {
    let little = t.forecast_growth_ratio * limit;
    let seen = -peaks.first()?.0;
    let (before, lately) = peaks.split_at(peaks.partition_point(|(x, _)| *x < -seen * LATELY));
    let grew_lately = highest(lately) - highest(before) >= HALF * trend.slope * LATELY * seen;
    if trend.low * seen < little || !grew_lately {
        return None;
    }
    let seconds = |slope: f64| ((limit - trend.level) / slope).max(0.0);
    let within = |seconds: &f64| *seconds <= t.forecast_horizon_seconds;
    let likely_seconds = Some(seconds(trend.slope)).filter(within)?;
    let latest_seconds = Some(seconds(trend.low)).filter(within);
    Some(TimeToLimit { soonest_seconds: seconds(trend.high), likely_seconds, latest_seconds })
}

/// The last quarter of the time seen must have half of the growth that the line gives it: growth that has ended is none.
const LATELY: f64 = 0.25;
const HALF: f64 = 0.5;

fn highest(peaks: &[(f64, f64)]) -> f64 {
    peaks.iter().map(|(_, y)| *y).fold(f64::NEG_INFINITY, f64::max)
}
