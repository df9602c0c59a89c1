//! Which signals describe the instances of a GPU that is cut up, and which the GPU alone.

use super::Signal;
use goodput_exposition::sample::Labels;

impl Signal {
    /// Does every instance have readings of its own? NVML, GPM and DCGM give an instance memory, activity and processes;
    /// power, clocks, temperature and energy are the board's.
    pub(crate) fn is_of_instances(self) -> bool {
        use Signal::{
            DramActive, FbFree, FbTotal, FbUsed, GpuBusy, GpuObserved, GpuOwner, GpuProcesses, GrEngineActive,
            MigSlices, SmActive, SmOccupancy, TensorActive,
        };
        matches!(
            self,
            GpuBusy
                | GpuObserved
                | GrEngineActive
                | SmActive
                | SmOccupancy
                | TensorActive
                | DramActive
                | FbUsed
                | FbFree
                | FbTotal
                | GpuProcesses
                | GpuOwner
                | MigSlices
        )
    }

    /// Is the board's reading true of each of its instances? That of power is of them together, and that it is lost is
    /// told when they are no more.
    pub(crate) fn is_shared_by_instances(self) -> bool {
        use Signal::{
            GpuNuma, GpuPowerBrake, GpuPowerCapped, GpuPowerLimit, GpuPowerLimitDefault, GpuRecoveryAction,
            GpuResetRequired, GpuThermalSlowdown, GpuXid, SmClock, SmMaxClock,
        };
        matches!(
            self,
            GpuNuma
                | GpuPowerBrake
                | GpuPowerCapped
                | GpuPowerLimit
                | GpuPowerLimitDefault
                | GpuRecoveryAction
                | GpuResetRequired
                | GpuThermalSlowdown
                | GpuXid
                | SmClock
                | SmMaxClock
        )
    }
}

/// The profile of the instance that a series is about, such as `1g.10gb`, where it names one.
#[must_use]
pub fn profile_of(labels: &Labels) -> Option<&str> {
    labels.get("GPU_I_PROFILE").filter(|profile| !profile.is_empty())
}

/// Does the series name an instance, whether or not the reading is the instance's own?
#[must_use]
pub fn names_instance(labels: &Labels) -> bool {
    labels.get("GPU_I_ID").is_some()
}
