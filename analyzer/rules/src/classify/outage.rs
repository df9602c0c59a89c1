//! Outages: time in which a GPU was not available to any owner, whether one held it or not.

use super::cell::Part;
use super::phase::Course;
use super::{Class, Thresholds, Verdict, down, maintenance, stranded_mig};

/// A way to see that a GPU could not be used.
#[derive(Debug)]
pub struct Outage {
    /// What the time is booked on.
    pub class: Class,
    /// Pure; its `max_share` is of what is known of the cell, and comes before work.
    pub(super) judge: fn(&Course<'_>, usize, &Thresholds) -> Verdict,
}

/// Every outage. The first that claims a part of a cell has it.
pub static OUTAGES: &[Outage] = &[down::OUTAGE, maintenance::OUTAGE, stranded_mig::OUTAGE];

/// The share of what is known of the cell that the GPU was out of use, and why; this time has no owner.
pub(super) fn outage(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<(Part, f64)> {
    OUTAGES.iter().find_map(|Outage { class, judge }| match judge(course, index, t).sound() {
        Verdict::Claim { max_share, confidence, facts } if confidence >= t.confidence_floor => {
            Some((Part { facts, ..Part::bare(*class, confidence) }, max_share.clamp(0.0, 1.0)))
        }
        _ => None,
    })
}
