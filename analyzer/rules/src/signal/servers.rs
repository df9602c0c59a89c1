//! The rows of inference servers: what each reports about its requests and its engine.
//!
//! Names are those of vLLM 0.33, SGLang 0.5.23 (with `--enable-metrics`), TensorRT-LLM 2026, Triton 2.71, Text Generation
//! Inference and llama.cpp 2026; of most histograms, sum and count are read.

use super::Signal;
use super::table::{Row, row};
use goodput_exposition::sample::Labels;

/// The labels that tell the engines of one server apart: the first of [`PARTS`].
const ENGINES: usize = 5;

/// The labels by which series of a server are parts of one whole.
const PARTS: &[&str] = &[
    "engine",
    "dp_rank",
    "worker_id",
    "ReplicaId",
    "WorkerId",
    "model_name",
    "finished_reason",
    "model",
    "version",
    "gpu_uuid",
    "is_streaming",
];

/// Which engine of its server a series is of.
pub(crate) fn engine_of(labels: &Labels) -> Vec<Option<&str>> {
    PARTS.iter().take(ENGINES).map(|name| labels.get(name)).collect()
}

/// A metric of a server. Several models, engines and reasons of one server are summed; ranks of one engine (`tp_rank`,
/// `pp_rank`, `moe_ep_rank`) each report the same.
const fn served(metric: &'static str, signal: Signal) -> Row {
    row(metric, signal).sum_over(PARTS).of_server()
}

/// A metric of several things, one of which is meant.
const fn one_of(metric: &'static str, (label, value): (&'static str, &'static str), signal: Signal) -> Row {
    served(metric, signal).only(label, value)
}

/// The buckets of a histogram of requests, whose bounds are in seconds.
const fn buckets(metric: &'static str, signal: Signal) -> Row {
    served(metric, signal).sum_over(&["le"])
}

/// Ray Serve puts this before the names of vLLM, in newer releases with an underscore for the colon.
pub(super) const OF_RAY: [&str; 2] = ["ray_vllm:", "ray_vllm_"];

