//! An inference server with continuous batching: requests arrive, pass a front end, wait in the engine's queue, and are
//! computed together, a step at a time. Time is continuous; the machine asks for one of its ticks after the other, and how
//! much of each had kernels falls out. Signals never feed back.

mod counts;
mod engine;
mod front;
mod request;

use std::collections::VecDeque;

use serde::Deserialize;

pub use counts::{Counts, Histogram};
use engine::Stage;
use front::{Front, Job};
use request::Request;

use crate::demo::machine::noise::hash;

/// Which program the server is: it decides how steps are made up, and what is told.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// Prompts and answers share steps; the engine's process sleeps without requests.
    #[default]
    Vllm,
    /// Prompts have steps of their own, which go first; the scheduler polls without requests.
    Sglang,
}

/// A server, and what is asked of it. Times are seconds; lengths are means, and differ by half to either side.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// The program.
    pub engine: Engine,
    /// Requests a second, which come at random.
    pub rate: f64,
    /// Length of the bursts in which they come; they come all the time where it is 0.
    pub burst: f64,
    /// Time from the beginning of a burst to the next one's.
    pub every: f64,
    /// Requests that are open all the time: for each that ends another one comes.
    pub clients: usize,
    /// Tokens of a prompt.
    pub prompt: f64,
    /// Tokens of an answer.
    pub answer: f64,
    /// Share of each prompt whose keys and values are in the prefix cache.
    pub cached: f64,
    /// Processes of the front end, each with a core at most.
    pub processes: usize,
    /// CPU time of the front end for a request.
    pub per_request: f64,
    /// CPU time of the front end for a token of a prompt.
    pub per_prompt_token: f64,
    /// CPU time of the front end for a token of an answer.
    pub per_answer_token: f64,
    /// Tokens that are computed in a step at most.
    pub budget: usize,
    /// Requests that are computed together at most.
    pub seats: usize,
    /// Tokens whose keys and values the device memory holds.
    pub memory: usize,
    /// Share of the rest of all answers that must have room before another request is admitted.
    pub reserve: f64,
    /// Kernels of a step whatever it computes.
    pub base: f64,
    /// Kernels for a token of a prompt.
    pub per_prefill: f64,
    /// Kernels for a request in the step.
    pub per_seq: f64,
    /// Time between two steps in which the engine's process works and no kernel runs.
    pub gap: f64,
}

impl Default for Server {
    /// A model of 8 billion parameters on an H100, which nothing is asked of. Steps of 12 ms and 40,000 tokens of prompts a
    /// second are of the order that servers report for it; the front end's are 2 ms for a request, 4 microseconds for a
    /// token of a prompt and 20 for one of an answer.
    fn default() -> Self {
        Server {
            engine: Engine::Vllm,
            rate: 0.0,
            burst: 0.0,
            every: 0.0,
            clients: 0,
            prompt: 600.0,
            answer: 200.0,
            cached: 0.0,
            processes: 1,
            per_request: 0.002,
            per_prompt_token: 4e-6,
            per_answer_token: 2e-5,
            budget: 8192,
            seats: 256,
            memory: 400_000,
            reserve: 0.0,
            base: 0.012,
            per_prefill: 2.5e-5,
            per_seq: 4e-5,
            gap: 0.0004,
        }
    }
}

impl Server {
    /// The rate at which requests that come at random keep the engine at work for this share of the time: each keeps it for as
    /// long as it takes alone, and they overlap.
    #[must_use]
    pub fn rate_for(&self, load: f64) -> f64 {
        let step = self.base + self.per_seq + self.gap;
        -(1.0 - load).ln() / (self.prompt * self.per_prefill + self.answer * step)
    }

    /// Is it the same server, whatever is asked of it? What is set when a server starts does not change until it starts again.
    fn is_same(&self, other: &Self) -> bool {
        let set = |s: &Self| (s.engine, s.processes, s.budget, s.seats, s.memory, s.reserve);
        set(self) == set(other)
    }

    /// Do requests come now?
    fn is_asked(&self, now: f64) -> bool {
        self.burst <= 0.0 || now % self.every.max(self.burst) < self.burst
    }
}

/// What a tick was made of, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tick {
    /// Kernels ran.
    pub kernels: f64,
    /// Of that, for tokens that had been computed before.
    pub again: f64,
    /// Requests were open, and no kernel ran.
    pub held_up: f64,
    /// No request was open.
    pub unasked: f64,
    /// CPU time of the processes that hold the GPUs.
    pub engine_cpu: f64,
    /// CPU time of the front end.
    pub front_cpu: f64,
}

/// CPUs that a server may use in a tick.
#[derive(Clone, Copy, Debug)]
pub struct Cpus {
    /// How many.
    pub free: usize,
    /// Processes that hold a GPU each.
    pub holders: usize,
}

/// A server at one moment.
#[derive(Debug)]
pub struct Serving {
    /// What it has counted.
    pub counts: Counts,
    started_as: Server,
    now: f64,
    seed: u64,
    draws: u64,
    /// Requests that came and have not been answered in full.
    open: usize,
    front: Front,
    waiting: VecDeque<Request>,
    running: Vec<Request>,
    stage: Stage,
}

