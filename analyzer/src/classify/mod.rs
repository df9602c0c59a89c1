//! Classes, evidence and the registry of rules; one file per rule; `ledger` does the arithmetic.
//!
//! [`judge_series`] is the way in. For every cell of a GPU: `busy` says how much of it was work, `held` whether
//! anything holds the GPU. What an outage takes ([`OUTAGES`]) has no owner. Of the work, what was slowed or hollow goes
//! to [`DERATES`]; what was held without work goes to one of [`PHASES`], which exclude all else, or to [`RULES`],
//! causes before symptoms. Then `straggler` lays the GPUs of a run side by side. A new one is one file, one line in
//! either, one folder of scenarios and one section of `docs/rules.md`.

mod abstained;
mod advisory;
#[cfg(test)]
mod alike;
mod busy;
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
mod fed;
mod feeding_unsplit;
mod gang_wait;
mod held;
mod host_noise;
mod host_to_device;
mod idle_held;
mod intervals;
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
mod no_demand;
mod outage;
mod oversized_gpu;
mod paired;
mod partial_allocation;
mod pcie_degraded;
mod phase;
mod power;
mod power_throttle;
mod prepare;
mod resolution;
mod rule;
mod run;
pub mod sampling;
mod small_batch;
mod spinning;
mod straggler;
mod stranded_mig;
mod swing;
mod tensor_unused;
mod thermal_throttle;
mod thp_compaction;
pub mod thresholds;
mod timeslice_gap;
mod work;
mod writing;

use serde::{Deserialize, Serialize};

use crate::mig::Instance;
use crate::sample::TimeMs;
pub use abstained::{Abstained, Abstentions};
pub use advisory::{Advice, Advisory};
pub(crate) use busy::LADDER;
pub use busy::busy_signals;
pub use cell::LEFT_NODE;
#[cfg(test)]
pub(crate) use cell::PANICS;
pub use contradiction::contradicts;
pub(crate) use crash::Crashes;
pub use crash::{CRASH_SIGNALS, LOST_REACH_MS};
pub use derate::{DERATES, Derate};
pub use energy::Excess;
pub use judge::{
    Coverage, FailedNode, JudgeError, Judged, LOOK_AHEAD_MS, LOOK_BACK_MS, Seen, judge_cells, judge_onward,
    judge_series, judge_told,
};
pub use ledger::Imbalance;
pub(crate) use ledger::apportion;
pub(crate) use long_start::LongStarts;
pub use long_start::{LONG_START_REACH_MS, LONG_START_SIGNALS};
pub use maintenance::{Declared, declare, stay_declared};
pub use outage::{OUTAGES, Outage};
pub use paired::{Measure, Paired};
pub use phase::{PHASES, Phase};
pub use resolution::too_coarse;
pub use rule::{Cell, Fact, Rule, Verdict};
pub use thresholds::Thresholds;

/// The rules that say why a held GPU did not work.
pub static RULES: &[Rule] = &[
    collective_wait::RULE,
    launch_bound::RULE,
    cpu_throttled::RULE,
    cross_numa::RULE,
    irq_placement::RULE,
    host_noise::RULE,
    thp_compaction::RULE,
    memory_pressure::RULE,
    checkpoint::RULE,
    pcie_degraded::RULE,
    host_to_device::RULE,
    dataloader_storage::RULE,
    dataloader_cpu::RULE,
    feeding_unsplit::RULE,
];

macro_rules! classes {
    ($($(#[$attr:meta])* $variant:ident $name:literal $group:ident by $file:ident,)*) => {
        /// Where a GPU-millisecond went. Every GPU-millisecond has exactly one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Class {
            $($(#[$attr])* $variant,)*
        }

        impl Class {
            /// Every class, in the order in which reports list them.
            pub const ALL: &'static [Class] = &[$(Class::$variant),*];

            /// The name in reports, metrics and stored results.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Class::$variant => $name),* }
            }

            /// The group it is summed under.
            #[must_use]
            pub fn group(self) -> Group {
                match self { $(Class::$variant => Group::$group),* }
            }

            /// Version of what books time on it: `VERSION` of its file, which is raised when its verdicts change.
            #[must_use]
            pub const fn version(self) -> u32 {
                match self { $(Class::$variant => $file::VERSION),* }
            }

            /// The sum of the versions of all.
            const VERSIONS: u32 = 0 $(+ $file::VERSION)*;
        }
    };
}

/// Group of classes, as the report's waterfall shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Progress that was kept.
    Productive,
    /// No owner held the GPU, or it is unknown whether one did.
    Capacity,
    /// Held without work.
    Held,
    /// Held, and not yet at work.
    StartUp,
    /// The GPU waited for its input.
    Feeding,
    /// The GPU waited for other GPUs of its job.
    Comms,
    /// The GPU waited for the job's state to be saved.
    Saving,
    /// The GPU worked, slower than it could.
    Derate,
    /// The GPU worked, and what it did was thrown away.
    Loss,
    /// The GPU worked for several who kept each other waiting.
    Sharing,
    /// Held, not busy, and no sufficient evidence why.
    Unexplained,
}

impl Group {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Productive => "productive",
            Self::Capacity => "capacity",
            Self::Held => "held",
            Self::StartUp => "start-up",
            Self::Feeding => "feeding",
            Self::Comms => "comms",
            Self::Saving => "saving",
            Self::Derate => "derate",
            Self::Loss => "loss",
            Self::Sharing => "sharing",
            Self::Unexplained => "unexplained",
        }
    }
}

