//! Servers: what their own clock says of the time in which their GPUs had no kernels, and what makes it no clock.

use std::collections::BTreeMap;
use std::path::Path;

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_rules::signal::resolve;

use crate::recorded::line;

const MINUTE: TimeMs = 60_000;
const POD: [(&str, &str); 3] = [("namespace", "ml"), ("pod", "llm-0"), ("container", "main")];

fn series(name: &str, labels: &[(&str, &str)], value: impl Fn(TimeMs) -> f64) -> Series {
    let samples = (0..80).map(|i| Sample { time_ms: i * 15_000, value: value(i * 15_000) }).collect();
    Series { labels: Labels::new([("__name__", name)].into_iter().chain(labels.iter().copied())), samples }
}

/// A level of the server's pod.
fn level(name: &str, value: f64) -> Series {
    series(name, &POD, move |_| value)
}

/// A counter of the server's pod that grows by so much a second.
fn counter(name: &str, more: &[(&str, &str)], rate: f64) -> Series {
    series(name, &[&POD[..], more].concat(), move |t| rate * t as f64 / 1000.0)
}

/// A GPU with kernels for this share of the time, which the pod holds.
fn gpu(uuid: &str, busy: f64) -> Vec<Series> {
    let device = [("UUID", uuid), ("pod", "llm-0"), ("namespace", "ml"), ("node", "n1")];
    let used = series("DCGM_FI_DEV_FB_USED", &device, |_| 70_000.0);
    vec![series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &device, move |_| busy), used]
}

/// What vLLM reports about an engine that works for `active` of the time, with steps of 20 ms, and whose front end has `front`
/// requests in the mean; at every scrape `open` are open.
fn vllm(active: f64, front: f64, open: f64) -> Vec<Series> {
    let count = |name: &str, rate| counter(&format!("vllm:{name}"), &[("engine", "0")], rate);
    vec![
        level("vllm:num_requests_running", open),
        level("vllm:num_requests_waiting", 0.0),
        count("iteration_tokens_total_count", active * 50.0),
        count("inter_token_latency_seconds_count", active * 200.0),
        count("inter_token_latency_seconds_sum", active * 4.0),
        count("request_prefill_time_seconds_sum", 0.0),
        count("e2e_request_latency_seconds_sum", active * 4.0 + front),
        count("request_queue_time_seconds_sum", 0.0),
        count("request_inference_time_seconds_sum", active * 4.0),
    ]
}

/// Of each class the share of the time of the first GPU.
fn told(all: impl IntoIterator<Item = Series>) -> BTreeMap<&'static str, f64> {
    let all: Vec<Series> = all.into_iter().collect();
    let judged = judge_series(&all, 8 * MINUTE..12 * MINUTE, &Thresholds::default()).unwrap();
    let mut sums = BTreeMap::new();
    for interval in judged.intervals.iter().filter(|interval| interval.gpu == "GPU-1") {
        *sums.entry(interval.class.name()).or_insert(0.0) += interval.ms as f64 / (4 * MINUTE) as f64;
    }
    sums.values_mut().for_each(|share: &mut f64| *share = (*share * 100.0).round() / 100.0);
    sums
}

