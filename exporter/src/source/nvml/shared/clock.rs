//! How long calls of NVML take, and whether one took too long.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::super::Reading;
use super::super::absent::Absent;

/// A call that runs longer than this is reported as stuck, and once it is back, its GPU is left alone for a while. Calls
/// take milliseconds; the longest wait that is meant, for an event, takes one cycle.
pub(in super::super) const STUCK_AFTER: Duration = Duration::from_secs(3);

/// When the running call began, and whether one took too long.
pub(in super::super) struct Clock {
    epoch: Instant,
    /// Milliseconds after `epoch`, plus one; 0 while no call runs.
    began: AtomicU64,
    /// The circuit breaker: a call was stuck, and the GPU has not been left alone since.
    tripped: AtomicBool,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { epoch: Instant::now(), began: AtomicU64::new(0), tripped: AtomicBool::new(false) }
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// How long a call has been running, if so long that it is stuck.
    pub(super) fn stuck(&self) -> Option<Duration> {
        let began = self.began.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Duration::from_millis(self.milliseconds().saturating_sub(began))).filter(|d| *d > STUCK_AFTER)
    }

    /// An error once a call was stuck: a driver that takes seconds for one answer is not asked for forty more, which
    /// would hold up the other GPUs behind its locks.
    pub(in super::super) fn check(&self) -> Reading<()> {
        if self.tripped.load(Ordering::Relaxed) { Err(Absent::TOO_SLOW) } else { Ok(()) }
    }

    /// Makes a call.
    pub(super) fn time<T>(&self, call: impl FnOnce() -> T) -> T {
        self.began.store(self.milliseconds() + 1, Ordering::Relaxed);
        let answer = call();
        if self.stuck().is_some() {
            self.tripped.store(true, Ordering::Relaxed);
        }
        self.began.store(0, Ordering::Relaxed);
        answer
    }

    /// Its GPU has been left alone since a call was stuck.
    pub(super) fn reset(&self) {
        self.tripped.store(false, Ordering::Relaxed);
    }
}
