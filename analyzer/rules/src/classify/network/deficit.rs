//! By how much a GPU waits longer in collectives than its bytes take.
//!
//! D = W - B w: W is the share of a cell that the GPU waited, B the bytes that its node exchanged, and w the lower quartile
//! of W / B over cells of the run without evidence. Not the median: faults that no counter shows hide among them.

use std::collections::HashMap;

use super::super::cell::Part;
use super::super::judge::{Booked, book_cell};
use super::super::nccl::Collectives;
use super::super::straggler::Member;
use super::super::thresholds::confidence::{COUNTED, INFERRED, NODE_WIDE};
use super::super::{CauseKind, Class, Fact, Thresholds};
use super::evidence::{Evidence, Grade, is_clean, is_state};
use super::exchange::Exchange;
use super::is_late;

/// How many cells without evidence a cell is compared with at most (own choice: a quartile of them is three cells).
const NEAREST: usize = 12;

/// Name of the evidence of what was exchanged while the network was sound. Hours later nothing else tells it.
pub(in super::super) const SOUND: &str = "bytes exchanged before";
/// The same of a run on one node.
pub(in super::super) const SOUND_ON_NODE: &str = "bytes exchanged over NVLink before";

/// Where fewer bytes than a fifth are left, what is counted for each of them says nothing (one in `congestion_ratio`).
const MOST_MISSING: f64 = 0.8;

/// A member of the run over the frame.
pub(super) struct Deficit<'r, 'a> {
    member: Member<'r>,
    booked: &'r [Booked<'a>],
    run: &'r Exchange<'a>,
    told: &'r [Vec<Evidence>],
    side: usize,
    /// Bytes per second that its node exchanged hours ago, while the network was sound; `None` is not known.
    before: Option<f64>,
    /// How long the GPU of the run waited that waited least, cell by cell.
    least: &'r [Option<f64>],
    collectives: &'r Collectives,
    /// How long it waited in cells outside the window, as far as that was asked.
    around: HashMap<(usize, bool), Option<f64>>,
}

/// What a cause took of a cell.
pub(super) enum Cost {
    /// So much.
    Lost(Lost),
    /// Nothing, though the GPU waited.
    Nothing,
    /// That is not known: the GPU waited for too little of the cell, or there is nothing to compare with.
    Unknown,
}

/// What the network took of a cell.
pub(super) struct Lost {
    /// Share of the owner's time.
    pub(super) share: f64,
    /// Is it taken from what looks like work too?
    pub(super) of_work: bool,
    pub(super) confidence: f64,
    pub(super) facts: Vec<Fact>,
}

