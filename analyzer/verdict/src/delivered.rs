//! What has been delivered of a week's report.

use goodput_exposition::sample::TimeMs;

/// A row of the store: what a destination has of a week.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// 1, and one more each time the verdicts had changed since.
    pub version: u32,
    /// [`Destination::name`].
    pub destination: String,
    /// [`digest`] of the verdicts that it shows.
    pub digest: u32,
    /// When; `None` where it was on purpose not sent again.
    pub time_ms: Option<TimeMs>,
}
