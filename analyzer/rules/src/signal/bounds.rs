//! How fast a signal can grow at most, and what a board can draw.

use super::Signal;

/// CPUs that a Linux kernel can be built for at most (`NR_CPUS` of x86-64 with `MAXSMP`).
const MOST_CPUS: f64 = 8192.0;

/// Bytes per second of all disks or adapters of a node at most: eight PCIe slots of generation 6 by 16 lanes carry
/// 121 GB/s each (PCI Express Base Specification).
const MOST_BYTES: f64 = 1e12;

/// Events per second of one counter at most: a counter of the kernel takes a nanosecond or more per step.
const MOST_EVENTS: f64 = 1e9;

/// Watts of one board at most: ten times what the largest board may draw (NVIDIA's data sheets: 1000 W for B200, 1400 W
/// for B300), less a little. The power signals admit as much.
pub(crate) const MOST_WATTS: f64 = 1e4;

/// Watts of one board at least. A board that answers draws some: the least of those recorded is 9 W (a T4 at rest). Zero
/// is a sensor that gives no answer.
pub(crate) const LEAST_WATTS: f64 = 1.0;

impl Signal {
    /// The most that a counter can grow by in a second, in base units. A level has none.
    #[must_use]
    pub(crate) const fn highest_rate(self) -> f64 {
        use Signal as S;
        match self {
            S::GpuBusy
            | S::GpuObserved
            | S::GpuThermalSlowdown
            | S::GpuPowerCapped
            | S::GpuPowerBrake
            | S::NodeBusiestSoftirq
            | S::NodeCpuPressure
            | S::NodeIoPressure
            | S::NodeIoStalled
            | S::NodeMemoryPressure
            | S::NodeDiskBusy
            | S::InterfacePause
            | S::JobCpuPressure
            | S::JobIoPressure
            | S::JobIoStalled
            | S::JobMemoryPressure
            | S::ServerIdle
            | S::ServerScheduling
            | S::ServerExtendTime => 1.0,
            S::NodeCpuBusy
            | S::NodeCpuSteal
            | S::NodeCpuIdle
            | S::NodeCpuIowait
            | S::NodeIrqTime
            | S::JobCpuUsage
            | S::JobHolderCpu
            | S::JobCpuThrottled => MOST_CPUS,
            S::GpuEnergy => MOST_WATTS,
            S::NodeSwapIn
            | S::NodeDiskRead
            | S::NodeDiskWritten
            | S::NvlinkReceived
            | S::PortReceived
            | S::PortSent
            | S::InterfaceReceived
            | S::InterfaceSent
            | S::MountRead
            | S::MountWritten
            | S::JobRead
            | S::JobWritten
            | S::JobStorageWritten
            | S::JobCallsRead => MOST_BYTES,
            _ => MOST_EVENTS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::Kind;

    #[test]
    fn every_counter_of_time_grows_no_faster_than_time() {
        let times = Signal::ALL.iter().filter(|s| s.kind() == Kind::Counter && s.unit() == "seconds per second");
        for signal in times.filter(|s| **s != Signal::JobCpuThrottled) {
            assert_eq!(signal.highest_rate(), 1.0, "{signal:?}");
        }
    }
}
