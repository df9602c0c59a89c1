//! What lies between two PCI devices, by the paths that sysfs gives them.

use std::path::{Component, Path};

use super::files;
use crate::parse::bus_id::Address;
use crate::parse::number;

goodput_catalog::named! {
    /// What data between two devices passes, in NCCL's words, the shortest way first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum PciPath {
        /// One PCIe switch at most.
        Pix = "pix",
        /// Several PCIe switches, and no processor.
        Pxb = "pxb",
        /// The host bridge of a processor.
        Phb = "phb",
        /// Two host bridges of one NUMA node.
        Node = "node",
        /// The interconnect between NUMA nodes.
        Sys = "sys",
    }
}

/// Where a device sits on the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The device's own address.
    pub(crate) address: String,
    /// As in `pci0000:15`.
    host_bridge: String,
    /// Addresses of the bridges between the host bridge and the device, from above: root port, then a switch's ports.
    bridges: Vec<String>,
    /// `None` where the firmware does not say.
    node: Option<u32>,
}

impl Slot {
    /// Reads where the folder of a device, or a link to it, leads to. On a machine of one NUMA node every device is on that
    /// one, whatever the firmware says.
    pub(crate) fn read(folder: &Path, has_one_node: bool) -> Option<Self> {
        let node = match has_one_node {
            true => Some(0),
            false => files::get(&folder.join("numa_node"), number::<i64>).and_then(|node| node.try_into().ok()),
        };
        Self::of(&files::real(folder)?, node)
    }

    /// `.../pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0` is a device below one switch.
    fn of(path: &Path, node: Option<u32>) -> Option<Self> {
        let parts: Vec<&str> = path.components().filter_map(name).collect();
        let at = parts.iter().rposition(|part| is_host_bridge(part))?;
        // What lies below the device, such as virtio's own, has no PCI address.
        let is_address = |part: &&&str| Address::parse(part).is_some();
        let addresses: Vec<&str> = parts.get(at + 1..)?.iter().take_while(is_address).copied().collect();
        let (address, bridges) = addresses.split_last()?;
        let bridges = bridges.iter().map(|bridge| (*bridge).to_owned()).collect();
        Some(Self { address: (*address).to_owned(), host_bridge: parts[at].to_owned(), bridges, node })
    }

    /// Addresses of the ports, one on the way to each of the two, below the last bridge that they share. What one sends to the
    /// other turns there. Without a shared bridge it turns in the processor.
    pub(crate) fn parting<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> {
        let shares_host = self.host_bridge == other.host_bridge;
        let shared = self.shared_bridges(other);
        let ports = [self.bridges.get(shared), other.bridges.get(shared)];
        ports.into_iter().flatten().map(String::as_str).filter(move |_| shares_host && shared > 0)
    }

    fn shared_bridges(&self, other: &Self) -> usize {
        self.bridges.iter().zip(&other.bridges).take_while(|(a, b)| a == b).count()
    }

    /// What lies between the two; `None` where that takes a NUMA node that is not known.
    pub(crate) fn path_to(&self, other: &Self) -> Option<PciPath> {
        if self.host_bridge != other.host_bridge {
            return Some(if self.node? == other.node? { PciPath::Node } else { PciPath::Sys });
        }
        let shared = self.shared_bridges(other);
        // A switch has a port above, which they share, and one below for each.
        let own = self.bridges.len().max(other.bridges.len()) - shared;
        Some(match (shared, own) {
            (0, _) => PciPath::Phb,
            (_, 0 | 1) => PciPath::Pix,
            _ => PciPath::Pxb,
        })
    }
}

fn name(part: Component<'_>) -> Option<&str> {
    part.as_os_str().to_str()
}

/// `pci`, the domain, and the number of the first bus.
fn is_host_bridge(part: &str) -> bool {
    let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let numbers = part.strip_prefix("pci").and_then(|rest| rest.split_once(':'));
    numbers.is_some_and(|(domain, bus)| domain.len() >= 4 && bus.len() == 2 && is_hex(domain) && is_hex(bus))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(path: &str, node: Option<u32>) -> Slot {
        Slot::of(Path::new(path), node).unwrap_or_else(|| panic!("{path}"))
    }

    #[test]
    fn paths() {
        let gpu = slot("/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0", Some(0));
        for (path, node, expected) in [
            // Another port of its switch.
            ("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0", Some(0), Some(PciPath::Pix)),
            // The port of the GPU itself: one card.
            ("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.1", None, Some(PciPath::Pix)),
            // A switch below the switch.
            (
                "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0/0000:1b:00.0/0000:1c:00.0",
                Some(0),
                Some(PciPath::Pxb),
            ),
            // Another root port of the host bridge.
            ("pci0000:15/0000:15:02.0/0000:2a:00.0", Some(1), Some(PciPath::Phb)),
            ("pci0000:37/0000:37:01.0/0000:38:00.0", Some(0), Some(PciPath::Node)),
            ("pci0000:97/0000:97:01.0/0000:98:00.0", Some(1), Some(PciPath::Sys)),
            ("pci0000:97/0000:97:01.0/0000:98:00.0", None, None),
            ("pci0000:37/0000:37:01.0/0000:38:00.0/virtio0", Some(0), Some(PciPath::Node)),
            // A bus of Hyper-V.
            ("LNXSYSTM:00/VMBUS:00/47505500/pci0101:00/0101:00:00.0", Some(0), Some(PciPath::Node)),
        ] {
            let other = slot(&format!("/sys/devices/{path}"), node);
            assert_eq!((gpu.path_to(&other), other.path_to(&gpu)), (expected, expected), "{path}");
        }
    }

    #[test]
    fn ways_part_at_the_ports_of_a_shared_switch() {
        let gpu = slot("/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0", Some(0));
        for (path, expected) in [
            ("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0", &["0000:17:01.0", "0000:17:02.0"][..]),
            (
                "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0/0000:1b:00.0/0000:1c:00.0",
                &["0000:17:01.0", "0000:17:02.0"],
            ),
            // The port of the GPU itself: one card.
            ("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.1", &[]),
            ("pci0000:15/0000:15:02.0/0000:2a:00.0", &[]),
            ("pci0000:16/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0", &[]),
        ] {
            let other = slot(&format!("/sys/devices/{path}"), Some(0));
            assert_eq!(gpu.parting(&other).collect::<Vec<_>>(), expected, "{path}");
        }
    }

    #[test]
    fn what_is_on_no_pci_bus_has_no_slot() {
        for path in
            ["/sys/devices/virtual/net/lo", "/sys/devices/pci0000:00", "/sys/devices/pci0000:0/0000:00:01.0", "/"]
        {
            assert_eq!(Slot::of(Path::new(path), Some(0)), None, "{path}");
        }
    }
}