fn of<const N: usize>(shares: [(&'static str, f64); N]) -> BTreeMap<&'static str, f64> {
    shares.into()
}

#[test]
fn pauses_without_requests_are_told_by_the_servers_clock_however_short() {
    let all = gpu("GPU-1", 0.25).into_iter().chain(vllm(0.25, 0.0, 0.0));
    assert_eq!(told(all), of([("no_demand", 0.75), ("productive", 0.25)]));
    let all = gpu("GPU-1", 0.0).into_iter().chain(vllm(0.0, 0.0, 0.0));
    assert_eq!(told(all), of([("no_demand", 1.0)]), "not held idle");
}

#[test]
fn what_requests_spend_outside_the_engine_is_its_front_ends() {
    let all = gpu("GPU-1", 0.25).into_iter().chain(vllm(0.25, 1.0, 0.0));
    let half = of([("no_demand", 0.38), ("productive", 0.25), ("serving_host", 0.38)]);
    assert_eq!(told(all), half, "a mean of one request: there is one for half of the time");
    let all = gpu("GPU-1", 0.25).into_iter().chain(vllm(0.25, 0.05, 0.0));
    assert_eq!(told(all), of([("no_demand", 0.75), ("productive", 0.25)]), "any request takes a while");
}

/// What SGLang reports about an engine that has requests for `active` of the time; its scheduler works without a step for `alone`.
fn sglang(active: f64, alone: f64) -> Vec<Series> {
    let stage = |category, rate| {
        let labels = [("category", category), ("forward_overlap", "none")];
        counter("sglang:scheduler_stage_seconds_total", &labels, rate)
    };
    vec![
        level("sglang:num_running_reqs", 0.0),
        counter("sglang:scheduler_idle_seconds_total", &[], 1.0 - active),
        stage("idle", 1.0 - active),
        stage("schedule", alone),
    ]
}

#[test]
fn an_engine_with_requests_and_without_steps_is_held_up_by_its_scheduler_only_if_that_says_so() {
    let judged = |alone| told(gpu("GPU-1", 0.25).into_iter().chain(sglang(0.75, alone)));
    assert_eq!(judged(0.0), of([("no_demand", 0.25), ("productive", 0.25), ("unexplained", 0.5)]), "idle is no stage");
    assert_eq!(judged(0.4), of([("no_demand", 0.25), ("productive", 0.25), ("serving_host", 0.5)]));
    let steps = told(gpu("GPU-1", 0.25).into_iter().chain(vllm(0.75, 1.0, 0.0)));
    let front = of([("no_demand", 0.13), ("productive", 0.25), ("serving_host", 0.13), ("unexplained", 0.5)]);
    assert_eq!(steps, front, "steps are counted more than once where several API servers are");
}

#[test]
fn equal_stages_of_a_pipeline_take_turns() {
    let stages = ["GPU-1", "GPU-2", "GPU-3", "GPU-4"].into_iter().flat_map(|uuid| gpu(uuid, 0.2));
    let judged = told(stages.chain(sglang(0.9, 0.4)));
    assert_eq!(judged, of([("no_demand", 0.1), ("productive", 0.2), ("unexplained", 0.7)]));
}

#[test]
fn several_servers_of_one_owner_have_no_clock_together() {
    let of_port = |port: &'static str, active| {
        vllm(active, 0.0, 0.0).into_iter().map(move |series| {
            let labels: Vec<_> = series.labels.iter().chain([("instance", port)]).collect();
            Series { labels: Labels::new(labels), ..series }
        })
    };
    let all = gpu("GPU-1", 0.1).into_iter().chain(of_port("n1:8000", 0.9)).chain(of_port("n1:8001", 0.1));
    assert_eq!(told(all), of([("productive", 0.1), ("unexplained", 0.9)]));
    let one = gpu("GPU-1", 0.1).into_iter().chain(of_port("n1:8001", 0.1));
    assert_eq!(told(one), of([("no_demand", 0.9), ("productive", 0.1)]));
}

#[test]
fn a_job_that_trains_between_two_calls_of_its_server_is_no_server() {
    let device = [("UUID", "GPU-1"), ("pod", "llm-0"), ("namespace", "ml"), ("node", "n1")];
    let used = series("DCGM_FI_DEV_FB_USED", &device, |_| 70_000.0);
    let with = |busy: f64| {
        let works = series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &device, move |_| busy);
        let throttled = [
            counter("container_pressure_cpu_waiting_seconds_total", &[], 0.9),
            counter("container_cpu_usage_seconds_total", &[], 6.0),
        ];
        told([works, used.clone()].into_iter().chain(throttled).chain(vllm(0.0, 0.0, 0.0)))
    };
    assert_eq!(with(0.6), of([("dataloader_cpu", 0.4), ("productive", 0.6)]));
    assert_eq!(with(0.05), of([("no_demand", 0.95), ("productive", 0.05)]), "a server at rest");
}

#[test]
fn a_server_that_hangs_with_open_requests_has_demand() {
    let all = gpu("GPU-1", 0.0).into_iter().chain(vllm(0.0, 0.0, 5.0));
    assert_eq!(told(all), of([("unexplained", 1.0)]), "neither no_demand nor idle_held");
    let now_and_then = series("vllm:num_requests_running", &POD, |t| if t % (3 * MINUTE) == 0 { 0.0 } else { 5.0 });
    let others = vllm(0.0, 0.0, 0.0).into_iter().skip(1);
    let all = gpu("GPU-1", 0.0).into_iter().chain([now_and_then]).chain(others);
    assert_eq!(told(all).get("no_demand"), None, "one scrape of twelve without a request");
}

#[test]
fn other_work_on_the_gpu_and_gpus_unlike_each_other_make_the_clock_void() {
    let all = gpu("GPU-1", 0.6).into_iter().chain(vllm(0.25, 0.0, 0.0));
    assert_eq!(told(all), of([("productive", 0.6), ("unexplained", 0.4)]));
    let unlike = gpu("GPU-1", 0.2).into_iter().chain(gpu("GPU-2", 0.6)).chain(vllm(0.8, 0.0, 0.0));
    assert_eq!(told(unlike), of([("productive", 0.2), ("unexplained", 0.8)]));
    let ranks = gpu("GPU-1", 0.5).into_iter().chain(gpu("GPU-2", 0.5)).chain(vllm(0.5, 0.0, 0.0));
    assert_eq!(told(ranks), of([("no_demand", 0.5), ("productive", 0.5)]));
}

#[test]
fn ranks_repeat_what_their_engine_tells_and_engines_have_a_clock_each() {
    let sglang = |label: &'static str, idle: [f64; 2]| {
        let each = ["0", "1"].into_iter().zip(idle).flat_map(move |(rank, idle)| {
            let idle = counter("sglang:scheduler_idle_seconds_total", &[(label, rank)], idle);
            [idle, series("sglang:num_running_reqs", &[&POD[..], &[(label, rank)]].concat(), |_| 0.0)]
        });
        told(gpu("GPU-1", 0.3).into_iter().chain(each))
    };
    let expected = of([("no_demand", 0.7), ("productive", 0.3)]);
    assert_eq!(sglang("tp_rank", [0.7, 0.7]), expected, "not twice as idle");
    assert_eq!(sglang("dp_rank", [0.8, 0.6]), expected, "the mean, and not one of them");
}

