//! The C boundary, continued: calls for single numbers that nvml-wrapper lacks.
//!
//! Not among the wrapper's methods are the temperature margin, the row remapper's histogram, and the fabric in its
//! versioned form.

#![allow(unsafe_code)]

use nvml_wrapper::Device;
use nvml_wrapper_sys::bindings as sys;

use super::absent::{Absent, Reading};
use super::raw::{handle, symbol};

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

/// Banks by how many spare rows they have left: all, most, part, few, none.
pub(super) fn remap_histogram(device: &Device<'_>) -> Reading<Vec<f64>> {
    let call = symbol(&device.nvml().lib().nvmlDeviceGetRowRemapperHistogram)?;
    let mut banks = sys::nvmlRowRemapperHistogramValues_t { max: 0, high: 0, partial: 0, low: 0, none: 0 };
    // SAFETY: the library writes the struct given.
    Absent::check(unsafe { call(handle(device), &raw mut banks) })?;
    Ok([banks.max, banks.high, banks.partial, banks.low, banks.none].map(f64::from).to_vec())
}

/// The fabric: registration, code with which it ended, clique, health mask, and on newer drivers the summary of health.
pub(super) fn fabric(device: &Device<'_>) -> Reading<Vec<f64>> {
    let call = symbol(&device.nvml().lib().nvmlDeviceGetGpuFabricInfoV)?;
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
    if u32::from(info.state) != sys::NVML_GPU_FABRIC_STATE_COMPLETED {
        // The rest says nothing before the registration is over.
        return Ok(vec![f64::from(info.state)]);
    }
    let failed = info.status != sys::nvmlReturn_enum_NVML_SUCCESS;
    let status = if failed { FABRIC_FAILURE } else { f64::from(info.state) };
    let mut values = vec![status, f64::from(info.status), f64::from(info.cliqueId), f64::from(info.healthMask)];
    values.extend(newest.then(|| f64::from(info.healthSummary)));
    Ok(values)
}
