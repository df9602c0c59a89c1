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
    engines.demand(&WINDOW)
}

#[test]
fn what_an_engine_is_active_for_is_needed() {
    let idle = series("sglang:scheduler_idle_seconds_total", &[], |at| 0.75 * at);
    let queue = |waiting: f64| series("sglang:num_queue_reqs", &[], move |_| waiting);
    let kv = |used: f64| series("sglang:token_usage", &[], move |_| used);
    assert_eq!(demand_of(std::slice::from_ref(&idle)), [Some(0.25), Some(0.25)]);
    assert_eq!(demand_of(&[idle.clone(), kv(0.4)]), [Some(0.5), Some(0.5)], "its memory is half full");
    assert_eq!(demand_of(&[idle.clone(), kv(1.0), queue(0.0)]), [Some(1.25), Some(1.25)]);
    assert_eq!(demand_of(&[idle.clone(), queue(5.0)]), [Some(1.0), Some(1.0)], "requests wait");
    assert_eq!(demand_of(&[queue(0.0)]), [Some(1.0), Some(1.0)], "how busy it is, is not known");
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
    assert_eq!(demand_of(&[running]), [Some(0.0), Some(1.0)]);
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
fn a_server_that_is_not_there_needs_nothing() {
    let (labels, mut samples) = series("sglang:scheduler_idle_seconds_total", &[], |at| 0.5 * at);
    samples.retain(|sample| sample.time_ms >= SLOT_MS);
    assert_eq!(demand_of(&[(labels, samples)]), [None, Some(0.5)]);
}
