//! A training job as a queue: workers read a batch, then prepare it on the CPU, then put it into a bounded queue; the
//! GPU takes one and computes. What the exporters would have counted falls out of the simulation, tick by tick; no value
//! is written for the sake of a class. Signals never feed back: the schedule alone says what was the matter.

use serde::Deserialize;

/// One tick of the simulation.
const TICK: f64 = 0.01;
/// Length of a CPU quota period: the kernel's default.
const PERIOD_TICKS: u64 = 10;
/// Batches that the queue holds per worker: PyTorch's default `prefetch_factor`.
const PREFETCH: usize = 2;

/// Some minutes of the schedule.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Phase {
    /// How long.
    pub(crate) minutes: usize,
    /// Loader processes; 0 is a job that holds the GPU and has nothing for it.
    pub(crate) workers: usize,
    /// Seconds that the read of a batch waits for storage.
    pub(crate) read: f64,
    /// Seconds that each batch waits for pages of the job that were reclaimed and come back from storage.
    pub(crate) refault: f64,
    /// CPU seconds that the preparation of a batch takes.
    pub(crate) prep: f64,
    /// Seconds that the GPU computes on a batch.
    pub(crate) compute: f64,
    /// CPU quota, in cores.
    pub(crate) quota: Option<f64>,
    /// CPUs in the job's cpuset.
    pub(crate) cpus: usize,
    /// Is there a job at all?
    pub(crate) job: bool,
    /// Is the process of the last GPU, with its loader, bound to the other NUMA node?
    pub(crate) remote: bool,
    /// Does the job hold its last GPU without ever giving it work?
    pub(crate) unused: bool,
    /// Seconds of every minute in which the job writes its state, and its GPUs wait for that.
    pub(crate) save: f64,
    /// Bytes that the job writes a second beside its work.
    pub(crate) writes: f64,
    /// Tasks of others that wait for storage all the time.
    pub(crate) others_reading: usize,
    /// Tasks of others that wait for memory all the time.
    pub(crate) others_refaulting: usize,
    /// CPUs that others keep busy.
    pub(crate) others_computing: usize,
    /// Share of the time of CPUs with something to run that the hypervisor gives to others.
    pub(crate) steal: f64,
    /// Are the exporters scraped?
    pub(crate) scraped: bool,
    /// The class that has the most of every minute but the first and the last: scrapes do not fall on the borders.
    pub(crate) expect: String,
    /// The class that has the most of what is lost of each of these minutes.
    pub(crate) lost_to: Option<String>,
    /// What is advised in every minute but the first and the last.
    pub(crate) advise: Vec<String>,
}

impl Default for Phase {
    fn default() -> Self {
        Phase {
            minutes: 0,
            workers: 4,
            read: 0.0,
            refault: 0.0,
            prep: 0.05,
            compute: 0.2,
            quota: None,
            cpus: 16,
            job: true,
            remote: false,
            unused: false,
            save: 0.0,
            writes: 0.0,
            others_reading: 0,
            others_refaulting: 0,
            others_computing: 0,
            steal: 0.0,
            scraped: true,
            expect: String::new(),
            lost_to: None,
            advise: Vec::new(),
        }
    }
}

/// CPUs of the node, half of them on each of its two NUMA nodes.
pub(crate) const NODE_CPUS: usize = 32;
/// The most GPUs of a job.
pub(crate) const MAX_GPUS: usize = 2;
/// How much longer preparation takes with memory on the other NUMA node: latency of 139 ns against 80 ns in a handbook.
const REMOTE: f64 = 1.7;

/// Bytes of its state that the job writes in a second.
const SAVE_RATE: f64 = 1e9;
/// Pages that come back in a second for a task that waits for them: reads of 4 KiB, one at a time, of 0.1 ms.
const REFAULTS: f64 = 10_000.0;

/// The NUMA node that a GPU hangs on.
pub(crate) fn gpu_numa_node(gpu: usize) -> usize {
    gpu % 2
}

/// The NUMA node that the process of a GPU is bound to.
pub(crate) fn process_numa_node(gpu: usize, gpus: usize, phase: &Phase) -> usize {
    gpu_numa_node(gpu + usize::from(phase.remote && gpu + 1 == gpus))
}

