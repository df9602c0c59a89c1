//! `memory_pressure`: the job's tasks wait for memory: reclaim, swap, pages that come back right after they were dropped.

use super::thresholds::confidence::{COUNTED, INFERRED, NODE_WIDE};
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const RULE: Rule =
    Rule { class: Class::MemoryPressure, explains: &[Class::DataloaderStorage, Class::FeedingUnsplit], judge };

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let of_job = cell.mean(Signal::JobMemoryPressure).map(|w| (Signal::JobMemoryPressure, w));
    let waiting = of_job.or_else(|| cell.mean(Signal::NodeMemoryPressure).map(|w| (Signal::NodeMemoryPressure, w)));
    let Some((signal, waiting)) = waiting else {
        return Verdict::Abstain { missing: vec![Signal::JobMemoryPressure, Signal::NodeMemoryPressure] };
    };
    if waiting < t.memory_waiting_ratio {
        return Verdict::No;
    }
    let signs = signs(cell, t);
    let confidence = match signal {
        Signal::NodeMemoryPressure => NODE_WIDE,
        _ if signs.is_empty() => INFERRED,
        _ => COUNTED,
    };
    // Time with at least one task waiting bounds the time for which the GPU waited for it.
    let facts = [Fact::of(signal, waiting, t.memory_waiting_ratio)].into_iter().chain(signs).collect();
    Verdict::Claim { max_share: waiting, confidence, facts }
}

/// What besides the waiting says that memory is short. Reclaim alone leaves none of these.
pub(super) fn signs(cell: &Cell<'_>, t: &Thresholds) -> Vec<Fact> {
    let signs = [
        (Signal::JobRefaults, t.refault_pages),
        (Signal::JobMajorFaults, t.major_faults),
        (Signal::NodeSwapIn, t.swap_in_bytes),
    ];
    let facts = signs.into_iter().filter_map(|(signal, floor)| Some(Fact::of(signal, cell.mean(signal)?, floor)));
    facts.filter(|fact| fact.value >= fact.threshold).collect()
}
