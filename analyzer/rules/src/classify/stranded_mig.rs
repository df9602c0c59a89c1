//! `stranded_mig`: a GPU is cut up so that no profile fits into the slices that are left.
//!
//! Of what no instance has; where another one fits, it is only `unallocated`. Where the instances lie on the GPU is not
//! exported: what a better placement of the same instances would leave room for is not stranded here.

use super::outage::Outage;
use super::phase::Course;
use super::thresholds::confidence::COUNTED;
use super::{Class, Fact, Thresholds, Verdict};
use crate::frame::Layout;
use crate::mig::has_room;
use crate::signal::Signal;

pub(super) const OUTAGE: Outage = Outage { class: Class::StrandedMig, judge };

fn judge(course: &Course<'_>, index: usize, _: &Thresholds) -> Verdict {
    let (gpu, layouts) = (course.gpu, course.gpu.cut.layouts(index));
    if layouts.is_empty() {
        return Verdict::No;
    }
    let Some(capacity) = gpu.cut.slices else { return Verdict::without(&[Signal::MigCapacity]) };
    let is_full = |layout: &&Layout| {
        let profiles: Option<Vec<&str>> = layout.instances.iter().map(|i| i.profile.as_deref()).collect();
        profiles.and_then(|profiles| has_room(gpu.model.as_deref(), &profiles)) == Some(false)
    };
    let (mut free_ms, mut taken_ms, mut full_ms) = (0.0, 0.0, 0);
    for layout in layouts.iter().filter(is_full) {
        let Some(taken) = layout.slices else { return Verdict::without(&[Signal::MigSlices]) };
        free_ms += f64::from(capacity.saturating_sub(taken)) / f64::from(capacity) * layout.ms as f64;
        taken_ms += f64::from(taken) * layout.ms as f64;
        full_ms += layout.ms;
    }
    if free_ms <= 0.0 {
        return Verdict::No;
    }
    let taken = Fact::of(Signal::MigSlices, taken_ms / full_ms as f64, f64::from(capacity));
    // As much as there is, where it is so all the time.
    let known_ms = gpu.known_ms[index];
    let max_share = if full_ms == known_ms { 1.0 } else { free_ms / known_ms as f64 };
    Verdict::Claim { max_share, confidence: COUNTED, facts: vec![taken] }
}
