//! GPUs whose work is slower than it could be, and ranks that wait for each other.

use super::{Cause, Chance, Exporters, OTHER_MODELS, Phase, Plan, Step, spins_like_nccl, waits_for};

pub(super) fn straggler(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = chance.one_of(&[1, 2]);
    plan.layout.gpus = plan.layout.gpus.max(2);
    for clock in [1.0, chance.between(0.4, 0.7), 1.0] {
        let here = Phase { sync: true, ..plan.healthy(chance, 14) };
        let elsewhere = Some(here.clone());
        let culprit = (clock < 1.0).then_some((0, plan.layout.gpus - 1));
        plan.steps.push(Step { here: Phase { clock, ..here }, elsewhere, cause: waits_for(culprit) });
    }
}

/// Another GPU is hot every few minutes.
pub(super) fn straggler_turns(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = 2;
    plan.layout.gpus = plan.layout.gpus.max(2);
    plan.in_step_alike(chance, 12);
    for _ in 0..4 {
        let (culprit, clock) = (plan.any_gpu(chance), chance.between(0.4, 0.7));
        plan.in_step(chance, 5, culprit, |odd| odd.clock = clock);
    }
    plan.in_step_alike(chance, 10);
}

/// A rank has more to do than the others: nothing is wrong with its GPU.
pub(super) fn straggler_uneven(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = chance.one_of(&[1, 2]);
    plan.layout.gpus = plan.layout.gpus.max(2);
    plan.in_step_alike(chance, 14);
    let (culprit, uneven) = (plan.any_gpu(chance), chance.between(0.5, 1.5));
    plan.in_step(chance, 14, culprit, |odd| odd.uneven = uneven);
    plan.in_step_alike(chance, 14);
}

/// The loader of one rank is late, because it is bound to the other socket.
pub(super) fn straggler_feeding(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = chance.one_of(&[1, 2]);
    plan.layout.gpus = plan.layout.gpus.max(2);
    (plan.layout.sockets, plan.layout.cpus) = (2, 32 * plan.layout.gpus);
    let busy_loaders = |phase: &mut Phase| (phase.prep, phase.compute) = (0.68, 0.2);
    for remote in [false, true, false] {
        let culprit = plan.any_gpu(chance);
        let step = plan.in_step(chance, 14, culprit, |odd| odd.remote = remote);
        busy_loaders(&mut step.here);
        step.elsewhere.iter_mut().for_each(busy_loaders);
        if remote {
            step.cause.starved_odd = Some("cross_numa");
        } else {
            step.cause = waits_for(None);
        }
    }
}

pub(super) fn collective_wait(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = 2;
    plan.layout.gpus = plan.layout.gpus.max(2);
    for exchange in [0.0, chance.between(0.2, 0.5), 0.0] {
        let here = plan.healthy(chance, 14);
        plan.step(Phase { sync: true, exchange, ..here }, Cause::default());
    }
}

pub(super) fn thermal_throttle(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "productive", |here, chance, _| here.clock = chance.between(0.4, 0.75));
}

pub(super) fn power_throttle(plan: &mut Plan, chance: &mut Chance) {
    plan.works(chance, 12);
    let here = Phase { power_limit: chance.between(150.0, 260.0), ..plan.healthy(chance, 15) };
    plan.step(here, Cause { slowed: "power_throttle", ..Cause::default() });
    plan.works(chance, 10);
}

pub(super) fn clock_locked(plan: &mut Plan, chance: &mut Chance) {
    plan.works(chance, 20);
    let here = Phase { locked: chance.between(0.4, 0.85), ..plan.healthy(chance, 14) };
    plan.step(here, Cause { slowed: "clock_locked", ..Cause::default() });
    plan.works(chance, 20);
}

pub(super) fn launch_bound(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "productive", |here, chance, _| here.launching = chance.between(0.4, 1.0));
}

/// Ranks on several nodes, scraped every 30 or 60 s: an exchange that takes long, then one rank that is hot.
pub(super) fn coarse_ranks(plan: &mut Plan, chance: &mut Chance) {
    let interval_ms = chance.one_of(&[30_000, 60_000]);
    plan.scraped_every(interval_ms);
    plan.nodes = chance.one_of(&[2, 3, 4]);
    plan.layout.gpus = plan.layout.gpus.clamp(2, 4);
    exchanges_and_waits(plan, chance);
}

/// The same, at any interval, with one GPU to a node.
pub(super) fn ranks_apart(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = chance.one_of(&[2, 3, 4]);
    plan.layout.gpus = 1;
    exchanges_and_waits(plan, chance);
}

/// The same of a model whose idle power the analyzer does not know, by any exporters.
pub(super) fn other_models(plan: &mut Plan, chance: &mut Chance) {
    plan.model = chance.one_of(&OTHER_MODELS);
    plan.nodes = 2;
    plan.exporters = chance.one_of(&[Exporters::DcgmAndNode, Exporters::Ours]);
    exchanges_and_waits(plan, chance);
}

fn exchanges_and_waits(plan: &mut Plan, chance: &mut Chance) {
    let mut like_nccl = Phase::default();
    spins_like_nccl(&mut like_nccl, chance);
    let ripple = chance.between(0.0, 0.06);
    let looks = |phase: &mut Phase| {
        (phase.spin_depth, phase.spin_watts, phase.ripple) = (like_nccl.spin_depth, like_nccl.spin_watts, ripple);
    };
    for exchange in [0.0, chance.between(0.15, 0.5), 0.0] {
        let mut here = Phase { sync: true, exchange, ..plan.healthy(chance, 14) };
        looks(&mut here);
        plan.step(here, Cause::default());
    }
    let (culprit, clock) = (plan.any_gpu(chance), chance.between(0.4, 0.7));
    let step = plan.in_step(chance, 12, culprit, |odd| odd.clock = clock);
    looks(&mut step.here);
    step.elsewhere.iter_mut().for_each(looks);
    let mut here = Phase { sync: true, ..plan.healthy(chance, 12) };
    looks(&mut here);
    plan.step(here, Cause::default());
}
