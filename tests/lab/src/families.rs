//! The families of traces: what each was made to show, and how its members differ.
//!
//! A family is a function from chance to steps. Chance also gives every trace its machines, noise, exporters, scrape
//! interval and phase. Families that are held out are never looked at while rules and thresholds are chosen.

mod busy;
mod crash;
pub mod day;
mod feeding;
mod held;
mod held_out;
mod plain;
mod serving;
mod serving_held_out;
mod varied;
mod varied_held_out;

use super::exporters::{Exporters, Fields, H100, Names};
use super::model::Layout;
use super::phase::{Loader, Phase};
use super::record::{Cause, Gauges, Plan, Step};
use crate::demo::machine::noise::hash;

/// A kind of trace.
pub struct Family {
    /// Its name, and that of its folder.
    pub name: &'static str,
    /// Is it kept out of tuning?
    pub is_held_out: bool,
    /// Members.
    pub traces: u64,
    steps: fn(&mut Plan, &mut Chance),
}

const fn tuned(name: &'static str, steps: fn(&mut Plan, &mut Chance)) -> Family {
    Family { name, is_held_out: false, traces: 3, steps }
}

const fn held_out(name: &'static str, steps: fn(&mut Plan, &mut Chance)) -> Family {
    Family { is_held_out: true, ..tuned(name, steps) }
}

/// Models whose idle power the analyzer does not know.
const OTHER_MODELS: [&str; 4] = ["NVIDIA H200", "NVIDIA B200", "NVIDIA L40S", "NVIDIA H100 PCIe"];

/// Every family.
pub const FAMILIES: &[Family] = &[
    tuned("checkpoint", feeding::checkpoint),
    tuned("clock_locked", busy::clock_locked),
    tuned("cold_start", held::cold_start),
    tuned("coarse_loaders", plain::coarse_loaders),
    tuned("coarse_ranks", busy::coarse_ranks),
    tuned("collective_wait", busy::collective_wait),
    tuned("cpu_throttled", feeding::cpu_throttled),
    tuned("cross_numa", feeding::cross_numa),
    tuned("dataloader_cpu", feeding::dataloader_cpu),
    tuned("dataloader_storage", feeding::dataloader_storage),
    tuned("disk_fills", held::disk_fills),
    tuned("disk_saves", held::disk_saves),
    tuned("down", held::down),
    tuned("ends_well", crash::ends_well),
    tuned("few_workers", feeding::few_workers),
    tuned("gang_wait", held::gang_wait),
    tuned("host_noise", feeding::host_noise),
    tuned("host_to_device", feeding::host_to_device),
    tuned("idle_held", held::idle_held),
    tuned("in_process", feeding::in_process),
    tuned("irq_placement", feeding::irq_placement),
    tuned("keep_alive", held::keep_alive),
    tuned("launch_bound", busy::launch_bound),
    tuned("long_gang_wait", held::long_gang_wait),
    tuned("long_start", held::long_start),
    tuned("lost_work_node", crash::lost_work_node),
    tuned("lost_work_xid", crash::lost_work_xid),
    tuned("maintenance", held::maintenance),
    tuned("memory_pressure", feeding::memory_pressure),
    tuned("near_miss", feeding::near_miss),
    tuned("neighbours", plain::neighbours),
    tuned("no_data", held::no_data),
    tuned("no_demand", held::no_demand),
    tuned("off_node", feeding::off_node),
    tuned("oom_leak", held::oom_leak),
    tuned("oom_never", held::oom_never),
    tuned("other_models", busy::other_models),
    tuned("partial_allocation", held::partial_allocation),
    tuned("pcie_degraded", feeding::pcie_degraded),
    tuned("plain_loaders", plain::plain_loaders),
    tuned("plain_ranks", plain::plain_ranks),
    tuned("plain_starts", plain::plain_starts),
    tuned("power_throttle", busy::power_throttle),
    tuned("productive", feeding::productive),
    tuned("ranks_apart", busy::ranks_apart),
    tuned("serving_front_end", serving::serving_front_end),
    tuned("serving_kv_full", serving::serving_kv_full),
    tuned("serving_load", serving::serving_load),
    tuned("straggler", busy::straggler),
    tuned("straggler_feeding", busy::straggler_feeding),
    tuned("straggler_turns", busy::straggler_turns),
    tuned("straggler_uneven", busy::straggler_uneven),
    tuned("stranded_mig", held::stranded_mig),
    tuned("thermal_throttle", busy::thermal_throttle),
    tuned("thp_compaction", feeding::thp_compaction),
    tuned("boards_alike", varied::boards_alike),
    tuned("boards_hang", varied::boards_hang),
    tuned("boards_uneven", varied::boards_uneven),
    tuned("many_workers", varied::many_workers),
    tuned("overlapped_copies", varied::overlapped_copies),
    tuned("quiet_server", varied::quiet_server),
    tuned("notebook", varied::notebook),
    tuned("independent_steps", varied::independent_steps),
    tuned("sub_numa", varied::sub_numa),
    tuned("unlabelled_pods", varied::unlabelled_pods),
    tuned("stuck_signals", varied::stuck_signals),
    held_out("boards_mixed", varied_held_out::boards_mixed),
    held_out("interactive", varied_held_out::interactive),
    held_out("shared_node", varied_held_out::shared_node),
    held_out("coarse", held_out::coarse),
    held_out("coarse_nodes", held_out::coarse_nodes),
    held_out("fleet", held_out::fleet),
    held_out("inference", held_out::inference),
    held_out("mixture", held_out::mixture),
    held_out("models", held_out::models),
    held_out("no_pressure", held_out::no_pressure),
    held_out("numa", held_out::numa),
    held_out("plain_nodes", held_out::plain_nodes),
    held_out("ranks", held_out::ranks),
    held_out("serving_bursts", serving_held_out::serving_bursts),
    held_out("serving_offline", serving_held_out::serving_offline),
    held_out("serving_saturated", serving_held_out::serving_saturated),
    held_out("starts", held_out::starts),
];

