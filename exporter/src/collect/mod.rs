//! One file per collector: reads its sources, parses, and pushes samples of its own catalog rows. Each uses what is
//! imported here.

pub mod cgroup;
pub mod cpu;
pub mod driver;
pub mod ethtool;
pub mod gds;
pub mod gpu;
pub mod irq;
pub mod kubelet;
pub mod lustre;
pub mod memory;
mod monotone;
pub mod nccl;
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

use std::time::Duration;

use crate::context::Context;
use crate::source::files::{self, FileError, Roots};
use goodput_catalog::Metric;
use goodput_exposition::Families;

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

/// The label of a NUMA node; one that is not known makes none.
fn node_label(node: Option<u32>) -> String {
    node.map(|node| node.to_string()).unwrap_or_default()
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

impl Entry {
    /// One that is on, and may take this many seconds.
    pub(crate) const fn new<C: Collector + Default + 'static>(
        name: &'static str,
        about: &'static str,
        seconds: u64,
    ) -> Self {
        Self { name, about, default: true, deadline: Duration::from_secs(seconds), new: || Box::<C>::default() }
    }
}
