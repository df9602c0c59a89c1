//! Requests and tokens that inference servers count, joined to the owners of GPUs.

mod demand;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use demand::Engines;

use crate::application::{Growth, Who, holders, within};
use crate::classify::thresholds::Thresholds;
use crate::frame::{STALENESS_MS, union_ms};
use crate::signal::{Meaning, Signal, metrics_of, resolve};
use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_verdict::owner::servers_named;
use goodput_verdict::{Achieved, Counted, Histogram, Interval, Latency, Served};

/// What is counted, by the signal that tells it.
const COUNTED: [(Signal, Served); 4] = [
    (Signal::JobRequests, Served::Requests),
    (Signal::ServerPromptTokens, Served::PromptTokens),
    (Signal::ServerCachedTokens, Served::CachedTokens),
    (Signal::ServerGenerationTokens, Served::GenerationTokens),
];

/// How long requests took, by the signal that tells it.
const TIMED: [(Signal, Latency); 3] = [
    (Signal::ServerTimeToFirstToken, Latency::TimeToFirstToken),
    (Signal::ServerTimePerOutputToken, Latency::TimePerOutputToken),
    (Signal::ServerEndToEnd, Latency::EndToEnd),
];

/// A server that reports these is there.
const IN_WORK: [Signal; 2] = [Signal::JobRequestsOpen, Signal::JobRequestsWaiting];

/// The counters.
#[must_use]
pub fn counters() -> Vec<String> {
    metrics_of(&COUNTED.map(|(signal, _)| signal))
}

/// All metrics that are looked at.
#[must_use]
pub fn metrics() -> Vec<String> {
    let timed = metrics_of(&TIMED.map(|(signal, _)| signal));
    let gauges = metrics_of(&IN_WORK);
    let all: BTreeSet<String> = counters().into_iter().chain(timed).chain(gauges).chain(demand::metrics()).collect();
    all.into_iter().collect()
}

/// One model of a server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Server {
    who: Who,
    model: Option<String>,
}

/// What one of them reported.
#[derive(Default)]
struct Reports<'a> {
    counted: BTreeMap<Served, Targets<'a, Vec<Growth>>>,
    timed: BTreeMap<Latency, Targets<'a, Copies<'a>>>,
    engines: Engines<'a>,
    /// A gauge, and when it was there.
    there: Option<(&'a str, Vec<Range<TimeMs>>)>,
}

/// Labels in which copies of a series differ: ranks of an engine each report the whole. Series of one target and job that
/// differ in others are parts.
const OF_COPIES: [&str; 3] = ["tp_rank", "pp_rank", "moe_ep_rank"];

/// Values of a request's label that says how it ended: without a whole answer.
const FAILED: [&str; 2] = ["abort", "error"];

/// Labels that tell parts apart, or copies.
type Told<'a> = Vec<(&'a str, &'a str)>;

/// Of each copy the growths of its buckets, by their bounds in seconds.
type Copies<'a> = BTreeMap<Told<'a>, Vec<(f64, f64)>>;

/// What one metric told, by the labels that tell parts apart.
type Parts<'a, T> = BTreeMap<Told<'a>, T>;

/// By the job that scraped it. A target that two jobs scrape is told twice.
type Jobs<'a, T> = BTreeMap<Option<&'a str>, Parts<'a, T>>;

