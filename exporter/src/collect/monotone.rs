//! Totals that only grow and go on, made from counts of the kernel that do neither.

use std::collections::BTreeMap;

/// A count that falls by less than this was corrected by the kernel, as idle time and I/O wait are by a tick or some:
/// the total waits for it. One that falls by more restarted, as a CPU's does after hotplug: the total goes on.
const CORRECTION_SECONDS: u64 = 3;

/// Totals by kind, of counts that each come from somewhere and have this many units per second.
#[derive(Debug, Default)]
pub(super) struct Monotone<const PER_SECOND: u64, Of, To> {
    last: BTreeMap<Of, u64>,
    sums: BTreeMap<To, u64>,
}

impl<const PER_SECOND: u64, Of: Ord, To: Ord> Monotone<PER_SECOND, Of, To> {
    /// Is the count so far below the last reading that it restarted?
    pub(super) fn begins_anew(&self, of: &Of, count: u64) -> bool {
        self.last.get(of).is_some_and(|last| last.saturating_sub(count) >= CORRECTION_SECONDS * PER_SECOND)
    }

    /// Forgets the last reading: all that the next count shows was counted since its restart.
    pub(super) fn restart(&mut self, of: &Of) {
        if let Some(last) = self.last.get_mut(of) {
            *last = 0;
        }
    }

    /// Takes in what was counted since boot; says how much that is more than at the reading before.
    pub(super) fn add(&mut self, of: Of, to: To, count: u64) -> u64 {
        if self.begins_anew(&of, count) {
            self.restart(&of);
        }
        let last = self.last.entry(of).or_default();
        let step = count.saturating_sub(*last);
        *last = count.max(*last);
        let sum = self.sums.entry(to).or_default();
        *sum = sum.saturating_add(step);
        step
    }

    /// Every total.
    pub(super) fn sums(&self) -> impl Iterator<Item = (&To, u64)> {
        self.sums.iter().map(|(to, sum)| (to, *sum))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn total(counts: &[u64]) -> u64 {
        let mut totals = Monotone::<100, i32, ()>::default();
        for count in counts {
            totals.add(0, (), *count);
        }
        totals.sums().map(|(_, sum)| sum).sum()
    }

    #[test]
    fn a_correction_is_waited_for_and_a_count_that_began_anew_goes_on() {
        for (counts, expected) in [
            (&[500, 499, 500, 501][..], 501),
            (&[500, 201, 501], 501),
            (&[22_500, 300], 22_800),
            (&[22_500, 300, 5300], 27_800),
            (&[22_500, 22_500], 22_500),
        ] {
            assert_eq!(total(counts), expected, "{counts:?}");
        }
    }

    proptest! {
        #[test]
        fn totals_never_go_back(counts: Vec<u64>) {
            let mut totals = Monotone::<100, i32, ()>::default();
            let mut before = 0;
            for count in counts {
                totals.add(0, (), count);
                let now = totals.sums().map(|(_, sum)| sum).sum();
                prop_assert!(now >= before);
                before = now;
            }
        }
    }
}