/// Everything that exporters count, in seconds and pieces since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) gpu_busy: [f64; MAX_GPUS],
    pub(crate) cpu_usage: f64,
    pub(crate) periods: f64,
    pub(crate) throttled_periods: f64,
    pub(crate) throttled: f64,
    pub(crate) job_cpu_waiting: f64,
    pub(crate) job_io_waiting: f64,
    pub(crate) written: f64,
    pub(crate) job_memory_waiting: f64,
    pub(crate) refaults: f64,
    pub(crate) node_memory_waiting: f64,
    pub(crate) node_cpu_waiting: f64,
    pub(crate) node_io_waiting: f64,
    pub(crate) node_busy: f64,
    pub(crate) node_steal: f64,
    pub(crate) node_iowait: f64,
    pub(crate) node_idle: f64,
}

impl Counters {
    /// The node's CPU time by mode.
    pub(crate) fn modes(&self) -> [(&'static str, f64); 4] {
        let c = self;
        [("user", c.node_busy), ("steal", c.node_steal), ("idle", c.node_idle), ("iowait", c.node_iowait)]
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
    Prepares(f64),
    HasBatch,
}

/// A GPU with its queue.
#[derive(Clone, Copy, Default)]
struct Gpu {
    queue: usize,
    computing: f64,
}

/// The machine at one moment.
pub(crate) struct Machine {
    pub(crate) counters: Counters,
    ticks: u64,
    workers: Vec<Worker>,
    gpus: Vec<Gpu>,
    /// CPU seconds left in this period, and whether the job was runnable or throttled in it.
    budget: f64,
    runnable: bool,
    was_throttled: bool,
}

impl Machine {
    /// A machine whose job has so many GPUs.
    pub(crate) fn new(gpus: usize) -> Machine {
        assert!((1..=MAX_GPUS).contains(&gpus), "a job has 1 to {MAX_GPUS} GPUs, not {gpus}");
        Machine {
            counters: Counters::default(),
            ticks: 0,
            workers: Vec::new(),
            gpus: vec![Gpu::default(); gpus],
            budget: 0.0,
            runnable: false,
            was_throttled: false,
        }
    }

    /// Seconds since the start.
    pub(crate) fn now(&self) -> f64 {
        self.ticks as f64 * TICK
    }

    /// A phase begins: workers are there, or gone.
    pub(crate) fn enter(&mut self, phase: &Phase) {
        let gpus = self.gpus.len();
        for gpu in 0..gpus {
            let is_fed = phase.job && !(phase.unused && gpu + 1 == gpus);
            let count = if is_fed { phase.workers } else { 0 };
            let mut kept: Vec<Worker> = self.workers.extract_if(.., |w| w.gpu == gpu).collect();
            kept.resize(count, Worker { gpu, does: Task::Reads(phase.read) });
            self.workers.append(&mut kept);
            if count == 0 {
                self.gpus[gpu] = Gpu::default();
            }
        }
    }

    /// One tick passes.
    pub(crate) fn tick(&mut self, phase: &Phase) {
        if self.ticks.is_multiple_of(PERIOD_TICKS) {
            self.new_period(phase);
        }
        let saves = phase.job && self.now() % 60.0 < phase.save;
        let doing = |is: fn(&Task) -> bool| self.workers.iter().filter(|w| is(&w.does)).count();
        let reading = doing(|task| matches!(task, Task::Reads(_))) + usize::from(saves);
        let refaulting = doing(|task| matches!(task, Task::Refaults(_)));
        let (running, waiting, throttled) = self.schedule(phase);
        if !saves {
            self.compute(phase);
        }
        self.counters.written += TICK * if saves { SAVE_RATE } else { phase.writes };
        self.count_cpu(running as f64 * (1.0 - phase.steal), throttled);
        self.count_waiting(phase, reading, refaulting, waiting + throttled);
        self.count_modes(phase, running, reading + refaulting);
        self.ticks += 1;
    }

    fn new_period(&mut self, phase: &Phase) {
        if phase.quota.is_some() {
            self.counters.periods += f64::from(u8::from(self.runnable));
            self.counters.throttled_periods += f64::from(u8::from(self.was_throttled));
        }
        self.budget = phase.quota.unwrap_or(f64::INFINITY) * PERIOD_TICKS as f64 * TICK;
        (self.runnable, self.was_throttled) = (false, false);
    }

    /// Moves every worker on; who prepares needs a CPU and quota. Returns how many ran, waited and were throttled.
    fn schedule(&mut self, phase: &Phase) -> (usize, usize, usize) {
        let free = phase.cpus.min(NODE_CPUS - phase.others_computing.min(NODE_CPUS));
        let (mut running, mut waiting, mut throttled) = (0, 0, 0);
        let turn = (self.ticks / 3) as usize;
        let count = self.workers.len();
        for i in (0..count).map(|i| (i + turn) % count) {
            let Worker { gpu, does } = self.workers[i];
            self.workers[i].does = match does {
                Task::Reads(left) if left > TICK => Task::Reads(left - TICK),
                Task::Reads(_) if phase.refault > 0.0 => Task::Refaults(phase.refault),
                Task::Refaults(left) if left > TICK => Task::Refaults(left - TICK),
                Task::Reads(_) | Task::Refaults(_) => Task::Prepares(self.prep(gpu, phase)),
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
                        if left > done { Task::Prepares(left - done) } else { Task::HasBatch }
                    }
                }
                Task::HasBatch if self.gpus[gpu].queue < PREFETCH * phase.workers => {
                    self.gpus[gpu].queue += 1;
                    Task::Reads(phase.read)
                }
                Task::HasBatch => does,
            };
        }
        (running, waiting, throttled)
    }

