//! Which communicators and operations of a GPU have series of their own. The rest is one sum, and no counter goes back: a
//! pair's series begins with what it does once it has one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::parse::inspector::Operation;

/// Communicators with series of their own.
const COMMUNICATORS: usize = 4;
/// Operations of each.
const OPERATIONS: usize = 4;
/// Pairs of both: what leaves the series of a GPU that is its owner's only one within 112. Of each pair there are 6, the rest
/// takes 3, communicators 4, samples 32 and losses 5.
const PAIRS: usize = 11;
/// A communicator that was not used for so long gives its place to one that is: own choice, longer than an evaluation's pause.
const IDLE: Duration = Duration::from_secs(300);

/// Sums over collectives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) collectives: u64,
    pub(super) seconds: f64,
    pub(super) bus_bytes: f64,
    /// Times that the rank came last.
    pub(super) last: u64,
}

impl Sums {
    pub(super) fn add(&mut self, more: &Sums) {
        self.collectives = self.collectives.saturating_add(more.collectives);
        self.seconds += more.seconds;
        self.bus_bytes += more.bus_bytes;
        self.last = self.last.saturating_add(more.last);
    }
}

/// What was added since the last booking, by communicator. One without any is alive all the same.
pub(super) type Added = BTreeMap<u64, BTreeMap<Operation, Sums>>;

/// The series of one GPU and owner.
#[derive(Default)]
pub(super) struct Board {
    named: BTreeMap<u64, Named>,
    /// All others; `None` before the first.
    pub(super) other: Option<Sums>,
}

struct Named {
    used: Instant,
    operations: BTreeMap<Operation, Sums>,
}

impl Board {
    /// Books what was added at this time, with `rest` of communicators that are too many to be followed.
    pub(super) fn book(&mut self, added: &Added, rest: Option<Sums>, at: Instant) {
        self.named.retain(|communicator, _| added.contains_key(communicator));
        let is_used = |sums: &BTreeMap<Operation, Sums>| sums.values().any(|sums| sums.collectives > 0);
        for (communicator, named) in &mut self.named {
            if added.get(communicator).is_some_and(is_used) {
                named.used = at;
            }
        }
        self.name_more(added, at);
        let pairs = added
            .iter()
            .flat_map(|(id, operations)| operations.iter().map(move |(operation, sums)| (*id, *operation, sums)));
        let (moved, still): (Vec<_>, Vec<_>) = pairs.partition(|(.., sums)| sums.collectives > 0);
        for (communicator, operation, sums) in moved {
            match self.named_sums(communicator, operation) {
                Some(named) => named.add(sums),
                None => self.other.get_or_insert_default().add(sums),
            }
        }
        // Those that did nothing are shown where there is room: what stands still is how a hang looks.
        for (communicator, operation, _) in still {
            self.named_sums(communicator, operation);
        }
        if let Some(rest) = rest {
            self.other.get_or_insert_default().add(&rest);
        }
    }

    /// Gives free places to the communicators that moved most.
    fn name_more(&mut self, added: &Added, at: Instant) {
        let moved = |sums: &BTreeMap<Operation, Sums>| sums.values().map(|sums| sums.bus_bytes).sum::<f64>();
        let is_new = |(communicator, sums): &(&u64, &BTreeMap<Operation, Sums>)| {
            !self.named.contains_key(*communicator) && !sums.is_empty()
        };
        let is_used = |sums: &BTreeMap<Operation, Sums>| sums.values().any(|sums| sums.collectives > 0);
        let new = added.iter().filter(is_new).map(|(communicator, sums)| (*communicator, is_used(sums), moved(sums)));
        let mut new: Vec<_> = new.collect();
        new.sort_by(|a, b| b.1.cmp(&a.1).then(b.2.total_cmp(&a.2)).then(a.0.cmp(&b.0)));
        for (communicator, is_used, _) in new {
            if self.named.len() == COMMUNICATORS {
                if !is_used {
                    return;
                }
                let idle = |named: &&Named| at.saturating_duration_since(named.used) >= IDLE;
                let oldest = self.named.iter().filter(|(_, named)| idle(named)).min_by_key(|(_, named)| named.used);
                let Some(oldest) = oldest.map(|(communicator, _)| *communicator) else { return };
                self.named.remove(&oldest);
            }
            self.named.insert(communicator, Named { used: at, operations: BTreeMap::new() });
        }
    }

