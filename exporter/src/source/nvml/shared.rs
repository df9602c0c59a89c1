//! What the threads share: who runs, what was read last, and how to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::absent::Absent;
use super::fields::Plan;
use super::time::Time;
use super::values::{Totals, Values};
use super::{Driver, Gpu, Process, Reading, Snapshot, State};

/// A call that runs longer than this is reported as stuck. Calls take milliseconds; the longest wait that is meant,
/// for an event, takes one cycle.
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
    /// What the threads pace themselves by.
    pub(super) time: Time,
    /// What they read.
    pub(super) plan: Plan,
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
}

#[derive(Default)]
struct Board {
    driver: Driver,
    slots: Vec<Arc<Slot>>,
    totals: BTreeMap<String, Totals>,
}

/// When the running call began.
pub(super) struct Clock {
    epoch: Instant,
    /// Milliseconds after `epoch`, plus one; 0 while no call runs.
    began: AtomicU64,
}

impl Clock {
    fn new() -> Self {
        Self { epoch: Instant::now(), began: AtomicU64::new(0) }
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// How long a call has been running, if so long that it is stuck.
    fn stuck(&self) -> Option<Duration> {
        let began = self.began.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Duration::from_millis(self.milliseconds().saturating_sub(began))).filter(|d| *d > STUCK_AFTER)
    }
}

/// What one reader shows to the outside.
pub(super) struct Slot {
    pub(super) index: u32,
    generation: Generation,
    pub(super) clock: Clock,
    seen: Mutex<Seen>,
}

struct Seen {
    identity: Option<Arc<Identity>>,
    taken: Option<Instant>,
    state: State,
    values: Arc<Values>,
    processes: Reading<Vec<Process>>,
}

/// What does not change while a GPU is there.
pub(super) struct Identity {
    pub(super) uuid: String,
    pub(super) pci_bus_id: String,
    pub(super) minor: Reading<u32>,
    pub(super) model: String,
    pub(super) serial: Reading<String>,
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

impl Shared {
    pub(super) fn new(time: Time, plan: Plan) -> Self {
        Self {
            flags: Mutex::default(),
            changed: Condvar::new(),
            board: Mutex::default(),
            published: Condvar::new(),
            calls: AtomicU64::new(0),
            control: Clock::new(),
            time,
            plan,
        }
    }

    /// Makes one NVML call, counted and timed.
    pub(super) fn call<T>(&self, clock: &Clock, call: impl FnOnce() -> T) -> T {
        self.calls.fetch_add(1, Ordering::Relaxed);
        clock.began.store(clock.milliseconds() + 1, Ordering::Relaxed);
        let answer = call();
        clock.began.store(0, Ordering::Relaxed);
        answer
    }

    pub(super) fn stopping(&self) -> bool {
        self.flags.lock().stopping
    }

