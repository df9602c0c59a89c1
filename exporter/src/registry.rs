//! The list of collectors.

use crate::audit;
use crate::collect::*;

/// Every collector.
pub static REGISTRY: &[Entry] = &[
    gpu::ENTRY,
    node::ENTRY,
    numa::ENTRY,
    irq::ENTRY,
    swap::ENTRY,
    thp::ENTRY,
    pressure::ENTRY,
    owner::ENTRY,
    cgroup::ENTRY,
    audit::collector::ENTRY,
    pci::ENTRY,
    process::ENTRY,
    storage::ENTRY,
    network::ENTRY,
    cpu::ENTRY,
    memory::ENTRY,
    driver::ENTRY,
    ethtool::ENTRY,
    nccl::ENTRY,
    kubelet::ENTRY,
    placement::ENTRY,
    lustre::ENTRY,
    gds::ENTRY,
    overlay::ENTRY,
];
