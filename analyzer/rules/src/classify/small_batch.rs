//! `small_batch`: kernels have no work for most multiprocessors, and most of the device memory is free for more.

use super::advisory::Adviser;
use super::depth::shallow;
use super::intervals::Grounds;
use super::thresholds::confidence::INFERRED;
use super::work::per_busy;
use super::{Advice, Cell, Class, Fact, Thresholds};
use crate::signal::Signal;

pub(super) const ADVISER: Adviser = Adviser {
    advice: Advice::SmallBatch,
    charged_as: &[Class::CollectiveWait, Class::Straggler, Class::NetworkSlow, Class::LaunchBound, Class::TimesliceGap],
    judge: advise,
};

fn advise(cell: &Cell<'_>, t: &Thresholds) -> Option<Grounds> {
    if cell.gpu.owners[cell.index].len() > 1 {
        return None;
    }
    let active = per_busy(cell, Signal::SmActive, t).filter(|active| *active < t.sm_effective_ratio)?;
    let (used, free) = (cell.mean(Signal::FbUsed)?, cell.mean(Signal::FbFree)?);
    let taken = Some(used / (used + free)).filter(|taken| *taken <= t.small_batch_memory_ratio)?;
    let is_bound = per_busy(cell, Signal::DramActive, t).is_some_and(|active| active >= t.memory_bound_ratio);
    // A job that fills the GPU at other times waits, whatever for.
    if is_bound || shallow(cell, t).is_some() {
        return None;
    }
    let fact = |signal, value, threshold| Fact { signal, unit: "ratio", value, threshold };
    let facts = vec![
        fact("sm_active / busy", active, t.sm_effective_ratio),
        fact("fb_used / (fb_used + fb_free)", taken, t.small_batch_memory_ratio),
    ];
    Some(Grounds { confidence: INFERRED, facts, missing: Vec::new() })
}
