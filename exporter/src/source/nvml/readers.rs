//! The threads that read the GPUs, one GPU after another.
//!
//! Two threads take turns: one reads all GPUs in one waking, the other sleeps until the second after that. The thread
//! that wakes reads every GPU that no other thread is reading. So a call that does not come back keeps its thread with
//! its GPU. From the next second on, the thread that slept reads the others; it first starts another to take turns
//! with. No thread is woken to watch over another.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::absent::Reading;
use super::library::{Library, Opened};
use super::retry::Retry;
use super::shared::{Claim, Generation, Shared};

/// One cycle reads the counters. One second keeps what a rate over one 15 s scrape interval can be off by to 1/15, and
/// is far from any usual scrape interval: a cycle as long as that would alias.
///
/// It is also for how long a call may keep the GPUs behind its own waiting: they miss one cycle, and are not stale.
pub(super) const CYCLE: Duration = Duration::from_secs(1);

/// How many threads take turns.
const THREADS: usize = 2;

/// First pause before a lost or failing GPU is looked up again.
const RETRY: Duration = Duration::from_secs(2);

/// Longest such pause: two scrapes at the usual interval.
const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// A GPU, locked by the thread that reads it; nothing once it was released.
type Place = Arc<Mutex<Option<Gpu>>>;

/// The readers of one generation, and the threads that run them.
pub(super) struct Readers {
    shared: Arc<Shared>,
    library: Arc<Library>,
    generation: Generation,
    places: Mutex<Vec<Place>>,
    pace: Mutex<Pace>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Who wakes when.
struct Pace {
    /// Rounds begun.
    round: u64,
    /// When the last of them was.
    began: Option<Instant>,
    /// Until when the next thread that goes to sleep does so.
    next: Instant,
    /// Threads that sleep.
    asleep: usize,
}

/// One GPU, and how reading it goes.
struct Gpu {
    // Before the claim, whose end tells waiting threads that all calls have ended: fields are dropped in order.
    open: Option<Opened>,
    claim: Claim,
    /// When it was last looked up.
    began: Instant,
    retry: Retry,
    /// When it is to be looked up again, where it failed.
    again: Instant,
    /// The last round in which it had its turn.
    round: u64,
}

impl Readers {
    pub(super) fn new(shared: &Arc<Shared>, library: &Arc<Library>, generation: Generation) -> Arc<Self> {
        let pace = Pace { round: 0, began: None, next: shared.time.now(), asleep: 0 };
        Arc::new(Self {
            shared: Arc::clone(shared),
            library: Arc::clone(library),
            generation,
            places: Mutex::default(),
            pace: Mutex::new(pace),
            threads: Mutex::default(),
        })
    }

    /// Reads those of the GPUs that no thread reads, of whatever generation: a GPU that is stuck gets no second thread
    /// to get stuck in.
    pub(super) fn take_up(self: &Arc<Self>, indices: impl Iterator<Item = u32>) {
        let now = self.shared.time.now();
        let claims = indices.filter_map(|index| self.shared.claim(index, self.generation));
        let gpu = |claim| {
            let retry = Retry::new(RETRY, RETRY_LONGEST);
            Arc::new(Mutex::new(Some(Gpu { open: None, claim, began: now, retry, again: now, round: 0 })))
        };
        let new: Vec<Place> = claims.map(gpu).collect();
        let mut places = self.places.lock();
        if !new.is_empty() {
            // A reader that has panicked has left its place and its claim. Looked for only then: a thread that finds a
            // place locked leaves that GPU out for a cycle.
            places.retain(|place| place.try_lock().is_none_or(|gpu| gpu.is_some()));
        }
        places.extend(new);
        let is_empty = places.is_empty();
        drop(places);
        // Each thread has a share; those that run start others as they are needed.
        if !is_empty && Arc::strong_count(self) == 1 {
            self.join(self.start());
        }
    }

    /// Has a thread that calls the library waited for in the end.
    pub(super) fn join(&self, thread: Option<JoinHandle<()>>) {
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        threads.extend(thread);
    }

