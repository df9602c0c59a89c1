//! `feeding_unsplit`: the GPU works on and off, as one does that waits for its input, and nothing tells what the input is
//! late for: no series says whether the job's tasks got the CPUs that they asked for, and no rule that could speak all the
//! same did.
//!
//! Servers, decoders and simulations work on and off too. So the rule asks for a sign that input comes from outside.

use super::busy::busy;
use super::server_clock::is_server;
use super::thresholds::confidence::WEAK;
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict, fed};
use crate::signal::Signal;

pub(super) const RULE: Rule = Rule { class: Class::FeedingUnsplit, explains: &[], judge };

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let Some(here) = busy(cell, t).filter(|busy| busy.spun == 0.0) else { return Verdict::No };
    if are_cpus_told(cell) || is_server(cell, t) || !works_on_and_off(cell, t) {
        return Verdict::No;
    }
    let Some(sign) = fed::sign(cell, t) else { return Verdict::No };
    let work = here.facts.iter().map(|fact| Fact { threshold: t.sustained_busy_ratio, ..*fact });
    let facts = work.chain([sign]).collect();
    Verdict::Claim { max_share: 1.0 - here.ratio, confidence: WEAK, facts }
}

/// Does it work in this cell and in both adjacent ones? A pause between two stretches of work may be anything. Nor does
/// a GPU wait for input while it has kernels, as its utilisation shows.
pub(super) fn works_on_and_off(cell: &Cell<'_>, t: &Thresholds) -> bool {
    let around = cell.index.saturating_sub(1)..(cell.index + 2).min(cell.node.cells.len());
    let cells = around.map(|index| Cell { index, ..*cell });
    let ratios: Option<Vec<(f64, f64)>> = cells
        .map(|cell| {
            let work = busy(&cell, t)?.ratio;
            Some((work, cell.mean(Signal::GpuUtilization).unwrap_or(work)))
        })
        .collect();
    let Some(ratios) = ratios else { return false };
    let hollow = ratios.iter().map(|(work, kernels)| kernels - work).sum::<f64>() / ratios.len() as f64;
    hollow <= t.hollow_ratio && ratios.iter().all(|(work, _)| *work >= t.sustained_busy_ratio)
}

/// Does any signal show whether the job's tasks got the CPUs that they asked for? The use of a node's CPUs does not: a
/// quota or a cpuset may hold a job up on a node that is nearly idle.
fn are_cpus_told(cell: &Cell<'_>) -> bool {
    [Signal::JobCpuPressure, Signal::NodeCpuPressure, Signal::JobCpuUsage].iter().any(|s| cell.read(*s).is_some())
}
