//! Readings of one entity's signals, cell by cell, where several series may tell the same thing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;

use super::gpu::Proof;
use super::grid::interval_ms;
use super::identity::Target;
use super::piece::{Piece, Reading, pieces, readings};
use super::{DEFAULT_INTERVAL_MS, Source};
use crate::signal::{Kind, Signal, engine_of};
use goodput_exposition::sample::{Sample, TimeMs};

/// Series of one metric and target, by the part that they are about.
type Parts<'s, 'a> = BTreeMap<&'s [&'a str], Vec<&'s Source<'a>>>;

type Track = Vec<Option<Reading>>;

/// A signal, and the NUMA node, port, interface, mount or disk where it is one per part.
type Key = (Signal, Option<Box<str>>);

/// Readings per signal and cell.
#[derive(Debug, Default)]
pub struct Tracks {
    /// By the number of the signal, for rules ask for them all the time; those that are not told are empty.
    plain: Vec<Track>,
    /// The same, and then in order of NUMA node, port, interface, mount or disk.
    split: Vec<Vec<(Box<str>, Track)>>,
}

impl Tracks {
    /// The signal in the cell of this index; `None` where nothing is known.
    #[must_use]
    #[inline]
    pub fn read(&self, signal: Signal, cell: usize) -> Option<&Reading> {
        self.plain.get(signal as usize)?.get(cell)?.as_ref()
    }

    /// The signal in the cell on each NUMA node, or of each port, interface, mount or disk, where it is known.
    pub fn split(&self, signal: Signal, cell: usize) -> impl Iterator<Item = (&str, &Reading)> {
        let tracks = self.split.get(signal as usize).into_iter().flatten();
        tracks.filter_map(move |(node, track)| Some((&**node, track.get(cell)?.as_ref()?)))
    }

    /// Is the signal known in any cell?
    #[must_use]
    pub(crate) fn has(&self, signal: Signal) -> bool {
        self.plain.get(signal as usize).is_some_and(|track| !track.is_empty())
    }

    /// The same of each of these, cell by cell.
    pub(crate) fn splits(&self, signal: Signal) -> impl Iterator<Item = (&str, &[Option<Reading>])> {
        let tracks = self.split.get(signal as usize).into_iter().flatten();
        tracks.map(|(of, track)| (&**of, track.as_slice()))
    }

