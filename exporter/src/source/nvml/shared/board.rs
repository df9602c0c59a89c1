//! The board of GPUs: what was last read of each, and what outlives its reader.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::super::absent::Absent;
use super::super::values::{Totals, Values};
use super::super::{Driver, Gpu, Process, Reading, Snapshot, State, Virtualization};
use super::clock::{Clock, STUCK_AFTER};
use super::{Generation, Shared};
use crate::parse::bus_id::Address;
use crate::source::xid::{ChannelState, Place};

#[derive(Default)]
pub(super) struct Board {
    pub(super) driver: Driver,
    /// Is there a generation whose driver has answered?
    pub(super) up: bool,
    pub(super) slots: Vec<Arc<Slot>>,
    /// Every GPU that has ever told who it is, by UUID.
    pub(super) known: BTreeMap<String, Known>,
}

/// What outlives the reader of a GPU.
pub(super) struct Known {
    index: u32,
    identity: Arc<Identity>,
    /// Is it missed when the driver does not list it? Not after it was released on request: the user who asked for that
    /// may have taken it away.
    pub(super) expected: bool,
    taken: Option<Instant>,
    totals: Totals,
    failures: u64,
}

impl Known {
    /// As it is shown while no thread reads it.
    fn gpu(&self, state: State) -> Gpu {
        let (taken, totals) = (self.taken, self.totals.clone());
        Gpu { state, taken, totals, failures: self.failures, ..self.identity.gpu(self.index) }
    }
}

/// What one reader shows to the outside.
pub(in super::super) struct Slot {
    pub(in super::super) index: u32,
    pub(super) generation: Generation,
    pub(in super::super) clock: Clock,
    /// How often its reader has opened the GPU; after each opening its events are watched again.
    pub(super) opened: AtomicU64,
    pub(super) seen: Mutex<Seen>,
}

pub(super) struct Seen {
    identity: Option<Arc<Identity>>,
    taken: Option<Instant>,
    state: State,
    /// Has its reader opened it, and not failed since? Known before the first reading is there.
    open: bool,
    values: Arc<Values>,
    processes: Reading<Vec<Process>>,
    events: Reading<()>,
}

/// What does not change while a GPU is there.
pub(in super::super) struct Identity {
    /// The UUID, or what stands for one that the driver does not tell.
    pub(in super::super) uuid: String,
    /// Why it is no UUID, where it is none.
    pub(in super::super) nameless: Option<Absent>,
    pub(in super::super) pci_bus_id: Reading<String>,
    pub(in super::super) minor: Reading<u32>,
    pub(in super::super) model: Reading<String>,
    pub(in super::super) serial: Reading<String>,
    pub(in super::super) virtualization: Reading<Virtualization>,
}

impl Identity {
    /// Where the GPU sits, if the driver tells.
    fn address(&self) -> Option<Address> {
        Address::parse(self.pci_bus_id.as_deref().ok()?)
    }

    /// A GPU about which no more is known.
    fn gpu(&self, index: u32) -> Gpu {
        Gpu {
            index,
            uuid: self.uuid.clone(),
            pci_bus_id: self.pci_bus_id.clone().unwrap_or_default(),
            minor: self.minor,
            model: self.model.clone().unwrap_or_default(),
            serial: self.serial.clone(),
            virtualization: self.virtualization,
            ..Gpu::default()
        }
    }
}

impl Shared {
    /// Tells whether the events come of a GPU that was opened so often; nothing when it has been opened again since.
    pub(in super::super) fn set_events(&self, slot: &Slot, opened: u64, events: Reading<()>) {
        let mut seen = slot.seen.lock();
        if slot.opened.load(Ordering::Relaxed) == opened {
            seen.events = events;
        }
    }

