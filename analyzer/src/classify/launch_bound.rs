//! `launch_bound`: kernels are over before the next one is launched. Engine and utilisation stay at 100 %, for the gaps
//! are short, while few multiprocessors have work, and the thread of each process that launches is busy with that alone.

use super::depth::{self, shallow};
use super::derate::Derate;
use super::{Cell, Class, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const VERSION: u32 = 2;

pub(super) const DERATE: Derate = Derate { class: Class::LaunchBound, judge };

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    if cell.owner.is_none() {
        return Verdict::Abstain { missing: vec![Signal::GpuOwner] };
    }
    if depth::SIGNALS.iter().all(|signal| cell.mean(*signal).is_none()) {
        return Verdict::Abstain { missing: depth::SIGNALS.to_vec() };
    }
    let Some(shallow) = shallow(cell, t).filter(|shallow| shallow.lost >= t.shallow_ratio) else { return Verdict::No };
    // Whatever else runs on the node may use its CPUs: only the job's own tell of a thread that launches.
    let of_job = shallow.extra_cores.filter(|cores| cores.signal == Signal::JobCpuUsage);
    let Some(cores) = of_job else { return Verdict::Abstain { missing: vec![Signal::JobCpuUsage] } };
    if cores.per_gpu < t.launching_cores {
        return Verdict::No;
    }
    let facts = shallow.facts.into_iter().chain([cores.fact(t.launching_cores)]).collect();
    Verdict::Claim { max_share: shallow.lost, confidence: shallow.confidence, facts }
}
