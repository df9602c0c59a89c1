use super::*;
use crate::signal::resolve;

const SECOND: i64 = 1000;
const WINDOW: Range<TimeMs> = 0..2 * SLOT_MS;

/// A series with a sample each 15 s, whose value is a function of the second.
fn series(metric: &str, more: &[(&str, &str)], of: impl Fn(f64) -> f64) -> (Labels, Vec<Sample>) {
    let own = [("__name__", metric), ("instance", "10.0.0.7:8000")];
    let samples = (0..=40).map(|n| Sample { time_ms: n * 15 * SECOND, value: of(n as f64 * 15.0) }).collect();
    (Labels::new(own.into_iter().chain(more.iter().copied())), samples)
}

fn demand_of(all: &[(Labels, Vec<Sample>)]) -> Vec<Option<f64>> {
    let mut engines = Engines::default();
    for (labels, samples) in all {
        engines.add(labels, &resolve(labels).unwrap(), samples, &WINDOW);
    }
    engines.demand(&WINDOW, &Thresholds::default())
}

#[test]
fn what_an_engine_is_active_for_is_needed() {
    let idle = series("sglang:scheduler_idle_seconds_total", &[], |at| 0.75 * at);
    let queue = |waiting: f64| series("sglang:num_queue_reqs", &[], move |_| waiting);
    let kv = |used: f64| series("sglang:token_usage", &[], move |_| used);
    assert_eq!(demand_of(std::slice::from_ref(&idle)), [Some(0.25), Some(0.25)]);
    assert_eq!(demand_of(&[idle.clone(), kv(0.4)]), [Some(0.5), Some(0.5)], "its memory is half full");
    assert_eq!(demand_of(&[idle.clone(), kv(1.0), queue(0.0)]), [Some(1.25), Some(1.25)]);
    assert_eq!(demand_of(&[idle.clone(), kv(1e300)]), [Some(0.25), Some(0.25)], "no share is as large");
    assert_eq!(demand_of(&[idle.clone(), queue(5.0)]), [Some(1.0), Some(1.0)], "requests wait");
    assert_eq!(demand_of(&[queue(0.0)]), [Some(1.0), Some(1.0)], "how busy it is, is not known");
    let short = 0..SLOT_MS + SLOT_MS / 2;
    let mut engines = Engines::default();
    engines.add(&idle.0, &resolve(&idle.0).unwrap(), &idle.1, &short);
    assert_eq!(engines.demand(&short, &Thresholds::default()), [Some(0.25)], "whole slots alone");
    assert_eq!(demand_of(&[]), []);
}

#[test]
fn of_vllm_steps_and_prefill_are_active_time() {
    let steps = series("vllm:iteration_tokens_total_count", &[], |at| 10.0 * at);
    let tokens = |rate: f64| series("vllm:inter_token_latency_seconds_count", &[], move |at| rate * at);
    let time = |rate: f64| series("vllm:inter_token_latency_seconds_sum", &[], move |at| 0.02 * rate * at);
    let prefill = series("vllm:request_prefill_time_seconds_sum", &[], |at| 0.1 * at);
    let all = [steps.clone(), tokens(100.0), time(100.0)];
    assert_eq!(demand_of(&all), [Some(0.2), Some(0.2)]);
    assert_eq!(demand_of(&[&all[..], std::slice::from_ref(&prefill)].concat()), [Some(0.3), Some(0.3)]);
    let open = series("vllm:e2e_request_latency_seconds_sum", &[], |at| 0.4 * at);
    let few = [steps, tokens(0.01), time(0.01), open];
    assert_eq!(demand_of(&few), [Some(0.4), Some(0.4)], "few tokens say little");
    let running = series("tgi_batch_current_size", &[], |at| if at < 300.0 { 0.0 } else { 3.0 });
    assert_eq!(demand_of(std::slice::from_ref(&running)), [Some(0.0), Some(1.0)]);
    let long = series("tgi_request_duration_sum", &[], |_| 0.0);
    assert_eq!(demand_of(&[running, long]), [Some(0.0), Some(1.0)], "a request that does not end is open");
}

#[test]
fn engines_are_averaged_and_copies_and_jobs_are_not_summed() {
    let idle = |label, share: f64| series("sglang:scheduler_idle_seconds_total", &[label], move |at| share * at);
    assert_eq!(demand_of(&[idle(("dp_rank", "0"), 0.5), idle(("dp_rank", "1"), 0.9)]), [Some(0.3), Some(0.3)]);
    assert_eq!(demand_of(&[idle(("tp_rank", "0"), 0.5), idle(("tp_rank", "1"), 0.5)]), [Some(0.5), Some(0.5)]);
    let twice = [
        idle(("job", "a"), 0.5),
        series("sglang:scheduler_idle_seconds_total", &[("job", "b"), ("app", "x")], |at| 0.5 * at),
    ];
    assert_eq!(demand_of(&twice), [Some(0.5), Some(0.5)]);
}

#[test]
fn a_server_that_is_not_there_for_half_of_the_time_needs_nothing() {
    let (labels, samples) = series("sglang:scheduler_idle_seconds_total", &[], |at| 0.5 * at);
    let from = |start: i64| {
        let samples = samples.iter().filter(|sample| sample.time_ms >= start).copied().collect();
        demand_of(&[(labels.clone(), samples)])
    };
    assert_eq!(from(SLOT_MS), [None, Some(0.5)]);
    assert_eq!(from(165 * SECOND), [None, Some(0.5)]);
    assert_eq!(from(135 * SECOND), [Some(0.5), Some(0.5)], "its rate is that of the time in which it is known");
    let queue = series("sglang:num_queue_reqs", &[], |_| 0.0);
    let late = queue.1.iter().filter(|sample| sample.time_ms >= 165 * SECOND).copied().collect();
    assert_eq!(demand_of(&[(queue.0, late)]), [None, Some(1.0)]);
}

#[test]
fn halves_of_a_server_are_no_replicas() {
    let idle =
        |half: &'static str| series("sglang:scheduler_idle_seconds_total", &[("engine_type", half)], |at| 0.5 * at);
    assert_eq!(demand_of(&[idle("prefill"), idle("decode")]), []);
    assert_eq!(demand_of(&[idle("unified")]), [Some(0.5), Some(0.5)]);
    let tokens = series("vllm:inter_token_latency_seconds_count", &[], |_| 7.0);
    let prefill = series("vllm:request_prefill_time_seconds_sum", &[], |at| 0.1 * at);
    assert_eq!(demand_of(&[tokens, prefill]), [], "it gives no token after the first");
}

#[test]
fn a_queue_alone_says_nothing_of_a_server_without_one() {
    assert_eq!(demand_of(&[series("nv_inference_pending_request_count", &[("model", "m")], |_| 0.0)]), []);
}

#[test]
fn the_front_end_of_several_engines_is_none() {
    let idle = |rank| series("sglang:scheduler_idle_seconds_total", &[("dp_rank", rank)], |at| 0.7 * at);
    let open = series("sglang:e2e_request_latency_seconds_sum", &[], |at| 3.0 * at);
    assert_eq!(demand_of(&[idle("0"), idle("1"), open.clone()]), [Some(0.3), Some(0.3)]);
    assert_eq!(demand_of(&[open]), [Some(1.0), Some(1.0)], "alone it is all that is told");
}
