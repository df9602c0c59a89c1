//! `launch_bound`: kernels are over before the next one is launched. The gaps are short: no sample of the utilisation is
//! without kernels. Few multiprocessors have work, and the thread of each process that launches is busy with that alone.
//!
//! How much of it engine and utilisation count as busy depends on the gaps: with 13 µs from one kernel of 2.3 µs to the
//! next, an H200 told 0.22 of both; where gaps are shorter, they are told as full. So there is a rule for the time that is
//! not busy, and one for busy time in which the GPU does less than before.

use super::busy::busy;
use super::cpu::Holders;
use super::depth::{self, few_multiprocessors, shallow};
use super::derate::Derate;
use super::server_clock::is_server;
use super::thresholds::confidence::INFERRED;
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const RULE: Rule =
    Rule { class: Class::LaunchBound, explains: &[Class::DataloaderCpu, Class::FeedingUnsplit], judge };

pub(super) const DERATE: Derate = Derate { class: Class::LaunchBound, judge: judge_busy };

/// The time between small kernels that never cease.
fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let Some(busy) = busy(cell, t).filter(|busy| busy.spun == 0.0) else { return Verdict::No };
    let Some(utilization) = cell.read(Signal::GpuUtilization) else {
        return Verdict::without(&[Signal::GpuUtilization]);
    };
    if cell.read(Signal::SmActive).is_none() || cell.read(Signal::GrEngineActive).is_none() {
        return Verdict::without(&[Signal::SmActive, Signal::GrEngineActive]);
    }
    let Some(holders) = Holders::of(cell) else { return Verdict::without(&Holders::SIGNALS) };
    if utilization.min < t.sustained_busy_ratio || is_server(cell, t) {
        return Verdict::No;
    }
    let Some((small, launches)) = few_multiprocessors(cell, t).zip(holders.facts(t.launching_cores, t)) else {
        return Verdict::No;
    };
    let unceasing = Fact {
        signal: "least gpu_utilization",
        ..Fact::of(Signal::GpuUtilization, utilization.min, t.sustained_busy_ratio)
    };
    let facts = [small, unceasing].into_iter().chain(launches).collect();
    Verdict::Claim { max_share: 1.0 - busy.ratio, confidence: INFERRED, facts }
}

/// Busy time in which there was less work than at other times of the job.
fn judge_busy(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    if cell.owner.is_none() {
        return Verdict::without(&[Signal::GpuOwner]);
    }
    if depth::SIGNALS.iter().all(|signal| cell.mean(*signal).is_none()) {
        return Verdict::without(&depth::SIGNALS);
    }
    let Some(shallow) = shallow(cell, t).filter(|shallow| shallow.lost >= t.shallow_ratio) else { return Verdict::No };
    // Whatever else runs on the node may use its CPUs: only the job's own tell of a thread that launches.
    let of_job = shallow.extra_cores.filter(|cores| cores.signal == Signal::JobCpuUsage);
    let Some(cores) = of_job else { return Verdict::without(&[Signal::JobCpuUsage]) };
    if cores.per_gpu < t.launching_cores {
        return Verdict::No;
    }
    let facts = shallow.facts.into_iter().chain([cores.fact(t.launching_cores)]).collect();
    Verdict::Claim { max_share: shallow.lost, confidence: shallow.confidence, facts }
}
