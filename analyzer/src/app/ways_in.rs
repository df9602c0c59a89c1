//! What remote write, the scraper and discovery say of themselves on `/metrics`.

use goodput_catalog::analyzer::{ingest as rows, own};
use goodput_exposition::Reason;
use goodput_settings::Section as _;
use goodput_web::Refusals;

use super::page::Page;
use crate::ingest::Limits;
use crate::ingest::tally::Counts;

/// The bounds and the counts.
pub(crate) struct WaysIn<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) counts: &'a Counts,
    pub(crate) refusals: &'a Refusals,
}

impl WaysIn<'_> {
    pub(super) fn push(&self, page: &mut Page) {
        for (reason, count) in self.refusals.counts() {
            page.push(&own::HTTP_REFUSED, &[reason.name()], count);
        }
        self.remote_write(page);
        self.events(page);
        self.scraping(page);
        for (limit, value) in self.limits.limits() {
            page.push(&rows::INGEST_LIMIT, &[&limit], value as f64);
        }
    }

    fn remote_write(&self, page: &mut Page) {
        for ((version, outcome), count) in &self.counts.requests {
            page.push(&rows::REQUESTS, &[version, outcome], *count);
        }
        page.push(&rows::REQUESTS_IN_WORK, &[], self.counts.in_work);
        for reason in Reason::ALL.iter().map(|reason| reason.name()) {
            let count = self.counts.skipped.get(reason).copied().unwrap_or_default();
            page.push(&rows::SKIPPED_SERIES, &[reason], count);
        }
        let parts = self.counts.passed_over;
        for (part, count) in
            [("histogram", parts.histograms), ("exemplar", parts.exemplars), ("metadata", parts.metadata)]
        {
            page.push(&rows::PASSED_OVER, &[part], count);
        }
    }

    fn events(&self, page: &mut Page) {
        for (outcome, count) in &self.counts.event_requests {
            page.push(&rows::EVENT_REQUESTS, &[outcome], *count);
        }
        for (outcome, count) in ["stored", "duplicate"].into_iter().zip(self.counts.events) {
            page.push(&rows::RECEIVED_EVENTS, &[outcome], count);
        }
    }

    fn scraping(&self, page: &mut Page) {
        for ((job, outcome), count) in &self.counts.scrapes {
            page.push(&rows::SCRAPES, &[job, outcome], *count);
        }
        for (job, count) in &self.counts.targets {
            page.push(&rows::SCRAPE_TARGETS, &[job], *count as u64);
        }
        for ((job, way), count) in &self.counts.failed_discoveries {
            page.push(&rows::DISCOVERY_FAILURES, &[job, way], *count);
        }
    }
}
