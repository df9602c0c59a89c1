//! What one file says of its process, record by record: sums, and what is missing from them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::board::Sums;
use super::ranks::Ranks;
use crate::parse::inspector::json::{Collective, Context, Line, Records, Refused};
use crate::parse::inspector::{MOST_BANDWIDTH, Operation};
use crate::source::inspector::tail::Part;

/// Communicators of a file that are followed; own choice, a rank of a large job has some ten. The rest is summed only.
const COMMUNICATORS: usize = 12;
/// One that has written nothing for so long gives its place to another: own choice.
const IDLE: Duration = Duration::from_secs(600);
/// How much longer than its process lives a communicator's collectives may seem to take: own choice, a rounding of two clocks.
const ROUNDING: f64 = 1.0;
/// Collectives whose number is a multiple of this are kept as samples, as many as there are slots.
const SAMPLED: u64 = 16;
/// Slots of samples.
pub(super) const SLOTS: usize = 8;

goodput_catalog::named! {
    /// Why a record is missing from the sums.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Lost {
        /// The plug-in's buffer was full.
        Overwritten = "overwritten",
        /// Its number was never written.
        Gap = "gap",
        /// It was passed over, as the file grows too fast.
        Behind = "behind",
        /// The line makes no sense.
        Rejected = "rejected",
        /// It says what cannot be.
        Implausible = "implausible",
    }
}

/// Losses by reason.
pub(super) type Losses = [u64; Lost::ALL.len()];

/// What is known of a file.
#[derive(Default)]
pub(super) struct Account {
    records: Records,
    pub(super) communicators: BTreeMap<(u64, u32), Communicator>,
    /// Of communicators beyond those, since the last booking; and the seconds of all time.
    pub(super) rest: Option<Sums>,
    rest_spent: f64,
    /// When the newest record was written, and the newest one before the file was cut: those until then are counted in `rest`.
    newest_us: Option<u64>,
    cut_at_us: Option<u64>,
    /// Since the last booking.
    pub(super) lost: Losses,
    /// Times that a part of the file was passed over.
    skips: u64,
    /// Was a part passed over, and no record read since?
    is_past_a_skip: bool,
    /// A form that is not known here, since it was asked for.
    pub(super) unknown: Option<String>,
}

/// A communicator in which the process has a rank.
pub(super) struct Communicator {
    pub(super) about: Context,
    pub(super) operations: BTreeMap<Operation, Finished>,
    used: Instant,
    /// Seconds of all its collectives.
    spent: f64,
    /// Collectives that the plug-in has overwritten so far.
    overwritten: u64,
    /// How many of them, and of those that cannot be, no gap was seen of yet.
    unseen: u64,
}

/// What it did of one operation.
#[derive(Default)]
pub(super) struct Finished {
    /// The last collective's number.
    pub(super) sequence: u64,
    skips: u64,
    /// Since the last booking.
    pub(super) added: Sums,
    /// Number and seconds by slot.
    pub(super) samples: [Option<(u64, f64)>; SLOTS],
}

/// Where and when a record is read.
pub(super) struct Reading<'a> {
    /// Whose the file is.
    pub(super) owner: &'a str,
    /// How long its process lives, in seconds.
    pub(super) age: f64,
    /// When the exporter began to read, in microseconds since 1970. What was written before is not counted: another exporter may
    /// have counted it.
    pub(super) since_us: u64,
    pub(super) at: Instant,
    pub(super) ranks: &'a mut Ranks,
}

impl Account {
    fn lose(&mut self, reason: Lost, count: u64) {
        let lost = &mut self.lost[reason as usize];
        *lost = lost.saturating_add(count);
    }

    /// A part of the file is passed over: what is missing after it was lost by that.
    pub(super) fn skip(&mut self) {
        self.skips += 1;
        self.is_past_a_skip = true;
        self.records.lose_place();
    }

    /// The file begins again. Records that were counted are not counted twice: their numbers do not rise, and where numbers are not
    /// kept their time does not.
    pub(super) fn begin_again(&mut self) {
        self.records.lose_place();
        self.cut_at_us = self.newest_us;
    }

    /// Takes the next line.
    pub(super) fn take(&mut self, part: Part<'_>, reading: &mut Reading<'_>) {
        let Part::Line(line) = part else { return self.lose(Lost::Rejected, 1) };
        match self.records.line(line) {
            Ok(Line::Collective(collective)) => {
                self.is_past_a_skip = false;
                self.collective(collective, reading);
            }
            Ok(Line::Marker(overwritten)) => {
                self.is_past_a_skip = false;
                self.marker(overwritten, reading);
            }
            Ok(Line::Other) => {}
            // Until the next marker nothing says whose they are; the numbers after it tell how many are missing.
            Err(Refused::NoMarker) if self.is_past_a_skip => {}
            Err(Refused::NoMarker | Refused::Malformed(_)) => self.lose(Lost::Rejected, 1),
            Err(Refused::Version(version)) => {
                self.lose(Lost::Rejected, 1);
                self.unknown = Some(version);
            }
        }
    }

