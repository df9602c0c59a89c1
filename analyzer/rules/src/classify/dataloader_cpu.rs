//! `dataloader_cpu`: the job's workers use all the CPU they may, or each of them all that one process can, or the process
//! that holds the GPU prepares its batches itself, and the GPU waits for them.

use super::busy::busy;
use super::cpu::{self, CpuUse, Holders};
use super::server_clock::is_server;
use super::thresholds::confidence::{COUNTED, INFERRED, NODE_WIDE, WEAK};
use super::work::work;
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict, dataloader_storage, fed, feeding_unsplit, loaders};
use crate::signal::Signal;

pub(super) const RULE: Rule = Rule { class: Class::DataloaderCpu, explains: &[Class::FeedingUnsplit], judge };

/// One way to see it: the share of the cell that it explains, and how sure that is.
struct Seen {
    share: f64,
    confidence: f64,
    facts: Vec<Fact>,
}

/// A server's CPUs prepare no batches: see `serving_host`.
fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    if is_server(cell, t) {
        return Verdict::No;
    }
    let (usage, waiting) = (CpuUse::of(cell), waiting(cell, t));
    let is_counted = [Signal::JobSaturatedWorkers, Signal::JobHolderCpu].iter().any(|s| cell.mean(*s).is_some());
    if usage.is_none() && waiting.is_none() && !is_counted {
        let missing = cpu::SIGNALS.into_iter().chain([Signal::JobCpuPressure, Signal::NodeCpuPressure]).collect();
        return Verdict::Abstain { missing };
    }
    let seen = [short(cell, usage, waiting, t), saturated(cell, t), in_process(cell, t), costlier(cell, t)];
    let both = |a: Seen, b: Seen| Seen {
        share: a.share.max(b.share),
        confidence: a.confidence.max(b.confidence),
        facts: [a.facts, b.facts].concat(),
    };
    let Some(seen) = seen.into_iter().flatten().reduce(both) else { return Verdict::No };
    Verdict::Claim { max_share: seen.share, confidence: seen.confidence, facts: seen.facts }
}

/// The CPUs that the job may use are in use, or its tasks wait for them.
fn short(cell: &Cell<'_>, usage: Option<CpuUse>, waiting: Option<(Fact, f64)>, t: &Thresholds) -> Option<Seen> {
    let usage = usage.filter(|usage| usage.ratio >= t.cpu_busy_ratio && !is_one_thread(cell, t));
    let waiting = waiting.filter(|(fact, _)| fact.value >= fact.threshold);
    let confidence = match (usage, waiting) {
        (Some(usage), Some((_, of_whom))) if usage.confidence.min(of_whom) > NODE_WIDE => COUNTED,
        (Some(_), Some(_)) => NODE_WIDE,
        (Some(usage), None) => usage.confidence,
        (None, waiting) => waiting?.1,
    };
    let shares = usage.map(|usage| usage.ratio).into_iter().chain(waiting.map(|(fact, _)| fact.value));
    let facts = usage.map(|usage| usage.fact(t.cpu_busy_ratio)).into_iter().chain(waiting.map(|(fact, _)| fact));
    Some(Seen { share: shares.fold(0.0, f64::max), confidence, facts: facts.collect() })
}

/// Is it no more than one thread that computes, and nothing that shows it to be a loader? A notebook that may use one CPU
/// uses all of it.
fn is_one_thread(cell: &Cell<'_>, t: &Thresholds) -> bool {
    let is_little = cell.mean(Signal::JobCpuUsage).is_some_and(|used| used < 2.0 * t.computing_cores);
    let has_workers = cell.mean(Signal::JobWorkers).is_some_and(|workers| workers >= t.surely_workers);
    is_little && !has_workers && loads(cell, t).is_none()
}

/// That the job reads and its GPU has work meanwhile, as with a loader.
fn loads(cell: &Cell<'_>, t: &Thresholds) -> Option<Fact> {
    let works = work(cell, t).is_some_and(|work| work.ratio.max(work.spun) >= t.sustained_busy_ratio);
    fed::reads(cell, t).filter(|_| works)
}

/// Workers that compute nearly all of the time: one process has no more than a CPU, however many are free. A loader's
/// workers give the GPU a batch now and then; a child of a notebook computes for itself.
fn saturated(cell: &Cell<'_>, t: &Thresholds) -> Option<Seen> {
    let workers = cell.mean(Signal::JobSaturatedWorkers).filter(|workers| *workers >= t.saturated_workers)?;
    if work(cell, t)?.ratio < t.sustained_busy_ratio && workers < t.surely_workers {
        return None;
    }
    let facts = vec![Fact::of(Signal::JobSaturatedWorkers, workers, t.saturated_workers)];
    // Workers that compute all the time bound nothing below that, but for what others of them may wait for reads.
    let io = cell.mean(Signal::JobIoPressure).filter(|waiting| *waiting >= t.io_waiting_ratio);
    let computing = io.and_then(|_| loaders::computing_share(cell, loaders::cores(cell, t)?));
    let share = computing.map_or(1.0, |computing| computing * loaders::late_share(cell, t));
    Some(Seen { share, confidence: INFERRED, facts })
}

