//! A machine whose job is an inference server: the server has the job's CPUs and quota, and all its GPUs do as it says.

use super::{Machine, TICK};
use crate::counters::Spent;
use crate::phase::Phase;
use crate::serving::{Cpus, Engine, Serving, Tick};

impl Machine {
    /// A server starts, goes on with what is now asked of it, or ends. A start takes no time here.
    pub(super) fn serve_from_now(&mut self, phase: &Phase) {
        let now = self.now();
        let server = phase.server.as_ref().filter(|_| phase.job);
        let before = self.serving.take().filter(|_| !phase.boots);
        self.serving = server.map(|server| {
            let goes_on = before.filter(|serving| serving.goes_on_as(server));
            goes_on.unwrap_or_else(|| Serving::new(server, now, self.layout.seed))
        });
    }

    /// A tick of the server: what the GPUs did, and which processes had no CPU. What is left of the quota is known in whole
    /// ticks of a CPU.
    pub(super) fn serve(&mut self, phase: &Phase) -> (Tick, Unserved) {
        let free = self.free_cpus(phase);
        let (Some(server), Some(serving)) = (&phase.server, &mut self.serving) else { return Default::default() };
        let holders = self.gpus.len();
        let runnable = serving.runnable(server, holders);
        let by_quota = (self.budget / TICK + 0.5) as usize;
        let waiting = runnable.saturating_sub(free);
        let throttled = runnable.min(free).saturating_sub(by_quota);
        let before = serving.front_cpu().to_vec();
        let tick = serving.tick(server, TICK, Cpus { free: free.min(by_quota), holders });
        self.runnable |= runnable > 0;
        self.was_throttled |= throttled > 0;
        self.budget -= tick.engine_cpu + tick.front_cpu;
        let after = serving.front_cpu();
        self.counters.workers.resize(after.len(), 0.0);
        for ((worker, after), before) in self.counters.workers.iter_mut().zip(after).zip(before) {
            *worker += after - before;
        }
        self.counters.holders += tick.engine_cpu;
        (tick, Unserved { waiting, throttled })
    }
}

/// Processes of a server that had something to do and no CPU.
#[derive(Clone, Copy, Default)]
pub(super) struct Unserved {
    pub(super) waiting: usize,
    pub(super) throttled: usize,
}

/// What a tick of a server's GPU was spent on, and how much of it had a kernel and busy multiprocessors: kernels have work for
/// this share of them.
pub(super) fn spent(tick: &Tick, phase: &Phase, depth: f64) -> (Spent, f64, f64) {
    let Tick { kernels, again, held_up, unasked, .. } = *tick;
    // Only SGLang tells what it computed again; the others' is work as far as anyone can know.
    let is_told = phase.server.as_ref().is_some_and(|server| server.engine == Engine::Sglang);
    let again = if is_told { again } else { 0.0 };
    let spent = Spent { work: kernels - again, again, held_up, unasked, ..Spent::default() };
    (spent, kernels, kernels * depth)
}
