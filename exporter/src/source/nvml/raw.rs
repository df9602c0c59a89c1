//! The C boundary: the read-only NVML calls that nvml-wrapper lacks, or on whose way it loses something.
//!
//! * field values: the wrapper has no scope id and fails on two value types;
//! * process lists and sample buffers: one call here, two there;
//! * events: the wrapper drops the set when registration fails, and unknown event types and MIG instances when waiting;
//! * GPM: a sample that can be refilled;
//! * clock event reasons: the name that is not deprecated;
//! * spare rows and the fabric: the wrapper's structs lack what is wanted.
//!
//! Symbols are taken from the `Result` fields of the function table: calling its methods would panic on a driver that
//! lacks one. Everything that holds a pointer of the library borrows the `Nvml` that keeps it loaded.

#![allow(unsafe_code)]

mod mig;
mod processes;

use std::time::Duration;

use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings as sys;

use super::absent::{Absent, Reading};
use super::ring::Sample;
pub(super) use mig::{compute_instance_id, gpu_instance_id};
pub(super) use processes::{Contexts, Layout, processes};

/// Samples asked for at once. Drivers keep about 120 per GPU.
const SAMPLES: usize = 512;

/// Entries given to `nvmlGpmMetricsGet_t`. `NVML_GPM_METRIC_MAX` grew over the releases, from 98 to 477 in that of
/// driver 615; a driver may look at any entry of its own header's array.
const GPM_ENTRIES: usize = 512;

pub(super) fn symbol<T: Copy, E>(loaded: &Result<T, E>) -> Reading<T> {
    loaded.as_ref().copied().map_err(|_| Absent::NotSupported)
}

pub(super) fn handle(device: &Device<'_>) -> sys::nvmlDevice_t {
    // SAFETY: the handle only goes into calls of the library that gave it, while `device` borrows that library.
    unsafe { device.handle() }
}

/// Longest text that NVML gives, with its end (`NVML_DEVICE_NAME_V2_BUFFER_SIZE`, `NVML_DEVICE_UUID_V2_BUFFER_SIZE`).
const TEXT: usize = 96;

/// A call that writes a text.
type TextCall = unsafe extern "C" fn(sys::nvmlDevice_t, *mut std::os::raw::c_char, u32) -> sys::nvmlReturn_t;

/// Marketing name. Bytes that are not UTF-8 are replaced, where the wrapper gives up.
pub(super) fn name(device: &Device<'_>) -> Reading<String> {
    text(device, symbol(&device.nvml().lib().nvmlDeviceGetName)?)
}

/// `GPU-…`. Bytes that are not UTF-8 are replaced here too.
pub(super) fn uuid(device: &Device<'_>) -> Reading<String> {
    text(device, symbol(&device.nvml().lib().nvmlDeviceGetUUID)?)
}

fn text(device: &Device<'_>, call: TextCall) -> Reading<String> {
    let mut buffer = [0 as std::os::raw::c_char; TEXT];
    // SAFETY: the buffer has as many bytes as the call says.
    Absent::check(unsafe { call(handle(device), buffer.as_mut_ptr(), TEXT as u32) })?;
    let bytes: Vec<u8> = buffer.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    if bytes.is_empty() { Err(Absent::NotSupported) } else { Ok(String::from_utf8_lossy(&bytes).into_owned()) }
}

/// Reads many fields, given by id and scope id, in one call; the answer has one reading per field, in order.
pub(super) fn field_values(device: &Device<'_>, fields: &[(u32, u32)]) -> Reading<Vec<Reading<f64>>> {
    let call = symbol(&device.nvml().lib().nvmlDeviceGetFieldValues)?;
    let mut values: Vec<_> = fields
        .iter()
        .map(|(id, scope)| sys::nvmlFieldValue_t {
            fieldId: *id,
            scopeId: *scope,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: sys::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED,
            value: sys::nvmlValue_t { ullVal: 0 },
        })
        .collect();
    let count = i32::try_from(values.len()).map_err(|_| Absent::UNKNOWN)?;
    // SAFETY: `values` has `count` initialised entries, which the library fills in place and does not keep.
    Absent::check(unsafe { call(handle(device), count, values.as_mut_ptr()) })?;
    Ok(values.iter().map(|v| Absent::check(v.nvmlReturn).and_then(|()| number(v.valueType, v.value))).collect())
}

/// A tagged value as a number. Beyond 2^53, which is 104 days of nanoseconds, the lowest bits are rounded, as they are in
/// Prometheus.
fn number(kind: sys::nvmlValueType_t, value: sys::nvmlValue_t) -> Reading<f64> {
    // SAFETY: every member of the union is a plain number and all of its bytes were written, by us and then by the
    // library; the tag says which member it wrote.
    unsafe {
        Ok(match kind {
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE => value.dVal,
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => f64::from(value.uiVal),
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG => value.ulVal as f64,
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => value.ullVal as f64,
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_LONG_LONG => value.sllVal as f64,
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT => f64::from(value.siVal),
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_SHORT => f64::from(value.usVal),
            _ => return Err(Absent::UNKNOWN),
        })
    }
}

