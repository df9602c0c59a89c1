//! `down`: the GPU could not be used: the driver has lost it, or wants it reset and it does nothing any more.
//!
//! A GPU that works on with a reset pending is not down, and neither is one between two pieces of work.

use goodput_catalog::xid_codes::{self, Action};

use super::outage::Outage;
use super::phase::Course;
use super::thresholds::confidence::{COUNTED, INFERRED};
use super::{Cell, Class, Fact, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const OUTAGE: Outage = Outage { class: Class::Down, judge };

/// What it takes to tell.
const SIGNALS: [Signal; 4] = [Signal::GpuLost, Signal::GpuResetRequired, Signal::GpuRecoveryAction, Signal::GpuXid];

/// NVML's recovery action of a GPU whose traffic with its peers has to end, and which works on (`nvml.h`).
const DRAIN_P2P: f64 = 3.0;

fn judge(course: &Course<'_>, index: usize, t: &Thresholds) -> Verdict {
    let here = cell(course, index);
    if let Some(lost) = here.mean(Signal::GpuLost).filter(|lost| *lost >= t.claim_floor) {
        let facts = vec![Fact::of(Signal::GpuLost, lost, t.claim_floor)];
        return Verdict::Claim { max_share: lost, confidence: COUNTED, facts };
    }
    if SIGNALS.iter().all(|signal| here.read(*signal).is_none()) {
        return Verdict::without(&SIGNALS);
    }
    let found = reset_wanted(course, index, t).or_else(|| broken(course, index, t));
    found.map_or(Verdict::No, |(fact, confidence)| Verdict::Claim {
        max_share: 1.0,
        confidence,
        facts: course.state(index).busy.iter().flat_map(|busy| &busy.facts).copied().chain([fact]).collect(),
    })
}

fn cell<'a>(course: &Course<'a>, index: usize) -> Cell<'a> {
    Cell::of(course.node, course.gpu, None, index)
}

/// The driver wants it reset, and for so long that it is no pause it does nothing.
fn reset_wanted(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<(Fact, f64)> {
    let fact = wanted(&cell(course, index))?;
    rests_long(course, index, t, |i| wanted(&cell(course, i)).is_some()).then_some((fact, COUNTED))
}

/// Throughout the cell, by the driver's flags or by what it recommends.
fn wanted(cell: &Cell<'_>) -> Option<Fact> {
    let required = cell.read(Signal::GpuResetRequired).filter(|flags| flags.min >= 1.0);
    let action =
        || cell.read(Signal::GpuRecoveryAction).filter(|a| a.min >= 1.0 && a.min == a.max && a.min != DRAIN_P2P);
    required
        .map(|flags| Fact::of(Signal::GpuResetRequired, flags.mean, 1.0))
        .or_else(|| action().map(|action| Fact::of(Signal::GpuRecoveryAction, action.mean, 1.0)))
}

/// An error came after which the GPU has to be reset, and it has done nothing since. Where the driver itself says that
/// there is nothing to do, that counts.
fn broken(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<(Fact, f64)> {
    let here = cell(course, index);
    let driver = [Signal::GpuRecoveryAction, Signal::GpuResetRequired].map(|signal| here.read(signal));
    if driver.into_iter().flatten().any(|asks| asks.max < 1.0) {
        return None;
    }
    let reach = course.node.around(index, t.down_xid_seconds);
    let code = |i: usize| cell(course, i).read(Signal::GpuXid).map(|code| code.max);
    let came = |i: &usize| *i > reach.start && code(*i - 1).zip(code(*i)).is_some_and(|(before, now)| before != now);
    let since = (reach.start..=index).rev().find(came)?;
    let last = code(since).filter(|code| is_fatal(*code))?;
    let fact = Fact::of(Signal::GpuXid, last, 0.0);
    let is_after = |i: usize| i > since && code(i) == Some(last);
    rests_long(course, index, t, is_after).then_some((fact, INFERRED))
}

/// Does NVIDIA's catalogue say that the GPU has to be reset, or its node restarted?
fn is_fatal(code: f64) -> bool {
    let known = xid_codes::find(code as u64).map(|code| code.action);
    matches!(known, Some(Action::ResetGpu | Action::RestartNode))
}

/// Is the cell one of a run in which it holds and the GPU does nothing, which lasts for the idle window?
fn rests_long(course: &Course<'_>, index: usize, t: &Thresholds, holds: impl Fn(usize) -> bool) -> bool {
    let rests = |i: &usize| holds(*i) && course.busy(*i).is_some_and(|busy| busy <= t.idle_busy_ratio);
    let before = (0..index).rev().take_while(rests);
    let after = (index + 1..course.node.cells.len()).take_while(rests);
    let ms: i64 = before.chain(after).chain([index]).map(|i| course.gpu.known_ms[i]).sum();
    rests(&index) && ms as f64 >= t.idle_window_seconds * 1000.0
}
