//! `irq_placement`: interrupts of devices are served on the CPUs of the job's loaders, and take them from these.

use super::thresholds::confidence::INFERRED;
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict, cpu};
use crate::signal::Signal;

pub(super) const RULE: Rule = Rule {
    class: Class::IrqPlacement,
    explains: &[Class::HostNoise, Class::DataloaderCpu, Class::FeedingUnsplit, Class::ServingHost],
    judge,
};

/// What it takes to tell, besides the node's time in interrupts.
const SIGNALS: [Signal; 5] = [
    Signal::JobInterrupts,
    Signal::NodeInterrupts,
    Signal::NodeBusiestSoftirq,
    Signal::JobCpuPressure,
    Signal::JobCpuThrottled,
];

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let serving: f64 = cell.by_numa_node(Signal::NodeIrqTime).map(|(_, cores)| cores).sum();
    let is_told = cell.by_numa_node(Signal::NodeIrqTime).next().is_some();
    let [Some(here), Some(all), Some(busiest), Some(pressure), Some(throttled)] = SIGNALS.map(|s| cell.mean(s)) else {
        return Verdict::without(&SIGNALS);
    };
    if !is_told {
        return Verdict::without(&[Signal::NodeIrqTime]);
    }
    let (Some(allowed), Some(cores)) = (cell.mean(Signal::JobAllowedCpus), cpu::node_cores(cell)) else {
        return Verdict::without(&[&[Signal::JobAllowedCpus][..], &cpu::MODES].concat());
    };
    // A job that may use every CPU leaves none to move interrupts to. Modes sum to whole CPUs as near as scrapes tell.
    if allowed > cores - 0.5 {
        return Verdict::No;
    }
    // Time by interrupt is nowhere kept: that of all is given out by their number.
    let taken = if all > 0.0 { serving * (here / all).min(1.0) } else { 0.0 };
    // PSI counts throttled tasks as waiting.
    let waiting = (pressure - throttled).max(0.0);
    let facts = vec![
        Fact {
            signal: "node_irq_time * job_interrupts / node_interrupts",
            unit: "cores",
            value: taken,
            threshold: t.irq_cpu_ratio,
        },
        Fact::of(Signal::NodeBusiestSoftirq, busiest, t.irq_cpu_ratio),
        Fact {
            signal: "job_cpu_pressure - job_cpu_throttled",
            unit: Signal::JobCpuPressure.unit(),
            value: waiting,
            threshold: t.cpu_waiting_ratio,
        },
    ];
    if facts.iter().any(|fact| fact.value < fact.threshold) {
        return Verdict::No;
    }
    // What interrupts took is the most that the job can have waited for.
    Verdict::Claim { max_share: taken.min(waiting), confidence: INFERRED, facts }
}
