//! A training job as a queue: workers read a batch, then prepare it on the CPU, then put it into a bounded queue; the
//! GPU takes one and computes. What the exporters would have counted falls out of the simulation, tick by tick; no value
//! is written for the sake of a class. Signals never feed back: the schedule alone says what was the matter.
//!
//! GPUs of several machines can be ranks of one run: where the schedule says so they finish each batch together.

mod serve;

use super::board::{Board, Draw};
use super::counters::{Counters, GpuCounters, Spent};
use super::phase::{Loader, Phase, WATTS};
use super::serving::{Serving, Tick};
use super::storage::Waits;
use crate::demo::machine::noise::hash;

/// One tick of the simulation.
const TICK: f64 = 0.01;
/// Length of a CPU quota period: the kernel's default.
const PERIOD_TICKS: u64 = 10;
/// Batches that the queue holds per worker: PyTorch's default `prefetch_factor`.
const PREFETCH: usize = 2;

/// Share of the disk in use where the schedule says nothing.
const DISK: f64 = 0.3;
/// Share of the device memory that a job takes where the schedule says nothing: 40,000 MiB of an H100's.
pub const JOB_MEMORY: f64 = 0.49;
/// How much longer preparation takes with memory on the other NUMA node: latency of 139 ns against 80 ns in a handbook.
const REMOTE: f64 = 1.7;
/// Compactions a second of a task that waits for them all the time: they take milliseconds each.
const COMPACTIONS: f64 = 100.0;
/// Interrupts a second of a device that keeps a CPU busy.
const INTERRUPTS: f64 = 1e5;
/// Bytes of its state that the job writes in a second.
const SAVE_RATE: f64 = 1e9;
/// Share of the cycles of device memory that kernels take which wait for other ranks: an exchange at 50 GB/s per GPU reads
/// and writes each byte three times, of the 3.35 TB/s of an H100.
const SPINNING_DRAM: f64 = 0.045;
/// Pages that come back in a second for a task that waits for them: reads of 4 KiB, one at a time, of 0.1 ms.
const REFAULTS: f64 = 10_000.0;

/// A GPU that works on steps of its own changes them after so long.
const MIXED_SECONDS: f64 = 240.0;

/// What the machine is made of, and what its job has of it.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// GPUs of the job, the first ones of the machine.
    pub gpus: usize,
    /// Free GPUs, after these.
    pub spare: usize,
    /// CPUs, evenly on its NUMA nodes.
    pub cpus: usize,
    /// Sockets, 1 or 2.
    pub sockets: usize,
    /// NUMA nodes that each socket is divided into: 1, or more with sub-NUMA clustering.
    pub nodes_per_socket: usize,
    /// NUMA nodes of memory alone, behind the others.
    pub memory_nodes: usize,
    /// The model of its boards; an H100 whose draw is in the phase where there is none.
    pub board: Option<&'static Board>,
    /// Which machine of the run it is.
    pub node: u64,
    /// How far batches differ: each takes 1 - noise to 1 + noise times as long.
    pub noise: f64,
    /// What the differences are drawn from.
    pub seed: u64,
}

impl Default for Layout {
    /// A GPU, 32 CPUs on two NUMA nodes, and batches that are all alike.
    fn default() -> Self {
        Layout {
            gpus: 1,
            spare: 0,
            cpus: 32,
            sockets: 2,
            nodes_per_socket: 1,
            memory_nodes: 0,
            board: None,
            node: 0,
            noise: 0.0,
            seed: 0,
        }
    }
}

impl Layout {
    /// What a GPU draws, in watts.
    fn draw(&self, gpu: usize, phase: &Phase) -> Draw {
        let [bare, context, _] = WATTS;
        // Machines of a run have seeds of their own; levels are the run's.
        let drawn = self.board.map(|board| board.draw(self.seed / 1009, self.node, gpu));
        drawn.unwrap_or(Draw { bare, context, spin: phase.spin_watts, full: phase.full_watts })
    }

    /// The socket that a GPU hangs on.
    #[must_use]
    pub fn gpu_numa_node(&self, gpu: usize) -> usize {
        gpu % self.sockets
    }

    /// The socket that the process of a GPU is bound to.
    #[must_use]
    pub fn process_numa_node(&self, gpu: usize, phase: &Phase) -> usize {
        self.gpu_numa_node(gpu + usize::from(phase.remote && phase.is_odd(gpu, self.gpus)))
    }
}

