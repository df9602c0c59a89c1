//! GPUs as the PCI bus has them.

use goodput_exporter::audit::Status;

use super::{Case, Odd, case};

/// The sound device of a GPU.
pub(super) const TUNED: &[(&str, &str)] = &[
    ("sys/bus/pci/devices/0000:5e:00.1/class", "0x040300\n"),
    ("sys/bus/pci/devices/0000:5e:00.1/vendor", "0x10de\n"),
];

pub(super) const WRONG: &[Case] = &[case(
    "gpu_count",
    "sys/bus/pci/devices/0000:5e:00.1/class",
    "0x030200\n",
    Status::Fail,
    "2 of 3 GPUs",
    "kernel log",
)];

pub(super) const ODD: &[Odd] = &[
    ("gpu_count", "sys/bus/pci", None, Status::NotApplicable),
    ("gpu_count", "sys/bus/pci/devices/0000:5e:00.1/class", Some("vga\n"), Status::Error),
];
