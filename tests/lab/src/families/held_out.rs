//! Families that are held out: each is written before anything is measured on it, and none is looked at while rules and
//! thresholds are chosen.

use super::feeding::{dataloader_cpu, dataloader_storage};
use super::held::prepares;
use super::{
    Cause, Chance, Exporters, OTHER_MODELS, Phase, Plan, Step, free, late_reads, lost, serves, slow_preparation,
    spins_like_nccl,
};

/// Scraped once a minute by what everybody has.
pub(super) fn coarse(plan: &mut Plan, chance: &mut Chance) {
    plan.exporters = chance.one_of(&[Exporters::DcgmAndNode, Exporters::Dcgm]);
    plan.interval_ms = 60_000;
    plan.offset_ms = 10 * chance.below(6000);
    plan.works(chance, 14);
    let mut here = plan.healthy(chance, 20);
    let class = if chance.one_of(&[true, false]) {
        late_reads(&mut here, chance, 0.0);
        "dataloader_storage"
    } else {
        slow_preparation(&mut here, chance, plan.layout.gpus as f64);
        "dataloader_cpu"
    };
    plan.step(here, Cause { also: vec!["feeding_unsplit"], ..lost(class) });
    plan.works(chance, 12);
    free(plan, 8);
}

/// Nodes of eight GPUs; the first node has slow storage.
pub(super) fn fleet(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = chance.one_of(&[4, 8]);
    plan.layout.gpus = 8;
    (plan.layout.spare, plan.layout.cpus, plan.layout.sockets) = (0, 256, 2);
    plan.interval_ms = 30_000;
    plan.offset_ms %= plan.interval_ms;
    plan.works(chance, 8);
    let elsewhere = plan.healthy(chance, 12);
    let mut here = elsewhere.clone();
    late_reads(&mut here, chance, 8.0);
    let cause = Cause { starved_elsewhere: Some("productive"), ..lost("dataloader_storage") };
    plan.steps.push(Step { here, elsewhere: Some(elsewhere), cause });
    plan.works(chance, 6);
}

pub(super) fn inference(plan: &mut Plan, chance: &mut Chance) {
    free(plan, 5);
    plan.step(Phase { minutes: chance.minutes(6), workers: 0, ..Phase::default() }, lost("cold_start"));
    let (some, many) = (chance.between(0.5, 2.5), chance.between(4.0, 20.0));
    serves(plan, chance, 14, many);
    serves(plan, chance, 14, some);
    serves(plan, chance, 14, 0.0);
}

pub(super) fn mixture(plan: &mut Plan, chance: &mut Chance) {
    free(plan, 6);
    plan.step(Phase { minutes: chance.minutes(6), workers: 0, ..Phase::default() }, lost("cold_start"));
    let first = chance.below(4);
    for fault in 0..3 {
        plan.works(chance, 8);
        let mut here = plan.healthy(chance, 9);
        let class = match (first + fault) % 4 {
            0 => {
                slow_preparation(&mut here, chance, plan.layout.gpus as f64);
                "dataloader_cpu"
            }
            1 => {
                late_reads(&mut here, chance, 0.0);
                "dataloader_storage"
            }
            2 => {
                (here.prep, here.quota) = (1.0, Some(plan.layout.gpus as f64));
                "cpu_throttled"
            }
            _ => {
                here.refault = 4.0;
                "memory_pressure"
            }
        };
        plan.step(here, lost(class));
    }
    plan.works(chance, 6);
    plan.step(Phase { minutes: chance.minutes(12), workers: 0, ..Phase::default() }, lost("idle_held"));
}

/// A kernel without pressure stall information.
pub(super) fn no_pressure(plan: &mut Plan, chance: &mut Chance) {
    plan.without = vec!["goodput_pressure_", "goodput_cgroup_pressure_"];
    if chance.one_of(&[true, false]) {
        dataloader_storage(plan, chance);
    } else {
        dataloader_cpu(plan, chance);
    }
    plan.exporters = Exporters::Ours;
}

