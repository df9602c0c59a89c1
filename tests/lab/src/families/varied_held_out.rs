//! Held out: what [`super::varied`] varies, in other jobs. Written before anything is measured on it.

use super::held::prepares;
use super::varied::{in_step, vary};
use super::{Cause, Chance, Phase, Plan, Step, free, late_reads, lost, slow_preparation};

/// Boards of any model: a start, an exchange that is slow all the time, a hang, a second run with late reads, idleness.
pub(super) fn boards_mixed(plan: &mut Plan, chance: &mut Chance) {
    vary(plan, chance);
    plan.nodes = chance.one_of(&[1, 2]);
    free(plan, 6);
    let start = prepares(plan, chance, 8);
    plan.step(start, lost("cold_start"));
    let here = Phase { exchange: chance.between(0.05, 0.3), ..in_step(plan, chance, 24) };
    plan.step(here.clone(), Cause::default());
    plan.step(Phase { hangs: true, minutes: chance.minutes(24), ..here }, Cause::default());
    free(plan, 6);
    let start = prepares(plan, chance, 6);
    plan.step(start, lost("cold_start"));
    let mut here = plan.healthy(chance, 14);
    plan.step(here.clone(), Cause::default());
    late_reads(&mut here, chance, 0.0);
    plan.step(here, lost("dataloader_storage"));
    plan.step(Phase { minutes: chance.minutes(14), workers: 0, ..Phase::default() }, lost("idle_held"));
}

/// A user at a notebook, in whose breaks the kernel holds the GPU, and a server of their own that is asked at times.
pub(super) fn interactive(plan: &mut Plan, chance: &mut Chance) {
    vary(plan, chance);
    (plan.layout.gpus, plan.layout.cpus) = (1, 64);
    free(plan, 6);
    for _ in 0..4 {
        let (minutes, depth) = (chance.one_of(&[1, 3, 5]), chance.between(0.1, 0.9));
        let here = plan.healthy(chance, 1);
        plan.step(Phase { minutes, depth, ..here }, Cause::default());
        let (minutes, thinking) = (chance.minutes(8), chance.one_of(&[0, 1]));
        plan.step(Phase { minutes, workers: 0, thinking, ..Phase::default() }, lost("idle_held"));
    }
    let compute = chance.between(0.1, 0.3);
    let requests = chance.between(0.05, 0.4) / compute;
    let here = Phase { workers: 0, requests, thinking: 1, ..plan.healthy(chance, 24) };
    plan.step(Phase { compute, ..here }, Cause { also: vec!["idle_held"], ..lost("no_demand") });
}

/// Two jobs on one node: one has late reads, slow preparation or nothing to do while the other works.
pub(super) fn shared_node(plan: &mut Plan, chance: &mut Chance) {
    vary(plan, chance);
    (plan.shares_node, plan.nodes) = (true, 2);
    let works = plan.healthy(chance, 14);
    plan.step(works, Cause::default());
    for fault in 0..3 {
        let elsewhere = plan.healthy(chance, 14);
        let mut here = elsewhere.clone();
        let class = match fault {
            0 => {
                late_reads(&mut here, chance, 0.0);
                "dataloader_storage"
            }
            1 => {
                slow_preparation(&mut here, chance, plan.layout.gpus as f64);
                "dataloader_cpu"
            }
            _ => {
                here.workers = 0;
                "idle_held"
            }
        };
        let cause = Cause { starved_elsewhere: Some("productive"), ..lost(class) };
        plan.steps.push(Step { here, elsewhere: Some(elsewhere), cause });
        let works = plan.healthy(chance, 10);
        plan.step(works, Cause::default());
    }
}