/// A loader process of one of the GPUs.
#[derive(Clone, Copy)]
struct Worker {
    gpu: usize,
    does: Task,
}

#[derive(Clone, Copy)]
enum Task {
    Reads(f64),
    Refaults(f64),
    Compacts(f64),
    Prepares(f64),
    HasBatch,
}

/// A GPU with its queue.
#[derive(Clone, Copy, Default)]
struct Gpu {
    queue: usize,
    does: Work,
}

/// What a GPU does, and for how many seconds more.
#[derive(Clone, Copy, Default, PartialEq)]
enum Work {
    #[default]
    Nothing,
    Copies(f64),
    Computes(f64),
    /// Done, but others of the run are not.
    Waits,
    Exchanges(f64),
}

/// The machine at one moment.
pub struct Machine {
    /// What was counted.
    pub counters: Counters,
    /// What it is made of.
    pub layout: Layout,
    /// Share of the device memory in use.
    pub memory: f64,
    /// Share of its disk in use.
    pub disk: f64,
    /// When its kernel started, in seconds after the start.
    pub booted: f64,
    ticks: u64,
    draws: u64,
    /// Batches that all GPUs of the run have done together.
    steps: usize,
    workers: Vec<Worker>,
    gpus: Vec<Gpu>,
    serving: Option<Serving>,
    /// CPU seconds left in this period, and whether the job was runnable or throttled in it.
    budget: f64,
    runnable: bool,
    was_throttled: bool,
}

impl Machine {
    /// A machine of 32 CPUs on two NUMA nodes whose job has this many GPUs, and whose batches are all alike.
    #[must_use]
    pub fn new(gpus: usize) -> Machine {
        Machine::of(Layout { gpus, ..Layout::default() })
    }

    /// A machine made of this.
    #[must_use]
    pub fn of(layout: Layout) -> Machine {
        let all = vec![GpuCounters::default(); layout.gpus + layout.spare];
        Machine {
            counters: Counters { gpus: all, ..Counters::default() },
            layout,
            memory: 0.0,
            disk: DISK,
            booted: 0.0,
            ticks: 0,
            draws: 0,
            steps: 0,
            workers: Vec::new(),
            gpus: vec![Gpu::default(); layout.gpus],
            serving: None,
            budget: 0.0,
            runnable: false,
            was_throttled: false,
        }
    }

    /// Seconds since the start.
    #[must_use]
    pub fn now(&self) -> f64 {
        self.ticks as f64 * TICK
    }

    /// A phase begins: workers are there, or gone.
    pub fn enter(&mut self, phase: &Phase) {
        let gpus = self.gpus.len();
        if phase.boots {
            self.booted = self.now();
        }
        self.memory = phase.memory.unwrap_or(if self.memory > 0.0 { self.memory } else { JOB_MEMORY });
        self.memory *= f64::from(u8::from(phase.job));
        self.disk = phase.disk.unwrap_or(self.disk);
        self.serve_from_now(phase);
        for gpu in 0..gpus {
            let is_fed =
                phase.job && phase.server.is_none() && !((phase.unused || phase.lost) && phase.is_odd(gpu, gpus));
            let count = if is_fed { phase.workers } else { 0 };
            let mut kept: Vec<Worker> = self.workers.extract_if(.., |w| w.gpu == gpu).collect();
            kept.resize(count, Worker { gpu, does: Task::Reads(phase.read) });
            self.workers.append(&mut kept);
            if count == 0 && phase.requests == 0.0 || !is_fed {
                self.gpus[gpu] = Gpu::default();
            }
        }
    }

    /// Requests that GPUs work on, and those that wait for that.
    #[must_use]
    pub fn requests_open(&self) -> (usize, usize) {
        (self.gpus.iter().filter(|g| g.does != Work::Nothing).count(), self.gpus.iter().map(|g| g.queue).sum())
    }

    /// The inference server, where the job is one.
    #[must_use]
    pub fn serving(&self) -> Option<&Serving> {
        self.serving.as_ref()
    }

    /// A worker had a CPU for so long.
    fn run(&mut self, worker: usize, seconds: f64, phase: &Phase) {
        if phase.loader != Loader::Processes {
            self.counters.holders += seconds;
            return;
        }
        self.counters.workers.resize(self.workers.len(), 0.0);
        self.counters.workers[worker] += seconds;
    }

