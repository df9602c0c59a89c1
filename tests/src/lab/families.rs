//! The families of traces: what each was made to show, and how its members differ.
//!
//! A family is a function from chance to steps. Chance also gives every trace its machines, noise, exporters, scrape
//! interval and phase. Families that are held out are never looked at while rules and thresholds are chosen.

use super::exporters::{Exporters, Names};
use super::model::Layout;
use super::phase::Phase;
use super::record::{Cause, Plan, Step};
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

/// Every family.
pub const FAMILIES: &[Family] = &[
    tuned("checkpoint", checkpoint),
    tuned("clock_locked", clock_locked),
    tuned("cold_start", cold_start),
    tuned("collective_wait", collective_wait),
    tuned("cpu_throttled", cpu_throttled),
    tuned("cross_numa", cross_numa),
    tuned("dataloader_cpu", dataloader_cpu),
    tuned("dataloader_storage", dataloader_storage),
    tuned("down", down),
    tuned("gang_wait", gang_wait),
    tuned("host_noise", host_noise),
    tuned("host_to_device", host_to_device),
    tuned("idle_held", idle_held),
    tuned("irq_placement", irq_placement),
    tuned("keep_alive", keep_alive),
    tuned("launch_bound", launch_bound),
    tuned("maintenance", maintenance),
    tuned("memory_pressure", memory_pressure),
    tuned("near_miss", near_miss),
    tuned("no_data", no_data),
    tuned("no_demand", no_demand),
    tuned("oom_leak", oom_leak),
    tuned("oom_never", oom_never),
    tuned("partial_allocation", partial_allocation),
    tuned("pcie_degraded", pcie_degraded),
    tuned("power_throttle", power_throttle),
    tuned("productive", productive),
    tuned("straggler", straggler),
    tuned("straggler_feeding", straggler_feeding),
    tuned("straggler_turns", straggler_turns),
    tuned("straggler_uneven", straggler_uneven),
    tuned("stranded_mig", stranded_mig),
    tuned("thermal_throttle", thermal_throttle),
    tuned("thp_compaction", thp_compaction),
    held_out("coarse", coarse),
    held_out("fleet", fleet),
    held_out("inference", inference),
    held_out("mixture", mixture),
    held_out("no_pressure", no_pressure),
    held_out("ranks", ranks),
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
    };
    let interval_ms = 1000 * chance.one_of(&[5, 10, 15, 15, 30, 60]);
    let mut plan = Plan {
        family: family.name,
        name: format!("{member:02}"),
        start_ms: 1_790_000_000_000 + 1000 * chance.below(86_400),
        nodes: 1,
        layout,
        exporters: Exporters::Ours,
        names: chance.one_of(&[Names::Legacy, Names::Legacy, Names::Current]),
        without: Vec::new(),
        interval_ms,
        offset_ms: 10 * chance.below(interval_ms as u64 / 10),
        restart_minute: chance.one_of(&[None, None, Some(11)]),
        steps: Vec::new(),
    };
    (family.steps)(&mut plan, &mut chance);
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

    /// So many minutes, give or take a third.
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

fn productive(plan: &mut Plan, chance: &mut Chance) {
    plan.works(chance, 50);
}

fn slow_preparation(here: &mut Phase, chance: &mut Chance, gpus: f64) {
    (here.prep, here.cpus) = (chance.between(3.0, 5.0), (gpus * chance.between(2.0, 4.0)).round() as usize);
}

fn late_reads(here: &mut Phase, chance: &mut Chance, _: f64) {
    here.read = chance.between(2.5, 6.0);
}

fn dataloader_cpu(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "dataloader_cpu", slow_preparation);
}

fn dataloader_storage(plan: &mut Plan, chance: &mut Chance) {
    plan.exporters = chance.one_of(&[Exporters::Ours, Exporters::Ours, Exporters::DcgmAndNode]);
    plan.fault(chance, "dataloader_storage", late_reads);
}

fn cpu_throttled(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "cpu_throttled", |here, chance, gpus| {
        (here.prep, here.quota) = (chance.between(0.8, 1.5), Some(gpus * chance.between(0.8, 1.3)));
    });
}

fn host_noise(plan: &mut Plan, chance: &mut Chance) {
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
fn irq_placement(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "irq_placement", |here, chance, gpus| {
        (here.prep, here.compute) = (chance.between(0.6, 0.9), 0.2);
        here.cpus = 5 * gpus as usize;
        here.interrupted = here.cpus - gpus as usize;
    });
}

fn thp_compaction(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "thp_compaction", |here, chance, _| here.compact = chance.between(2.5, 6.0));
}

fn memory_pressure(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "memory_pressure", |here, chance, _| here.refault = chance.between(2.5, 6.0));
}