/// The plan of a family's member.
#[must_use]
pub fn plan(family: &Family, member: u64) -> Plan {
    let mut chance = Chance { name: family.name, member, drawn: 0 };
    let gpus = chance.one_of(&[1, 2, 4, 8]);
    let layout = Layout {
        gpus,
        spare: chance.one_of(&[0, 0, 0, 1]),
        cpus: 32 * gpus.max(2),
        sockets: chance.one_of(&[1, 2]),
        noise: chance.between(0.02, 0.15),
        seed: hash(family.name, member) >> 40,
        ..Layout::default()
    };
    let interval_ms = 1000 * chance.one_of(&[5, 10, 15, 15, 30, 60]);
    let mut plan = Plan {
        family: family.name,
        name: format!("{member:02}"),
        start_ms: 1_790_000_000_000 + 1000 * chance.below(86_400),
        nodes: 1,
        layout,
        exporters: Exporters::Ours,
        exporters_elsewhere: None,
        names: chance.one_of(&[Names::Legacy, Names::Legacy, Names::Current]),
        fields: Fields::default(),
        model: H100,
        without: Vec::new(),
        interval_ms,
        offset_ms: 10 * chance.below(interval_ms as u64 / 10),
        restart_minute: chance.one_of(&[None, None, Some(11)]),
        gauges: Gauges::default(),
        names_pods: true,
        shares_node: false,
        spoilt: Vec::new(),
        steps: Vec::new(),
    };
    (family.steps)(&mut plan, &mut chance);
    // Drawn by themselves, so that what is drawn above stays as it was before there were any.
    let mut program = Chance { name: family.name, member: member + 1000, drawn: 0 };
    plan.fields = program.one_of(&[Fields::Usual, Fields::Usual, Fields::More]);
    let tensor = program.one_of(&[true, true, true, false]);
    let tensor = if tensor { program.between(0.15, 0.6) } else { 0.0 };
    let (dram, occupancy) = (program.between(0.1, 0.5), program.between(0.2, 0.7));
    for phase in plan.steps.iter_mut().flat_map(|step| step.elsewhere.iter_mut().chain([&mut step.here])) {
        (phase.tensor, phase.dram, phase.occupancy) = (tensor, dram, occupancy);
    }
    plan
}

/// What differs between members: the same in every run.
pub struct Chance {
    name: &'static str,
    member: u64,
    drawn: u64,
}

impl Chance {
    fn next(&mut self) -> u64 {
        self.drawn += 1;
        hash(self.name, self.member * 1000 + self.drawn)
    }

    fn below(&mut self, end: u64) -> i64 {
        (self.next() % end.max(1)) as i64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() as f64 / u64::MAX as f64)
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[(self.next() % all.len() as u64) as usize].clone()
    }

    /// This many minutes, give or take a third.
    fn minutes(&mut self, about: usize) -> usize {
        (about as f64 * self.between(0.67, 1.33)).round() as usize
    }
}

