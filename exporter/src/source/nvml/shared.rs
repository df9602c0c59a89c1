//! What the threads share: who runs, what was read last, and how to stop.

mod board;
mod clock;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::fields::Plan;
use super::time::Time;
use super::{Driver, Reading};
use crate::source::xid::{ChannelState, Journal};
use board::Board;
pub(super) use board::{Identity, Slot};
use clock::Clock;

/// One load of the library, numbered from 1.
pub(super) type Generation = u64;

/// State shared by the control thread, the readers and the callers that take a snapshot.
pub(super) struct Shared {
    flags: Mutex<Flags>,
    changed: Condvar,
    board: Mutex<Board>,
    published: Condvar,
    /// NVML calls made, ever.
    calls: AtomicU64,
    /// The control thread's own calls.
    pub(super) control: Clock,
    /// The calls of the thread that waits for events.
    pub(super) events: Clock,
    /// How often a reader has opened its GPU, and how many of these the thread that waits for events has seen; both change
    /// under the lock of `flags`.
    openings: AtomicU64,
    watched: AtomicU64,
    /// What was heard of XIDs.
    pub(super) journal: Arc<Mutex<Journal>>,
    /// What the threads pace themselves by.
    pub(super) time: Time,
    /// What they read.
    plan: Mutex<Arc<Plan>>,
}

#[derive(Default)]
struct Flags {
    stopping: bool,
    /// The newest generation that has begun.
    begun: Generation,
    /// Has the driver been released on request since then?
    was_released: bool,
    /// Until when each thread that pauses does so, by the clock of the threads.
    pauses: Vec<Instant>,
    /// Generations up to this one are over.
    over: Generation,
    /// GPUs that are read, by whatever generation: a stuck one keeps a second reader from it.
    running: BTreeSet<u32>,
    /// Threads that read them.
    threads: usize,
    /// Does a thread wait for events, of whatever generation?
    listening: bool,
    /// Until when nothing of the driver is to be held, by the clock of the threads; `None` while it is wanted.
    released: Option<Instant>,
    /// Loads of the library, of whatever generation, that are not closed yet.
    held: u32,
}

impl Flags {
    fn goes_on(&self, generation: Generation) -> bool {
        !self.stopping && self.released.is_none() && generation > self.over
    }
}

/// One load of the library: counted from before it is loaded until after it is closed.
pub(super) struct Hold(Arc<Shared>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.flags.lock().held -= 1;
        self.0.changed.notify_all();
    }
}

/// A thread that reads GPUs, counted until it ends, however it ends.
pub(super) struct Enlisted(Arc<Shared>);

impl Drop for Enlisted {
    fn drop(&mut self) {
        self.0.flags.lock().threads -= 1;
        self.0.changed.notify_all();
    }
}

/// Ends a reader's claim on its GPU when the reader ends, however it ends.
pub(super) struct Claim {
    shared: Arc<Shared>,
    pub(super) slot: Arc<Slot>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut flags = self.shared.flags.lock();
        flags.running.remove(&self.slot.index);
        if self.slot.generation <= flags.over {
            self.shared.board.lock().slots.retain(|s| !Arc::ptr_eq(s, &self.slot));
        }
        self.shared.changed.notify_all();
    }
}

/// Ends the claim on the events when the thread that waits for them ends, however it ends.
pub(super) struct Listening(Arc<Shared>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.flags.lock().listening = false;
        self.0.changed.notify_all();
    }
}

impl Shared {
    pub(super) fn new(time: Time, plan: Plan) -> Self {
        Self {
            flags: Mutex::default(),
            changed: Condvar::new(),
            board: Mutex::default(),
            published: Condvar::new(),
            calls: AtomicU64::new(0),
            control: Clock::new(),
            events: Clock::new(),
            openings: AtomicU64::new(0),
            watched: AtomicU64::new(0),
            journal: Arc::default(),
            time,
            plan: Mutex::new(Arc::new(plan)),
        }
    }