/// The engine before ended at minute 7, and its series with it.
#[test]
fn an_engine_that_is_gone_counts_for_the_time_that_it_was_there() {
    let of_worker = |worker: &'static str, is_there: fn(TimeMs) -> bool| {
        sglang(0.3, 0.0).into_iter().map(move |series| Series {
            labels: Labels::new(series.labels.iter().chain([("WorkerId", worker)])),
            samples: series.samples.into_iter().filter(|s| is_there(s.time_ms)).collect(),
        })
    };
    let both = of_worker("a", |t| t < 7 * MINUTE).chain(of_worker("b", |t| t >= 7 * MINUTE));
    assert_eq!(told(gpu("GPU-1", 0.3).into_iter().chain(both)), of([("no_demand", 0.7), ("productive", 0.3)]));
}

#[test]
fn a_server_without_a_clock_of_its_engine_is_bounded_by_the_requests_that_are_open() {
    for (name, scale) in [
        ("trtllm_e2e_request_latency_seconds_sum", 1.0),
        ("tgi_request_duration_sum", 1.0),
        ("ray_vllm_e2e_request_latency_seconds_sum", 1.0),
    ] {
        let open =
            if name.starts_with("ray") { "ray_vllm_num_requests_running" } else { "trtllm_num_requests_running" };
        let all = gpu("GPU-1", 0.1).into_iter().chain([level(open, 0.0), counter(name, &[], 0.4 * scale)]);
        assert_eq!(told(all), of([("no_demand", 0.6), ("productive", 0.1), ("unexplained", 0.3)]), "{name}");
    }
}

