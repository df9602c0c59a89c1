//! One GPU on the grid: its readings, who held it, and what of each cell is known at all.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use super::frozen::Doubt;
use super::mig::{self, Cut, Part};
use super::piece::{Piece, union_ms};
use super::{Grid, Source, Tracks};
use crate::signal::{Entity, Signal, model_of, names_instance};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::Instance;

/// The exporter's busy time stands for the whole of a stretch if the exporter saw at least this share of it.
const OBSERVED_FLOOR: f64 = 0.5;

/// Across a gap the exporter's process lived if its count of observed time grew by at least this share of the gap. A
/// process that was restarted within cannot have: it counts from zero.
const LIVED_THROUGH: f64 = 0.9;

/// One GPU over the cells of a [`super::NodeFrame`], or an instance of it.
#[derive(Debug)]
pub struct GpuFrame {
    /// The UUID.
    pub uuid: String,
    /// Which of its instances this is; `None` is the GPU itself: all of it, or what no instance has of it.
    pub instance: Option<Instance>,
    /// The model, where a series names it.
    pub model: Option<String>,
    /// Its signals.
    pub tracks: Tracks,
    /// Per cell, who held it and for how many milliseconds of the cell; in order of name. The name is one and the same
    /// text in all cells of the node.
    pub owners: Vec<Vec<(Arc<str>, i64)>>,
    /// Per cell, the milliseconds for which anything is known of it. The rest is a hole in the data, or time in which there
    /// was no such instance.
    pub known_ms: Vec<i64>,
    /// When it is on the node and in capacity, in order.
    pub(crate) here: Vec<Range<TimeMs>>,
    /// Per cell, the milliseconds of that.
    pub here_ms: Vec<i64>,
    /// Per cell, the milliseconds in which its values stood still that have to move, or were all zero.
    pub(crate) doubted_ms: [Vec<i64>; 2],
    /// Per cell, the GPU-milliseconds that are booked for it: with its instances the cell's.
    pub share_ms: Vec<i64>,
    /// What the GPU was cut into; nothing of an instance.
    pub cut: Cut,
    /// The GPU's latest sample before the end of the window; `None` if all are later, or so much earlier that what
    /// came then is not known.
    pub last_seen_ms: Option<TimeMs>,
    /// What the board drew, in watts, with a context and without work; `None` until the frame is judged, and where it
    /// never rested.
    pub(crate) idle_watts: Option<f64>,
    /// Per cell, how much of it was work; empty until the frame is judged.
    pub(crate) work: Vec<Option<Work>>,
    /// The most and the least of that; nothing until the frame is judged.
    pub(crate) extremes: Extremes,
}

/// What no cell of a GPU exceeds: most cells are like the others, and that is seen without a look at each of these.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Extremes {
    /// The highest mean SM clock of a cell with work, in hertz.
    pub(crate) clock: Option<f64>,
    /// The highest sample of power, in watts.
    pub(crate) watts: Option<f64>,
    /// The least and the most by each measure of depth.
    pub(crate) depths: [Option<(f64, f64)>; 4],
}

/// How much of a cell a GPU worked, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Work {
    /// The share that was work: 0 to 1.
    pub(crate) ratio: f64,
    /// The share in which kernels ran and did no work.
    pub(crate) spun: f64,
    /// The mean SM clock, in hertz, where there is enough work to tell.
    pub(crate) clock: Option<f64>,
    /// How deep it worked, by each measure of depth, where there is enough work to tell.
    pub(crate) depths: Depths,
}

/// How deep a GPU worked, by each measure of depth.
pub(crate) type Depths = [Option<f64>; 4];

impl GpuFrame {
    /// Everyone who held it.
    pub(super) fn holders(&self) -> impl Iterator<Item = &str> {
        self.owners.iter().flatten().map(|(owner, _)| &**owner)
    }

    /// Who held it for the most of the cell of this index, where known.
    #[must_use]
    pub fn main_owner(&self, cell: usize) -> Option<&str> {
        self.owners[cell].iter().rev().max_by_key(|(_, ms)| *ms).map(|(name, _)| &**name)
    }