impl Serving {
    /// A server that starts now, without requests.
    #[must_use]
    pub fn new(server: &Server, now: f64, seed: u64) -> Self {
        Serving {
            counts: Counts::default(),
            started_as: server.clone(),
            now,
            seed,
            draws: 0,
            open: 0,
            front: Front::new(server.processes),
            waiting: VecDeque::new(),
            running: Vec::new(),
            stage: Stage::Rests,
        }
    }

    /// May this be asked of it without a start?
    #[must_use]
    pub fn goes_on_as(&self, server: &Server) -> bool {
        self.started_as.is_same(server)
    }

    /// Requests that are computed, and those that wait for it in the engine.
    #[must_use]
    pub fn requests(&self) -> (usize, usize) {
        (self.running.len(), self.waiting.len())
    }

    /// Share of the memory for keys and values in use.
    #[must_use]
    pub fn memory(&self, server: &Server) -> f64 {
        self.held() as f64 / server.memory as f64
    }

    /// CPU time of each process of the front end.
    #[must_use]
    pub fn front_cpu(&self) -> &[f64] {
        &self.front.cpu
    }

    /// Processes that have something to do on a CPU now: those that hold GPUs, and those of the front end.
    #[must_use]
    pub fn runnable(&self, server: &Server, holders: usize) -> usize {
        usize::from(self.computes(server)) * holders + self.front.runnable()
    }

    /// Does the engine's process have, or look for, something to do?
    fn computes(&self, server: &Server) -> bool {
        server.engine == Engine::Sglang || !self.is_empty()
    }

    /// Is nothing in the engine?
    fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// A tick passes.
    pub fn tick(&mut self, server: &Server, seconds: f64, cpus: Cpus) -> Tick {
        let (start, end) = (self.now, self.now + seconds);
        let mut tick = Tick::default();
        let mut comes = self.comes(server, start);
        while self.now < end {
            self.keep_clients(server);
            self.start(server);
            let holders = if self.computes(server) { cpus.holders.min(cpus.free) } else { 0 };
            let of_front = cpus.free - holders;
            let runs = holders == cpus.holders;
            let next = self.left(runs).min(self.front.left(of_front)).min(comes - self.now).min(end - self.now);
            self.pass(server, next.max(0.0), (holders, of_front, runs), &mut tick);
            if comes <= self.now {
                self.arrive(server);
                comes = self.comes(server, self.now);
            }
            self.finish_jobs(server);
            self.finish_step(server);
        }
        self.now = end;
        tick
    }

    /// When the next request comes, as it looks now: the time to it has no memory.
    fn comes(&mut self, server: &Server, now: f64) -> f64 {
        if server.rate <= 0.0 || !server.is_asked(now) {
            return f64::INFINITY;
        }
        now - self.draw().max(f64::MIN_POSITIVE).ln() / server.rate
    }

    fn keep_clients(&mut self, server: &Server) {
        while self.open < server.clients {
            self.arrive(server);
        }
    }

    fn arrive(&mut self, server: &Server) {
        let mut length = |mean: f64| (mean * (0.5 + self.draw())).round().max(1.0) as usize;
        let (prompt, answer) = (length(server.prompt), length(server.answer));
        // A request that the memory cannot hold is turned away before it is one.
        let (prompt, answer) = (prompt.min(server.memory / 2), answer.min(server.memory / 2));
        self.open += 1;
        self.front.add(Job::Prompt(Request::new(self.now, prompt, answer)), server);
    }

    /// Nothing happens for so long but what goes on.
    fn pass(
        &mut self,
        server: &Server,
        seconds: f64,
        (holders, of_front, runs): (usize, usize, bool),
        tick: &mut Tick,
    ) {
        let is_empty = self.is_empty();
        match &mut self.stage {
            Stage::Computes { left, again, is_prompt, .. } => {
                *left -= seconds;
                tick.kernels += seconds;
                tick.again += seconds * *again;
                self.counts.forward(*is_prompt, seconds);
            }
            Stage::Between(left) => {
                *left -= if runs { seconds } else { 0.0 };
                self.counts.between_seconds += seconds;
            }
            Stage::Rests => {}
        }
        if !matches!(self.stage, Stage::Computes { .. }) {
            *if self.open > 0 { &mut tick.held_up } else { &mut tick.unasked } += seconds;
        }
        if is_empty {
            self.counts.idle_seconds += seconds;
        }
        tick.engine_cpu += if self.computes(server) { holders as f64 * seconds } else { 0.0 };
        tick.front_cpu += self.front.run(of_front, seconds);
        self.now += seconds;
    }

    /// What the front end is done with goes on to the engine, or to who asked.
    fn finish_jobs(&mut self, server: &Server) {
        while let Some(job) = self.front.done(server) {
            match job {
                Job::Prompt(request) => self.waiting.push_back(Request { queued: self.now, ..request }),
                Job::Tokens(answers) => {
                    self.open -= answers.finished.len();
                    self.counts.answer(&answers, self.now);
                }
            }
        }
    }

    /// A number from 0 to 1, another one each time and the same in every run.
    fn draw(&mut self) -> f64 {
        self.draws += 1;
        hash("serving", self.seed.wrapping_mul(1 << 32).wrapping_add(self.draws)) as f64 / u64::MAX as f64
    }
}

#[cfg(test)]
mod tests;