fn cross_numa(plan: &mut Plan, chance: &mut Chance) {
    plan.layout.sockets = 2;
    plan.layout.gpus = plan.layout.gpus.max(2);
    plan.layout.cpus = 32 * plan.layout.gpus;
    for (minutes, remote) in [(12, false), (15, true), (10, false)] {
        let mut here = plan.healthy(chance, minutes);
        (here.prep, here.compute, here.remote) = (0.68, 0.2, remote);
        plan.step(here, Cause { starved_odd: remote.then_some("cross_numa"), ..Cause::default() });
    }
}

fn checkpoint(plan: &mut Plan, chance: &mut Chance) {
    for _ in 0..3 {
        plan.works(chance, 12);
        let save = plan.healthy(chance, 1);
        plan.step(Phase { minutes: chance.minutes(2), save: 60.0, ..save }, lost("checkpoint"));
    }
    plan.works(chance, 12);
}

fn free(plan: &mut Plan, minutes: usize) {
    plan.step(Phase { minutes, job: false, ..Phase::default() }, Cause::default());
}

fn cold_start(plan: &mut Plan, chance: &mut Chance) {
    free(plan, 8);
    plan.step(Phase { minutes: chance.minutes(9), workers: 0, ..Phase::default() }, lost("cold_start"));
    plan.works(chance, 25);
}

fn idle_held(plan: &mut Plan, chance: &mut Chance) {
    plan.works(chance, 15);
    plan.step(Phase { minutes: chance.minutes(20), workers: 0, ..Phase::default() }, lost("idle_held"));
    plan.works(chance, 10);
}

fn partial_allocation(plan: &mut Plan, chance: &mut Chance) {
    plan.layout.gpus = plan.layout.gpus.max(2);
    let here = plan.healthy(chance, 45);
    let cause = Cause { starved_odd: Some("partial_allocation"), ..Cause::default() };
    plan.step(Phase { unused: true, ..here }, cause);
}

fn no_data(plan: &mut Plan, chance: &mut Chance) {
    plan.exporters = chance.one_of(&[Exporters::Dcgm, Exporters::DcgmAndNode, Exporters::Ours]);
    plan.works(chance, 15);
    let here = plan.healthy(chance, 14);
    plan.step(Phase { scraped: false, ..here }, Cause::default());
    plan.works(chance, 15);
}

