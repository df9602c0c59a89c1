//! One spelling for PCI addresses.

/// The name of a PCI device in sysfs (`0000:9b:00.0`) for an address as NVML prints it (`00000000:9B:00.0`); `None` for
/// anything else. sysfs prints the domain with at least four digits.
#[must_use]
pub fn sysfs_name(address: &str) -> Option<String> {
    let (domain, rest) = address.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let domain = hex(domain, 8)?;
    let (bus, device, function) = (hex(bus, 2)?, hex(device, 2)?, hex(function, 1)?);
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
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
    }

    proptest! {
        #[test]
        fn never_panics_and_never_leaves_the_folder(address in "\\PC*") {
            prop_assert!(sysfs_name(&address).is_none_or(|name| !name.contains('/')));
        }
    }
}
