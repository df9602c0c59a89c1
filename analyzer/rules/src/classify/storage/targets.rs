//! Storage targets of a Lustre file system: those whose requests take much longer than the others'.

use super::super::{Cell, Fact, Thresholds};
use super::{FEW_READS, rate, ratio};
use crate::median::median;
use crate::signal::Signal;
use goodput_verdict::filesystem_of_target;

/// Fewer targets say nothing of what is usual.
const FEW_TARGETS: usize = 3;

/// The slowest target of a file system.
pub(super) struct Slowest<'a> {
    /// Its name, such as `scratch-OST0003`.
    pub(super) name: &'a str,
    /// Share of the time of all requests by which slow targets are above the median.
    pub(super) excess: f64,
    /// The numbers behind it.
    pub(super) facts: [Fact; 3],
}

/// A target in a cell.
struct Target<'a> {
    name: &'a str,
    in_flight: f64,
    /// Seconds of a request, in the mean.
    each: f64,
}

impl Target<'_> {
    /// Requests in flight that would not be, did its requests take as long as this.
    fn beyond(&self, each: f64) -> f64 {
        self.in_flight * (1.0 - each / self.each)
    }
}

/// The target whose requests take the most time above the median of its file system's, where they take
/// `slow_target_ratio` times as long.
pub(super) fn slowest<'a>(cell: &Cell<'a>, filesystem: &str, t: &Thresholds) -> Option<Slowest<'a>> {
    let own = |name: &str| filesystem_of_target(name) == Some(filesystem);
    let all = cell.by_part(Signal::TargetTime).filter(|(name, time)| own(name) && time.mean > 0.0);
    let all = all.filter_map(|(name, time)| {
        let rate = rate(cell, Signal::TargetRequests, name).filter(|rate| rate * cell.seconds() >= FEW_READS)?;
        Some(Target { name, in_flight: time.mean, each: time.mean / rate })
    });
    let all: Vec<Target<'a>> = all.collect();
    let usual = median(all.iter().map(|target| target.each).collect()).filter(|_| all.len() >= FEW_TARGETS)?;
    let slow = || all.iter().filter(|target| target.each >= t.slow_target_ratio * usual);
    let first = slow().max_by(|a, b| a.beyond(usual).total_cmp(&b.beyond(usual)))?;
    let whole: f64 = all.iter().map(|target| target.in_flight).sum();
    let excess = slow().map(|target| target.beyond(usual)).sum::<f64>() / whole;
    let (time, count) = ("time of a request of the storage target", "storage targets as slow");
    let facts = [
        Fact { signal: time, unit: "seconds", value: first.each, threshold: t.slow_target_ratio * usual },
        Fact { signal: count, unit: "targets", value: slow().count() as f64, threshold: all.len() as f64 },
        ratio("requests of slow storage targets beyond the median / all of the file system", excess, 0.0),
    ];
    Some(Slowest { name: first.name, excess, facts })
}
