//! `dataloader_cpu`: the job's workers use all the CPU they may, and the GPU waits for them.

use super::cpu::{self, CpuUse};
use super::thresholds::confidence::{COUNTED, INFERRED};
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const RULE: Rule = Rule { class: Class::DataloaderCpu, explains: &[], judge };

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let (usage, waiting) = (CpuUse::of(cell), cell.mean(Signal::JobCpuPressure));
    if usage.is_none() && waiting.is_none() {
        let missing = cpu::SIGNALS.into_iter().chain([Signal::JobCpuPressure]).collect();
        return Verdict::Abstain { missing };
    }
    let at_its_limit = usage.filter(|u| u.ratio >= t.cpu_busy_ratio);
    let waiting = waiting.filter(|w| *w >= t.cpu_waiting_ratio);
    let explained = [at_its_limit.map(|u| u.ratio), waiting];
    let Some(max_share) = explained.into_iter().flatten().reduce(f64::max) else { return Verdict::No };
    let confidence = match (at_its_limit, waiting) {
        (Some(_), Some(_)) => COUNTED,
        (Some(usage), None) => usage.confidence,
        // Neighbours that take the CPUs look the same.
        (None, _) => INFERRED,
    };
    let facts = at_its_limit.map(|u| u.fact(t.cpu_busy_ratio)).into_iter();
    let facts = facts.chain(waiting.map(|w| Fact::of(Signal::JobCpuPressure, w, t.cpu_waiting_ratio))).collect();
    Verdict::Claim { max_share, confidence, facts }
}