fn down(plan: &mut Plan, chance: &mut Chance) {
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

/// A job may end on a node that takes no more; then the node is free for whoever works on it.
fn maintenance(plan: &mut Plan, chance: &mut Chance) {
    plan.works(chance, 12);
    let here = plan.healthy(chance, 8);
    plan.step(Phase { cordoned: true, ..here }, Cause::default());
    let here = Phase { minutes: chance.minutes(15), job: false, cordoned: true, ..Phase::default() };
    plan.step(here, Cause::default());
    free(plan, 8);
}

/// A GPU is cut up so that slices are left for nothing, then without any left, then with room for another instance.
fn stranded_mig(plan: &mut Plan, chance: &mut Chance) {
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

fn gang_wait(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = 2;
    free(plan, 6);
    let here = Phase { minutes: chance.minutes(12), workers: 0, ..Phase::default() };
    let elsewhere = Some(Phase { job: false, ..here.clone() });
    plan.steps.push(Step { here, elsewhere, cause: lost("gang_wait") });
    let here = plan.healthy(chance, 20);
    plan.step(Phase { sync: true, ..here }, Cause::default());
}

fn straggler(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = chance.one_of(&[1, 2]);
    plan.layout.gpus = plan.layout.gpus.max(2);
    for clock in [1.0, chance.between(0.4, 0.7), 1.0] {
        let here = Phase { sync: true, ..plan.healthy(chance, 14) };
        let elsewhere = Some(here.clone());
        let culprit = (clock < 1.0).then_some((0, plan.layout.gpus - 1));
        plan.steps.push(Step { here: Phase { clock, ..here }, elsewhere, cause: waits_for(culprit) });
    }
}

/// Ranks wait for this GPU; for nobody, they wait for each other.
fn waits_for(culprit: Option<(usize, usize)>) -> Cause {
    let waiting = if culprit.is_some() { "straggler" } else { "collective_wait" };
    Cause { waiting, culprit, ..Cause::default() }
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

    /// Any GPU of the run.
    fn any_gpu(&self, chance: &mut Chance) -> (usize, usize) {
        (chance.below(self.nodes as u64) as usize, chance.below(self.layout.gpus as u64) as usize)
    }
}

/// Another GPU is hot every few minutes.
fn straggler_turns(plan: &mut Plan, chance: &mut Chance) {
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
fn straggler_uneven(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = chance.one_of(&[1, 2]);
    plan.layout.gpus = plan.layout.gpus.max(2);
    plan.in_step_alike(chance, 14);
    let (culprit, uneven) = (plan.any_gpu(chance), chance.between(0.5, 1.5));
    plan.in_step(chance, 14, culprit, |odd| odd.uneven = uneven);
    plan.in_step_alike(chance, 14);
}

/// The loader of one rank is late, because it is bound to the other socket.
fn straggler_feeding(plan: &mut Plan, chance: &mut Chance) {
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

/// Held out: whatever may hold one rank up, beside a slow exchange that is nobody's.
fn ranks(plan: &mut Plan, chance: &mut Chance) {
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

fn collective_wait(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = 2;
    plan.layout.gpus = plan.layout.gpus.max(2);
    for exchange in [0.0, chance.between(0.2, 0.5), 0.0] {
        let here = plan.healthy(chance, 14);
        plan.step(Phase { sync: true, exchange, ..here }, Cause::default());
    }
}

fn thermal_throttle(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "productive", |here, chance, _| here.clock = chance.between(0.4, 0.75));
}

fn power_throttle(plan: &mut Plan, chance: &mut Chance) {
    plan.works(chance, 12);
    let here = Phase { power_limit: chance.between(150.0, 260.0), ..plan.healthy(chance, 15) };
    plan.step(here, Cause { slowed: "power_throttle", ..Cause::default() });
    plan.works(chance, 10);
}

fn clock_locked(plan: &mut Plan, chance: &mut Chance) {
    plan.works(chance, 20);
    let here = Phase { locked: chance.between(0.4, 0.85), ..plan.healthy(chance, 14) };
    plan.step(here, Cause { slowed: "clock_locked", ..Cause::default() });
    plan.works(chance, 20);
}

/// Copies from pinned memory, over a whole link and over one of a lane or two.
fn pcie_degraded(plan: &mut Plan, chance: &mut Chance) {
    let copy = chance.between(0.08, 0.15);
    for lanes in [16, chance.one_of(&[1, 2]), 16] {
        let here = plan.healthy(chance, 13);
        plan.step(Phase { copy, copy_rate: 25e9, lanes, ..here }, Cause::default());
    }
}

fn host_to_device(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "productive", |here, chance, _| here.copy = chance.between(0.2, 0.5));
}

fn launch_bound(plan: &mut Plan, chance: &mut Chance) {
    plan.fault(chance, "productive", |here, chance, _| here.launching = chance.between(0.4, 1.0));
}

fn keep_alive(plan: &mut Plan, chance: &mut Chance) {
    plan.works(chance, 12);
    let poke = chance.between(1.5, 6.0);
    plan.step(Phase { minutes: chance.minutes(25), workers: 0, poke, ..Phase::default() }, lost("keep_alive"));
}

fn serves(plan: &mut Plan, chance: &mut Chance, about: usize, requests: f64) {
    let here = plan.healthy(chance, about);
    let tells_requests = !plan.layout.seed.is_multiple_of(3);
    // Where the server does not tell, nothing proves that there were no requests.
    let also = if tells_requests { Vec::new() } else { vec!["idle_held"] };
    let cause = Cause { also, ..lost("no_demand") };
    plan.step(Phase { workers: 0, requests, tells_requests, compute: 0.2, ..here }, cause);
}

fn no_demand(plan: &mut Plan, chance: &mut Chance) {
    serves(plan, chance, 15, 20.0);
    serves(plan, chance, 20, 0.0);
    serves(plan, chance, 10, 20.0);
}

fn oom_leak(plan: &mut Plan, chance: &mut Chance) {
    plan.interval_ms = 30_000;
    plan.offset_ms %= plan.interval_ms;
    plan.layout.gpus = 1;
    let (memory, minutes) = (chance.between(0.3, 0.5), chance.minutes(75));
    let here = plan.healthy(chance, 1);
    let leak = (1.0 - memory) / (minutes as f64 / 60.0);
    let cause = Cause { ends_in_oom: true, ..Cause::default() };
    plan.step(Phase { minutes, memory: Some(memory), leak, ..here }, cause);
    free(plan, 10);
}

fn oom_never(plan: &mut Plan, chance: &mut Chance) {
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

/// Scraped once a minute by what everybody has.
fn coarse(plan: &mut Plan, chance: &mut Chance) {
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

/// Nodes of eight GPUs, of which the first has slow storage.
fn fleet(plan: &mut Plan, chance: &mut Chance) {
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

fn inference(plan: &mut Plan, chance: &mut Chance) {
    free(plan, 5);
    plan.step(Phase { minutes: chance.minutes(6), workers: 0, ..Phase::default() }, lost("cold_start"));
    let (some, many) = (chance.between(0.5, 2.5), chance.between(4.0, 20.0));
    serves(plan, chance, 14, many);
    serves(plan, chance, 14, some);
    serves(plan, chance, 14, 0.0);
}

fn mixture(plan: &mut Plan, chance: &mut Chance) {
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

/// What looks like a fault and costs nothing, and faults that look like others.
fn near_miss(plan: &mut Plan, chance: &mut Chance) {
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

/// A kernel without pressure stall information.
fn no_pressure(plan: &mut Plan, chance: &mut Chance) {
    plan.without = vec!["goodput_pressure_", "goodput_cgroup_pressure_"];
    if chance.one_of(&[true, false]) {
        dataloader_storage(plan, chance);
    } else {
        dataloader_cpu(plan, chance);
    }
    plan.exporters = Exporters::Ours;
}