    /// Did this owner hold it in the cell of this index?
    #[must_use]
    #[inline]
    pub fn is_held_by(&self, owner: &str, cell: usize) -> bool {
        // Rules ask this all the time, for the most part with a name from here.
        self.owners[cell].iter().any(|(name, _)| ptr::eq(&**name, owner) || **name == *owner)
    }

    /// Is it on the node and in capacity in the cell of this index?
    #[must_use]
    pub(crate) fn is_here(&self, cell: usize) -> bool {
        self.here_ms.get(cell).is_some_and(|ms| *ms > 0)
    }

    /// The GPU, then its instances.
    pub(super) fn all(
        uuid: &str,
        names: &mut Names,
        sources: &[&Source<'_>],
        here: &[Range<TimeMs>],
        Grid { cells, known_from, frozen_ms, .. }: &Grid,
        end: TimeMs,
    ) -> Vec<GpuFrame> {
        let parts = mig::parts(sources);
        let whole = whole(sources);
        let doubt = Doubt::of(sources, *frozen_ms);
        // Where its slot is and where its processes may run says nothing of what the GPU does.
        let device: Vec<&Source<'_>> = whole.iter().filter(|s| s.meaning.split.is_none()).copied().collect();
        let watched = Watched { doubt, ..Watched::of(&whole) };
        let there: Vec<Vec<Range<TimeMs>>> = parts.iter().map(Part::there).collect();
        let known: Vec<Range<TimeMs>> =
            watched.spans(&device).into_iter().chain(there.iter().flatten().cloned()).collect();
        let before = |s: &&Source<'_>| {
            let until = s.samples.partition_point(|s| s.time_ms < end);
            s.samples[..until].iter().rev().find(|s| s.value.is_finite()).map(|s| s.time_ms)
        };
        let seen = device.iter().chain(parts.iter().flat_map(|part| &part.sources));
        let last_seen_ms = seen.filter_map(before).max().filter(|last| last >= known_from);
        let model = sources.iter().find_map(|s| model_of(s.labels)).map(str::to_owned);
        let here_ms = union_ms(here.to_vec(), cells);
        let known = union_ms(known, cells).into_iter().zip(&here_ms);
        let known_ms: Vec<i64> = known.map(|(known, here)| known.min(*here)).collect();
        let cut = Cut::of(&parts, &there, mig::capacity(&whole, model.as_deref()), cells);
        let shares = cut.shares(&parts, &known_ms);
        let of_instances = |cell: usize| shares.iter().map(|share_ms| share_ms[cell]).sum::<i64>();
        let own_ms = here_ms.iter().enumerate().map(|(n, here)| here - of_instances(n)).collect();
        let gpu = GpuFrame {
            uuid: uuid.to_owned(),
            instance: None,
            tracks: Tracks::of(&whole, cells, |source| Some(watched.proof(source))),
            owners: owners(&own(&whole), cells, &watched, names),
            known_ms,
            here: here.to_vec(),
            here_ms,
            doubted_ms: [watched.doubt.frozen(), watched.doubt.silent()].map(|spans| union_ms(spans, cells)),
            share_ms: own_ms,
            cut,
            model,
            last_seen_ms,
            idle_watts: None,
            work: Vec::new(),
            extremes: Extremes::default(),
        };
        let instances = parts.iter().zip(there).zip(shares);
        let doubt = &watched.doubt;
        let instances = instances
            .map(|((part, there), share_ms)| gpu.instance(part, (&whole, doubt), there, share_ms, (cells, names)));
        let instances: Vec<GpuFrame> = instances.collect();
        [gpu].into_iter().chain(instances).collect()
    }