    pub(in super::super) fn set_driver(&self, driver: Driver) {
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
    pub(in super::super) fn totals(&self, uuid: &str) -> Totals {
        self.board.lock().known.get(uuid).map(|known| known.totals.clone()).unwrap_or_default()
    }

    /// Shows who the GPU is. Another one than before is an error: a second reader would have it under its own index. So is
    /// a UUID that cannot be read now of a GPU that had one: it would be there twice.
    pub(in super::super) fn identify(&self, slot: &Slot, identity: Identity) -> Reading<()> {
        if let Some(why) = identity.nameless {
            let had_one = |known: &Known| known.index == slot.index && known.identity.nameless.is_none();
            if self.board.lock().known.values().any(had_one) {
                return Err(why);
            }
        }
        if let Some(address) = identity.address().filter(|_| identity.nameless.is_none()) {
            self.journal.lock().identify(address, &identity.uuid);
        }
        let identity = Arc::new(identity);
        let before = slot.seen.lock().identity.replace(Arc::clone(&identity));
        let mut board = self.board.lock();
        // What stood for a UUID here was never another GPU.
        let stood_in = |known: &Known| known.index == slot.index && known.identity.nameless.is_some();
        board.known.retain(|uuid, known| *uuid == identity.uuid || !stood_in(known));
        if before.is_some_and(|before| before.uuid != identity.uuid) {
            return Err(Absent::RENUMBERED);
        }
        let before = board.known.remove(&identity.uuid);
        let (taken, totals, failures) =
            before.map(|known| (known.taken, known.totals, known.failures)).unwrap_or_default();
        let uuid = identity.uuid.clone();
        board.known.insert(uuid, Known { index: slot.index, identity, expected: true, taken, totals, failures });
        Ok(())
    }

    /// Did it fail to tell a part of who it is, one that it may tell when asked again?
    pub(in super::super) fn is_half_identified(&self, slot: &Slot) -> bool {
        let seen = slot.seen.lock();
        let Some(identity) = &seen.identity else { return false };
        let texts = [&identity.serial, &identity.pci_bus_id, &identity.model].map(|text| text.as_ref().err().copied());
        texts
            .into_iter()
            .chain([identity.minor.err(), identity.virtualization.err(), identity.nameless])
            .flatten()
            .any(|why| why != Absent::NotSupported)
    }

    /// Shows a finished cycle. A reader that was stuck while its generation ended shows nothing any more.
    pub(in super::super) fn publish(
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

    /// Keeps a GPU's totals for its next reader, and shows them.
    pub(in super::super) fn keep(&self, slot: &Slot, totals: &Totals) {
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
    pub(in super::super) fn fail(&self, slot: &Slot, why: Absent) {
        let state = if why == Absent::Lost { State::Lost } else { State::Failing(why) };
        slot.clock.reset();
        let before = {
            let mut seen = slot.seen.lock();
            seen.open = false;
            std::mem::replace(&mut seen.state, state)
        };
        if before != state {
            tracing::warn!(gpu = slot.index, ?state, "gpu cannot be read");
        }
        // Under the lock that waiters check under, or one of them misses it.
        let mut board = self.board.lock();
        board.with_known(slot, |known, _| known.failures += 1);
        self.published.notify_all();
    }

    pub(in super::super) fn snapshot(&self) -> Snapshot {
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
    pub(in super::super) fn wait_settled(&self, limit: Duration) {
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

    /// Adds the GPUs that are known and expected, but that no thread reads: released, on their way to be read again, or
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
    /// Its reader has opened the GPU, whose events are not watched yet, or not any more.
    pub(super) fn open(&self) {
        let mut seen = self.seen.lock();
        seen.open = true;
        seen.events = Err(Absent::NotSupported);
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn new(index: u32, generation: Generation) -> Self {
        let seen = Seen {
            identity: None,
            taken: None,
            state: State::Starting,
            open: false,
            values: Arc::new(Values::default()),
            processes: Err(Absent::NotSupported),
            events: Err(Absent::NotSupported),
        };
        Self { index, generation, clock: Clock::new(), opened: AtomicU64::new(0), seen: Mutex::new(seen) }
    }

    /// What its XIDs are kept under, once it is known.
    pub(in super::super) fn place(&self) -> Option<Place> {
        let seen = self.seen.lock();
        let identity = seen.identity.as_ref()?;
        Some(identity.address().map_or_else(|| Place::Gpu(identity.uuid.clone()), Place::Pci))
    }

    /// Is it open, as far as is known?
    pub(in super::super) fn is_open(&self) -> bool {
        self.seen.lock().open
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
