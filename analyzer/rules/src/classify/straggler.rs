//! `straggler`: the GPU waited in a collective for one rank of its run, which is named.
//!
//! This is the second pass. The first has booked every cell by what its own node tells; here the GPUs that one owner
//! holds, on all nodes, are laid side by side. Of what is booked as `collective_wait`, the part that one other rank
//! explains becomes `straggler` and is charged to that rank: it waited less, because a cause of its own held it up or
//! because it worked while the others spun. No milliseconds move from row to row, and the rank keeps its own cause.
//!
//! Where all ranks of a node are about equally late, the node is charged. Ranks that are late by turns within a cell, and others
//! that are equally late, are not told from a slow exchange.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::ptr;

use super::busy::{OF_TIME, busy};
use super::cell::Part;
use super::judge::Booked;
use super::run::Run;
use super::thresholds::confidence::{INFERRED, NODE_WIDE};
use super::{Cell, Class, Culprit, Fact, Group, Thresholds, Verdict, depth, power};
use crate::signal::Signal;
use goodput_exposition::sample::TimeMs;

/// Does this on a rank's row explain that others wait for it?
pub(super) fn is_cause(class: Class) -> bool {
    matches!(class.group(), Group::StartUp | Group::Feeding | Group::Saving | Group::Derate)
}

/// A GPU of a run, and who of the run holds it at some time of the frame.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    /// Which of the booked GPUs.
    pub(super) gpu: usize,
    pub(super) owner: &'a str,
}

/// A rank of a run in the time of a cell; shares are of that time.
struct Rank<'a> {
    /// Which of the booked GPUs.
    gpu: usize,
    /// Its cell that has the most of that time.
    cell: Cell<'a>,
    waiting: f64,
    working: f64,
    causes: BTreeMap<Class, f64>,
}

/// What is said of one cell of a rank that waited.
struct Charge {
    gpu: usize,
    /// Which of its booked cells.
    index: usize,
    owner: String,
    found: Found,
}

/// Whom a rank waited for.
enum Found {
    Named {
        culprit: Culprit,
        share: f64,
        confidence: f64,
        facts: Vec<Fact>,
    },
    /// Perhaps for another rank: these signals would show it.
    Untold {
        missing: Vec<Signal>,
    },
}

/// Charges what GPUs waited in collectives to the rank that they waited for, where it can be named.
pub(super) fn charge(booked: &mut [Booked<'_>], t: &Thresholds) {
    let charges: Vec<Charge> = runs(booked).into_values().flat_map(|members| charges(&members, booked, t)).collect();
    charges.into_iter().for_each(|charge| charge.book(booked));
}

/// The GPUs that each run holds at any time of the frame, of runs that have several. Instances are left out: what they
/// tell of depth is not comparable, and peers they are not (NVIDIA's MIG User Guide: no GPU-to-GPU P2P).
pub(super) fn runs<'a>(booked: &[Booked<'a>]) -> BTreeMap<Run, Vec<Member<'a>>> {
    let mut runs: BTreeMap<Run, Vec<Member<'a>>> = BTreeMap::new();
    let whole = booked.iter().enumerate().filter(|(_, booked)| booked.course.gpu.instance.is_none());
    for (gpu, Booked { course, .. }) in whole {
        let owners: BTreeSet<&str> = course.gpu.owners.iter().flatten().map(|(owner, _)| &**owner).collect();
        for owner in owners {
            runs.entry(Run::of(course.node, owner)).or_default().push(Member { gpu, owner });
        }
    }
    runs.retain(|_, members| members.iter().any(|member| member.gpu != members[0].gpu));
    runs
}

