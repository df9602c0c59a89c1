//! A PCI function's configuration space, as sysfs gives it: Access Control Services (PCI Express Base Specification, "ACS
//! Extended Capability").

/// Where extended capabilities begin.
const EXTENDED: usize = 0x100;

/// Bytes of the whole configuration space.
pub const LENGTH: u64 = 4096;

/// What a plain user is shown of it, and of a CardBus bridge (drivers/pci/pci-sysfs.c, pci_read_config).
const SHOWN: [usize; 2] = [64, 128];

/// Where the address of the first capability is.
const FIRST: usize = 0x34;

/// Number of the capability that PCI Express functions have.
const EXPRESS: u8 = 0x10;

/// Most capabilities that fit: each has a header of 4 bytes, and 4 at least behind it.
const MOST: usize = (4096 - EXTENDED) / 8;

/// Number of the capability.
const ACS: u32 = 0x000d;

/// Bits of its control register: requests, and completions, between two devices are sent up to the root complex.
const REDIRECTS: [(u16, &str); 2] = [(1 << 2, "requests"), (1 << 3, "completions")];

/// Access control of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessControl {
    /// It has none.
    Absent,
    /// The part that says so was not shown to this process.
    Hidden,
    /// The machine gives the kernel no way to the part that says so: PCI Express without ECAM.
    OutOfReach,
    /// The control register.
    Control(u16),
}

impl AccessControl {
    /// Reads it out of the configuration space.
    #[must_use]
    pub fn of(config: &[u8]) -> Self {
        if SHOWN.contains(&config.len()) {
            return Self::Hidden;
        }
        if config.len() <= EXTENDED && is_express(config) {
            return Self::OutOfReach;
        }
        let mut at = EXTENDED;
        for _ in 0..MOST {
            match word(config, at) {
                None | Some(0 | u32::MAX) => break,
                Some(head) if head & 0xffff == ACS => {
                    // The upper half of the word behind the header.
                    return word(config, at + 4).map_or(Self::Absent, |word| Self::Control((word >> 16) as u16));
                }
                Some(head) => at = (head >> 20) as usize & 0xffc,
            }
            if at < EXTENDED {
                break;
            }
        }
        Self::Absent
    }

    /// What of the traffic between two devices it sends up to the root complex.
    #[must_use]
    pub fn redirects(self) -> Vec<&'static str> {
        let Self::Control(control) = self else { return Vec::new() };
        REDIRECTS.into_iter().filter(|(bit, _)| control & bit != 0).map(|(_, what)| what).collect()
    }
}

/// Does the list of capabilities have PCI Express? A function without it has no extended capabilities.
fn is_express(config: &[u8]) -> bool {
    let mut at = config.get(FIRST).copied().unwrap_or_default() & 0xfc;
    for _ in 0..EXTENDED / 4 {
        match config.get(usize::from(at)..usize::from(at) + 2) {
            Some([EXPRESS, _]) => return true,
            Some([_, next]) if at != 0 => at = next & 0xfc,
            _ => return false,
        }
    }
    false
}

fn word(config: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(config.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use AccessControl::{Absent, Control, Hidden, OutOfReach};
    use proptest::prelude::*;

    /// A configuration space with these words in it.
    fn config(words: &[(usize, u32)]) -> Vec<u8> {
        let mut config = vec![0; 4096];
        for (at, word) in words {
            config[*at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        config
    }

    #[test]
    fn the_capability_is_found_behind_others() {
        let behind = config(&[(0x100, 0x1402_0001), (0x140, 0x0001_000d), (0x144, 0x000c_005f)]);
        assert_eq!(AccessControl::of(&behind), Control(0x0c));
        assert_eq!(AccessControl::of(&config(&[(0x100, 0x0001_000d), (0x104, 0x001d_005f)])), Control(0x1d));
    }

    #[test]
    fn what_is_not_shown_is_not_absent() {
        assert_eq!([64, 128].map(|length| AccessControl::of(&vec![0; length])), [Hidden; 2]);
        let old = |bytes: &[(usize, u8)]| {
            let mut config = [0; 256];
            bytes.iter().for_each(|(at, byte)| config[*at] = *byte);
            AccessControl::of(&config)
        };
        assert_eq!(old(&[]), Absent, "no PCI Express");
        let power = [(0x34, 0x40), (0x40, 0x01), (0x41, 0x60)];
        assert_eq!(old(&power), Absent, "a capability, and no PCI Express");
        assert_eq!(old(&[&power[..], &[(0x60, 0x10)]].concat()), OutOfReach, "PCI Express without ECAM");
        assert_eq!(old(&[(0x34, 0x40), (0x41, 0x40)]), Absent, "a list that leads back to its begin");
        assert_eq!(AccessControl::of(&config(&[(0x100, u32::MAX)])), Absent, "no device answers");
        assert_eq!(AccessControl::of(&config(&[(0x100, 0x1402_0001)])), Absent);
        // A list that leads back to its begin ends.
        assert_eq!(AccessControl::of(&config(&[(0x100, 0x1402_0001), (0x140, 0x1002_0003)])), Absent);
    }

    #[test]
    fn redirected_traffic() {
        assert_eq!(Control(0x1d).redirects(), ["requests", "completions"]);
        assert_eq!((Control(0x08).redirects(), Control(0x53).redirects()), (vec!["completions"], vec![]));
        assert!(Absent.redirects().is_empty() && Hidden.redirects().is_empty());
    }

    proptest! {
        #[test]
        fn never_panics(config in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = AccessControl::of(&config).redirects();
        }
    }
}
