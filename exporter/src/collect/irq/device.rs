//! Which PCI devices are worth a series, and what is known of their place.

use std::path::Path;

use crate::collect::Context;
use crate::parse::bus_id::Address;
use crate::parse::{hexadecimal, number};
use crate::source::files::{self, FileError};

/// What a device is to a job; the order in which series are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Gpu,
    Nic,
    Nvme,
    /// Any other storage with a queue per CPU: SCSI (virtio disks are that too), RAID, SAS.
    Storage,
    /// Storage with one queue, such as SATA, and accelerators.
    Other,
}

impl Class {
    /// Value of the `class` label.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Class::Gpu => "gpu",
            Class::Nic => "nic",
            Class::Nvme => "nvme",
            Class::Storage | Class::Other => "other",
        }
    }

    /// Drivers of storage with a queue per CPU leave its interrupt to the kernel, which spreads them over all CPUs and
    /// lets nobody move them (`irqd_affinity_is_managed` in linux/irq.h): on two sockets half of them are off the device's
    /// node by design. The kernel does not show outside debugfs which interrupts are managed, so the class has to tell.
    pub(crate) fn is_managed(self) -> bool {
        matches!(self, Class::Nvme | Class::Storage)
    }
}

/// A device of interest.
pub(crate) struct Device {
    pub(crate) class: Class,
    pub(crate) address: Address,
    /// Its NUMA node; `None` when the firmware does not say.
    pub(crate) node: Option<u32>,
    /// NVML index and UUID.
    pub(crate) gpu: Option<(u32, String)>,
}

impl Device {
    /// Reads what sysfs says of the device; `None` when it is none of interest.
    pub(crate) fn read(context: &Context, address: Address) -> Result<Option<Self>, FileError> {
        let folder = context.roots.sys.join("bus/pci/devices").join(address.to_string());
        let gpu = context.gpus.gpus.iter().find(|gpu| Address::parse(&gpu.pci_bus_id) == Some(address));
        let class = if gpu.is_some() { Some(Class::Gpu) } else { class(&folder)? };
        let Some(class) = class else { return Ok(None) };
        // -1 is unknown and no u32.
        let node = files::parse_optional(&folder.join("numa_node"), number::<i64>)?.and_then(|n| n.try_into().ok());
        Ok(Some(Self { class, address, node, gpu: gpu.map(|gpu| (gpu.index, gpu.uuid.clone())) }))
    }
}

/// By the codes of the PCI Code and ID Assignment Specification: base class, then subclass. A display controller is a GPU
/// when it is NVIDIA's; most others are there for a remote console.
pub(crate) fn class(folder: &Path) -> Result<Option<Class>, FileError> {
    const NVIDIA: u32 = 0x10de;
    let Some(code) = files::parse_optional(&folder.join("class"), hexadecimal)? else { return Ok(None) };
    Ok(match (code >> 16, code >> 8 & 0xff) {
        (0x01, 0x08) => Some(Class::Nvme),
        (0x01, 0x00 | 0x04 | 0x07) => Some(Class::Storage),
        (0x01 | 0x12, _) => Some(Class::Other),
        (0x02, _) => Some(Class::Nic),
        (0x03, _) => {
            let vendor = files::parse_optional(&folder.join("vendor"), hexadecimal)?;
            (vendor == Some(NVIDIA)).then_some(Class::Gpu)
        }
        _ => None,
    })
}