classes! {
    /// Busy, progressing, kept.
    Productive "productive" Productive by busy,
    /// No samples.
    NoData "no_data" Capacity by cell,
    /// The driver has lost the GPU, or wants it reset before it works again.
    Down "down" Capacity by down,
    /// Out of use on purpose.
    Maintenance "maintenance" Capacity by maintenance,
    /// Nothing holds the GPU.
    Unallocated "unallocated" Capacity by held,
    /// Allocated, no work.
    IdleHeld "idle_held" Held by idle_held,
    /// A server without requests.
    NoDemand "no_demand" Held by no_demand,
    /// Other GPUs of the owner work, this one never does.
    PartialAllocation "partial_allocation" Held by partial_allocation,
    /// The rest of the job's GPUs are not its own yet.
    GangWait "gang_wait" Held by gang_wait,
    /// Bursts without power that only defeat reapers of idle GPUs.
    KeepAlive "keep_alive" Held by keep_alive,
    /// Slices of a GPU that is cut up into which no MIG profile fits.
    StrandedMig "stranded_mig" Held by stranded_mig,
    /// From the claim to the first sustained work.
    ColdStart "cold_start" StartUp by cold_start,
    /// The loader or preprocessing is late.
    DataloaderCpu "dataloader_cpu" Feeding by dataloader_cpu,
    /// The read is late.
    DataloaderStorage "dataloader_storage" Feeding by dataloader_storage,
    /// The job's CPU quota is used up.
    CpuThrottled "cpu_throttled" Feeding by cpu_throttled,
    /// Neighbours or other guests of the hypervisor take the CPUs.
    HostNoise "host_noise" Feeding by host_noise,
    /// Interrupts take the CPUs of the job's loaders.
    IrqPlacement "irq_placement" Feeding by irq_placement,
    /// The job's tasks wait for memory.
    MemoryPressure "memory_pressure" Feeding by memory_pressure,
    /// The job's tasks wait until memory has been compacted.
    ThpCompaction "thp_compaction" Feeding by thp_compaction,
    /// Processes or their memory are on another NUMA node than the GPU.
    CrossNuma "cross_numa" Feeding by cross_numa,
    /// Batches are on their way to the GPU.
    HostToDevice "host_to_device" Feeding by host_to_device,
    /// Kernels are over before the next one is launched.
    LaunchBound "launch_bound" Feeding by launch_bound,
    /// The input is late, and nothing tells why.
    FeedingUnsplit "feeding_unsplit" Feeding by feeding_unsplit,
    /// Kernels spin until the other ranks of the job are there.
    CollectiveWait "collective_wait" Comms by collective_wait,
    /// The same, until one rank is there, which is named.
    Straggler "straggler" Comms by straggler,
    /// The job writes its state, and the GPU waits.
    Checkpoint "checkpoint" Saving by checkpoint,
    /// Clocks held down by heat.
    ThermalThrottle "thermal_throttle" Derate by thermal_throttle,
    /// Clocks held down by a lowered power limit or the power brake.
    PowerThrottle "power_throttle" Derate by power_throttle,
    /// Clocks fixed below those of like GPUs.
    ClockLocked "clock_locked" Derate by clock_locked,
    /// Copies over a PCIe link below what GPU and slot can do.
    PcieDegraded "pcie_degraded" Derate by pcie_degraded,
    /// Work since the last save before a crash, and the start after it.
    LostWork "lost_work" Loss by lost_work,
    /// Several owners take turns on one GPU.
    TimesliceGap "timeslice_gap" Sharing by timeslice_gap,
    /// Held, not busy, no sufficient evidence.
    Unexplained "unexplained" Unexplained by explain,
}

