//! `memory_pressure`: the job's tasks wait for memory: reclaim, swap, pages that come back right after they were dropped.

use super::thresholds::confidence::{COUNTED, INFERRED, NODE_WIDE};
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict, cpu};
use crate::signal::Signal;

/// Bytes of a page, which no series tells: 4 KiB, or more on some ARM kernels, where this finds fewer reads to be refaults.
const SMALLEST_PAGE: f64 = 4096.0;

pub(super) const RULE: Rule = Rule {
    class: Class::MemoryPressure,
    explains: &[Class::DataloaderStorage, Class::FeedingUnsplit, Class::ServingHost],
    judge,
};

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let of_job = cell.mean(Signal::JobMemoryPressure).map(|w| (Signal::JobMemoryPressure, w));
    let waiting = of_job.or_else(|| cell.mean(Signal::NodeMemoryPressure).map(|w| (Signal::NodeMemoryPressure, w)));
    let Some((signal, waiting)) = waiting else {
        return Verdict::without(&[Signal::JobMemoryPressure, Signal::NodeMemoryPressure]);
    };
    let thrashing = thrashing(cell, t).filter(|thrashing| thrashing.share > waiting);
    if let Some(Thrashing { share, facts }) = thrashing {
        return Verdict::Claim { max_share: share, confidence: INFERRED, facts };
    }
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

/// Waiting for reads of what the job's own limit had dropped.
struct Thrashing {
    /// Of the cell.
    share: f64,
    facts: Vec<Fact>,
}

/// PSI counts the wait for a page that comes back as one for memory only where the page was among the active ones when it
/// was dropped (Documentation/accounting/psi.rst, mm/workingset.c). Data that is read by chance, and is larger than the
/// limit, is dropped before that: its pages are waited for as I/O alone. They are known by a group at its limit whose
/// refaults make up its reads.
fn thrashing(cell: &Cell<'_>, t: &Thresholds) -> Option<Thrashing> {
    let (pressure, refaults) = (cell.mean(Signal::JobIoPressure)?, cell.mean(Signal::JobRefaults)?);
    // As many as there were: io.stat has no line of a disk before the group's first read of it (cgroup-v2.rst).
    let many = |signal| cell.read(signal).map(|reading| reading.mean * reading.covered_ms as f64);
    let of_reads = many(Signal::JobRefaults)? * SMALLEST_PAGE / many(Signal::JobRead).filter(|read| *read > 0.0)?;
    // A limit may change within the cell, as when a pod is resized in place: a mean of two is the limit at no time.
    let limit = cell.read(Signal::JobMemoryMax).map(|max| max.min).filter(|min| *min > 0.0)?;
    let used = cell.read(Signal::JobMemoryCurrent)?.max / limit;
    let of_reads = of_reads.min(1.0);
    // A page that is there wakes who waited for it: until that task runs, it waits for a CPU.
    let woken = cell.mean(Signal::JobCpuPressure).map_or(0.0, |waiting| waiting.min(cpu::waking(cell, t)));
    let share = pressure * of_reads;
    if refaults < t.refault_pages || used < t.memory_limit_ratio || share < t.memory_waiting_ratio {
        return None;
    }
    let ratio = |signal, value, threshold| Fact { signal, unit: "ratio", value, threshold };
    let facts = vec![
        Fact::of(Signal::JobIoPressure, pressure, t.memory_waiting_ratio),
        Fact::of(Signal::JobRefaults, refaults, t.refault_pages),
        Fact { signal: "job_cpu_pressure of who is woken", ..Fact::of(Signal::JobCpuPressure, woken, 0.0) },
        ratio("4096 * job_refaults / job_read", of_reads, 0.0),
        ratio("max job_memory_current / min job_memory_max", used, t.memory_limit_ratio),
    ];
    Some(Thrashing { share: (share + woken).min(1.0), facts })
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
