//! `/metrics`: the verdicts of final windows as gauges, and the analyzer's own state.
//!
//! Verdict metrics are gauges over final windows: a window judged again may come out lower, which a counter must not.

use std::collections::{BTreeMap, BTreeSet};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::conditions::Values;
use super::delivery::Tally;
use super::intake::Account;
use super::judging::Progress;
use super::reads::{ReadCounts, ReadLimits};
pub(super) use super::ways_in::WaysIn;
use crate::store::Stats;

mod forecasts;
mod store;

use crate::classify::{Class, Interval};

/// What the renderer writes.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Ratio = Gauge<f64, std::sync::atomic::AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GpuClass {
    node: String,
    gpu: String,
    class: &'static str,
    window: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Window {
    window: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Source {
    source: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Destination {
    destination: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Delivery {
    destination: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Limit {
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

/// The whole page. It is built from scratch, so that nothing that is gone lingers.
pub(super) fn render(
    progress: &Progress,
    account: &Account,
    tally: &Tally,
    ways_in: &WaysIn<'_>,
    (limits, reads): (&ReadLimits, ReadCounts),
    stats: &Stats,
) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("goodput");
    verdicts(&mut registry, progress);
    forecasts::register(&mut registry, &progress.prospects);
    of_itself(&mut registry, progress, account, tally, ways_in, stats);
    of_reads(registry.sub_registry_with_prefix("analyzer"), limits, reads);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// The part of the page that is about the analyzer, not about GPUs.
pub(super) fn values(
    progress: &Progress,
    account: &Account,
    tally: &Tally,
    ways_in: &WaysIn<'_>,
    stats: &Stats,
) -> Result<Values, std::fmt::Error> {
    let mut registry = Registry::with_prefix("goodput");
    of_itself(&mut registry, progress, account, tally, ways_in, stats);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(Values::read(&text))
}

fn of_itself(
    registry: &mut Registry,
    progress: &Progress,
    account: &Account,
    tally: &Tally,
    ways_in: &WaysIn<'_>,
    stats: &Stats,
) {
    let (replicated, in_doubt) = (ways_in.counts.replicated, stats.clock_in_doubt);
    own(registry.sub_registry_with_prefix("analyzer"), progress, account, replicated, in_doubt);
    ways_in.register(registry.sub_registry_with_prefix("analyzer"));
    deliveries(registry.sub_registry_with_prefix("analyzer"), tally);
    store::register(registry.sub_registry_with_prefix("analyzer_store"), stats);
}

fn verdicts(registry: &mut Registry, progress: &Progress) {
    let by_class = Family::<GpuClass, Ratio>::default();
    let fleet = Family::<Window, Ratio>::default();
    for (window, intervals) in [("hour", &progress.last_hour), ("5m", &progress.last_minutes)] {
        gpu_ratios(&by_class, window, intervals);
        if let Some(goodput) = goodput(intervals) {
            fleet.get_or_create(&Window { window }).set(goodput);
        }
    }
    registry.register(
        "gpu_class_ratio",
        "Share of the GPU's time in the class; productive always, others when they have any. \
         Window hour: the last one that is over; 5m: the last five minutes that are judged",
        by_class,
    );
    registry.register("fleet_ratio", "Productive GPU time over all GPU time; absent while none has data", fleet);
}

fn gpu_ratios(family: &Family<GpuClass, Ratio>, window: &'static str, intervals: &[Interval]) {
    let mut gpus: BTreeMap<(&str, &str), BTreeMap<Class, i64>> = BTreeMap::new();
    for i in intervals {
        *gpus.entry((&i.node, &i.gpu)).or_default().entry(i.class).or_default() += i.ms;
    }
    for ((node, gpu), mut classes) in gpus {
        let whole: i64 = classes.values().sum();
        classes.entry(Class::Productive).or_default();
        for (class, ms) in classes {
            let labels = GpuClass { node: node.into(), gpu: gpu.into(), class: class.name(), window };
            family.get_or_create(&labels).set(ms as f64 / whole as f64);
        }
    }
}

fn goodput(intervals: &[Interval]) -> Option<f64> {
    let sum = |wanted: &dyn Fn(Class) -> bool| intervals.iter().filter(|i| wanted(i.class)).map(|i| i.ms).sum::<i64>();
    let seen = sum(&|class| class != Class::NoData);
    (seen > 0).then(|| sum(&|class| class == Class::Productive) as f64 / sum(&|_| true) as f64)
}

fn own(registry: &mut Registry, progress: &Progress, account: &Account, replicated: u64, in_doubt: bool) {
    let build = Family::<Build, Gauge>::default();
    build.get_or_create(&Build { version: env!("CARGO_PKG_VERSION") }).set(1);
    registry.register("build_info", "Version of the analyzer", build);

    let samples = Family::<Outcome, Counter>::default();
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
        samples.get_or_create(&Outcome { outcome }).inc_by(count);
    }
    registry.register("received_samples", "Samples that came in, by what became of them", samples);

    let last = Family::<Source, Ratio>::default();
    for (source, time) in &account.last_sample {
        last.get_or_create(&Source { source: source.clone() }).set(seconds(*time));
    }
    registry.register(
        "last_sample_timestamp_seconds",
        "Time of the newest sample of each source, which is the instance label",
        last,
    );

    if let Some(time) = progress.judged_until_ms {
        let until = Ratio::default();
        // Samples that have come in since may change what is judged.
        until.set(seconds(account.earliest.map_or(time, |earliest| earliest.min(time))));
        registry.register("judged_timestamp_seconds", "Every cell that ends here or before has a verdict", until);
    }

    let took = Ratio::default();
    took.set(progress.took.as_secs_f64());
    registry.register("judge_duration_seconds", "How long the last round of judging took", took);

    let failures = Counter::<u64>::default();
    failures.inc_by(progress.failures);
    registry.register(
        "judge_failures",
        "Rounds of judging that failed, and windows that could not be judged",
        failures,
    );

    let failed = Gauge::<i64>::default();
    failed.set(i64::try_from(progress.failed_nodes.len()).unwrap_or(i64::MAX));
    let help = "Nodes whose last judging failed; they keep the verdicts that they had, and the log names them";
    registry.register("judge_failed_nodes", help, failed);

    let doubt = Gauge::<i64>::default();
    doubt.set(in_doubt.into());
    registry.register(
        "clock_in_doubt",
        "1 while the clock of this machine is in doubt: it stepped, or most samples of several senders lie ahead of it; \
         requests whose samples lie ahead of it are put off",
        doubt,
    );

    let dropped = Gauge::<i64>::default();
    dropped.set(progress.dropped_gpus as i64);
    registry.register("judge_dropped_gpus", "GPUs that are not judged: there are more than max_gpus", dropped);

    let nodes: BTreeSet<_> = progress.last_minutes.iter().map(|i| (&i.cluster, &i.node)).collect();
    let count = Gauge::<i64>::default();
    count.set(i64::try_from(nodes.len()).unwrap_or(i64::MAX));
    registry.register("nodes", "Nodes with GPUs in the last five minutes that are judged", count);
}

fn of_reads(registry: &mut Registry, limits: &ReadLimits, counts: ReadCounts) {
    let in_work = Gauge::<i64>::default();
    in_work.set(counts.in_work.cast_signed());
    registry.register("reads_in_work", "Pages and answers of the API that are being made", in_work);
    let refused = Counter::<u64>::default();
    refused.inc_by(counts.refused);
    let help = "Requests for pages and the API that were refused with status 503 because a limit was reached";
    registry.register("refused_reads", help, refused);
    let family = Family::<Limit, Gauge>::default();
    for (limit, value) in limits.list() {
        family.get_or_create(&Limit { limit }).set(value.cast_signed());
    }
    registry.register("read_limit", "Bounds of pages and the API, by their name in the configuration", family);
}

fn deliveries(registry: &mut Registry, tally: &Tally) {
    let deliveries = Family::<Delivery, Counter>::default();
    let last = Family::<Destination, Ratio>::default();
    let overdue = Family::<Destination, Gauge>::default();
    for (destination, outcomes) in &tally.destinations {
        let destination = destination.name();
        for (outcome, count) in
            [("delivered", outcomes.delivered), ("failed", outcomes.failed), ("refused", outcomes.refused)]
        {
            deliveries.get_or_create(&Delivery { destination, outcome }).inc_by(count);
        }
        overdue.get_or_create(&Destination { destination }).set(outcomes.overdue.into());
        if let Some(time) = outcomes.last_success_ms {
            last.get_or_create(&Destination { destination }).set(seconds(time));
        }
    }
    registry.register(
        "report_deliveries",
        "Attempts to deliver the weekly report: delivered; failed, to be repeated; refused for good",
        deliveries,
    );
    registry.register(
        "report_last_success_timestamp_seconds",
        "When the destination last took a weekly report; absent until the first",
        last,
    );
    registry.register("report_overdue", "1 while the last attempt to deliver the weekly report has failed", overdue);

    let restated = Counter::<u64>::default();
    restated.inc_by(tally.restated);
    registry.register("report_restatements", "Weeks whose verdicts had changed after their delivery", restated);
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}
