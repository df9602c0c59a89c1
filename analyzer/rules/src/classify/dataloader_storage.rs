//! `dataloader_storage`: the job's workers wait for reads instead of computing, and the GPU waits for them.
//!
//! That some task waits for I/O proves no late read: of 24 workers that each read for a tenth of their time, one waits
//! nearly always. So the rule asks whether the workers wait for more of their time than they compute.

use super::cpu::{self, CpuUse};
use super::depth::HeldGpus;
use super::server_clock::is_server;
use super::thresholds::confidence::{COUNTED, INFERRED, NODE_WIDE, WEAK};
use super::work::work;
use super::writing::writing;
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict, fed, loaders, storage};
use crate::median::median;
use crate::signal::Signal;

pub(super) const RULE: Rule = Rule { class: Class::DataloaderStorage, explains: &[Class::FeedingUnsplit], judge };

/// Loaders from which one nearly always waits.
const FEW: f64 = 3.0;

/// Evidence of waiting for lookups.
const LOOKUPS: &str = "lookups in flight on network file systems";
/// Evidence of waiting for a server.
const SENT_AGAIN: &str = "requests to network file systems that were sent again";

/// What a node reads and writes is no server's doing, and a server waits for requests.
fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    if is_server(cell, t) {
        return Verdict::No;
    }
    match for_reads(cell, t) {
        claim @ Verdict::Claim { .. } => claim,
        other => for_lookups(cell, t).or_else(|| for_answers(cell, t)).unwrap_or(other),
    }
}

/// A server of a network file system did not answer, and tasks of the job slept meanwhile. Each request that was sent again
/// explains no more than the time-out after which it was.
fn for_answers(cell: &Cell<'_>, t: &Thresholds) -> Option<Verdict> {
    let unanswered = storage::unanswered(cell)?;
    let asleep = cell.mean(Signal::JobUninterruptible).filter(|asleep| *asleep >= t.io_waiting_ratio)?;
    let idle = 1.0 - work(cell, t)?.ratio;
    let max_share = idle.min(unanswered.waited_seconds / cell.seconds());
    if idle < t.io_waiting_ratio || writes(cell, t) {
        return None;
    }
    let facts = vec![
        Fact { signal: SENT_AGAIN, unit: "requests", value: unanswered.count, threshold: 1.0 },
        Fact::of(Signal::JobUninterruptible, asleep, t.io_waiting_ratio),
    ];
    // What they sleep for may be something else.
    Some(Verdict::Claim { max_share, confidence: INFERRED, facts })
}

/// Is so much written that who waits for storage may wait for that?
fn writes(cell: &Cell<'_>, t: &Thresholds) -> bool {
    writing(cell).is_some_and(|writing| writing.reading.mean >= t.idle_written_bytes)
}

/// Tasks that wait for a lookup on NFS sleep without being counted as waiting for I/O (net/sunrpc: `rpc_wait_bit_killable`
/// does not call `io_schedule`), so that neither PSI nor iowait shows it. Whose they are is known by tasks of the job in
/// uninterruptible sleep, or where one owner has all GPUs of the node. One process that waits all the time has one
/// request in flight.
fn for_lookups(cell: &Cell<'_>, t: &Thresholds) -> Option<Verdict> {
    let (_, in_flight) = storage::looked_up(cell, t)?;
    let (cpu, asleep) = (CpuUse::of(cell)?, cell.mean(Signal::JobUninterruptible));
    let is_its = asleep.map_or_else(|| loaders::is_alone(cell), |asleep| asleep >= t.io_waiting_ratio);
    let is_idle = work(cell, t).is_some_and(|work| 1.0 - work.ratio >= t.io_waiting_ratio);
    // Who flushes what it wrote waits for requests that are neither reads nor writes too.
    if writes(cell, t) || cpu.ratio > t.storage_cpu_ratio || !is_its || !is_idle {
        return None;
    }
    let confidence = asleep.map_or(NODE_WIDE, |_| INFERRED).min(cpu.confidence);
    let lookups = Fact { signal: LOOKUPS, unit: "requests", value: in_flight, threshold: t.io_waiting_ratio };
    let asleep = asleep.map(|asleep| Fact::of(Signal::JobUninterruptible, asleep, t.io_waiting_ratio));
    let facts = [lookups, cpu.fact(t.storage_cpu_ratio)].into_iter().chain(asleep).collect();
    Some(Verdict::Claim { max_share: in_flight.min(1.0), confidence, facts })
}

