//! What the ways in count of themselves, beyond what the store says of every sample.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::remote_write::PassedOver;

/// Counts, shared by all ways in.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counts>);

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
    /// What requests brought beside samples.
    pub passed_over: PassedOver,
    /// Samples dropped because another replica of their sender stands for them.
    pub replicated: u64,
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
