//! `dataloader_cpu`: the job's workers use all the CPU they may, or each of them all that one process can, and the GPU
//! waits for them.

use super::cpu::{self, CpuUse};
use super::thresholds::confidence::{COUNTED, INFERRED, NODE_WIDE};
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict, dataloader_storage};
use crate::signal::Signal;

pub(super) const VERSION: u32 = 2;

pub(super) const RULE: Rule = Rule { class: Class::DataloaderCpu, explains: &[Class::FeedingUnsplit], judge };

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let (usage, waiting) = (CpuUse::of(cell), waiting(cell, t));
    if usage.is_none() && waiting.is_none() && cell.mean(Signal::JobSaturatedWorkers).is_none() {
        let missing = cpu::SIGNALS.into_iter().chain([Signal::JobCpuPressure, Signal::NodeCpuPressure]).collect();
        return Verdict::Abstain { missing };
    }
    let at_its_limit = usage.filter(|u| u.ratio >= t.cpu_busy_ratio);
    let waiting = waiting.filter(|(fact, _)| fact.value >= fact.threshold);
    let saturated = saturated(cell, t);
    // Workers that compute all the time bound nothing below that.
    let explained = [at_its_limit.map(|u| u.ratio), waiting.map(|(fact, _)| fact.value), saturated.map(|_| 1.0)];
    let Some(max_share) = explained.into_iter().flatten().reduce(f64::max) else { return Verdict::No };
    let confidence = match (at_its_limit, waiting) {
        (Some(usage), Some((_, of_whom))) => {
            if usage.confidence.min(of_whom) > NODE_WIDE {
                COUNTED
            } else {
                NODE_WIDE
            }
        }
        (Some(usage), None) => usage.confidence,
        (None, waiting) => waiting.map_or(NODE_WIDE, |(_, of_whom)| of_whom),
    };
    let confidence = saturated.map_or(confidence, |_| confidence.max(INFERRED));
    let facts = at_its_limit.map(|u| u.fact(t.cpu_busy_ratio)).into_iter();
    let facts = facts.chain(waiting.map(|(fact, _)| fact)).chain(saturated).collect();
    Verdict::Claim { max_share, confidence, facts }
}

/// Workers that compute nearly all of the time: one process has no more than a CPU, however many are free.
fn saturated(cell: &Cell<'_>, t: &Thresholds) -> Option<Fact> {
    let workers = cell.mean(Signal::JobSaturatedWorkers).filter(|workers| *workers >= t.saturated_workers)?;
    Some(Fact::of(Signal::JobSaturatedWorkers, workers, t.saturated_workers))
}

/// Time with a task waiting for a CPU: of the job, where neighbours that take its CPUs look the same; else of its node, if
/// nothing tells what CPU the job uses, and its tasks do not wait for reads either.
fn waiting(cell: &Cell<'_>, t: &Thresholds) -> Option<(Fact, f64)> {
    let read = |signal| Some(Fact::of(signal, cell.mean(signal)?, t.cpu_waiting_ratio));
    if let Some(of_job) = read(Signal::JobCpuPressure) {
        return Some((of_job, INFERRED));
    }
    let is_job_told = cell.mean(Signal::JobCpuUsage).is_some();
    let waits_for_reads = || matches!((dataloader_storage::RULE.judge)(cell, t), Verdict::Claim { .. });
    read(Signal::NodeCpuPressure).filter(|_| !is_job_told && !waits_for_reads()).map(|fact| (fact, NODE_WIDE))
}
