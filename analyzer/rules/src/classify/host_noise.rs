//! `host_noise`: others take the CPUs that the job may use: neighbours on the node, or other guests of its hypervisor.

use super::cpu::{self, CpuUse};
use super::thresholds::confidence::{INFERRED, NODE_WIDE};
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const RULE: Rule = Rule {
    class: Class::HostNoise,
    explains: &[Class::DataloaderCpu, Class::FeedingUnsplit, Class::ServingHost],
    judge,
};

/// What was taken from the job, as a share of the cell.
struct Taken {
    share: f64,
    confidence: f64,
    facts: Vec<Fact>,
}

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let (stolen, crowded) = (stolen(cell, t), crowded(cell, t));
    if let (Err(a), Err(b)) = (&stolen, &crowded) {
        return Verdict::without(&[a.as_slice(), b].concat());
    }
    let taken = [stolen, crowded].into_iter().filter_map(|t| t.ok().flatten());
    let Some(most) = taken.reduce(|a, b| if b.share > a.share { b } else { a }) else { return Verdict::No };
    Verdict::Claim { max_share: most.share, confidence: most.confidence, facts: most.facts }
}

/// By the hypervisor: of the time in which a CPU had something to run, the share in which it could not. A job that runs
/// little loses little by that: per second of its own CPU time, what was stolen per second of the node's.
fn stolen(cell: &Cell<'_>, t: &Thresholds) -> Result<Option<Taken>, Vec<Signal>> {
    let signals = [Signal::NodeCpuSteal, Signal::NodeCpuBusy];
    let [Some(steal), Some(busy)] = signals.map(|s| cell.mean(s)) else { return Err(signals.to_vec()) };
    let share = if steal > 0.0 { steal / (steal + busy) } else { 0.0 };
    let name = "node_cpu_steal / (node_cpu_steal + node_cpu_busy)";
    let fact = Fact { signal: name, unit: "ratio", value: share, threshold: t.steal_ratio };
    let used = cell.mean(Signal::JobCpuUsage).filter(|used| used * steal < share * busy);
    let share_of_job = used.map_or(share, |used| used * steal / busy);
    let facts = [Some(fact), used.map(|used| Fact::of(Signal::JobCpuUsage, used, 0.0))].into_iter().flatten().collect();
    Ok((share >= t.steal_ratio).then_some(Taken { share: share_of_job, confidence: NODE_WIDE, facts }))
}

/// By neighbours: the job's tasks wait for a CPU, and neither its quota nor its own use of its CPUs is the reason.
fn crowded(cell: &Cell<'_>, t: &Thresholds) -> Result<Option<Taken>, Vec<Signal>> {
    let signals = [Signal::JobCpuPressure, Signal::JobCpuThrottled, Signal::JobCpuUsage, Signal::NodeCpuBusy];
    let [Some(pressure), Some(throttled), Some(used), Some(busy)] = signals.map(|s| cell.mean(s)) else {
        return Err(signals.to_vec());
    };
    let Some(own) = CpuUse::of(cell) else { return Err(cpu::SIGNALS.to_vec()) };
    // PSI counts throttled tasks as waiting, and those that are being woken.
    let waking = cpu::waking(cell, t);
    let waiting = (pressure - throttled - waking).max(0.0);
    let others = busy - used;
    // To keep a task waiting, others must run meanwhile, on one CPU at least.
    if waiting < t.cpu_waiting_ratio || own.ratio >= t.cpu_busy_ratio || others < waiting {
        return Ok(None);
    }
    let unit = Signal::JobCpuPressure.unit();
    let signal = if waking > 0.0 {
        "job_cpu_pressure - job_cpu_throttled - waking"
    } else {
        "job_cpu_pressure - job_cpu_throttled"
    };
    let waits = Fact { signal, unit, value: waiting, threshold: t.cpu_waiting_ratio };
    let unit = Signal::NodeCpuBusy.unit();
    let run = Fact { signal: "node_cpu_busy - job_cpu_usage", unit, value: others, threshold: waiting };
    Ok(Some(Taken { share: waiting, confidence: INFERRED, facts: vec![waits, run, own.fact(t.cpu_busy_ratio)] }))
}
