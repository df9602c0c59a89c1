//! One cell of one GPU, judged: every millisecond of it booked on one class.

use std::borrow::Cow;

use super::busy::{self, Busy};
use super::explain::explain;
use super::held::{self, Held};
use super::ledger::Account;
use super::phase::Mark;
use super::thresholds::confidence::{CERTAIN, COUNTED};
use super::{Cause, Cell, Class, Culprit, DERATES, Fact, Imbalance, Node, Thresholds, Verdict};
use crate::apportion;
use crate::signal::{LADDER, Signal};
use goodput_verdict::DOUBTED;

/// Why some milliseconds of a cell are of their class.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) class: Class,
    pub(super) owner: Option<String>,
    pub(super) charged_to: Option<Culprit>,
    pub(super) cause: Option<Cause>,
    pub(super) confidence: f64,
    pub(super) rung: Option<&'static str>,
    pub(super) facts: Vec<Fact>,
    pub(super) missing: Vec<Signal>,
}

impl Part {
    /// A part without an owner or evidence.
    pub(super) fn bare(class: Class, confidence: f64) -> Part {
        let (owner, charged_to, cause, rung) = (None, None, None, None);
        Part { class, owner, charged_to, cause, confidence, rung, facts: Vec::new(), missing: Vec::new() }
    }
}

/// What is known of a GPU in a cell before any rule is asked.
#[derive(Debug)]
pub(super) struct State {
    pub(super) busy: Option<Busy>,
    pub(super) held: Held,
}

/// The node of this name panics when it is judged, in tests.
#[cfg(test)]
pub(super) const PANICS: &str = "panics";

/// The states of all cells of the frame, GPU by GPU.
pub(super) fn states(node: &Node, t: &Thresholds) -> Vec<Vec<State>> {
    #[cfg(test)]
    assert_ne!(node.node, PANICS, "tests judge a node that cannot be judged");
    let state = |gpu, index| {
        let cell = Cell::of(node, gpu, None, index);
        let uncut = || State { busy: busy::busy(&cell, t), held: held::held(&cell, t) };
        held::rest_of_cut(&cell).map_or_else(uncut, |held| State { busy: None, held })
    };
    node.gpus.iter().map(|gpu| (0..node.cells.len()).map(|index| state(gpu, index)).collect()).collect()
}

/// Books the whole cell: of a GPU that is cut up what is not an instance's, of an instance its share.
pub(super) fn book(
    cell: &Cell<'_>,
    state: &State,
    outage: Option<(Part, f64)>,
    phase: Option<&Mark>,
    t: &Thresholds,
) -> Result<Vec<(Part, i64)>, Imbalance> {
    let (here, known, share_ms) =
        (cell.gpu.here_ms[cell.index], cell.gpu.known_ms[cell.index], cell.gpu.share_ms[cell.index]);
    // That an instance is not there is no hole in the data.
    let is_instance = cell.gpu.instance.is_some();
    let hole = if is_instance { 0 } else { here - known };
    let own = if is_instance { known } else { share_ms - hole };
    let mut account = Account::of(own + hole);
    if let Some((part, share)) = outage {
        account.book(part, ((share * known as f64).round() as i64).min(own))?;
    }
    let left = own - account.booked();
    // What was out of use was free before it is anything else.
    let free = ((held::free_share(cell, t) * own as f64).round() as i64 - account.booked()).clamp(0, left);
    if free > 0 {
        account.book(Part { facts: vec![held_for(cell, t)], ..Part::bare(Class::Unallocated, COUNTED) }, free)?;
    }
    let busy = state.busy.as_ref().map(|busy| while_held(busy, left, left - free));
    for (owner, ms) in owned(cell, state, left - free) {
        let cell = cell.of_owner(owner);
        for (part, ms) in book_known(&cell, &state.held, busy.as_deref(), phase, ms, t)? {
            account.book(part, ms)?;
        }
    }
    let rest = account.rest();
    account.book(Part { facts: doubted(cell), ..Part::bare(Class::NoData, CERTAIN) }, rest)?;
    let mut parts = account.close()?;
    if cell.gpu.is_here(cell.index) && cell.node.cells.len() > cell.index + 1 && !cell.gpu.is_here(cell.index + 1) {
        parts.iter_mut().for_each(|(part, _)| part.facts.push(LEFT));
    }
    Ok(if is_instance { weighted(parts, share_ms) } else { parts })
}

/// That the GPU was on the node, or there at all, no longer. Who reads stored verdicts knows by it that no more follow.
const LEFT: Fact = Fact { signal: LEFT_NODE, unit: "ratio", value: 1.0, threshold: 1.0 };

/// Name of the evidence that the GPU left the node, or capacity, with its last cell there.
pub const LEFT_NODE: &str = "left the node";

/// That the GPU's values are no readings, and for which share of the cell.
fn doubted(cell: &Cell<'_>) -> Vec<Fact> {
    let span = &cell.node.cells[cell.index];
    let share = |ms: &Vec<i64>| ms[cell.index] as f64 / (span.end - span.start) as f64;
    let named = DOUBTED.into_iter().zip(&cell.gpu.doubted_ms).map(|(signal, ms)| (signal, share(ms)));
    let doubted = named.filter(|(_, share)| *share > 0.0);
    doubted.map(|(signal, value)| Fact { signal, unit: "ratio", value, threshold: 0.0 }).collect()
}