fn charges(members: &[Member<'_>], booked: &[Booked<'_>], t: &Thresholds) -> Vec<Charge> {
    let mut waiting: BTreeMap<(TimeMs, TimeMs), Vec<(Member<'_>, usize)>> = BTreeMap::new();
    for member in members {
        let node = booked[member.gpu].course.node;
        for (index, (span, parts)) in node.cells[node.body.clone()].iter().zip(&booked[member.gpu].cells).enumerate() {
            if parts.iter().any(|(part, _)| waits(part, member.owner)) {
                waiting.entry((span.start, span.end)).or_default().push((*member, index));
            }
        }
    }
    let mut charges = Vec::new();
    for ((start, end), cells) in waiting {
        let ranks = side_by_side(members, booked, &(start..end), t);
        for (Member { gpu, owner }, index) in cells {
            let found = ranks.iter().find(|rank| rank.gpu == gpu).and_then(|rank| culprit(rank, &ranks, t));
            charges.extend(found.map(|found| Charge { gpu, index, owner: owner.to_owned(), found }));
        }
    }
    charges
}

fn waits(part: &Part, owner: &str) -> bool {
    part.class == Class::CollectiveWait && part.owner.as_deref() == Some(owner)
}

/// The run's ranks in that time; none where too many of them are not known.
fn side_by_side<'a>(
    members: &[Member<'_>],
    booked: &[Booked<'a>],
    span: &Range<TimeMs>,
    t: &Thresholds,
) -> Vec<Rank<'a>> {
    let (mut ranks, mut silent) = (Vec::new(), 0);
    for member in members {
        let booked = &booked[member.gpu];
        match rank(*member, booked, span) {
            Some(rank) => ranks.push(rank),
            None => silent += usize::from(is_silent(member.owner, booked, span, t)),
        }
    }
    let all = ranks.len() + silent;
    if (ranks.len() as f64) < t.straggler_known_ratio * all as f64 { Vec::new() } else { ranks }
}

/// `None` where the member did not hold the GPU for most of that time, or that is not known.
fn rank<'a>(Member { gpu, owner }: Member<'_>, booked: &Booked<'a>, span: &Range<TimeMs>) -> Option<Rank<'a>> {
    let (node, frame) = (booked.course.node, booked.course.gpu);
    let (mut owned, mut by_class, mut most) = (0.0, BTreeMap::<Class, f64>::new(), (0, node.body.start));
    for (index, overlap) in overlaps(booked, span) {
        let cell = &node.cells[index];
        let part_of = overlap as f64 / (cell.end - cell.start) as f64;
        for (part, ms) in &booked.cells[index - node.body.start] {
            if part.owner.as_deref() == Some(owner) {
                owned += *ms as f64 * part_of;
                if part.class != Class::Unexplained || is_idle(part) {
                    *by_class.entry(part.class).or_default() += *ms as f64 * part_of;
                }
            }
        }
        most = most.max((overlap, index));
    }
    if 2.0 * owned < (span.end - span.start) as f64 {
        return None;
    }
    by_class.values_mut().for_each(|ms| *ms /= owned);
    let share = |class| by_class.get(&class).copied().unwrap_or(0.0);
    let (waiting, working) = (share(Class::CollectiveWait), share(Class::Productive));
    // A rank that has nothing to do while others wait in a collective is not in it, whatever holds it up.
    by_class.retain(|class, _| is_cause(*class) || *class == Class::Unexplained);
    let owner = frame.owners[most.1].iter().map(|(owner, _)| &**owner).find(|name| *name == owner);
    Some(Rank { gpu, cell: Cell::of(node, frame, owner, most.1), waiting, working, causes: by_class })
}

/// Is it known that the GPU had nothing to do? What is unexplained for want of a busy signal may be work.
fn is_idle(part: &Part) -> bool {
    part.rung.is_some() && !OF_TIME.iter().any(|signal| part.missing.contains(signal))
}

/// The cells of the window that have some of that time, and how many milliseconds of it.
fn overlaps<'b>(booked: &'b Booked<'_>, span: &'b Range<TimeMs>) -> impl Iterator<Item = (usize, i64)> + 'b {
    let node = booked.course.node;
    let first = node.cells.partition_point(|cell| cell.end <= span.start).max(node.body.start);
    let cells = (first..node.body.end).take_while(|index| node.cells[*index].start < span.end);
    cells.map(|index| (index, node.cells[index].end.min(span.end) - node.cells[index].start.max(span.start)))
}

/// Did the owner hold the GPU around that time, though little of the time is known?
fn is_silent(owner: &str, booked: &Booked<'_>, span: &Range<TimeMs>, t: &Thresholds) -> bool {
    let (node, gpu) = (booked.course.node, booked.course.gpu);
    let known: i64 = overlaps(booked, span).map(|(index, overlap)| gpu.known_ms[index].min(overlap)).sum();
    let holds = |index: usize| gpu.is_held_by(owner, index);
    let mut cells = overlaps(booked, span).map(|(index, _)| index);
    2 * known < span.end - span.start && cells.any(|index| node.around(index, t.around_seconds).any(holds))
}

/// A rank that explains what another one waited.
struct Suspect<'r, 'a> {
    share: f64,
    confidence: f64,
    facts: Vec<Fact>,
    rank: &'r Rank<'a>,
}

/// The rank that explains the most of what this one waited, if it stands out from every other; or its node, if all of its
/// ranks do so about alike.
fn culprit(victim: &Rank<'_>, ranks: &[Rank<'_>], t: &Thresholds) -> Option<Found> {
    let (mut named, mut missing) = (Vec::new(), Vec::new());
    for rank in ranks.iter().filter(|rank| rank.gpu != victim.gpu) {
        match suspect(victim, rank, t).sound() {
            Verdict::Abstain { missing: signals } => missing.extend(signals),
            Verdict::No => {}
            Verdict::Claim { max_share: share, confidence, facts } => {
                named.push(Suspect { share, confidence, facts, rank });
            }
        }
    }
    named.sort_by(|a, b| b.share.total_cmp(&a.share));
    let Some(first) = named.first() else { return (!missing.is_empty()).then_some(Found::Untold { missing }) };
    let is_alike = |other: &&Suspect<'_, '_>| first.share - other.share < t.straggler_ratio;
    let alike: Vec<&Suspect<'_, '_>> = named.iter().filter(is_alike).collect();
    let node = first.rank.cell.node;
    let on_node = ranks.iter().filter(|rank| ptr::eq(rank.cell.node, node)).count();
    let is_node = alike.len() == on_node && alike.iter().all(|other| ptr::eq(other.rank.cell.node, node));
    if alike.len() > 1 && !is_node {
        return None;
    }
    let gpu = (alike.len() == 1).then(|| first.rank.cell.gpu.uuid.clone());
    let culprit = Culprit { node: node.node.clone(), gpu };
    let Suspect { share, confidence, facts, .. } = named.swap_remove(0);
    Some(Found::Named { culprit, share, confidence, facts })
}