    fn instance(
        &self,
        part: &Part<'_, '_>,
        (board, doubt): (&[&Source<'_>], &Doubt<'_>),
        there: Vec<Range<TimeMs>>,
        share_ms: Vec<i64>,
        (cells, names): (&[Range<TimeMs>], &mut Names),
    ) -> GpuFrame {
        let watched = Watched { doubt: doubt.clone(), ..Watched::of(&part.sources) };
        let shared = board.iter().filter(|s| s.meaning.signal.is_shared_by_instances());
        let signals: Vec<&Source<'_>> = part.sources.iter().chain(shared).copied().collect();
        GpuFrame {
            uuid: self.uuid.clone(),
            instance: Some(part.instance.clone()),
            model: self.model.clone(),
            tracks: Tracks::of(&signals, cells, |source| Some(watched.proof(source))),
            owners: owners(&part.sources, cells, &watched, names),
            known_ms: union_ms(there, cells),
            here: self.here.clone(),
            here_ms: self.here_ms.clone(),
            doubted_ms: self.doubted_ms.clone(),
            share_ms,
            cut: Cut::default(),
            last_seen_ms: self.last_seen_ms,
            idle_watts: None,
            work: Vec::new(),
            extremes: Extremes::default(),
        }
    }
}

/// The series that are of the GPU and not of an instance.
fn whole<'s, 'a>(sources: &[&'s Source<'a>]) -> Vec<&'s Source<'a>> {
    sources.iter().filter(|s| matches!(s.meaning.entity, Entity::Gpu(_))).copied().collect()
}

/// Of these, those that are not about an instance after all.
fn own<'s, 'a>(whole: &[&'s Source<'a>]) -> Vec<&'s Source<'a>> {
    whole.iter().filter(|s| !names_instance(s.labels)).copied().collect()
}

/// Is there a cell in which an owner holds the GPU, or an instance of it, and does not hold it in the next?
pub(super) fn is_let_go(sources: &[&Source<'_>], cells: &[Range<TimeMs>]) -> bool {
    let ends = |owners: &[Vec<(Arc<str>, i64)>]| {
        let gone = |now: &[(Arc<str>, i64)], next: &[(Arc<str>, i64)]| {
            now.iter().any(|(owner, _)| !next.iter().any(|(other, _)| other == owner))
        };
        owners.windows(2).any(|pair| gone(&pair[0], &pair[1]))
    };
    let whole = whole(sources);
    let names = &mut Names::new();
    ends(&owners(&own(&whole), cells, &Watched::of(&whole), names))
        || mig::parts(sources)
            .iter()
            .any(|part| ends(&owners(&part.sources, cells, &Watched::of(&part.sources), names)))
}

/// A GPU's name and last error are reported even while it cannot be read, so they do not say what it does. That it is
/// lost does: nothing else can be known of it then.
fn says_what_gpu_does(signal: Signal) -> bool {
    !matches!(signal, Signal::GpuInfo | Signal::GpuXid | Signal::GpuXidRestartApp | Signal::GpuXidReset)
}

/// What the exporter's count of observed time says about its other series of a GPU.
pub(super) struct Watched<'a> {
    doubt: Doubt<'a>,
    /// Stretches that it saw little of, for example because the driver hung.
    unseen: Vec<Range<TimeMs>>,
    /// Gaps in the data that its process lived through.
    lived: Vec<Range<TimeMs>>,
}

impl<'a> Watched<'a> {
    pub(super) fn of(sources: &[&Source<'a>]) -> Watched<'a> {
        let (mut unseen, mut lived) = (Vec::new(), Vec::new());
        for source in sources.iter().filter(|s| s.meaning.signal == Signal::GpuObserved) {
            for piece in source.pieces().iter() {
                match piece.coarse {
                    true if piece.value >= LIVED_THROUGH => lived.push(piece.span.clone()),
                    false if piece.value < OBSERVED_FLOOR => unseen.push(piece.span.clone()),
                    _ => {}
                }
            }
        }
        Watched { doubt: Doubt::default(), unseen, lived }
    }

    /// When the sources tell what the GPU does: of each in order, those that touch as one.
    pub(super) fn spans(&self, sources: &[&Source<'_>]) -> Vec<Range<TimeMs>> {
        let mut spans: Vec<Range<TimeMs>> = Vec::new();
        for source in sources.iter().filter(|s| says_what_gpu_does(s.meaning.signal)) {
            let (proof, is_of_lost) = (self.proof(source), source.meaning.signal == Signal::GpuLost);
            for piece in source.pieces().iter() {
                if (is_of_lost && piece.value <= 0.0) || !proof.holds(piece) {
                    continue;
                }
                match spans.last_mut() {
                    Some(last) if last.end == piece.span.start => last.end = piece.span.end,
                    _ => spans.push(piece.span.clone()),
                }
            }
        }
        spans
    }

    /// Which pieces of the series may be used.
    fn proof(&self, source: &Source<'_>) -> Proof<'_> {
        let is_watch = matches!(source.meaning.signal, Signal::GpuBusy | Signal::GpuObserved);
        let unseen = if is_watch { &self.unseen[..] } else { &[] };
        Proof { doubted: self.doubt.of_source(source), unseen, lived: &self.lived }
    }
}

/// Which pieces of a series may be used.
pub(super) struct Proof<'w> {
    doubted: [&'w [Range<TimeMs>]; 2],
    unseen: &'w [Range<TimeMs>],
    lived: &'w [Range<TimeMs>],
}

impl Proof<'_> {
    /// Coarse ones need the proof that the process lived; busy time needs to have been observed.
    #[inline]
    pub(super) fn holds(&self, piece: &Piece) -> bool {
        self.has_no_doubt() && !piece.coarse || self.holds_after_all(piece)
    }

    /// Most series: nothing speaks against any piece that bridges no gap.
    fn has_no_doubt(&self) -> bool {
        self.unseen.is_empty() && self.doubted.iter().all(|spans| spans.is_empty())
    }

    fn holds_after_all(&self, piece: &Piece) -> bool {
        if self.doubted.iter().any(|spans| spans.iter().any(|s| s.contains(&piece.span.start))) {
            return false;
        }
        let within =
            |spans: &[Range<TimeMs>]| spans.iter().any(|s| s.start <= piece.span.start && piece.span.end <= s.end);
        if piece.coarse { within(self.lived) } else { !within(self.unseen) }
    }
}

/// The names of a node's owners. Rules compare them all the time: one text each is told by where it lies.
pub(super) type Names = BTreeSet<Arc<str>>;

fn one_text(names: &mut Names, name: &str) -> Arc<str> {
    if let Some(known) = names.get(name) {
        return Arc::clone(known);
    }
    let name: Arc<str> = name.into();
    names.insert(Arc::clone(&name));
    name
}

/// Owners per cell. Where our exporter states who holds the GPU, the pods that other series name are left out: they are
/// the same holders under another name.
fn owners(
    sources: &[&Source<'_>],
    cells: &[Range<TimeMs>],
    watched: &Watched<'_>,
    names: &mut Names,
) -> Vec<Vec<(Arc<str>, i64)>> {
    let mut per_cell = |is_wanted: fn(Signal) -> bool| {
        let mut by_name: BTreeMap<String, Vec<&Source<'_>>> = BTreeMap::new();
        for source in sources.iter().filter(|s| is_wanted(s.meaning.signal)) {
            if let Some(owner) = source.owner() {
                by_name.entry(owner).or_default().push(source);
            }
        }
        let mut held = vec![Vec::new(); cells.len()];
        for (owner, sources) in by_name {
            let owner = one_text(names, &owner);
            for (cell, ms) in union_ms(watched.spans(&sources), cells).into_iter().enumerate().filter(|(_, ms)| *ms > 0)
            {
                held[cell].push((Arc::clone(&owner), ms));
            }
        }
        held
    };
    let stated = per_cell(|signal| signal == Signal::GpuOwner);
    if !stated.iter().any(Vec::is_empty) {
        return stated;
    }
    let labelled = per_cell(|signal| signal != Signal::GpuOwner);
    stated.into_iter().zip(labelled).map(|(own, other)| if own.is_empty() { other } else { own }).collect()
}
