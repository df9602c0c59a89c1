//! What remote write, the scraper and discovery say of themselves on `/metrics`.

use std::sync::atomic::AtomicU64;

use goodput_web::Refusals;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::ingest::tally::Counts;
use crate::ingest::{Limits, Reason};

/// The bounds and the counts.
pub(super) struct WaysIn<'a> {
    pub(super) limits: &'a Limits,
    pub(super) counts: &'a Counts,
    pub(super) refusals: &'a Refusals,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Limit {
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    version: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Why {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Part {
    part: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Job {
    job: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Scrape {
    job: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Discovery {
    job: String,
    way: &'static str,
}

impl WaysIn<'_> {
    pub(super) fn register(&self, registry: &mut Registry) {
        self.front_door(registry);
        self.remote_write(registry);
        self.events(registry);
        self.scraping(registry);
        let limits = Family::<Limit, Gauge<f64, AtomicU64>>::default();
        for (limit, value) in self.limits.list() {
            limits.get_or_create(&Limit { limit }).set(value as f64);
        }
        registry.register("ingest_limit", "Bounds of what may come in, by their name in the configuration", limits);
    }

    fn front_door(&self, registry: &mut Registry) {
        let refused = Family::<Why, Counter>::default();
        for (reason, count) in self.refusals.counts() {
            refused.get_or_create(&Why { reason: reason.label() }).inc_by(count);
        }
        registry.register(
            "http_refused",
            "Connections and requests that were refused, by reason; the log names each peer once. An idle connection that \
             was closed to make room for another counts too",
            refused,
        );
    }

    fn remote_write(&self, registry: &mut Registry) {
        let requests = Family::<Request, Counter>::default();
        for ((version, outcome), count) in &self.counts.requests {
            requests.get_or_create(&Request { version, outcome }).inc_by(*count);
        }
        registry.register(
            "remote_write_requests",
            "Remote-write requests by version of the protocol and outcome: taken; partly (a part was refused, the rest \
             is stored); malformed, unsupported (never to be sent again); busy, sender_busy, memory, slow, no_space, \
             not_stored (to be sent again)",
            requests,
        );
        let in_work = Gauge::<i64>::default();
        in_work.set(self.counts.in_work);
        registry.register("remote_write_requests_in_work", "Requests of remote write and of events in work", in_work);
        let passed_over = Family::<Part, Counter>::default();
        let parts = self.counts.passed_over;
        for (part, count) in
            [("histogram", parts.histograms), ("exemplar", parts.exemplars), ("metadata", parts.metadata)]
        {
            passed_over.get_or_create(&Part { part }).inc_by(count);
        }
        let skipped = Family::<Why, Counter>::default();
        for reason in Reason::ALL.map(Reason::name) {
            let count = self.counts.skipped.get(reason).copied().unwrap_or_default();
            skipped.get_or_create(&Why { reason }).inc_by(count);
        }
        registry.register(
            "skipped_series",
            "Series of remote write and of scrapes that break a limit of labels or the data model, by reason; the rest of \
             their request or scrape is stored. Series of metrics that no signal uses are not among them",
            skipped,
        );
        registry.register(
            "remote_write_passed_over",
            "Parts of remote-write requests that nothing here uses and that are not kept",
            passed_over,
        );
    }

    fn events(&self, registry: &mut Registry) {
        let requests = Family::<Outcome, Counter>::default();
        for (outcome, count) in &self.counts.event_requests {
            requests.get_or_create(&Outcome { outcome }).inc_by(*count);
        }
        registry.register(
            "event_requests",
            "Requests with events by outcome: taken; malformed, conflicting, unsupported (never to be sent again); busy, \
             sender_busy, memory, slow, no_space, not_stored (to be sent again)",
            requests,
        );
        let events = Family::<Outcome, Counter>::default();
        for (outcome, count) in ["stored", "duplicate"].into_iter().zip(self.counts.events) {
            events.get_or_create(&Outcome { outcome }).inc_by(count);
        }
        registry.register("received_events", "Events of jobs by what became of them", events);
    }

    fn scraping(&self, registry: &mut Registry) {
        let scrapes = Family::<Scrape, Counter>::default();
        for ((job, outcome), count) in &self.counts.scrapes {
            scrapes.get_or_create(&Scrape { job: job.clone(), outcome }).inc_by(*count);
        }
        registry.register(
            "scrapes",
            "Scrapes by job and outcome: taken, or what failed; no_space or not_stored beside either when the samples \
             were lost",
            scrapes,
        );
        let targets = Family::<Job, Gauge>::default();
        for (job, count) in &self.counts.targets {
            targets.get_or_create(&Job { job: job.clone() }).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        registry.register("scrape_targets", "Targets by job, configured and discovered", targets);
        let failures = Family::<Discovery, Counter>::default();
        for ((job, way), count) in &self.counts.failed_discoveries {
            failures.get_or_create(&Discovery { job: job.clone(), way }).inc_by(*count);
        }
        registry.register(
            "discovery_failures",
            "Lists of targets that could not be read, by job and way (file, http); the last list holds on",
            failures,
        );
    }
}
