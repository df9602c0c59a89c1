//! `timeslice_gap`: several owners take turns on one GPU, so that kernels that could run at the same time wait for each
//! other, and most multiprocessors rest meanwhile.
//!
//! Engine and utilisation are full: the loss is in the busy time.

use super::busy::busy;
use super::derate::Derate;
use super::thresholds::confidence::WEAK;
use super::{Cell, Class, Fact, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const DERATE: Derate = Derate { class: Class::TimesliceGap, judge };

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let owners = &cell.gpu.owners[cell.index];
    if owners.len() < 2 {
        return Verdict::No;
    }
    let signals = [Signal::NodeMps, Signal::SmActive];
    let [Some(mps), Some(active)] = signals.map(|signal| cell.mean(signal)) else { return Verdict::without(&signals) };
    let used = |owner: &str| cell.of_owner(Some(owner)).mean(Signal::JobCpuUsage);
    let Some(used): Option<Vec<f64>> = owners.iter().map(|(owner, _)| used(owner)).collect() else {
        return Verdict::without(&[Signal::JobCpuUsage]);
    };
    let Some(busy) = busy(cell, t).filter(|busy| busy.ratio >= t.derate_busy_ratio) else { return Verdict::No };
    let at_work = used.into_iter().filter(|cores| *cores >= t.timeslice_cores).count();
    if mps > 0.0 || at_work < 2 {
        return Verdict::No;
    }
    // Side by side, N owners would be done in 1/N of the time at best, and no sooner than multiprocessors allow.
    let depth = (active / busy.ratio).min(1.0);
    let lost = (1.0 - depth).min(1.0 - 1.0 / at_work as f64);
    if lost < t.shallow_ratio {
        return Verdict::No;
    }
    let facts = vec![
        Fact { signal: "owners at work on the GPU", unit: "owners", value: at_work as f64, threshold: 2.0 },
        Fact { signal: "sm_active / busy", unit: "ratio", value: depth, threshold: 1.0 - t.shallow_ratio },
        Fact::of(Signal::NodeMps, mps, 1.0),
    ];
    Verdict::Claim { max_share: lost, confidence: WEAK, facts }
}
