//! The NICs that are nearest to each GPU.

use std::time::{Duration, Instant};

use crate::collect::network;
use crate::context::Context;
use crate::parse::bus_id;
use crate::source::files;
use crate::source::nvml::{Gpu, Virtualization};
use crate::source::pci_path::{PciPath, Slot};
use goodput_catalog::gpu::NEAREST_NIC;
use goodput_exposition::Families;

/// Most NICs of a GPU that are named, of those that are equally near.
const MAX_NICS: usize = 2;

/// What is on the bus is looked up again when that changes, and then: a NIC's driver may come later than its slot.
const EVERY: Duration = Duration::from_secs(300);

/// A NIC with its place.
pub(crate) struct Nic {
    pub(crate) name: String,
    pub(crate) slot: Slot,
}

/// The RDMA devices on the PCI bus, and on a node without any its network interfaces; in the order of their addresses.
pub(crate) fn nics(context: &Context) -> Vec<Nic> {
    let has_one_node = has_one_node(context);
    let mut nics = Vec::new();
    for class in ["class/infiniband", "class/net"] {
        let class = context.roots.sys.join(class);
        for name in files::names(&class).unwrap_or_default() {
            let folder = class.join(&name);
            let slot =
                network::is_physical(&folder).then(|| Slot::read(&folder.join("device"), has_one_node)).flatten();
            nics.extend(slot.map(|slot| Nic { name, slot }));
        }
        if !nics.is_empty() {
            break;
        }
    }
    nics.sort_by(|a, b| (&a.slot.address, &a.name).cmp(&(&b.slot.address, &b.name)));
    nics
}

/// Where the GPU is; `None` where a hypervisor has lent it, because a guest does not see the bus that the GPU is on.
pub(crate) fn slot(context: &Context, gpu: &Gpu) -> Option<Slot> {
    if gpu.virtualization.is_ok_and(Virtualization::is_guest) {
        return None;
    }
    let name = bus_id::sysfs_name(&gpu.pci_bus_id)?;
    Slot::read(&context.roots.sys.join("bus/pci/devices").join(name), has_one_node(context))
}

fn has_one_node(context: &Context) -> bool {
    context.common.nodes(&context.roots).count() == 1
}

/// The nearest NICs and the way to them. `None` where there is none, or where one whose way is not known could be nearer.
pub(crate) fn nearest<'a>(gpu: &Slot, nics: &'a [Nic]) -> Option<(PciPath, Vec<&'a str>)> {
    let paths: Vec<_> = nics.iter().map(|nic| (gpu.path_to(&nic.slot), nic.name.as_str())).collect();
    let least = paths.iter().filter_map(|(path, _)| *path).min()?;
    // One that is not known is behind another host bridge: on this NUMA node or elsewhere.
    if least == PciPath::Sys && paths.iter().any(|(path, _)| path.is_none()) {
        return None;
    }
    Some((least, paths.into_iter().filter(|(path, _)| *path == Some(least)).map(|(_, name)| name).collect()))
}

/// What was found, for the scrapes until something changes.
#[derive(Default)]
pub(super) struct Rows {
    at: Option<Instant>,
    gpus: Vec<(u32, String, String)>,
    rows: Vec<[String; 4]>,
}

impl Rows {
    /// Writes them, looked up again if the bus has changed.
    pub(super) fn push(&mut self, context: &Context, has_changed: bool, out: &mut Families) {
        // The clock of the readings, which may be an injected one.
        let now = context.gpus.at;
        let gpus = context.gpus.gpus.iter().map(|gpu| (gpu.index, gpu.uuid.clone(), gpu.pci_bus_id.clone())).collect();
        let is_fresh = self.at.is_some_and(|then| now.duration_since(then) < EVERY);
        if has_changed || !is_fresh || self.gpus != gpus {
            *self = Self { at: Some(now), gpus, rows: find(context) };
        }
        for [gpu, uuid, device, path] in &self.rows {
            out.push(&NEAREST_NIC, &[gpu, uuid, device, path], 1.0);
        }
    }
}

fn find(context: &Context) -> Vec<[String; 4]> {
    let nics = nics(context);
    let mut rows = Vec::new();
    for gpu in &context.gpus.gpus {
        let Some((path, names)) = slot(context, gpu).and_then(|slot| nearest(&slot, &nics)) else { continue };
        let row = |name: &str| [gpu.index.to_string(), gpu.uuid.clone(), name.to_owned(), path.name().to_owned()];
        rows.extend(names.into_iter().take(MAX_NICS).map(row));
    }
    rows
}