    /// What is to be read.
    pub(super) fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan.lock())
    }

    /// Has the readers read something else from their next cycle on.
    pub(super) fn follow(&self, plan: Plan) {
        *self.plan.lock() = Arc::new(plan);
    }

    /// Makes one NVML call, counted and timed.
    pub(super) fn call<T>(&self, clock: &Clock, call: impl FnOnce() -> T) -> T {
        self.calls.fetch_add(1, Ordering::Relaxed);
        clock.time(call)
    }

    /// As [`Shared::call`], for a call about one GPU, which is not made any more once one was stuck.
    pub(super) fn ask<T>(&self, slot: &Slot, call: impl FnOnce() -> Reading<T>) -> Reading<T> {
        slot.clock.check()?;
        self.call(&slot.clock, call)
    }

    pub(super) fn stop(&self) {
        self.flags.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Tells all of a generation's readers to end.
    pub(super) fn end(&self, generation: Generation) {
        let mut flags = self.flags.lock();
        flags.over = flags.over.max(generation);
        let mut board = self.board.lock();
        board.up = false;
        board.slots.retain(|s| s.generation > generation || flags.running.contains(&s.index));
        self.changed.notify_all();
    }

    pub(super) fn alive(&self, generation: Generation) -> bool {
        self.flags.lock().goes_on(generation)
    }

    /// Sleeps until then, or until the generation ends.
    pub(super) fn pause(&self, generation: Generation, until: Instant) {
        self.sleep(&mut self.flags.lock(), until, |flags| flags.goes_on(generation));
    }

    /// As [`Shared::pause`], but ends when a reader opens its GPU that had not when `watched` was told so.
    pub(super) fn pause_listening(&self, generation: Generation, until: Instant) {
        self.sleep(&mut self.flags.lock(), until, |flags| flags.goes_on(generation) && self.all_watched());
    }

    /// Sleeps until then, or until the condition holds no more; says whether the time has come.
    fn sleep(&self, flags: &mut MutexGuard<'_, Flags>, until: Instant, wanted: impl Fn(&Flags) -> bool) -> bool {
        flags.pauses.push(until);
        self.time.pausing(&self.changed);
        let mut come = false;
        while wanted(flags) && !come {
            come = self.time.wait(&self.changed, flags, until);
        }
        if let Some(own) = flags.pauses.iter().position(|pause| *pause == until) {
            flags.pauses.swap_remove(own);
        }
        come
    }

    /// Makes all threads release the driver, for this long or until it is asked for again. The generation is over even
    /// before a thread that hangs can notice.
    pub(super) fn release(&self, limit: Duration) {
        let mut flags = self.flags.lock();
        flags.released = Some(self.time.now() + limit);
        flags.was_released = true;
        flags.over = flags.begun;
        self.changed.notify_all();
    }

    /// Asks for the driver again.
    pub(super) fn acquire(&self) {
        self.flags.lock().released = None;
        self.changed.notify_all();
    }

    /// Waits while the driver is released, then begins the next generation and counts its load of the library; nothing
    /// when it is time to stop.
    pub(super) fn wait_wanted(self: &Arc<Self>) -> Option<(Generation, Hold)> {
        let mut flags = self.flags.lock();
        while let Some(until) = flags.released.filter(|_| !flags.stopping) {
            if self.sleep(&mut flags, until, |flags| !flags.stopping && flags.released == Some(until)) {
                flags.released = None;
            }
        }
        if std::mem::take(&mut flags.was_released) {
            let mut board = self.board.lock();
            board.driver = Driver::Starting;
            board.known.values_mut().for_each(|known| known.expected = false);
        }
        (!flags.stopping).then(|| {
            flags.held += 1;
            flags.begun += 1;
            (flags.begun, Hold(Arc::clone(self)))
        })
    }

    /// Waits until no library is loaded, but no longer than `limit`; says whether so.
    pub(super) fn wait_let_go(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut flags = self.flags.lock();
        while flags.held > 0 && !self.changed.wait_until(&mut flags, until).timed_out() {}
        flags.held == 0
    }

    /// Moves an injected clock on, and waits until everything that is due by then is done: the control thread, those that
    /// read and the thread that waits for events pause until later, and it watches every GPU that was opened. With the wall
    /// clock, and while stopping, there is nothing to wait for.
    pub(super) fn step(&self, by: Duration) {
        let mut flags = self.flags.lock();
        let Some(now) = self.time.advance(by) else { return };
        self.changed.notify_all();
        let at_rest = |flags: &Flags| {
            let pausing = flags.pauses.iter().filter(|until| **until > now).count();
            pausing > flags.threads + usize::from(flags.listening) && (!flags.listening || self.all_watched())
        };
        while !flags.stopping && !at_rest(&flags) {
            self.changed.wait(&mut flags);
        }
    }

    /// Waits until no thread reads a GPU or waits for events, but no longer than `limit`; says whether so.
    pub(super) fn wait_readers(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut flags = self.flags.lock();
        let held = |flags: &Flags| flags.listening || !flags.running.is_empty();
        while held(&flags) && !self.changed.wait_until(&mut flags, until).timed_out() {}
        !held(&flags)
    }

    /// Counts a thread that is about to read GPUs.
    pub(super) fn enlist(self: &Arc<Self>) -> Enlisted {
        self.flags.lock().threads += 1;
        Enlisted(Arc::clone(self))
    }

    /// Claims a GPU for a new reader; nothing while an older one still runs.
    pub(super) fn claim(self: &Arc<Self>, index: u32, generation: Generation) -> Option<Claim> {
        if !self.flags.lock().running.insert(index) {
            return None;
        }
        let slot = Arc::new(Slot::new(index, generation));
        let mut board = self.board.lock();
        board.slots.retain(|s| s.index != index);
        board.slots.push(Arc::clone(&slot));
        board.slots.sort_by_key(|s| s.index);
        drop(board);
        Some(Claim { shared: Arc::clone(self), slot })
    }

    /// Claims the events for a new thread; nothing while an older one still runs.
    pub(super) fn listen(self: &Arc<Self>) -> Option<Listening> {
        let before = std::mem::replace(&mut self.flags.lock().listening, true);
        (!before).then(|| Listening(Arc::clone(self)))
    }

    /// The GPUs of the generation that their readers have opened, and how often each.
    pub(super) fn opened(&self, generation: Generation) -> Vec<(Arc<Slot>, u64)> {
        let opened = |slot: &Arc<Slot>| slot.opened.load(Ordering::Relaxed);
        let board = self.board.lock();
        let slots = board.slots.iter().filter(|slot| slot.generation == generation && opened(slot) > 0);
        slots.map(|slot| (Arc::clone(slot), opened(slot))).collect()
    }

    /// How often any reader has opened its GPU so far.
    pub(super) fn openings(&self) -> u64 {
        self.openings.load(Ordering::Relaxed)
    }

    fn all_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed) == self.openings()
    }

    /// All that was opened up to then is watched, as far as the driver lets. Called every second: no thread is woken
    /// when nothing has changed.
    pub(super) fn watched(&self, openings: u64) {
        let flags = self.flags.lock();
        if self.watched.swap(openings, Ordering::Relaxed) == openings {
            return;
        }
        self.changed.notify_all();
        drop(flags);
        // Under the lock that waiters check under, or one of them misses it.
        let _board = self.board.lock();
        self.published.notify_all();
    }

    /// Tells how waiting for events goes.
    pub(super) fn set_channel(&self, state: ChannelState) {
        self.journal.lock().nvml = state;
    }

    /// Has the thread that waits for events watch the GPU, which its reader has opened.
    pub(super) fn announce(&self, slot: &Slot) {
        slot.open();
        let _flags = self.flags.lock();
        self.openings.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_catalog::dcgm::Selection;

    #[test]
    fn a_release_that_is_taken_back_at_once_ends_the_generation_all_the_same() {
        let shared = Arc::new(Shared::new(Time::Wall, Plan::new(&Selection::default())));
        let (first, _hold) = shared.wait_wanted().unwrap();
        assert!(shared.alive(first));
        shared.release(Duration::from_secs(600));
        shared.acquire();
        assert!(!shared.alive(first), "some of its threads have seen the release, and some have not");
        let (second, _hold) = shared.wait_wanted().unwrap();
        assert!(second > first && shared.alive(second));
    }
}