    /// One tick passes.
    pub fn tick(&mut self, phase: &Phase) {
        self.carry(phase);
        if self.ticks.is_multiple_of(PERIOD_TICKS) {
            self.new_period(phase);
        }
        let saves = phase.job && self.now() % 60.0 < phase.save;
        let doing = |is: fn(&Task) -> bool| self.workers.iter().filter(|w| is(&w.does)).count();
        let reading = doing(|task| matches!(task, Task::Reads(left) if *left > 0.0)) + usize::from(saves);
        let refaulting = doing(|task| matches!(task, Task::Refaults(_)));
        let compacting = doing(|task| matches!(task, Task::Compacts(_)));
        let reading = self.wait_for_mounts(phase, reading);
        let (running, waiting, throttled) = self.schedule(phase);
        let (served, unserved) = self.serve(phase);
        let (waiting, throttled) = (waiting + unserved.waiting, throttled + unserved.throttled);
        self.arrive(phase);
        for gpu in 0..self.gpus.len() {
            self.step(gpu, phase, saves, &served);
        }
        for gpu in self.layout.gpus..self.counters.gpus.len() {
            self.counters.gpus[gpu].joules += self.layout.draw(gpu, phase).bare * TICK;
        }
        self.memory = (self.memory + f64::from(u8::from(phase.job)) * phase.leak / 3600.0 * TICK).min(1.0);
        self.disk = (self.disk + phase.fill / 3600.0 * TICK).min(1.0);
        self.counters.others_written += TICK * phase.others_writing;
        let saved = TICK * if saves { SAVE_RATE } else { 0.0 };
        let to_mount = phase.storage.as_ref().is_some_and(|storage| storage.saves);
        *if to_mount { &mut self.counters.mounts.saved } else { &mut self.counters.written } += saved;
        self.counters.written += TICK * if saves { 0.0 } else { phase.writes };
        // A rank that launches kernels one by one keeps a CPU busy with that.
        let launching = if phase.launching > 0.0 {
            self.gpus.iter().filter(|g| matches!(g.does, Work::Computes(_))).count()
        } else {
            0
        };
        let spinning = if phase.spins && launching == 0 {
            self.gpus.iter().filter(|g| g.does != Work::Nothing).count()
        } else {
            0
        };
        let computing = if phase.job { phase.polls * self.gpus.len() + phase.thinking } else { 0 };
        self.counters.holders += (launching + spinning + computing) as f64 * TICK;
        let running = running + launching + spinning + compacting + computing;
        let at_work = running as f64 + (served.engine_cpu + served.front_cpu) / TICK;
        self.count_cpu(at_work * (1.0 - phase.steal), throttled);
        self.count_waiting(phase, reading, refaulting, waiting + throttled);
        self.counters.job_io_stalled += if reading + refaulting > 0 && running == 0 { TICK } else { 0.0 };
        if compacting > 0 {
            self.counters.job_memory_waiting += TICK;
            self.counters.node_memory_waiting += TICK;
            self.counters.compaction_stalls += compacting as f64 * COMPACTIONS * TICK;
        }
        self.count_modes(phase, at_work, reading + refaulting);
        self.count_interrupts(phase);
        self.ticks += 1;
    }

    /// Counts what ports do without an exchange.
    fn carry(&mut self, phase: &Phase) {
        let Some(network) = &phase.network else { return };
        self.counters.network.pass(network, TICK);
        if network.stray > 0.0 {
            let mut carried = self.counters.network;
            carried.stray(network, TICK, || self.draw());
            self.counters.network = carried;
        }
    }

    /// Counts what tasks wait for at mounts. Returns how many of them the kernel counts as waiting for I/O.
    fn wait_for_mounts(&mut self, phase: &Phase, reading: usize) -> usize {
        let Some(storage) = &phase.storage else { return reading };
        let is_silent = storage.is_silent(self.now());
        self.counters.mounts.pass(storage, is_silent, reading, TICK);
        if storage.waits == Waits::Lookups { 0 } else { reading }
    }

    fn new_period(&mut self, phase: &Phase) {
        if phase.quota.is_some() {
            self.counters.periods += f64::from(u8::from(self.runnable));
            self.counters.throttled_periods += f64::from(u8::from(self.was_throttled));
        }
        self.budget = phase.quota.unwrap_or(f64::INFINITY) * PERIOD_TICKS as f64 * TICK;
        (self.runnable, self.was_throttled) = (false, false);
    }

    /// CPUs that the job may use.
    fn free_cpus(&self, phase: &Phase) -> usize {
        let free = phase.cpus.min(self.layout.cpus - phase.others_computing.min(self.layout.cpus));
        free.saturating_sub(phase.interrupted)
    }

