//! ECC, retired pages, remapped rows.

use super::{Ptr, gpu_calls, list};
use crate::code::Code;
use crate::event::Reading;
use crate::view::View;
use nvml_wrapper_sys::bindings::*;
use std::os::raw::{c_uint, c_ulonglong};

gpu_calls! {
    nvmlDeviceGetEccMode(current: Ptr<nvmlEnableState_t>, pending: Ptr<nvmlEnableState_t>) |view| {
        current.set(view.set_or(Reading::EccMode, 1))?;
        pending.set(view.set_or(Reading::EccMode, 1))
    };
    nvmlDeviceGetDefaultEccMode(mode: Ptr<nvmlEnableState_t>) |_view| mode.set(1);
    nvmlDeviceGetTotalEccErrors(error: nvmlMemoryErrorType_t, counter: nvmlEccCounterType_t, count: Ptr<c_ulonglong>)
        |view| count.set(ecc(&view, error, counter)?);
    nvmlDeviceGetMemoryErrorCounter(
        error: nvmlMemoryErrorType_t,
        counter: nvmlEccCounterType_t,
        location: nvmlMemoryLocation_t,
        count: Ptr<c_ulonglong>
    ) |view| {
        let total = ecc(&view, error, counter)?;
        match location {
            nvmlMemoryLocation_enum_NVML_MEMORY_LOCATION_DRAM => count.set(total),
            nvmlMemoryLocation_enum_NVML_MEMORY_LOCATION_SRAM => count.set(0),
            location if location < nvmlMemoryLocation_enum_NVML_MEMORY_LOCATION_COUNT => Err(Code::NOT_SUPPORTED),
            _ => Err(Code::INVALID_ARGUMENT),
        }
    };
    nvmlDeviceGetRetiredPages(cause: nvmlPageRetirementCause_t, count: Ptr<c_uint>, addresses: Ptr<c_ulonglong>) |view|
        list(&count, &addresses, retired(&view, cause)?);
    nvmlDeviceGetRetiredPagesPendingStatus(pending: Ptr<nvmlEnableState_t>) |view| {
        retires_pages(&view)?;
        pending.set(view.set_or(Reading::RetiredPending, 0))
    };
    nvmlDeviceGetRemappedRows(
        corrected: Ptr<c_uint>,
        uncorrected: Ptr<c_uint>,
        pending: Ptr<c_uint>,
        failed: Ptr<c_uint>
    ) |view| {
        view.gpu.profile.remap_banks.ok_or(Code::NOT_SUPPORTED)?;
        corrected.set(view.set_or(Reading::RemappedCorrectable, 0))?;
        uncorrected.set(view.set_or(Reading::RemappedUncorrectable, 0))?;
        pending.set(view.set_or(Reading::RemapPending, 0))?;
        failed.set(view.set_or(Reading::RemapFailure, 0))
    };
    // As recorded on a healthy H100, all banks have all their spare rows, unless a test says otherwise.
    nvmlDeviceGetRowRemapperHistogram(banks: Ptr<nvmlRowRemapperHistogramValues_t>) |view|
        banks.set(nvmlRowRemapperHistogramValues_t {
            max: view.gpu.profile.remap_banks.ok_or(Code::NOT_SUPPORTED)?,
            high: view.set_or(Reading::RemapBanksHigh, 0),
            partial: view.set_or(Reading::RemapBanksPartial, 0),
            low: view.set_or(Reading::RemapBanksLow, 0),
            none: view.set_or(Reading::RemapBanksNone, 0),
        });
}

fn ecc(view: &View, error: nvmlMemoryErrorType_t, counter: nvmlEccCounterType_t) -> Result<u64, Code> {
    if view.set_or(Reading::EccMode, 1) == 0 {
        return Err(Code::NOT_SUPPORTED);
    }
    let reading = match (error, counter) {
        (0, 0) => Reading::EccCorrectedVolatile,
        (1, 0) => Reading::EccUncorrectedVolatile,
        (0, 1) => Reading::EccCorrectedAggregate,
        (1, 1) => Reading::EccUncorrectedAggregate,
        _ => return Err(Code::INVALID_ARGUMENT),
    };
    Ok(view.count(reading))
}

/// Pages are retired where rows cannot be remapped.
fn retires_pages(view: &View) -> Result<(), Code> {
    if view.gpu.profile.remap_banks.is_some() { Err(Code::NOT_SUPPORTED) } else { Ok(()) }
}

fn retired(view: &View, cause: nvmlPageRetirementCause_t) -> Result<Vec<u64>, Code> {
    retires_pages(view)?;
    let count = match cause {
        nvmlPageRetirementCause_enum_NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS => Reading::RetiredSbe,
        nvmlPageRetirementCause_enum_NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR => Reading::RetiredDbe,
        _ => return Err(Code::INVALID_ARGUMENT),
    };
    Ok((0..view.count(count)).map(|page| page << 16).collect())
}
