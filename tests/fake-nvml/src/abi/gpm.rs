//! GPM.

use super::{Ptr, gpu_calls, node_calls};
use crate::code::{Code, Done};
use crate::gpm::{self, Sample};
use crate::library::current;
use nvml_wrapper_sys::bindings::*;
use std::os::raw::c_uint;

node_calls! {
    nvmlGpmSampleAlloc(sample: Ptr<nvmlGpmSample_t>) |_node| sample.set(current()?.gpm.issue(None));
    nvmlGpmSampleFree(sample: nvmlGpmSample_t) |_node| current()?.gpm.free(sample);
    nvmlGpmMetricsGet(request: Ptr<nvmlGpmMetricsGet_t>) |_node| metrics(request.0);
}

gpu_calls! {
    nvmlGpmQueryDeviceSupport(support: Ptr<nvmlGpmSupport_t>) |view| {
        if support.get()?.version != NVML_GPM_SUPPORT_VERSION {
            return Err(Code::ARGUMENT_VERSION_MISMATCH);
        }
        support.set(nvmlGpmSupport_t { version: NVML_GPM_SUPPORT_VERSION, isSupportedDevice: view.has_gpm().into() })
    };
    nvmlGpmSampleGet(sample: nvmlGpmSample_t) |view| {
        if !view.has_gpm() {
            return Err(Code::NOT_SUPPORTED);
        }
        let now = Sample::take(&view);
        current()?.gpm.with(sample, |sample| *sample = Some(now))
    };
    nvmlGpmMigSampleGet(instance: c_uint, sample: nvmlGpmSample_t) |view| {
        if !view.has_gpm() || !view.gpu.mig.enabled {
            return Err(Code::NOT_SUPPORTED);
        }
        let instance = view.gpu.mig.instance(instance).ok_or(Code::INVALID_ARGUMENT)?;
        let now = Sample::take_of(&view, instance);
        current()?.gpm.with(sample, |sample| *sample = Some(now))
    };
    nvmlGpmQueryIfStreamingEnabled(enabled: Ptr<c_uint>) |view|
        if view.has_gpm() { enabled.set(0) } else { Err(Code::NOT_SUPPORTED) };
}

/// Fills the first `numMetrics` entries. The array of the struct grew with the releases: the caller's may be shorter or
/// longer than that of the bindings, so only as many entries as asked for are touched.
fn metrics(request: *mut nvmlGpmMetricsGet_t) -> Done {
    if request.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: not null, hence the caller's struct; only its fixed head is read.
    let (version, count, first, second) =
        unsafe { ((*request).version, (*request).numMetrics, (*request).sample1, (*request).sample2) };
    if version != NVML_GPM_METRICS_GET_VERSION {
        return Err(Code::ARGUMENT_VERSION_MISMATCH);
    }
    let library = current()?;
    let sample = |handle| library.gpm.with(handle, |sample| sample.clone())?.ok_or(Code::INVALID_ARGUMENT);
    let (first, second) = (sample(first)?, sample(second)?);
    if (first.gpu, first.instance) != (second.gpu, second.instance) {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: as above; the address of the array is computed, nothing is read.
    let entries = unsafe { (&raw mut (*request).metrics).cast::<nvmlGpmMetric_t>() };
    (0..count as usize).try_for_each(|i| fill(&Ptr(entries.wrapping_add(i)), &first, &second))
}

fn fill(entry: &Ptr<nvmlGpmMetric_t>, first: &Sample, second: &Sample) -> Done {
    let mut metric = entry.get()?;
    if let Some(value) = second.given.get(&metric.metricId) {
        (metric.nvmlReturn, metric.value) = (nvmlReturn_enum_NVML_SUCCESS, *value);
        return entry.set(metric);
    }
    let known = gpm::find(metric.metricId);
    let known = known.and_then(|known| Ok((known, known.value(first, second)?)));
    match known {
        Ok((known, value)) => {
            metric.nvmlReturn = nvmlReturn_enum_NVML_SUCCESS;
            metric.value = value;
            metric.metricInfo = nvmlGpmMetric_t__bindgen_ty_1 {
                shortName: known.name.as_ptr().cast_mut(),
                longName: known.name.as_ptr().cast_mut(),
                unit: known.unit().as_ptr().cast_mut(),
            };
        }
        Err(code) => metric.nvmlReturn = code.0,
    }
    entry.set(metric)
}