    /// The sums of a pair that has series of its own, or gets them now.
    fn named_sums(&mut self, communicator: u64, operation: Operation) -> Option<&mut Sums> {
        let pairs: usize = self.named.values().map(|named| named.operations.len()).sum();
        let operations = &mut self.named.get_mut(&communicator)?.operations;
        let has_room = operations.len() < OPERATIONS && pairs < PAIRS;
        (has_room || operations.contains_key(&operation)).then(|| operations.entry(operation).or_default())
    }

    /// The communicators with series of their own.
    pub(super) fn communicators(&self) -> impl Iterator<Item = u64> {
        self.named.keys().copied()
    }

    /// The pairs with series of their own.
    pub(super) fn pairs(&self) -> impl Iterator<Item = ((u64, Operation), &Sums)> {
        self.named.iter().flat_map(|(communicator, named)| {
            named.operations.iter().map(|(operation, sums)| ((*communicator, *operation), sums))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(collectives: u64, bus_bytes: f64) -> Sums {
        Sums { collectives, seconds: 1.0, bus_bytes, last: 0 }
    }

    fn added(communicators: impl IntoIterator<Item = (u64, u64)>) -> Added {
        let one = |(communicator, collectives)| {
            (communicator, BTreeMap::from([(Operation::AllReduce, sums(collectives, communicator as f64))]))
        };
        communicators.into_iter().map(one).collect()
    }

    fn named(board: &Board) -> Vec<u64> {
        board.communicators().collect()
    }

    #[test]
    fn those_that_move_most_have_series_and_keep_them() {
        let (mut board, at) = (Board::default(), Instant::now());
        board.book(&added((1..=6).map(|communicator| (communicator, 1))), None, at);
        assert_eq!(named(&board), [3, 4, 5, 6]);
        assert_eq!(board.other.unwrap().collectives, 2);
        board.book(&added((1..=9).map(|communicator| (communicator, 1))), Some(sums(5, 0.0)), at + IDLE / 2);
        assert_eq!(named(&board), [3, 4, 5, 6]);
        assert_eq!(board.other.unwrap().collectives, 2 + 5 + 5);
        assert!(board.pairs().all(|(_, sums)| sums.collectives == 2));
    }

    #[test]
    fn an_idle_one_gives_its_place_away_and_a_dead_one_goes() {
        let (mut board, at) = (Board::default(), Instant::now());
        board.book(&added((1..=4).map(|communicator| (communicator, 1))), None, at);
        let quiet = (1..=4).map(|communicator| (communicator, u64::from(communicator != 2))).chain([(5, 1)]);
        board.book(&added(quiet.clone()), None, at + IDLE - Duration::from_secs(1));
        assert_eq!(named(&board), [1, 2, 3, 4]);
        board.book(&added(quiet), None, at + IDLE);
        assert_eq!(named(&board), [1, 3, 4, 5]);
        board.book(&added([(3, 0)]), None, at + IDLE);
        assert_eq!(named(&board), [3]);
    }

    #[test]
    fn pairs_are_bounded() {
        let all: BTreeMap<_, _> = Operation::ALL.iter().map(|operation| (*operation, sums(1, 1.0))).collect();
        let mut board = Board::default();
        board.book(&(1..=8).map(|communicator| (communicator, all.clone())).collect(), None, Instant::now());
        assert_eq!(board.pairs().count(), PAIRS);
        assert_eq!(board.other.unwrap().collectives, 64 - PAIRS as u64);
    }
}
