//! `partial_allocation`: other GPUs of the owner work, this one never does.

use super::idle_held::is_idle;
use super::phase::{Course, Phase, holder};
use super::{Class, Fact, Thresholds};

pub(super) const PHASE: Phase = Phase { class: Class::PartialAllocation, takes_work: false, mark, missing: holder };

fn mark(course: &Course<'_>, cell: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let owner = course.owner(cell)?;
    let around = course.node.around(cell, t.around_seconds);
    let most = |gpu: &Course<'_>| {
        let of_owner = around.clone().filter(|i| gpu.owner(*i) == Some(owner));
        of_owner.filter_map(|i| gpu.busy(i)).reduce(f64::max)
    };
    if !is_idle(course, cell, t) || most(course)? > t.idle_busy_ratio {
        return None;
    }
    let others: Vec<f64> = course.others().filter_map(|gpu| most(&gpu)).collect();
    let working = others.iter().filter(|busy| **busy >= t.sustained_busy_ratio).count();
    let count = |signal, value: usize, threshold| Fact { signal, unit: "GPUs", value: value as f64, threshold };
    (working > 0).then(|| {
        let all = count("GPUs of the owner", others.len() + 1, working as f64);
        vec![count("GPUs of the owner that work", working, 1.0), all]
    })
}
