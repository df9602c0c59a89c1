//! One spelling for PCI addresses.

use std::fmt;

/// Where a function sits on PCI; printed as sysfs names it, `0000:9b:00.0`, with at least four digits of domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl Address {
    /// An address as NVML (`00000000:9B:00.0`) or the kernel (`0000:9b:00.0`) prints it; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (domain, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        Some(Self {
            domain: hex(domain, 8)?,
            bus: hex(bus, 2)?.try_into().ok()?,
            device: hex(device, 2)?.try_into().ok()?,
            function: hex(function, 1)?.try_into().ok()?,
        })
    }

    /// The function behind a message-signalled interrupt by its number within the PCI interrupt chip: 11 bits of
    /// vector, 3 of function, 5 of device, 8 of bus, then the domain (`pci_msi_domain_calc_hwirq` in
    /// drivers/pci/msi/irqdomain.c).
    #[must_use]
    pub fn of_msi(number: u64) -> Option<Self> {
        let bits = |shift: u32, mask: u8| (number >> shift) as u8 & mask;
        Some(Self {
            domain: u32::try_from(number >> 27).ok()?,
            bus: bits(19, 0xff),
            device: bits(14, 0x1f),
            function: bits(11, 0x7),
        })
    }
}

impl Address {
    /// As NVML and dcgm-exporter spell it: `00000000:9B:00.0`.
    #[must_use]
    pub fn nvml_name(&self) -> String {
        let Self { domain, bus, device, function } = self;
        format!("{domain:08X}:{bus:02X}:{device:02X}.{function:X}")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

/// The name of a PCI device in sysfs for an address as NVML prints it; `None` for anything that is no address.
#[must_use]
pub fn sysfs_name(address: &str) -> Option<String> {
    Address::parse(address).map(|address| address.to_string())
}

fn hex(digits: &str, most: usize) -> Option<u32> {
    let plain = !digits.is_empty() && digits.len() <= most && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spellings() {
        for (address, name) in [
            ("00000000:9B:00.0", Some("0000:9b:00.0")),
            ("0000:9b:00.0", Some("0000:9b:00.0")),
            ("00000035:04:00.0", Some("0035:04:00.0")),
            ("00010000:81:1F.7", Some("10000:81:1f.7")),
            ("9b:00.0", None),
            ("0000:9b:00", None),
            ("../../etc", None),
            ("", None),
        ] {
            assert_eq!(sysfs_name(address).as_deref(), name, "{address}");
        }
        assert_eq!(Address::parse("0000:9b:00.0").unwrap().nvml_name(), "00000000:9B:00.0");
    }

    #[test]
    fn interrupt_numbers() {
        for (number, name) in [
            (13_631_488, "0000:1a:00.0"),
            (458_752, "0000:00:1c.0"),
            (15_210_496, "0000:1d:00.3"),
            (81_921, "0000:00:05.0"),
            ((9 << 27) + (1 << 19), "0009:01:00.0"),
        ] {
            assert_eq!(Address::of_msi(number).map(|a| a.to_string()).as_deref(), Some(name), "{number}");
        }
        assert_eq!(Address::of_msi(u64::MAX), None);
    }

    proptest! {
        #[test]
        fn never_panics_and_never_leaves_the_folder(address in "\\PC*", number: u64) {
            prop_assert!(sysfs_name(&address).is_none_or(|name| !name.contains('/')));
            let _ = Address::of_msi(number);
        }
    }
}