/// Which of the driver's rings of samples.
#[derive(Clone, Copy)]
pub(super) enum Samples {
    /// Percent.
    Utilization,
    /// Milliwatts.
    Power,
}

/// The samples of a ring newer than `last_seen` (µs; 0 for all it has), oldest first.
pub(super) fn samples(device: &Device<'_>, ring: Samples, last_seen: u64) -> Reading<Vec<Sample>> {
    let call = symbol(&device.nvml().lib().nvmlDeviceGetSamples)?;
    let what = match ring {
        Samples::Utilization => sys::nvmlSamplingType_enum_NVML_GPU_UTILIZATION_SAMPLES,
        Samples::Power => sys::nvmlSamplingType_enum_NVML_TOTAL_POWER_SAMPLES,
    };
    let empty = sys::nvmlSample_t { timeStamp: 0, sampleValue: sys::nvmlValue_t { ullVal: 0 } };
    let mut samples = vec![empty; SAMPLES];
    let (mut kind, mut count) = (0, SAMPLES as u32);
    // SAFETY: `samples` has `count` initialised entries; the library fills at most that many and sets `count` and
    // `kind`.
    let code = unsafe { call(handle(device), what, last_seen, &raw mut kind, &raw mut count, samples.as_mut_ptr()) };
    if code == sys::nvmlReturn_enum_NVML_ERROR_NOT_FOUND {
        return Ok(Vec::new());
    }
    Absent::check(code)?;
    samples.truncate(count as usize);
    let sample = |s: &sys::nvmlSample_t| Ok(Sample { at_us: s.timeStamp, value: number(kind, s.sampleValue)? as u32 });
    samples.iter().map(sample).collect()
}

/// Why the clocks are where they are, as a bit mask; by the old name of the call on older drivers.
pub(super) fn clock_event_reasons(device: &Device<'_>) -> Reading<u64> {
    let lib = device.nvml().lib();
    let call = symbol(&lib.nvmlDeviceGetCurrentClocksEventReasons)
        .or_else(|_| symbol(&lib.nvmlDeviceGetCurrentClocksThrottleReasons))?;
    let mut reasons = 0;
    // SAFETY: the library writes one mask to the place given and does not keep it.
    Absent::check(unsafe { call(handle(device), &raw mut reasons) })?;
    Ok(reasons)
}

/// XID events of all GPUs that are watched.
pub(super) struct Events<'nvml> {
    set: sys::nvmlEventSet_t,
    nvml: &'nvml Nvml,
}

/// Which GPU of one load of the library; good for nothing but comparing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(pub(super) usize);

/// One XID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct XidEvent {
    pub(super) gpu: Key,
    pub(super) code: u64,
    /// The MIG GPU instance it is about.
    pub(super) instance: Option<u32>,
}

impl<'nvml> Events<'nvml> {
    pub(super) fn open(nvml: &'nvml Nvml) -> Reading<Self> {
        let create = symbol(&nvml.lib().nvmlEventSetCreate)?;
        let mut set = std::ptr::null_mut();
        // SAFETY: the library writes one pointer to the place given.
        Absent::check(unsafe { create(&raw mut set) })?;
        Ok(Self { set, nvml })
    }

    /// Has this GPU's XIDs come too. The key is the one that its events will bear.
    pub(super) fn watch(&self, device: &Device<'nvml>) -> Reading<Key> {
        let register = symbol(&self.nvml.lib().nvmlDeviceRegisterEvents)?;
        let kinds = u64::from(sys::nvmlEventTypeXidCriticalError);
        // SAFETY: `set` was created by the library that gave the handle, and lives until `self` is dropped.
        Absent::check(unsafe { register(handle(device), kinds, self.set) })?;
        Ok(Key(handle(device).addr()))
    }

    /// Waits for the next event; nothing when there was none in time, or when it was of another kind.
    pub(super) fn wait(&self, limit: Duration) -> Reading<Option<XidEvent>> {
        let call = symbol(&self.nvml.lib().nvmlEventSetWait_v2)?;
        let milliseconds = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        let mut event = sys::nvmlEventData_t {
            device: std::ptr::null_mut(),
            eventType: 0,
            eventData: 0,
            gpuInstanceId: u32::MAX,
            computeInstanceId: u32::MAX,
        };
        // SAFETY: the set lives until `self` is dropped; the library writes one event to the place given.
        match unsafe { call(self.set, &raw mut event, milliseconds) } {
            sys::nvmlReturn_enum_NVML_ERROR_TIMEOUT => Ok(None),
            code => {
                Absent::check(code)?;
                let is_xid = event.eventType == u64::from(sys::nvmlEventTypeXidCriticalError);
                // All ones stand for no instance.
                let instance = Some(event.gpuInstanceId).filter(|id| *id != u32::MAX);
                Ok(is_xid.then_some(XidEvent { gpu: Key(event.device.addr()), code: event.eventData, instance }))
            }
        }
    }
}

