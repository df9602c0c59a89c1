//! What is old enough, or too much, to be kept. Pure.

use std::sync::Arc;
use std::time::Duration;

use super::segments::Segment;
use goodput_exposition::sample::TimeMs;

/// Samples of the last six hours are never removed for their size: verdicts of hours that are not final rest on them.
pub(super) const PROTECTED_MS: TimeMs = 6 * 3_600_000;

/// How long and how much is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    pub(super) age: Option<Duration>,
    pub(super) bytes: Option<u64>,
}

/// What ages are measured from: the newest sample that does not lie ahead of the clock. A clock that was ahead therefore
/// removes nothing, and neither do the samples that it left behind.
pub(super) fn reference(segments: &[Arc<Segment>], now: TimeMs) -> Option<TimeMs> {
    segments.iter().filter_map(|segment| newest_until(segment, now)).max()
}

/// The time of its newest sample as far as it lies within the clock: at least that of its first.
fn newest_until(segment: &Segment, now: TimeMs) -> Option<TimeMs> {
    if segment.last_ms <= now { Some(segment.last_ms) } else { Some(segment.first_ms).filter(|first| *first <= now) }
}

/// The segments that are wholly beyond what is kept.
pub(super) fn expired(segments: &[Arc<Segment>], keep: Keep, now: TimeMs) -> Vec<Arc<Segment>> {
    let Some(reference) = reference(segments, now) else { return Vec::new() };
    let oldest = keep.age.map_or(TimeMs::MIN, |age| before(reference, age));
    let mut by_age = segments.to_vec();
    by_age.sort_by_key(|segment| segment.last_ms);
    let mut bytes: u64 = by_age.iter().map(|segment| segment.bytes).sum();
    let mut expired = Vec::new();
    for segment in by_age {
        let surplus =
            keep.bytes.is_some_and(|limit| bytes > limit) && segment.last_ms < reference.saturating_sub(PROTECTED_MS);
        if !surplus && segment.last_ms >= oldest {
            break;
        }
        bytes -= segment.bytes;
        expired.push(segment);
    }
    expired
}

pub(super) fn before(time: TimeMs, age: Duration) -> TimeMs {
    time.saturating_sub(TimeMs::try_from(age.as_millis()).unwrap_or(TimeMs::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: TimeMs = 3_600_000;

    /// Ten segments of 100 bytes, each of one hour.
    fn segments() -> Vec<Arc<Segment>> {
        (0..10).map(|n| Arc::new(Segment::of(n, 100, n * HOUR..(n + 1) * HOUR))).collect()
    }

    fn gone(age_hours: Option<u64>, bytes: Option<u64>, now: TimeMs) -> Vec<i64> {
        let keep = Keep { age: age_hours.map(Duration::from_hours), bytes };
        expired(&segments(), keep, now).iter().map(|segment| segment.id).collect()
    }

    #[test]
    fn by_age_whole_segments_go() {
        assert_eq!(gone(Some(8), None, TimeMs::MAX), [0]);
        assert!(gone(Some(100), None, TimeMs::MAX).is_empty());
        assert!(gone(None, None, TimeMs::MAX).is_empty());
        assert_eq!(gone(Some(2), None, 5 * HOUR), [0, 1, 2], "the clock is behind the samples");
    }

    #[test]
    fn a_clock_far_ahead_removes_nothing() {
        assert!(gone(Some(10), None, 1_000_000 * HOUR).is_empty());
    }

    #[test]
    fn by_size_the_oldest_go_but_not_the_last_hours() {
        assert!(gone(None, Some(1000), TimeMs::MAX).is_empty());
        assert_eq!(gone(None, Some(850), TimeMs::MAX), [0, 1]);
        assert_eq!(gone(None, Some(1), TimeMs::MAX), [0, 1, 2]);
        assert_eq!(gone(Some(7), Some(900), TimeMs::MAX), [0, 1], "the stricter of the two");
    }
}
