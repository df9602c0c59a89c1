//! Requests and tokens that inference servers count, joined to the owners of GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::application::{Growth, Who, holders, within};
use crate::frame::{STALENESS_MS, union_ms};
use crate::signal::{Signal, metrics_of, resolve};
use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_verdict::owner::servers_named;
use goodput_verdict::{Achieved, Interval, Served};

/// What is counted, by the signal that tells it.
const COUNTED: [(Signal, Served); 4] = [
    (Signal::JobRequests, Served::Requests),
    (Signal::ServerPromptTokens, Served::PromptTokens),
    (Signal::ServerCachedTokens, Served::CachedTokens),
    (Signal::ServerGenerationTokens, Served::GenerationTokens),
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
    counters().into_iter().chain(metrics_of(&IN_WORK)).collect()
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
    counted: BTreeMap<Served, Targets<'a>>,
    /// A gauge, and when it was there.
    there: Option<(&'a str, Vec<Range<TimeMs>>)>,
}

/// Labels in which copies of a series differ: ranks of an engine each report the whole. Series of one target and job that
/// differ in others are parts.
const OF_COPIES: [&str; 3] = ["tp_rank", "pp_rank", "moe_ep_rank"];

/// The growths of one metric, by the labels that tell parts apart.
type Parts<'a> = BTreeMap<Vec<(&'a str, &'a str)>, Vec<Growth>>;

/// By the job that scraped it. A target that two jobs scrape is told twice.
type Jobs<'a> = BTreeMap<Option<&'a str>, Parts<'a>>;

/// By target, the metrics of one kind. Of two, the one that stands first in the table is taken.
type Targets<'a> = BTreeMap<Option<&'a str>, BTreeMap<(usize, &'a str), Jobs<'a>>>;

/// The work of servers in the window, one row per server and model. `series` reaches beyond it by the longest gap that is
/// bridged; `intervals` are the window's verdicts: a server that fits none of their owners, or two, has no owner.
#[must_use]
pub fn measure(series: &[Series], intervals: &[Interval], window: &Range<TimeMs>) -> Vec<Achieved> {
    let holders = holders(intervals);
    let mut all: BTreeMap<Server, Reports<'_>> = BTreeMap::new();
    for Series { labels, samples } in series {
        let Some(meaning) = resolve(labels) else { continue };
        let names = servers_named(labels);
        let subject = names.first().map_or_else(|| labels.get("instance").unwrap_or_default(), String::as_str);
        let server = Server { who: Who::of(labels, &names, subject, &holders), model: model_of(labels) };
        if IN_WORK.contains(&meaning.signal) {
            let (_, spans) = all.entry(server).or_default().there.get_or_insert((labels.metric(), Vec::new()));
            spans.extend(seen(samples, window));
            continue;
        }
        let Some((_, served)) = COUNTED.iter().find(|(signal, _)| *signal == meaning.signal) else { continue };
        let Some(growth) = within(samples, window) else { continue };
        let targets = all.entry(server).or_default().counted.entry(*served).or_default();
        let metrics = targets.entry(labels.get("instance")).or_default();
        let part = labels.iter().filter(|(name, _)| !OF_COPIES.contains(name)).collect();
        let jobs = metrics.entry((meaning.rank, labels.metric())).or_default();
        jobs.entry(labels.get("job")).or_default().entry(part).or_default().push(growth);
    }
    let count = |reports: &Reports<'_>| !reports.counted.is_empty();
    let counting: BTreeSet<Who> =
        all.iter().filter(|(_, reports)| count(reports)).map(|(server, _)| server.who.clone()).collect();
    // A model without a counter says nothing where the server counts for others.
    let told = all.into_iter().filter(|(server, reports)| count(reports) || !counting.contains(&server.who));
    told.filter_map(|(server, reports)| server.row(reports, window)).collect()
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

impl Server {
    fn row(self, reports: Reports<'_>, window: &Range<TimeMs>) -> Option<Achieved> {
        let mut spans = Vec::new();
        let kinds = reports.counted.into_iter().filter_map(|(kind, targets)| Some((kind, sum(targets, &mut spans)?)));
        let served: BTreeMap<Served, (f64, String)> = kinds.collect();
        // Counters that begin within the window were at zero before, as far as the server was there.
        let gauge = reports.there.map(|(gauge, seen)| {
            spans.extend(seen);
            gauge
        });
        let (amount, metric) = match served.last_key_value() {
            Some((_, last)) => last.clone(),
            None => (0.0, gauge.filter(|_| !spans.is_empty())?.to_owned()),
        };
        let is_of_tokens = served.last_key_value().is_some_and(|(kind, _)| *kind != Served::Requests);
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
            served: Some(served),
            model: self.model,
        })
    }
}

/// What a kind grew by, and the first of its counters.
fn sum(targets: Targets<'_>, spans: &mut Vec<Range<TimeMs>>) -> Option<(f64, String)> {
    let (mut amount, mut metric) = (0.0, None);
    for ((_, name), jobs) in targets.into_values().filter_map(|metrics| metrics.into_iter().next()) {
        metric.get_or_insert_with(|| name.to_owned());
        let of_job = |parts: &Parts<'_>| parts.values().map(|copies| most(copies)).sum::<f64>();
        amount += jobs.values().map(of_job).fold(0.0, f64::max);
        let growths = jobs.into_values().flat_map(BTreeMap::into_values).flatten();
        spans.extend(growths.flat_map(|growth| growth.spans));
    }
    metric.filter(|_| amount.is_finite()).map(|metric| (amount, metric))
}

fn most(copies: &[Growth]) -> f64 {
    copies.iter().map(|growth| growth.amount).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_testing::bare;
    use goodput_verdict::Class;

    const MINUTE: i64 = 60_000;
    const WINDOW: Range<TimeMs> = 0..60 * MINUTE;

    fn held_by(owner: &str) -> Interval {
        Interval { owner: Some(owner.into()), ..bare(Class::Productive, WINDOW) }
    }

    /// A sample a minute of pod `ml/server`, `per_minute` more each time.
    fn grows(metric: &str, more: &[(&str, &str)], per_minute: f64) -> Series {
        let pod = [("__name__", metric), ("namespace", "ml"), ("pod", "server"), ("instance", "10.0.0.7:8000")];
        let sample = |n: i64| Sample { time_ms: n * MINUTE, value: 5.0 + per_minute * n as f64 };
        let labels = Labels::new(pod.into_iter().filter(|(name, _)| !more.iter().any(|(own, _)| own == name)));
        let labels = Labels::new(labels.iter().chain(more.iter().copied()));
        Series { labels, samples: (0..=60).map(sample).collect() }
    }

    fn told(series: &[Series]) -> Vec<(Served, Option<String>, f64)> {
        let rows = measure(series, &[held_by("ml/server")], &WINDOW);
        let kinds = |row: Achieved| {
            let of = |(kind, (amount, _)): (Served, (f64, String))| (kind, row.model.clone(), amount);
            row.served.unwrap().into_iter().map(of).collect::<Vec<_>>()
        };
        rows.into_iter().flat_map(kinds).collect()
    }

    #[test]
    fn engines_are_summed_and_ranks_are_copies() {
        let engine = |n: &str| grows("vllm:generation_tokens_total", &[("engine", n), ("model_name", "m")], 10.0);
        assert_eq!(told(&[engine("0"), engine("1")]), [(Served::GenerationTokens, Some("m".into()), 1200.0)]);
        let rank = |n: &str| grows("sglang:generation_tokens_total", &[("tp_rank", n), ("model_name", "m")], 10.0);
        let all: Vec<Series> = ["0", "1", "2", "3", "4", "5", "6", "7"].map(rank).into();
        assert_eq!(told(&all), [(Served::GenerationTokens, Some("m".into()), 600.0)]);
    }

    #[test]
    fn what_sglang_splits_a_counter_by_is_summed() {
        let of = |metric: &str, label: (&'static str, &'static str), n| grows(metric, &[label, ("model_name", "m")], n);
        for labels in [
            [("priority", "1"), ("priority", "2")],
            [("is_streaming", "true"), ("is_streaming", "false")],
            [("tenant", "a"), ("tenant", "b")],
        ] {
            let series = labels.map(|label| of("sglang:generation_tokens_total", label, 10.0));
            assert_eq!(told(&series), [(Served::GenerationTokens, Some("m".into()), 1200.0)], "{labels:?}");
        }
        let sources = [("cache_source", "device"), ("cache_source", "host")];
        let series = sources.map(|label| of("sglang:cached_tokens_total", label, 5.0));
        assert_eq!(told(&series), [(Served::CachedTokens, Some("m".into()), 600.0)]);
        let decode = [("engine_type", "decode"), ("model_name", "m")];
        assert_eq!(told(&[grows("sglang:prompt_tokens_total", &decode, 5.0)]), [], "its prefill server counts them");
    }

    #[test]
    fn a_target_that_two_jobs_scrape_counts_once_and_two_targets_twice() {
        let of = |label| grows("vllm:generation_tokens_total", &[label, ("model_name", "m")], 10.0);
        assert_eq!(told(&[of(("job", "a")), of(("job", "b"))])[0].2, 600.0);
        let labelled = [("job", "b"), ("app", "vllm"), ("model_name", "m")];
        let labelled = grows("vllm:generation_tokens_total", &labelled, 10.0);
        assert_eq!(told(&[of(("job", "a")), labelled])[0].2, 600.0, "with labels of its own");
        assert_eq!(told(&[of(("instance", "a:1")), of(("instance", "b:1"))])[0].2, 1200.0);
        let old = grows("vllm:prefix_cache_hits_total", &[("instance", "a:1")], 1.0);
        let new = [("instance", "b:1"), ("source", "local_cache_hit")];
        let new = grows("vllm:prompt_tokens_by_source_total", &new, 2.0);
        assert_eq!(told(&[old, new]), [(Served::CachedTokens, None, 180.0)], "each by its own metric");
    }

    #[test]
    fn a_server_that_counts_nothing_yet_is_there() {
        let running = grows("sglang:num_running_reqs", &[("model_name", "m")], 0.0);
        let rows = measure(std::slice::from_ref(&running), &[held_by("ml/server")], &WINDOW);
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((row.served.clone(), row.amount, row.covered_ms), (Some(BTreeMap::new()), 0.0, 60 * MINUTE));
        assert_eq!((row.owner.as_deref(), row.model.as_deref()), (Some("ml/server"), Some("m")));
        let counter = grows("sglang:num_requests_total", &[("model_name", "m")], 1.0);
        assert_eq!(told(&[running.clone(), counter.clone()]), [(Served::Requests, Some("m".into()), 60.0)]);
        let samples = counter.samples[40..].to_vec();
        let late = measure(&[running, Series { samples, ..counter }], &[held_by("ml/server")], &WINDOW);
        assert_eq!((late[0].amount, late[0].covered_ms), (20.0, 60 * MINUTE), "it was there before it counted");
    }

    #[test]
    fn every_kind_of_every_server_is_counted_once() {
        let sources = ["local_compute", "local_cache_hit", "external_kv_transfer"];
        let by_source = sources.map(|source| {
            grows(
                "vllm:prompt_tokens_by_source_total",
                &[("engine", "0"), ("model_name", "m"), ("source", source)],
                2.0,
            )
        });
        let plain = [
            grows("vllm:prompt_tokens_total", &[("engine", "0"), ("model_name", "m")], 6.0),
            grows("vllm:prefix_cache_hits_total", &[("engine", "0"), ("model_name", "m")], 5.0),
            grows("vllm:request_success_total", &[("model_name", "m"), ("finished_reason", "stop")], 1.0),
            grows("vllm:request_success_total", &[("model_name", "m"), ("finished_reason", "length")], 1.0),
        ];
        let m = || Some("m".to_owned());
        let (prompts, requests) = ((Served::PromptTokens, m(), 360.0), (Served::Requests, m(), 120.0));
        let all = [&plain[..], &by_source].concat();
        assert_eq!(told(&all), [requests.clone(), prompts.clone(), (Served::CachedTokens, m(), 240.0)]);
        assert_eq!(told(&plain), [requests, prompts, (Served::CachedTokens, m(), 300.0)], "of older releases");
        for metric in ["ray_vllm:generation_tokens_total", "ray_vllm_generation_tokens_total"] {
            let ray = grows(metric, &[("ReplicaId", "a"), ("model_name", "m")], 1.0);
            assert_eq!(told(&[ray]), [(Served::GenerationTokens, m(), 60.0)]);
        }
        assert_eq!(
            told(&[grows("llamacpp:tokens_predicted_total", &[], 1.0)]),
            [(Served::GenerationTokens, None, 60.0)]
        );
    }

    #[test]
    fn two_models_of_one_server_are_two_rows() {
        let of = |model: &str, n| grows("nv_inference_request_success", &[("model", model), ("version", "1")], n);
        let rows = told(&[of("resnet", 2.0), of("bert", 1.0)]);
        assert_eq!(
            rows,
            [(Served::Requests, Some("bert".into()), 60.0), (Served::Requests, Some("resnet".into()), 120.0)]
        );
    }

    #[test]
    fn a_server_that_fits_no_owner_or_two_has_none() {
        let series = [grows("vllm:generation_tokens_total", &[("engine", "0")], 10.0)];
        let owner = |intervals: &[Interval]| {
            let all = measure(&series, intervals, &WINDOW);
            let [row] = &all[..] else { panic!("{all:?}") };
            assert_eq!((row.subject.as_str(), row.amount, row.covered_ms), ("ml/server", 600.0, 60 * MINUTE));
            row.owner.clone()
        };
        let of = |cluster: &str| Interval { cluster: Some(cluster.into()), ..held_by("ml/server") };
        assert_eq!(owner(&[held_by("ml/other")]), None);
        assert_eq!(owner(&[of("east"), of("west")]), None);
        assert_eq!(owner(&[of("east"), held_by("ml/other")]).as_deref(), Some("ml/server"));
        let named = grows("vllm:generation_tokens_total", &[("cluster", "east")], 10.0);
        let rows = measure(&[named], &[held_by("ml/server")], &WINDOW);
        assert_eq!((rows[0].owner.is_some(), &rows[0].cluster), (true, &None), "as its GPUs have it");
        let bare = grows("llamacpp:tokens_predicted_total", &[("pod", ""), ("namespace", "")], 1.0);
        let rows = measure(&[bare], &[held_by("slurm-7")], &WINDOW);
        assert_eq!((rows[0].owner.as_deref(), rows[0].subject.as_str()), (None, "10.0.0.7:8000"));
    }

    #[test]
    fn a_restart_counts_from_zero_and_what_is_no_counter_of_a_server_is_nothing() {
        let mut series = grows("vllm:generation_tokens_total", &[], 10.0);
        for (n, sample) in (0..).zip(&mut series.samples).skip(30) {
            sample.value = 10.0 * f64::from(n - 30);
        }
        assert_eq!(told(&[series]), [(Served::GenerationTokens, None, 290.0 + 300.0)]);
        assert_eq!(told(&[grows("vllm:iteration_tokens_total_count", &[], 1.0), grows("go_goroutines", &[], 1.0)]), []);
    }
}
