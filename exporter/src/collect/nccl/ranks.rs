//! The same collective on several ranks of one node: who came last, and how long the transfer took.

use std::collections::{BTreeMap, BTreeSet};

use crate::parse::inspector::Operation;

/// Pairs of communicator and operation that are matched; own choice, five for each of eight jobs. Those beyond have no rows of
/// ranks.
const PAIRS: usize = 40;
/// Collectives of a pair that wait for the ranks that have not written them yet. Files are read by turns, in pieces of some
/// hundred records; what falls out is not matched.
const OPEN: usize = 512;
/// A rank came last if it needed at most this share of the time of the next one: own choice, above the jitter of a kernel's start.
const LAST: f64 = 0.9;

/// A communicator's collectives of one operation.
type Pair = (u64, Operation);

/// Ranks by owner: what a user writes is never matched with what another's job writes.
#[derive(Default)]
pub(super) struct Ranks {
    owners: BTreeMap<String, BTreeMap<Pair, Matched>>,
}

#[derive(Default)]
struct Matched {
    /// The last collective of each rank of this node.
    ranks: BTreeMap<u32, u64>,
    open: BTreeMap<u64, Times>,
    transfer: f64,
    /// Times that a rank came last, since they were asked for.
    last: BTreeMap<u32, u64>,
}

/// One collective, on the ranks that have written it.
struct Times {
    ranks: usize,
    rank: u32,
    least: f64,
    next: f64,
}

impl Ranks {
    /// A rank has completed a collective.
    pub(super) fn note(&mut self, owner: &str, pair: Pair, rank: u32, sequence: u64, seconds: f64) {
        if !self.has_room(owner, pair) {
            return;
        }
        let matched = self.owners.entry(owner.to_owned()).or_default().entry(pair).or_default();
        matched.ranks.insert(rank, sequence);
        let times =
            matched.open.entry(sequence).or_insert(Times { ranks: 0, rank, least: f64::INFINITY, next: f64::INFINITY });
        times.ranks += 1;
        if seconds < times.least {
            (times.rank, times.least, times.next) = (rank, seconds, times.least);
        } else {
            times.next = times.next.min(seconds);
        }
        if matched.open.len() > OPEN {
            matched.open.pop_first();
        }
    }

    /// Is the pair matched, or can it be? Where all places are taken, an owner with fewer of them gets one of the owner with most.
    fn has_room(&mut self, owner: &str, pair: Pair) -> bool {
        let own = self.owners.get(owner);
        if own.is_some_and(|pairs| pairs.contains_key(&pair)) {
            return true;
        }
        let own = own.map_or(0, BTreeMap::len);
        let count: usize = self.owners.values().map(BTreeMap::len).sum();
        if count < PAIRS {
            return true;
        }
        let most = self.owners.values_mut().max_by_key(|pairs| pairs.len());
        most.filter(|pairs| pairs.len() > own + 1).is_some_and(|pairs| pairs.pop_last().is_some())
    }

    /// Books what every rank of the node has passed.
    pub(super) fn settle(&mut self) {
        self.owners.values_mut().flat_map(BTreeMap::values_mut).for_each(Matched::settle);
    }

    /// Forgets the ranks that nothing is read of any more.
    pub(super) fn keep(&mut self, alive: &BTreeSet<(&str, u64, u32)>) {
        for (owner, pairs) in &mut self.owners {
            for ((communicator, _), matched) in &mut *pairs {
                matched.ranks.retain(|rank, _| alive.contains(&(owner.as_str(), *communicator, *rank)));
            }
            pairs.retain(|_, matched| !matched.ranks.is_empty());
        }
        self.owners.retain(|_, pairs| !pairs.is_empty());
    }

    /// Time that the transfer took so far; `None` of what is not matched.
    pub(super) fn transfer(&self, owner: &str, pair: Pair) -> Option<f64> {
        self.owners.get(owner)?.get(&pair).map(|matched| matched.transfer)
    }

    /// Times that the rank came last since this was asked for the last time.
    pub(super) fn take_last(&mut self, owner: &str, pair: Pair, rank: u32) -> u64 {
        let matched = self.owners.get_mut(owner).and_then(|pairs| pairs.get_mut(&pair));
        matched.and_then(|matched| matched.last.remove(&rank)).unwrap_or_default()
    }
}