    /// Moves every worker on; who prepares needs a CPU and quota. Returns how many ran, waited and were throttled.
    fn schedule(&mut self, phase: &Phase) -> (usize, usize, usize) {
        let free = self.free_cpus(phase);
        let (mut running, mut waiting, mut throttled) = (0, 0, 0);
        let turn = (self.ticks / 3) as usize;
        let count = self.workers.len();
        let is_silent = phase.storage.is_some_and(|storage| storage.is_silent(self.now()));
        for i in (0..count).map(|i| (i + turn) % count) {
            let Worker { gpu, does } = self.workers[i];
            if phase.loader == Loader::Inline && self.gpus[gpu].does != Work::Nothing {
                continue;
            }
            self.workers[i].does = match does {
                Task::Reads(_) if is_silent => does,
                Task::Reads(left) if left > TICK => Task::Reads(left - TICK),
                Task::Reads(_) if phase.refault > 0.0 => Task::Refaults(phase.refault),
                Task::Refaults(left) if left > TICK => Task::Refaults(left - TICK),
                Task::Reads(_) if phase.compact > 0.0 => Task::Compacts(phase.compact),
                Task::Compacts(left) if left > TICK => {
                    self.run(i, TICK, phase);
                    Task::Compacts(left - TICK)
                }
                Task::Reads(_) | Task::Refaults(_) | Task::Compacts(_) => {
                    Task::Prepares(self.prep(gpu, phase) * self.varied())
                }
                Task::Prepares(left) => {
                    self.runnable = true;
                    if self.budget < TICK / 2.0 {
                        throttled += 1;
                        self.was_throttled = true;
                        does
                    } else if running >= free {
                        waiting += 1;
                        does
                    } else {
                        running += 1;
                        self.budget -= TICK;
                        let done = TICK * (1.0 - phase.steal);
                        self.run(i, done, phase);
                        if left > done { Task::Prepares(left - done) } else { Task::HasBatch }
                    }
                }
                Task::HasBatch if self.gpus[gpu].queue < PREFETCH * phase.workers => {
                    self.gpus[gpu].queue += 1;
                    let storage = phase.storage.unwrap_or_default();
                    self.counters.mounts.batch(&storage, phase.batch_bytes);
                    self.counters.read += if storage.waits == Waits::Disk { phase.batch_bytes } else { 0.0 };
                    Task::Reads(phase.read * self.varied())
                }
                Task::HasBatch => does,
            };
        }
        (running, waiting, throttled)
    }

    /// CPU seconds that the preparation of a batch for the GPU takes.
    fn prep(&self, gpu: usize, phase: &Phase) -> f64 {
        let is_remote = self.layout.process_numa_node(gpu, phase) != self.layout.gpu_numa_node(gpu);
        if is_remote { phase.prep * REMOTE } else { phase.prep }
    }

    /// Requests come in at random.
    fn arrive(&mut self, phase: &Phase) {
        for gpu in 0..self.gpus.len() {
            if phase.requests > 0.0 && self.draw() < phase.requests * TICK {
                self.counters.requests += 1.0;
                self.gpus[gpu].queue += 1;
            }
        }
    }

    /// One tick of a GPU of the job, for which a server has made this.
    fn step(&mut self, gpu: usize, phase: &Phase, saves: bool, served: &Tick) {
        let tick = if self.serving.is_some() {
            serve::spent(served, phase, self.depth(gpu, phase))
        } else if saves {
            (Spent { starved: TICK, ..Spent::default() }, 0.0, 0.0)
        } else {
            self.work(gpu, phase)
        };
        let (spent, busy, active) = tick;
        let is_lost = phase.lost && gpu + 1 == self.gpus.len();
        let counted = &mut self.counters.gpus[gpu];
        counted.lost += f64::from(u8::from(is_lost)) * TICK;
        counted.busy += busy;
        counted.active += active;
        let Draw { bare, context: idle, spin, full } = self.layout.draw(gpu, phase);
        let spinning = (busy - spent.work - spent.again - spent.slowed - spent.launching).max(0.0) / TICK;
        let context = if phase.job { idle } else { bare };
        let is_waiting = spent.waiting > 0.0;
        let working = if is_waiting { 0.0 } else { active / TICK };
        let clock = if spent.slowed > 0.0 { 1.0 - spent.slowed / TICK } else { 1.0 };
        counted.occupied += active * phase.occupancy;
        counted.tensor += TICK * working * phase.tensor;
        counted.dram += TICK * if is_waiting { SPINNING_DRAM } else { working * phase.dram };
        let watts = context + (full - idle) * working * clock + (spin - idle) * spinning;
        counted.joules += watts * TICK;
        if spent.slowed > 0.0 && phase.clock < 1.0 {
            counted.hot += TICK;
        } else if spent.slowed > 0.0 && phase.within_limit() < 1.0 {
            counted.capped += TICK;
        }
        let all = &mut counted.spent;
        all.work += spent.work;
        all.slowed += spent.slowed;
        all.launching += spent.launching;
        all.copying += spent.copying;
        all.narrow += spent.narrow;
        all.waiting += spent.waiting;
        all.delayed += spent.delayed;
        all.starved += spent.starved;
        all.again += spent.again;
        all.unasked += spent.unasked;
        all.held_up += spent.held_up;
    }

