//! `dataloader_storage`: the job's workers wait for reads instead of computing, and the GPU waits for them.

use super::cpu::{self, CpuUse};
use super::thresholds::confidence::{COUNTED, NODE_WIDE, WEAK};
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const VERSION: u32 = 1;

pub(super) const RULE: Rule = Rule { class: Class::DataloaderStorage, explains: &[Class::FeedingUnsplit], judge };

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let Some((waiting, confidence)) = waiting(cell, t) else {
        return Verdict::Abstain {
            missing: vec![Signal::JobIoPressure, Signal::NodeIoPressure, Signal::NodeCpuIowait],
        };
    };
    let Some(cpu) = CpuUse::of(cell) else {
        return Verdict::Abstain { missing: cpu::SIGNALS.to_vec() };
    };
    if waiting.value < waiting.threshold || cpu.ratio > t.storage_cpu_ratio {
        return Verdict::No;
    }
    // Time with at least one task waiting bounds the time for which the GPU waited for it.
    let facts = vec![waiting, cpu.fact(t.storage_cpu_ratio)];
    Verdict::Claim { max_share: waiting.value, confidence: confidence.min(cpu.confidence), facts }
}

/// Time spent waiting for I/O: of the job, else of its node, else what iowait tells.
fn waiting(cell: &Cell<'_>, t: &Thresholds) -> Option<(Fact, f64)> {
    let levels = [
        (Signal::JobIoPressure, t.io_waiting_ratio, COUNTED),
        (Signal::NodeIoPressure, t.io_waiting_ratio, NODE_WIDE),
        (Signal::NodeCpuIowait, t.iowait_cores, WEAK),
    ];
    levels.into_iter().find_map(|(signal, threshold, confidence)| {
        cell.mean(signal).map(|value| (Fact::of(signal, value, threshold), confidence))
    })
}
