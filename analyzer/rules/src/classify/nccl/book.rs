//! The waiting that is booked, split as the time in collectives is.

use std::collections::HashMap;

use super::super::cell::Part;
use super::super::judge::Booked;
use super::super::thresholds::confidence::COUNTED;
use super::super::{Cause, CauseKind, Class, Culprit, Fact, Thresholds};
use super::blocks::{Block, Shares};
use super::still::Still;
use super::{Collectives, OfRun};
use goodput_exposition::sample::TimeMs;

/// How evidence names the share of the time in collectives that is waiting for late ranks.
const LATE: &str = "time in collectives that is waiting for late ranks";
/// The same, for the one that is named.
const NAMED: &str = "time in collectives that is waiting for the one named";
const MATCHED: &str = "collectives matched between ranks";
const BANDWIDTH: &str = "bus bandwidth of collectives against the best around";
const STANDS: &str = "time for which no rank has completed a collective";
/// Ranks that are named in one evidence: more are counted.
const MOST_NAMED: usize = 4;
/// Waiting from which a rank does nothing else in a cell, as of `hang`.
const ALL_OF_IT: f64 = 0.95;

impl Collectives {
    /// Says of waiting for late ranks that it is: of one that is always late it is that one's, else it stays where it is.
    pub(in super::super) fn charge(&self, booked: &mut [Booked<'_>], t: &Thresholds) {
        for run in &self.runs {
            for block in &run.blocks {
                for (rank, shares) in &block.ranks {
                    let (gpu, owner) = &run.members[*rank];
                    let cells = run.cells(block, &booked[*gpu]);
                    split(&mut booked[*gpu], owner, &cells, shares, t);
                }
            }
        }
    }

    /// Says of what is left of such waiting, behind `network_slow`, that it is the exchange; and of waiting in which nothing is
    /// completed, who is not there.
    pub(in super::super) fn mark(&self, booked: &mut [Booked<'_>], t: &Thresholds) {
        for run in &self.runs {
            for block in &run.blocks {
                for (rank, shares) in &block.ranks {
                    let (gpu, owner) = &run.members[*rank];
                    for cell in run.cells(block, &booked[*gpu]) {
                        let parts = booked[*gpu].cells[cell].iter_mut().filter(|(part, _)| is_open(part, owner));
                        parts.for_each(|(part, _)| exchanges(part, shares, block, t));
                    }
                }
            }
            run.still.iter().for_each(|still| run.mark_hang(still, booked));
        }
    }
}

impl OfRun {
    /// The booked cells of the GPU in the block, without those in which the run hangs.
    fn cells(&self, block: &Block, booked: &Booked<'_>) -> Vec<usize> {
        let node = booked.course.node;
        let spans = node.cells[node.body.clone()].iter().enumerate();
        let hangs = |start, end| self.still.iter().any(|still| still.time.start < end && start < still.time.end);
        let its = spans.filter(|(_, span)| block.time.contains(&span.start) && !hangs(span.start, span.end));
        its.map(|(n, _)| n).collect()
    }

    /// Marks the cells within in which all ranks wait and do nothing else.
    fn mark_hang(&self, still: &Still, booked: &mut [Booked<'_>]) {
        let culprit = self.culprit(&still.behind, booked);
        let which = self.which(still, culprit.as_ref(), booked);
        let value = (still.time.end - still.time.start) as f64 / 1000.0;
        let stands = Fact { signal: STANDS, unit: "seconds", value, threshold: 0.0 };
        let mut hangs: HashMap<TimeMs, bool> = HashMap::new();
        let mut marks = Vec::new();
        for (gpu, owner) in &self.members {
            let node = booked[*gpu].course.node;
            for (n, span) in node.cells[node.body.clone()].iter().enumerate() {
                let is_within = still.time.start <= span.start && span.end <= still.time.end;
                if is_within && *hangs.entry(span.start).or_insert_with(|| self.all_spin(span.start, booked)) {
                    marks.push((*gpu, n, owner));
                }
            }
        }
        for (gpu, n, owner) in marks {
            for (part, _) in booked[gpu].cells[n].iter_mut().filter(|(part, _)| is_waiting(part, owner)) {
                part.cause = Some(Cause { kind: CauseKind::Hang, which: which.clone() });
                part.charged_to.clone_from(&culprit);
                part.facts.push(stands);
            }
        }
    }

    /// Do the kernels of all GPUs that the run holds then spin all the time?
    fn all_spin(&self, at: TimeMs, booked: &[Booked<'_>]) -> bool {
        let spins = |(gpu, owner): &(usize, String)| {
            let course = booked[*gpu].course;
            let index = course.node.cells.partition_point(|span| span.end <= at);
            let is_its = course.node.cells.get(index).is_some() && course.gpu.is_held_by(owner, index);
            is_its.then(|| course.state(index).busy.as_ref().map_or(0.0, |busy| busy.spun))
        };
        self.members.iter().filter_map(spins).all(|share| share >= ALL_OF_IT)
    }

    /// The operation, and the ranks that are not in it where they are neither one GPU nor one node. Of a node nothing: what
    /// a node is charged for is its port.
    fn which(&self, still: &Still, culprit: Option<&Culprit>, booked: &[Booked<'_>]) -> Option<String> {
        let Still { operation, behind, .. } = still;
        let rank = |rank: &usize| {
            let course = booked[self.members[*rank].0].course;
            format!("{}/{}", course.node.node, course.gpu.uuid)
        };
        match (culprit, behind.len()) {
            (Some(Culprit { gpu: None, .. }), _) => None,
            (Some(_), _) | (None, 0) => Some(operation.clone()),
            (None, 1..=MOST_NAMED) => {
                let names: Vec<String> = behind.iter().map(rank).collect();
                Some(format!("{operation} without {}", names.join(" and ")))
            }
            (None, many) => Some(format!("{operation} without {many} ranks")),
        }
    }

    /// The GPU that is behind, or the node whose GPUs all are; none where others are behind too.
    fn culprit(&self, behind: &[usize], booked: &[Booked<'_>]) -> Option<Culprit> {
        let place = |rank: usize| booked[self.members[rank].0].course;
        let node = &place(*behind.first()?).node.node;
        let on_node = (0..self.members.len()).filter(|rank| place(*rank).node.node == *node).count();
        let is_node = behind.len() == on_node && behind.iter().all(|rank| place(*rank).node.node == *node);
        let gpu = (behind.len() == 1).then(|| place(behind[0]).gpu.uuid.clone());
        (gpu.is_some() || is_node).then(|| Culprit { node: node.clone(), gpu })
    }
}

/// Splits what the GPU waited in these cells.
fn split(booked: &mut Booked<'_>, owner: &str, cells: &[usize], shares: &Shares, t: &Thresholds) {
    let sum = |booked: &Booked<'_>, is: &dyn Fn(&Part) -> bool| -> i64 {
        let parts = cells.iter().flat_map(|cell| &booked.cells[*cell]);
        parts.filter(|(part, _)| is(part)).map(|(_, ms)| ms).sum()
    };
    let is_straggler = |part: &Part| part.class == Class::Straggler && part.owner.as_deref() == Some(owner);
    let charged = sum(booked, &is_straggler) as f64;
    let left = sum(booked, &|part| is_waiting(part, owner)) as f64;
    if left <= 0.0 {
        return;
    }
    let all = charged + left;
    let named: f64 = shares.named.iter().map(|(_, share)| share).sum();
    // What another pass has charged is a part of it, whatever shows it.
    let for_named = (named * all - charged).clamp(0.0, left);
    let for_others = (shares.late() * all - charged - for_named).clamp(0.0, left - for_named);
    let facts = [
        Fact { signal: LATE, unit: "ratio", value: shares.late(), threshold: 0.0 },
        Fact { signal: MATCHED, unit: "collectives", value: shares.collectives as f64, threshold: 0.0 },
    ];
    let mut kinds: Vec<(f64, Part)> = Vec::new();
    for (culprit, share) in &shares.named {
        let fact = Fact { signal: NAMED, unit: "ratio", value: *share, threshold: t.straggler_ratio };
        let part =
            Part { charged_to: Some(culprit.clone()), facts: vec![fact], ..Part::bare(Class::Straggler, COUNTED) };
        kinds.push((for_named * share / named / left, part));
    }
    let cause = Some(Cause { kind: CauseKind::LateRanks, which: None });
    kinds.push((for_others / left, Part { cause, ..Part::bare(Class::CollectiveWait, COUNTED) }));
    for cell in cells {
        let parts = &mut booked.cells[*cell];
        let mut taken = Vec::new();
        for (part, ms) in parts.iter_mut().filter(|(part, _)| is_waiting(part, owner)) {
            let whole = *ms as f64;
            for (share, kind) in &kinds {
                let some = ((share * whole).round() as i64).clamp(0, *ms);
                *ms -= some;
                let part = Part {
                    class: kind.class,
                    charged_to: kind.charged_to.clone(),
                    cause: kind.cause.clone(),
                    confidence: part.confidence.min(kind.confidence),
                    facts: part.facts.iter().chain(&kind.facts).chain(&facts).copied().collect(),
                    ..part.clone()
                };
                taken.push((part, some));
            }
        }
        parts.extend(taken);
        parts.retain(|(_, ms)| *ms > 0);
    }
}

fn is_waiting(part: &Part, owner: &str) -> bool {
    part.class == Class::CollectiveWait && part.owner.as_deref() == Some(owner)
}

/// Is nothing said yet of why it waits?
fn is_open(part: &Part, owner: &str) -> bool {
    is_waiting(part, owner) && part.cause.is_none()
}

fn exchanges(part: &mut Part, shares: &Shares, block: &Block, t: &Thresholds) {
    part.cause = Some(Cause { kind: CauseKind::Exchange, which: None });
    part.facts.push(Fact { signal: LATE, unit: "ratio", value: shares.late(), threshold: 0.0 });
    part.facts.extend(block.bandwidth.map(|found| Fact {
        signal: BANDWIDTH,
        unit: "ratio",
        value: found.now / found.best,
        threshold: t.nccl_slow_ratio,
    }));
}
