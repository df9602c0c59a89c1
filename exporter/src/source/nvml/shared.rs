//! What the threads share: who runs, what was read last, and how to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::absent::Absent;
use super::fields::Plan;
use super::time::Time;
use super::values::{Totals, Values};
use super::{Driver, Gpu, Process, Reading, Snapshot, State};
use crate::parse::bus_id::Address;
use crate::source::xid::{ChannelState, Journal};

/// A call that runs longer than this is reported as stuck, and once it is back, its GPU is left alone for a while. Calls
/// take milliseconds; the longest wait that is meant, for an event, takes one cycle.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(3);

/// One load of the library, numbered from 1.
pub(super) type Generation = u64;

/// State shared by the control thread, the readers and whoever wants a snapshot.
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
    /// Until when each thread that pauses does so, by the clock of the threads.
    pauses: Vec<Instant>,
    /// Generations up to this one are over.
    over: Generation,
    /// GPUs with a live reader, of whatever generation: a stuck one keeps a second from starting.
    running: BTreeSet<u32>,
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

#[derive(Default)]
struct Board {
    driver: Driver,
    /// Is there a generation whose driver has answered?
    up: bool,
    slots: Vec<Arc<Slot>>,
    /// Every GPU that has ever told who it is, by UUID.
    known: BTreeMap<String, Known>,
}

/// What outlives the reader of a GPU.
struct Known {
    index: u32,
    identity: Arc<Identity>,
    /// Is it missed when the driver does not list it? Not after it was let go of on request: whoever asked for that may
    /// have taken it away.
    expected: bool,
    taken: Option<Instant>,
    totals: Totals,
    failures: u64,
}

impl Known {
    /// As it is shown while nobody reads it.
    fn gpu(&self, state: State) -> Gpu {
        let (taken, totals) = (self.taken, self.totals.clone());
        Gpu { state, taken, totals, failures: self.failures, ..self.identity.gpu(self.index) }
    }
}

/// When the running call began, and whether one took too long.
pub(super) struct Clock {
    epoch: Instant,
    /// Milliseconds after `epoch`, plus one; 0 while no call runs.
    began: AtomicU64,
    /// The circuit breaker: a call was stuck, and the GPU has not been left alone since.
    tripped: AtomicBool,
}

impl Clock {
    fn new() -> Self {
        Self { epoch: Instant::now(), began: AtomicU64::new(0), tripped: AtomicBool::new(false) }
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// How long a call has been running, if so long that it is stuck.
    fn stuck(&self) -> Option<Duration> {
        let began = self.began.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Duration::from_millis(self.milliseconds().saturating_sub(began))).filter(|d| *d > STUCK_AFTER)
    }

    /// An error once a call was stuck: a driver that takes seconds for one answer is not asked for forty more, which
    /// would hold up the other GPUs behind its locks.
    pub(super) fn check(&self) -> Reading<()> {
        if self.tripped.load(Ordering::Relaxed) { Err(Absent::TOO_SLOW) } else { Ok(()) }
    }
}

/// What one reader shows to the outside.
pub(super) struct Slot {
    pub(super) index: u32,
    generation: Generation,
    pub(super) clock: Clock,
    /// How often its reader has opened the GPU; each time its events are watched anew.
    opened: AtomicU64,
    seen: Mutex<Seen>,
}

struct Seen {
    identity: Option<Arc<Identity>>,
    taken: Option<Instant>,
    state: State,
    values: Arc<Values>,
    processes: Reading<Vec<Process>>,
    events: Reading<()>,
}

/// What does not change while a GPU is there.
pub(super) struct Identity {
    pub(super) uuid: String,
    pub(super) pci_bus_id: String,
    pub(super) minor: Reading<u32>,
    pub(super) model: String,
    pub(super) serial: Reading<String>,
}

