//! XID events of all GPUs, from one event set of the driver in a thread of its own.
//!
//! Only GPUs that their reader has opened are watched, so that one that hangs or is lost from the start keeps nobody from
//! hearing of the others. An event goes into the journal at once: the next call may find the GPU lost, and the XID is what
//! explains it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nvml_wrapper::Nvml;

use super::absent::{Absent, Reading};
use super::raw::{Events, Key, XidEvent};
use super::shared::{Generation, Shared, Slot};
use crate::source::xid::ChannelState;

/// How long one wait inside the driver takes. An event ends it at once; a stop and a GPU that was just opened are noticed
/// after it.
const WAIT: Duration = Duration::from_secs(1);

/// For how long after a set was made GPUs are still being opened.
const OPENING: Duration = Duration::from_secs(3);

/// Pause between tries to watch a GPU whose registration was refused.
const RETRY: Duration = Duration::from_secs(10);

/// Pause after waiting has failed. Others than the one it failed for are not heard meanwhile.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// Waits for events until the generation ends.
pub(super) fn run(shared: &Shared, nvml: &Nvml, generation: Generation) {
    while shared.alive(generation) {
        let Err(why) = listen(shared, nvml, generation) else { continue };
        shared.set_channel(state(why));
        let until = shared.time.now() + AFTER_FAILURE;
        // Whatever is opened meanwhile is not watched either.
        while shared.alive(generation) && shared.time.now() < until {
            let openings = shared.openings();
            shared.opened(generation).iter().for_each(|(slot, _)| shared.set_events(slot, Err(why)));
            shared.watched(openings);
            shared.pause_listening(generation, until);
        }
    }
    shared.set_channel(ChannelState::Off);
}

fn state(why: Absent) -> ChannelState {
    match why {
        Absent::NotSupported => ChannelState::Unsupported,
        Absent::NotPermitted => ChannelState::Denied,
        Absent::Lost | Absent::Failed(_) => ChannelState::Failing,
    }
}

/// Listens with one set until the generation ends, or a GPU was opened again and wants a new one.
fn listen(shared: &Shared, nvml: &Nvml, generation: Generation) -> Reading<()> {
    let set = shared.call(&shared.events, || Events::open(nvml))?;
    let mut listener = Listener { shared, nvml, generation, set, watched: Vec::new(), seen: 0, begun: Instant::now() };
    while shared.alive(generation) && listener.watch() {
        listener.hear()?;
    }
    // What came since the last wait; the next set hears of what comes after its registrations alone.
    listener.take(Duration::ZERO).map(drop)
}

struct Listener<'a> {
    shared: &'a Shared,
    nvml: &'a Nvml,
    generation: Generation,
    set: Events<'a>,
    watched: Vec<Watched>,
    /// How many openings of GPUs it has seen.
    seen: u64,
    begun: Instant,
}

/// A GPU that was opened.
struct Watched {
    slot: Arc<Slot>,
    /// Its count of openings then.
    opened: u64,
    /// What its events bear, or why there are none.
    key: Reading<Key>,
    /// When it is tried again, if it was refused.
    again: Instant,
}

impl Watched {
    /// Is there nothing to try?
    fn is_settled(&self, now: Instant) -> bool {
        self.key.is_ok() || self.key == Err(Absent::NotSupported) || now < self.again
    }
}

impl Listener<'_> {
    /// Watches what has been opened since, and what was refused a while ago. Says whether this set still does: a GPU that
    /// was lost and found has a registration that may be dead.
    fn watch(&mut self) -> bool {
        let (openings, now) = (self.shared.openings(), self.shared.time.now());
        for (slot, opened) in self.shared.opened(self.generation) {
            let known = self.watched.iter().position(|watched| Arc::ptr_eq(&watched.slot, &slot));
            match known.map(|i| &self.watched[i]) {
                Some(known) if known.opened != opened => return false,
                Some(known) if known.is_settled(now) => continue,
                _ => {}
            }
            let key = if slot.is_lost() { Err(Absent::Lost) } else { self.register(&slot) };
            if let (Err(why), None) = (key, known) {
                tracing::warn!(gpu = slot.index, ?why, "the driver does not tell of this gpu's XIDs");
            }
            let watched = Watched { key, slot, opened, again: now + RETRY };
            match known {
                Some(i) => self.watched[i] = watched,
                None => self.watched.push(watched),
            }
        }
        self.seen = openings;
        true
    }

    fn register(&self, slot: &Slot) -> Reading<Key> {
        let device = self.shared.call(&self.shared.events, || self.nvml.device_by_index(slot.index))?;
        self.shared.call(&self.shared.events, || self.set.watch(&device))
    }

    /// Waits a while for events and takes those there are.
    fn hear(&mut self) -> Reading<()> {
        let until = self.shared.time.now() + WAIT;
        // The driver makes no promise about a set in which nothing is watched.
        let heard = match self.watched.iter().any(|watched| watched.key.is_ok()) {
            true => self.take(self.limit())?,
            false => 0,
        };
        self.tell();
        if heard == 0 {
            // A wait that came back early, as an interrupt makes it, must not become a busy loop.
            self.shared.pause_listening(self.generation, until);
        }
        Ok(())
    }

    /// How long to wait inside the driver. At first not at all: GPUs are opened one after the other, and each is watched at
    /// once.
    fn limit(&self) -> Duration {
        match self.begun.elapsed() < OPENING {
            true => Duration::ZERO,
            false => self.shared.time.in_driver(WAIT),
        }
    }

    /// Takes all events there are, having waited for the first; says how many.
    fn take(&self, limit: Duration) -> Reading<u64> {
        let (mut limit, mut taken) = (limit, 0);
        while let Some(event) = self.shared.call(&self.shared.events, || self.set.wait(limit))? {
            self.note(&event);
            (limit, taken) = (Duration::ZERO, taken + 1);
            if !self.shared.alive(self.generation) {
                break;
            }
        }
        Ok(taken)
    }

    /// Tells how it goes, GPU by GPU.
    fn tell(&self) {
        let refused = self.watched.iter().find_map(|watched| watched.key.err());
        let all_refused = !self.watched.is_empty() && self.watched.iter().all(|watched| watched.key.is_err());
        let channel = refused.filter(|_| all_refused).map_or(ChannelState::Ok, state);
        self.shared.set_channel(channel);
        self.watched.iter().for_each(|watched| self.shared.set_events(&watched.slot, watched.key.map(|_| ())));
        self.shared.watched(self.seen);
    }

    fn note(&self, event: &XidEvent) {
        let of = self.watched.iter().find(|watched| watched.key == Ok(event.gpu));
        match of.and_then(|watched| watched.slot.address()) {
            Some(address) => {
                let date = self.shared.time.date();
                self.shared.journal.lock().hear_nvml(address, event.code, event.instance, date);
            }
            None => tracing::warn!(xid = event.code, "an XID of a gpu that was not asked about"),
        }
    }
}