    /// Does no series describe the host itself? Whether it takes pods is known from elsewhere.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        let told = self.plain.iter().enumerate().filter(|(_, track)| !track.is_empty());
        self.split.is_empty() && told.into_iter().all(|(signal, _)| signal == Signal::NodeUnschedulable as usize)
    }

    /// The readings of one entity. Parts (CPUs, disks) are summed within one metric of one target; of several metrics,
    /// targets or replicas that tell the same thing, the one that covers the most of a cell is taken, never the sum. `proof`
    /// tells which pieces of a series may be used: all, where it says nothing.
    pub(super) fn of<'w>(
        sources: &[&Source<'_>],
        cells: &[Range<TimeMs>],
        proof: impl Fn(&Source<'_>) -> Option<Proof<'w>>,
    ) -> Tracks {
        let mut origins: BTreeMap<(Key, usize, Target<'_>), Parts<'_, '_>> = BTreeMap::new();
        for source in sources {
            let key = (source.meaning.signal, source.meaning.split.as_deref().map(Box::from));
            let origin = (key, source.meaning.rank, source.target);
            origins.entry(origin).or_default().entry(&source.meaning.part).or_default().push(source);
        }
        let mut tracks = Tracks::default();
        for ((key, ..), parts) in origins {
            // Where parts are not those of an engine each, they are all of one.
            let mut engines: BTreeMap<_, Track> = BTreeMap::new();
            for same in parts.values() {
                let engine = same.first().filter(|_| key.0.is_mean_of_engines()).map(|one| engine_of(one.labels));
                let track = one_part(key.0, same, cells, &proof);
                let known = engines.remove(&engine);
                engines.insert(engine, if let Some(known) = known { zip(known, track, sum) } else { track });
            }
            let Some(track) = mean(engines.into_values()) else { continue };
            let place = tracks.place(key);
            let known = mem::take(place);
            *place = if known.is_empty() { track } else { zip(known, track, better) };
        }
        tracks
    }

    fn place(&mut self, (signal, split): Key) -> &mut Track {
        let Some(split) = split else { return numbered(&mut self.plain, signal) };
        let tracks = numbered(&mut self.split, signal);
        let at = tracks.binary_search_by(|(known, _)| known.cmp(&split)).unwrap_or_else(|at| {
            tracks.insert(at, (split, Track::default()));
            at
        });
        &mut tracks[at].1
    }
}

/// The place of a signal among those that are found by its number.
fn numbered<T: Default>(all: &mut Vec<T>, signal: Signal) -> &mut T {
    let number = signal as usize;
    all.resize_with(all.len().max(number + 1), T::default);
    &mut all[number]
}

/// Series of one part: gauges of one target that differ in other labels (such as the pod) are one level after another;
/// counters are not, for two replicas' samples of one counter interleave and would look like resets.
fn one_part<'w>(
    signal: Signal,
    same: &[&Source<'_>],
    cells: &[Range<TimeMs>],
    proof: impl Fn(&Source<'_>) -> Option<Proof<'w>>,
) -> Track {
    let track = |source: &Source<'_>, pieces: &[Piece], samples: &[Sample]| {
        let kept = match proof(source) {
            Some(proof) if !pieces.iter().all(|p| proof.holds(p)) => {
                pieces.iter().filter(|p| proof.holds(p)).cloned().collect()
            }
            _ => Cow::Borrowed(pieces),
        };
        readings(signal, &kept, samples, cells)
    };
    match same {
        [one] => track(one, &one.pieces(), one.samples),
        _ if signal.kind() == Kind::Counter => {
            let tracks = same.iter().map(|s| track(s, &s.pieces(), s.samples));
            tracks.reduce(|a, b| zip(a, b, better)).unwrap_or_default()
        }
        [] => Track::default(),
        [first, ..] => {
            let samples = merged(signal, same);
            let interval = interval_ms(&samples).unwrap_or(DEFAULT_INTERVAL_MS);
            track(first, &pieces(signal, &samples, first.meaning.scale, interval), &samples)
        }
    }
}

/// All samples in order of time, one per time; a value is preferred to the marker of a series that ended there.
pub(super) fn merged(signal: Signal, same: &[&Source<'_>]) -> Vec<Sample> {
    let mut samples: Vec<Sample> = same.iter().flat_map(|s| s.told().into_owned()).collect();
    samples.sort_by_key(|s| (s.time_ms, !signal.admits(s.value)));
    samples.dedup_by_key(|s| s.time_ms);
    samples
}

/// The mean, in each cell, of the tracks that it has a reading of: some end and others begin.
fn mean(tracks: impl ExactSizeIterator<Item = Track>) -> Option<Track> {
    let mut tracks = tracks;
    if tracks.len() == 1 {
        return tracks.next();
    }
    let counted = |track: Track| track.into_iter().map(|reading| (u32::from(reading.is_some()), reading)).unzip();
    let (counts, mut track) = tracks.map(counted).reduce(|(many, all): (Vec<u32>, Track), (one, track)| {
        (many.iter().zip(&one).map(|(a, b)| a + b).collect(), zip(all, track, sum))
    })?;
    let readings = track.iter_mut().zip(counts).filter_map(|(reading, count)| Some((reading.as_mut()?, count)));
    readings.for_each(|(reading, count)| reading.divide(f64::from(count)));
    Some(track)
}

impl Reading {
    fn divide(&mut self, by: f64) {
        (self.mean, self.min, self.max) = (self.mean / by, self.min / by, self.max / by);
    }
}

fn zip(a: Track, b: Track, join: fn(Reading, Reading) -> Reading) -> Track {
    let both = |(a, b): (Option<Reading>, Option<Reading>)| match (a, b) {
        (Some(a), Some(b)) => Some(join(a, b)),
        (one, None) | (None, one) => one,
    };
    a.into_iter().zip(b).map(both).collect()
}

fn better(a: Reading, b: Reading) -> Reading {
    if b.covered_ms > a.covered_ms { b } else { a }
}

pub(crate) fn sum(a: Reading, b: Reading) -> Reading {
    Reading {
        mean: a.mean + b.mean,
        min: a.min + b.min,
        max: a.max + b.max,
        covered_ms: a.covered_ms.min(b.covered_ms),
        samples: a.samples.min(b.samples),
        coarse: a.coarse || b.coarse,
        spread: a.spread.zip(b.spread).map(|(a, b)| a + b),
        held_ms2: a.held_ms2.max(b.held_ms2),
    }
}