    pub(super) fn stop(&self) {
        self.flags.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Tells all of a generation's readers to end.
    pub(super) fn end(&self, generation: Generation) {
        let mut flags = self.flags.lock();
        flags.over = flags.over.max(generation);
        let running = flags.running.clone();
        self.board.lock().slots.retain(|s| s.generation > generation || running.contains(&s.index));
        self.changed.notify_all();
    }

    pub(super) fn alive(&self, generation: Generation) -> bool {
        let flags = self.flags.lock();
        !flags.stopping && generation > flags.over
    }

    /// Sleeps until then, or until the generation ends.
    pub(super) fn pause(&self, generation: Generation, until: Instant) {
        let mut flags = self.flags.lock();
        flags.pauses.push(until);
        self.time.pausing(&self.changed);
        while !flags.stopping && generation > flags.over && !self.time.wait(&self.changed, &mut flags, until) {}
        if let Some(own) = flags.pauses.iter().position(|pause| *pause == until) {
            flags.pauses.swap_remove(own);
        }
    }

    /// Moves an injected clock on, and waits until everything that is due by then is done: the control thread and every
    /// reader pause until later. With the wall clock, and while stopping, there is nothing to wait for.
    pub(super) fn step(&self, by: Duration) {
        let mut flags = self.flags.lock();
        let Some(now) = self.time.advance(by) else { return };
        self.changed.notify_all();
        let at_rest = |flags: &Flags| flags.pauses.iter().filter(|until| **until > now).count() > flags.running.len();
        while !flags.stopping && !at_rest(&flags) {
            self.changed.wait(&mut flags);
        }
    }

    /// Waits until no reader runs, but no longer than `limit`.
    pub(super) fn wait_readers(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut flags = self.flags.lock();
        while !flags.running.is_empty() && !self.changed.wait_until(&mut flags, until).timed_out() {}
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

    pub(super) fn set_driver(&self, driver: Driver) {
        let mut board = self.board.lock();
        if board.driver == driver {
            return;
        }
        match &driver {
            Driver::Starting => {}
            Driver::Loaded { version } => tracing::info!(version, "nvidia driver found"),
            Driver::Absent { reason } => tracing::warn!("{reason}"),
        }
        board.driver = driver;
        self.published.notify_all();
    }

    /// Totals of a GPU, from whichever reader had it last.
    pub(super) fn totals(&self, uuid: &str) -> Totals {
        self.board.lock().totals.get(uuid).cloned().unwrap_or_default()
    }

    pub(super) fn identify(&self, slot: &Slot, identity: Identity) {
        slot.seen.lock().identity = Some(Arc::new(identity));
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
        let uuid = slot.seen.lock().identity.as_ref().map(|i| i.uuid.clone());
        let mut board = self.board.lock();
        board.totals.extend(uuid.map(|uuid| (uuid, totals.clone())));
        self.published.notify_all();
    }

    /// Shows that the GPU cannot be read, and why.
    pub(super) fn fail(&self, slot: &Slot, why: Absent) {
        let state = if why == Absent::Lost { State::Lost } else { State::Failing(why) };
        if std::mem::replace(&mut slot.seen.lock().state, state) != state {
            tracing::warn!(gpu = slot.index, ?state, "gpu cannot be read");
        }
        // Under the lock that waiters check under, or one of them misses it.
        let _board = self.board.lock();
        self.published.notify_all();
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let board = self.board.lock();
        let now = self.time.now();
        let mut snapshot = Snapshot { at: now, driver: self.driver(&board), ..Snapshot::default() };
        snapshot.calls = self.calls.load(Ordering::Relaxed);
        for slot in &board.slots {
            match slot.gpu(&board.totals, now) {
                Ok(gpu) => snapshot.gpus.push(gpu),
                Err(state) => snapshot.unidentified.push((slot.index, state)),
            }
        }
        snapshot
    }

    /// A first load that does not come back is reported like one that failed.
    fn driver(&self, board: &Board) -> Driver {
        match (&board.driver, self.control.stuck()) {
            (Driver::Starting, Some(running)) => Driver::Absent {
                reason: format!("the nvidia driver has not answered for {} s; still waiting", running.as_secs()),
            },
            (driver, _) => driver.clone(),
        }
    }

    /// Waits until the driver's state is known and every GPU has been read or has failed.
    pub(super) fn wait_settled(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut board = self.board.lock();
        while !settled(&board) && !self.published.wait_until(&mut board, until).timed_out() {}
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
        };
        Self { index, generation, clock: Clock::new(), seen: Mutex::new(seen) }
    }

    /// How long nothing has come back. The clock does not tell of a hang in the calls that free what a reader holds,
    /// so the age of a reading that should be fresh counts too.
    fn stale(&self, seen: &Seen, now: Instant) -> Option<Duration> {
        let age = || seen.taken.filter(|_| seen.state == State::Ok).map(|taken| now.duration_since(taken));
        self.clock.stuck().or_else(|| age().filter(|age| *age > STUCK_AFTER))
    }

    /// The GPU as seen from outside; only its state while nothing is known of it.
    fn gpu(&self, totals: &BTreeMap<String, Totals>, now: Instant) -> Result<Gpu, State> {
        let seen = self.seen.lock();
        let state = self.stale(&seen, now).map_or(seen.state, State::Stale);
        let identity = seen.identity.as_ref().ok_or(state)?;
        Ok(Gpu {
            index: self.index,
            uuid: identity.uuid.clone(),
            pci_bus_id: identity.pci_bus_id.clone(),
            minor: identity.minor,
            model: identity.model.clone(),
            serial: identity.serial.clone(),
            taken: seen.taken,
            state,
            processes: seen.processes.clone(),
            values: Arc::clone(&seen.values),
            totals: totals.get(&identity.uuid).cloned().unwrap_or_default(),
        })
    }
}
