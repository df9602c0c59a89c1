//! Steps: who is computed in the next one, for how long kernels run, and what comes of it.

use super::request::{Answers, Request};
use super::{Engine, Job, Server, Serving};

/// What is over but for less than this is over: sums of seconds are not exact.
const ROUNDING: f64 = 1e-9;

/// What the engine does, and for how many seconds more.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// It has no step.
    Rests,
    /// Kernels run.
    Computes {
        left: f64,
        /// Share of the tokens that had been computed before.
        again: f64,
        /// Are they of prompts alone?
        is_prompt: bool,
    },
    /// The engine's process prepares the next step.
    Between(f64),
}

impl Serving {
    /// Tokens that have room in memory.
    pub(super) fn held(&self) -> usize {
        self.running.iter().map(Request::held).sum()
    }

    /// Time until the stage is over; `runs` says whether the engine's process has a CPU.
    pub(super) fn left(&self, runs: bool) -> f64 {
        match self.stage {
            Stage::Computes { left, .. } => left,
            Stage::Between(left) if runs => left,
            Stage::Between(_) | Stage::Rests => f64::INFINITY,
        }
    }

    /// Begins a step where there is none and requests wait for one.
    pub(super) fn start(&mut self, server: &Server) {
        match self.stage {
            Stage::Between(left) if left <= ROUNDING => self.stage = Stage::Rests,
            Stage::Rests => {}
            _ => return,
        }
        match server.engine {
            Engine::Vllm => self.plan_together(server),
            Engine::Sglang => self.plan_prompts_first(server),
        }
        let at_work = || self.running.iter().filter(|request| request.now > 0);
        let (seqs, tokens) = (at_work().count(), at_work().map(|request| request.now).sum::<usize>());
        if seqs == 0 {
            return;
        }
        let prompts: usize = at_work().filter(|request| !request.decodes()).map(|request| request.now).sum();
        let again: usize = at_work().map(Request::again).sum();
        let seconds = server.base + server.per_prefill * prompts as f64 + server.per_seq * seqs as f64;
        self.counts.compute(server.engine, tokens - prompts, prompts, again);
        let again = again as f64 / tokens as f64;
        self.stage = Stage::Computes { left: seconds, again, is_prompt: prompts == tokens };
    }

    /// Who runs has a token each, or more of the prompt; what is left of the budget is for those that wait.
    fn plan_together(&mut self, server: &Server) {
        let (mut budget, mut index, mut lost) = (server.budget, 0, false);
        while index < self.running.len() {
            let wants = self.running[index].uncomputed().min(budget);
            while self.held() + wants > server.memory && index < self.running.len() {
                lost |= self.retract_youngest();
            }
            // It was the youngest itself.
            let Some(request) = self.running.get_mut(index) else { break };
            request.now = wants;
            budget -= wants;
            index += 1;
        }
        while !lost && budget > 0 {
            let Some(wants) = self.admits(server, |request| request.uncomputed().min(budget)) else { break };
            budget -= wants;
        }
    }

    /// Prompts first, in a step of their own; one token for everyone who runs otherwise.
    fn plan_prompts_first(&mut self, server: &Server) {
        let mut budget = server.budget;
        for request in self.running.iter_mut().filter(|request| !request.decodes()) {
            request.now = request.uncomputed().min(budget);
            budget -= request.now;
        }
        while budget > 0 {
            let Some(wants) = self.admits(server, |request| request.uncomputed().min(budget)) else { break };
            budget -= wants;
        }
        if budget < server.budget {
            return;
        }
        while self.held() + self.running.len() > server.memory && self.running.len() > 1 {
            self.retract_youngest();
        }
        self.running.iter_mut().for_each(|request| request.now = 1);
    }

    /// Takes the next request in, where there is a seat and room for its prompt and the reserve. Returns the tokens of it that
    /// the step computes.
    fn admits(&mut self, server: &Server, wants: impl Fn(&Request) -> usize) -> Option<usize> {
        let next = self.waiting.front().filter(|_| self.running.len() < server.seats)?;
        let rest: usize = self.running.iter().chain([next]).map(|request| request.answer - request.generated).sum();
        // A prompt that is computed in pieces has all its room from the beginning.
        let pending: usize = self.running.iter().map(|request| request.uncomputed().saturating_sub(request.now)).sum();
        let reserve = (server.reserve * rest as f64) as usize;
        if self.held() + next.uncomputed() + pending + reserve > server.memory && !self.running.is_empty() {
            return None;
        }
        let mut request = self.waiting.pop_front()?;
        if request.scheduled.is_none() {
            request.scheduled = Some(self.now);
            request.computed = ((request.prompt - 1) as f64 * server.cached) as usize;
            self.counts.schedule(&request, self.now);
        }
        request.now = wants(&request);
        self.running.push(request);
        Some(request.now)
    }

    /// Who came last loses its place, and waits before all others.
    fn retract_youngest(&mut self) -> bool {
        let Some(mut request) = self.running.pop() else { return false };
        self.counts.retract(&request);
        request.retract();
        self.waiting.push_front(request);
        true
    }

    /// What a step gave goes to the front end when its kernels are over.
    pub(super) fn finish_step(&mut self, server: &Server) {
        if !matches!(self.stage, Stage::Computes { left, .. } if left <= ROUNDING) {
            return;
        }
        let (now, mut answers) = (self.now, Answers::default());
        for request in self.running.iter_mut().filter(|request| request.now > 0) {
            answers.prompt_tokens += if request.decodes() { 0 } else { request.now };
            request.computed += std::mem::take(&mut request.now);
            if request.uncomputed() > 0 {
                continue;
            }
            request.generated += 1;
            answers.tokens += 1;
            if request.first.is_none() {
                request.first = Some(now);
                answers.first.push(request.arrived);
            } else {
                answers.later.push(now - request.last);
            }
            request.last = now;
        }
        answers.finished = self.running.extract_if(.., |request| request.generated >= request.answer).collect();
        if answers.tokens > 0 {
            self.front.add(Job::Tokens(answers), server);
        }
        self.stage = if self.is_empty() { Stage::Rests } else { Stage::Between(server.gap) };
    }
}
