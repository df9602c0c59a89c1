//! `pci`: the GPUs that are on the bus, whether or not the driver lists them, and the NICs near them.

pub(crate) mod nearest;

use std::collections::BTreeMap;

use super::irq::device::{Class, class};
use super::*;
use goodput_catalog::gpu::PCI_DEVICES;

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Pci>(
    "pci",
    "NVIDIA GPUs on the PCI bus by kernel driver, and the NICs nearest to each; one folder and one link per GPU, and 2 files per GPU and NIC every 5 minutes.",
    1,
);

/// Lists `/sys/bus/pci/devices`.
#[derive(Default)]
pub struct Pci {
    /// What is known of each, by address: what a device is does not change while it is there.
    devices: BTreeMap<String, Option<Class>>,
    nearest: nearest::Rows,
}

impl Collector for Pci {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let folder = context.roots.sys.join("bus/pci/devices");
        let Some(names) = files::list(&folder)? else {
            return Ok(Done::NotApplicable("no /sys/bus/pci: a machine without PCI".to_owned()));
        };
        let mut before = std::mem::take(&mut self.devices);
        let mut has_changed = before.len() != names.len();
        let mut by_driver = BTreeMap::<String, u32>::new();
        for name in names {
            let path = folder.join(&name);
            // What cannot be read is no fact: it is asked again at the next scrape.
            let known = before.remove(&name);
            has_changed |= known.is_none();
            let Some(class) = known.or_else(|| class(&path)) else { continue };
            if class == Some(Class::Gpu) {
                *by_driver.entry(files::target(&path.join("driver")).unwrap_or_default()).or_default() += 1;
            }
            self.devices.insert(name, class);
        }
        if by_driver.is_empty() {
            return Ok(Done::NotApplicable("no NVIDIA GPU on the PCI bus".to_owned()));
        }
        for (driver, count) in by_driver {
            out.push(&PCI_DEVICES, &[&driver], f64::from(count));
        }
        self.nearest.push(context, has_changed, out);
        Ok(Done::Ok)
    }
}
