//! What acting on a class is said to return, and how to see that it did. A figure has a source and a grade; a class for
//! which none is known has none.

use serde::Serialize;

use crate::classify::Class;

/// How well a figure is founded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// The vendor's documentation.
    Vendor,
    /// A handbook that gives no measurement.
    Book,
    /// A GPU that is given back has all of its time: no measurement is needed, but another user is.
    Definition,
}

/// What the figure is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Share of the loss that goes away, 0 to 1.
    Loss,
    /// More work in the same time: a ratio above that of now. Time `t` of the owner on the GPU becomes `t / (1 + gain)`.
    Throughput,
    /// Seconds per start and GPU.
    Start,
}

/// A range of what is to be expected. What a finding promises is capped by its measured loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// Of what.
    pub basis: Basis,
    /// How well founded.
    pub grade: Grade,
    /// Where it is from.
    pub source: &'static str,
}

impl Grade {
    /// To be read.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Vendor => "vendor",
            Self::Book => "book estimate",
            Self::Definition => "by definition, if someone else uses it",
        }
    }
}

impl Gain {
    /// To be read.
    #[must_use]
    pub fn range(&self) -> String {
        let percent = |of: &str| format!("{} to {} % {of}", (self.low * 100.0).round(), (self.high * 100.0).round());
        match self.basis {
            Basis::Loss => percent("of the loss"),
            Basis::Throughput => percent("more throughput"),
            Basis::Start => format!("{} to {} s per start and GPU", self.low, self.high),
        }
    }
}

/// Doubling the workers took utilisation from 70 to 85 %: half of what was lost. Removing stalls took it from 70 to
/// above 95 %: 25 of 30 points.
static FEEDING: Gain = Gain {
    low: 0.5,
    high: 0.83,
    basis: Basis::Loss,
    grade: Grade::Book,
    source: "AI Systems Performance Engineering (early release), chapter 4 (more loader workers) and chapter 12 (I/O \
             stalls removed)",
};

/// Copies from pinned memory are two to three times as fast as from pageable memory.
static PINNED_COPIES: Gain = Gain {
    low: 0.5,
    high: 0.67,
    basis: Basis::Loss,
    grade: Grade::Book,
    source: "AI Systems Performance Engineering (early release), chapter 3: copies from pinned memory, where they are from \
             pageable memory now",
};

/// How much of it returns depends on whether someone else needs the GPU.
static RELEASE: Gain = Gain {
    low: 0.0,
    high: 1.0,
    basis: Basis::Loss,
    grade: Grade::Definition,
    source: "the GPU is free for another job as soon as this one gives it back",
};

static PINNING: Gain = Gain {
    low: 0.05,
    high: 0.10,
    basis: Basis::Throughput,
    grade: Grade::Book,
    source: "AI Systems Performance Engineering (early release), chapter 3: NUMA awareness and CPU pinning",
};

static PERSISTENCE: Gain = Gain {
    low: 1.0,
    high: 3.0,
    basis: Basis::Start,
    grade: Grade::Vendor,
    source: "NVIDIA Driver Persistence, where neither the daemon nor a running client keeps the driver loaded",
};

/// What is known of the gain; `None` where no source gives a figure.
#[must_use]
pub(super) fn gain(class: Class) -> Option<&'static Gain> {
    match class {
        Class::DataloaderCpu | Class::DataloaderStorage => Some(&FEEDING),
        Class::CrossNuma | Class::HostNoise => Some(&PINNING),
        Class::HostToDevice => Some(&PINNED_COPIES),
        Class::ColdStart => Some(&PERSISTENCE),
        Class::IdleHeld | Class::KeepAlive | Class::PartialAllocation => Some(&RELEASE),
        _ => None,
    }
}

/// What is to be seen after acting.
#[must_use]
pub(super) fn check(class: Class) -> &'static str {
    match class {
        Class::NoData => "up of the node's target is 1, and the coverage of the next report is higher.",
        Class::Down => {
            "goodput_gpu_state of the GPU is ok, and nothing wants it reset (goodput_gpu_recovery_action is 0)."
        }
        Class::Maintenance => "The node takes jobs again.",
        Class::Unallocated => "The queue is shorter, and the GPUs are allocated in the next report.",
        Class::IdleHeld => "The GPU has another holder, or none, within minutes; idle_held of this owner is gone.",
        Class::NoDemand => "Fewer replicas hold GPUs while there are no requests.",
        Class::PartialAllocation => "Every GPU of the job is busy, or the job holds fewer.",
        Class::KeepAlive => "The GPU has another holder, or none, within minutes; keep_alive of this owner is gone.",
        Class::StrandedMig => "The slices of all instances add up to the GPU's (goodput_gpu_mig_capacity_slices).",
        Class::ColdStart => "The next start of the same job is shorter.",
        Class::CrossNuma => "The advisory is gone, and the GPU works as much as its neighbours.",
        Class::HostNoise => "job_cpu_pressure falls below its threshold while the job works.",
        Class::IrqPlacement => "job_interrupts falls, and with it the CPU pressure of the job.",
        Class::ThpCompaction => {
            "node_compaction_stalls and the memory pressure of the job fall below their thresholds."
        }
        Class::MemoryPressure => "job_memory_pressure falls below its threshold.",
        Class::Checkpoint => "The GPU works while the job writes; saves cost less of each hour.",
        Class::DataloaderCpu => "gpu_busy rises; CPU use and CPU pressure of the job fall below their thresholds.",
        Class::DataloaderStorage => "gpu_busy rises; job_io_pressure falls below its threshold.",
        Class::CpuThrottled => "Throttled periods fall below their threshold, and gpu_busy rises.",
        Class::HostToDevice => "gpu_busy rises, and with it pcie_receive: the same bytes take less of each minute.",
        Class::Straggler => {
            "The GPU that was waited for has no loss of its own, and power of the others rises with utilisation."
        }
        Class::ClockLocked => "sm_clock is that of the neighbours while the GPU works.",
        Class::PcieDegraded => "goodput_gpu_pcie_link_degraded is 0 under load, and gpu_busy rises.",
        Class::LaunchBound => "sm_active and power rise towards what the same job reaches in other minutes.",
        Class::FeedingUnsplit => "The time has a class of its own in the next report.",
        Class::TimesliceGap => "sm_active rises while the same owners work.",
        Class::Unexplained => "The time has another class in the next report.",
        _ => "The time of this class falls in the next report.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gain_is_a_range_with_a_source() {
        for gain in Class::ALL.iter().filter_map(|class| gain(*class)) {
            let is_range = 0.0 <= gain.low && gain.low <= gain.high && gain.high > 0.0;
            assert!(is_range && !gain.source.is_empty(), "{gain:?}");
            assert!(gain.basis != Basis::Loss || gain.high <= 1.0, "{gain:?}");
        }
    }

    #[test]
    fn ranges_are_read_with_their_unit() {
        let shown = [&FEEDING, &PINNING, &PERSISTENCE].map(Gain::range);
        assert_eq!(shown, ["50 to 83 % of the loss", "5 to 10 % more throughput", "1 to 3 s per start and GPU"]);
    }
}