/// One number that a verdict rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The signal's name, as in `signal`, or a formula over such names.
    pub signal: String,
    /// Its value in the window.
    pub value: f64,
    /// Unit of the value and the threshold, e.g. `ratio`, `seconds per second`.
    pub unit: String,
    /// What it was compared with.
    pub threshold: f64,
}

/// Energy that a GPU drew, and how much of its time that is known for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Energy {
    /// Millijoules, exact: those of a cell's classes sum to the cell's.
    pub mj: i64,
    /// GPU-milliseconds that it is known for.
    pub ms: i64,
    /// Of these, by the board's energy counter; the rest by power at each scrape.
    pub counted_ms: i64,
}

impl Energy {
    /// The sum of both, where either is known.
    #[must_use]
    pub fn sum(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(a), Some(b)) => {
                // Sums of sound rows are far below the end of the range; a damaged row must not turn a sum around.
                let sum = i64::saturating_add;
                Some(Self { mj: sum(a.mj, b.mj), ms: sum(a.ms, b.ms), counted_ms: sum(a.counted_ms, b.counted_ms) })
            }
            (one, other) => one.or(other),
        }
    }
}

/// The GPU that others waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Culprit {
    /// Its node.
    pub node: String,
    /// Its UUID.
    pub gpu: String,
}

/// By which rules a verdict was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// Of those of its class: [`Class::version`].
    pub rule: u32,
    /// Of all together, for every rule had its say: the sum of their versions, which grows with each that is raised or new.
    pub rules: u32,
}

impl Version {
    /// Of a verdict that this release gives.
    #[must_use]
    pub fn of(class: Class) -> Self {
        Self { rule: class.version(), rules: Class::VERSIONS }
    }
}

/// Consecutive cells of one GPU in which one class has milliseconds: what is stored and what reports sum.
/// The `ms` of all intervals of a GPU, with those of its instances, over a window sum to the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The GPU's UUID.
    pub gpu: String,
    /// Which of its MIG instances, where it is cut up and this is one's; the milliseconds are then its share of the GPU's.
    #[serde(default)]
    pub gpu_instance: Option<Instance>,
    /// The cluster of its node; absent where its series name none, and in verdicts of releases that did not tell.
    #[serde(default)]
    pub cluster: Option<String>,
    /// Its node.
    pub node: String,
    /// Its model, where known.
    pub model: Option<String>,
    /// Who held it (pod, job or unit), where known.
    pub owner: Option<String>,
    /// The run that the owner is: its own name, or that of the job whose ranks are owners of their own, as pods are.
    /// Absent where the owner is unknown, and in verdicts of releases that did not tell.
    #[serde(default)]
    pub run: Option<String>,
    /// The account that the time counts to: the namespace of a pod, the account of a Slurm job. Absent where unknown.
    #[serde(default)]
    pub account: Option<String>,
    /// The class.
    pub class: Class,
    /// Who caused it, where that is another GPU: the time stays on this one's row and is only said to be caused there.
    #[serde(default)]
    pub charged_to: Option<Culprit>,
    /// Start of the first cell.
    pub start_ms: TimeMs,
    /// End of the last cell.
    pub end_ms: TimeMs,
    /// GPU-milliseconds of this class within.
    pub ms: i64,
    /// 0 to 1: how sure the rule is, weighted over the cells.
    pub confidence: f64,
    /// Which signal said busy or not busy: `gpu_busy`, `gr_engine_active`, `gpu_utilization_and_power`, `gpu_utilization` or
    /// `sm_active`, from best to worst.
    pub busy_signal: Option<String>,
    /// The numbers behind the verdict, averaged over the cells.
    pub evidence: Vec<Evidence>,
    /// Signals whose absence kept rules from judging this time; with them the class might be another.
    pub missing: Vec<String>,
    /// What the GPU drew in this time; absent where neither energy nor power was measured.
    pub energy: Option<Energy>,
    /// What sampling leaves unknown of `ms`: its variance, in ms². Those of intervals add up, and
    /// [`sampling::bounds`] makes the 90 % interval of their sum. Absent in verdicts of releases that did not tell.
    #[serde(default)]
    pub variance_ms2: Option<i64>,
    /// By which rules it was judged. Absent in verdicts of releases that did not tell.
    #[serde(default)]
    pub version: Option<Version>,
}

impl Interval {
    /// Who is to be shown as its holder: the run, which verdicts of releases that did not tell it have by the owner alone.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.run.as_deref().or(self.owner.as_deref())
    }
}
