//! Who the GPU belongs to: the machine itself, or a hypervisor that lends it to this machine.

use nvml_wrapper_sys::bindings as sys;

use super::absent::{Absent, Reading};

/// What the driver says of virtualization (`nvmlGpuVirtualizationMode_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Virtualization {
    /// Bare metal.
    None,
    /// A whole GPU that the hypervisor gave to this virtual machine.
    Passthrough,
    /// A share of a GPU in a virtual machine.
    Vgpu,
    /// A GPU of a hypervisor that cuts it into vGPUs.
    HostVgpu,
    /// A GPU of a hypervisor that shares its graphics (vSGA).
    HostVsga,
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

    /// The value of the label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Passthrough => "passthrough",
            Self::Vgpu => "vgpu",
            Self::HostVgpu => "host_vgpu",
            Self::HostVsga => "host_vsga",
        }
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