/// Held out: any cause that may hold up one rank, with a slow exchange that no rank causes.
pub(super) fn ranks(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = 2;
    plan.layout.gpus = plan.layout.gpus.max(2);
    plan.in_step_alike(chance, 12);
    let exchange = chance.between(0.05, 0.2);
    let here = Phase { sync: true, exchange, ..plan.healthy(chance, 10) };
    plan.step(here, Cause::default());
    let (clock, limit, uneven) = (chance.between(0.4, 0.7), chance.between(150.0, 220.0), chance.between(0.6, 1.2));
    let first = chance.below(3);
    for fault in 0..2 {
        plan.in_step_alike(chance, 8);
        let culprit = plan.any_gpu(chance);
        let kind = (first + fault) % 3;
        let step = plan.in_step(chance, 10, culprit, |odd| match kind {
            0 => odd.clock = clock,
            1 => odd.power_limit = limit,
            _ => odd.uneven = uneven,
        });
        step.cause.slowed = if kind == 1 { "power_throttle" } else { "thermal_throttle" };
    }
    plan.in_step_alike(chance, 8);
}

/// Processes on the other socket: with stall on one GPU of any machine, without any stall, and together with late
/// reads.
pub(super) fn numa(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = chance.one_of(&[1, 2, 3]);
    plan.layout.sockets = 2;
    plan.layout.gpus = chance.one_of(&[2, 4, 8]);
    plan.layout.cpus = 32 * plan.layout.gpus;
    let gpus = plan.layout.gpus;
    let loads = |chance: &mut Chance, minutes: usize, prep: f64| {
        let compute = chance.between(0.15, 0.35);
        // Four workers: a batch every quarter of the time that preparing one takes.
        let prep = 4.0 * compute * prep;
        Phase { minutes: chance.minutes(minutes), prep, compute, cpus: 16 * gpus, ..Phase::default() }
    };
    let here = loads(chance, 12, 0.8);
    plan.step(here, Cause::default());
    // Distant, and fast enough.
    let prep = chance.between(0.2, 0.5);
    let here = Phase { remote: true, odd: Some(chance.below(gpus as u64) as usize), ..loads(chance, 10, prep) };
    plan.step(here, Cause::default());
    for _ in 0..2 {
        let culprit = plan.any_gpu(chance);
        let prep = chance.between(0.75, 0.95);
        let alike = loads(chance, 14, prep);
        let odd = Phase { remote: true, odd: Some(culprit.1), ..alike.clone() };
        let (here, elsewhere) = if culprit.0 == 0 { (odd, alike) } else { (alike, odd) };
        let cause = Cause { starved_odd: Some("cross_numa"), culprit: Some(culprit), ..Cause::default() };
        plan.steps.push(Step { here, elsewhere: Some(elsewhere), cause });
        let here = loads(chance, 8, 0.8);
        plan.step(here, Cause::default());
    }
    // Distant without effect while reads are late for all.
    let mut here = Phase { remote: true, ..loads(chance, 12, 0.3) };
    late_reads(&mut here, chance, 0.0);
    plan.step(here, lost("dataloader_storage"));
    let here = loads(chance, 8, 0.8);
    plan.step(here, Cause::default());
}

/// Seen every 30 or 60 s, by any exporters: a start, two faults, idleness.
pub(super) fn coarse_nodes(plan: &mut Plan, chance: &mut Chance) {
    let interval_ms = chance.one_of(&[30_000, 60_000]);
    plan.scraped_every(interval_ms);
    plan.nodes = chance.one_of(&[1, 2]);
    plan.exporters = chance.one_of(&[Exporters::DcgmAndNode, Exporters::Ours, Exporters::Dcgm]);
    let also = if plan.exporters == Exporters::Dcgm { vec!["feeding_unsplit"] } else { Vec::new() };
    free(plan, 10);
    plan.step(Phase { minutes: chance.minutes(8), workers: 0, ..Phase::default() }, lost("cold_start"));
    let first = chance.one_of(&[true, false]);
    for reads in [first, !first] {
        plan.works(chance, 12);
        let mut here = plan.healthy(chance, 15);
        let class = if reads {
            here.read = chance.between(2.0, 5.0);
            "dataloader_storage"
        } else {
            here.prep = chance.between(2.5, 6.0);
            here.cpus = (plan.layout.gpus as f64 * chance.between(1.5, 3.5)).round() as usize;
            "dataloader_cpu"
        };
        plan.step(here, Cause { also: also.clone(), ..lost(class) });
    }
    plan.works(chance, 12);
    plan.step(Phase { minutes: chance.minutes(16), workers: 0, ..Phase::default() }, lost("idle_held"));
    plan.works(chance, 8);
}

