//! Errors that NVSwitches report in the kernel's log.

use std::collections::BTreeMap;

use super::Part;
use crate::classify::Thresholds;
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
        let count = track.events(now, window);
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
