//! What a server counts of itself, from which its metrics are told.

use super::Engine;
use super::request::{Answers, Request};

/// Bounds of the buckets of latencies of requests, in seconds: some of those that vLLM and SGLang have.
const REQUEST_BOUNDS: &[f64] = &[0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0];
/// The same of the time from one token to the next.
const TOKEN_BOUNDS: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 1.0];
/// The same of the tokens of a step.
const STEP_BOUNDS: &[f64] = &[1.0, 8.0, 64.0, 512.0, 4096.0];

/// A histogram as Prometheus has it.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// Observations up to each bound.
    counts: Vec<f64>,
    /// Of all observations.
    pub sum: f64,
    /// How many there were.
    pub count: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Histogram { bounds, counts: vec![0.0; bounds.len()], sum: 0.0, count: 0.0 }
    }

    fn observe(&mut self, value: f64) {
        let above = self.bounds.iter().zip(&mut self.counts).filter(|(bound, _)| value <= **bound);
        above.for_each(|(_, count)| *count += 1.0);
        self.sum += value;
        self.count += 1.0;
    }

    /// Bounds and how many observations are up to each, the last without a bound.
    #[must_use]
    pub fn buckets(&self) -> Vec<(f64, f64)> {
        let bounded = self.bounds.iter().copied().zip(self.counts.iter().copied());
        bounded.chain([(f64::INFINITY, self.count)]).collect()
    }
}

/// Everything that is counted since the server started, in seconds and pieces.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each is named as the metric that it is told by")]
pub struct Counts {
    pub ttft: Histogram,
    pub token_latency: Histogram,
    pub e2e: Histogram,
    pub queue: Histogram,
    pub prefill: Histogram,
    pub decode: Histogram,
    pub inference: Histogram,
    /// From the arrival in the engine to the first step, at that step.
    pub scheduled: Histogram,
    pub step_tokens: Histogram,
    pub prompt_tokens: f64,
    pub answer_tokens: f64,
    pub requests: f64,
    pub cache_queries: f64,
    pub cache_hits: f64,
    pub retracted: f64,
    pub retracted_prompt_tokens: f64,
    pub retracted_answer_tokens: f64,
    /// Tokens of prompts that kernels computed, whether for the first time or not.
    pub extended: f64,
    /// Of these the ones for the first time.
    pub effective: f64,
    /// Tokens of answers that kernels computed.
    pub decoded: f64,
    pub idle_seconds: f64,
    pub between_seconds: f64,
    pub extend_seconds: f64,
    pub decode_seconds: f64,
}

impl Default for Counts {
    fn default() -> Self {
        let of_requests = || Histogram::new(REQUEST_BOUNDS);
        Counts {
            ttft: of_requests(),
            token_latency: Histogram::new(TOKEN_BOUNDS),
            e2e: of_requests(),
            queue: of_requests(),
            prefill: of_requests(),
            decode: of_requests(),
            inference: of_requests(),
            scheduled: of_requests(),
            step_tokens: Histogram::new(STEP_BOUNDS),
            prompt_tokens: 0.0,
            answer_tokens: 0.0,
            requests: 0.0,
            cache_queries: 0.0,
            cache_hits: 0.0,
            retracted: 0.0,
            retracted_prompt_tokens: 0.0,
            retracted_answer_tokens: 0.0,
            extended: 0.0,
            effective: 0.0,
            decoded: 0.0,
            idle_seconds: 0.0,
            between_seconds: 0.0,
            extend_seconds: 0.0,
            decode_seconds: 0.0,
        }
    }
}

impl Counts {
    /// A request is computed for the first time.
    pub(super) fn schedule(&mut self, request: &Request, now: f64) {
        self.scheduled.observe(now - request.queued);
        self.cache_queries += request.prompt as f64;
        self.cache_hits += request.computed as f64;
    }

    pub(super) fn retract(&mut self, request: &Request) {
        self.retracted += 1.0;
        self.retracted_prompt_tokens += request.prompt as f64;
        self.retracted_answer_tokens += request.generated as f64;
    }

    /// Kernels begin to compute these.
    pub(super) fn compute(&mut self, engine: Engine, decoded: usize, extended: usize, again: usize) {
        self.decoded += decoded as f64;
        self.extended += extended as f64;
        // A token of an answer is never computed again on its own.
        let again = if engine == Engine::Sglang { again.min(extended) } else { 0 };
        self.effective += (extended - again) as f64;
    }

    /// Kernels ran for so long.
    pub(super) fn forward(&mut self, is_prompt: bool, seconds: f64) {
        *if is_prompt { &mut self.extend_seconds } else { &mut self.decode_seconds } += seconds;
    }

    /// The front end sends what a step gave: it is there that latencies are measured.
    pub(super) fn answer(&mut self, answers: &Answers, now: f64) {
        self.step_tokens.observe((answers.tokens + answers.prompt_tokens) as f64);
        self.answer_tokens += answers.tokens as f64;
        self.prompt_tokens += answers.prompt_tokens as f64;
        answers.first.iter().for_each(|arrived| self.ttft.observe(now - arrived));
        answers.later.iter().for_each(|seconds| self.token_latency.observe(*seconds));
        for request in &answers.finished {
            let (scheduled, first) = (request.scheduled.unwrap_or(now), request.first.unwrap_or(now));
            self.requests += 1.0;
            self.e2e.observe(now - request.arrived);
            self.queue.observe(scheduled - request.queued);
            self.prefill.observe(first - scheduled);
            self.decode.observe(request.last - first);
            self.inference.observe(request.last - scheduled);
        }
    }
}
