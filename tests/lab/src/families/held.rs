//! GPUs that are held without work, or free.

use super::{Cause, Chance, Exporters, Layout, Phase, Plan, Step, free, lost, serves};

pub(super) fn cold_start(plan: &mut Plan, chance: &mut Chance) {
    free(plan, 8);
    plan.step(Phase { minutes: chance.minutes(9), workers: 0, ..Phase::default() }, lost("cold_start"));
    plan.works(chance, 25);
}

pub(super) fn idle_held(plan: &mut Plan, chance: &mut Chance) {
    plan.works(chance, 15);
    plan.step(Phase { minutes: chance.minutes(20), workers: 0, ..Phase::default() }, lost("idle_held"));
    plan.works(chance, 10);
}

pub(super) fn partial_allocation(plan: &mut Plan, chance: &mut Chance) {
    plan.layout.gpus = plan.layout.gpus.max(2);
    let here = plan.healthy(chance, 45);
    let cause = Cause { starved_odd: Some("partial_allocation"), ..Cause::default() };
    plan.step(Phase { unused: true, ..here }, cause);
}

pub(super) fn no_data(plan: &mut Plan, chance: &mut Chance) {
    plan.exporters = chance.one_of(&[Exporters::Dcgm, Exporters::DcgmAndNode, Exporters::Ours]);
    plan.works(chance, 15);
    let here = plan.healthy(chance, 14);
    plan.step(Phase { scraped: false, ..here }, Cause::default());
    plan.works(chance, 15);
}

pub(super) fn down(plan: &mut Plan, chance: &mut Chance) {
    let last_is_down = Cause { starved_odd: Some("down"), ..Cause::default() };
    plan.works(chance, 12);
    // A pending reset that waits for the end of the work costs nothing.
    let here = plan.healthy(chance, 8);
    plan.step(Phase { wants_reset: true, ..here }, Cause::default());
    let here = plan.healthy(chance, 15);
    let lost = chance.one_of(&[true, false]);
    plan.step(Phase { lost, wants_reset: !lost, unused: true, ..here }, last_is_down);
    plan.works(chance, 10);
}

/// A job may end on a node that takes no more; then the node is free for maintenance.
pub(super) fn maintenance(plan: &mut Plan, chance: &mut Chance) {
    plan.works(chance, 12);
    let here = plan.healthy(chance, 8);
    plan.step(Phase { cordoned: true, ..here }, Cause::default());
    let here = Phase { minutes: chance.minutes(15), job: false, cordoned: true, ..Phase::default() };
    plan.step(here, Cause::default());
    free(plan, 8);
}

/// A GPU is cut up so that slices are left for nothing, then without any left, then with room for another instance.
pub(super) fn stranded_mig(plan: &mut Plan, chance: &mut Chance) {
    let layouts: [[&[&str]; 3]; 2] = [
        [&["3g.40gb"; 2], &["4g.40gb", "3g.40gb"], &["2g.20gb", "3g.40gb"]],
        [&["1g.20gb"; 4], &["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"], &["1g.10gb"; 4]],
    ];
    let layouts = chance.one_of(&layouts);
    let held = chance.one_of(&[layouts[0].len(), layouts[0].len() - 1]);
    plan.layout = Layout { gpus: held, spare: layouts[0].len() - held, ..plan.layout };
    plan.exporters = chance.one_of(&[Exporters::Ours, Exporters::Ours, Exporters::Dcgm]);
    for (profiles, rest) in layouts.into_iter().zip(["stranded_mig", "unallocated", "unallocated"]) {
        let mig: Vec<String> = profiles.iter().map(|profile| (*profile).to_owned()).collect();
        let free = Phase { minutes: chance.minutes(6), job: false, mig: mig.clone(), ..Phase::default() };
        plan.step(free, Cause { rest, ..Cause::default() });
        let works = Phase { mig, ..plan.healthy(chance, 12) };
        plan.step(works, Cause { rest, ..Cause::default() });
    }
}

pub(super) fn gang_wait(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = 2;
    free(plan, 6);
    let here = Phase { minutes: chance.minutes(12), workers: 0, ..Phase::default() };
    let elsewhere = Some(Phase { job: false, ..here.clone() });
    plan.steps.push(Step { here, elsewhere, cause: lost("gang_wait") });
    let here = plan.healthy(chance, 20);
    plan.step(Phase { sync: true, ..here }, Cause::default());
}

