//! How long to wait before trying again.

use std::time::Duration;

/// Pauses that double from the first to the longest, so that a driver in trouble is not asked for ever as if it were not.
pub(super) struct Retry {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Retry {
    pub(super) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// There was a success: the next failure is a new one.
    pub(super) fn succeeded(&mut self) {
        self.next = self.first;
    }

    /// The pause after an attempt that held for this long. One that held for the longest pause was a success; what comes and
    /// goes faster is asked ever less often.
    pub(super) fn pause(&mut self, held: Duration) -> Duration {
        if held >= self.longest {
            self.succeeded();
        }
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_begin_anew_after_a_success() {
        let second = Duration::from_secs;
        let mut retry = Retry::new(second(2), second(30));
        let mut pauses = |held, count| (0..count).map(|_| retry.pause(second(held)).as_secs()).collect::<Vec<_>>();
        assert_eq!(pauses(0, 6), [2, 4, 8, 16, 30, 30]);
        assert_eq!(pauses(29, 1), [30], "it came and went");
        assert_eq!(pauses(30, 1), [2]);
        assert_eq!(pauses(1, 2), [4, 8]);
        retry.succeeded();
        assert_eq!(retry.pause(second(0)), second(2));
    }
}