fn for_reads(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let Some((waiting, confidence)) = waiting(cell, t) else {
        return Verdict::Abstain {
            missing: vec![Signal::JobIoPressure, Signal::NodeIoPressure, Signal::NodeCpuIowait],
        };
    };
    let Some(cpu) = CpuUse::of(cell) else { return Verdict::without(&cpu::SIGNALS) };
    if waiting.value < waiting.threshold || cpu.ratio > t.storage_cpu_ratio || writes_instead(cell, t) {
        return Verdict::No;
    }
    // Time with at least one task waiting bounds the time for which the GPU waited for it.
    let Some((late, max_share)) = late(cell, waiting.value, t) else { return Verdict::No };
    let facts = vec![waiting, cpu.fact(t.storage_cpu_ratio), late];
    Verdict::Claim { max_share, confidence: confidence.min(cpu.confidence), facts }
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

/// Who writes waits for I/O too. What the job does counts, else what its node does.
fn writes_instead(cell: &Cell<'_>, t: &Thresholds) -> bool {
    let read = |signals: [Signal; 2]| signals.into_iter().filter_map(|signal| cell.mean(signal)).reduce(f64::max);
    let of_job = read([Signal::JobWritten, Signal::JobStorageWritten]).zip(read(fed::READ));
    let of_node = || cell.mean(Signal::NodeDiskWritten).zip(cell.mean(Signal::NodeDiskRead));
    let Some((written, read)) = of_job.or_else(of_node) else { return false };
    written >= t.checkpoint_bytes && written >= t.writes_over_reads_ratio * read
}

/// What shows that reads are late and preparation is not, and for how much of the cell.
fn late(cell: &Cell<'_>, some: f64, t: &Thresholds) -> Option<(Fact, f64)> {
    let cores = loaders::cores(cell, t)?;
    let late = loaders::late_share(cell, t);
    if let Some(count) = loaders::count(cell).filter(|_| waits_for_batches(cell, t)) {
        // Of the time that a batch takes them, what they compute is not late for reads.
        let counted = do_not_compute(count, some, cores, t).map(|fact| (fact, some.min(fact.value * late)));
        return counted.or_else(|| stalled(cell, t).map(|fact| (fact, fact.value)));
    }
    let compared = || same_cpu_per_work(cell, cores, t).or_else(|| fewer_compute(cell, some, cores, t));
    let told = waiting_tasks(cell, some, cores, t).map(|fact| (fact, some));
    let told = told.or_else(|| compared().map(|fact| (fact, some.min(late))));
    told.or_else(|| stalled(cell, t).map(|fact| (fact, fact.value)))
}

/// No task ran while some waited (PSI full): of the job, else of its node.
fn stalled(cell: &Cell<'_>, t: &Thresholds) -> Option<Fact> {
    let told = [Signal::JobIoStalled, Signal::NodeIoStalled];
    let (signal, value) = told.into_iter().find_map(|signal| Some((signal, cell.mean(signal)?)))?;
    (value >= t.io_waiting_ratio).then(|| Fact::of(signal, value, t.io_waiting_ratio))
}

/// Has the GPU nothing to do for so much of the cell that the queue of batches is empty then, and no loader rests?
fn waits_for_batches(cell: &Cell<'_>, t: &Thresholds) -> bool {
    work(cell, t).is_some_and(|work| work.ratio >= t.sustained_busy_ratio)
        && loaders::late_share(cell, t) >= t.io_waiting_ratio
}

/// No loader rests while the GPU waits for a batch, so those that do not compute wait. Then one of them
/// nearly always does: of N independent ones that each wait for half of their time one at least does for all but 0.5^N of
/// it. More than a few are not asked for more, for moments in which all have what they need at once come from the job's step.
fn do_not_compute(count: f64, some: f64, cores: f64, t: &Thresholds) -> Option<Fact> {
    let least = 1.0 - (1.0 - t.waiting_share_ratio).powf(count.min(FEW));
    let value = (count - cores) / count;
    let signal = "loaders that do not compute / all";
    (some >= least && value >= t.waiting_share_ratio).then_some(Fact {
        signal,
        unit: "ratio",
        value,
        threshold: t.waiting_share_ratio,
    })
}

/// As many tasks wait as compute. Processes in uninterruptible sleep are counted at each scrape; at least one waits while the pressure says so. iowait counts one for each CPU, and none
/// for a CPU that has other work; of tasks of others it counts no more than what falls into that time.
fn waiting_tasks(cell: &Cell<'_>, some: f64, cores: f64, t: &Thresholds) -> Option<Fact> {
    let iowait = cell.mean(Signal::NodeCpuIowait).filter(|_| loaders::is_alone(cell)).unwrap_or(0.0);
    let asleep = cell.mean(Signal::JobUninterruptible).unwrap_or(0.0);
    let waiting = some.max(iowait * some.min(1.0)).max(asleep);
    // Of a node it is not known what the threads use that launch kernels: no more than one for each GPU does.
    let is_node = cell.mean(Signal::JobCpuUsage).is_none() && some >= t.waiting_share_ratio;
    let threads = || f64::from(HeldGpus::around(cell).by_anyone) - loaders::working_gpus(cell, t);
    let cores = if is_node { (cores - threads()).max(0.0) } else { cores };
    let value = waiting / (waiting + cores);
    let signal = "tasks that wait / those that wait or compute";
    (value >= t.waiting_share_ratio).then_some(Fact { signal, unit: "ratio", value, threshold: t.waiting_share_ratio })
}

/// The job reads, and a batch takes no more of the CPU than in the minutes in which the GPU worked more: preparation is not
/// what became longer.
fn same_cpu_per_work(cell: &Cell<'_>, cores: f64, t: &Thresholds) -> Option<Fact> {
    fed::reads(cell, t).or_else(|| fed::node_reads(cell, t))?;
    if wait_for_cpus(cell, t) {
        return None;
    }
    let busy = |cell: &Cell<'_>| work(cell, t).map(|work| work.ratio);
    let here = busy(cell).filter(|busy| *busy >= t.sustained_busy_ratio)?;
    let around = cell.node.around(cell.index, t.derate_around_seconds).map(|index| Cell { index, ..*cell });
    let fed = around.filter(Cell::is_held_by_owner).filter_map(|cell| {
        let busy = busy(&cell).filter(|busy| *busy >= here + t.straggler_ratio)?;
        Some(loaders::cores(&cell, t)? / busy)
    });
    let fed: Vec<f64> = fed.collect();
    if (fed.len() as f64) < t.deep_cells {
        return None;
    }
    let threshold = median(fed)? * t.like_batch_ratio;
    let fact = Fact { signal: "loaders' cores / busy", unit: "cores", value: cores / here, threshold };
    (fact.value <= threshold).then_some(fact)
}

/// Loaders that computed in other minutes are there in this one too, if not all of them.
fn fewer_compute(cell: &Cell<'_>, some: f64, cores: f64, t: &Thresholds) -> Option<Fact> {
    let is_told = loaders::are_told(cell, t) && waits_for_batches(cell, t) && !wait_for_cpus(cell, t);
    let least = loaders::at_least(cell, t).filter(|least| is_told && *least >= 1.0)?;
    do_not_compute(least, some, cores, t)
}

fn wait_for_cpus(cell: &Cell<'_>, t: &Thresholds) -> bool {
    let pressure = cell.mean(Signal::JobCpuPressure).or_else(|| cell.mean(Signal::NodeCpuPressure));
    pressure.is_some_and(|waiting| waiting >= t.cpu_waiting_ratio)
}
