//! A file of means, which its process overwrites every 30 s or less often.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant, SystemTime};

use super::super::rows::Place;
use super::log::MOST;
use crate::parse::inspector::text::{self, Kind, Mean};
use crate::source::inspector::folder::Candidate;

/// Time between two changes, where only one was seen: own choice, five times the plug-in's shortest.
const INTERVAL: Duration = Duration::from_secs(150);
/// The plug-in writes at most that often.
const SHORTEST: Duration = Duration::from_secs(30);
/// Intervals without a change after which a mean is told no more.
const INTERVALS: u32 = 2;

/// A file of means.
pub(super) struct Text {
    pub(super) place: Place,
    /// When it was changed, and its size.
    version: (SystemTime, u64),
    /// When that was seen first.
    since: Instant,
    interval: Duration,
    pub(super) means: BTreeMap<Kind, Mean>,
}

impl Text {
    /// Reads it, unless it is as it was; says how many of its lines make no sense.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn read(
        before: Option<Self>,
        place: Place,
        candidate: &Candidate,
        at: Instant,
    ) -> io::Result<(Self, u64)> {
        let version = (candidate.changed, candidate.size);
        let interval = match before {
            Some(before) if before.version == version => return Ok((before, 0)),
            Some(before) => at.saturating_duration_since(before.since).max(SHORTEST),
            None => INTERVAL,
        };
        let length = candidate.size.min(MOST as u64);
        let mut bytes = vec![0; length as usize];
        // It may be cut while it is read.
        let file = candidate.open()?;
        let read = file.read_at(&mut bytes, candidate.size - length)?;
        // The last line may be half written.
        let whole = bytes[..read].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        bytes.truncate(whole);
        let parsed = text::means(&bytes);
        Ok((Self { place, version, since: at, interval, means: parsed.value }, parsed.left_out.count))
    }

    /// When it was changed last.
    pub(super) fn changed(&self) -> SystemTime {
        self.version.0
    }

    /// Is it still written?
    pub(super) fn is_fresh(&self, at: Instant) -> bool {
        at.saturating_duration_since(self.since) < self.interval * INTERVALS
    }
}
