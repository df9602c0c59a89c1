//! What runs out: peaks of what is in use, and a robust line through them to the limit.

use serde::{Deserialize, Serialize};

use super::trend::{Trend, theil_sen};
use crate::classify::Thresholds;
use crate::frame::STALENESS_MS;
use crate::sample::{Sample, TimeMs};

/// Peaks that the window is divided into: one per 5 minutes of 2 hours, longer than a training step or a request.
const PEAKS: i64 = 24;

/// Fewer peaks than this are no trend: half an hour of a window of 2 hours.
const MIN_PEAKS: usize = 6;

/// How what is in use went over the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// It barely moves, however high it is.
    Plateau,
    /// It grows and does not come back, fast or slowly, for ever or until it has what it wants.
    Leak,
    /// It is given back again and again.
    Sawtooth,
}

impl Shape {
    /// Every shape.
    pub const ALL: &'static [Shape] = &[Shape::Plateau, Shape::Leak, Shape::Sawtooth];

    /// The name in reports and stored results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Shape::Plateau => "plateau",
            Shape::Leak => "leak",
            Shape::Sawtooth => "sawtooth",
        }
    }
}

/// Seconds from now until the limit is reached, if it goes on like this: the line's, and its 90 % interval's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeToLimit {
    /// At the steepest slope.
    pub soonest_seconds: f64,
    /// At the slope of the line.
    pub likely_seconds: f64,
    /// At the flattest slope; `None` beyond the horizon.
    pub latest_seconds: Option<f64>,
}

/// What is in use of a limit, and where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exhaustion {
    /// How it went.
    pub shape: Shape,
    /// The latest peak, in bytes or inodes.
    pub used: f64,
    /// The limit, in bytes or inodes.
    pub limit: f64,
    /// Slope of the peaks, in bytes or inodes per second, and the ends of its 90 % interval.
    pub slope: f64,
    /// The flattest slope.
    pub slope_low: f64,
    /// The steepest slope.
    pub slope_high: f64,
    /// When the limit is reached; `None` is not at risk.
    pub at_risk: Option<TimeToLimit>,
}

impl Exhaustion {
    /// The same with no time left where the limit is reached already. Memory that is full may stay so for ever; a disk that
    /// is full, and a threshold that is crossed, are felt at once.
    #[must_use]
    pub(super) fn or_reached(self) -> Self {
        let now = TimeToLimit { soonest_seconds: 0.0, likely_seconds: 0.0, latest_seconds: Some(0.0) };
        let at_risk = if self.used >= self.limit { Some(now) } else { self.at_risk };
        Self { at_risk, ..self }
    }
}

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
