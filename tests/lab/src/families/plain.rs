//! Nodes that have dcgm-exporter and node_exporter, or the first of these alone.

use super::held::prepares;
use super::{Cause, Chance, Exporters, Phase, Plan, Step, free, late_reads, lost, slow_preparation, spins_like_nccl};

/// Late loaders, scraped every 30 or 60 s.
pub(super) fn coarse_loaders(plan: &mut Plan, chance: &mut Chance) {
    let interval_ms = chance.one_of(&[30_000, 60_000]);
    plan.scraped_every(interval_ms);
    plan.exporters = chance.one_of(&[Exporters::DcgmAndNode, Exporters::DcgmAndNode, Exporters::Dcgm]);
    late_loaders(plan, chance);
    free(plan, 8);
}

/// The same at any interval, on one or two nodes.
pub(super) fn plain_loaders(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = chance.one_of(&[1, 2]);
    plan.exporters = Exporters::DcgmAndNode;
    late_loaders(plan, chance);
}

/// Late reads, too few CPUs for the job, and too few on the whole node; the exporters report more or less of that.
fn late_loaders(plan: &mut Plan, chance: &mut Chance) {
    let tells_pressure = chance.one_of(&[true, true, false]);
    if !tells_pressure {
        plan.without = vec!["node_pressure_"];
    }
    let gpus = plan.layout.gpus;
    plan.layout.cpus = 8 * gpus;
    let without_host = plan.exporters == Exporters::Dcgm;
    let first = chance.below(3);
    for fault in 0..3 {
        let here = plan.healthy(chance, 12);
        plan.step(Phase { cpus: 8 * gpus, ..here.clone() }, Cause::default());
        let mut here = Phase { minutes: chance.minutes(14), ..here };
        let (class, is_told) = match (first + fault) % 3 {
            0 => {
                late_reads(&mut here, chance, 0.0);
                ("dataloader_storage", true)
            }
            // Without pressure, no metric reports CPUs that the job may not use.
            1 => {
                slow_preparation(&mut here, chance, gpus as f64);
                ("dataloader_cpu", tells_pressure)
            }
            _ => {
                (here.workers, here.prep, here.cpus) = (10, chance.between(3.0, 5.0), plan.layout.cpus);
                ("dataloader_cpu", true)
            }
        };
        let also = if without_host || !is_told { vec!["feeding_unsplit"] } else { Vec::new() };
        plan.step(here, Cause { also, ..lost(class) });
    }
    let here = plan.healthy(chance, 10);
    plan.step(Phase { cpus: 8 * gpus, ..here }, Cause::default());
}

/// A gang that takes long to be complete, then loads for long.
pub(super) fn plain_starts(plan: &mut Plan, chance: &mut Chance) {
    plan.exporters = Exporters::DcgmAndNode;
    plan.nodes = 2;
    plan.layout.gpus = chance.one_of(&[1, 2, 4]);
    free(plan, 8);
    let here = Phase { minutes: chance.minutes(50), workers: 0, ..Phase::default() };
    let elsewhere = Some(Phase { job: false, ..here.clone() });
    plan.steps.push(Step { here, elsewhere, cause: lost("gang_wait") });
    plan.step(prepares(plan, chance, 35), lost("cold_start"));
    plan.works(chance, 20);
    plan.step(Phase { minutes: chance.minutes(25), workers: 0, ..Phase::default() }, lost("idle_held"));
}

/// Tasks of others wait for CPUs of their own all the time: nothing of it is the job's.
pub(super) fn neighbours(plan: &mut Plan, chance: &mut Chance) {
    plan.exporters = chance.one_of(&[Exporters::DcgmAndNode, Exporters::Ours]);
    let here = plan.healthy(chance, 12);
    plan.step(Phase { others_crowded: 4, others_computing: 4, ..here }, Cause::default());
    let mut here = plan.healthy(chance, 14);
    (here.others_crowded, here.others_computing) = (4, 4);
    late_reads(&mut here, chance, 0.0);
    plan.step(here, lost("dataloader_storage"));
    let here = plan.healthy(chance, 10);
    plan.step(Phase { others_crowded: 4, others_computing: 4, ..here }, Cause::default());
    let here = Phase { minutes: chance.minutes(15), workers: 0, others_crowded: 4, ..Phase::default() };
    plan.step(here, lost("idle_held"));
}

/// Ranks exchange results over a slow network, on nodes without goodput-exporter.
pub(super) fn plain_ranks(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = 2;
    plan.layout.gpus = plan.layout.gpus.max(2);
    plan.exporters = Exporters::DcgmAndNode;
    let interval_ms = chance.one_of(&[15_000, 30_000, 60_000]);
    plan.scraped_every(interval_ms);
    for exchange in [0.0, chance.between(0.2, 0.5), 0.0] {
        let mut here = Phase { sync: true, exchange, ..plan.healthy(chance, 16) };
        spins_like_nccl(&mut here, chance);
        plan.step(here, Cause::default());
    }
}