impl<'r, 'a> Deficit<'r, 'a> {
    pub(super) fn of(
        member: Member<'r>,
        booked: &'r [Booked<'a>],
        run: &'r Exchange<'a>,
        told: &'r [Vec<Evidence>],
        before: Option<f64>,
        least: &'r [Option<f64>],
        collectives: &'r Collectives,
    ) -> Option<Self> {
        let side = run.side_of(booked[member.gpu].course.node)?;
        Some(Self { member, booked, run, told, side, before, least, collectives, around: HashMap::new() })
    }

    /// What the network took of the cell.
    pub(super) fn cost(&mut self, index: usize, cell: usize, found: &Evidence, t: &Thresholds) -> Cost {
        let Some(waits) = self.waited(index, found.kind, t) else { return Cost::Unknown };
        let nothing = if waits < t.network_wait_ratio { Cost::Unknown } else { Cost::Nothing };
        // Where nothing is exchanged, one rank never came, and no network is slow.
        let exchanged = self.run.sides[self.side].exchanged(index);
        if exchanged.is_some_and(|bytes| bytes < t.exchange_bytes) {
            return nothing;
        }
        let usual = self.usual(index, found.kind, t);
        // Waiting that lasts looks like the norm before there is nothing left to compare with.
        // A port that is full carries more than before, not less.
        let may_be_slower = found.grade != Grade::Weak && found.kind != CauseKind::Saturated;
        if may_be_slower
            && (usual.is_none() || is_state(found.kind) && waits < t.network_wait_ratio)
            && let Some(lost) = self.slower(index, waits, found, t)
        {
            return Cost::Lost(lost);
        }
        let slower = || self.slower_collectives(index, waits, found.kind, t);
        let deficit = usual.map(|usual| waits - usual).or_else(slower);
        let bound = match (deficit, found.bound) {
            (Some(deficit), Some(bound)) => deficit.min(bound),
            (Some(deficit), None) => deficit,
            (None, Some(bound)) if is_state(found.kind) || is_known(found) => bound,
            (None, _) => return Cost::Unknown,
        };
        // A rank that waits least is late, and no network: the others wait for it.
        let least = self.least[cell].unwrap_or(waits);
        let late = if waits - least >= t.straggler_ratio { waits - least } else { 0.0 };
        let missing = self.before.zip(exchanged).map(|(before, now)| 1.0 - now / before);
        let bound = match found.grade {
            Grade::Weak => missing.filter(|missing| *missing <= MOST_MISSING).map(|missing| bound.min(missing)),
            Grade::Counted | Grade::Inferred => Some(bound),
        };
        let Some(bound) = bound else { return Cost::Unknown };
        let share = bound.min(waits - late - found.stays);
        let floor = if found.kind == CauseKind::Errors { t.network_wait_ratio } else { t.claim_floor };
        if waits < t.network_wait_ratio || share < floor {
            return nothing;
        }
        let mut facts = vec![ratio("waiting in collectives", waits, t.network_wait_ratio)];
        facts.extend(deficit.map(|lost| ratio("waiting beyond what the bytes take", lost, floor)));
        let confidence = if found.grade == Grade::Counted { COUNTED } else { INFERRED };
        Cost::Lost(Lost { share, of_work: false, confidence, facts })
    }

    /// What transfers take longer than in the run's best half hour around, as NCCL's Inspector tells: it needs no cells without
    /// evidence around.
    fn slower_collectives(&self, index: usize, waits: f64, kind: CauseKind, t: &Thresholds) -> Option<f64> {
        let is_asked = matches!(kind, CauseKind::Errors | CauseKind::Congested);
        let start = self.booked[self.member.gpu].course.node.cells[index].start;
        let share = self.collectives.slower(self.member.gpu, self.member.owner, start, t).filter(|_| is_asked)?;
        Some(waits * share)
    }

    /// By which share fewer bytes are exchanged than hours ago: as many steps fewer are done, as far as nothing else than
    /// waiting keeps the GPU from them.
    fn slower(&self, index: usize, waits: f64, found: &Evidence, t: &Thresholds) -> Option<Lost> {
        let before = self.before?;
        let left = self.run.sides[self.side].exchanged(index)? / before;
        let own = &self.booked[self.member.gpu];
        let parts = own.cells.get(index.checked_sub(own.course.node.body.start)?)?;
        let works = share(parts, self.member.owner, own, index, |part| part.class == Class::Productive)?;
        let share = (1.0 - left - (1.0 - works - waits)).min(found.bound.unwrap_or(1.0));
        let signal = if self.run.has_several_nodes() { SOUND } else { SOUND_ON_NODE };
        let sound = Fact { signal, unit: "bytes per second", value: before, threshold: 0.0 };
        let facts = vec![ratio("bytes exchanged / before", left, 1.0 - t.network_wait_ratio), sound];
        (share >= t.network_wait_ratio).then_some(Lost { share, of_work: true, confidence: NODE_WIDE, facts })
    }

    /// Cells around without evidence, in which the node exchanged: their bytes per second.
    /// A port that is full counts as evidence for itself alone.
    fn clean(
        &self,
        index: usize,
        kind: CauseKind,
        t: &Thresholds,
    ) -> impl Iterator<Item = (usize, f64)> + use<'_, 'r, 'a> {
        let (node, side) = (self.booked[self.member.gpu].course.node, &self.run.sides[self.side]);
        let (run, told, least) = (self.run, self.told, t.exchange_bytes);
        let around = node.around(index, t.derate_around_seconds);
        let is_clean =
            move |cell: usize| told[cell].is_empty() || kind != CauseKind::Saturated && is_clean(&told[cell]);
        let clean = around.filter(move |other| run.cell_of(node, *other).is_some_and(is_clean));
        clean.filter_map(move |other| Some((other, side.exchanged(other).filter(|bytes| *bytes >= least)?)))
    }

    /// What the bytes of the cell take on a sound network.
    fn usual(&mut self, index: usize, kind: CauseKind, t: &Thresholds) -> Option<f64> {
        let mut around: Vec<(usize, f64)> = self.clean(index, kind, t).collect();
        // A run changes what it does: the nearest say most of the cell.
        around.sort_by_key(|(other, _)| other.abs_diff(index));
        let waited = around.into_iter().filter_map(|(other, bytes)| Some(self.waited(other, kind, t)? / bytes));
        let mut clean: Vec<f64> = waited.take(NEAREST).collect();
        if (clean.len() as f64) < t.network_clean_cells {
            return None;
        }
        let quartile = clean.len() / 4;
        let per_byte = *clean.select_nth_unstable_by(quartile, f64::total_cmp).1;
        Some(per_byte * self.run.sides[self.side].exchanged(index)?)
    }

    /// The share of the owner's time in the cell that it waited in collectives; `None` where it did not hold the GPU for
    /// half of it.
    fn waited(&mut self, index: usize, kind: CauseKind, t: &Thresholds) -> Option<f64> {
        let own = &self.booked[self.member.gpu];
        if own.course.node.body.contains(&index) {
            return share(&own.cells[index - own.course.node.body.start], self.member.owner, own, index, |part| {
                is_waiting(part, kind)
            });
        }
        *self.around.entry((index, is_state(kind))).or_insert_with(|| {
            let parts = book_cell(&own.course, index, t).ok()?;
            share(&parts, self.member.owner, own, index, |part| is_waiting(part, kind))
        })
    }
}

