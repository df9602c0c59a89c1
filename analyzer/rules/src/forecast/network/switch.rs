//! Errors that NVSwitches report in the kernel's log.

use std::collections::BTreeMap;

use super::super::hardware::increase;
use super::{Part, Track, from};
use crate::classify::Thresholds;
use crate::frame::STALENESS_MS;
use crate::signal::Signal;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Damage, Evidence, Level};

/// How the log calls an error after which the fabric has to be reset.
const FATAL: &str = "fatal";
/// Errors of one code within the window from which they do not pass by themselves.
const REPEATED: f64 = 2.0;

pub(super) fn look(switch: &Part, now: TimeMs, t: &Thresholds) -> Option<Damage> {
    let window = t.forecast_window_seconds;
    let mut codes: BTreeMap<&str, (f64, bool)> = BTreeMap::new();
    for track in switch.tracks(Signal::SwitchErrors) {
        let count = events(track, now, window);
        let [_, code, severity @ ..] = track.of.as_slice() else { continue };
        if count >= 1.0 {
            let (known, is_fatal) = codes.entry(code).or_default();
            *known += count;
            *is_fatal |= severity.iter().any(|severity| severity == FATAL);
        }
    }
    let is_pressing = codes.values().any(|(count, is_fatal)| *is_fatal || *count >= REPEATED);
    let told = codes.into_iter().map(|(code, (value, is_fatal))| Evidence {
        signal: format!("{} {code}{}", Signal::SwitchErrors.name(), if is_fatal { " fatal" } else { "" }),
        value,
        unit: "errors".to_owned(),
        threshold: 1.0,
    });
    Damage::new(if is_pressing { Level::Act } else { Level::Watch }, window, told)
}

/// How many errors came within the time before. The exporter counts from its own start, so a series that begins after its target
/// was first scraped begins with an error. A port's counter is older than the exporter, and says no such thing.
fn events(track: &Track, now: TimeMs, seconds: f64) -> f64 {
    let first = track.samples.first().filter(|s| s.time_ms > track.since + STALENESS_MS);
    let began = first.filter(|s| (from(now, seconds)..=now).contains(&s.time_ms));
    began.map_or(0.0, |s| s.value) + increase(&track.samples, now, seconds)
}