/// The processes that hold the job's GPUs do nearly all of its computing, and go on with it while these have nothing to do,
/// as one does that prepares its batches itself. One that waits for its GPU computes too, for CUDA spins; but not while
/// the GPU is idle. One thread that computes may be a notebook's, or a server's that asks for requests without a pause:
/// a loader reads, and its GPU works on and off.
fn in_process(cell: &Cell<'_>, t: &Thresholds) -> Option<Seen> {
    let (holders, busy) = (Holders::of(cell)?, busy(cell, t)?);
    let working = busy.ratio.max(busy.spun);
    let share = (holders.cores - working).min(1.0 - working);
    let computes = holders.facts(t.computing_cores, t).filter(|_| share > 0.0)?;
    if waits_for_reads(cell, t) {
        return None;
    }
    let facts = computes.into_iter().chain([loads(cell, t)?]).collect();
    Some(Seen { share, confidence: WEAK, facts })
}

/// Batches take far more CPU time than they do in other minutes of the job, though no CPU is short: there are too few
/// workers for that. All of its GPUs wait for them alike, and few tasks other than those that compute can wait for
/// reads.
///
/// What the job computes outside its loaders makes a batch look dearer the less the GPUs work; but then no more CPUs
/// are in use.
fn costlier(cell: &Cell<'_>, t: &Thresholds) -> Option<Seen> {
    work(cell, t).filter(|work| work.ratio >= t.sustained_busy_ratio)?;
    let (cores, per_work) = (loaders::cores(cell, t)?, loaders::cores_per_work(cell, t)?);
    let computing = loaders::computing_share(cell, cores)?;
    let is_late = cores >= t.computing_cores && computing >= t.cpu_busy_ratio;
    if !is_late
        || !feeding_unsplit::works_on_and_off(cell, t)
        || !loaders::are_told(cell, t)
        || waits_for_reads(cell, t)
    {
        return None;
    }
    let usual = cheapest(cell, cores, per_work, t)?;
    if is_behind(cell, t) || !loaders::reads_as_usual(cell, t) {
        return None;
    }
    let is_job = cell.mean(Signal::JobCpuUsage).is_some() && cell.mean(Signal::JobIoPressure).is_some();
    let signal = "loaders' cores / busy";
    let facts = vec![
        Fact { signal, unit: "cores", value: per_work, threshold: usual * t.like_batch_ratio },
        Fact {
            signal: "tasks that compute / those that compute or may wait",
            unit: "ratio",
            value: computing,
            threshold: t.cpu_busy_ratio,
        },
    ];
    let share = loaders::late_share(cell, t) * computing;
    Some(Seen { share, confidence: if is_job { INFERRED } else { NODE_WIDE }, facts })
}

/// The CPU time for each second of work that a tenth of the cells around do with, of those in which no more CPUs were used;
/// only where this cell's is as far above that as batches may be apart.
fn cheapest(cell: &Cell<'_>, cores: f64, per_work: f64, t: &Thresholds) -> Option<f64> {
    let with = |cell: Cell<'_>| Some((loaders::cores(&cell, t)?, loaders::cores_per_work(&cell, t)?));
    let all = || loaders::at_work_around(cell, t).filter_map(with);
    let is_cheaper = |other: f64| per_work >= other * t.like_batch_ratio;
    let (mut count, mut cheaper) = (0, Vec::new());
    for (used, other) in all() {
        count += 1;
        cheaper.extend(Some(other).filter(|other| used <= cores && is_cheaper(*other)));
    }
    // Those that are left out are dearer than these: the one that is asked for is among these, or it is none.
    cheaper.sort_by(f64::total_cmp);
    let tenth = (count / 10).max(t.deep_cells as usize);
    cheaper.get(tenth.saturating_sub(1)).copied()
}

/// Does another GPU of the owner on the node work more? Then what all loaders use says nothing of this one's.
fn is_behind(cell: &Cell<'_>, t: &Thresholds) -> bool {
    let ratio = |cell: &Cell<'_>| work(cell, t).map(|work| work.ratio);
    let Some(own) = ratio(cell) else { return true };
    let others = cell.node.gpus.iter().map(|gpu| Cell { gpu, ..*cell }).filter(Cell::is_held_by_owner);
    others.filter_map(|other| ratio(&other)).any(|other| other >= own + t.straggler_ratio)
}

fn waits_for_reads(cell: &Cell<'_>, t: &Thresholds) -> bool {
    matches!((dataloader_storage::RULE.judge)(cell, t), Verdict::Claim { .. })
}

/// Time with a task waiting for a CPU: of the job, where neighbours that take its CPUs look the same; else of its node, if
/// nothing tells what CPU the job uses, and its tasks do not wait for reads either.
fn waiting(cell: &Cell<'_>, t: &Thresholds) -> Option<(Fact, f64)> {
    let read = |signal| Some(Fact::of(signal, cell.mean(signal)?, t.cpu_waiting_ratio));
    if let Some(of_job) = read(Signal::JobCpuPressure) {
        let waking = cpu::waking(cell, t);
        let signal = if waking > 0.0 { "job_cpu_pressure - waking" } else { of_job.signal };
        return Some((Fact { signal, value: (of_job.value - waking).max(0.0), ..of_job }, INFERRED));
    }
    let is_job_told = cell.mean(Signal::JobCpuUsage).is_some();
    read(Signal::NodeCpuPressure).filter(|_| !is_job_told && !waits_for_reads(cell, t)).map(|fact| (fact, NODE_WIDE))
}
