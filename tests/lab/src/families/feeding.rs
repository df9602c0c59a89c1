//! Loaders that are late, and what makes them so.

use super::{Cause, Chance, Exporters, Loader, Phase, Plan, late_reads, lost, slow_preparation};

pub(super) fn productive(plan: &mut Plan, chance: &mut Chance) {
    plan.works(chance, 50);
}

pub(super) fn dataloader_cpu(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "dataloader_cpu", slow_preparation);
}

/// Workers that are too few for the CPUs there are.
pub(super) fn few_workers(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "dataloader_cpu", |here, chance, _| {
        here.workers = chance.one_of(&[1, 2, 3]);
        here.prep = here.workers as f64 * chance.between(0.8, 2.5);
    });
}

/// No worker processes: the process that holds the GPU prepares batches itself, or its threads do.
pub(super) fn in_process(plan: &mut Plan, chance: &mut Chance) {
    let (loader, threads) = chance.one_of(&[(Loader::Inline, 1), (Loader::Inline, 1), (Loader::Threads, 2)]);
    let compute = chance.between(0.8, 1.6);
    plan.fault(chance, "dataloader_cpu", |here, chance, _| {
        here.prep = compute * chance.between(0.6, 2.0);
        // Threads prepare the next batches meanwhile.
        here.prep *= if loader == Loader::Threads { 3.0 } else { 1.0 };
    });
    for step in &mut plan.steps {
        let prep = if step.cause.starved == "dataloader_cpu" { step.here.prep } else { 0.01 };
        step.here = Phase { loader, spins: true, workers: threads, compute, prep, ..step.here.clone() };
    }
}

pub(super) fn dataloader_storage(plan: &mut Plan, chance: &mut Chance) {
    plan.exporters = chance.one_of(&[Exporters::Ours, Exporters::Ours, Exporters::DcgmAndNode]);
    plan.fault(chance, "dataloader_storage", late_reads);
}

pub(super) fn cpu_throttled(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "cpu_throttled", |here, chance, gpus| {
        (here.prep, here.quota) = (chance.between(0.8, 1.5), Some(gpus * chance.between(0.8, 1.3)));
    });
}

pub(super) fn host_noise(plan: &mut Plan, chance: &mut Chance) {
    let (cpus, steals) = (plan.layout.cpus, chance.one_of(&[false, false, true]));
    plan.fault(chance, "host_noise", |here, chance, gpus| {
        (here.prep, here.compute) = (0.6, 0.2);
        if steals {
            here.steal = chance.between(0.6, 0.8);
        } else {
            here.others_computing = cpus - gpus as usize;
        }
    });
}

/// Interrupts take all but one CPU per GPU of a cpuset that suffices without them.
pub(super) fn irq_placement(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "irq_placement", |here, chance, gpus| {
        (here.prep, here.compute) = (chance.between(0.6, 0.9), 0.2);
        here.cpus = 5 * gpus as usize;
        here.interrupted = here.cpus - gpus as usize;
    });
}

pub(super) fn thp_compaction(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "thp_compaction", |here, chance, _| here.compact = chance.between(2.5, 6.0));
}

pub(super) fn memory_pressure(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "memory_pressure", |here, chance, _| here.refault = chance.between(2.5, 6.0));
}

pub(super) fn cross_numa(plan: &mut Plan, chance: &mut Chance) {
    plan.layout.sockets = 2;
    plan.layout.gpus = plan.layout.gpus.max(2);
    plan.layout.cpus = 32 * plan.layout.gpus;
    for (minutes, remote) in [(12, false), (15, true), (10, false)] {
        let mut here = plan.healthy(chance, minutes);
        (here.prep, here.compute, here.remote) = (0.68, 0.2, remote);
        plan.step(here, Cause { starved_odd: remote.then_some("cross_numa"), ..Cause::default() });
    }
}

/// A process on the other socket that keeps up all the same, with late reads and slow copies of all of them.
pub(super) fn off_node(plan: &mut Plan, chance: &mut Chance) {
    plan.layout.sockets = 2;
    plan.layout.gpus = plan.layout.gpus.max(4);
    plan.layout.cpus = 32 * plan.layout.gpus;
    let distant = |plan: &Plan, chance: &mut Chance, minutes| {
        let here = plan.healthy(chance, minutes);
        let odd = Some(chance.below(plan.layout.gpus as u64) as usize);
        Phase { prep: chance.between(0.05, 0.1), remote: true, odd, ..here }
    };
    let here = distant(plan, chance, 10);
    plan.step(here, Cause::default());
    let mut here = distant(plan, chance, 20);
    late_reads(&mut here, chance, 0.0);
    plan.step(here, lost("dataloader_storage"));
    let here = distant(plan, chance, 10);
    plan.step(here, Cause::default());
    let here = Phase { copy: chance.between(0.1, 0.3), ..distant(plan, chance, 14) };
    plan.step(here, Cause::default());
}

pub(super) fn checkpoint(plan: &mut Plan, chance: &mut Chance) {
    for _ in 0..3 {
        plan.works(chance, 12);
        let save = plan.healthy(chance, 1);
        plan.step(Phase { minutes: chance.minutes(2), save: 60.0, ..save }, lost("checkpoint"));
    }
    plan.works(chance, 12);
}

pub(super) fn host_to_device(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "productive", |here, chance, _| here.copy = chance.between(0.2, 0.5));
}

/// Copies from pinned memory, over a whole link and over one of a lane or two.
pub(super) fn pcie_degraded(plan: &mut Plan, chance: &mut Chance) {
    let copy = chance.between(0.08, 0.15);
    for lanes in [16, chance.one_of(&[1, 2]), 16] {
        let here = plan.healthy(chance, 13);
        plan.step(Phase { copy, copy_rate: 25e9, lanes, ..here }, Cause::default());
    }
}

/// What looks like a fault and costs nothing, and faults that look like others.
pub(super) fn near_miss(plan: &mut Plan, chance: &mut Chance) {
    plan.layout.sockets = 2;
    plan.layout.gpus = plan.layout.gpus.max(2);
    plan.layout.cpus = 32 * plan.layout.gpus;
    // Noisy neighbours, writes and distant memory without effect.
    for change in [
        (|p: &mut Phase| p.others_computing = 8) as fn(&mut Phase),
        |p| p.writes = 2e8,
        |p| (p.remote, p.prep) = (true, 0.1),
        |p| p.others_reading = 4,
        |p| p.read = 0.3,
    ] {
        let mut here = plan.healthy(chance, 6);
        change(&mut here);
        plan.step(here, Cause::default());
    }
    // Late reads while much is written all the time; a cpuset that is too small under a quota that is not.
    let mut here = plan.healthy(chance, 10);
    (here.writes, here.read) = (2e8, 4.0);
    plan.step(here, lost("dataloader_storage"));
    plan.works(chance, 8);
    let mut here = plan.healthy(chance, 10);
    slow_preparation(&mut here, chance, plan.layout.gpus as f64);
    here.quota = Some(4.0 * here.cpus as f64);
    plan.step(here, lost("dataloader_cpu"));
    plan.works(chance, 6);
}