/// Nodes with dcgm-exporter and node_exporter, the first at times with goodput-exporter: ranks that exchange, late
/// loaders, short memory.
pub(super) fn plain_nodes(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = chance.one_of(&[2, 3]);
    plan.layout.gpus = chance.one_of(&[2, 4]);
    let interval_ms = chance.one_of(&[15_000, 30_000]);
    plan.scraped_every(interval_ms);
    plan.exporters = chance.one_of(&[Exporters::DcgmAndNode, Exporters::Ours]);
    plan.exporters_elsewhere = Some(Exporters::DcgmAndNode);
    let gpus = plan.layout.gpus as f64;
    plan.works(chance, 12);
    let mut here = plan.healthy(chance, 12);
    slow_preparation(&mut here, chance, gpus);
    plan.step(here, lost("dataloader_cpu"));
    plan.works(chance, 10);
    let mut here = plan.healthy(chance, 12);
    late_reads(&mut here, chance, gpus);
    plan.step(here, lost("dataloader_storage"));
    plan.works(chance, 10);
    let here = Phase { refault: chance.between(3.0, 6.0), ..plan.healthy(chance, 12) };
    plan.step(here, lost("memory_pressure"));
    for exchange in [0.0, chance.between(0.2, 0.6), 0.0] {
        let mut here = Phase { sync: true, exchange, ..plan.healthy(chance, 12) };
        spins_like_nccl(&mut here, chance);
        plan.step(here, Cause::default());
    }
}

/// Ranks on two or three nodes that have their GPUs one after the other, load for long, work, and end without work.
pub(super) fn starts(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = chance.one_of(&[2, 3]);
    plan.layout.gpus = chance.one_of(&[1, 2]);
    plan.exporters = chance.one_of(&[Exporters::Ours, Exporters::Ours, Exporters::DcgmAndNode]);
    free(plan, 10);
    let here = Phase { minutes: chance.minutes(90), workers: 0, ..Phase::default() };
    let elsewhere = Some(Phase { job: false, ..here.clone() });
    plan.steps.push(Step { here, elsewhere, cause: lost("gang_wait") });
    let minutes = chance.one_of(&[8, 40, 60]);
    plan.step(prepares(plan, chance, minutes), lost("cold_start"));
    plan.works(chance, 30);
    plan.step(Phase { minutes: chance.minutes(40), workers: 0, ..Phase::default() }, lost("idle_held"));
    plan.works(chance, 10);
}

/// GPUs of a model whose idle power the analyzer does not know: a start, ranks that exchange, late loaders, idleness.
pub(super) fn models(plan: &mut Plan, chance: &mut Chance) {
    plan.model = chance.one_of(&OTHER_MODELS);
    plan.nodes = chance.one_of(&[1, 2]);
    plan.layout.gpus = plan.layout.gpus.max(2);
    plan.exporters = chance.one_of(&[Exporters::DcgmAndNode, Exporters::Ours]);
    free(plan, 8);
    plan.step(Phase { minutes: chance.minutes(7), workers: 0, ..Phase::default() }, lost("cold_start"));
    let mut like_nccl = Phase::default();
    spins_like_nccl(&mut like_nccl, chance);
    for exchange in [0.0, chance.between(0.1, 0.6), 0.0] {
        let (spin_depth, spin_watts) = (like_nccl.spin_depth, like_nccl.spin_watts);
        let here = Phase { sync: true, exchange, spin_depth, spin_watts, ..plan.healthy(chance, 13) };
        plan.step(here, Cause::default());
    }
    let mut here = plan.healthy(chance, 14);
    late_reads(&mut here, chance, 0.0);
    plan.step(here, lost("dataloader_storage"));
    plan.works(chance, 10);
    plan.step(Phase { minutes: chance.minutes(14), workers: 0, ..Phase::default() }, lost("idle_held"));
}
