//! Classes, evidence and the registry of rules; one file per rule; `ledger` does the arithmetic.
//!
//! [`judge_series`] is the way in. For every cell of a GPU: `busy` says how much of it was work, `held` whether
//! anything holds the GPU. What an outage takes ([`OUTAGES`]) has no owner. Of the work, what was slowed or hollow goes
//! to [`DERATES`]; what was held without work goes to one of [`PHASES`], which exclude all else, or to [`RULES`],
//! causes before symptoms. Then `mounts` says which storage it was, `straggler` lays the GPUs of a run side by side, and
//! `network` its nodes; `waiting` says of free GPUs who waited for them. A new one is one file and one line in
//! either; `CONTRIBUTING.md` says what else.

mod abstained;
mod advisory;
#[cfg(test)]
mod alike;
#[cfg(test)]
mod alone;
mod busy;
mod capacity;
mod cell;
mod checkpoint;
mod clock_locked;
mod cold_start;
mod collective_wait;
mod contradiction;
mod cpu;
mod cpu_throttled;
mod crash;
mod cross_numa;
mod dataloader_cpu;
mod dataloader_storage;
#[cfg(test)]
mod degenerate;
mod depth;
mod derate;
mod down;
mod elsewhere;
mod energy;
mod exchange;
mod explain;
mod failed;
mod fed;
mod feeding_unsplit;
mod gang_wait;
mod gds_fell_back;
mod held;
mod host_noise;
mod host_to_device;
mod idle_held;
mod intervals;
mod io_limited;
mod irq_placement;
mod judge;
mod keep_alive;
#[cfg(test)]
mod late;
mod late_rank;
mod launch_bound;
mod ledger;
mod loaders;
mod long_start;
mod lost_work;
mod low_occupancy;
mod maintenance;
mod memory_bound;
mod memory_pressure;
mod nccl;
mod network;
mod no_demand;
mod node;
mod outage;
mod oversized_gpu;
mod paired;
mod partial_allocation;
mod pcie_degraded;
mod phase;
mod power;
mod power_throttle;
mod prepare;
mod recompute;
mod resolution;
mod rule;
mod run;
pub mod sampling;
mod scattered;
mod server_clock;
mod server_queue;
mod server_start;
mod serving_host;
mod small_batch;
mod spinning;
mod storage;
mod straggler;
mod stranded_mig;
mod swing;
mod tensor_unused;
mod thermal_throttle;
mod thp_compaction;
pub mod thresholds;
mod timeslice_gap;
mod waiting;
mod work;
mod writing;

pub use abstained::{Abstained, Abstentions};
pub use busy::busy_signals;
pub use capacity::{Capacity, Seen, VANISHED_MS, has_vanished};
pub use cell::LEFT_NODE;
pub use crash::{CRASH_SIGNALS, LOST_REACH_MS};
pub use derate::{DERATES, Derate};
pub use energy::Excess;
use goodput_verdict::{
    Advice, Advisory, Cause, CauseKind, Class, CollectiveUse, Culprit, Energy, Evidence, Group, Interval, Measure,
    MountUse, Paired, PortUse, Version,
};
pub use judge::{
    Coverage, JudgeError, Judged, LOOK_AHEAD_MS, LOOK_BACK_MS, judge_cells, judge_onward, judge_series, judge_told,
};
pub use ledger::Imbalance;
pub use long_start::{LONG_START_REACH_MS, LONG_START_SIGNALS};
pub use maintenance::{Declared, declare, stay_declared};
pub use network::NETWORK_SIGNALS;
pub use node::Node;
pub use outage::{OUTAGES, Outage};
pub use phase::{PHASES, Phase};
pub use resolution::too_coarse;
pub use rule::{Cell, Fact, Rule, Verdict};
pub use thresholds::Thresholds;
pub use waiting::{Demand, DemandState};

/// The rules that say why a held GPU did not work.
pub static RULES: &[Rule] = &[
    no_demand::RULE,
    collective_wait::RULE,
    launch_bound::RULE,
    cpu_throttled::RULE,
    cross_numa::RULE,
    irq_placement::RULE,
    host_noise::RULE,
    thp_compaction::RULE,
    memory_pressure::RULE,
    io_limited::RULE,
    checkpoint::RULE,
    pcie_degraded::RULE,
    host_to_device::RULE,
    serving_host::RULE,
    dataloader_storage::RULE,
    dataloader_cpu::RULE,
    feeding_unsplit::RULE,
];
