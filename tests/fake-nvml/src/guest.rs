//! What a virtual machine cannot read of its vGPU. The list is from memory: no vGPU of ours has answered.
//!
//! NVIDIA's Virtual GPU Software Management SDK User Guide says, for monitoring from a guest, that properties of the physical
//! GPU do not apply to a vGPU: clocks and why they are where they are, power, temperature, fans, ECC, retired pages, InfoROM,
//! PCIe link, serial number. Memory, utilization and processes do. No capture of such a guest was found: which code the
//! calls answer with is made up.

use nvml_wrapper_sys::bindings::*;
use serde::Deserialize;

/// Who the GPUs belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Virtualization {
    #[default]
    None,
    Passthrough,
    Vgpu,
    HostVgpu,
    HostVsga,
}

/// Calls about what a vGPU does not have.
const CALLS: [&str; 22] = [
    "nvmlDeviceGetApplicationsClock",
    "nvmlDeviceGetClock",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetInforomImageVersion",
    "nvmlDeviceGetInforomVersion",
    "nvmlDeviceGetMarginTemperature",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetPowerManagementLimitConstraints",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetRowRemapperHistogram",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTemperatureThreshold",
];

impl Virtualization {
    pub(crate) fn mode(self) -> nvmlGpuVirtualizationMode_t {
        match self {
            Self::None => nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_NONE,
            Self::Passthrough => nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH,
            Self::Vgpu => nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_VGPU,
            Self::HostVgpu => nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU,
            Self::HostVsga => nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_HOST_VSGA,
        }
    }

    /// Is it about what a vGPU does not have?
    pub(crate) fn hides_call(self, name: &str) -> bool {
        self == Self::Vgpu && CALLS.contains(&name)
    }

    /// As [`Virtualization::hides_call`], of an entry of `nvmlDeviceGetFieldValues`: ECC, retired pages and remapped rows, time
    /// at lowered clocks, memory temperature, energy, PCIe, power, temperature limits.
    pub(crate) fn hides_field(self, id: u32) -> bool {
        let hidden = matches!(
            id,
            1..=6 | 29..=31 | 74..=83 | 92..=95 | 142..=145 | 169 | 173..=183 | 185..=198 | 251..=253 | 269..=271
        );
        self == Self::Vgpu && hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_vgpu_hides_what_is_the_boards() {
        let hides = |mode: Virtualization| (mode.hides_call("nvmlDeviceGetPowerUsage"), mode.hides_field(186));
        assert_eq!(hides(Virtualization::Vgpu), (true, true));
        for mode in
            [Virtualization::None, Virtualization::Passthrough, Virtualization::HostVgpu, Virtualization::HostVsga]
        {
            assert_eq!(hides(mode), (false, false), "{mode:?}");
        }
        assert!(!Virtualization::Vgpu.hides_call("nvmlDeviceGetUtilizationRates"));
        // NVLink.
        assert!(!Virtualization::Vgpu.hides_field(138));
    }
}
