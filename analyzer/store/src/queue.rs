//! What waits for the writer: bounded in bytes, and taken from its senders in turn, so that a flood of one delays another's
//! commit by one group at most.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::admit::Row;
use super::stats::Compacted;
use super::{Appended, StoreError};
use goodput_exposition::sample::{ScrapeJob, Series};

/// A batch whose known series have been looked up.
pub(super) struct Incoming {
    /// Samples of known series; [`Row::batch`] is set by the writer.
    pub(super) rows: Vec<Row>,
    /// Series that the catalogue did not know.
    pub(super) fresh: Vec<Series>,
    /// What has been decided so far.
    pub(super) counts: Appended,
    /// How often series had been removed from the catalogue by then.
    pub(super) removals: u64,
    /// The sender, or the scrape job.
    pub(super) source: (Arc<str>, Option<ScrapeJob>),
    pub(super) reply: oneshot::Sender<Result<Appended, StoreError>>,
    /// Its room in the queue.
    pub(super) _place: Place,
}

impl Incoming {
    /// How many samples it brings.
    pub(super) fn samples(&self) -> usize {
        self.rows.len() + self.fresh.iter().map(|series| series.samples.len()).sum::<usize>()
    }
}

pub(super) enum Command {
    /// And who sent it.
    Append(Arc<str>, Incoming),
    Flush(oneshot::Sender<Result<(), StoreError>>),
    Compact(oneshot::Sender<Result<Option<Compacted>, StoreError>>),
    RollUpDays(oneshot::Sender<Result<(), StoreError>>),
    Close(oneshot::Sender<()>),
}

/// Room is given out in pieces of this many bytes; a batch takes one at least.
const PIECE: usize = 1024;

/// What one sender may take of the room: a quarter.
const SHARE: usize = 4;

/// How many bytes of batches may wait; further ones wait at their senders. A sender that waits for more than its share
/// waits for itself alone.
pub(super) struct Room {
    pieces: u32,
    all: Arc<Semaphore>,
    senders: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
}

/// Held by a batch until it is answered: of its sender's share, and of the whole.
pub(super) struct Place {
    _held: [Option<OwnedSemaphorePermit>; 2],
}

impl Room {
    pub(super) fn new(bytes: usize) -> Self {
        let pieces = pieces(bytes).max(SHARE as u32);
        Self { pieces, all: Arc::new(Semaphore::new(pieces as usize)), senders: Mutex::default() }
    }

    /// Waits for room. What alone is more than there is at all takes what there is.
    pub(super) async fn take(&self, sender: &Arc<str>, bytes: usize) -> Place {
        let share = self.pieces / SHARE as u32;
        let own = self.share_of(sender, share as usize);
        // An error would say that the semaphore is closed, which it never is.
        let own = own.acquire_many_owned(pieces(bytes).min(share)).await.ok();
        let all = Arc::clone(&self.all).acquire_many_owned(pieces(bytes).min(self.pieces)).await.ok();
        Place { _held: [own, all] }
    }

    fn share_of(&self, sender: &Arc<str>, share: usize) -> Arc<Semaphore> {
        let mut senders = self.senders.lock();
        if let Some(own) = senders.get(sender).and_then(Weak::upgrade) {
            return own;
        }
        // Senders that have nothing waiting are forgotten.
        senders.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(share));
        senders.insert(Arc::clone(sender), Arc::downgrade(&own));
        own
    }

    /// How many bytes are taken.
    pub(super) fn taken(&self) -> u64 {
        (self.pieces as usize - self.all.available_permits()) as u64 * PIECE as u64
    }
}

fn pieces(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 3)
}

/// Things by sender; the senders take turns.
pub(super) struct Turns<T> {
    waiting: HashMap<Arc<str>, VecDeque<T>>,
    /// Those that have something waiting; the first is next.
    order: VecDeque<Arc<str>>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> Turns<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn push(&mut self, sender: Arc<str>, thing: T) {
        let own = self.waiting.entry(Arc::clone(&sender)).or_default();
        if own.is_empty() {
            self.order.push_back(sender);
        }
        own.push_back(thing);
    }

    /// One of each sender after the other, in order for each, up to the first that is not wanted, which is the next.
    pub(super) fn take_while(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        while let Some(sender) = self.order.front() {
            let Some(own) = self.waiting.get_mut(sender) else { break };
            if !own.front().is_some_and(&mut wanted) {
                break;
            }
            taken.extend(own.pop_front());
            let exhausted = own.is_empty();
            if exhausted {
                self.waiting.remove(sender);
                self.order.pop_front();
            } else {
                self.order.rotate_left(1);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn each_has_its_turn() {
        let mut turns = Turns::default();
        for n in 0..4 {
            turns.push(sender("flood"), n);
        }
        turns.push(sender("a"), 10);
        turns.push(sender("b"), 20);
        turns.push(sender("a"), 11);
        assert_eq!(turns.take_while(|n| *n != 20), [0, 10]);
        assert_eq!(turns.take_while(|_| true), [20, 1, 11, 2, 3]);
        assert!(turns.is_empty() && turns.waiting.is_empty());
        turns.push(sender("a"), 12);
        assert_eq!(turns.take_while(|_| true), [12]);
    }

    #[tokio::test]
    async fn one_sender_takes_its_share_and_all_of_them_the_whole() {
        let room = Room::new(8 * PIECE);
        let waits = async |name: &str, bytes| {
            let name = sender(name);
            tokio::select! { biased; _ = room.take(&name, bytes) => false, () = tokio::task::yield_now() => true }
        };
        let first = room.take(&sender("a"), PIECE + 1).await;
        assert_eq!(room.taken(), 2 * PIECE as u64);
        assert!(waits("a", 1).await, "its share is taken");
        assert!(!waits("b", 1).await);
        let large = room.take(&sender("b"), 6 * PIECE).await;
        assert!(waits("c", 1).await, "all is taken");
        drop(large);
        assert!(!waits("c", 1).await);
        drop(first);
        assert!(!waits("a", usize::MAX).await, "alone, even what is too large goes through");
        assert_eq!(room.taken(), 0);
    }
}