/// A gang that takes hours to be complete, then a short start.
pub(super) fn long_gang_wait(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = 2;
    plan.layout.gpus = plan.layout.gpus.min(4);
    free(plan, 12);
    let here = Phase { minutes: chance.minutes(110), workers: 0, ..Phase::default() };
    let elsewhere = Some(Phase { job: false, ..here.clone() });
    plan.steps.push(Step { here, elsewhere, cause: lost("gang_wait") });
    plan.step(Phase { minutes: chance.minutes(7), workers: 0, ..Phase::default() }, lost("cold_start"));
    let here = plan.healthy(chance, 20);
    plan.step(Phase { sync: true, ..here }, Cause::default());
}

/// An hour of loading and compiling before the first batch.
pub(super) fn long_start(plan: &mut Plan, chance: &mut Chance) {
    plan.layout.gpus = plan.layout.gpus.min(4);
    free(plan, 12);
    plan.step(prepares(plan, chance, 60), lost("cold_start"));
    plan.works(chance, 25);
}

/// A job whose CPUs are at work and have nothing for its GPUs yet.
pub(super) fn prepares(plan: &Plan, chance: &mut Chance, minutes: usize) -> Phase {
    let here = plan.healthy(chance, minutes);
    Phase { prep: chance.between(60.0, 120.0), ..here }
}

pub(super) fn keep_alive(plan: &mut Plan, chance: &mut Chance) {
    plan.works(chance, 12);
    let poke = chance.between(1.5, 6.0);
    plan.step(Phase { minutes: chance.minutes(25), workers: 0, poke, ..Phase::default() }, lost("keep_alive"));
}

pub(super) fn no_demand(plan: &mut Plan, chance: &mut Chance) {
    serves(plan, chance, 15, 20.0);
    serves(plan, chance, 20, 0.0);
    serves(plan, chance, 10, 20.0);
}

pub(super) fn oom_leak(plan: &mut Plan, chance: &mut Chance) {
    plan.interval_ms = 30_000;
    plan.offset_ms %= plan.interval_ms;
    plan.layout.gpus = 1;
    let (memory, minutes) = (chance.between(0.3, 0.5), chance.minutes(75));
    let here = plan.healthy(chance, 1);
    let leak = (1.0 - memory) / (minutes as f64 / 60.0);
    let cause = Cause { runs_out: Some("gpu"), ..Cause::default() };
    plan.step(Phase { minutes, memory: Some(memory), leak, ..here }, cause);
    free(plan, 10);
}

pub(super) fn oom_never(plan: &mut Plan, chance: &mut Chance) {
    plan.interval_ms = 30_000;
    plan.offset_ms %= plan.interval_ms;
    plan.layout.gpus = 1;
    let (low, high) = chance.one_of(&[(0.95, 0.95), (0.5, 0.9), (0.6, 0.8)]);
    for _ in 0..8 {
        let (minutes, here) = (chance.minutes(12), plan.healthy(chance, 1));
        let leak = (high - low) / (minutes as f64 / 60.0);
        plan.step(Phase { minutes, memory: Some(low), leak, ..here }, Cause::default());
    }
}

/// What the job writes is never removed, until nothing more can be written.
pub(super) fn disk_fills(plan: &mut Plan, chance: &mut Chance) {
    has_a_disk(plan);
    let (disk, minutes) = (chance.between(0.4, 0.6), chance.minutes(100));
    let here = plan.healthy(chance, 1);
    let fill = (1.0 - disk) / (minutes as f64 / 60.0);
    let cause = Cause { runs_out: Some("disk"), ..Cause::default() };
    plan.step(Phase { minutes, disk: Some(disk), fill, ..here }, cause);
    free(plan, 10);
}

/// Checkpoints fill the disk, and old ones are removed; or it is rather full and stays so. A kubelet does not mind yet.
pub(super) fn disk_saves(plan: &mut Plan, chance: &mut Chance) {
    has_a_disk(plan);
    let (low, high) = chance.one_of(&[(0.4, 0.84), (0.65, 0.84), (0.84, 0.84)]);
    for _ in 0..10 {
        let (minutes, here) = (chance.minutes(12), plan.healthy(chance, 1));
        let fill = (high - low) / (minutes as f64 / 60.0);
        plan.step(Phase { minutes, disk: Some(low), fill, ..here }, Cause::default());
    }
}

/// Only node_exporter reports file systems.
fn has_a_disk(plan: &mut Plan) {
    plan.exporters = Exporters::DcgmAndNode;
    plan.interval_ms = 30_000;
    plan.offset_ms %= plan.interval_ms;
    plan.layout.gpus = 1;
}
