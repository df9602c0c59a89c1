//! `low_occupancy`: multiprocessors have few warps to choose from, and neither tensor cores nor memory are what keeps them.

use super::advisory::Adviser;
use super::intervals::Grounds;
use super::thresholds::confidence::{INFERRED, WEAK};
use super::work::per_busy;
use super::{Advice, Cell, Class, Fact, Thresholds};
use crate::signal::Signal;

pub(super) const ADVISER: Adviser = Adviser {
    advice: Advice::LowOccupancy,
    charged_as: &[Class::CollectiveWait, Class::NetworkSlow, Class::LaunchBound],
    judge: advise,
};

fn advise(cell: &Cell<'_>, t: &Thresholds) -> Option<Grounds> {
    let active = per_busy(cell, Signal::SmActive, t).filter(|active| *active >= t.sm_effective_ratio)?;
    let occupied = (per_busy(cell, Signal::SmOccupancy, t)? / active).min(1.0);
    if occupied >= t.low_occupancy_ratio {
        return None;
    }
    // Kernels that keep tensor cores or memory at work need no more warps than they have.
    let limits = [(Signal::TensorActive, t.tensor_bound_ratio), (Signal::DramActive, t.memory_bound_ratio)];
    let told = limits.map(|(signal, most)| per_busy(cell, signal, t).map(|active| active < most));
    if told.contains(&Some(false)) {
        return None;
    }
    let confidence = if told.contains(&None) { WEAK } else { INFERRED };
    let fact = |signal, value, threshold| Fact { signal, unit: "ratio", value, threshold };
    let facts = vec![
        fact("sm_occupancy / sm_active", occupied, t.low_occupancy_ratio),
        fact("sm_active / busy", active, t.sm_effective_ratio),
    ];
    Some(Grounds { confidence, facts, missing: Vec::new() })
}
