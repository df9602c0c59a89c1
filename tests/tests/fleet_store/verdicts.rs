//! A data directory with some of each kind of results, of nodes of the same name in two clusters.

use std::path::Path;

use goodput_exposition::sample::{Labels, Sample, Series};
use goodput_store::{Events as _, Ingest as _, Options, Ownership as _, Place, Replacement, Results as _, Store};
use goodput_testing::{START, advisory, ended, event, risk, saved, standing};
use goodput_verdict::event::{Event, Status};
use goodput_verdict::{
    Achieved, Class, Counted, Culprit, Energy, Evidence, FindingAction, HOUR_MS, Histogram, Interval, Kind, Latency,
    Memory, Outlook, Served, Version,
};

use super::contract::ownership;

/// Monday 2026-11-16, 00:00 UTC, in hours.
pub(super) const MONDAY: i64 = 498_552;

/// A week before, and the week, so that a report compares them.
pub(super) const HOURS: std::ops::Range<i64> = MONDAY - 7 * 24..MONDAY + 7 * 24;

/// What the report is about.
pub(super) const WEEK: [&str; 2] = ["--week", "2026-W47"];

const NODES: [(Option<&str>, &str); 3] = [(Some("east"), "n1"), (Some("west"), "n1"), (None, "n2")];

/// What an hour of a node went into. Some only differ in their ends, so that their order is that of no single column.
fn intervals(cluster: Option<&str>, node: &str, hour: i64) -> Vec<Interval> {
    let start = hour * HOUR_MS;
    let mut all = Vec::new();
    for gpu in 0..2 {
        let one = |class: Class, span: std::ops::Range<i64>, ms: i64| Interval {
            cluster: cluster.map(str::to_owned),
            // The same UUID in two clusters.
            gpu: format!("GPU-{node}-{gpu}"),
            node: node.to_owned(),
            model: Some("NVIDIA H100 80GB HBM3".into()),
            owner: (hour % 5 > 0).then(|| format!("ml/job-{}-{gpu}", hour / 24)),
            run: (hour % 5 > 0).then(|| format!("ml/PyTorchJob/job-{}", hour / 24)),
            account: (hour % 5 > 0).then(|| "ml".to_owned()),
            start_ms: start + span.start,
            end_ms: start + span.end,
            ms,
            confidence: 0.1 + 0.7 * ((hour % 7) as f64) / 9.0,
            busy_signal: Some("gr_engine_active".into()),
            evidence: ["gr_engine_active", "job_io_pressure"]
                .map(|signal| Evidence {
                    signal: signal.into(),
                    value: 1.0 / 3.0,
                    unit: "ratio".into(),
                    threshold: 0.3,
                })
                .into(),
            missing: vec!["gpu_busy".into()],
            energy: (hour % 3 > 0).then_some(Energy { mj: ms * 500, ms, counted_ms: ms }),
            charged_to: (class == Class::Straggler)
                .then(|| Culprit { node: "n2".into(), gpu: Some("GPU-n2-0".into()) }),
            variance_ms2: Some(250_000),
            version: Some(Version::of(class)),
            ..Interval::untimed(class)
        };
        all.push(one(Class::Productive, 0..HOUR_MS, HOUR_MS - 900_000));
        all.push(one(Class::DataloaderStorage, 0..1_200_000, 400_000));
        all.push(one(Class::DataloaderStorage, 0..2_400_000, 200_000));
        all.push(one(if hour % 2 == 0 { Class::Straggler } else { Class::Checkpoint }, 0..HOUR_MS, 300_000));
    }
    all
}

fn outlook(cluster: Option<&str>, node: &str, hour: i64) -> Outlook {
    let named = cluster.map(str::to_owned);
    let mut risk = risk(node, hour, Kind::Memory(Memory::Gpu));
    risk.last.cluster.clone_from(&named);
    let mut advisory = advisory(node, hour);
    advisory.cluster.clone_from(&named);
    let mut standing = standing(node, hour);
    standing.cluster = named;
    Outlook { risks: vec![risk], advisories: vec![advisory], standings: vec![standing] }
}

fn achieved(hour: i64) -> Achieved {
    let latency = Histogram::of_cumulative(vec![(0.3, 1.5), (f64::INFINITY, 2.0)]).unwrap();
    Achieved {
        cluster: Some("east".into()),
        metric: "steps_total".into(),
        unit: "steps".into(),
        start_ms: hour * HOUR_MS,
        end_ms: (hour + 1) * HOUR_MS,
        owner: Some(format!("ml/job-{}-0", hour / 24)),
        subject: "job".into(),
        amount: 100.0 / 7.0 * (hour % 11) as f64,
        covered_ms: HOUR_MS,
        ideal: Some(0.1),
        served: Some(Counted {
            amounts: [(Served::Requests, (0.1 + 0.2, "vllm:request_success_total".to_owned()))].into(),
            latencies: [(Latency::EndToEnd, latency)].into(),
            demand: vec![Some(0.25), None],
        }),
        model: Some("llama".to_owned()),
    }
}

/// What a run reported: two attempts; the second repeats steps.
pub(super) fn events() -> Vec<Event> {
    let at = |hour: i64| (MONDAY + hour) * HOUR_MS;
    vec![
        event(at(1), 1, START),
        event(at(2), 1, saved(1000)),
        event(at(3), 1, ended(Status::Failed)),
        event(at(4), 2, START),
        event(at(5), 2, saved(1500)),
    ]
}

/// Series that name the GPUs.
fn series() -> Vec<Series> {
    let named = |node: &str, gpu: &str| Series {
        labels: Labels::new([
            ("__name__", "DCGM_FI_DEV_GPU_UTIL"),
            ("Hostname", node),
            ("UUID", &format!("GPU-{node}-{gpu}")),
            ("gpu", gpu),
        ]),
        samples: vec![Sample { time_ms: MONDAY * HOUR_MS, value: 1.0 }],
    };
    vec![named("n1", "0"), named("n1", "1"), named("n2", "0")]
}

/// Fills a data directory; without its last hours, some days are not rolled up.
pub(super) async fn fill(dir: &Path) {
    let options = Options { now: || HOURS.end * HOUR_MS, ..Options::new(dir, |_| true) };
    let store =
        Store::open(Options { out_of_order: std::time::Duration::from_secs(400 * 86_400), ..options }).await.unwrap();
    store.append(series().into_iter().collect()).await.unwrap();
    for hour in HOURS {
        let window = hour * HOUR_MS..(hour + 1) * HOUR_MS;
        let by_node =
            NODES.map(|(cluster, node)| (cluster, node, intervals(cluster, node, hour), outlook(cluster, node, hour)));
        let new: Vec<Replacement<'_>> = by_node
            .iter()
            .map(|(cluster, node, intervals, outlook)| Replacement {
                place: Place { cluster: *cluster, node },
                intervals: Some(intervals),
                outlook: Some(outlook),
            })
            .collect();
        let refused = store.store_judged(window.clone(), window.end, &new).await.unwrap();
        assert!(refused.is_empty(), "{refused:?}");
        store.replace_achieved(window, &[achieved(hour)]).await.unwrap();
        if hour == MONDAY + 24 {
            store.roll_up_days().await.unwrap();
        }
    }
    store.add_events(&events()).await.unwrap();
    store.say(None, &ownership::said("abcdefghijkl", FindingAction::Acknowledge)).await.unwrap();
    store.note_finding_week("2026-W46", &[ownership::week("2026-W46", "abcdefghijkl")]).await.unwrap();
    store.close().await;
}