/// Requests that stream and those that do not are counted apart.
#[test]
fn parts_of_one_engine_are_summed() {
    let part = |streams| counter("sglang:e2e_request_latency_seconds_sum", &[("is_streaming", streams)], 0.2);
    let all = [level("sglang:num_running_reqs", 0.0), level("sglang:num_queue_reqs", 0.4), part("true"), part("false")];
    let judged = told(gpu("GPU-1", 0.1).into_iter().chain(all));
    assert_eq!(judged, of([("no_demand", 0.6), ("productive", 0.1), ("unexplained", 0.3)]), "0.4 open in the mean");
}

#[test]
fn tokens_that_are_computed_again_are_taken_out_of_the_work() {
    let tokens = |name: &str, mode, rate| counter(&format!("sglang:{name}_tokens_total"), &[("mode", mode)], rate);
    let all = [
        level("sglang:num_running_reqs", 8.0),
        counter("sglang:scheduler_idle_seconds_total", &[], 0.0),
        tokens("realtime", "prefill_compute", 4000.0),
        tokens("prefill_effective", "input", 3000.0),
        counter("sglang:forward_execution_seconds_total", &[("category", "extend")], 0.4),
    ];
    let told = told(gpu("GPU-1", 1.0).into_iter().chain(all));
    assert_eq!(told, of([("productive", 0.9), ("recompute", 0.1)]), "a quarter of the tokens of 0.4 of the time");
}

/// Memory is low until minute 7; the server answers from minute 10 on.
#[test]
fn a_server_starts_until_it_answers_whatever_its_warm_up_does() {
    let device = [("UUID", "GPU-1"), ("pod", "llm-0"), ("namespace", "ml"), ("node", "n1")];
    let all_of = |loaded: f64, before: f64| {
        let late = vllm(0.5, 0.0, 0.0).into_iter().map(|series| Series {
            samples: series.samples.into_iter().filter(|s| s.time_ms >= 10 * MINUTE).collect(),
            ..series
        });
        let used = series("DCGM_FI_DEV_FB_USED", &device, move |t| if t < 7 * MINUTE { loaded } else { 70_000.0 });
        let busy = series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &device, move |t| if t < 7 * MINUTE { before } else { 0.5 });
        told([used, busy].into_iter().chain(late))
    };
    let all = |loaded| all_of(loaded, 0.0);
    assert_eq!(all(20_000.0).get("cold_start"), Some(&0.5), "the two minutes before its answer");
    assert_eq!(all_of(20_000.0, 0.5).get("cold_start"), None, "what works with little memory is another job");
    assert_eq!(all(69_000.0).get("cold_start"), None, "nothing was loaded");
    assert_eq!(all(70_000.0).get("cold_start"), None, "it was there, and not scraped");
}

/// The signals that a page of `tests/fixtures/servers` tells, summed over their parts.
fn read(page: &str) -> BTreeMap<&'static str, f64> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/servers").join(page);
    let mut told = BTreeMap::new();
    for (labels, value) in std::fs::read_to_string(path).unwrap().lines().map(line) {
        if let Some(meaning) = resolve(&labels) {
            *told.entry(meaning.signal.name()).or_insert(0.0) += value * meaning.scale;
        }
    }
    told
}

#[test]
fn pages_of_real_servers_are_read() {
    assert_eq!(
        read("sglang-overload.prom"),
        of([
            ("job_requests_open", 162.0),
            ("job_requests_waiting", 2826.0),
            ("server_request_time", 3_116_093.850_019_932)
        ])
    );
    assert_eq!(read("triton-t4.prom"), of([("job_requests", 3.0), ("job_requests_open", 0.0)]));
    assert_eq!(read("triton-trtllm.prom"), of([("job_requests_open", 0.0), ("job_requests_waiting", 1.0)]));
    assert_eq!(
        read("trtllm-dynamo.prom"),
        of([
            ("job_requests", 2.0),
            ("server_queue_time", 0.011_815_000_325_441_36),
            ("server_request_time", 1.730_031_000_450_253_5)
        ])
    );
    let fresh = read("vllm-fresh-l4.prom");
    assert!(fresh.len() == 10 && fresh.values().all(|value| *value == 0.0), "{fresh:?}");
}