/// Does its bound hold where there is nothing to compare the waiting with?
fn is_known(found: &Evidence) -> bool {
    found.grade == Grade::Counted || found.kind == CauseKind::Saturated
}

fn ratio(signal: &'static str, value: f64, threshold: f64) -> Fact {
    Fact { signal, unit: "ratio", value, threshold }
}

/// How long the GPU of the run waited that waited least, in each cell of the window with evidence.
pub(super) fn least(
    members: &[Member<'_>],
    booked: &[Booked<'_>],
    run: &Exchange<'_>,
    told: &[Vec<Evidence>],
) -> Vec<Option<f64>> {
    let of = |member: &Member<'_>, cell: usize, kind: CauseKind| {
        let own = &booked[member.gpu];
        let index = run.index_at(own.course.node, cell)?;
        let parts = own.cells.get(index.checked_sub(own.course.node.body.start)?)?;
        share(parts, member.owner, own, index, |part| is_waiting(part, kind))
    };
    let least = |(cell, found): (usize, &Vec<Evidence>)| {
        let kind = found.first()?.kind;
        members.iter().filter_map(|member| of(member, cell, kind)).reduce(f64::min)
    };
    told.iter().enumerate().map(least).collect()
}

/// May the network be what is waited for? The time that it waited for one rank is waiting too; that for ranks that are known to
/// be late by turns is not.
fn is_waiting(part: &Part, kind: CauseKind) -> bool {
    matches!(part.class, Class::CollectiveWait | Class::Straggler) && !is_late(part)
        || part.class == Class::LaunchBound && is_state(kind)
}

/// The share of the owner's time that these parts have; `None` where it did not hold the GPU for half of the cell.
fn share(
    parts: &[(Part, i64)],
    owner: &str,
    booked: &Booked<'_>,
    index: usize,
    is_counted: impl Fn(&Part) -> bool,
) -> Option<f64> {
    let own = || parts.iter().filter(|(part, _)| part.owner.as_deref() == Some(owner));
    let owned: i64 = own().map(|(_, ms)| ms).sum();
    let span = &booked.course.node.cells[index];
    if 2 * owned < span.end - span.start {
        return None;
    }
    let counted: i64 = own().filter(|(part, _)| is_counted(part)).map(|(_, ms)| ms).sum();
    Some(counted as f64 / owned as f64)
}
