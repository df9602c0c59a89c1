//! Which PCI devices are worth a series, and what is known of their place.

use std::path::Path;

use crate::context::Context;
use crate::parse::bus_id::Address;
use crate::parse::interrupts::Place;
use crate::parse::{hexadecimal, number};
use crate::source::files;

goodput_catalog::named! {
    /// What a device is to a job; the order in which series are made.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum Class {
        Gpu = "gpu",
        Nic = "nic",
        Nvme = "nvme",
        /// Any other storage with a queue per CPU: SCSI (virtio disks are that too), RAID, SAS.
        Storage = "other",
        /// Storage with one queue, such as SATA, and accelerators.
        Other = "other",
    }
}

impl Class {
    /// Drivers of storage with a queue per CPU leave its interrupt to the kernel, which spreads them over all CPUs and
    /// lets no user move them (`irqd_affinity_is_managed` in linux/irq.h): on two sockets half of them are off the
    /// device's node by design. The kernel shows only in debugfs which interrupts are managed, so the class has to
    /// decide.
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
    /// Reads what sysfs says of the device; `None` when it is none of interest. Where sysfs does not have it, as where its link
    /// leads nowhere or its bus is a hypervisor's, an interrupt of it says what it is and where.
    pub(crate) fn read(context: &Context, address: Address, place: Option<&Place>) -> Option<Self> {
        let folder = context.roots.sys.join("bus/pci/devices").join(address.to_string());
        let gpu = context.gpus.gpus.iter().find(|gpu| Address::parse(&gpu.pci_bus_id) == Some(address));
        let class = match (gpu, class(&folder)) {
            (Some(_), _) => Class::Gpu,
            (None, Some(known)) => known?,
            (None, None) => of_action(&place?.action)?,
        };
        // -1 is unknown and no u32.
        let node = files::get(&folder.join("numa_node"), number::<i64>).or_else(|| {
            let irq = context.roots.proc.join("irq").join(place?.interrupt.to_string());
            files::get(&irq.join("node"), number::<i64>)
        });
        let node = node.and_then(|node| node.try_into().ok());
        Some(Self { class, address, node, gpu: gpu.map(|gpu| (gpu.index, gpu.uuid.clone())) })
    }
}

/// By the name that the driver gives its interrupt.
fn of_action(action: &str) -> Option<Class> {
    const NAMES: [(&str, Class); 9] = [
        ("nvidia", Class::Gpu),
        ("nvme", Class::Nvme),
        ("mlx", Class::Nic),
        ("mana", Class::Nic),
        ("bnxt", Class::Nic),
        ("ice", Class::Nic),
        ("i40e", Class::Nic),
        ("eth", Class::Nic),
        ("ena", Class::Nic),
    ];
    NAMES.iter().find(|(name, _)| action.starts_with(name)).map(|(_, class)| *class)
}

/// By the codes of the PCI Code and ID Assignment Specification: base class, then subclass. A display controller is a GPU
/// when it is NVIDIA's; most others are there for a remote console. Nothing where sysfs does not say, and nothing in that for a
/// device that is none of interest.
pub(crate) fn class(folder: &Path) -> Option<Option<Class>> {
    const NVIDIA: u32 = 0x10de;
    let code = files::get(&folder.join("class"), hexadecimal)?;
    Some(match (code >> 16, code >> 8 & 0xff) {
        (0x01, 0x08) => Some(Class::Nvme),
        (0x01, 0x00 | 0x04 | 0x07) => Some(Class::Storage),
        (0x01 | 0x12, _) => Some(Class::Other),
        (0x02, _) => Some(Class::Nic),
        (0x03, _) => {
            let vendor = files::get(&folder.join("vendor"), hexadecimal);
            (vendor == Some(NVIDIA)).then_some(Class::Gpu)
        }
        _ => None,
    })
}
