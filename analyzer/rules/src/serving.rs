//! What inference servers count of what they serve, requests and tokens, joined to the owners of GPUs.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::application::{Growth, Who, holders, within};
use crate::frame::union_ms;
use crate::signal::{Signal, metrics_of, resolve};
use goodput_exposition::sample::{Labels, Series, TimeMs};
use goodput_verdict::owner::servers_named;
use goodput_verdict::{Achieved, Interval, Served};

/// What is counted, by the signal that tells it.
const COUNTED: [(Signal, Served); 4] = [
    (Signal::JobRequests, Served::Requests),
    (Signal::ServerPromptTokens, Served::PromptTokens),
    (Signal::ServerCachedTokens, Served::CachedTokens),
    (Signal::ServerGenerationTokens, Served::GenerationTokens),
];

/// The metrics that are counted.
#[must_use]
pub fn metrics() -> Vec<String> {
    metrics_of(&COUNTED.map(|(signal, _)| signal))
}

/// What one server counts: one kind, of one model.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct What {
    who: Who,
    served: Served,
    model: Option<String>,
}

/// The growths of one metric, by target and part: those of one part are copies, as the ranks of an engine report them.
type Parts<'a> = BTreeMap<(Option<&'a str>, Vec<&'a str>), Vec<Growth>>;

/// What was served in the window, one row per server, model and kind. `series` reaches beyond it by the longest gap that is
/// bridged; `intervals` are the window's verdicts: a server that fits none of their owners, or two, has no owner.
#[must_use]
pub fn measure(series: &[Series], intervals: &[Interval], window: &Range<TimeMs>) -> Vec<Achieved> {
    let holders = holders(intervals);
    // Of two metrics of one kind, the one that stands first in the table is taken.
    let mut all: BTreeMap<What, BTreeMap<(usize, &str), Parts<'_>>> = BTreeMap::new();
    for Series { labels, samples } in series {
        let Some(meaning) = resolve(labels) else { continue };
        let Some((_, served)) = COUNTED.iter().find(|(signal, _)| *signal == meaning.signal) else { continue };
        let Some(growth) = within(samples, window) else { continue };
        let names = servers_named(labels);
        let subject = names.first().map_or_else(|| labels.get("instance").unwrap_or_default(), String::as_str);
        let who = Who::of(labels, &names, subject, &holders);
        let metrics = all.entry(What { who, served: *served, model: model_of(labels) }).or_default();
        let parts = metrics.entry((meaning.rank, labels.metric())).or_default();
        parts.entry((labels.get("instance"), meaning.part)).or_default().push(growth);
    }
    let rows = all.into_iter().filter_map(|(what, metrics)| {
        let ((_, metric), parts) = metrics.into_iter().next()?;
        Some(what.achieved(metric, parts, window))
    });
    rows.collect()
}

/// The model that a server's series names.
fn model_of(labels: &Labels) -> Option<String> {
    labels.get("model_name").or_else(|| labels.get("model")).filter(|name| !name.is_empty()).map(str::to_owned)
}

impl What {
    fn achieved(self, metric: &str, parts: Parts<'_>, window: &Range<TimeMs>) -> Achieved {
        let most = |copies: &Vec<Growth>| copies.iter().map(|growth| growth.amount).fold(0.0, f64::max);
        let amount = parts.values().map(most).sum();
        let spans = parts.into_values().flatten().flat_map(|growth| growth.spans).collect();
        Achieved {
            cluster: self.who.cluster,
            metric: metric.to_owned(),
            unit: if self.served == Served::Requests { "requests" } else { "tokens" }.to_owned(),
            start_ms: window.start,
            end_ms: window.end,
            owner: self.who.owner,
            subject: self.who.subject,
            amount,
            covered_ms: union_ms(spans, std::slice::from_ref(window)).iter().sum(),
            ideal: None,
            served: Some(self.served),
            model: self.model,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_exposition::sample::Sample;
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
        rows.into_iter().map(|row| (row.served.unwrap(), row.model, row.amount)).collect()
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
        assert_eq!(told(&[grows("vllm:num_requests_running", &[], 1.0), grows("go_goroutines", &[], 1.0)]), []);
    }
}