    /// What a tick of it is spent on, and how much of it has a kernel and busy multiprocessors.
    fn work(&mut self, gpu: usize, phase: &Phase) -> (Spent, f64, f64) {
        if self.gpus[gpu].does == Work::Nothing && self.gpus[gpu].queue > 0 {
            self.gpus[gpu].queue -= 1;
            self.counters.gpus[gpu].received += phase.batch_bytes;
            let computes = self.computes(gpu, phase);
            let copies = phase.copy >= TICK / 2.0;
            self.gpus[gpu].does = if copies { Work::Copies(phase.copy) } else { Work::Computes(computes) };
        }
        let clock = if phase.is_odd(gpu, self.gpus.len()) { phase.odd_clock() } else { 1.0 };
        let useful = phase.compute / (phase.compute + phase.launching);
        let none = Spent::default();
        match self.gpus[gpu].does {
            Work::Nothing => {
                let pokes = phase.job && self.now() % 60.0 < phase.poke;
                (Spent { starved: TICK, ..none }, f64::from(u8::from(pokes)) * TICK, 0.0)
            }
            Work::Copies(left) => {
                let computes = self.computes(gpu, phase);
                let done = TICK * phase.copy_share(phase.is_odd(gpu, self.gpus.len()));
                self.gpus[gpu].does =
                    if left - done < done / 2.0 { Work::Computes(computes) } else { Work::Copies(left - done) };
                self.counters.gpus[gpu].received += phase.copy_rate * done;
                (Spent { copying: done, narrow: TICK - done, ..none }, 0.0, 0.0)
            }
            Work::Computes(left) => {
                let left = left - TICK * clock;
                let done = if phase.sync { Work::Waits } else { Work::Nothing };
                self.gpus[gpu].does = if left < TICK / 2.0 { done } else { Work::Computes(left) };
                let (work, launching) = (TICK * clock * useful, TICK * clock * (1.0 - useful));
                // Activity is counted in cycles: at a lower clock multiprocessors have as much to do in each of them.
                let active = TICK * useful * self.depth(gpu, phase);
                self.counters.gpus[gpu].received += phase.overlap * TICK;
                let busy = if phase.gaps { TICK * useful } else { TICK };
                (Spent { work, launching, slowed: TICK * (1.0 - clock), ..none }, busy, active)
            }
            Work::Waits => {
                self.counters.gpus[gpu].rank.within += TICK;
                (Spent { waiting: TICK, ..none }, TICK, TICK * phase.spin_depth)
            }
            Work::Exchanges(left) => {
                let is_over = left - TICK < TICK / 2.0;
                self.gpus[gpu].does = if is_over { Work::Nothing } else { Work::Exchanges(left - TICK) };
                self.counters.gpus[gpu].rank.within += TICK;
                if is_over {
                    self.counters.gpus[gpu].rank.complete(phase.inspector);
                }
                let sound = phase.network.as_ref().and_then(|network| network.sound);
                let delayed = if sound.is_some_and(|sound| left - sound > TICK / 2.0) { TICK } else { 0.0 };
                (Spent { waiting: TICK, delayed, ..none }, TICK, TICK * phase.spin_depth)
            }
        }
    }

    /// Seconds that the GPU has kernels for a batch, at its full clock.
    fn computes(&mut self, gpu: usize, phase: &Phase) -> f64 {
        let more = 1.0 + phase.more(gpu, self.gpus.len(), self.steps);
        phase.compute * more * self.varied() + phase.launching
    }

