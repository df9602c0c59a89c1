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

fn counted(series: &[Series], intervals: &[Interval]) -> Vec<Achieved> {
    measure(series, intervals, &WINDOW, &Thresholds::default())
}

fn told(series: &[Series]) -> Vec<(Served, Option<String>, f64)> {
    let rows = counted(series, &[held_by("ml/server")]);
    let kinds = |row: Achieved| {
        let of = |(kind, (amount, _)): (Served, (f64, String))| (kind, row.model.clone(), amount);
        row.served.unwrap().amounts.into_iter().map(of).collect::<Vec<_>>()
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
    let rows = counted(std::slice::from_ref(&running), &[held_by("ml/server")]);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.served.clone(), row.amount, row.covered_ms), (Some(Counted::default()), 0.0, 60 * MINUTE));
    assert_eq!((row.owner.as_deref(), row.model.as_deref()), (Some("ml/server"), Some("m")));
    let counter = grows("sglang:num_requests_total", &[("model_name", "m")], 1.0);
    assert_eq!(told(&[running.clone(), counter.clone()]), [(Served::Requests, Some("m".into()), 60.0)]);
    let samples = counter.samples[40..].to_vec();
    let late = counted(&[running, Series { samples, ..counter }], &[held_by("ml/server")]);
    assert_eq!((late[0].amount, late[0].covered_ms), (20.0, 60 * MINUTE), "it was there before it counted");
}

#[test]
fn every_kind_of_every_server_is_counted_once() {
    let sources = ["local_compute", "local_cache_hit", "external_kv_transfer"];
    let by_source = sources.map(|source| {
        grows("vllm:prompt_tokens_by_source_total", &[("engine", "0"), ("model_name", "m"), ("source", source)], 2.0)
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
    assert_eq!(told(&[grows("llamacpp:tokens_predicted_total", &[], 1.0)]), [(Served::GenerationTokens, None, 60.0)]);
}

#[test]
fn two_models_of_one_server_are_two_rows() {
    let of = |model: &str, n| grows("nv_inference_request_success", &[("model", model), ("version", "1")], n);
    let rows = told(&[of("resnet", 2.0), of("bert", 1.0)]);
    assert_eq!(rows, [(Served::Requests, Some("bert".into()), 60.0), (Served::Requests, Some("resnet".into()), 120.0)]);
}

#[test]
fn a_server_that_fits_no_owner_or_two_has_none() {
    let series = [grows("vllm:generation_tokens_total", &[("engine", "0")], 10.0)];
    let owner = |intervals: &[Interval]| {
        let all = counted(&series, intervals);
        let [row] = &all[..] else { panic!("{all:?}") };
        assert_eq!((row.subject.as_str(), row.amount, row.covered_ms), ("ml/server", 600.0, 60 * MINUTE));
        row.owner.clone()
    };
    let of = |cluster: &str| Interval { cluster: Some(cluster.into()), ..held_by("ml/server") };
    assert_eq!(owner(&[held_by("ml/other")]), None);
    assert_eq!(owner(&[of("east"), of("west")]), None);
    assert_eq!(owner(&[of("east"), held_by("ml/other")]).as_deref(), Some("ml/server"));
    let named = grows("vllm:generation_tokens_total", &[("cluster", "east")], 10.0);
    let rows = counted(&[named], &[held_by("ml/server")]);
    assert_eq!((rows[0].owner.is_some(), &rows[0].cluster), (true, &None), "as its GPUs have it");
    let bare = grows("llamacpp:tokens_predicted_total", &[("pod", ""), ("namespace", "")], 1.0);
    let rows = counted(&[bare], &[held_by("slurm-7")]);
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

/// The buckets of a histogram that grows by these counts a minute, up to each bound.
fn buckets(metric: &str, more: &[(&str, &str)], per_minute: &[(&str, f64)]) -> Vec<Series> {
    let of = |(bound, count): &(&str, f64)| grows(metric, &[more, &[("le", bound)]].concat(), *count);
    per_minute.iter().map(of).collect()
}

fn timed(series: &[Series]) -> Vec<(Latency, f64, std::ops::RangeInclusive<f64>)> {
    let rows = counted(series, &[held_by("ml/server")]);
    let latencies = rows.into_iter().flat_map(|row| row.served.unwrap().latencies);
    latencies.map(|(latency, histogram)| (latency, histogram.count(), histogram.within(2.0))).collect()
}

#[test]
fn histograms_of_requests_are_summed_as_their_counters_are() {
    let metric = "vllm:time_to_first_token_seconds_bucket";
    let of = |more: &[(&str, &str)]| buckets(metric, more, &[("1.0", 1.0), ("2.5", 3.0), ("+Inf", 4.0)]);
    let requests = grows("vllm:request_success_total", &[("finished_reason", "stop")], 4.0);
    let with = |series: Vec<Series>| timed(&[vec![requests.clone()], series].concat());
    assert_eq!(with(of(&[])), [(Latency::TimeToFirstToken, 240.0, 60.0..=180.0)]);
    let engines = [of(&[("engine", "0")]), of(&[("engine", "1")])].concat();
    assert_eq!(with(engines), [(Latency::TimeToFirstToken, 480.0, 120.0..=360.0)]);
    let ranks = [of(&[("tp_rank", "0")]), of(&[("tp_rank", "1")])].concat();
    assert_eq!(with(ranks), [(Latency::TimeToFirstToken, 240.0, 60.0..=180.0)]);
    let jobs = [of(&[("job", "a")]), of(&[("job", "b"), ("app", "x")])].concat();
    assert_eq!(with(jobs), [(Latency::TimeToFirstToken, 240.0, 60.0..=180.0)]);
    let without_all = buckets(metric, &[], &[("1.0", 1.0), ("2.5", 3.0)]);
    assert_eq!(with(without_all), []);
    assert_eq!(with(buckets(metric, &[], &[("1.0", 0.0), ("+Inf", 0.0)])), [], "no request");
}

#[test]
fn buckets_of_a_server_that_starts_again_go_on_from_zero() {
    let mut series = buckets("vllm:time_to_first_token_seconds_bucket", &[], &[("1.0", 1.0), ("+Inf", 4.0)]);
    series.push(grows("vllm:request_success_total", &[("finished_reason", "stop")], 4.0));
    for one in &mut series {
        let per_minute = one.samples[1].value - one.samples[0].value;
        (0..).zip(&mut one.samples).skip(30).for_each(|(n, sample)| sample.value = per_minute * f64::from(n - 30));
    }
    assert_eq!(timed(&series), [(Latency::TimeToFirstToken, 236.0, 59.0..=236.0)], "all but the minute of the start");
}

#[test]
fn bounds_of_triton_are_milliseconds() {
    let metric = "nv_inference_first_response_histogram_ms_bucket";
    let requests = grows("nv_inference_request_success", &[], 4.0);
    let series = [vec![requests], buckets(metric, &[], &[("2000", 1.0), ("5000", 3.0), ("+Inf", 4.0)])].concat();
    assert_eq!(timed(&series), [(Latency::TimeToFirstToken, 240.0, 60.0..=60.0)]);
}

#[test]
fn requests_that_failed_are_counted_twice_over() {
    let of = |reason, n| grows("vllm:request_success_total", &[("finished_reason", reason)], n);
    let rows = told(&[of("stop", 10.0), of("abort", 2.0), of("error", 1.0), of("length", 3.0)]);
    assert_eq!(rows, [(Served::Requests, None, 960.0), (Served::FailedRequests, None, 180.0)]);
}
