//! Families that vary what the others hold still: boards, how long ranks wait, what a job is, and what exporters tell.
//!
//! Each begins with [`vary`]: a model of boards whose levels differ from node to node, and gauges that are means or points.

use super::{Cause, Chance, Gauges, Phase, Plan, Step, free, late_reads, lost, slow_preparation};
use crate::board::BOARDS;
use crate::spoil::Spoilt;

/// Another board, other gauges, few GPUs.
pub(super) fn vary(plan: &mut Plan, chance: &mut Chance) {
    let board = &BOARDS[chance.below(BOARDS.len() as u64) as usize];
    (plan.layout.board, plan.model) = (Some(board), board.name);
    plan.gauges = chance.one_of(&[Gauges::Second, Gauges::Point, Gauges::Mean]);
    (plan.layout.gpus, plan.layout.spare) = (chance.one_of(&[2, 4]), 0);
    plan.layout.cpus = 32 * plan.layout.gpus;
}

/// Ranks that spin like NCCL's; what they draw meanwhile is the board's.
pub(super) fn in_step(plan: &Plan, chance: &mut Chance, minutes: usize) -> Phase {
    Phase { sync: true, spin_depth: chance.between(0.03, 0.24), ..plan.healthy(chance, minutes) }
}

/// A slow exchange from the first step to the last.
pub(super) fn boards_alike(plan: &mut Plan, chance: &mut Chance) {
    vary(plan, chance);
    plan.nodes = chance.one_of(&[1, 2]);
    free(plan, 6);
    let here = Phase { exchange: chance.between(0.08, 0.4), ..in_step(plan, chance, 60) };
    plan.step(here, Cause::default());
    free(plan, 6);
}

/// Ranks work, and then wait for ever.
pub(super) fn boards_hang(plan: &mut Plan, chance: &mut Chance) {
    vary(plan, chance);
    plan.nodes = chance.one_of(&[1, 2]);
    let here = in_step(plan, chance, 20);
    plan.step(here.clone(), Cause::default());
    plan.step(Phase { hangs: true, minutes: chance.minutes(60), ..here }, Cause::default());
    free(plan, 6);
}

/// A rank has more to do than the others from the first step to the last.
pub(super) fn boards_uneven(plan: &mut Plan, chance: &mut Chance) {
    vary(plan, chance);
    plan.nodes = chance.one_of(&[1, 2]);
    let culprit = plan.any_gpu(chance);
    let alike = in_step(plan, chance, 60);
    let odd = Phase { odd: Some(culprit.1), uneven: chance.between(0.3, 1.2), ..alike.clone() };
    let (here, elsewhere) = if culprit.0 == 0 { (odd, alike) } else { (alike, odd) };
    let cause = Cause { waiting: "straggler", culprit: Some(culprit), ..Cause::default() };
    plan.steps.push(Step { here, elsewhere: Some(elsewhere), cause });
    free(plan, 6);
}

/// Dozens of workers that each read for a part of their time: some of them wait for storage all the time, and nothing
/// is late until the reads take so long that the GPU waits.
pub(super) fn many_workers(plan: &mut Plan, chance: &mut Chance) {
    vary(plan, chance);
    let workers = chance.one_of(&[16, 24, 32]);
    let compute = chance.between(0.15, 0.4);
    // A worker's time for a batch, as a multiple of the GPU's time for one.
    let whole = compute * workers as f64;
    let cpus = plan.layout.cpus;
    let keeps_up = Phase { workers, compute, prep: 0.4 * whole, read: 0.1 * whole, cpus, ..plan.healthy(chance, 25) };
    let keeps_up = Phase { prep: keeps_up.prep.min(0.4 * compute * cpus as f64 / plan.layout.gpus as f64), ..keeps_up };
    let keeps_up = Phase { compute, cpus, ..keeps_up };
    plan.step(keeps_up.clone(), Cause::default());
    plan.step(Phase { read: chance.between(1.3, 2.0) * whole, ..keeps_up.clone() }, lost("dataloader_storage"));
    plan.step(keeps_up, Cause::default());
}

/// Gigabytes a second come over PCIe while the GPU computes; then batches are late to be prepared.
pub(super) fn overlapped_copies(plan: &mut Plan, chance: &mut Chance) {
    vary(plan, chance);
    let overlap = 1e9 * chance.between(0.6, 12.0);
    let here = Phase { overlap, ..plan.healthy(chance, 30) };
    plan.step(here.clone(), Cause::default());
    let mut late = here.clone();
    slow_preparation(&mut late, chance, plan.layout.gpus as f64);
    plan.step(late, lost("dataloader_cpu"));
    plan.step(here, Cause::default());
}

