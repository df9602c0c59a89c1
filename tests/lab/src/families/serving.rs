//! Inference servers with continuous batching, by vLLM's metrics or SGLang's.
//!
//! What is lost is not the schedule's to say here: the model knows when no request was open, and when requests were and no
//! kernel ran.

use super::{Cause, Chance, Exporters, Phase, Plan};
use crate::serving::{Engine, Server};

/// What the server of a trace is: its program, and how long requests are.
pub(super) fn server(plan: &mut Plan, chance: &mut Chance) -> Server {
    plan.layout.gpus = plan.layout.gpus.min(4);
    plan.exporters = chance.one_of(&[Exporters::Ours, Exporters::DcgmAndNode]);
    Server {
        engine: chance.one_of(&[Engine::Vllm, Engine::Sglang]),
        prompt: chance.between(200.0, 1500.0),
        answer: chance.between(40.0, 400.0),
        cached: chance.one_of(&[0.0, 0.3]),
        base: chance.between(0.008, 0.025),
        per_prefill: chance.between(2e-5, 1e-4),
        gap: chance.between(0.0002, 0.001),
        reserve: 0.2,
        ..Server::default()
    }
}

/// Some minutes of it. Servers take most of the device memory when they start; how many multiprocessors its kernels have work
/// for is the model's, whatever is asked, and differs a little from minute to minute.
pub(super) fn asked(plan: &mut Plan, chance: &mut Chance, minutes: usize, server: Server) {
    let depth = plan.steps.last().map_or_else(|| chance.between(0.4, 0.9), |step| step.here.depth);
    let here = Phase {
        minutes: chance.minutes(minutes),
        server: Some(server),
        memory: Some(0.9),
        depth,
        ripple: 0.05,
        cpus: 16 * plan.layout.gpus,
        ..Phase::default()
    };
    plan.step(here, Cause::default());
}

/// Asked at random, at loads of 2 to 50 %.
pub(super) fn serving_load(plan: &mut Plan, chance: &mut Chance) {
    let server = server(plan, chance);
    for [least, most] in [[0.02, 0.05], [0.3, 0.5], [0.05, 0.2], [0.1, 0.4]] {
        let rate = server.rate_for(chance.between(least, most));
        asked(plan, chance, 15, Server { rate, ..server.clone() });
    }
}

/// Short answers to long prompts, for which the front end takes longer than the GPU; then it has enough processes.
pub(super) fn serving_front_end(plan: &mut Plan, chance: &mut Chance) {
    let usual = server(plan, chance);
    let usual = Server { engine: chance.one_of(&[Engine::Vllm, Engine::Sglang, Engine::Vllm]), ..usual };
    asked(plan, chance, 12, Server { clients: 24, ..usual.clone() });
    let (prompt, answer) = (chance.between(1500.0, 4000.0), chance.between(4.0, 16.0));
    let short = Server { prompt, answer, cached: 0.0, clients: 40, ..usual };
    let kernels = prompt * short.per_prefill + answer * short.base;
    let slow = Server { per_request: chance.between(1.5, 3.0) * kernels, ..short };
    asked(plan, chance, 16, slow.clone());
    asked(plan, chance, 12, Server { processes: 8, ..slow });
}

/// The memory for keys and values is full, then it is ample.
pub(super) fn serving_kv_full(plan: &mut Plan, chance: &mut Chance) {
    let server = server(plan, chance);
    let engine = chance.one_of(&[Engine::Sglang, Engine::Sglang, Engine::Vllm]);
    let server = Server { engine, answer: chance.between(300.0, 600.0), clients: 80, reserve: 0.0, ..server };
    let ample = (80.0 * 1.5 * (server.prompt + server.answer)) as usize;
    let full = (chance.between(0.2, 0.35) * ample as f64) as usize;
    asked(plan, chance, 12, Server { memory: ample, ..server.clone() });
    asked(plan, chance, 16, Server { memory: full, ..server.clone() });
    asked(plan, chance, 12, Server { memory: ample, ..server });
}
