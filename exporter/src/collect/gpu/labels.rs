//! Fields that a counters file can turn into constant labels of a GPU, in addition to the texts of the catalog.

use crate::source::nvml::{Gpu, Snapshot};
use goodput_exposition::Constants;

/// A label's value, where the GPU has one.
type Get = fn(&Gpu) -> Option<String>;

static LABELS: &[(&str, Get)] = &[
    ("DCGM_FI_DEV_NAME", |gpu| Some(gpu.model.clone())),
    ("DCGM_FI_DEV_NVML_INDEX", |gpu| Some(gpu.index.to_string())),
    ("DCGM_FI_DEV_PCI_BUSID", |gpu| Some(gpu.pci_bus_id.clone())),
    ("DCGM_FI_DEV_MINOR_NUMBER", |gpu| gpu.minor.map(|minor| minor.to_string()).ok()),
    ("DCGM_FI_DEV_UUID", |gpu| Some(gpu.uuid.clone())),
];

/// Can this field be a label?
pub(crate) fn is_known(field: &str) -> bool {
    LABELS.iter().any(|(name, _)| *name == field)
}

/// The labels that are asked for, of every GPU.
pub(crate) fn constants(snapshot: &Snapshot, wanted: impl Fn(&str) -> bool) -> Constants {
    let asked: Vec<_> = LABELS.iter().filter(|(name, _)| wanted(name)).collect();
    let labels = |gpu: &Gpu| asked.iter().filter_map(|(name, get)| Some((*name, get(gpu)?))).collect();
    match asked.is_empty() {
        true => Constants::new(),
        false => snapshot.gpus.iter().map(|gpu| (gpu.uuid.clone(), labels(gpu))).collect(),
    }
}