/// That the owner came or went within the cell.
fn held_for(cell: &Cell<'_>, t: &Thresholds) -> Fact {
    Fact { signal: "part that an owner held", unit: "ratio", value: 1.0 - held::free_share(cell, t), threshold: 1.0 }
}

/// Work of the cell as a share of the time that the GPU was held: no owner works on a free GPU.
fn while_held(busy: &Busy, known: i64, held: i64) -> Cow<'_, Busy> {
    if held == known || held == 0 {
        return Cow::Borrowed(busy);
    }
    Cow::Owned(Busy { ratio: (busy.ratio * known as f64 / held as f64).min(1.0), ..busy.clone() })
}

/// The parts, so that they sum to this.
fn weighted(parts: Vec<(Part, i64)>, share_ms: i64) -> Vec<(Part, i64)> {
    let weights: Vec<f64> = parts.iter().map(|(_, ms)| *ms as f64).collect();
    let weighted = parts.into_iter().zip(apportion(share_ms, &weights)).map(|((part, _), ms)| (part, ms));
    weighted.filter(|(_, ms)| *ms > 0).collect()
}

/// Known time by owner. Where several hold the GPU they share its time by how long each held it.
pub(super) fn owned<'a>(cell: &Cell<'a>, state: &State, known: i64) -> Vec<(Option<&'a str>, i64)> {
    let owners = &cell.gpu.owners[cell.index];
    if owners.is_empty() || !matches!(state.held, Held::Yes { .. }) {
        return vec![(None, known)];
    }
    let weights: Vec<f64> = owners.iter().map(|(_, ms)| *ms as f64).collect();
    let names = owners.iter().map(|(name, _)| Some(&**name));
    names.zip(apportion(known, &weights)).collect()
}

/// Books what is known of the cell: work first, then the phases that exclude each other, then what rules explain.
fn book_known(
    cell: &Cell<'_>,
    held: &Held,
    busy: Option<&Busy>,
    phase: Option<&Mark>,
    known: i64,
    t: &Thresholds,
) -> Result<Vec<(Part, i64)>, Imbalance> {
    let mut account = Account::of(known);
    if let Some(busy) = busy.filter(|_| phase.is_none_or(|phase| !phase.takes_work)) {
        let ms = (busy.ratio * known as f64).round() as i64;
        for (part, ms) in work(cell, busy, ms, t)? {
            account.book(part, ms)?;
        }
    }
    let rest = account.rest();
    match (held, busy, phase) {
        (Held::No { confidence, fact }, ..) => {
            let unallocated = part(cell, Class::Unallocated, *confidence);
            account.book(Part { facts: vec![*fact], ..unallocated }, rest)?;
        }
        (Held::Unknown, busy, _) => {
            let untold = untold(cell, held::signals(cell));
            account.book(Part { rung: busy.map(|b| b.rung), ..untold }, rest)?;
        }
        (Held::Yes { .. }, None, _) => account.book(undecided(cell, t), rest)?,
        (Held::Yes { confidence, fact }, Some(busy), Some(phase)) => {
            let mut phased = measured(part(cell, phase.class, confidence.min(busy.confidence)), busy);
            phased.facts.extend(fact.iter().chain(&phase.facts).copied());
            account.book(phased, rest)?;
        }
        (Held::Yes { .. }, Some(busy), None) if busy.is_least => {
            account.book(measured(untold(cell, &busy::OF_TIME), busy), rest)?;
        }
        (Held::Yes { .. }, Some(busy), None) => explain(cell, busy, known, &mut account, t)?,
    }
    account.close()
}

/// Work: what was lost of it to lowered clocks, and what is productive.
fn work(cell: &Cell<'_>, busy: &Busy, ms: i64, t: &Thresholds) -> Result<Vec<(Part, i64)>, Imbalance> {
    let mut account = Account::of(ms);
    for derate in DERATES {
        let Verdict::Claim { max_share, confidence, facts } = (derate.judge)(cell, t).sound() else { continue };
        let confidence = confidence.min(busy.confidence);
        if confidence >= t.confidence_floor && max_share >= t.claim_floor {
            let slowed = Part { facts, rung: Some(busy.rung), ..part(cell, derate.class, confidence) };
            let lost = (max_share.min(1.0) * ms as f64).round() as i64;
            account.book(slowed, lost.min(account.rest()))?;
        }
    }
    let rest = account.rest();
    account.book(measured(part(cell, Class::Productive, busy.confidence), busy), rest)?;
    account.close()
}

/// Unexplained for lack of these signals.
fn untold(cell: &Cell<'_>, missing: &[Signal]) -> Part {
    Part { missing: missing.to_vec(), ..part(cell, Class::Unexplained, 0.0) }
}

/// Unexplained, for no signal tells how busy the GPU was, or those that do contradict each other.
fn undecided(cell: &Cell<'_>, t: &Thresholds) -> Part {
    let mut facts = busy::doubts(cell, t);
    facts.extend(doubted(cell));
    let missing: &[Signal] = if facts.is_empty() { &LADDER } else { &[] };
    Part { facts, ..untold(cell, missing) }
}

/// A part without evidence yet.
pub(super) fn part(cell: &Cell<'_>, class: Class, confidence: f64) -> Part {
    Part { owner: cell.owner.map(str::to_owned), ..Part::bare(class, confidence) }
}

/// The same with the busy signal as its evidence.
fn measured(part: Part, busy: &Busy) -> Part {
    Part { rung: Some(busy.rung), facts: busy.facts.clone(), ..part }
}