impl Drop for Events<'_> {
    fn drop(&mut self) {
        if let Ok(free) = symbol(&self.nvml.lib().nvmlEventSetFree) {
            // SAFETY: the set came from this library, which `nvml` keeps loaded, and is freed only here.
            unsafe { free(self.set) };
        }
    }
}

/// Pairs of GPM samples of one GPU (Hopper and later).
pub(super) struct Gpm<'nvml> {
    previous: GpmSample<'nvml>,
    next: GpmSample<'nvml>,
}

impl<'nvml> Gpm<'nvml> {
    pub(super) fn open(device: &Device<'nvml>) -> Reading<Self> {
        let query = symbol(&device.nvml().lib().nvmlGpmQueryDeviceSupport)?;
        let mut support = sys::nvmlGpmSupport_t { version: 1, isSupportedDevice: 0 };
        // SAFETY: the library reads the version of the struct and writes its flag.
        Absent::check(unsafe { query(handle(device), &raw mut support) })?;
        if support.isSupportedDevice == 0 {
            return Err(Absent::NotSupported);
        }
        let nvml = device.nvml();
        Ok(Self { previous: GpmSample::alloc(nvml)?, next: GpmSample::alloc(nvml)? })
    }

    /// Takes the second sample of a pair, which is also the first of the next. After a failed one there is no pair: half
    /// of it would average over who knows what.
    pub(super) fn sample(&mut self, device: &Device<'nvml>) -> Reading<()> {
        self.pair(|next| next.take(device))
    }

    fn pair(&mut self, take: impl FnOnce(&mut GpmSample<'nvml>) -> Reading<()>) -> Reading<()> {
        std::mem::swap(&mut self.previous, &mut self.next);
        take(&mut self.next)
    }

    /// The metrics of these ids, averaged over the pair.
    pub(super) fn metrics(&self, ids: &[u32]) -> Reading<Vec<Reading<f64>>> {
        let call = symbol(&self.next.nvml.lib().nvmlGpmMetricsGet)?;
        let mut request = GpmRequest::new(ids, self.previous.sample, self.next.sample);
        // SAFETY: `request` starts with the struct of the header that the bindings were made from, and its array goes
        // on for as many entries as the newest header has; both samples are alive and no other code uses them.
        Absent::check(unsafe { call((&raw mut *request).cast()) })?;
        let answers = request.metrics.iter().take(ids.len());
        Ok(answers.map(|m| Absent::check(m.nvmlReturn).map(|()| m.value)).collect())
    }
}

/// `nvmlGpmMetricsGet_t` with the array of the newest header.
#[repr(C)]
struct GpmRequest {
    version: u32,
    count: u32,
    first: sys::nvmlGpmSample_t,
    second: sys::nvmlGpmSample_t,
    metrics: [sys::nvmlGpmMetric_t; GPM_ENTRIES],
}

impl GpmRequest {
    fn new(ids: &[u32], first: sys::nvmlGpmSample_t, second: sys::nvmlGpmSample_t) -> Box<Self> {
        let null = std::ptr::null_mut();
        let empty = sys::nvmlGpmMetric_t {
            metricId: 0,
            nvmlReturn: sys::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED,
            value: 0.0,
            metricInfo: sys::nvmlGpmMetric_t__bindgen_ty_1 { shortName: null, longName: null, unit: null },
        };
        let mut metrics = [empty; GPM_ENTRIES];
        for (slot, metric) in metrics.iter_mut().zip(ids) {
            slot.metricId = *metric;
        }
        Box::new(Self { version: 1, count: ids.len().min(GPM_ENTRIES) as u32, first, second, metrics })
    }
}

struct GpmSample<'nvml> {
    sample: sys::nvmlGpmSample_t,
    nvml: &'nvml Nvml,
}

// SAFETY: NVML may be called from any thread, and a sample is memory of its own that no other thread uses meanwhile.
unsafe impl Send for GpmSample<'_> {}

impl<'nvml> GpmSample<'nvml> {
    fn alloc(nvml: &'nvml Nvml) -> Reading<Self> {
        let call = symbol(&nvml.lib().nvmlGpmSampleAlloc)?;
        let mut sample = std::ptr::null_mut();
        // SAFETY: the library writes one pointer to the place given.
        Absent::check(unsafe { call(&raw mut sample) })?;
        Ok(Self { sample, nvml })
    }

    fn take(&mut self, device: &Device<'nvml>) -> Reading<()> {
        let call = symbol(&self.nvml.lib().nvmlGpmSampleGet)?;
        // SAFETY: the sample was allocated by this library and is borrowed exclusively.
        Absent::check(unsafe { call(handle(device), self.sample) })
    }
}

impl Drop for GpmSample<'_> {
    fn drop(&mut self) {
        if let Ok(free) = symbol(&self.nvml.lib().nvmlGpmSampleFree) {
            // SAFETY: the sample came from this library, which `nvml` keeps loaded, and is freed only here.
            unsafe { free(self.sample) };
        }
    }
}