impl Plan {
    /// A job whose loaders keep up.
    fn healthy(&self, chance: &mut Chance, minutes: usize) -> Phase {
        Phase {
            minutes: chance.minutes(minutes),
            prep: chance.between(0.05, 0.2),
            compute: chance.between(0.15, 0.4),
            cpus: 16 * self.layout.gpus,
            ..Phase::default()
        }
    }

    fn works(&mut self, chance: &mut Chance, minutes: usize) {
        let here = self.healthy(chance, minutes);
        self.step(here, Cause::default());
    }

    /// All nodes are scraped that often.
    fn scraped_every(&mut self, interval_ms: i64) {
        self.interval_ms = interval_ms;
        self.offset_ms %= interval_ms;
    }

    fn step(&mut self, here: Phase, cause: Cause) {
        self.steps.push(Step { here, elsewhere: None, cause });
    }

    /// A fault for some minutes between two stretches of work.
    fn fault(&mut self, chance: &mut Chance, class: &'static str, change: impl FnOnce(&mut Phase, &mut Chance, f64)) {
        self.works(chance, 12);
        let mut here = self.healthy(chance, 15);
        change(&mut here, chance, self.layout.gpus as f64);
        self.step(here, Cause { starved: class, ..Cause::default() });
        self.works(chance, 10);
    }
}

fn lost(class: &'static str) -> Cause {
    Cause { starved: class, ..Cause::default() }
}

fn slow_preparation(here: &mut Phase, chance: &mut Chance, gpus: f64) {
    (here.prep, here.cpus) = (chance.between(3.0, 5.0), (gpus * chance.between(2.0, 4.0)).round() as usize);
}

fn late_reads(here: &mut Phase, chance: &mut Chance, _: f64) {
    here.read = chance.between(2.5, 6.0);
}

fn free(plan: &mut Plan, minutes: usize) {
    plan.step(Phase { minutes, job: false, ..Phase::default() }, Cause::default());
}

/// Ranks wait for this GPU; without a culprit, they wait for each other.
fn waits_for(culprit: Option<(usize, usize)>) -> Cause {
    let waiting = if culprit.is_some() { "straggler" } else { "collective_wait" };
    Cause { waiting, culprit, ..Cause::default() }
}

/// How kernels of a collective look while they spin: NCCL's occupy as many multiprocessors as it has channels, up to 32 of
/// the 132 of an H100, and draw what was recorded or somewhat more.
fn spins_like_nccl(here: &mut Phase, chance: &mut Chance) {
    (here.spin_depth, here.spin_watts) = (chance.between(0.03, 0.24), chance.between(140.0, 190.0));
}

impl Plan {
    /// Ranks compute for some minutes in step, and the GPU of this machine and index is what this makes of it.
    fn in_step(
        &mut self,
        chance: &mut Chance,
        minutes: usize,
        culprit: (usize, usize),
        change: impl Fn(&mut Phase),
    ) -> &mut Step {
        let alike = Phase { sync: true, ..self.healthy(chance, minutes) };
        let mut odd = Phase { odd: Some(culprit.1), ..alike.clone() };
        change(&mut odd);
        let (here, elsewhere) = if culprit.0 == 0 { (odd, alike) } else { (alike, odd) };
        self.steps.push(Step { here, elsewhere: Some(elsewhere), cause: waits_for(Some(culprit)) });
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    /// The same without anything odd: the ranks wait for each other.
    fn in_step_alike(&mut self, chance: &mut Chance, minutes: usize) {
        let here = Phase { sync: true, ..self.healthy(chance, minutes) };
        self.step(here, Cause::default());
    }

    /// Any GPU of the run; of more than two machines, one of the first, for the others are all alike.
    fn any_gpu(&self, chance: &mut Chance) -> (usize, usize) {
        let node = chance.below(self.nodes as u64) as usize;
        (if self.nodes > 2 { 0 } else { node }, chance.below(self.layout.gpus as u64) as usize)
    }
}

fn serves(plan: &mut Plan, chance: &mut Chance, about: usize, requests: f64) {
    let here = plan.healthy(chance, about);
    let tells_requests = !plan.layout.seed.is_multiple_of(3);
    // Where the server does not tell, nothing proves that there were no requests.
    let also = if tells_requests { Vec::new() } else { vec!["idle_held"] };
    let cause = Cause { also, ..lost("no_demand") };
    plan.step(Phase { workers: 0, requests, tells_requests, compute: 0.2, ..here }, cause);
}