/// How much of its time the victim waited for the other: no more than it waited longer, and no more than a cause on the
/// other's row and work beyond the victim's own amount to.
fn suspect(victim: &Rank<'_>, other: &Rank<'_>, t: &Thresholds) -> Verdict {
    let longer = victim.waiting - other.waiting;
    if longer < t.straggler_ratio {
        return Verdict::No;
    }
    let sum = |rank: &Rank<'_>| rank.causes.values().sum::<f64>();
    let own_cause = (sum(other) - sum(victim)).max(0.0);
    let more_work = other.working - victim.working;
    let deeper = if more_work > 0.0 { depth::deeper(&other.cell, &victim.cell, t) } else { Verdict::No };
    let (more_work, confidence, depths) = match deeper {
        Verdict::Claim { confidence, facts, .. } => (more_work, confidence, facts),
        Verdict::Abstain { missing } if own_cause < t.straggler_ratio && more_work >= t.straggler_ratio => {
            return Verdict::Abstain { missing };
        }
        _ => (0.0, INFERRED, Vec::new()),
    };
    let max_share = longer.min(own_cause + more_work);
    if max_share < t.straggler_ratio {
        return Verdict::No;
    }
    let ratio = |signal, value, threshold| Fact { signal, unit: "ratio", value, threshold };
    let mut facts = vec![ratio(LONGER, longer, t.straggler_ratio)];
    let main_cause = other.causes.iter().max_by(|a, b| a.1.total_cmp(b.1)).filter(|_| own_cause > 0.0);
    // As far as the rank only had nothing to do, for no reason that is known, that it is late is less sure.
    let idle = |rank: &Rank<'_>| rank.causes.get(&Class::Unexplained).copied().unwrap_or(0.0);
    let needs_idle = max_share > own_cause - (idle(other) - idle(victim)).max(0.0) + more_work;
    let confidence = if needs_idle { confidence.min(NODE_WIDE) } else { confidence };
    facts.extend(main_cause.map(|(class, share)| Fact { unit: OF_THE_OTHER, ..ratio(class.name(), *share, 0.0) }));
    facts.extend(paired(victim, other, t));
    facts.extend(depths);
    Verdict::Claim { max_share, confidence, facts }
}

/// How evidence names the share of the cell by which the GPU waited longer than the one it waited for.
const LONGER: &str = "waited longer than the GPU waited for";
/// The unit of a cause that is on the row of the GPU waited for.
const OF_THE_OTHER: &str = "ratio of the time of the GPU waited for";

/// What both did at the same time, the victim against the other.
fn paired(victim: &Rank<'_>, other: &Rank<'_>, t: &Thresholds) -> Vec<Fact> {
    let pair = |signal, unit, of: &dyn Fn(&Cell<'_>) -> Option<f64>| {
        Some(Fact { signal, unit, value: of(&victim.cell)?, threshold: of(&other.cell)? })
    };
    let kernels = |cell: &Cell<'_>| busy(cell, t).map(|busy| busy.ratio.max(busy.spun));
    let watts = |cell: &Cell<'_>| power::drawn(cell).map(|(_, watts)| watts);
    let facts = [
        pair("busy against the GPU waited for", "ratio", &kernels),
        pair("gpu_power against the GPU waited for", "watts", &watts),
    ];
    facts.into_iter().flatten().collect()
}

impl Charge {
    fn book(self, booked: &mut [Booked<'_>]) {
        let Charge { gpu, index, owner, found } = self;
        let parts = &mut booked[gpu].cells[index];
        match found {
            Found::Named { culprit, share, confidence, facts } => {
                let owned = parts.iter().filter(|(part, _)| part.owner.as_ref() == Some(&owner));
                let mut left = (share * owned.map(|(_, ms)| *ms).sum::<i64>() as f64).round() as i64;
                let mut charged = Vec::new();
                for (part, ms) in parts.iter_mut().filter(|(part, _)| waits(part, &owner)) {
                    let taken = left.min(*ms);
                    (left, *ms) = (left - taken, *ms - taken);
                    let straggler = Part {
                        class: Class::Straggler,
                        charged_to: Some(culprit.clone()),
                        confidence: part.confidence.min(confidence),
                        facts: part.facts.iter().chain(&facts).copied().collect(),
                        ..part.clone()
                    };
                    charged.push((straggler, taken));
                }
                parts.extend(charged);
                parts.retain(|(_, ms)| *ms > 0);
            }
            Found::Untold { missing } => {
                for (part, _) in parts.iter_mut().filter(|(part, _)| waits(part, &owner)) {
                    part.missing.extend(&missing);
                }
            }
        }
    }
}
