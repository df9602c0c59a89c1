//! MIG, and the calls that take the handle of a MIG device as well as that of a GPU.
//!
//! What a device of the recorded H200 and A100 in MIG mode was seen to tell is answered; every other call about one is not
//! supported.

use super::{Ptr, check_version, device_calls, gpu_calls};
use crate::code::Code;
use crate::handle;
use crate::mig::SLICES;
use crate::view::View;
use nvml_wrapper_sys::bindings::*;
use std::os::raw::{c_char, c_uint};

gpu_calls! {
    nvmlDeviceGetMigMode(current: Ptr<c_uint>, pending: Ptr<c_uint>) |view| {
        view.gpu.profile.mig.as_ref().ok_or(Code::NOT_SUPPORTED)?;
        current.set(view.gpu.mig.enabled.into())?;
        pending.set(view.gpu.mig.pending.into())
    };
    nvmlDeviceGetMaxMigDeviceCount(count: Ptr<c_uint>) |view|
        count.set(if view.gpu.profile.mig.is_some() { SLICES } else { 0 });
    nvmlDeviceGetMigDeviceHandleByIndex(index: c_uint, device: Ptr<nvmlDevice_t>) |view| {
        view.gpu.profile.mig.as_ref().ok_or(Code::NOT_SUPPORTED)?;
        if index >= SLICES {
            return Err(Code::INVALID_ARGUMENT);
        }
        let (_, compute) = view.gpu.mig.devices().nth(index as usize).ok_or(Code::NOT_FOUND)?;
        device.set(handle::of_mig_device(compute.serial))
    };
}

device_calls! {
    nvmlDeviceIsMigDeviceHandle(is: Ptr<c_uint>) |view| is.set(view.mig.is_some().into());
    nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device: Ptr<nvmlDevice_t>) |view| {
        view.mig.ok_or(Code::INVALID_ARGUMENT)?;
        device.set(handle::of_gpu(view.gpu.index))
    };
    nvmlDeviceGetGpuInstanceId(id: Ptr<c_uint>) |view| id.set(view.mig.ok_or(Code::NOT_SUPPORTED)?.0.id);
    nvmlDeviceGetComputeInstanceId(id: Ptr<c_uint>) |view| id.set(view.mig.ok_or(Code::NOT_SUPPORTED)?.1.id);
    nvmlDeviceGetAttributes_v2(attributes: Ptr<nvmlDeviceAttributes_t>) |view| {
        let (instance, compute) = view.mig.ok_or(Code::NOT_SUPPORTED)?;
        let per_slice = view.gpu.profile.mig.as_ref().map_or(0, |sizes| sizes.multiprocessors_per_slice);
        attributes.set(nvmlDeviceAttributes_t {
            multiprocessorCount: compute.slices * per_slice,
            sharedCopyEngineCount: instance.slices,
            sharedDecoderCount: instance.slices,
            sharedEncoderCount: 0,
            sharedJpegCount: instance.slices,
            sharedOfaCount: 0,
            gpuInstanceSliceCount: instance.slices,
            computeInstanceSliceCount: compute.slices,
            memorySizeMB: instance.memory_bytes >> 20,
        })
    };

    nvmlDeviceGetName(name: Ptr<c_char>, length: c_uint) |view| name.text(&device_name(&view), length);
    nvmlDeviceGetUUID(uuid: Ptr<c_char>, length: c_uint) |view| uuid.text(&device_uuid(&view), length);
    // Version 1 has no reserved part: it counts as used.
    nvmlDeviceGetMemoryInfo(memory: Ptr<nvmlMemory_t>) |view| {
        let now = view.memory();
        memory.set(nvmlMemory_t { total: now.total, free: now.free, used: now.used + now.reserved })
    };
    nvmlDeviceGetMemoryInfo_v2(memory: Ptr<nvmlMemory_v2_t>) |view| {
        let version = memory.get()?.version;
        check_version::<nvmlMemory_v2_t>(version, 2)?;
        let crate::view::Memory { total, reserved, used, free } = view.memory();
        memory.set(nvmlMemory_v2_t { version, total, reserved, free, used })
    };
}

fn device_name(view: &View) -> String {
    let name = view.gpu.profile.name;
    view.mig.map_or_else(|| name.to_owned(), |(gi, ci)| format!("{name} MIG {}", gi.device_profile(ci)))
}

/// The same for what comes in the place of something: the driver makes it of the GPU's UUID and the ids.
fn device_uuid(view: &View) -> String {
    let of_mig_device = |(gi, ci): (&crate::mig::Instance, &crate::mig::Compute)| {
        format!(
            "MIG-{:08x}-{:04x}-5000-8000-{:012x}",
            view.gpu.profile.pci_id.0 >> 16,
            view.gpu.index,
            gi.id << 8 | ci.id
        )
    };
    view.mig.map_or_else(|| view.gpu.uuid.clone(), of_mig_device)
}
