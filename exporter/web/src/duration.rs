//! Durations in Go's notation, which Prometheus shares.

use std::time::Duration;

/// A duration as Go's `time.ParseDuration` reads it, but not below zero: numbers with units, or a bare zero; 292 years at
/// most.
#[must_use]
pub fn duration(mut text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (is_number, mut seconds) = (|c: char| c.is_ascii_digit() || c == '.', 0.0);
    loop {
        let (number, rest) = text.split_at(text.find(|c| !is_number(c))?);
        let (unit, rest) = rest.split_at(rest.find(is_number).unwrap_or(rest.len()));
        let in_unit = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * in_unit;
        text = rest;
        if text.is_empty() {
            let most = Duration::from_nanos(i64::MAX.unsigned_abs());
            return Duration::try_from_secs_f64(seconds).ok().filter(|duration| *duration <= most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, ms) in [("1m30s", 90_000), (".5s", 500), ("1h0.5m", 3_630_000), ("0", 0), ("0s", 0), ("2ms", 2)] {
            assert_eq!(duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "1", "s", "-1s", "1d", "1m30", "fast", "99999999999s"] {
            assert_eq!(duration(text), None, "{text:?}");
        }
    }
}
