//! `collective_wait`: kernels run and draw no power, on several GPUs at once: they spin until the other ranks are there.
//!
//! A GPU in such a kernel does not wait for its own input, whatever its loaders do: what they are late for is on the row
//! of the GPU that the others wait for.
//!
//! Where a whole cell spins it is not work at all, and the rule explains it. Where a cell mixes work and spinning, the
//! share that spun is taken from the busy time.

use super::busy::{Busy, busy};
use super::depth::{self, Lost, shallow};
use super::derate::Derate;
use super::exchange::{keep_own_rhythms, works_alone};
use super::server_clock::is_server;
use super::thresholds::confidence::{INFERRED, NODE_WIDE};
use super::work::work;
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict, late_rank, swing};
use crate::signal::Signal;

pub(super) const RULE: Rule = Rule {
    class: Class::CollectiveWait,
    explains: &[
        Class::CpuThrottled,
        Class::CrossNuma,
        Class::IrqPlacement,
        Class::HostNoise,
        Class::ThpCompaction,
        Class::MemoryPressure,
        Class::Checkpoint,
        Class::DataloaderStorage,
        Class::DataloaderCpu,
        Class::FeedingUnsplit,
    ],
    judge,
};

/// The part of busy cells in which kernels spun.
pub(super) const DERATE: Derate = Derate { class: Class::CollectiveWait, judge: judge_busy };

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let Some(Busy { spun, facts, .. }) = busy(cell, t).filter(|busy| busy.spun > 0.0) else { return Verdict::No };
    if cell.owner.is_none() {
        return Verdict::without(&[Signal::GpuOwner]);
    }
    if works_alone(cell, t) {
        return Verdict::No;
    }
    let others = others(cell);
    let all = others.len() + cell.elsewhere().held;
    if all == 0 {
        // It may spin for itself.
        return Verdict::No;
    }
    let spinning = others.iter().filter(|cell| work(cell, t).is_some_and(|work| work.spun > 0.0)).count();
    let told =
        [count("GPUs of the owner on the node that spin", spinning + 1, 1.0), count("GPUs of the owner", all + 1, 2.0)];
    Verdict::Claim { max_share: spun, confidence: INFERRED, facts: facts.into_iter().chain(told).collect() }
}

fn judge_busy(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    if cell.owner.is_none() {
        return Verdict::without(&[Signal::GpuOwner]);
    }
    let others = others(cell);
    let late = late_rank::lost(cell, &others, t);
    if is_server(cell, t) {
        // How deep its GPUs work depends on how many requests it has: the past is no measure.
        return late.map_or(Verdict::No, claim);
    }
    let told = match judge_past(cell, t) {
        Verdict::Claim { max_share, confidence, facts } => match late.filter(|lost| lost.share > max_share) {
            Some(lost) => claim(lost),
            None => Verdict::Claim { max_share, confidence, facts },
        },
        other => {
            // Power alone is the weakest evidence: it is asked where neither another rank nor the past says anything.
            let swings = || swing::lost(cell, t).filter(|_| has_company(cell, &others, t));
            late.or_else(swings).map_or(other, claim)
        }
    };
    let are_no_ranks = matches!(told, Verdict::Claim { .. }) && keep_own_rhythms(cell, &others, t);
    if are_no_ranks { Verdict::No } else { told }
}

fn claim(Lost { share, confidence, facts }: Lost) -> Verdict {
    Verdict::Claim { max_share: share, confidence, facts }
}

/// Have other GPUs of the owner kernels at the same time, and is it known what CPU the job uses? Without either it may be
/// anything that leaves the GPU with kernels that do little.
fn has_company(cell: &Cell<'_>, others: &[Cell<'_>], t: &Thresholds) -> bool {
    let busy = others.iter().filter(|other| has_kernels(other, t)).count() + cell.elsewhere().busy;
    busy > 0 && depth::used_cores(cell).is_some()
}

/// What the GPU did before and after says.
fn judge_past(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    // Most cells are as deep as ever: then other GPUs do not matter.
    let (shallow, is_told) = (shallow(cell, t), depth::SIGNALS.iter().any(|signal| cell.mean(*signal).is_some()));
    if is_told && shallow.is_none() {
        return Verdict::No;
    }
    if works_alone(cell, t) {
        return Verdict::No;
    }
    let busy_others = others(cell).iter().filter(|cell| has_kernels(cell, t)).count() + cell.elsewhere().busy;
    if busy_others == 0 {
        return Verdict::No;
    }
    let Some(shallow) = shallow else { return Verdict::without(&depth::SIGNALS) };
    // Without any CPU use it may be kernels that are launched too slowly.
    let Some(cores) = shallow.extra_cores else { return Verdict::without(&[Signal::JobCpuUsage, Signal::NodeCpuBusy]) };
    if cores.per_gpu >= t.launching_cores {
        return Verdict::No;
    }
    let of_whom = if cores.signal == Signal::JobCpuUsage { shallow.confidence } else { NODE_WIDE };
    let told = [cores.fact(t.launching_cores), count("other GPUs of the owner that are busy", busy_others, 1.0)];
    let facts = shallow.facts.into_iter().chain(told).collect();
    Verdict::Claim { max_share: shallow.spun, confidence: shallow.confidence.min(of_whom), facts }
}

/// Does it work or spin for the most of the cell?
pub(super) fn has_kernels(cell: &Cell<'_>, t: &Thresholds) -> bool {
    work(cell, t).is_some_and(|work| work.ratio.max(work.spun) >= t.derate_busy_ratio)
}

/// The other GPUs of the node that the owner holds.
fn others<'a>(cell: &Cell<'a>) -> Vec<Cell<'a>> {
    let others = cell.node.gpus.iter().filter(|gpu| gpu.uuid != cell.gpu.uuid).map(|gpu| Cell { gpu, ..*cell });
    others.filter(Cell::is_held_by_owner).collect()
}

fn count(signal: &'static str, value: usize, threshold: f64) -> Fact {
    Fact { signal, unit: "GPUs", value: value as f64, threshold }
}