/// By target, the metrics of one kind. Of two, the one that stands first in the table is taken.
type Targets<'a, T> = BTreeMap<Option<&'a str>, BTreeMap<(usize, &'a str), Jobs<'a, T>>>;

/// The work of servers in the window, one row per server and model. `series` reaches beyond it by the longest gap that is
/// bridged; `intervals` are the window's verdicts: a server that fits none of their owners, or two, has no owner.
#[must_use]
pub fn measure(series: &[Series], intervals: &[Interval], window: &Range<TimeMs>, t: &Thresholds) -> Vec<Achieved> {
    let holders = holders(intervals);
    let mut all: BTreeMap<Server, Reports<'_>> = BTreeMap::new();
    for Series { labels, samples } in series {
        let Some(meaning) = resolve(labels) else { continue };
        let names = servers_named(labels);
        let subject = names.first().map_or_else(|| labels.get("instance").unwrap_or_default(), String::as_str);
        let server = Server { who: Who::of(labels, &names, subject, &holders), model: model_of(labels) };
        let reports = all.entry(server).or_default();
        reports.engines.add(labels, &meaning, samples, window);
        if IN_WORK.contains(&meaning.signal) {
            let (_, spans) = reports.there.get_or_insert((labels.metric(), Vec::new()));
            spans.extend(seen(samples, window));
            continue;
        }
        let Some(growth) = within(samples, window) else { continue };
        reports.add(labels, &meaning, growth);
    }
    let count = |reports: &Reports<'_>| !reports.counted.is_empty();
    let counting: BTreeSet<Who> =
        all.iter().filter(|(_, reports)| count(reports)).map(|(server, _)| server.who.clone()).collect();
    // A model without a counter says nothing where the server counts for others.
    let told = all.into_iter().filter(|(server, reports)| count(reports) || !counting.contains(&server.who));
    told.filter_map(|(server, reports)| server.row(reports, window, t)).collect()
}

/// The parts of the window that these samples of a gauge speak for.
fn seen(samples: &[Sample], window: &Range<TimeMs>) -> impl Iterator<Item = Range<TimeMs>> {
    let near = samples.windows(2).filter(|pair| pair[1].time_ms - pair[0].time_ms <= STALENESS_MS);
    let cut = near.map(|pair| pair[0].time_ms.max(window.start)..pair[1].time_ms.min(window.end));
    cut.filter(|span| !span.is_empty())
}

/// The model that a server's series names.
fn model_of(labels: &Labels) -> Option<String> {
    labels.get("model_name").or_else(|| labels.get("model")).filter(|name| !name.is_empty()).map(str::to_owned)
}

impl<'a> Reports<'a> {
    /// With the growth of a counter, or of one bucket of a histogram.
    fn add(&mut self, labels: &'a Labels, meaning: &Meaning<'_>, growth: Growth) {
        if let Some((_, latency)) = TIMED.iter().find(|(signal, _)| *signal == meaning.signal) {
            let Some(bound) = labels.get("le").and_then(|text| text.parse::<f64>().ok()) else { return };
            let copy = labels.iter().filter(|(name, _)| OF_COPIES.contains(name)).collect();
            let copies = part_of(self.timed.entry(*latency).or_default(), labels, meaning.rank);
            copies.entry(copy).or_default().push((bound * meaning.scale, growth.amount));
            return;
        }
        let Some((_, served)) = COUNTED.iter().find(|(signal, _)| *signal == meaning.signal) else { return };
        let is_failed = labels.get("finished_reason").is_some_and(|reason| FAILED.contains(&reason));
        if is_failed && *served == Served::Requests {
            part_of(self.counted.entry(Served::FailedRequests).or_default(), labels, meaning.rank).push(growth.clone());
        }
        part_of(self.counted.entry(*served).or_default(), labels, meaning.rank).push(growth);
    }
}

/// Where what a series tells belongs.
fn part_of<'t, 'a, T: Default>(targets: &'t mut Targets<'a, T>, labels: &'a Labels, rank: usize) -> &'t mut T {
    let metrics = targets.entry(labels.get("instance")).or_default();
    let jobs = metrics.entry((rank, labels.metric())).or_default();
    let part = labels.iter().filter(|(name, _)| !OF_COPIES.contains(name) && *name != "le").collect();
    jobs.entry(labels.get("job")).or_default().entry(part).or_default()
}

impl Server {
    fn row(self, reports: Reports<'_>, window: &Range<TimeMs>, t: &Thresholds) -> Option<Achieved> {
        let mut spans = Vec::new();
        let kinds = reports.counted.into_iter().filter_map(|(kind, targets)| Some((kind, sum(targets, &mut spans)?)));
        let amounts: BTreeMap<Served, (f64, String)> = kinds.collect();
        let timed = reports.timed.into_iter().filter_map(|(latency, targets)| Some((latency, histogram(targets)?)));
        let latencies = timed.collect();
        let demand = reports.engines.demand(window, t);
        // Counters that begin within the window were at zero before, as far as the server was there.
        let gauge = reports.there.map(|(gauge, seen)| {
            spans.extend(seen);
            gauge
        });
        let last = amounts.iter().rfind(|(kind, _)| **kind != Served::FailedRequests);
        let (amount, metric) = match last {
            Some((_, last)) => last.clone(),
            None => (0.0, gauge.filter(|_| !spans.is_empty())?.to_owned()),
        };
        let is_of_tokens = last.is_some_and(|(kind, _)| *kind != Served::Requests);
        Some(Achieved {
            cluster: self.who.cluster,
            metric,
            unit: if is_of_tokens { "tokens" } else { "requests" }.to_owned(),
            start_ms: window.start,
            end_ms: window.end,
            owner: self.who.owner,
            subject: self.who.subject,
            amount,
            covered_ms: union_ms(spans, std::slice::from_ref(window)).iter().sum(),
            ideal: None,
            served: Some(Counted { amounts, latencies, demand }),
            model: self.model,
        })
    }
}

/// What a kind grew by, and the first of its counters.
fn sum(targets: Targets<'_, Vec<Growth>>, spans: &mut Vec<Range<TimeMs>>) -> Option<(f64, String)> {
    let (mut amount, mut metric) = (0.0, None);
    for ((_, name), jobs) in targets.into_values().filter_map(|metrics| metrics.into_iter().next()) {
        metric.get_or_insert_with(|| name.to_owned());
        let of_job = |parts: &Parts<'_, Vec<Growth>>| parts.values().map(|copies| most(copies)).sum::<f64>();
        amount += jobs.values().map(of_job).fold(0.0, f64::max);
        let growths = jobs.into_values().flat_map(BTreeMap::into_values).flatten();
        spans.extend(growths.flat_map(|growth| growth.spans));
    }
    metric.filter(|_| amount.is_finite()).map(|metric| (amount, metric))
}

/// The latencies of all targets; `None` where no request is known.
fn histogram(targets: Targets<'_, Copies<'_>>) -> Option<Histogram> {
    let largest = |all: &mut dyn Iterator<Item = Histogram>| all.max_by(|a, b| a.count().total_cmp(&b.count()));
    let of_part = |copies: Copies<'_>| largest(&mut copies.into_values().filter_map(Histogram::of_cumulative));
    let of_job = |parts: Parts<'_, Copies<'_>>| added(parts.into_values().filter_map(of_part));
    let jobs = targets.into_values().filter_map(|metrics| metrics.into_values().next());
    let all = added(jobs.filter_map(|jobs| largest(&mut jobs.into_values().map(of_job))));
    (all.count() > 0.0).then_some(all)
}

fn added(all: impl Iterator<Item = Histogram>) -> Histogram {
    all.fold(Histogram::default(), |mut sum, one| {
        sum.add(&one);
        sum
    })
}

fn most(copies: &[Growth]) -> f64 {
    copies.iter().map(|growth| growth.amount).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
