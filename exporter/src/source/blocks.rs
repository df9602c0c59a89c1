//! Block devices that are made of others.

use std::collections::BTreeSet;

use super::common::Common;
use super::files::{self, Roots};
use crate::parse::{ParseError, each_line, number};

/// Drivers whose devices pass on what they are given: device mapper (LVM, encryption, multipath), RAID, and the like.
const DRIVERS: [&str; 6] = ["device-mapper", "md", "mdp", "loop", "bcache", "drbd"];

/// The block devices that are no partitions and no path that another device stands for: the kernel hides the paths to the
/// namespace of an NVMe subsystem, whose traffic is the namespace's.
#[must_use]
pub fn whole(roots: &Roots) -> Option<Vec<String>> {
    let folder = roots.sys.join("block");
    let mut names = files::names(&folder)?;
    // No other driver hides any.
    names.retain(|name| {
        !name.starts_with("nvme") || files::get(&folder.join(name).join("hidden"), number::<u8>) != Some(1)
    });
    Some(names)
}

/// The major numbers of such devices.
#[derive(Debug, Default)]
pub struct Stacked(BTreeSet<String>);

impl Stacked {
    /// Is the device, such as `253:0`, made of others?
    #[must_use]
    pub fn has(&self, device: &str) -> bool {
        device.split_once(':').is_some_and(|(major, _)| self.0.contains(major))
    }
}

/// As the kernel numbers them, by `/proc/devices`.
#[must_use]
pub fn stacked(roots: &Roots, common: &Common) -> Stacked {
    let parse = |text: &str| {
        let (mut majors, mut are_blocks) = (BTreeSet::new(), false);
        let parsed = each_line(text, |number, line| {
            if line.ends_with("devices:") {
                are_blocks = line.starts_with("Block");
                return Ok(());
            }
            let major = line.split_once(' ').filter(|(major, _)| major.bytes().all(|byte| byte.is_ascii_digit()));
            let (major, driver) = major.ok_or_else(|| ParseError::new(number, "a number and a driver", line))?;
            if are_blocks && DRIVERS.contains(&driver.trim()) {
                majors.insert(major.to_owned());
            }
            Ok(())
        });
        parsed.map(|()| majors)
    };
    Stacked(common.get(&roots.proc.join("devices"), parse).unwrap_or_default())
}
