//! What a virtual machine cannot read of its vGPU.
//!
//! The list is what `nvidia-smi -q` says `N/A` to in two recorded guests: a GRID V100D-8C under 535.216.01 and an RTXA6000-24Q
//! under 535.183.06. Current clocks, memory, utilization, ECC errors and the license are there. No recording has field values,
//! GPM or codes: those follow the calls about the same thing, and the code is made up.

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
const CALLS: [&str; 30] = [
    "nvmlDeviceGetApplicationsClock",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetFanSpeed",
    "nvmlDeviceGetFanSpeed_v2",
    "nvmlDeviceGetGpuFabricInfo",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetInforomImageVersion",
    "nvmlDeviceGetInforomVersion",
    "nvmlDeviceGetMarginTemperature",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetPcieReplayCounter",
    "nvmlDeviceGetPcieThroughput",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetPowerManagementLimitConstraints",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRowRemapperHistogram",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTemperatureThreshold",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleGet",
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

    /// As [`Virtualization::hides_call`], of an entry of `nvmlDeviceGetFieldValues`: time at lowered clocks, memory temperature,
    /// energy, PCIe, remapped rows, power, temperature limits.
    pub(crate) fn hides_field(self, id: u32) -> bool {
        let hidden = matches!(
            id,
            74..=83 | 94 | 95 | 142..=145 | 169 | 173..=183 | 185..=198 | 251..=253 | 269..=271
        );
        self == Self::Vgpu && hidden
    }

    /// One licensable feature in a vGPU guest, none elsewhere.
    pub(crate) fn license(self, state: u32) -> nvmlGridLicensableFeatures_t {
        let feature = |code, state| nvmlGridLicensableFeature_t {
            featureCode: code,
            featureState: state,
            licenseInfo: [0; 128],
            productName: [0; 128],
            featureEnabled: u32::from(code != 0),
            licenseExpiry: nvmlGridLicenseExpiry_t { year: 0, month: 0, day: 0, hour: 0, min: 0, sec: 0, status: 0 },
        };
        let is_vgpu = self == Self::Vgpu;
        let compute = nvmlGridLicenseFeatureCode_t_NVML_GRID_LICENSE_FEATURE_CODE_COMPUTE;
        let first = if is_vgpu { feature(compute, state) } else { feature(0, 0) };
        nvmlGridLicensableFeatures_t {
            isGridLicenseSupported: i32::from(is_vgpu),
            licensableFeaturesCount: u32::from(is_vgpu),
            gridLicensableFeatures: [first, feature(0, 0), feature(0, 0)],
        }
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
        for call in ["nvmlDeviceGetUtilizationRates", "nvmlDeviceGetClockInfo", "nvmlDeviceGetMemoryInfo_v2"] {
            assert!(!Virtualization::Vgpu.hides_call(call), "{call}");
        }
        // ECC errors, NVLink.
        assert_eq!([4, 138].map(|id| Virtualization::Vgpu.hides_field(id)), [false, false]);
    }
}
