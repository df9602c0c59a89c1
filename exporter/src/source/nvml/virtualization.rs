//! Who the GPU belongs to: the machine itself, or a hypervisor that lends it to this machine.

use nvml_wrapper_sys::bindings as sys;

use super::absent::{Absent, Reading};

goodput_catalog::named! {
    /// What the driver says of virtualization (`nvmlGpuVirtualizationMode_t`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Virtualization {
        /// Bare metal.
        None = "none",
        /// A whole GPU that the hypervisor gave to this virtual machine.
        Passthrough = "passthrough",
        /// A share of a GPU in a virtual machine.
        Vgpu = "vgpu",
        /// A GPU of a hypervisor that cuts it into vGPUs.
        HostVgpu = "host_vgpu",
        /// A GPU of a hypervisor that shares its graphics (vSGA).
        HostVsga = "host_vsga",
    }
}

impl Virtualization {
    /// A mode that no header has is unknown.
    pub(super) fn of(mode: sys::nvmlGpuVirtualizationMode_t) -> Reading<Self> {
        Ok(match mode {
            sys::nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_NONE => Self::None,
            sys::nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH => Self::Passthrough,
            sys::nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_VGPU => Self::Vgpu,
            sys::nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU => Self::HostVgpu,
            sys::nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_HOST_VSGA => Self::HostVsga,
            _ => return Err(Absent::NotSupported),
        })
    }

    /// Does a hypervisor own what lies between this machine and the GPU?
    #[must_use]
    pub fn is_guest(self) -> bool {
        matches!(self, Self::Passthrough | Self::Vgpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_numbered_as_in_the_header() {
        let names = [0, 1, 2, 3, 4].map(|mode| Virtualization::of(mode).map(Virtualization::name));
        assert_eq!(names, [Ok("none"), Ok("passthrough"), Ok("vgpu"), Ok("host_vgpu"), Ok("host_vsga")]);
        assert_eq!(Virtualization::of(5), Err(Absent::NotSupported));
        let guests = [0, 1, 2, 3, 4].map(|mode| Virtualization::of(mode).is_ok_and(Virtualization::is_guest));
        assert_eq!(guests, [false, true, true, false, false]);
    }
}
