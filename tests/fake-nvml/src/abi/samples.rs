//! Ring buffers and field values.

use super::{Ptr, gpu_calls, number};
use crate::code::{Code, Done};
use crate::field::{self, Value};
use crate::view::View;
use crate::work::{Channel, Grid};
use nvml_wrapper_sys::bindings::*;
use std::os::raw::{c_int, c_longlong, c_uint, c_ulonglong};

gpu_calls! {
    nvmlDeviceGetSamples(
        kind: nvmlSamplingType_t,
        seen_us: c_ulonglong,
        value_type: Ptr<nvmlValueType_t>,
        count: Ptr<c_uint>,
        samples: Ptr<nvmlSample_t>
    ) |view| {
        let (grid, read) = buffer(&view, kind)?;
        if UTILIZATION.contains(&kind) {
            view.whole()?;
        }
        value_type.set(nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT)?;
        let room = count.get()? as usize;
        if samples.0.is_null() {
            return count.set(grid.depth as c_uint);
        }
        let epoch_us = view.node.sample_epoch_us;
        let dry = view.node.dry_when_idle && kind != nvmlSamplingType_enum_NVML_TOTAL_POWER_SAMPLES;
        let kept = |end: &u64| !dry || view.utilization_at(Channel::Gpu, *end) > 0;
        let ends = grid.since(seen_us.saturating_add(epoch_us), view.now_us).filter(kept).take(room);
        let ends: Vec<_> = ends.collect();
        if ends.is_empty() {
            return Err(Code::NOT_FOUND);
        }
        count.set(ends.len() as c_uint)?;
        let sample = |end: u64| nvmlSample_t {
            timeStamp: end.saturating_sub(epoch_us),
            sampleValue: nvmlValue_t { uiVal: read(&view, end) },
        };
        samples.fill(ends.into_iter().map(sample))
    };

    nvmlDeviceGetFieldValues(count: c_int, values: Ptr<nvmlFieldValue_t>) |view| {
        if values.0.is_null() || count < 1 {
            return Err(Code::INVALID_ARGUMENT);
        }
        (0..count as usize).try_for_each(|i| fill_field(&view, &Ptr(values.0.wrapping_add(i))))
    };
}

/// The buffers that a GPU which is cut up does not have.
const UTILIZATION: [nvmlSamplingType_t; 4] = [
    nvmlSamplingType_enum_NVML_GPU_UTILIZATION_SAMPLES,
    nvmlSamplingType_enum_NVML_MEMORY_UTILIZATION_SAMPLES,
    nvmlSamplingType_enum_NVML_ENC_UTILIZATION_SAMPLES,
    nvmlSamplingType_enum_NVML_DEC_UTILIZATION_SAMPLES,
];

type Read = fn(&View, u64) -> u32;

/// The buffer of that kind and how a sample of it is read.
fn buffer(view: &View, kind: nvmlSamplingType_t) -> Result<(Grid, Read), Code> {
    let utilization = view.node.utilization;
    Ok(match kind {
        nvmlSamplingType_enum_NVML_TOTAL_POWER_SAMPLES => (view.node.power, |view, end| view.power_at_mw(end)),
        nvmlSamplingType_enum_NVML_GPU_UTILIZATION_SAMPLES => {
            (utilization, |view, end| view.utilization_at(Channel::Gpu, end))
        }
        nvmlSamplingType_enum_NVML_MEMORY_UTILIZATION_SAMPLES => {
            (utilization, |view, end| view.utilization_at(Channel::Memory, end))
        }
        nvmlSamplingType_enum_NVML_ENC_UTILIZATION_SAMPLES => {
            (utilization, |view, end| view.utilization_at(Channel::Encoder, end))
        }
        nvmlSamplingType_enum_NVML_DEC_UTILIZATION_SAMPLES => {
            (utilization, |view, end| view.utilization_at(Channel::Decoder, end))
        }
        nvmlSamplingType_enum_NVML_PROCESSOR_CLK_SAMPLES => (utilization, |view, end| view.at(end).sm_clock_mhz()),
        nvmlSamplingType_enum_NVML_MEMORY_CLK_SAMPLES => (utilization, |view, end| view.at(end).memory_clock_mhz()),
        kind if kind < nvmlSamplingType_enum_NVML_SAMPLINGTYPE_COUNT => return Err(Code::NOT_SUPPORTED),
        _ => return Err(Code::INVALID_ARGUMENT),
    })
}

/// Fills one entry: an entry that fails says so itself and the call goes on.
fn fill_field(view: &View, entry: &Ptr<nvmlFieldValue_t>) -> Done {
    let asked = entry.get()?;
    let value = field::read(view, asked.fieldId, asked.scopeId);
    let (valueType, written) = match value {
        Ok(Value::UnsignedInt(value)) => {
            (nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT, nvmlValue_t { uiVal: value })
        }
        Ok(Value::SignedInt(value)) => (nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT, nvmlValue_t { siVal: value }),
        Ok(Value::UnsignedLongLong(value)) => {
            (nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, nvmlValue_t { ullVal: value })
        }
        Err(_) => (asked.valueType, asked.value),
    };
    entry.set(nvmlFieldValue_t {
        timestamp: view.now_us as c_longlong,
        latencyUsec: 0,
        valueType,
        nvmlReturn: number(value.map(drop)),
        value: written,
        ..asked
    })
}
