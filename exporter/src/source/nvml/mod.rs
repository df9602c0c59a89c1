//! NVML behind one snapshot: threads own the library, everyone else reads plain values.

use std::time::Instant;

/// Why NVML gave no value. Never a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// This GPU, driver or mode has no such value.
    NotSupported,
    /// The caller may not read it.
    NotPermitted,
    /// The GPU is lost.
    Lost,
    /// Any other NVML return code.
    Failed(u32),
}

/// A value, or why there is none.
pub type Reading<T> = Result<T, Absent>;

/// Everything known of the node's GPUs at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The driver, or why there is none.
    pub driver: Driver,
    /// One entry per GPU ever enumerated by this driver generation, in index order.
    pub gpus: Vec<Gpu>,
}

/// State of the driver.
#[derive(Clone, Debug, Default)]
pub enum Driver {
    /// No reading yet.
    #[default]
    Starting,
    /// Loaded and answering; the version string.
    Loaded {
        /// e.g. `580.105.08`
        version: String,
    },
    /// No GPU driver on this machine, with the sentence to tell the operator.
    Absent {
        /// What was tried and what came back.
        reason: String,
    },
}

/// One GPU.
#[derive(Debug)]
pub struct Gpu {
    /// NVML index, dcgm-exporter's `gpu` label.
    pub index: u32,
    /// `GPU-…`
    pub uuid: String,
    /// As DCGM prints it: `00000000:9B:00.0`.
    pub pci_bus_id: String,
    /// N of `/dev/nvidiaN`.
    pub minor: Reading<u32>,
    /// Marketing name, dcgm-exporter's `modelName`.
    pub model: String,
    /// When `reading` was taken; `None` before the first.
    pub taken: Option<Instant>,
    /// The processes that hold the GPU.
    pub processes: Reading<Vec<Process>>,
}

/// A process with a context on a GPU.
#[derive(Clone, Debug)]
pub struct Process {
    /// Process id in the exporter's pid namespace.
    pub pid: u32,
    /// Device memory; absent under WDDM and some MIG modes.
    pub used_bytes: Option<u64>,
}

/// A running reader of NVML.
pub struct Nvml {
    snapshot: parking_lot::Mutex<std::sync::Arc<Snapshot>>,
}

impl Nvml {
    /// Starts the reader. A missing library or driver is a state of the snapshot, never an error: the reader keeps
    /// looking, so that a driver loaded later is found.
    #[must_use]
    pub fn start(_library: Option<std::path::PathBuf>) -> Self {
        Self { snapshot: parking_lot::Mutex::default() }
    }

    /// The newest readings; never waits for the driver.
    #[must_use]
    pub fn snapshot(&self) -> std::sync::Arc<Snapshot> {
        self.snapshot.lock().clone()
    }
}
