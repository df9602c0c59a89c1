//! `dataloader_storage`: the job's workers wait for reads instead of computing, and the GPU waits for them.
//!
//! That some task waits for I/O proves no late read: of 24 workers that each read for a tenth of their time, one waits
//! nearly always. So the rule asks whether the workers wait for more of their time than they compute.

use super::cpu::{self, CpuUse};
use super::depth::HeldGpus;
use super::thresholds::confidence::{COUNTED, NODE_WIDE, WEAK};
use super::work::work;
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict, fed};
use crate::median::median;
use crate::signal::Signal;

pub(super) const VERSION: u32 = 2;

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
    let cores = loader_cores(cell, t)?;
    let all = per_worker(cell, some, cores, t)
        .or_else(|| waiting_tasks(cell, some, cores, t))
        .or_else(|| same_cpu_per_work(cell, cores, t));
    all.map(|fact| (fact, some)).or_else(|| stalled(cell, t).map(|fact| (fact, fact.value)))
}

/// No task ran while some waited (PSI full): of the job, else of its node.
fn stalled(cell: &Cell<'_>, t: &Thresholds) -> Option<Fact> {
    let told = [Signal::JobIoStalled, Signal::NodeIoStalled];
    let (signal, value) = told.into_iter().find_map(|signal| Some((signal, cell.mean(signal)?)))?;
    (value >= t.io_waiting_ratio).then(|| Fact::of(signal, value, t.io_waiting_ratio))
}

/// Each of the workers waits for more of its time than it computes. Where they wait independently of each other, the time
/// in which none waits is that of one to the power of their number.
fn per_worker(cell: &Cell<'_>, some: f64, cores: f64, t: &Thresholds) -> Option<Fact> {
    let workers = cell.mean(Signal::JobWorkers).filter(|workers| *workers >= 1.0)?;
    let waits = 1.0 - (1.0 - some.clamp(0.0, 1.0)).powf(1.0 / workers);
    let value = waits / (waits + cores / workers);
    let fact = Fact { signal: "waiting per worker / its time", unit: "ratio", value, threshold: t.waiting_share_ratio };
    (waits >= t.io_waiting_ratio && value >= t.waiting_share_ratio).then_some(fact)
}

/// As many tasks wait as compute. Processes in uninterruptible sleep are counted at each scrape; at least one waits while the pressure says so. iowait counts one for each CPU, and none
/// for a CPU that has other work; of tasks of others it counts no more than what falls into that time.
fn waiting_tasks(cell: &Cell<'_>, some: f64, cores: f64, t: &Thresholds) -> Option<Fact> {
    let iowait = cell.mean(Signal::NodeCpuIowait).filter(|_| is_alone(cell)).unwrap_or(0.0);
    let asleep = cell.mean(Signal::JobUninterruptible).unwrap_or(0.0);
    let waiting = some.max(iowait * some.min(1.0)).max(asleep);
    // Of a node it is not known what the threads use that launch kernels: no more than one for each GPU does.
    let is_node = cell.mean(Signal::JobCpuUsage).is_none() && some >= t.waiting_share_ratio;
    let threads = || f64::from(HeldGpus::around(cell).by_anyone) - working_gpus(cell, t);
    let cores = if is_node { (cores - threads()).max(0.0) } else { cores };
    let value = waiting / (waiting + cores);
    let signal = "tasks that wait / those that wait or compute";
    (value >= t.waiting_share_ratio).then_some(Fact { signal, unit: "ratio", value, threshold: t.waiting_share_ratio })
}

/// The job reads, and a batch takes no more of the CPU than in the minutes in which the GPU worked more: preparation is not
/// what became longer.
fn same_cpu_per_work(cell: &Cell<'_>, cores: f64, t: &Thresholds) -> Option<Fact> {
    fed::reads(cell, t).or_else(|| fed::node_reads(cell, t))?;
    let pressure = cell.mean(Signal::JobCpuPressure).or_else(|| cell.mean(Signal::NodeCpuPressure));
    if pressure.is_some_and(|waiting| waiting >= t.cpu_waiting_ratio) {
        return None;
    }
    let busy = |cell: &Cell<'_>| work(cell, t).map(|work| work.ratio);
    let here = busy(cell).filter(|busy| *busy >= t.sustained_busy_ratio)?;
    let around = cell.node.around(cell.index, t.derate_around_seconds).map(|index| Cell { index, ..*cell });
    let fed = around.filter(Cell::is_held_by_owner).filter_map(|cell| {
        let busy = busy(&cell).filter(|busy| *busy >= here + t.straggler_ratio)?;
        Some(loader_cores(&cell, t)? / busy)
    });
    let fed: Vec<f64> = fed.collect();
    if (fed.len() as f64) < t.deep_cells {
        return None;
    }
    let threshold = median(fed)? * t.like_batch_ratio;
    let fact = Fact { signal: "loaders' cores / busy", unit: "cores", value: cores / here, threshold };
    (fact.value <= threshold).then_some(fact)
}

/// Are all GPUs of the node that are held the owner's?
fn is_alone(cell: &Cell<'_>) -> bool {
    let HeldGpus { by_anyone, by_owner } = HeldGpus::around(cell);
    by_anyone == by_owner
}

/// CPUs that the job's loaders use, in the cell: what it uses beyond threads that spin while their GPU works.
fn loader_cores(cell: &Cell<'_>, t: &Thresholds) -> Option<f64> {
    let of_node = || Some((cell.mean(Signal::NodeCpuBusy)? - cell.node.background_cores).max(0.0));
    let working = working_gpus(cell, t);
    let spinning = cell.mean(Signal::JobHolderCpu).map_or(working, |holders| holders.min(working));
    Some((cell.mean(Signal::JobCpuUsage).or_else(of_node)? - spinning).max(0.0))
}

/// GPUs that work, in the mean of the cell: of the owner where its CPU use is told, else of the node.
fn working_gpus(cell: &Cell<'_>, t: &Thresholds) -> f64 {
    let is_told = cell.mean(Signal::JobCpuUsage).is_some();
    let gpus = cell.node.gpus.iter().map(|gpu| Cell { gpu, ..*cell });
    let held = gpus.filter(|gpu| if is_told { gpu.is_held_by_owner() } else { !gpu.gpu.owners[cell.index].is_empty() });
    held.filter_map(|gpu| work(&gpu, t)).map(|work| work.ratio.max(work.spun)).sum()
}