    /// Waits until all GPUs are released and their threads have ended, except those that hang.
    pub(super) fn end(self: &Arc<Self>, limit: Duration) {
        while !self.shared.wait_readers(limit) {
            let forgotten = |place: &Place| place.try_lock().is_some_and(|gpu| gpu.is_some());
            if !self.places.lock().iter().any(forgotten) {
                return;
            }
            // Every thread that should release them hangs in doing so.
            self.join(self.start());
        }
        // A thread that has released its GPUs still runs the end of its thread-local variables. The dynamic loader
        // keeps a library that has some until then, and after that until it is asked to close it again.
        let threads = std::mem::take(&mut *self.threads.lock());
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    fn start(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        let (readers, enlisted) = (Arc::clone(self), self.shared.enlist());
        let thread = std::thread::Builder::new().name("nvml-reader".to_owned());
        let spawned = thread.spawn(move || {
            readers.work();
            drop(readers);
            drop(enlisted);
        });
        spawned.inspect_err(|error| tracing::warn!(%error, "cannot start a thread that reads gpus")).ok()
    }

    /// Takes turns until the generation ends, or until there are enough threads without this one.
    fn work(self: &Arc<Self>) {
        let mut seen = 0;
        while let Some(round) = self.rest(seen) {
            seen = round;
            self.read(round);
        }
        if !self.shared.alive(self.generation) {
            self.let_go();
        }
    }

    /// Sleeps until it is this thread's turn and gives the round; nothing when it is not needed any more. A round that began
    /// while this thread was at a GPU is its own too: there may be something left of it, and be it that very GPU.
    fn rest(self: &Arc<Self>, seen: u64) -> Option<u64> {
        let until = {
            let mut pace = self.pace.lock();
            if pace.round > seen && seen > 0 {
                return self.shared.alive(self.generation).then_some(pace.round);
            }
            pace.sleep()?
        };
        self.shared.pause(self.generation, until);
        if !self.shared.alive(self.generation) {
            return None;
        }
        let mut pace = self.pace.lock();
        let begins = pace.wake(self.shared.time.now());
        let (round, asleep) = (pace.round, pace.asleep);
        drop(pace);
        if begins && asleep == 0 {
            self.join(self.start());
        }
        Some(round)
    }

    /// Reads every GPU that no thread is reading and that had no turn in this round.
    fn read(&self, round: u64) {
        let places = self.places.lock().clone();
        for mut place in places.iter().filter_map(|place| place.try_lock()) {
            if !self.shared.alive(self.generation) {
                return;
            }
            // Out of its place, or a panic would leave a broken one there.
            let Some(mut gpu) = place.take() else { continue };
            if gpu.round < round {
                gpu.round = round;
                gpu.read(self);
            }
            *place = Some(gpu);
        }
    }

    /// Drops every GPU that no thread is reading; a thread that reads one comes here after that. Two threads do at the
    /// end of a generation, so that a driver that does not take back what one GPU's reader holds keeps one of them.
    fn let_go(&self) {
        let places = self.places.lock().clone();
        places.iter().for_each(|place| drop(place.try_lock().and_then(|mut gpu| gpu.take())));
    }
}

impl Pace {
    /// Until when the thread that asks is to sleep; nothing if enough sleep already.
    fn sleep(&mut self) -> Option<Instant> {
        if self.asleep >= THREADS {
            return None;
        }
        self.asleep += 1;
        let until = self.next;
        self.next = until + CYCLE;
        Some(until)
    }

    /// One that slept has woken up. Says whether that begins a round: not if another was so late that its own has just
    /// begun, which the two then share.
    fn wake(&mut self, now: Instant) -> bool {
        self.asleep -= 1;
        let begins = self.began.is_none_or(|began| now >= began + CYCLE / 2);
        if begins {
            self.round += 1;
            self.began = Some(now);
            self.next = self.next.max(now + CYCLE);
        }
        begins
    }
}

impl Gpu {
    /// One cycle; looks the GPU up again after it has failed.
    fn read(&mut self, readers: &Readers) {
        let shared = &readers.shared;
        let now = shared.time.now();
        if now < self.again {
            return;
        }
        if let Err(why) = self.cycle(readers, now) {
            self.open = None;
            if why.is_driver_gone() {
                return shared.end(readers.generation);
            }
            shared.fail(&self.claim.slot, why);
            let now = shared.time.now();
            self.again = now + self.retry.pause(now.duration_since(self.began));
        }
    }

    fn cycle(&mut self, readers: &Readers, now: Instant) -> Reading<()> {
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                self.began = now;
                self.open.insert(Opened::open(&readers.shared, &readers.library, &self.claim.slot)?)
            }
        };
        open.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(start: Instant) -> Pace {
        Pace { round: 0, began: None, next: start, asleep: 0 }
    }

    #[test]
    fn two_threads_take_turns_second_by_second() {
        let start = Instant::now();
        let mut pace = pace(start);
        assert_eq!(pace.sleep(), Some(start));
        assert!(pace.wake(start));
        assert_eq!((pace.round, pace.asleep), (1, 0), "nobody is left to wake in a second");
        assert_eq!((pace.sleep(), pace.sleep()), (Some(start + CYCLE), Some(start + 2 * CYCLE)));
        assert_eq!(pace.sleep(), None, "a third is one too many");
        for n in 1..5 {
            // A little late, which adds up to nothing.
            assert!(pace.wake(start + n * CYCLE + CYCLE / 10));
            assert_eq!((pace.round, pace.asleep), (u64::from(n) + 1, 1));
            assert_eq!(pace.sleep(), Some(start + (n + 2) * CYCLE));
        }
    }

    #[test]
    fn one_that_hangs_is_not_counted_on_and_finds_its_place_taken() {
        let start = Instant::now();
        let mut pace = pace(start);
        assert!(pace.sleep().is_some() && pace.sleep().is_some());
        assert!(pace.wake(start));
        // It hangs; the other wakes, and a new one sleeps in its place.
        assert!(pace.wake(start + CYCLE));
        assert_eq!((pace.round, pace.asleep), (2, 0));
        assert_eq!((pace.sleep(), pace.sleep()), (Some(start + 2 * CYCLE), Some(start + 3 * CYCLE)));
        assert_eq!(pace.sleep(), None, "it is back");
    }

    #[test]
    fn who_wakes_too_late_begins_no_second_round_at_once() {
        let start = Instant::now();
        let mut pace = pace(start);
        assert!(pace.sleep().is_some() && pace.sleep().is_some());
        // The machine slept, or the clock was moved on by a minute.
        let late = start + 60 * CYCLE;
        assert!(pace.wake(late) && !pace.wake(late));
        assert_eq!(pace.round, 1);
        assert_eq!((pace.sleep(), pace.sleep()), (Some(late + CYCLE), Some(late + 2 * CYCLE)));
    }
}
