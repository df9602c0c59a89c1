//! `thp_compaction`: tasks of the job wait until the kernel has moved pages together for the huge page that they are to
//! get. Pressure counts this as waiting for memory; no memory is short.

use super::thresholds::confidence::{INFERRED, NODE_WIDE};
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict, memory_pressure};
use crate::signal::Signal;

pub(super) const RULE: Rule = Rule {
    class: Class::ThpCompaction,
    explains: &[Class::MemoryPressure, Class::DataloaderStorage, Class::DataloaderCpu, Class::FeedingUnsplit],
    judge,
};

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let Some(stalls) = cell.mean(Signal::NodeCompactionStalls) else {
        return Verdict::without(&[Signal::NodeCompactionStalls]);
    };
    let levels = [(Signal::JobMemoryPressure, INFERRED), (Signal::NodeMemoryPressure, NODE_WIDE)];
    let waits = levels.into_iter().find_map(|(signal, confidence)| Some((signal, cell.mean(signal)?, confidence)));
    let Some((signal, waiting, confidence)) = waits else {
        return Verdict::without(&[Signal::JobMemoryPressure, Signal::NodeMemoryPressure]);
    };
    let reclaims = cell.mean(Signal::NodeReclaimStalls).is_some_and(|reclaims| reclaims >= stalls);
    // Who reclaims, swaps or reads pages again is short of memory, and compacts for that.
    if waiting < t.memory_waiting_ratio
        || stalls < t.compaction_stalls
        || reclaims
        || !memory_pressure::signs(cell, t).is_empty()
    {
        return Verdict::No;
    }
    let facts = vec![
        Fact::of(Signal::NodeCompactionStalls, stalls, t.compaction_stalls),
        Fact::of(signal, waiting, t.memory_waiting_ratio),
    ];
    // Time with at least one task waiting bounds the time for which the GPU waited for it.
    Verdict::Claim { max_share: waiting, confidence, facts }
}
