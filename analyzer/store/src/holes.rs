//! Where acknowledged samples cannot be read: their segment or write-ahead row is set aside or absent, or their commit is
//! missing.

use std::ops::Range;

use serde::Serialize;

use goodput_exposition::sample::TimeMs;

/// A time range in which samples are missing that were acknowledged. Other samples of that time may be there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hole {
    /// The file, or the commits.
    pub name: String,
    /// Time of the first of its samples.
    pub first_ms: TimeMs,
    /// Time of the last one.
    pub last_ms: TimeMs,
    /// When it was found.
    pub found_ms: TimeMs,
}

impl Hole {
    /// Are samples of the range missing?
    #[must_use]
    pub fn overlaps(&self, range: &Range<TimeMs>) -> bool {
        self.first_ms < range.end && range.start <= self.last_ms
    }
}