pub(super) static ROWS: &[Row] = &[
    served("vllm:num_requests_running", Signal::JobRequestsOpen),
    served("vllm:num_requests_waiting", Signal::JobRequestsWaiting),
    served("vllm:request_success_total", Signal::JobRequests),
    served("vllm:kv_cache_usage_perc", Signal::ServerKvUse),
    served("vllm:gpu_cache_usage_perc", Signal::ServerKvUse),
    served("vllm:num_preemptions_total", Signal::ServerPreemptions),
    served("vllm:prompt_tokens_total", Signal::ServerPromptTokens),
    served("vllm:prompt_tokens_by_source_total", Signal::ServerCachedTokens).but_for("source", "local_compute"),
    served("vllm:prefix_cache_hits_total", Signal::ServerCachedTokens),
    served("vllm:gpu_prefix_cache_hits_total", Signal::ServerCachedTokens),
    served("vllm:generation_tokens_total", Signal::ServerGenerationTokens),
    served("vllm:iteration_tokens_total_count", Signal::ServerSteps),
    served("vllm:inter_token_latency_seconds_count", Signal::ServerTokens),
    served("vllm:inter_token_latency_seconds_sum", Signal::ServerTokenTime),
    served("vllm:time_per_output_token_seconds_count", Signal::ServerTokens),
    served("vllm:time_per_output_token_seconds_sum", Signal::ServerTokenTime),
    served("vllm:request_prefill_time_seconds_sum", Signal::ServerPrefillTime),
    served("vllm:e2e_request_latency_seconds_sum", Signal::ServerRequestTime),
    served("vllm:request_queue_time_seconds_sum", Signal::ServerQueueTime),
    served("vllm:request_inference_time_seconds_sum", Signal::ServerInferenceTime),
    buckets("vllm:time_to_first_token_seconds_bucket", Signal::ServerTimeToFirstToken),
    buckets("vllm:request_time_per_output_token_seconds_bucket", Signal::ServerTimePerOutputToken),
    buckets("vllm:e2e_request_latency_seconds_bucket", Signal::ServerEndToEnd),
    served("sglang:num_running_reqs", Signal::JobRequestsOpen).whole("priority"),
    served("sglang:num_queue_reqs", Signal::JobRequestsWaiting).whole("priority"),
    served("sglang:num_requests_total", Signal::JobRequests),
    served("sglang:token_usage", Signal::ServerKvUse),
    served("sglang:num_retracted_requests_total", Signal::ServerPreemptions),
    // Where prefill and decode are apart, both count a request's tokens.
    served("sglang:prompt_tokens_total", Signal::ServerPromptTokens).but_for("engine_type", "decode"),
    served("sglang:cached_tokens_total", Signal::ServerCachedTokens).but_for("engine_type", "decode"),
    served("sglang:generation_tokens_total", Signal::ServerGenerationTokens).but_for("engine_type", "prefill"),
    served("sglang:scheduler_idle_seconds_total", Signal::ServerIdle),
    one_of("sglang:scheduler_stage_seconds_total", ("forward_overlap", "none"), Signal::ServerScheduling)
        .sum_over(&["category"])
        .but_for("category", "idle"),
    one_of("sglang:forward_execution_seconds_total", ("category", "extend"), Signal::ServerExtendTime),
    one_of("sglang:realtime_tokens_total", ("mode", "prefill_compute"), Signal::ServerPrefillTokens),
    one_of("sglang:prefill_effective_tokens_total", ("mode", "input"), Signal::ServerFirstTokens),
    served("sglang:e2e_request_latency_seconds_sum", Signal::ServerRequestTime),
    buckets("sglang:time_to_first_token_seconds_bucket", Signal::ServerTimeToFirstToken),
    buckets("sglang:request_time_per_output_token_seconds_bucket", Signal::ServerTimePerOutputToken),
    buckets("sglang:e2e_request_latency_seconds_bucket", Signal::ServerEndToEnd),
    served("trtllm_num_requests_running", Signal::JobRequestsOpen),
    served("trtllm_num_requests_waiting", Signal::JobRequestsWaiting),
    served("trtllm_request_success_total", Signal::JobRequests),
    served("trtllm_kv_cache_utilization", Signal::ServerKvUse),
    served("trtllm_prompt_tokens_total", Signal::ServerPromptTokens),
    served("trtllm_prompt_cached_tokens_total", Signal::ServerCachedTokens),
    served("trtllm_generation_tokens_total", Signal::ServerGenerationTokens),
    served("trtllm_e2e_request_latency_seconds_sum", Signal::ServerRequestTime),
    served("trtllm_request_queue_time_seconds_sum", Signal::ServerQueueTime),
    served("trtllm_request_inference_time_seconds_sum", Signal::ServerInferenceTime),
    buckets("trtllm_time_to_first_token_seconds_bucket", Signal::ServerTimeToFirstToken),
    // Of a request: its time after the first token over the tokens after it.
    buckets("trtllm_time_per_output_token_seconds_bucket", Signal::ServerTimePerOutputToken),
    buckets("trtllm_e2e_request_latency_seconds_bucket", Signal::ServerEndToEnd),
    one_of("nv_trt_llm_request_metrics", ("request_type", "active"), Signal::JobRequestsOpen),
    one_of("nv_trt_llm_request_metrics", ("request_type", "waiting"), Signal::JobRequestsWaiting),
    served("nv_inference_pending_request_count", Signal::JobRequestsOpen),
    served("nv_inference_request_success", Signal::JobRequests),
    buckets("nv_inference_first_response_histogram_ms_bucket", Signal::ServerTimeToFirstToken).times(1e-3),
    served("tgi_batch_current_size", Signal::JobRequestsOpen),
    served("tgi_queue_size", Signal::JobRequestsWaiting),
    served("tgi_request_success", Signal::JobRequests),
    served("tgi_request_input_length_sum", Signal::ServerPromptTokens),
    served("tgi_request_generated_tokens_sum", Signal::ServerGenerationTokens),
    served("tgi_request_duration_sum", Signal::ServerRequestTime),
    buckets("tgi_request_duration_bucket", Signal::ServerEndToEnd),
    served("llamacpp:requests_processing", Signal::JobRequestsOpen),
    served("llamacpp:requests_deferred", Signal::JobRequestsWaiting),
    served("llamacpp:tokens_predicted_total", Signal::ServerGenerationTokens),
];
