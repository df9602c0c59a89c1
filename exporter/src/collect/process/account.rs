//! Totals of processes that come and go.

use std::collections::BTreeMap;

use super::COUNTERS;

/// A process: its id, and when it began, because ids come back.
type Key = (u32, u64);
type Counts = [Option<u64>; COUNTERS.len()];

/// One owner's totals, which only grow.
#[derive(Default)]
pub(super) struct Account {
    last: BTreeMap<Key, Counts>,
    now: BTreeMap<Key, Counts>,
    totals: [u64; COUNTERS.len()],
}

impl Account {
    /// Adds what the process counted since the scrape before. A new process brings its whole count if it began `since`;
    /// otherwise it is unknown when the process counted it.
    pub(super) fn add(&mut self, process: Key, counts: Counts, since: bool) {
        let last = self.last.get(&process);
        for (at, (total, count)) in self.totals.iter_mut().zip(counts).enumerate() {
            let Some(count) = count else { continue };
            let base = match last {
                Some(last) => last[at],
                None => since.then_some(0),
            };
            *total = total.saturating_add(base.map_or(0, |base| count.saturating_sub(base)));
        }
        self.now.insert(process, counts);
    }

    /// CPU time of the process since the scrape before; `None` if it was not there.
    pub(super) fn cpu_ticks_since(&self, process: Key, counts: &Counts) -> Option<u64> {
        let used = |counts: &Counts| Some(counts[0]? + counts[1]?);
        Some(used(counts)?.saturating_sub(used(self.last.get(&process)?)?))
    }

    /// After the processes of a scrape: what is gone is forgotten.
    pub(super) fn end(&mut self) {
        self.last = std::mem::take(&mut self.now);
    }

    /// In the order of [`COUNTERS`].
    pub(super) fn totals(&self) -> [u64; COUNTERS.len()] {
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrape(account: &mut Account, processes: &[(u32, Option<u64>, bool)]) -> u64 {
        for (pid, count, since) in processes {
            account.add((*pid, 0), [*count; COUNTERS.len()], *since);
        }
        account.end();
        account.totals()[0]
    }

    #[test]
    fn only_what_was_counted_while_watched() {
        let mut account = Account::default();
        assert_eq!(scrape(&mut account, &[(1, Some(1000), false)]), 0, "older than the exporter");
        assert_eq!(scrape(&mut account, &[(1, Some(1010), false)]), 10);
        assert_eq!(scrape(&mut account, &[(1, Some(1010), false), (2, Some(5), true)]), 15, "a new worker");
        assert_eq!(scrape(&mut account, &[(1, Some(1010), false), (3, Some(500), false)]), 15, "an old one joined");
        assert_eq!(scrape(&mut account, &[(1, Some(1011), false), (2, Some(6), false)]), 16, "one that came back");
    }

    #[test]
    fn a_gap_adds_nothing() {
        let mut account = Account::default();
        scrape(&mut account, &[(1, Some(10), false)]);
        assert_eq!(scrape(&mut account, &[(1, None, false)]), 0);
        assert_eq!(scrape(&mut account, &[(1, Some(100), false)]), 0);
        assert_eq!(scrape(&mut account, &[(1, Some(101), false)]), 1);
        assert_eq!(scrape(&mut account, &[(1, Some(50), false)]), 1, "a count that went back");
    }
}