    /// The communicator of the last line, if there is room for it.
    fn communicator(&mut self, at: Instant) -> Option<&mut Communicator> {
        let context = self.records.context()?;
        let key = (context.communicator, context.rank);
        if self.communicators.len() >= COMMUNICATORS && !self.communicators.contains_key(&key) {
            let is_idle = |(_, other): &(_, &Communicator)| at.saturating_duration_since(other.used) >= IDLE;
            let idle = self.communicators.iter().find(is_idle).map(|(key, _)| *key)?;
            self.communicators.remove(&idle);
        }
        let new = || Communicator {
            about: context.clone(),
            operations: BTreeMap::new(),
            used: at,
            spent: 0.0,
            overwritten: 0,
            unseen: 0,
        };
        Some(self.communicators.entry(key).or_insert_with(new))
    }

    fn marker(&mut self, overwritten: u64, reading: &Reading<'_>) {
        let is_old = self.is_until(Some(reading.since_us));
        let Some(communicator) = self.communicator(reading.at) else { return };
        // A total that went back was read again, after the file was cut.
        let more = overwritten.saturating_sub(communicator.overwritten);
        communicator.overwritten += more;
        if !communicator.operations.is_empty() {
            communicator.unseen = communicator.unseen.saturating_add(more);
        }
        if !is_old {
            self.lose(Lost::Overwritten, more);
        }
    }

    /// Was the last line written by then, as far as both are told?
    fn is_until(&self, time_us: Option<u64>) -> bool {
        let written = self.records.context().and_then(|context| context.written_us);
        written.zip(time_us).is_some_and(|(written, time)| written <= time)
    }

    fn collective(&mut self, collective: Collective, reading: &mut Reading<'_>) {
        let Some(context) = self.records.context() else { return };
        let bus_bytes = collective.bytes * collective.operation.bus_factor(context.ranks);
        let timed = Some((collective.seconds, bus_bytes)).filter(|_| collective.is_gpu_time);
        self.newest_us = self.newest_us.max(context.written_us);
        let is_old = self.is_until(Some(reading.since_us));
        let most = reading.age + ROUNDING;
        let skips = self.skips;
        let (rest_spent, is_again) = (self.rest_spent, self.is_until(self.cut_at_us));
        let Some(communicator) = self.communicator(reading.at) else {
            let sums = sums(timed);
            match is_plausible(timed, rest_spent, most) {
                _ if is_again => self.lose(Lost::Rejected, 1),
                false => self.lose(Lost::Implausible, 1),
                true => {
                    self.rest_spent += sums.seconds;
                    let counted = if is_old { Sums::default() } else { sums };
                    self.rest.get_or_insert_default().add(&counted);
                }
            }
            return;
        };
        if communicator.operations.get(&collective.operation).is_some_and(|done| collective.sequence <= done.sequence) {
            return self.lose(Lost::Rejected, 1);
        }
        if !is_plausible(timed, communicator.spent, most) {
            // Its number is missing before the next one, and was written.
            communicator.unseen = communicator.unseen.saturating_add(1);
            return self.lose(Lost::Implausible, 1);
        }
        communicator.used = reading.at;
        communicator.spent += timed.map_or(0.0, |(seconds, _)| seconds);
        let missing = communicator.missing(&collective);
        let done = communicator.operations.entry(collective.operation).or_default();
        let reason = if done.skips == skips { Lost::Gap } else { Lost::Behind };
        done.take(&collective, timed, skips);
        if is_old {
            return;
        }
        done.added.add(&sums(timed));
        if timed.is_some() && collective.operation.is_joint() {
            let (pair, rank) = ((communicator.about.communicator, collective.operation), communicator.about.rank);
            reading.ranks.note(reading.owner, pair, rank, collective.sequence, collective.seconds);
        }
        self.lose(reason, missing);
    }
}

impl Communicator {
    /// Numbers that are missing before this collective, without those that are known to be lost for another reason.
    fn missing(&mut self, collective: &Collective) -> u64 {
        let before = self.operations.get(&collective.operation).map(|done| done.sequence);
        let gap = before.map_or(0, |before| collective.sequence.saturating_sub(before.saturating_add(1)));
        let seen = gap.min(self.unseen);
        self.unseen -= seen;
        gap - seen
    }
}

impl Finished {
    fn take(&mut self, collective: &Collective, timed: Option<(f64, f64)>, skips: u64) {
        (self.sequence, self.skips) = (collective.sequence, skips);
        let slot = collective.sequence / SAMPLED % SLOTS as u64;
        if timed.is_some() && collective.sequence.is_multiple_of(SAMPLED) {
            self.samples[slot as usize] = Some((collective.sequence, collective.seconds));
        }
    }
}

/// Sums of one collective. One that was not timed on the GPU has no seconds, so its bytes would make a bandwidth wrong.
fn sums(timed: Option<(f64, f64)>) -> Sums {
    let (seconds, bus_bytes) = timed.unwrap_or_default();
    Sums { collectives: 1, seconds, bus_bytes, last: 0 }
}

/// Collectives of a communicator follow one another, so they take no longer than their process lives.
fn is_plausible(timed: Option<(f64, f64)>, spent: f64, most: f64) -> bool {
    timed.is_none_or(|(seconds, bus_bytes)| spent + seconds <= most && bus_bytes <= seconds * MOST_BANDWIDTH)
}
