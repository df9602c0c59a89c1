//! What a simulated machine counts, from which exporters tell and the truth is known.

use super::collectives::Rank;
use super::network::Carried;
use super::storage::Mounted;

/// What is counted of one GPU, in seconds, bytes and joules since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct GpuCounters {
    /// Any kernel ran.
    pub busy: f64,
    /// Its multiprocessors had work.
    pub active: f64,
    /// Its warps, as a share of the most there can be.
    pub occupied: f64,
    /// Its tensor cores had work.
    pub tensor: f64,
    /// Its memory sent or received.
    pub dram: f64,
    /// Came over PCIe.
    pub received: f64,
    /// Drawn.
    pub joules: f64,
    /// At clocks lowered for heat.
    pub hot: f64,
    /// At clocks lowered to stay within the power limit.
    pub capped: f64,
    /// Its rank in collectives.
    pub rank: Rank,
    /// Lost by the driver.
    pub lost: f64,
    /// Where the time of a held GPU went, by the state that it was in: the truth.
    pub spent: Spent,
}

/// Seconds by state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Computing at full speed.
    pub work: f64,
    /// What a lower clock took from that.
    pub slowed: f64,
    /// Between kernels that are too short.
    pub launching: f64,
    /// A batch on its way to it.
    pub copying: f64,
    /// The same, as far as a link that is too narrow makes it longer.
    pub narrow: f64,
    /// Ranks waiting for each other or exchanging results.
    pub waiting: f64,
    /// Of that, exchanging for longer than a sound network takes.
    pub delayed: f64,
    /// Nothing to do, or a poke.
    pub starved: f64,
    /// A server computed what it had computed before.
    pub again: f64,
    /// A server was asked nothing.
    pub unasked: f64,
    /// Requests were open, and the server's CPU side had them.
    pub held_up: f64,
}

/// Everything that exporters count, in seconds and pieces since the start.
#[allow(missing_docs, reason = "each is the kernel's counter of that name")]
#[derive(Clone, Debug, Default)]
pub struct Counters {
    pub gpus: Vec<GpuCounters>,
    /// CPU time of each loader process, since the job last had another number of them.
    pub workers: Vec<f64>,
    /// CPU time of the processes that hold GPUs.
    pub holders: f64,
    pub read: f64,
    pub cpu_usage: f64,
    pub periods: f64,
    pub throttled_periods: f64,
    pub throttled: f64,
    pub job_cpu_waiting: f64,
    pub job_io_waiting: f64,
    pub job_io_stalled: f64,
    pub written: f64,
    pub others_written: f64,
    pub job_memory_waiting: f64,
    pub refaults: f64,
    pub requests: f64,
    pub compaction_stalls: f64,
    pub interrupts: f64,
    pub job_interrupts: f64,
    pub busiest_softirq: f64,
    pub node_softirq: f64,
    pub node_memory_waiting: f64,
    pub node_cpu_waiting: f64,
    pub node_io_waiting: f64,
    pub node_busy: f64,
    pub node_steal: f64,
    pub node_iowait: f64,
    pub node_idle: f64,
    pub network: Carried,
    pub mounts: Mounted,
}

impl Counters {
    /// The node's CPU time by mode.
    #[must_use]
    pub fn modes(&self) -> [(&'static str, f64); 5] {
        let c = self;
        [
            ("user", c.node_busy),
            ("softirq", c.node_softirq),
            ("steal", c.node_steal),
            ("idle", c.node_idle),
            ("iowait", c.node_iowait),
        ]
    }
}
