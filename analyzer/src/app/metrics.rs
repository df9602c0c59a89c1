//! `/metrics`: the verdicts of final windows as gauges, and the analyzer's own state.
//!
//! Verdict metrics are gauges over final windows: a window judged again may come out lower, which a counter must not.

use std::collections::BTreeSet;

use goodput_catalog::analyzer::{ingest, own as rows};

use super::deliveries::Deliveries;
use super::intake::Account;
use super::page::Page;
use super::progress::Progress;
use super::reads::ReadCounts;
pub(crate) use super::ways_in::WaysIn;
use crate::config::ReadLimits;
use crate::report::Terms;
use goodput_settings::Section as _;
use goodput_store::Stats;
use goodput_web::BUILT;

mod forecasts;
mod serving;
mod store;
mod verdicts;

/// What the renderer writes.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The whole page. It is built from scratch, so that nothing that is gone lingers.
pub(crate) fn whole(
    (progress, terms): (&Progress, &Terms),
    account: &Account,
    tally: &Deliveries,
    ways_in: &WaysIn<'_>,
    (limits, reads): (&ReadLimits, ReadCounts),
    stats: &Stats,
) -> Page {
    let mut page = Page::default();
    verdicts::push(&mut page, progress, terms);
    serving::push(&mut page, progress, terms);
    forecasts::push(&mut page, &progress.prospects);
    of_itself(&mut page, (progress, terms), account, tally, ways_in, stats);
    of_reads(&mut page, limits, reads);
    page
}

/// The part of the page that is about the analyzer, not about GPUs.
pub(crate) fn of_itself(
    page: &mut Page,
    (progress, terms): (&Progress, &Terms),
    account: &Account,
    tally: &Deliveries,
    ways_in: &WaysIn<'_>,
    stats: &Stats,
) {
    own(page, progress, account, ways_in.counts.replicated, stats.clock_in_doubt);
    ways_in.push(page);
    deliveries(page, tally);
    page.push(&rows::TEAMS_FILE_ERROR, &[], u64::from(terms.teams.loaded().error.is_some()));
    store::push(page, stats);
}

fn own(page: &mut Page, progress: &Progress, account: &Account, replicated: u64, in_doubt: bool) {
    page.push(&rows::BUILD_INFO, &BUILT, 1_u64);
    let s = &account.samples;
    let outcomes = [
        ("stored", s.stored),
        ("duplicate", s.duplicate),
        ("conflicting", s.conflicting),
        ("out_of_bounds", s.out_of_bounds),
        ("unknown", s.unknown),
        ("over_limit", s.over_limit),
        ("replicated", replicated),
    ];
    for (outcome, count) in outcomes {
        page.push(&ingest::RECEIVED_SAMPLES, &[outcome], count);
    }
    for (source, time) in &account.last_sample {
        page.push(&ingest::LAST_SAMPLE, &[source], seconds(*time));
    }
    if let Some(time) = progress.judged_until_ms {
        // Samples that have come in since may change what is judged.
        let until = account.earliest.map_or(time, |earliest| earliest.min(time));
        page.push(&rows::JUDGED_UNTIL, &[], seconds(until));
    }
    page.push(&rows::JUDGE_DURATION, &[], progress.took.as_secs_f64());
    page.push(&rows::JUDGE_FAILURES, &[], progress.failures);
    page.push(&rows::JUDGE_FAILED_NODES, &[], progress.failed_nodes.len() as u64);
    page.push(&rows::CLOCK_IN_DOUBT, &[], u64::from(in_doubt));
    page.push(&rows::JUDGE_DROPPED_GPUS, &[], progress.dropped_gpus as u64);
    let nodes: BTreeSet<_> = progress.last_minutes.iter().map(|i| (&i.cluster, &i.node)).collect();
    page.push(&rows::NODES, &[], nodes.len() as u64);
}

fn of_reads(page: &mut Page, limits: &ReadLimits, counts: ReadCounts) {
    page.push(&rows::READS_IN_WORK, &[], counts.in_work);
    page.push(&rows::REFUSED_READS, &[], counts.refused);
    for (limit, value) in limits.limits() {
        page.push(&rows::READ_LIMIT, &[&limit], value);
    }
}

fn deliveries(page: &mut Page, tally: &Deliveries) {
    let destinations = || tally.destinations.iter().map(|(destination, outcomes)| (destination.name(), outcomes));
    for (destination, outcomes) in destinations() {
        for (outcome, count) in
            [("delivered", outcomes.delivered), ("failed", outcomes.failed), ("refused", outcomes.refused)]
        {
            page.push(&rows::REPORT_DELIVERIES, &[destination, outcome], count);
        }
    }
    for (destination, outcomes) in destinations() {
        if let Some(time) = outcomes.last_success_ms {
            page.push(&rows::REPORT_LAST_SUCCESS, &[destination], seconds(time));
        }
    }
    for (destination, outcomes) in destinations() {
        page.push(&rows::REPORT_OVERDUE, &[destination], u64::from(outcomes.overdue));
    }
    page.push(&rows::REPORT_RESTATEMENTS, &[], tally.restated);
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

#[cfg(test)]
mod tests;
