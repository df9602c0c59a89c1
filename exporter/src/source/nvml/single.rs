//! The C boundary, continued: calls for single numbers that nvml-wrapper lacks.
//!
//! Not among the wrapper's methods are the temperature margin, the row remapper's histogram, the license of a vGPU, the fabric
//! in its versioned form, and the memory and the fabric by the calls of older drivers; its virtualization mode fails on
//! modes newer than it.

#![allow(unsafe_code)]

use nvml_wrapper::Device;
use nvml_wrapper_sys::bindings as sys;

use super::absent::{Absent, Reading};
use super::raw::{handle, symbol};
use super::virtualization::Virtualization;

/// DCGM's codes for the registration with the fabric, which it keeps apart from NVML's.
const FABRIC_FAILURE: f64 = 4.0;

/// The version field of a struct: its size, and its version in the top byte.
const fn version<T>(number: u32) -> u32 {
    size_of::<T>() as u32 | number << 24
}

/// Celsius between the temperature now and the nearest slowdown.
pub(super) fn temperature_margin(device: &Device<'_>) -> Reading<f64> {
    let call = symbol(&device.nvml().lib().nvmlDeviceGetMarginTemperature)?;
    let mut margin =
        sys::nvmlMarginTemperature_t { version: version::<sys::nvmlMarginTemperature_t>(1), marginTemperature: 0 };
    // SAFETY: the library reads the version of the struct and writes its number.
    Absent::check(unsafe { call(handle(device), &raw mut margin) })?;
    Ok(f64::from(margin.marginTemperature))
}

/// Whether the GPU is the machine's own, or a hypervisor's.
pub(super) fn virtualization(device: &Device<'_>) -> Reading<Virtualization> {
    let call = symbol(&device.nvml().lib().nvmlDeviceGetVirtualizationMode)?;
    let mut mode = sys::nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_NONE;
    // SAFETY: the library writes one number to the place given.
    Absent::check(unsafe { call(handle(device), &raw mut mode) })?;
    Virtualization::of(mode)
}

/// Does the vGPU have its license? Only a vGPU needs one to work at full speed: a whole GPU is not asked about.
pub(super) fn is_vgpu_licensed(device: &Device<'_>) -> Reading<bool> {
    if virtualization(device)? != Virtualization::Vgpu {
        return Err(Absent::NotSupported);
    }
    let call = symbol(&device.nvml().lib().nvmlDeviceGetGridLicensableFeatures_v4)?;
    // SAFETY: the struct is numbers and arrays of numbers, for which zero is a value.
    let mut features: sys::nvmlGridLicensableFeatures_t = unsafe { std::mem::zeroed() };
    // SAFETY: the library writes the struct given.
    Absent::check(unsafe { call(handle(device), &raw mut features) })?;
    let count = usize::try_from(features.licensableFeaturesCount).unwrap_or(usize::MAX);
    let listed = features.gridLicensableFeatures.iter().take(count);
    // One license serves the vGPU; which feature it is depends on the profile.
    let has_license = || listed.clone().any(|feature| feature.featureState != 0);
    if features.isGridLicenseSupported == 0 || count == 0 { Err(Absent::NotSupported) } else { Ok(has_license()) }
}

/// Banks by how many spare rows they have left: all, most, part, few, none.
pub(super) fn remap_histogram(device: &Device<'_>) -> Reading<Vec<f64>> {
    let call = symbol(&device.nvml().lib().nvmlDeviceGetRowRemapperHistogram)?;
    let mut banks = sys::nvmlRowRemapperHistogramValues_t { max: 0, high: 0, partial: 0, low: 0, none: 0 };
    // SAFETY: the library writes the struct given.
    Absent::check(unsafe { call(handle(device), &raw mut banks) })?;
    Ok([banks.max, banks.high, banks.partial, banks.low, banks.none].map(f64::from).to_vec())
}

