//! One file per collector: reads its sources, parses, and pushes samples of its own catalog rows.

pub mod audit;
pub mod cgroup;
pub mod gpu;
pub mod irq;
pub mod node;
pub mod numa;
pub mod owner;
pub mod pressure;
pub mod swap;
pub mod thp;

use std::sync::Arc;
use std::time::Duration;

use crate::attribute::Owners;
use crate::family::Families;
use crate::source::files::{FileError, Roots};
use crate::source::nvml::Snapshot;

/// What a collector may look at during one scrape.
#[derive(Clone)]
pub struct Context {
    /// Where the kernel's files are.
    pub roots: Arc<Roots>,
    /// The newest reading of every GPU.
    pub gpus: Arc<Snapshot>,
    /// Which container, pod, job or unit holds which GPU.
    pub owners: Arc<Owners>,
    /// Value of dcgm-exporter's host label.
    pub hostname: Arc<str>,
}

/// How a collector that did not fail ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// It wrote what there is.
    Ok,
    /// This machine has nothing of the kind; the reason is for the operator.
    NotApplicable(String),
}

/// Why a collector failed.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// A kernel file.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A source of metric families. It keeps what it needs between scrapes, and fails alone.
pub trait Collector: Send {
    /// Name in `--collector.NAME` and in the catalog's `collector` column.
    fn name(&self) -> &'static str;

    /// Pushes this moment's samples. What it pushed before an error is kept.
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError>;
}

/// One row per collector: what `--collector.NAME`, the help text and the scrape loop know of it.
pub struct Entry {
    /// Name in `--collector.NAME`.
    pub name: &'static str,
    /// One sentence for `--help`: what it reads, and what that costs if it costs something.
    pub about: &'static str,
    /// Is it on unless switched off?
    pub default: bool,
    /// How long it may take before the scrape goes on without it.
    pub deadline: Duration,
    /// Makes one.
    pub new: fn() -> Box<dyn Collector>,
}

/// Every collector.
pub static REGISTRY: &[Entry] = &[
    gpu::ENTRY,
    Entry {
        name: "node",
        about: "Names, CPU time, memory and disks of the node; 5 small files.",
        default: true,
        deadline: Duration::from_secs(1),
        new: || Box::<node::Node>::default(),
    },
    Entry {
        name: "numa",
        about: "Memory, allocations, distances and balancing of NUMA nodes, the node of each GPU and where its processes may run; 5 files per NUMA node, 2 per GPU, 1 per GPU process.",
        default: true,
        deadline: Duration::from_secs(1),
        new: || Box::<numa::Numa>::default(),
    },
    Entry {
        name: "irq",
        about: "Which NUMA node takes the interrupts of GPUs, NICs and storage, softirqs and softnet; /proc/interrupts, which is megabytes on a large node, and 2 files per PCI device with interrupts.",
        default: true,
        deadline: Duration::from_secs(2),
        new: || Box::<irq::Irq>::default(),
    },
    Entry {
        name: "swap",
        about: "Swapping, swap devices and zswap; 5 small files.",
        default: true,
        deadline: Duration::from_secs(1),
        new: || Box::<swap::Swap>::default(),
    },
    Entry {
        name: "thp",
        about: "Transparent huge pages, compaction and huge page pools; 9 small files, 3 per size of huge page.",
        default: true,
        deadline: Duration::from_secs(1),
        new: || Box::<thp::Thp>::default(),
    },
    Entry {
        name: "pressure",
        about: "Time that the node's tasks waited for CPU, memory and I/O (PSI); 4 files.",
        default: true,
        deadline: Duration::from_secs(1),
        new: || Box::<pressure::Pressure>::default(),
    },
    Entry {
        name: "owner",
        about: "Which container, pod, Slurm job or systemd unit holds which GPU; no files of its own.",
        default: true,
        deadline: Duration::from_secs(1),
        new: || Box::<owner::OwnerInfo>::default(),
    },
    Entry {
        name: "cgroup",
        about: "CPU, memory, I/O and pressure of the cgroups that hold GPU processes; about 15 files per owner, at most 64 owners.",
        default: true,
        deadline: Duration::from_secs(2),
        new: || Box::<cgroup::Cgroup>::default(),
    },
    Entry {
        name: "audit",
        about: "How the checks of `goodput-exporter audit` ended, for the profile mixed; run every 5 minutes, about 15 files per CPU.",
        default: true,
        deadline: Duration::from_secs(5),
        new: || Box::<audit::AuditStatus>::default(),
    },
];
