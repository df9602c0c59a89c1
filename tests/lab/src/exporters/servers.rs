//! What inference servers tell: vLLM's metrics and SGLang's.
//!
//! Rows of vLLM, and those of SGLang that a recorded page has, are as their pages have them. The rest of SGLang's are named and
//! labelled as release 0.5.23 has them in its source; no page is known that has them.

use goodput_catalog::{Kind, Metric};

use super::others::{REQUESTS, REQUESTS_RUNNING, REQUESTS_WAITING};
use super::{PODS, Recorder, Samples, View, has};
use crate::serving::{Counts, Engine, Histogram, Server, Serving};

goodput_catalog::metric_rows! {
    PROMPT_TOKENS = Counter None "vllm:prompt_tokens_total" ["engine", "model_name"] + ["namespace", "pod", "owner"] {
        "Number of prefill tokens processed.",
        from "the engine", by "vllm", series "1 per engine", since "2026-03"
    }
    ANSWER_TOKENS = Counter None "vllm:generation_tokens_total" ["engine", "model_name"] + ["namespace", "pod", "owner"] {
        "Number of generation tokens processed.",
        from "the engine", by "vllm", series "1 per engine", since "2026-03"
    }
    STEP_TOKENS = Histogram None "vllm:iteration_tokens_total" ["engine", "model_name"] + ["le", "namespace", "pod", "owner"] {
        "Histogram of number of tokens per engine_step.",
        from "the engine", by "vllm", series "1 per engine", since "2026-03"
    }
    TTFT = Histogram Seconds "vllm:time_to_first_token_seconds" ["engine", "model_name"] + ["le", "namespace", "pod", "owner"] {
        "Histogram of time to first token in seconds.",
        from "the front end", by "vllm", series "1 per engine", since "2026-03"
    }
    TOKEN_LATENCY = Histogram Seconds "vllm:inter_token_latency_seconds" ["engine", "model_name"] + ["le", "namespace", "pod", "owner"] {
        "Histogram of inter-token latency in seconds.",
        from "the front end", by "vllm", series "1 per engine", since "2026-03"
    }
    E2E = Histogram Seconds "vllm:e2e_request_latency_seconds" ["engine", "model_name"] + ["le", "namespace", "pod", "owner"] {
        "Histogram of e2e request latency in seconds.",
        from "the front end", by "vllm", series "1 per engine", since "2026-03"
    }
    QUEUE_TIME = Histogram Seconds "vllm:request_queue_time_seconds" ["engine", "model_name"] + ["le", "namespace", "pod", "owner"] {
        "Histogram of time spent in WAITING phase for request.",
        from "the engine", by "vllm", series "1 per engine", since "2026-03"
    }
    PREFILL_TIME = Histogram Seconds "vllm:request_prefill_time_seconds" ["engine", "model_name"] + ["le", "namespace", "pod", "owner"] {
        "Histogram of time spent in PREFILL phase for request.",
        from "the engine", by "vllm", series "1 per engine", since "2026-03"
    }
    DECODE_TIME = Histogram Seconds "vllm:request_decode_time_seconds" ["engine", "model_name"] + ["le", "namespace", "pod", "owner"] {
        "Histogram of time spent in DECODE phase for request.",
        from "the engine", by "vllm", series "1 per engine", since "2026-03"
    }
    INFERENCE_TIME = Histogram Seconds "vllm:request_inference_time_seconds" ["engine", "model_name"] + ["le", "namespace", "pod", "owner"] {
        "Histogram of time spent in RUNNING phase for request.",
        from "the engine", by "vllm", series "1 per engine", since "2026-03"
    }
    CACHE_USAGE = Gauge None "vllm:kv_cache_usage_perc" ["engine", "model_name"] + ["namespace", "pod", "owner"] {
        "KV-cache usage. 1 means 100 percent usage.",
        from "the scheduler", by "vllm", series "1 per engine", since "2026-03"
    }
    PREEMPTIONS = Counter None "vllm:num_preemptions_total" ["engine", "model_name"] + ["namespace", "pod", "owner"] {
        "Cumulative number of preemption from the engine.",
        from "the scheduler", by "vllm", series "1 per engine", since "2026-03"
    }
    CACHE_QUERIES = Counter None "vllm:prefix_cache_queries_total" ["engine", "model_name"] + ["namespace", "pod", "owner"] {
        "Prefix cache queries, in terms of number of queried tokens.",
        from "the scheduler", by "vllm", series "1 per engine", since "2026-03"
    }
    CACHE_HITS = Counter None "vllm:prefix_cache_hits_total" ["engine", "model_name"] + ["namespace", "pod", "owner"] {
        "Prefix cache hits, in terms of number of cached tokens.",
        from "the scheduler", by "vllm", series "1 per engine", since "2026-03"
    }
    SGLANG_RUNNING = Gauge None "sglang:num_running_reqs" ["engine_type", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"] + ["namespace", "pod", "owner"] {
        "The number of running requests.",
        from "the scheduler", by "sglang", series "1 per rank", since "0.5.23"
    }
    SGLANG_QUEUED = Gauge None "sglang:num_queue_reqs" ["engine_type", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"] + ["namespace", "pod", "owner"] {
        "The number of requests in the waiting queue.",
        from "the scheduler", by "sglang", series "1 per rank", since "0.5.23"
    }
    SGLANG_TOKEN_USAGE = Gauge None "sglang:token_usage" ["engine_type", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"] + ["namespace", "pod", "owner"] {
        "The token usage.",
        from "the scheduler", by "sglang", series "1 per rank", since "0.5.23"
    }
    SGLANG_TOKENS = Counter None "sglang:realtime_tokens_total" ["engine_type", "mode", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"] + ["namespace", "pod", "owner"] {
        "Total number of tokens processed (updated on each log interval).",
        from "the scheduler", by "sglang", series "3 per rank", since "0.5.23"
    }
    SGLANG_EFFECTIVE = Counter None "sglang:prefill_effective_tokens_total" ["engine_type", "mode", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"] + ["namespace", "pod", "owner"] {
        "Tokens of prompts without those of requests that were retracted before.",
        from "the scheduler", by "sglang", series "4 per rank", since "0.5.23"
    }
    SGLANG_FORWARD = Counter Seconds "sglang:forward_execution_seconds_total" ["category", "engine_type", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"] + ["namespace", "pod", "owner"] {
        "Time in which the GPU computed forward passes, by their mode.",
        from "the scheduler", by "sglang", series "2 per rank", since "0.5.23"
    }
    SGLANG_IDLE = Counter Seconds "sglang:scheduler_idle_seconds_total" ["engine_type", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"] + ["namespace", "pod", "owner"] {
        "Time in which the scheduler had nothing to run and nothing queued.",
        from "the scheduler", by "sglang", series "1 per rank", since "0.5.23"
    }
    SGLANG_STAGES = Counter Seconds "sglang:scheduler_stage_seconds_total" ["category", "engine_type", "forward_overlap", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"] + ["namespace", "pod", "owner"] {
        "Time of the scheduler's loop by stage, and by whether a forward pass ran meanwhile.",
        from "the scheduler", by "sglang", series "4 per rank", since "0.5.23"
    }
    SGLANG_RETRACTED = Counter None "sglang:num_retracted_requests_total" ["engine_type", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"] + ["namespace", "pod", "owner"] {
        "Requests that were retracted.",
        from "the scheduler", by "sglang", series "1 per rank", since "0.5.23"
    }
    SGLANG_RETRACTED_PROMPTS = Counter None "sglang:num_retracted_input_tokens_total" ["engine_type", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"] + ["namespace", "pod", "owner"] {
        "Tokens of the prompts of requests that were retracted.",
        from "the scheduler", by "sglang", series "1 per rank", since "0.5.23"
    }
    SGLANG_RETRACTED_ANSWERS = Counter None "sglang:num_retracted_output_tokens_total" ["engine_type", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"] + ["namespace", "pod", "owner"] {
        "Tokens of the answers of requests that were retracted.",
        from "the scheduler", by "sglang", series "1 per rank", since "0.5.23"
    }
    SGLANG_QUEUE_TIME = Histogram Seconds "sglang:queue_time_seconds" ["engine_type", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"] + ["le", "namespace", "pod", "owner"] {
        "Histogram of queueing time in seconds.",
        from "the scheduler", by "sglang", series "1 per rank", since "0.5.23"
    }
    SGLANG_REQUESTS = Counter None "sglang:num_requests_total" ["is_streaming", "model_name"] + ["namespace", "pod", "owner"] {
        "Requests that were answered.",
        from "the front end", by "sglang", series "1", since "0.5.23"
    }
    SGLANG_TTFT = Histogram Seconds "sglang:time_to_first_token_seconds" ["model_name"] + ["is_streaming", "le", "namespace", "pod", "owner"] {
        "Histogram of time to first token in seconds.",
        from "the front end", by "sglang", series "1", since "0.5.23"
    }
    SGLANG_TOKEN_LATENCY = Histogram Seconds "sglang:inter_token_latency_seconds" ["model_name"] + ["le", "namespace", "pod", "owner"] {
        "Histogram of inter-token latency in seconds.",
        from "the front end", by "sglang", series "1", since "0.5.23"
    }
    SGLANG_E2E = Histogram Seconds "sglang:e2e_request_latency_seconds" ["model_name"] + ["is_streaming", "le", "namespace", "pod", "owner"] {
        "Histogram of End-to-end request latency in seconds",
        from "the front end", by "sglang", series "1", since "0.5.23"
    }
}

