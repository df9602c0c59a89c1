//! The checks, one file per part of the machine. Each uses what is imported here.

mod acs;
mod allocator;
mod cgroup;
mod clock;
mod cpu;
mod cpu_power;
mod driver;
mod gpu;
mod gpu_health;
mod gpu_modes;
mod gpu_sharing;
mod huge_pages;
mod irq;
mod job_io;
mod job_limits;
mod job_memory;
mod kubelet;
mod memlock;
mod memory;
mod network;
mod nfs;
mod nic_affinity;
mod node;
mod numa;
mod overlay;
mod pci;
mod pfc;
mod pinning;
mod pod_qos;
mod rails;
mod rdma;
mod storage;
mod swap;
mod tcp_buffers;
mod writeback;

use goodput_catalog as catalog;

use super::text::{bytes, count, list, ranges};
use super::{AS_ROOT, Check, Expected, Fix, Grade, Profile, Source, Status, Unread, Verdict, Who, jobs};

/// Every check, in the order in which they are documented.
pub static CHECKS: &[&Check] = &[
    &numa::GPU_NODE,
    &numa::JOB_CPUS,
    &numa::BALANCING,
    &memory::JOB_NODES,
    &memory::ZONE_RECLAIM,
    &memory::PER_NODE,
    &huge_pages::THP_ENABLED,
    &huge_pages::THP_DEFRAG,
    &huge_pages::POOLS,
    &swap::SWAPPINESS,
    &swap::USE,
    &memlock::MEMLOCK,
    &allocator::ALLOCATOR,
    &memory::OVERCOMMIT,
    &memory::PANIC_ON_OOM,
    &memory::KSM,
    &memory::HOST_ECC,
    &memory::POISONED,
    &writeback::DIRTY_LIMITS,
    &storage::READ_AHEAD,
    &storage::SCHEDULER,
    &storage::RAID,
    &storage::NFS,
    &nfs::NCONNECT,
    &overlay::LAYER,
    &cpu::GOVERNOR,
    &cpu::IDLE_STATES,
    &cpu::ISOLATED,
    &pinning::TICKLESS,
    &pinning::SMT,
    &pinning::LOADERS,
    &cpu_power::OFFLINE,
    &cpu_power::TURBO,
    &cpu_power::FREQUENCY,
    &cpu_power::PLATFORM,
    &cpu_power::BIAS,
    &cpu_power::THERMAL,
    &clock::SOURCE,
    &clock::SYNC,
    &irq::AFFINITY,
    &irq::BALANCER,
    &network::NODE,
    &network::LANES,
    &nic_affinity::AFFINITY,
    &network::SPEED,
    &network::MTU,
    &rails::MTU,
    &pfc::PRIORITY,
    &tcp_buffers::BUFFERS,
    &network::PORTS,
    &rdma::COUNTERS,
    &gpu::PERSISTENCE,
    &gpu::PCIE_LINK,
    &pci::IOMMU,
    &acs::ACS,
    &pci::ASPM,
    &gpu_health::COUNT,
    &gpu_health::MODELS,
    &gpu_health::POWER_LIMIT,
    &gpu_health::THROTTLE,
    &gpu_health::ECC_ERRORS,
    &gpu_health::ROW_REMAP,
    &gpu_health::PAGE_RETIREMENT,
    &gpu_health::RECOVERY,
    &gpu_modes::ECC,
    &gpu_modes::MIG,
    &gpu_modes::COMPUTE,
    &gpu_modes::CLOCKS,
    &gpu_sharing::SHARING,
    &driver::MODULES,
    &driver::VERSION,
    &driver::CUDA,
    &driver::RDMA,
    &driver::NOUVEAU,
    &driver::FABRIC,
    &kubelet::CPU,
    &kubelet::MEMORY,
    &kubelet::TOPOLOGY,
    &pod_qos::QOS,
    &cgroup::CPU_QUOTA,
    &cgroup::MEMORY_LIMIT,
    &cgroup::CPUS_PER_GPU,
    &job_memory::HIGH,
    &job_memory::SWAP,
    &job_io::LIMITS,
    &job_limits::PIDS,
    &job_limits::OPEN_FILES,
    &job_limits::SHM,
    &job_limits::OOM_PRIORITY,
    &node::CGROUP_VERSION,
    &node::PSI,
    &node::TAINT,
    &node::PARAMETERS,
    &node::TASKS,
    &node::FILES,
];

const fn kernel(what: &'static str, url: &'static str) -> Source {
    Source { grade: Grade::Kernel, what, url }
}

const fn vendor(what: &'static str, url: &'static str) -> Source {
    Source { grade: Grade::Vendor, what, url }
}

const fn practice(what: &'static str, url: &'static str) -> Source {
    Source { grade: Grade::Practice, what, url }
}

const fn book(what: &'static str) -> Source {
    Source { grade: Grade::Book, what, url: "" }
}

const fn own(what: &'static str) -> Source {
    Source { grade: Grade::Own, what, url: "" }
}

/// Why what is the board's is not judged of a vGPU.
const NOT_OF_A_VGPU: Source = vendor(
    "NVIDIA, Virtual GPU Software Management SDK: properties of the board do not apply to a vGPU, which is not judged",
    "https://docs.nvidia.com/vgpu/latest/grid-management-sdk-user-guide/index.html",
);

/// Why what lies between a GPU and the processor is not judged in a virtual machine.
const NOT_IN_A_GUEST: Source =
    own("not judged where a hypervisor has given every GPU: a virtual machine does not see the bus of its host");

const CGROUP_V2: &str = "https://docs.kernel.org/admin-guide/cgroup-v2.html";
const SYSCTL_VM: &str = "https://docs.kernel.org/admin-guide/sysctl/vm.html";
const SYSCTL_KERNEL: &str = "https://docs.kernel.org/admin-guide/sysctl/kernel.html";
const TUNED_ACCELERATOR: Source = practice(
    "TuneD, profile accelerator-performance",
    "https://github.com/redhat-performance/tuned/blob/master/profiles/accelerator-performance/tuned.conf",
);
