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
    /// Tasks of others that wait for storage all the time.
    pub(crate) others_reading: usize,
    /// CPUs that others keep busy.
    pub(crate) others_computing: usize,
    /// Are the exporters scraped?
    pub(crate) scraped: bool,
    /// The class that has the most of every minute but the first and the last: scrapes do not fall on the borders.
    pub(crate) expect: String,
}

impl Default for Phase {
    fn default() -> Self {
        Phase {
            minutes: 0,
            workers: 4,
            read: 0.0,
            prep: 0.05,
            compute: 0.2,
            quota: None,
            cpus: 16,
            job: true,
            others_reading: 0,
            others_computing: 0,
            scraped: true,
            expect: String::new(),
        }
    }
}

/// CPUs of the node.
pub(crate) const NODE_CPUS: usize = 32;

/// Everything that exporters count, in seconds and pieces since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) gpu_busy: f64,
    pub(crate) cpu_usage: f64,
    pub(crate) periods: f64,
    pub(crate) throttled_periods: f64,
    pub(crate) throttled: f64,
    pub(crate) job_cpu_waiting: f64,
    pub(crate) job_io_waiting: f64,
    pub(crate) node_cpu_waiting: f64,
    pub(crate) node_io_waiting: f64,
    pub(crate) node_busy: f64,
    pub(crate) node_iowait: f64,
    pub(crate) node_idle: f64,
}

#[derive(Clone, Copy)]
enum Worker {
    Reads(f64),
    Prepares(f64),
    HasBatch,
}

/// The machine at one moment.
pub(crate) struct Machine {
    pub(crate) counters: Counters,
    ticks: u64,
    workers: Vec<Worker>,
    queue: usize,
    computing: f64,
    /// CPU seconds left in this period, and whether the job was runnable or throttled in it.
    budget: f64,
    runnable: bool,
    was_throttled: bool,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        Machine {
            counters: Counters::default(),
            ticks: 0,
            workers: Vec::new(),
            queue: 0,
            computing: 0.0,
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
        let count = if phase.job { phase.workers } else { 0 };
        self.workers.resize(count, Worker::Reads(phase.read));
        if count == 0 {
            (self.queue, self.computing) = (0, 0.0);
        }
    }

    /// One tick passes.
    pub(crate) fn tick(&mut self, phase: &Phase) {
        if self.ticks.is_multiple_of(PERIOD_TICKS) {
            self.new_period(phase);
        }
        let reading = self.workers.iter().filter(|w| matches!(w, Worker::Reads(_))).count();
        let (running, waiting, throttled) = self.schedule(phase);
        self.gpu(phase);
        self.count(phase, reading, running, waiting, throttled);
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
        for worker in (0..count).map(|i| (i + turn) % count) {
            self.workers[worker] = match self.workers[worker] {
                Worker::Reads(left) if left > TICK => Worker::Reads(left - TICK),
                Worker::Reads(_) => Worker::Prepares(phase.prep),
                Worker::Prepares(left) => {
                    self.runnable = true;
                    if self.budget < TICK / 2.0 {
                        throttled += 1;
                        self.was_throttled = true;
                        Worker::Prepares(left)
                    } else if running >= free {
                        waiting += 1;
                        Worker::Prepares(left)
                    } else {
                        running += 1;
                        self.budget -= TICK;
                        if left > TICK { Worker::Prepares(left - TICK) } else { Worker::HasBatch }
                    }
                }
                Worker::HasBatch if self.queue < PREFETCH * count => {
                    self.queue += 1;
                    Worker::Reads(phase.read)
                }
                Worker::HasBatch => Worker::HasBatch,
            };
        }
        (running, waiting, throttled)
    }

    fn gpu(&mut self, phase: &Phase) {
        if self.computing < TICK / 2.0 && self.queue > 0 {
            self.queue -= 1;
            self.computing = phase.compute;
        }
        if self.computing >= TICK / 2.0 {
            self.computing -= TICK;
            self.counters.gpu_busy += TICK;
        }
    }

    fn count(&mut self, phase: &Phase, reading: usize, running: usize, waiting: usize, throttled: usize) {
        let c = &mut self.counters;
        let some = |tasks: usize| if tasks > 0 { TICK } else { 0.0 };
        c.cpu_usage += running as f64 * TICK;
        c.throttled += throttled as f64 * TICK;
        c.job_cpu_waiting += some(waiting + throttled);
        c.job_io_waiting += some(reading);
        c.node_cpu_waiting += some(waiting + throttled);
        c.node_io_waiting += some(reading + phase.others_reading);
        let busy = (running + phase.others_computing).min(NODE_CPUS);
        let iowait = (reading + phase.others_reading).min(NODE_CPUS - busy);
        c.node_busy += busy as f64 * TICK;
        c.node_iowait += iowait as f64 * TICK;
        c.node_idle += (NODE_CPUS - busy - iowait) as f64 * TICK;
    }
}