/// A server that tells nothing of its requests, by day and by night. Nothing proves that there were none.
pub(super) fn quiet_server(plan: &mut Plan, chance: &mut Chance) {
    vary(plan, chance);
    let compute = chance.between(0.05, 0.4);
    for load in [chance.between(0.3, 0.7), chance.between(0.02, 0.15), chance.between(0.3, 0.7)] {
        let thinking = plan.layout.gpus;
        let here = Phase { workers: 0, requests: load / compute, compute, thinking, ..plan.healthy(chance, 20) };
        let cause = Cause { also: vec!["idle_held"], ..lost("no_demand") };
        plan.step(Phase { compute, ..here }, cause);
    }
}

/// A user runs a cell now and then; at times the notebook computes on a CPU alone.
pub(super) fn notebook(plan: &mut Plan, chance: &mut Chance) {
    vary(plan, chance);
    (plan.layout.gpus, plan.layout.cpus) = (1, 64);
    for _ in 0..5 {
        let minutes = chance.one_of(&[1, 2, 4]);
        let here = Phase { minutes, depth: chance.between(0.1, 0.8), ..plan.healthy(chance, 1) };
        plan.step(Phase { minutes, ..here }, Cause::default());
        let (minutes, thinking) = (chance.minutes(9), chance.one_of(&[0, 1, 1]));
        plan.step(Phase { minutes, workers: 0, thinking, ..Phase::default() }, lost("idle_held"));
    }
}

/// Each GPU of the job works through steps of its own, deep and shallow ones, at its own pace: no GPU waits.
pub(super) fn independent_steps(plan: &mut Plan, chance: &mut Chance) {
    vary(plan, chance);
    plan.nodes = chance.one_of(&[1, 2]);
    for uneven in [0.0, chance.between(0.5, 2.0)] {
        let here = Phase { mixed: chance.between(0.5, 0.9), uneven, ..plan.healthy(chance, 30) };
        plan.step(here, Cause::default());
    }
}

/// Sockets that are divided into NUMA nodes, or memory without CPUs; nothing is on the wrong socket, then one process is.
pub(super) fn sub_numa(plan: &mut Plan, chance: &mut Chance) {
    vary(plan, chance);
    plan.layout.sockets = 2;
    let layouts = [(2, 0), (4, 0), (1, 2), (2, 2)];
    (plan.layout.nodes_per_socket, plan.layout.memory_nodes) = chance.one_of(&layouts);
    let compute = chance.between(0.15, 0.35);
    let works = |plan: &Plan, chance: &mut Chance, prep: f64| {
        let here = plan.healthy(chance, 16);
        Phase { prep: 4.0 * compute * prep, compute, ..here }
    };
    let here = works(plan, chance, 0.8);
    plan.step(here, Cause::default());
    let mut late = works(plan, chance, 0.3);
    late_reads(&mut late, chance, 0.0);
    plan.step(late, lost("dataloader_storage"));
    let culprit = plan.any_gpu(chance);
    let odd = Phase { remote: true, odd: Some(culprit.1), ..works(plan, chance, 0.85) };
    let cause = Cause { starved_odd: Some("cross_numa"), culprit: Some(culprit), ..Cause::default() };
    plan.step(odd, cause);
    let here = works(plan, chance, 0.8);
    plan.step(here, Cause::default());
}

/// dcgm-exporter knows no pods: who holds a GPU is not told.
pub(super) fn unlabelled_pods(plan: &mut Plan, chance: &mut Chance) {
    vary(plan, chance);
    plan.names_pods = false;
    free(plan, 10);
    plan.works(chance, 20);
    let mut late = plan.healthy(chance, 16);
    late_reads(&mut late, chance, 0.0);
    plan.step(late, Cause { also: vec!["feeding_unsplit"], ..lost("dataloader_storage") });
    plan.step(Phase { minutes: chance.minutes(20), workers: 0, ..Phase::default() }, lost("idle_held"));
    free(plan, 8);
}

/// A job works all the time, and exporters tell otherwise for a while: engine at 0, no watts, or all stands still while
/// the energy counter goes on.
pub(super) fn stuck_signals(plan: &mut Plan, chance: &mut Chance) {
    vary(plan, chance);
    plan.works(chance, 75);
    plan.steps[0].here.minutes = 75;
    let both = |minutes, metrics, value| Spoilt { metrics, minutes, value };
    plan.spoilt = vec![
        both([12, 12], &["DCGM_FI_PROF_GR_ENGINE_ACTIVE"], Some(0.0)),
        both([32, 12], &["DCGM_FI_DEV_POWER_USAGE"], Some(0.0)),
        both([52, 12], &["DCGM_FI_PROF_", "DCGM_FI_DEV_GPU_UTIL"], None),
    ];
}
