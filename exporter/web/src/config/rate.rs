//! The `rate_limit` section: requests that are let through, as a bucket of tokens.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Deserialize;

use crate::duration;

/// The section, as in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RateSection {
    #[serde(default)]
    interval: String,
    #[serde(default)]
    burst: u32,
}

/// A token more in each interval, up to the burst; a request takes one.
#[derive(Debug)]
pub(crate) struct Rate {
    interval: Duration,
    burst: u32,
    bucket: Mutex<Option<(Instant, f64)>>,
}

impl Rate {
    /// `None` without an interval, or with one of zero: there is no limit then.
    pub(super) fn new(RateSection { interval, burst }: RateSection) -> Result<Option<Self>, String> {
        let expected = || format!("interval: expected a duration such as 100ms or 1m30s, found {interval:?}");
        let interval = if interval.is_empty() { Duration::ZERO } else { duration(&interval).ok_or_else(expected)? };
        if interval.is_zero() {
            return Ok(None);
        }
        if burst == 0 {
            return Err("burst: expected at least 1: without a burst no request gets through".to_owned());
        }
        Ok(Some(Self { interval, burst, bucket: Mutex::default() }))
    }

    /// May a request go on now?
    pub(crate) fn allows(&self, now: Instant) -> bool {
        let mut bucket = self.bucket.lock();
        let (since, tokens) = bucket.unwrap_or((now, f64::from(self.burst)));
        let new = now.saturating_duration_since(since).as_secs_f64() / self.interval.as_secs_f64();
        let tokens = (tokens + new).min(f64::from(self.burst));
        let (allows, left) = if tokens >= 1.0 { (true, tokens - 1.0) } else { (false, tokens) };
        *bucket = Some((now, left));
        allows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(interval: &str, burst: u32) -> Result<Option<Rate>, String> {
        Rate::new(RateSection { interval: interval.to_owned(), burst })
    }

    #[test]
    fn a_burst_is_let_through_and_then_one_in_each_interval() {
        let (rate, start) = (rate("500ms", 2).unwrap().unwrap(), Instant::now());
        let at = |ms: u64| rate.allows(start + Duration::from_millis(ms));
        let let_through = [0, 0, 0, 499, 500, 500, 1000, 9000, 9000, 9000].map(at);
        assert_eq!(let_through, [true, true, false, false, true, false, true, true, true, false]);
    }

    #[test]
    fn without_an_interval_there_is_no_limit() {
        for interval in ["", "0", "0s"] {
            assert!(rate(interval, 0).unwrap().is_none(), "{interval:?}");
        }
    }

    #[test]
    fn a_section_that_lets_nothing_through_is_refused() {
        for (interval, burst, expected) in [
            ("1s", 0, "burst"),
            ("-1s", 1, "interval"),
            ("1", 1, "interval"),
            ("fast", 1, "interval"),
            ("1m30", 1, "interval"),
        ] {
            let error = rate(interval, burst).unwrap_err();
            assert!(error.starts_with(expected), "{interval} {burst}: {error}");
        }
    }
}