/// Rows of SGLang that no recorded page has: newer than the page, or not asked for when it was recorded.
#[cfg(test)]
pub(super) const UNRECORDED: [&Metric; 8] = [
    &SGLANG_EFFECTIVE,
    &SGLANG_FORWARD,
    &SGLANG_IDLE,
    &SGLANG_STAGES,
    &SGLANG_RETRACTED,
    &SGLANG_RETRACTED_PROMPTS,
    &SGLANG_RETRACTED_ANSWERS,
    &SGLANG_REQUESTS,
];

/// The model that is served.
const MODEL: (&str, &str) = ("model_name", "meta-llama/Llama-3.1-8B-Instruct");
/// How vLLM says why a request ended.
const REASONS: [&str; 5] = ["stop", "length", "abort", "error", "repetition"];
/// SGLang's sources of tokens of prompts which are no hit here.
const OTHER_HITS: [&str; 2] = ["host_hit", "storage_hit"];

/// Samples of a server under construction.
struct Page<'a> {
    samples: &'a mut Samples,
    job: &'static str,
    instance: &'a str,
    /// Whose pod it is.
    who: &'a [(&'a str, &'a str)],
}

impl Page<'_> {
    fn push(&mut self, row: &Metric, labels: &[(&str, &str)], value: f64) {
        self.sample(row, "", labels, value);
    }

    /// The sample of this name behind the row's.
    fn sample(&mut self, row: &Metric, suffix: &str, labels: &[(&str, &str)], value: f64) {
        debug_assert!(labels.iter().all(|(name, _)| has(row, name)), "{}: {labels:?}", row.name);
        let name = format!("{}{suffix}", row.name);
        let target = [("__name__", name.as_str()), ("job", self.job), ("instance", self.instance)];
        let all = target.iter().chain(self.who).chain(labels);
        self.samples.push((all.map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(), value));
    }

    fn histogram(&mut self, row: &Metric, labels: &[(&str, &str)], histogram: &Histogram) {
        debug_assert_eq!(row.kind, Kind::Histogram, "{}", row.name);
        for (bound, count) in histogram.buckets() {
            let le = if bound.is_finite() { format!("{bound:?}") } else { "+Inf".to_owned() };
            let labels: Vec<_> = labels.iter().copied().chain([("le", le.as_str())]).collect();
            self.sample(row, "_bucket", &labels, count);
        }
        self.sample(row, "_sum", labels, histogram.sum);
        self.sample(row, "_count", labels, histogram.count);
    }

    fn vllm(&mut self, server: &Server, serving: &Serving) {
        let (counts, labels) = (&serving.counts, [("engine", "0"), MODEL]);
        let (running, waiting) = serving.requests();
        for (row, value) in [
            (&REQUESTS_RUNNING, running as f64),
            (&REQUESTS_WAITING, waiting as f64),
            (&PROMPT_TOKENS, counts.prompt_tokens),
            (&ANSWER_TOKENS, counts.answer_tokens),
            (&CACHE_USAGE, serving.memory(server)),
            (&PREEMPTIONS, counts.retracted),
            (&CACHE_QUERIES, counts.cache_queries),
            (&CACHE_HITS, counts.cache_hits),
        ] {
            self.push(row, &labels, value);
        }
        for reason in REASONS {
            // Every answer ends where it is meant to.
            let value = if reason == "stop" { counts.requests } else { 0.0 };
            self.push(&REQUESTS, &[&labels[..], &[("finished_reason", reason)]].concat(), value);
        }
        for (row, histogram) in [
            (&STEP_TOKENS, &counts.step_tokens),
            (&TTFT, &counts.ttft),
            (&TOKEN_LATENCY, &counts.token_latency),
            (&E2E, &counts.e2e),
            (&QUEUE_TIME, &counts.queue),
            (&PREFILL_TIME, &counts.prefill),
            (&DECODE_TIME, &counts.decode),
            (&INFERENCE_TIME, &counts.inference),
        ] {
            self.histogram(row, &labels, histogram);
        }
    }

    /// SGLang's front end, which is there once.
    fn sglang_front(&mut self, counts: &Counts) {
        let streams = [MODEL, ("is_streaming", "true")];
        self.push(&SGLANG_REQUESTS, &streams, counts.requests);
        self.histogram(&SGLANG_TTFT, &streams, &counts.ttft);
        self.histogram(&SGLANG_E2E, &streams, &counts.e2e);
        self.histogram(&SGLANG_TOKEN_LATENCY, &[MODEL], &counts.token_latency);
    }

    /// A rank of SGLang's engine: each tells the whole.
    fn sglang_rank(&mut self, server: &Server, serving: &Serving, rank: &str) {
        let counts = &serving.counts;
        let labels = [("engine_type", "unified"), MODEL, ("moe_ep_rank", "0"), ("pp_rank", "0"), ("tp_rank", rank)];
        let (running, waiting) = serving.requests();
        for (row, value) in [
            (&SGLANG_RUNNING, running as f64),
            (&SGLANG_QUEUED, waiting as f64),
            (&SGLANG_TOKEN_USAGE, serving.memory(server)),
            (&SGLANG_IDLE, counts.idle_seconds),
            (&SGLANG_RETRACTED, counts.retracted),
            (&SGLANG_RETRACTED_PROMPTS, counts.retracted_prompt_tokens),
            (&SGLANG_RETRACTED_ANSWERS, counts.retracted_answer_tokens),
        ] {
            self.push(row, &labels, value);
        }
        self.histogram(&SGLANG_QUEUE_TIME, &labels, &counts.scheduled);
        let mut by = |row: &Metric, more: &[(&str, &str)], value: f64| {
            self.push(row, &[&labels[..], more].concat(), value);
        };
        for (mode, value) in
            [("prefill_compute", counts.extended), ("prefill_cache", counts.cache_hits), ("decode", counts.decoded)]
        {
            by(&SGLANG_TOKENS, &[("mode", mode)], value);
        }
        by(&SGLANG_EFFECTIVE, &[("mode", "input")], counts.effective);
        by(&SGLANG_EFFECTIVE, &[("mode", "device_hit")], counts.cache_hits);
        OTHER_HITS.into_iter().for_each(|mode| by(&SGLANG_EFFECTIVE, &[("mode", mode)], 0.0));
        for (category, value) in [("extend", counts.extend_seconds), ("decode", counts.decode_seconds)] {
            by(&SGLANG_FORWARD, &[("category", category)], value);
        }
        // The loop's time is cut up among stages; a forward pass runs during the first of these alone.
        for (category, overlap, value) in [
            ("run_batch", "full", counts.extend_seconds + counts.decode_seconds),
            ("run_batch", "none", 0.0),
            ("get_next_batch_to_run", "none", counts.between_seconds),
            ("idle", "none", counts.idle_seconds),
        ] {
            by(&SGLANG_STAGES, &[("category", category), ("forward_overlap", overlap)], value);
        }
    }
}

impl Recorder {
    /// The metrics of the machine's inference server, under the name of its pod, or of its owner where our exporter names owners
    /// otherwise.
    pub(super) fn inference(&self, samples: &mut Samples, view: &View<'_>) {
        let (Some(server), Some(serving)) = (&view.phase.server, view.machine.serving()) else { return };
        let pod = [("namespace", "ml"), ("pod", PODS[self.tenant])];
        let owner = [("owner", self.owner())];
        let who = if self.exporters == super::Exporters::Ours { &owner[..] } else { &pod[..] };
        let (job, port) = match server.engine {
            Engine::Vllm => ("vllm", 8000),
            Engine::Sglang => ("sglang", 30_000),
        };
        let instance = self.instance(port);
        let mut page = Page { samples, job, instance: &instance, who };
        match server.engine {
            Engine::Vllm => page.vllm(server, serving),
            Engine::Sglang => {
                page.sglang_front(&serving.counts);
                // With `--enable-metrics-for-all-schedulers`.
                (0..view.machine.layout.gpus).for_each(|rank| page.sglang_rank(server, serving, &rank.to_string()));
            }
        }
    }
}
