//! What the ways in count of themselves, beyond what the store says of every sample.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use goodput_exposition::Reason;
use parking_lot::Mutex;
use tracing::warn;

use super::remote_write::PassedOver;
use super::skipped::{Named, Skipped};

/// Faults that are remembered as named; further ones are only counted.
const MAX_NAMED: usize = 256;

/// Full memory of what was named is cleared after so long: at most `MAX_NAMED` lines come in this time.
const NAMED_FOR: Duration = Duration::from_hours(1);

/// Counts, shared by all ways in.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counts>, Mutex<Names>);

/// Faults that the log has named: sender, reason and metric.
#[derive(Debug, Default)]
struct Names {
    known: HashSet<(String, Reason, String)>,
    since: Option<Instant>,
}

impl Names {
    /// Is the fault to be named now?
    fn is_new(&mut self, sender: &str, reason: Reason, metric: &str, now: Instant) -> bool {
        let key = (sender.to_owned(), reason, metric.to_owned());
        if self.known.contains(&key) {
            return false;
        }
        if self.known.len() >= MAX_NAMED {
            if self.since.is_some_and(|since| now.duration_since(since) < NAMED_FOR) {
                return false;
            }
            self.known.clear();
        }
        if self.known.is_empty() {
            self.since = Some(now);
        }
        self.known.insert(key)
    }
}

/// The counts at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Remote-write requests by version of the protocol and outcome.
    pub requests: BTreeMap<(&'static str, &'static str), u64>,
    /// Requests of remote write and of events in work.
    pub in_work: i64,
    /// Requests with events by outcome.
    pub event_requests: BTreeMap<&'static str, u64>,
    /// Events that were stored, and those that were there already.
    pub events: [u64; 2],
    /// What requests brought in addition to samples.
    pub passed_over: PassedOver,
    /// Samples dropped because another replica of their sender stands for them.
    pub replicated: u64,
    /// Series that were skipped, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// Scrapes by job and outcome.
    pub scrapes: BTreeMap<(String, &'static str), u64>,
    /// Targets by job.
    pub targets: BTreeMap<String, usize>,
    /// Discoveries that failed, by job and way.
    pub failed_discoveries: BTreeMap<(String, &'static str), u64>,
}

impl Tally {
    /// The counts by now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.lock().clone()
    }

    pub(super) fn request(&self, version: &'static str, outcome: &'static str) {
        *self.0.lock().requests.entry((version, outcome)).or_default() += 1;
    }

    pub(super) fn events(&self, outcome: &'static str, stored: usize, duplicate: usize) {
        let counts = &mut *self.0.lock();
        *counts.event_requests.entry(outcome).or_default() += 1;
        counts.events[0] += stored as u64;
        counts.events[1] += duplicate as u64;
    }

    pub(super) fn in_work(&self, change: i64) {
        self.0.lock().in_work += change;
    }

    pub(super) fn passed_over(&self, passed_over: PassedOver, replicated: u64) {
        let counts = &mut *self.0.lock();
        counts.passed_over.histograms += passed_over.histograms;
        counts.passed_over.exemplars += passed_over.exemplars;
        counts.passed_over.metadata += passed_over.metadata;
        counts.replicated += replicated;
    }

    /// Counts series that were skipped. The log names a fault of a metric once per sender.
    pub(super) fn skipped(&self, skipped: &Skipped, sender: &str) {
        {
            let counts = &mut self.0.lock().skipped;
            for (reason, series) in skipped.series() {
                *counts.entry(reason.name()).or_default() += series;
            }
        }
        let now = Instant::now();
        for (metric, Named { fault, kept }) in skipped.named() {
            if !self.1.lock().is_new(sender, fault.reason, metric, now) {
                continue;
            }
            let (reason, bytes, detail) = (fault.reason.name(), fault.bytes, &fault.detail);
            if *kept {
                warn!(?metric, bytes, reason, %detail, sender, "series skipped; the next ones are only counted");
            } else {
                warn!(?metric, bytes, reason, %detail, sender, "series of a metric that no signal uses breaks a limit");
            }
        }
    }

    pub(super) fn scrape(&self, job: &str, outcome: &'static str) {
        *self.0.lock().scrapes.entry((job.to_owned(), outcome)).or_default() += 1;
    }

    pub(super) fn targets(&self, job: &str, count: usize) {
        self.0.lock().targets.insert(job.to_owned(), count);
    }

    /// Notes a failure, or with none that there has been none so far.
    pub(super) fn discovery(&self, job: &str, way: &'static str, failures: u64) {
        *self.0.lock().failed_discoveries.entry((job.to_owned(), way)).or_default() += failures;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_named_once_and_a_flood_of_them_does_not_fill_the_log() {
        let (mut names, start) = (Names::default(), Instant::now());
        assert!(names.is_new("a", Reason::LabelBytes, "m", start));
        assert!(!names.is_new("a", Reason::LabelBytes, "m", start));
        assert!(names.is_new("a", Reason::LabelCount, "m", start) && names.is_new("b", Reason::LabelBytes, "m", start));
        let flood = (0..10_000).filter(|n| names.is_new("c", Reason::LabelBytes, &n.to_string(), start)).count();
        assert_eq!((flood, names.known.len()), (MAX_NAMED - 3, MAX_NAMED));
        assert!(names.is_new("d", Reason::LabelBytes, "m", start + NAMED_FOR), "an hour later there is room again");
        assert_eq!(names.known.len(), 1);
    }
}
