//! What each class is to a reader: its meaning, its colour, what to do about it; one file per group.
//!
//! Only what is true: each remedy names its source, what restarts and who may do it. What a source says of the gain is
//! in `gain`; the loss in the report is the most that a remedy can return.

mod capacity;
mod comms;
mod derate;
mod feeding;
mod held;
mod loss;
mod saving;
mod sharing;
mod start_up;
mod unexplained;

use serde::Serialize;

use crate::classify::Class;

/// A class as reports, pages and dashboards show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The class in one sentence.
    pub meaning: &'static str,
    /// Its colour on a light page, `#rrggbb`.
    pub light: &'static str,
    /// Its colour on a dark page, `#rrggbb`.
    pub dark: &'static str,
    /// What to do about it, most promising first.
    pub remedies: &'static [Remedy],
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// In words.
    pub action: &'static str,
    /// The command or setting, where there is one; upper-case words are to be replaced.
    pub command: Option<&'static str>,
    /// What it restarts or interrupts.
    pub restarts: &'static str,
    /// Who is allowed to.
    pub who: &'static str,
    /// What may go wrong.
    pub risk: &'static str,
    /// Where this is documented.
    pub source: &'static str,
}

const PRODUCTIVE: About = About { meaning: "The GPU was busy.", light: "#2f9e74", dark: "#3fb488", remedies: &[] };

/// What there is to say of a class.
#[must_use]
pub fn about(class: Class) -> &'static About {
    match class {
        Class::Productive => &PRODUCTIVE,
        Class::NoData => &capacity::NO_DATA,
        Class::Down => &capacity::DOWN,
        Class::Maintenance => &capacity::MAINTENANCE,
        Class::Unallocated => &capacity::UNALLOCATED,
        Class::IdleHeld => &held::IDLE_HELD,
        Class::NoDemand => &held::NO_DEMAND,
        Class::PartialAllocation => &held::PARTIAL_ALLOCATION,
        Class::GangWait => &held::GANG_WAIT,
        Class::KeepAlive => &held::KEEP_ALIVE,
        Class::StrandedMig => &held::STRANDED_MIG,
        Class::ColdStart => &start_up::COLD_START,
        Class::CpuThrottled => &feeding::CPU_THROTTLED,
        Class::CrossNuma => &feeding::CROSS_NUMA,
        Class::HostNoise => &feeding::HOST_NOISE,
        Class::IrqPlacement => &feeding::IRQ_PLACEMENT,
        Class::ThpCompaction => &feeding::THP_COMPACTION,
        Class::MemoryPressure => &feeding::MEMORY_PRESSURE,
        Class::DataloaderStorage => &feeding::DATALOADER_STORAGE,
        Class::DataloaderCpu => &feeding::DATALOADER_CPU,
        Class::HostToDevice => &feeding::HOST_TO_DEVICE,
        Class::LaunchBound => &feeding::LAUNCH_BOUND,
        Class::FeedingUnsplit => &feeding::FEEDING_UNSPLIT,
        Class::CollectiveWait => &comms::COLLECTIVE_WAIT,
        Class::Straggler => &comms::STRAGGLER,
        Class::Checkpoint => &saving::CHECKPOINT,
        Class::ThermalThrottle => &derate::THERMAL_THROTTLE,
        Class::PowerThrottle => &derate::POWER_THROTTLE,
        Class::ClockLocked => &derate::CLOCK_LOCKED,
        Class::PcieDegraded => &derate::PCIE_DEGRADED,
        Class::LostWork => &loss::LOST_WORK,
        Class::TimesliceGap => &sharing::TIMESLICE_GAP,
        Class::Unexplained => &unexplained::UNEXPLAINED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loss_has_a_remedy_and_none_that_is_known_to_be_wrong() {
        for class in Class::ALL.iter().filter(|c| **c != Class::Productive) {
            assert!(!about(*class).remedies.is_empty(), "{}", class.name());
            for remedy in about(*class).remedies {
                let text = format!("{remedy:?}").to_lowercase();
                for wrong in ["device:mem_limit", "noop", "-ac ", "reboot", "nccl_", "single-numa-node", "memlock"] {
                    assert!(!text.contains(wrong), "{}: {wrong}", class.name());
                }
            }
        }
    }
}
