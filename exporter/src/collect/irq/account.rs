//! Totals that only grow, made from readings that do not.

use std::collections::BTreeMap;

/// One figure that the kernel counts per CPU, added up by NUMA node.
///
/// The kernel counts in 32 bits, which busy queues wrap within hours, and a device's interrupts vanish with their
/// counts when its driver restarts. So this adds up steps. A step is the difference modulo 2^32: below half the range
/// it is progress, wrapped or not; from there on, counts went back because interrupts vanished, and what was counted
/// since the last reading is lost instead of guessed.
#[derive(Default)]
pub(super) struct Account {
    last: BTreeMap<u32, u32>,
    by_node: BTreeMap<Option<u32>, u64>,
    busiest: u64,
}

impl Account {
    /// Takes in a reading: (CPU, its node, its count) of every CPU that is online. The first brings what was counted
    /// since boot.
    pub(super) fn add(&mut self, reading: impl IntoIterator<Item = (u32, Option<u32>, u64)>) {
        self.add_with(reading, |_, _| {});
    }

    /// As [`Self::add`], and calls `each` with every CPU that was read before and what it has counted since.
    pub(super) fn add_with(
        &mut self,
        reading: impl IntoIterator<Item = (u32, Option<u32>, u64)>,
        mut each: impl FnMut(u32, u64),
    ) {
        let mut busiest = 0;
        for (cpu, node, count) in reading {
            let known = self.last.contains_key(&cpu);
            let step = self.step(cpu, count);
            if known && step > 0 {
                each(cpu, step);
            }
            let total = self.by_node.entry(node).or_default();
            *total = total.saturating_add(step);
            busiest = step.max(busiest);
        }
        self.busiest = self.busiest.saturating_add(busiest);
    }

    fn step(&mut self, cpu: u32, count: u64) -> u64 {
        let low = count as u32;
        match self.last.insert(cpu, low) {
            None => count,
            Some(last) => Some(low.wrapping_sub(last)).filter(|step| *step < 1 << 31).map_or(0, u64::from),
        }
    }

    /// Totals by node; `None` stands for CPUs whose node is not known.
    pub(super) fn by_node(&self) -> impl Iterator<Item = (Option<u32>, u64)> {
        self.by_node.iter().map(|(node, total)| (*node, *total))
    }

    /// The sum, over readings, of the largest step that one CPU made.
    pub(super) fn busiest(&self) -> u64 {
        self.busiest
    }

    /// The total over all CPUs.
    pub(super) fn total(&self) -> u64 {
        self.by_node.values().fold(0, |sum, n| sum.saturating_add(*n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// CPUs 0 and 1 on nodes 0 and 1.
    fn add(account: &mut Account, counts: [u64; 2]) -> Vec<u64> {
        account.add([(0, Some(0), counts[0]), (1, Some(1), counts[1])]);
        account.by_node().map(|(_, total)| total).collect()
    }

    #[test]
    fn wraps_go_on() {
        let mut account = Account::default();
        assert_eq!(add(&mut account, [4_294_967_290, 5]), [4_294_967_290, 5]);
        assert_eq!(add(&mut account, [4, 6]), [4_294_967_300, 6]);
    }

    #[test]
    fn vanished_interrupts_take_nothing_back() {
        let mut account = Account::default();
        assert_eq!(add(&mut account, [1000, 50]), [1000, 50]);
        assert_eq!(add(&mut account, [10, 60]), [1000, 60]);
        assert_eq!(add(&mut account, [15, 60]), [1005, 60]);
    }

    #[test]
    fn a_cpu_that_was_offline_goes_on_where_it_was() {
        let mut account = Account::default();
        add(&mut account, [10, 20]);
        account.add([(0, Some(0), 11)]);
        assert_eq!(add(&mut account, [11, 22]), [11, 22]);
        assert_eq!(account.total(), 33);
    }

    #[test]
    fn the_busiest_cpu_may_change() {
        let mut account = Account::default();
        add(&mut account, [100, 0]);
        assert_eq!(account.busiest(), 100);
        add(&mut account, [101, 40]);
        assert_eq!(account.busiest(), 140, "one came from CPU 0, forty from CPU 1");
    }

    proptest! {
        #[test]
        fn totals_never_go_back(readings: Vec<(u64, u64)>) {
            let mut account = Account::default();
            let mut before = (0, 0);
            for (a, b) in readings {
                add(&mut account, [a, b]);
                let now = (account.total(), account.busiest());
                prop_assert!(now.0 >= before.0 && now.1 >= before.1);
                before = now;
            }
        }
    }
}