    /// Share of the multiprocessors that kernels of this minute have work for.
    fn depth(&self, gpu: usize, phase: &Phase) -> f64 {
        if phase.mixed > 0.0 {
            let turn = (self.now() / MIXED_SECONDS) as u64;
            let draw = hash("mixed", self.layout.seed.wrapping_add(turn * 64 + gpu as u64)) as f64 / u64::MAX as f64;
            return phase.depth * (1.0 - phase.mixed * draw);
        }
        if phase.ripple == 0.0 {
            return phase.depth;
        }
        let minute = (self.now() / 60.0) as u64;
        let draw = hash("ripple", self.layout.seed.wrapping_add(minute * 64 + gpu as u64)) as f64 / u64::MAX as f64;
        (phase.depth * (1.0 + phase.ripple * (2.0 * draw - 1.0))).min(1.0)
    }

    /// Have all GPUs of this machine done their batch?
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.gpus.iter().all(|gpu| gpu.does == Work::Waits)
    }

    /// The ranks of the run are all done: they exchange results and go on.
    pub fn go_on(&mut self, phase: &Phase) {
        self.steps += 1;
        phase.network.iter().for_each(|network| self.counters.network.exchange(network));
        let (gpus, exchanges) = (self.gpus.len(), phase.exchange >= TICK / 2.0);
        for (n, gpu) in self.gpus.iter_mut().enumerate() {
            gpu.does = if exchanges { Work::Exchanges(phase.exchange) } else { Work::Nothing };
            let is_ahead = phase.inspector.is_some_and(|inspector| inspector.stays_behind) && !phase.is_odd(n, gpus);
            if is_ahead || !exchanges {
                self.counters.gpus[n].rank.complete(phase.inspector);
            }
        }
    }

    /// A number from 0 to 1, another one each time and the same in every run.
    fn draw(&mut self) -> f64 {
        self.draws += 1;
        hash("lab", self.layout.seed.wrapping_mul(1 << 32).wrapping_add(self.draws)) as f64 / u64::MAX as f64
    }

    /// How much longer than usual something takes.
    fn varied(&mut self) -> f64 {
        if self.layout.noise == 0.0 { 1.0 } else { 1.0 + self.layout.noise * (2.0 * self.draw() - 1.0) }
    }

    fn count_cpu(&mut self, used: f64, throttled: usize) {
        self.counters.cpu_usage += used * TICK;
        self.counters.throttled += throttled as f64 * TICK;
    }

    /// Pressure: time in which at least one task waits. A page that comes back is waited for as memory and as I/O, as I/O
    /// alone where it was not active before.
    fn count_waiting(&mut self, phase: &Phase, reading: usize, refaulting: usize, for_cpu: usize) {
        let c = &mut self.counters;
        let some = |tasks: usize| if tasks > 0 { TICK } else { 0.0 };
        c.job_cpu_waiting += some(for_cpu).max(phase.woken * some(refaulting));
        c.job_io_waiting += some(reading + refaulting);
        let thrashing = if phase.inactive { 0 } else { refaulting };
        c.job_memory_waiting += some(thrashing);
        c.refaults += refaulting as f64 * REFAULTS * TICK;
        c.node_cpu_waiting += some(for_cpu + phase.others_crowded);
        c.node_io_waiting += some(reading + refaulting + phase.others_reading + phase.others_refaulting);
        c.node_memory_waiting += some(thrashing + phase.others_refaulting);
    }

    /// CPUs that serve interrupts do nothing else.
    fn count_interrupts(&mut self, phase: &Phase) {
        let (own, all) = (phase.interrupted as f64, (phase.interrupted + phase.others_interrupted) as f64);
        let c = &mut self.counters;
        c.job_interrupts += own * INTERRUPTS * TICK;
        c.interrupts += all * INTERRUPTS * TICK;
        c.busiest_softirq += all.min(1.0) * TICK;
        c.node_softirq += all * TICK;
        c.node_idle -= all * TICK;
    }

    fn count_modes(&mut self, phase: &Phase, running: f64, waiting_for_io: usize) {
        let (c, cpus) = (&mut self.counters, self.layout.cpus as f64);
        let busy = (running + phase.others_computing as f64).min(cpus);
        let iowait = ((waiting_for_io + phase.others_reading + phase.others_refaulting) as f64).min(cpus - busy);
        c.node_busy += busy * (1.0 - phase.steal) * TICK;
        c.node_steal += busy * phase.steal * TICK;
        c.node_iowait += iowait * TICK;
        c.node_idle += (cpus - busy - iowait) * TICK;
    }
}
