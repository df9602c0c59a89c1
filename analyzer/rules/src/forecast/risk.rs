//! When something was at risk: forecasts one after another over a window, those that warn joined.

use std::ops::Range;

use super::course::Course;
use super::network::Network;
use super::{Prospect, Risk, disk};
use crate::caught::caught;
use crate::classify::Thresholds;
use crate::frame;
use goodput_exposition::sample::{Series, TimeMs};
use rayon::prelude::*;

/// Time between the forecasts of a window: one per peak that a window of 2 hours is divided into. They are made at whole
/// multiples of it, so that a window judged twice, or judged in parts, comes to the same.
pub const STEP_MS: i64 = 5 * 60_000;

/// What was at risk within the window, as far as it is over at `until`; in order of node, kind and entity, then of
/// time. `series` should reach from `forecast_window_seconds` before the window to its end.
#[must_use]
pub fn risks(series: &[Series], window: &Range<TimeMs>, until: TimeMs, t: &Thresholds) -> Vec<Risk> {
    let sources = frame::sources(series);
    let end = window.end.min(until);
    let first = -(-window.start).div_euclid(STEP_MS) * STEP_MS;
    let times = (first..end).step_by(STEP_MS as usize);
    let (levels, disks) = (frame::levels(&sources), disk::file_systems(&sources));
    let network = Network::of(&sources);
    let of_course = |course: &Course<'_>| {
        let mut risks = Vec::new();
        let sound = times.clone().filter_map(|time| course.risk(time, t)).filter(Prospect::is_finite);
        sound.for_each(|prospect| add(&mut risks, prospect, end));
        risks
    };
    // A forecast that fails costs itself.
    let of_course = |course: &Course<'_>| caught(|| of_course(course)).unwrap_or_else(|error| left_out(&error));
    let mut risks: Vec<Risk> = Course::all(&levels, &disks, &network, t).par_iter().flat_map_iter(of_course).collect();
    let key = |r: &Risk| (r.last.node.clone(), r.last.cluster.clone(), r.last.kind, r.last.entity.clone(), r.start_ms);
    risks.sort_by_cached_key(key);
    risks
}

pub(super) fn left_out<T: Default>(error: &str) -> T {
    tracing::error!(error, "a forecast is left out");
    T::default()
}

/// Lengthens the last risk if the forecast follows it at once, else begins another.
fn add(risks: &mut Vec<Risk>, prospect: Prospect, end: TimeMs) {
    let expected_ms = prospect.expected_ms();
    let (start_ms, end_ms) = (prospect.made_ms, (prospect.made_ms + STEP_MS).min(end));
    match risks.last_mut() {
        Some(risk) if risk.end_ms == start_ms => {
            let earliest_ms = [risk.earliest_ms, expected_ms].into_iter().flatten().min();
            *risk = Risk { end_ms, earliest_ms, last: prospect, ..*risk };
        }
        _ => risks.push(Risk { start_ms, end_ms, earliest_ms: expected_ms, last: prospect }),
    }
}