    /// CPU seconds that the preparation of a batch for the GPU takes.
    fn prep(&self, gpu: usize, phase: &Phase) -> f64 {
        let is_remote = process_numa_node(gpu, self.gpus.len(), phase) != gpu_numa_node(gpu);
        if is_remote { phase.prep * REMOTE } else { phase.prep }
    }

    fn compute(&mut self, phase: &Phase) {
        for (gpu, busy) in self.gpus.iter_mut().zip(&mut self.counters.gpu_busy) {
            if gpu.computing < TICK / 2.0 && gpu.queue > 0 {
                gpu.queue -= 1;
                gpu.computing = phase.compute;
            }
            if gpu.computing >= TICK / 2.0 {
                gpu.computing -= TICK;
                *busy += TICK;
            }
        }
    }

    fn count_cpu(&mut self, used: f64, throttled: usize) {
        self.counters.cpu_usage += used * TICK;
        self.counters.throttled += throttled as f64 * TICK;
    }

    /// Pressure: time in which at least one task waits. A page that comes back is waited for as memory and as I/O.
    fn count_waiting(&mut self, phase: &Phase, reading: usize, refaulting: usize, for_cpu: usize) {
        let c = &mut self.counters;
        let some = |tasks: usize| if tasks > 0 { TICK } else { 0.0 };
        c.job_cpu_waiting += some(for_cpu);
        c.job_io_waiting += some(reading + refaulting);
        c.job_memory_waiting += some(refaulting);
        c.refaults += refaulting as f64 * REFAULTS * TICK;
        c.node_cpu_waiting += some(for_cpu);
        c.node_io_waiting += some(reading + refaulting + phase.others_reading + phase.others_refaulting);
        c.node_memory_waiting += some(refaulting + phase.others_refaulting);
    }

    fn count_modes(&mut self, phase: &Phase, running: usize, waiting_for_io: usize) {
        let c = &mut self.counters;
        let busy = (running + phase.others_computing).min(NODE_CPUS);
        let iowait = (waiting_for_io + phase.others_reading + phase.others_refaulting).min(NODE_CPUS - busy);
        c.node_busy += busy as f64 * (1.0 - phase.steal) * TICK;
        c.node_steal += busy as f64 * phase.steal * TICK;
        c.node_iowait += iowait as f64 * TICK;
        c.node_idle += (NODE_CPUS - busy - iowait) as f64 * TICK;
    }
}