impl Matched {
    fn settle(&mut self) {
        let passed = self.ranks.values().min().copied().unwrap_or_default();
        while let Some(first) = self.open.first_entry().filter(|first| *first.key() <= passed) {
            let times = first.remove();
            if times.ranks != self.ranks.len() {
                continue;
            }
            self.transfer += times.least;
            if times.ranks > 1 && times.least <= LAST * times.next {
                *self.last.entry(times.rank).or_default() += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: Pair = (7, Operation::AllReduce);

    fn ranks(times: &[(u32, u64, f64)]) -> Ranks {
        let mut ranks = Ranks::default();
        times.iter().for_each(|(rank, sequence, seconds)| ranks.note("a", PAIR, *rank, *sequence, *seconds));
        ranks.settle();
        ranks
    }

    fn last(ranks: &mut Ranks) -> [u64; 2] {
        [0, 1].map(|rank| ranks.take_last("a", PAIR, rank))
    }

    #[test]
    fn the_rank_that_needs_least_came_last() {
        let mut found = ranks(&[(0, 1, 9.0), (0, 2, 1.0), (0, 3, 1.0), (1, 1, 1.0), (1, 2, 1.125), (1, 3, 1.0)]);
        assert_eq!(found.transfer("a", PAIR), Some(3.0));
        assert_eq!(last(&mut found), [1, 1]);
        assert_eq!(last(&mut found), [0, 0], "it is taken once");
        let mut close = ranks(&[(0, 1, 1.0), (1, 1, 1.1)]);
        assert_eq!(last(&mut close), [0, 0], "within a tenth");
    }

    #[test]
    fn what_a_rank_has_not_written_is_waited_for() {
        let mut found = ranks(&[(0, 1, 2.0), (0, 2, 2.0), (1, 1, 1.0)]);
        assert_eq!(found.transfer("a", PAIR), Some(1.0));
        found.note("a", PAIR, 1, 2, 1.0);
        found.settle();
        assert_eq!((found.transfer("a", PAIR), last(&mut found)), (Some(2.0), [0, 2]));
    }

    #[test]
    fn a_collective_that_a_rank_has_lost_counts_for_none() {
        let mut found = ranks(&[(0, 1, 1.0), (0, 2, 1.0), (1, 2, 3.0)]);
        assert_eq!((found.transfer("a", PAIR), last(&mut found)), (Some(1.0), [1, 0]));
    }

    #[test]
    fn another_owners_records_are_not_matched() {
        let mut found = ranks(&[(0, 1, 2.0), (1, 1, 2.0)]);
        found.note("b", PAIR, 1, 1, 0.5);
        found.settle();
        assert_eq!((found.transfer("a", PAIR), last(&mut found)), (Some(2.0), [0, 0]));
    }

    #[test]
    fn a_rank_that_is_gone_is_not_waited_for() {
        let mut found = ranks(&[(0, 1, 1.0), (1, 1, 1.0), (0, 2, 1.0)]);
        assert_eq!(found.transfer("a", PAIR), Some(1.0));
        found.keep(&BTreeSet::from([("a", 7, 0)]));
        found.settle();
        assert_eq!(found.transfer("a", PAIR), Some(2.0));
        found.keep(&BTreeSet::new());
        assert_eq!(found.transfer("a", PAIR), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut ranks = Ranks::default();
        for sequence in 0..10_000 {
            ranks.note("a", PAIR, 0, sequence, 1.0);
            ranks.note("a", (sequence, Operation::AllReduce), 0, 1, 1.0);
        }
        let pairs = &ranks.owners["a"];
        assert_eq!((pairs.len(), pairs[&PAIR].open.len()), (PAIRS, OPEN));
        // Another owner gets as many places, and no more.
        (0..10_000).for_each(|id| ranks.note("b", (id, Operation::AllReduce), 0, 1, 1.0));
        assert_eq!([&ranks.owners["a"], &ranks.owners["b"]].map(BTreeMap::len), [PAIRS / 2, PAIRS / 2]);
        ranks.note("a", (99_999, Operation::AllReduce), 0, 1, 1.0);
        assert_eq!(ranks.owners["a"].len(), PAIRS / 2);
    }
}
