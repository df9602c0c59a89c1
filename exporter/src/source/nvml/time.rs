//! The time that the threads pace themselves by: the wall clock, or one that is injected.
//!
//! Deadlines and stuck calls are about real time whichever it is.

use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// A monotonic clock.
pub(super) enum Time {
    /// Of the machine.
    Wall,
    /// It stands still until it is moved.
    Stepped(Mutex<Stepped>),
}

/// An injected clock: the same moment twice.
pub(super) struct Stepped {
    now: Instant,
    date: SystemTime,
}

impl Time {
    /// One that stands still at this moment.
    pub(super) fn stepped(date: SystemTime) -> Self {
        Self::Stepped(Mutex::new(Stepped { now: Instant::now(), date }))
    }

    pub(super) fn now(&self) -> Instant {
        match self {
            Self::Wall => Instant::now(),
            Self::Stepped(clock) => clock.lock().now,
        }
    }

    /// The same moment by the calendar.
    pub(super) fn date(&self) -> SystemTime {
        match self {
            Self::Wall => SystemTime::now(),
            Self::Stepped(clock) => clock.lock().date,
        }
    }

    /// Moves an injected clock on and tells what it shows then.
    pub(super) fn advance(&self, by: Duration) -> Option<Instant> {
        match self {
            Self::Wall => None,
            Self::Stepped(clock) => {
                let mut clock = clock.lock();
                clock.date += by;
                clock.now += by;
                Some(clock.now)
            }
        }
    }

    /// Waits for a change or for the time, whichever comes first; says whether the time has come.
    pub(super) fn wait<T>(&self, changed: &Condvar, guard: &mut MutexGuard<'_, T>, until: Instant) -> bool {
        match self {
            Self::Wall => changed.wait_until(guard, until).timed_out(),
            Self::Stepped(clock) => {
                let come = clock.lock().now >= until;
                if !come {
                    changed.wait(guard);
                }
                come
            }
        }
    }

    /// Tells the caller that moves the clock that one thread more pauses. No caller moves the wall clock.
    pub(super) fn pausing(&self, changed: &Condvar) {
        if let Self::Stepped(_) = self {
            changed.notify_all();
        }
    }

    /// How long a call may wait inside the driver, which knows the wall clock alone: a simulated driver is asked what it
    /// has, and waited for outside.
    pub(super) fn in_driver(&self, left: Duration) -> Duration {
        match self {
            Self::Wall => left,
            Self::Stepped(_) => Duration::ZERO,
        }
    }
}
