//! XID events of all GPUs, from one event set of the driver in a thread of its own.
//!
//! Only GPUs that their reader has opened are watched, so that one that hangs or is lost from the start does not block
//! the events of the others. An event goes into the journal at once: the next call may find the GPU lost, and the XID
//! is what explains it.

use std::collections::BTreeSet;
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

/// Most events that are taken in one go. In a storm the rest is taken after the set of GPUs was looked at again.
const TAKEN: usize = 1000;

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
            shared.opened(generation).iter().for_each(|(slot, opened)| shared.set_events(slot, *opened, Err(why)));
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

/// Listens until the generation ends.
fn listen(shared: &Shared, nvml: &Nvml, generation: Generation) -> Reading<()> {
    let mut listener = Listener::open(shared, nvml, generation)?;
    while shared.alive(generation) {
        match listener.watch() {
            true => listener.hear()?,
            false => listener = listener.renew()?,
        }
    }
    // What came since the last wait.
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

impl<'a> Listener<'a> {
    /// One with a set in which nothing is watched yet.
    fn open(shared: &'a Shared, nvml: &'a Nvml, generation: Generation) -> Reading<Self> {
        let set = shared.call(&shared.events, || Events::open(nvml))?;
        Ok(Self { shared, nvml, generation, set, watched: Vec::new(), seen: 0, begun: Instant::now() })
    }

    /// One with a new set, in which everything is watched before the old one has told its last: an XID of any GPU that
    /// comes meanwhile is heard by one of the two, or by both and counted once.
    fn renew(self) -> Reading<Self> {
        let mut next = Self::open(self.shared, self.nvml, self.generation)?;
        next.watch();
        let mut last = Vec::new();
        // A set that fails, as it may for the GPU that was lost, has told what it had.
        while last.len() < TAKEN
            && let Ok(Some(event)) = self.poll(Duration::ZERO)
        {
            self.note(&event);
            last.push(event);
        }
        let mut first = Vec::new();
        while first.len() < TAKEN
            && let Some(event) = next.poll(Duration::ZERO)?
        {
            first.push(event);
        }
        unheard(&last, &first).into_iter().for_each(|event| next.note(event));
        Ok(next)
    }

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
            let key = if slot.is_open() { self.register(&slot) } else { Err(Absent::Lost) };
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

    /// Takes the events there are, up to [`TAKEN`], having waited for the first; says how many.
    fn take(&self, limit: Duration) -> Reading<usize> {
        let (mut limit, mut taken) = (limit, 0);
        while taken < TAKEN
            && let Some(event) = self.poll(limit)?
        {
            self.note(&event);
            (limit, taken) = (Duration::ZERO, taken + 1);
            if !self.shared.alive(self.generation) {
                break;
            }
        }
        Ok(taken)
    }

    fn poll(&self, limit: Duration) -> Reading<Option<XidEvent>> {
        self.shared.call(&self.shared.events, || self.set.wait(limit))
    }

    /// Tells how it goes, GPU by GPU.
    fn tell(&self) {
        let refused = self.watched.iter().find_map(|watched| watched.key.err());
        let all_refused = !self.watched.is_empty() && self.watched.iter().all(|watched| watched.key.is_err());
        let channel = refused.filter(|_| all_refused).map_or(ChannelState::Ok, state);
        self.shared.set_channel(channel);
        for watched in &self.watched {
            self.shared.set_events(&watched.slot, watched.opened, watched.key.map(|_| ()));
        }
        self.shared.watched(self.seen);
    }

    fn note(&self, event: &XidEvent) {
        let of = self.watched.iter().find(|watched| watched.key == Ok(event.gpu));
        match of.and_then(|watched| watched.slot.place()) {
            Some(place) => {
                let date = self.shared.time.date();
                self.shared.journal.lock().hear_nvml(place, event.code, event.instance, date);
            }
            None => tracing::warn!(xid = event.code, "an XID of a gpu that was not asked about"),
        }
    }
}

/// Those of a new set's first events that are not an old set's last ones heard again: of each GPU, all but the longest run
/// with which the old set ended and the new one begins.
fn unheard<'e>(last: &[XidEvent], first: &'e [XidEvent]) -> Vec<&'e XidEvent> {
    let mut unheard: Vec<&XidEvent> = first.iter().collect();
    let gpus: BTreeSet<Key> = first.iter().map(|event| event.gpu).collect();
    for gpu in gpus {
        let of = |events: &[XidEvent]| -> Vec<XidEvent> { events.iter().filter(|e| e.gpu == gpu).copied().collect() };
        let (last, first) = (of(last), of(first));
        let mut again = (0..=first.len()).rev().find(|n| last.ends_with(&first[..*n])).unwrap_or(0);
        unheard.retain(|event| {
            let heard = event.gpu == gpu && again > 0;
            again -= usize::from(heard);
            !heard
        });
    }
    unheard
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(of: &[(usize, u64)]) -> Vec<XidEvent> {
        of.iter().map(|(gpu, code)| XidEvent { gpu: Key(*gpu), code: *code, instance: None }).collect()
    }

    #[test]
    fn what_both_sets_heard_is_counted_once() {
        let told = |last: &[(usize, u64)], first: &[(usize, u64)]| -> Vec<u64> {
            unheard(&events(last), &events(first)).iter().map(|event| event.code).collect()
        };
        assert_eq!(told(&[], &[(1, 31), (2, 79)]), [31, 79]);
        assert_eq!(told(&[(1, 13), (1, 31)], &[(1, 31), (1, 79)]), [79]);
        assert_eq!(told(&[(1, 31), (2, 13), (1, 79)], &[(1, 31), (1, 79), (2, 48)]), [48], "GPU by GPU");
        assert_eq!(told(&[(1, 31), (1, 13)], &[(1, 31)]), [31], "the old set heard something after it");
        assert_eq!(told(&[(1, 94), (1, 94), (1, 94)], &[(1, 94), (1, 94)]), [0; 0]);
    }
}
