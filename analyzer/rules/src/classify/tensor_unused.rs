//! `tensor_unused`: kernels keep the multiprocessors busy, and none of them is one for the tensor cores.

use super::advisory::Adviser;
use super::intervals::Grounds;
use super::thresholds::confidence::{INFERRED, WEAK};
use super::work::per_busy;
use super::{Advice, Cell, Class, Fact, Thresholds};
use crate::signal::Signal;

pub(super) const ADVISER: Adviser = Adviser {
    advice: Advice::TensorUnused,
    charged_as: &[Class::CollectiveWait, Class::NetworkSlow, Class::LaunchBound],
    judge: advise,
};

fn advise(cell: &Cell<'_>, t: &Thresholds) -> Option<Grounds> {
    let tensor = per_busy(cell, Signal::TensorActive, t)?;
    let computes = per_busy(cell, Signal::SmActive, t);
    if tensor >= t.tensor_unused_ratio || computes.is_some_and(|active| active < t.sm_effective_ratio) {
        return None;
    }
    let fact = |signal, value, threshold| Fact { signal, unit: "ratio", value, threshold };
    let facts = [
        Some(fact("tensor_active / busy", tensor, t.tensor_unused_ratio)),
        computes.map(|active| fact("sm_active / busy", active, t.sm_effective_ratio)),
    ];
    // Without SM activity it is not known whether kernels compute or wait.
    let confidence = if computes.is_some() { INFERRED } else { WEAK };
    Some(Grounds { confidence, facts: facts.into_iter().flatten().collect(), missing: Vec::new() })
}
