//! By how much a GPU waits longer in collectives than its bytes take.
//!
//! D = W - B w: W is the share of a cell that the GPU waited, B the bytes that its node exchanged, and w the lower quartile
//! of W / B over cells of the run without evidence. Not the median: faults that no counter shows hide among them.

use std::collections::HashMap;

use super::super::cell::Part;
use super::super::judge::{Booked, book_cell};
use super::super::straggler::Member;
use super::super::{CauseKind, Class, Fact, Thresholds};
use super::evidence::{Evidence, is_state};
use super::exchange::Exchange;
use super::grade;

/// A member of the run over the frame.
pub(super) struct Deficit<'r, 'a> {
    member: Member<'r>,
    booked: &'r [Booked<'a>],
    run: &'r Exchange<'a>,
    told: &'r [Vec<Evidence>],
    side: usize,
    /// How long it waited in cells outside the window, as far as that was asked.
    around: HashMap<usize, Option<f64>>,
}

impl<'r, 'a> Deficit<'r, 'a> {
    pub(super) fn of(
        member: Member<'r>,
        booked: &'r [Booked<'a>],
        run: &'r Exchange<'a>,
        told: &'r [Vec<Evidence>],
        _: &Thresholds,
    ) -> Self {
        let node = booked[member.gpu].course.node;
        let side = run.sides.iter().position(|side| std::ptr::eq(side.node, node)).unwrap_or_default();
        Self { member, booked, run, told, side, around: HashMap::new() }
    }

    /// The share of the cell that the network took, how sure that is, and why; `None` where it took none.
    pub(super) fn lost(
        &mut self,
        index: usize,
        cell: usize,
        found: &Evidence,
        t: &Thresholds,
    ) -> Option<(f64, f64, Vec<Fact>)> {
        let waits = self.waited(index, found.kind, t)?;
        let least = self.least_waiting(cell, found.kind, t).unwrap_or(waits);
        let deficit = self.usual(index, t).map(|usual| waits - usual);
        let bound = match (deficit, found.bound) {
            (Some(deficit), Some(bound)) => deficit.min(bound),
            (Some(deficit), None) => deficit,
            (None, Some(bound)) if is_state(found.kind) || found.is_counted => bound,
            (None, _) => return None,
        };
        // A rank that waits least is late, and no network: the others wait for it.
        let late = if waits - least >= t.straggler_ratio { waits - least } else { 0.0 };
        let share = bound.min(waits - late);
        let floor = if found.kind == CauseKind::Errors { t.network_wait_ratio } else { t.claim_floor };
        if waits < t.network_wait_ratio || share < floor {
            return None;
        }
        let ratio = |signal, value, threshold| Fact { signal, unit: "ratio", value, threshold };
        let mut facts = vec![ratio("waiting in collectives", waits, t.network_wait_ratio)];
        facts.extend(deficit.map(|lost| ratio("waiting beyond what the bytes take", lost, floor)));
        Some((share, grade(found), facts))
    }

    /// What the bytes of the cell take on a sound network.
    fn usual(&mut self, index: usize, t: &Thresholds) -> Option<f64> {
        let node = self.booked[self.member.gpu].course.node;
        let side = &self.run.sides[self.side];
        let mut clean = Vec::new();
        for other in node.around(index, t.derate_around_seconds) {
            let is_clean = self.run.cell_of(node, other).is_some_and(|cell| self.told[cell].is_empty());
            let Some(bytes) = side.exchanged(other).filter(|bytes| is_clean && *bytes >= t.exchange_bytes) else {
                continue;
            };
            clean.extend(self.waited(other, CauseKind::Errors, t).map(|waited| waited / bytes));
        }
        if (clean.len() as f64) < t.network_clean_cells {
            return None;
        }
        let quartile = clean.len() / 4;
        let per_byte = *clean.select_nth_unstable_by(quartile, f64::total_cmp).1;
        Some(per_byte * side.exchanged(index)?)
    }

    /// The share of the owner's time in the cell that it waited in collectives; `None` where it did not hold the GPU for
    /// half of it.
    fn waited(&mut self, index: usize, kind: CauseKind, t: &Thresholds) -> Option<f64> {
        let own = &self.booked[self.member.gpu];
        if own.course.node.body.contains(&index) {
            return share(&own.cells[index - own.course.node.body.start], self.member.owner, own, index, kind);
        }
        *self.around.entry(index).or_insert_with(|| {
            let parts = book_cell(&own.course, index, t).ok()?;
            share(&parts, self.member.owner, own, index, kind)
        })
    }

    /// Of the run's GPUs the one that waits least.
    fn least_waiting(&self, cell: usize, kind: CauseKind, _: &Thresholds) -> Option<f64> {
        let (node, body) = (self.run.node(0), self.run.body());
        if !body.contains(&cell) {
            return None;
        }
        let _ = node;
        let of = |other: &Booked<'_>| {
            let index = other.course.node.cells.partition_point(|c| c.end <= self.run.cells()[cell].start);
            let n = index.checked_sub(other.course.node.body.start)?;
            share(other.cells.get(n)?, self.member.owner, other, index, kind)
        };
        self.booked.iter().filter(|other| is_of_run(other, self.run)).filter_map(of).reduce(f64::min)
    }
}

fn is_of_run(booked: &Booked<'_>, run: &Exchange<'_>) -> bool {
    run.sides.iter().any(|side| std::ptr::eq(side.node, booked.course.node))
}

/// Its share of the owner's time; the time that it waited for one rank is waiting too.
fn share(parts: &[(Part, i64)], owner: &str, booked: &Booked<'_>, index: usize, kind: CauseKind) -> Option<f64> {
    let own = || parts.iter().filter(|(part, _)| part.owner.as_deref() == Some(owner));
    let owned: i64 = own().map(|(_, ms)| ms).sum();
    let span = &booked.course.node.cells[index];
    if 2 * owned < span.end - span.start {
        return None;
    }
    let is_waiting = |class| {
        matches!(class, Class::CollectiveWait | Class::Straggler) || class == Class::LaunchBound && is_state(kind)
    };
    let waited: i64 = own().filter(|(part, _)| is_waiting(part.class)).map(|(_, ms)| ms).sum();
    Some(waited as f64 / owned as f64)
}
