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

/// What vLLM tells of an engine that works for `active` of the time, with steps of 20 ms, and whose front end has `front`
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

#[test]
fn an_engine_that_works_for_longer_than_its_gpu_is_held_up_by_the_host_only_if_the_front_end_is_late() {
    let steps = |front| told(gpu("GPU-1", 0.25).into_iter().chain(vllm(0.75, front, 0.0)));
    assert_eq!(steps(0.0), of([("no_demand", 0.25), ("productive", 0.25), ("unexplained", 0.5)]));
    assert_eq!(steps(0.25), of([("no_demand", 0.2), ("productive", 0.25), ("serving_host", 0.55)]));
}

#[test]
fn a_server_that_hangs_with_open_requests_has_demand() {
    let all = gpu("GPU-1", 0.0).into_iter().chain(vllm(0.0, 0.0, 5.0));
    assert_eq!(told(all), of([("unexplained", 1.0)]), "neither no_demand nor idle_held");
}

#[test]
fn other_work_on_the_gpu_and_stages_that_take_turns_make_the_clock_void() {
    let all = gpu("GPU-1", 0.6).into_iter().chain(vllm(0.25, 0.0, 0.0));
    assert_eq!(told(all), of([("productive", 0.6), ("unexplained", 0.4)]));
    let stages = gpu("GPU-1", 0.2).into_iter().chain(gpu("GPU-2", 0.6)).chain(vllm(0.8, 0.0, 0.0));
    assert_eq!(told(stages), of([("productive", 0.2), ("unexplained", 0.8)]));
    let ranks = gpu("GPU-1", 0.5).into_iter().chain(gpu("GPU-2", 0.5)).chain(vllm(0.5, 0.0, 0.0));
    assert_eq!(told(ranks), of([("no_demand", 0.5), ("productive", 0.5)]));
}

#[test]
fn ranks_repeat_what_their_engine_tells_and_engines_have_a_clock_each() {
    let sglang = |label: &'static str| {
        let each = ["0", "1", "2", "3"].into_iter().flat_map(move |rank| {
            let idle = counter("sglang:scheduler_idle_seconds_total", &[(label, rank)], 0.7);
            [idle, series("sglang:num_running_reqs", &[&POD[..], &[(label, rank)]].concat(), |_| 0.0)]
        });
        told(gpu("GPU-1", 0.3).into_iter().chain(each))
    };
    assert_eq!(sglang("tp_rank"), of([("no_demand", 0.7), ("productive", 0.3)]), "not four times as idle");
    assert_eq!(sglang("dp_rank"), of([("no_demand", 0.7), ("productive", 0.3)]));
}

#[test]
fn a_server_without_a_clock_of_its_engine_is_bounded_by_the_requests_that_are_open() {
    for (name, scale) in [
        ("trtllm_e2e_request_latency_seconds_sum", 1.0),
        ("nv_inference_request_duration_us", 1e6),
        ("tgi_request_duration_sum", 1.0),
        ("ray_vllm_e2e_request_latency_seconds_sum", 1.0),
    ] {
        let open =
            if name.starts_with("ray") { "ray_vllm_num_requests_running" } else { "trtllm_num_requests_running" };
        let all = gpu("GPU-1", 0.1).into_iter().chain([level(open, 0.0), counter(name, &[], 0.4 * scale)]);
        assert_eq!(told(all), of([("no_demand", 0.6), ("productive", 0.1), ("unexplained", 0.3)]), "{name}");
    }
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
    let all = |loaded: f64| {
        let late = vllm(0.5, 0.0, 0.0).into_iter().map(|series| Series {
            samples: series.samples.into_iter().filter(|s| s.time_ms >= 10 * MINUTE).collect(),
            ..series
        });
        let used = series("DCGM_FI_DEV_FB_USED", &device, move |t| if t < 7 * MINUTE { loaded } else { 70_000.0 });
        let busy = series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &device, |_| 0.5);
        told([used, busy].into_iter().chain(late))
    };
    assert_eq!(all(20_000.0).get("cold_start"), Some(&0.5), "the two minutes before its answer");
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
    let triton = read("triton-t4.prom");
    assert_eq!((triton["job_requests"], triton["server_request_time"]), (3.0, 1.327_965));
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