impl Identity {
    /// A GPU of which no more is known.
    fn gpu(&self, index: u32) -> Gpu {
        Gpu {
            index,
            uuid: self.uuid.clone(),
            pci_bus_id: self.pci_bus_id.clone(),
            minor: self.minor,
            model: self.model.clone(),
            serial: self.serial.clone(),
            ..Gpu::default()
        }
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

/// Ends a reader's claim on its GPU when the thread ends, however it ends.
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
        clock.began.store(clock.milliseconds() + 1, Ordering::Relaxed);
        let answer = call();
        if clock.stuck().is_some() {
            clock.tripped.store(true, Ordering::Relaxed);
        }
        clock.began.store(0, Ordering::Relaxed);
        answer
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

    /// Has all threads let go of the driver, for this long or until it is asked for again.
    pub(super) fn release(&self, limit: Duration) {
        self.flags.lock().released = Some(self.time.now() + limit);
        self.changed.notify_all();
    }

    /// Asks for the driver again.
    pub(super) fn acquire(&self) {
        self.flags.lock().released = None;
        self.changed.notify_all();
    }

    /// Waits while the driver is let go of, then counts the load of the library that is to be made; nothing when it is time
    /// to stop.
    pub(super) fn wait_wanted(self: &Arc<Self>) -> Option<Hold> {
        let mut flags = self.flags.lock();
        let mut was_released = false;
        while let Some(until) = flags.released.filter(|_| !flags.stopping) {
            was_released = true;
            if self.sleep(&mut flags, until, |flags| !flags.stopping && flags.released == Some(until)) {
                flags.released = None;
            }
        }
        if was_released {
            let mut board = self.board.lock();
            board.driver = Driver::Starting;
            board.known.values_mut().for_each(|known| known.expected = false);
        }
        (!flags.stopping).then(|| {
            flags.held += 1;
            Hold(Arc::clone(self))
        })
    }

    /// Waits until no library is loaded, but no longer than `limit`; says whether so.
    pub(super) fn wait_let_go(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut flags = self.flags.lock();
        while flags.held > 0 && !self.changed.wait_until(&mut flags, until).timed_out() {}
        flags.held == 0
    }

    /// Moves an injected clock on, and waits until everything that is due by then is done: the control thread, every reader
    /// and the thread that waits for events pause until later, and it watches every GPU that was opened. With the wall
    /// clock, and while stopping, there is nothing to wait for.
    pub(super) fn step(&self, by: Duration) {
        let mut flags = self.flags.lock();
        let Some(now) = self.time.advance(by) else { return };
        self.changed.notify_all();
        let at_rest = |flags: &Flags| {
            let pausing = flags.pauses.iter().filter(|until| **until > now).count();
            pausing > flags.running.len() + usize::from(flags.listening) && (!flags.listening || self.all_watched())
        };
        while !flags.stopping && !at_rest(&flags) {
            self.changed.wait(&mut flags);
        }
    }

    /// Waits until no thread holds the library, but no longer than `limit`; says whether none does.
    pub(super) fn wait_readers(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut flags = self.flags.lock();
        let held = |flags: &Flags| flags.listening || !flags.running.is_empty();
        while held(&flags) && !self.changed.wait_until(&mut flags, until).timed_out() {}
        !held(&flags)
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

    /// All that was opened up to then is watched, as far as the driver lets.
    pub(super) fn watched(&self, openings: u64) {
        let flags = self.flags.lock();
        self.watched.store(openings, Ordering::Relaxed);
        self.changed.notify_all();
        drop(flags);
        // Under the lock that waiters check under, or one of them misses it.
        let _board = self.board.lock();
        self.published.notify_all();
    }

    /// Tells whether a GPU's events come.
    pub(super) fn set_events(&self, slot: &Slot, events: Reading<()>) {
        slot.seen.lock().events = events;
    }

    /// Tells how waiting for events goes.
    pub(super) fn set_channel(&self, state: ChannelState) {
        self.journal.lock().nvml = state;
    }

    pub(super) fn set_driver(&self, driver: Driver) {
        let mut board = self.board.lock();
        board.up = matches!(driver, Driver::Loaded { .. });
        if board.driver == driver {
            return;
        }
        match &driver {
            Driver::Starting | Driver::Released { .. } => {}
            Driver::Loaded { version } => tracing::info!(version, "nvidia driver found"),
            Driver::Absent { reason } => tracing::warn!("{reason}"),
        }
        board.driver = driver;
        self.published.notify_all();
    }

    /// Totals of a GPU, from whichever reader had it last.
    pub(super) fn totals(&self, uuid: &str) -> Totals {
        self.board.lock().known.get(uuid).map(|known| known.totals.clone()).unwrap_or_default()
    }

    /// Shows who the GPU is. Another one than before is an error: a second reader would have it under its own index.
    pub(super) fn identify(&self, slot: &Slot, identity: Identity) -> Reading<()> {
        if let Some(address) = Address::parse(&identity.pci_bus_id) {
            self.journal.lock().identify(address, &identity.uuid);
        }
        let identity = Arc::new(identity);
        let before = slot.seen.lock().identity.replace(Arc::clone(&identity));
        if before.is_some_and(|before| before.uuid != identity.uuid) {
            return Err(Absent::RENUMBERED);
        }
        let mut board = self.board.lock();
        let before = board.known.remove(&identity.uuid);
        let (taken, totals, failures) =
            before.map(|known| (known.taken, known.totals, known.failures)).unwrap_or_default();
        let uuid = identity.uuid.clone();
        board.known.insert(uuid, Known { index: slot.index, identity, expected: true, taken, totals, failures });
        Ok(())
    }

    /// Has the thread that waits for events watch the GPU, which its reader has opened.
    pub(super) fn announce(&self, slot: &Slot) {
        slot.opened.fetch_add(1, Ordering::Relaxed);
        let _flags = self.flags.lock();
        self.openings.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Did it fail to tell a part of who it is, one that it may tell when asked again?
    pub(super) fn is_half_identified(&self, slot: &Slot) -> bool {
        let seen = slot.seen.lock();
        let parts =
            seen.identity.as_ref().map(|identity| [identity.minor.err(), identity.serial.as_ref().err().copied()]);
        parts.into_iter().flatten().flatten().any(|why| why != Absent::NotSupported)
    }

    /// Shows a finished cycle. A reader that was stuck while its generation ended shows nothing any more.
    pub(super) fn publish(
        &self,
        slot: &Slot,
        taken: Instant,
        values: Values,
        processes: Reading<Vec<Process>>,
        totals: &Totals,
    ) {
        if !self.alive(slot.generation) {
            return;
        }
        let mut seen = slot.seen.lock();
        seen.taken = Some(taken);
        if matches!(std::mem::replace(&mut seen.state, State::Ok), State::Lost | State::Failing(_)) {
            tracing::info!(gpu = slot.index, "gpu is read again");
        }
        seen.values = Arc::new(values);
        seen.processes = processes;
        drop(seen);
        self.keep(slot, totals);
    }

    /// Keeps a GPU's totals for whoever reads it next, and shows them.
    pub(super) fn keep(&self, slot: &Slot, totals: &Totals) {
        if !self.alive(slot.generation) {
            return;
        }
        let mut board = self.board.lock();
        board.with_known(slot, |known, seen| {
            known.totals.clone_from(totals);
            known.taken = seen.taken;
        });
        self.published.notify_all();
    }

    /// Shows that the GPU cannot be read, and why.
    pub(super) fn fail(&self, slot: &Slot, why: Absent) {
        let state = if why == Absent::Lost { State::Lost } else { State::Failing(why) };
        slot.clock.tripped.store(false, Ordering::Relaxed);
        if std::mem::replace(&mut slot.seen.lock().state, state) != state {
            tracing::warn!(gpu = slot.index, ?state, "gpu cannot be read");
        }
        // Under the lock that waiters check under, or one of them misses it.
        let mut board = self.board.lock();
        board.with_known(slot, |known, _| known.failures += 1);
        self.published.notify_all();
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let released = self.flags.lock().released;
        let board = self.board.lock();
        let now = self.time.now();
        let driver = self.driver(&board, released.map(|until| until.saturating_duration_since(now)));
        let mut snapshot = Snapshot { at: now, driver, ..Snapshot::default() };
        snapshot.calls = self.calls.load(Ordering::Relaxed);
        snapshot.listening = self.all_watched();
        snapshot.xids = self.journal.lock().clone();
        if self.events.stuck().is_some() {
            snapshot.xids.nvml = ChannelState::Stale;
        }
        for slot in &board.slots {
            match slot.gpu(&board.known, now) {
                Ok(gpu) => snapshot.gpus.push(gpu),
                Err(state) => snapshot.unidentified.push((slot.index, state)),
            }
        }
        board.add_missing(&mut snapshot);
        snapshot
    }

    /// A load or an end of the library that does not come back is reported like a load that failed.
    fn driver(&self, board: &Board, released: Option<Duration>) -> Driver {
        match (released, self.control.stuck()) {
            (Some(left), _) => Driver::Released { left, version: board.version().to_owned() },
            (None, Some(running)) if !board.up => Driver::Absent {
                reason: format!("the nvidia driver has not answered for {} s; still waiting", running.as_secs()),
            },
            _ => board.driver.clone(),
        }
    }

    /// Waits until the driver's state is known and every GPU has been read or has failed.
    pub(super) fn wait_settled(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut board = self.board.lock();
        let done = |board: &Board| settled(board) && self.all_watched();
        while !done(&board) && !self.published.wait_until(&mut board, until).timed_out() {}
    }
}

impl Board {
    /// Changes what outlives the slot's reader, if the GPU has told who it is.
    fn with_known(&mut self, slot: &Slot, change: impl FnOnce(&mut Known, &Seen)) {
        let seen = slot.seen.lock();
        let known = seen.identity.as_ref().and_then(|identity| self.known.get_mut(&identity.uuid));
        if let Some(known) = known {
            change(known, &seen);
        }
    }

    /// Of the driver that answered last; empty when none has.
    fn version(&self) -> &str {
        if let Driver::Loaded { version } = &self.driver { version } else { "" }
    }

    /// Adds the GPUs that are known and expected, but that nobody reads: let go of, on their way to be read again, or
    /// lost. One that vanished from the driver's list must not vanish from the metrics.
    fn add_missing(&self, snapshot: &mut Snapshot) {
        if let Driver::Starting | Driver::Absent { .. } = snapshot.driver {
            return;
        }
        let released = matches!(snapshot.driver, Driver::Released { .. });
        let complete = self.up && snapshot.unidentified.iter().all(|(_, state)| *state != State::Starting);
        let read: BTreeSet<_> = snapshot.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        let missing = self.known.iter().filter(|(uuid, known)| known.expected && !read.contains(*uuid));
        for known in missing.map(|(_, known)| known) {
            let place = snapshot.unidentified.iter().position(|(index, _)| *index == known.index);
            let state = match place.map(|place| snapshot.unidentified.remove(place)) {
                Some((_, state)) => state,
                None if released => State::Released,
                None if complete => State::Lost,
                None => State::Starting,
            };
            snapshot.gpus.push(known.gpu(state));
        }
        snapshot.gpus.sort_by_key(|gpu| gpu.index);
    }
}

fn settled(board: &Board) -> bool {
    !matches!(board.driver, Driver::Starting)
        && board.slots.iter().all(|slot| !matches!(slot.seen.lock().state, State::Starting))
}

impl Slot {
    fn new(index: u32, generation: Generation) -> Self {
        let seen = Seen {
            identity: None,
            taken: None,
            state: State::Starting,
            values: Arc::new(Values::default()),
            processes: Err(Absent::NotSupported),
            events: Err(Absent::NotSupported),
        };
        Self { index, generation, clock: Clock::new(), opened: AtomicU64::new(0), seen: Mutex::new(seen) }
    }

    /// Where the GPU sits, once it is known.
    pub(super) fn address(&self) -> Option<Address> {
        self.seen.lock().identity.as_ref().and_then(|identity| Address::parse(&identity.pci_bus_id))
    }

    /// Has the driver said that it cannot be read?
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.seen.lock().state, State::Lost | State::Failing(_))
    }

    /// How long nothing has come back. The clock does not tell of a hang in the calls that free what a reader holds,
    /// so the age of a reading that should be fresh counts too.
    fn stale(&self, seen: &Seen, now: Instant) -> Option<Duration> {
        let age = || seen.taken.filter(|_| seen.state == State::Ok).map(|taken| now.duration_since(taken));
        self.clock.stuck().or_else(|| age().filter(|age| *age > STUCK_AFTER))
    }

    /// The GPU as seen from outside; only its state while nothing is known of it.
    fn gpu(&self, known: &BTreeMap<String, Known>, now: Instant) -> Result<Gpu, State> {
        let seen = self.seen.lock();
        let state = self.stale(&seen, now).map_or(seen.state, State::Stale);
        let identity = seen.identity.as_ref().ok_or(state)?;
        let known = known.get(&identity.uuid);
        Ok(Gpu {
            taken: seen.taken,
            state,
            processes: seen.processes.clone(),
            events: seen.events,
            values: Arc::clone(&seen.values),
            totals: known.map(|known| known.totals.clone()).unwrap_or_default(),
            failures: known.map(|known| known.failures).unwrap_or_default(),
            ..identity.gpu(self.index)
        })
    }
}