/// Bytes of a GPU's or MIG device's memory.
pub(super) struct Memory {
    pub(super) total: u64,
    pub(super) free: u64,
    pub(super) used: u64,
    /// What the driver keeps. Drivers before 510 do not tell: there it is a part of what is used.
    pub(super) reserved: Option<u64>,
}

/// The memory, by the older call on drivers before 510.
pub(super) fn memory(device: &Device<'_>) -> Reading<Memory> {
    let lib = device.nvml().lib();
    let Ok(call) = symbol(&lib.nvmlDeviceGetMemoryInfo_v2) else { return memory_of_old_drivers(device) };
    let version = version::<sys::nvmlMemory_v2_t>(2);
    let mut memory = sys::nvmlMemory_v2_t { version, total: 0, reserved: 0, free: 0, used: 0 };
    // SAFETY: the library reads the version of the struct and writes its numbers.
    Absent::check(unsafe { call(handle(device), &raw mut memory) })?;
    let sys::nvmlMemory_v2_t { total, reserved, free, used, .. } = memory;
    Ok(Memory { total, free, used, reserved: Some(reserved) })
}

fn memory_of_old_drivers(device: &Device<'_>) -> Reading<Memory> {
    let call = symbol(&device.nvml().lib().nvmlDeviceGetMemoryInfo)?;
    let mut memory = sys::nvmlMemory_t { total: 0, free: 0, used: 0 };
    // SAFETY: the library writes the struct given.
    Absent::check(unsafe { call(handle(device), &raw mut memory) })?;
    let sys::nvmlMemory_t { total, free, used } = memory;
    Ok(Memory { total, free, used, reserved: None })
}

/// The fabric: registration, code with which it ended, clique, and from 550 on the health mask, from 580 on the summary of
/// health.
pub(super) fn fabric(device: &Device<'_>) -> Reading<Vec<f64>> {
    let Ok(call) = symbol(&device.nvml().lib().nvmlDeviceGetGpuFabricInfoV) else {
        return fabric_of_old_drivers(device);
    };
    let mut info = sys::nvmlGpuFabricInfo_v3_t {
        version: version::<sys::nvmlGpuFabricInfo_v3_t>(3),
        clusterUuid: [0; 16],
        status: 0,
        cliqueId: 0,
        state: 0,
        healthMask: 0,
        healthSummary: 0,
    };
    // SAFETY: the library reads the version and writes as much as that version has.
    let mut code = unsafe { call(handle(device), &raw mut info) };
    let newest = code != sys::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if !newest {
        info.version = version::<sys::nvmlGpuFabricInfo_v2_t>(2);
        // SAFETY: as above; version 2 is the beginning of version 3.
        code = unsafe { call(handle(device), &raw mut info) };
    }
    Absent::check(code)?;
    let mut values = registration(u32::from(info.state), info.status, info.cliqueId);
    if values.len() > 1 {
        values.push(f64::from(info.healthMask));
        values.extend(newest.then(|| f64::from(info.healthSummary)));
    }
    Ok(values)
}

/// As drivers from 525 on tell it.
fn fabric_of_old_drivers(device: &Device<'_>) -> Reading<Vec<f64>> {
    let call = symbol(&device.nvml().lib().nvmlDeviceGetGpuFabricInfo)?;
    let mut info = sys::nvmlGpuFabricInfo_t { clusterUuid: [0; 16], status: 0, cliqueId: 0, state: 0 };
    // SAFETY: the library writes the struct given.
    Absent::check(unsafe { call(handle(device), &raw mut info) })?;
    Ok(registration(u32::from(info.state), info.status, info.cliqueId))
}

/// Only the state before the registration is over: the rest says nothing until then.
fn registration(state: u32, status: sys::nvmlReturn_t, clique: u32) -> Vec<f64> {
    if state != sys::NVML_GPU_FABRIC_STATE_COMPLETED {
        return vec![f64::from(state)];
    }
    let failed = status != sys::nvmlReturn_enum_NVML_SUCCESS;
    let shown = if failed { FABRIC_FAILURE } else { f64::from(state) };
    vec![shown, f64::from(status), f64::from(clique)]
}
