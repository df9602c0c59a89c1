//! The calls about MIG instances that nvml-wrapper lacks: ids, and a GPM sample that can be refilled.

use super::*;

/// Id of the GPU instance that a MIG device is in.
pub(in super::super) fn gpu_instance_id(device: &Device<'_>) -> Reading<u32> {
    let call = symbol(&device.nvml().lib().nvmlDeviceGetGpuInstanceId)?;
    let mut id = 0;
    // SAFETY: the library writes one number to the place given and does not keep it.
    Absent::check(unsafe { call(handle(device), &raw mut id) })?;
    Ok(id)
}

/// Id of a MIG device's compute instance within its GPU instance.
pub(in super::super) fn compute_instance_id(device: &Device<'_>) -> Reading<u32> {
    let call = symbol(&device.nvml().lib().nvmlDeviceGetComputeInstanceId)?;
    let mut id = 0;
    // SAFETY: as above.
    Absent::check(unsafe { call(handle(device), &raw mut id) })?;
    Ok(id)
}

impl<'nvml> Gpm<'nvml> {
    /// As [`Gpm::sample`], of one GPU instance of the GPU.
    pub(in super::super) fn sample_instance(&mut self, device: &Device<'nvml>, id: u32) -> Reading<()> {
        self.pair(|next| {
            let call = symbol(&next.nvml.lib().nvmlGpmMigSampleGet)?;
            // SAFETY: the sample was allocated by this library and is borrowed exclusively.
            Absent::check(unsafe { call(handle(device), id, next.sample) })
        })
    }
}
