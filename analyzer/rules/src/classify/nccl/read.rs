//! The series of collectives, by run, communicator, operation and rank.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::super::judge::Booked;
use super::super::straggler::Member;
use crate::frame::{Source, growth};
use crate::signal::Signal;
use goodput_exposition::sample::{Sample, TimeMs};

/// A communicator and an operation.
pub(super) type Pair<'s> = (&'s str, &'s str);

/// What the ranks of a run say about one communicator and operation; ranks are those of the run, by number.
#[derive(Default)]
pub(super) struct Told<'s> {
    /// Numbers and times of sampled collectives, by rank and slot.
    pub(super) sampled: BTreeMap<(usize, &'s str), [&'s [Sample]; 2]>,
    /// Time in collectives.
    pub(super) seconds: BTreeMap<usize, &'s [Sample]>,
    /// Bytes that they moved.
    pub(super) bytes: BTreeMap<usize, &'s [Sample]>,
    /// Number of the last one.
    pub(super) sequences: BTreeMap<usize, &'s [Sample]>,
}

/// What a run says about its collectives.
#[derive(Default)]
pub(super) struct OfRun<'s> {
    pub(super) pairs: BTreeMap<Pair<'s>, Told<'s>>,
    /// How many ranks each communicator has.
    pub(super) ranks: HashMap<&'s str, usize>,
}

/// What each run tells within some time, in the order of the runs. A rank is known by its GPU; one that holds several has no
/// UUID and is not known.
pub(super) fn by_run<'s, 'a>(
    runs: &[&[Member<'_>]],
    booked: &[Booked<'_>],
    sources: impl Iterator<Item = &'s Source<'a>>,
    time: &Range<TimeMs>,
) -> Vec<OfRun<'a>>
where
    'a: 's,
{
    let mut ranks: HashMap<(&str, &str, &str), (usize, usize)> = HashMap::new();
    for (run, members) in runs.iter().enumerate() {
        for (rank, member) in members.iter().enumerate() {
            let course = booked[member.gpu].course;
            ranks.insert((&course.node.cluster, &course.gpu.uuid, member.owner), (run, rank));
        }
    }
    let mut told: Vec<OfRun<'a>> = runs.iter().map(|_| OfRun::default()).collect();
    for source in sources {
        let place = source.labels.get("UUID").zip(source.labels.get("owner"));
        let place = place.and_then(|(uuid, owner)| ranks.get(&(source.target.cluster, uuid, owner)));
        if let Some((run, rank)) = place {
            told[*run].add(*rank, source, time);
        }
    }
    told
}

impl<'a> OfRun<'a> {
    fn add(&mut self, rank: usize, source: &Source<'a>, time: &Range<TimeMs>) -> Option<()> {
        let at = |time| source.samples.partition_point(|s| s.time_ms < time);
        let samples: &'a [Sample] = &source.samples[at(time.start)..at(time.end)];
        let labels: &'a goodput_exposition::sample::Labels = source.labels;
        let comm = labels.get("comm").filter(|_| !samples.is_empty())?;
        if source.meaning.signal == Signal::Communicator {
            let count: usize = labels.get("ranks")?.parse().ok()?;
            let known = self.ranks.entry(comm).or_default();
            *known = count.max(*known);
            return None;
        }
        let told = self.pairs.entry((comm, labels.get("operation")?)).or_default();
        match source.meaning.signal {
            Signal::CollectiveSeconds => told.seconds.insert(rank, samples),
            Signal::CollectiveBytes => told.bytes.insert(rank, samples),
            Signal::CollectiveSequence => told.sequences.insert(rank, samples),
            signal => {
                let both = told.sampled.entry((rank, labels.get("slot")?)).or_default();
                both[usize::from(signal == Signal::SampledSeconds)] = samples;
                None
            }
        };
        None
    }
}

/// By how much a counter grew in some time; `None` where it is known for none of it.
pub(super) fn grown(samples: &[Sample], time: &Range<TimeMs>) -> Option<f64> {
    let pieces = growth(samples).into_iter().map(|piece| {
        let within = piece.span.end.min(time.end) - piece.span.start.max(time.start);
        piece.value * within as f64 / 1000.0 * f64::from(u8::from(within > 0))
    });
    pieces.reduce(|a, b| a + b)
}
