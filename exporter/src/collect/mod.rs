//! One file per collector: reads its sources, parses, and pushes samples of its own catalog rows.

pub mod audit;
pub mod cgroup;
pub mod cpu;
pub mod driver;
pub mod gpu;
pub mod irq;
pub mod kubelet;
pub mod lustre;
pub mod memory;
mod monotone;
pub mod network;
pub mod node;
pub mod numa;
pub mod overlay;
pub mod owner;
pub mod pci;
pub mod placement;
pub mod pressure;
pub mod process;
pub mod relay;
pub mod storage;
pub mod swap;
pub mod thp;

use std::sync::Arc;
use std::time::Duration;

use crate::attribute::Owners;
use crate::catalog::dcgm::{Names, Selection};
use crate::family::Families;
use crate::source::common::Common;
use crate::source::files::{FileError, Roots};
use crate::source::nvml::Snapshot;

/// What a collector may look at during one scrape.
#[derive(Clone)]
pub struct Context {
    /// Where the kernel's files are.
    pub roots: Arc<Roots>,
    /// What several collectors read there.
    pub common: Arc<Common>,
    /// The newest reading of every GPU.
    pub gpus: Arc<Snapshot>,
    /// Which container, pod, job or unit holds which GPU.
    pub owners: Arc<Owners>,
    /// Value of dcgm-exporter's host label.
    pub hostname: Arc<str>,
    /// Which of dcgm-exporter's series are written, and how.
    pub dcgm: Arc<Dcgm>,
}

/// What dcgm-exporter can be told about its series.
#[derive(Clone, Debug)]
pub struct Dcgm {
    /// The spelling of their names.
    pub names: Names,
    /// The fields.
    pub fields: Selection,
    /// What `DCGM_EXP_XID_ERRORS_COUNT` counts over.
    pub xid_window: Duration,
    /// What `DCGM_EXP_CLOCK_EVENTS_COUNT` counts over.
    pub clock_events_window: Duration,
}

/// As dcgm-exporter does if it is told nothing, in its legacy spelling.
impl Default for Dcgm {
    fn default() -> Self {
        let window = Duration::from_secs(300);
        let (names, fields) = (Names::default(), Selection::default());
        Self { names, fields, xid_window: window, clock_events_window: window }
    }
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
    /// Anything else, as a sentence.
    #[error("{0}")]
    Other(String),
}

/// The first failure of parts that have nothing to do with each other: each of them has been read.
fn all(parts: impl IntoIterator<Item = Result<(), FileError>>) -> Result<(), FileError> {
    parts.into_iter().fold(Ok(()), Result::and)
}

/// A source of metric families. It keeps what it needs between scrapes, and fails alone.
pub trait Collector: Send {
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
    node::ENTRY,
    numa::ENTRY,
    irq::ENTRY,
    swap::ENTRY,
    thp::ENTRY,
    pressure::ENTRY,
    owner::ENTRY,
    cgroup::ENTRY,
    audit::ENTRY,
    pci::ENTRY,
    process::ENTRY,
    storage::ENTRY,
    network::ENTRY,
    cpu::ENTRY,
    memory::ENTRY,
    driver::ENTRY,
    kubelet::ENTRY,
    placement::ENTRY,
    lustre::ENTRY,
    overlay::ENTRY,
];
