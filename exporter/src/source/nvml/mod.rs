//! NVML behind one snapshot: threads own the library, everyone else reads plain values.
//!
//! One control thread loads the library and looks after the set of GPUs; one reader thread per GPU makes all calls
//! about that GPU. A hanging driver call therefore holds up one GPU, and never whoever takes a snapshot. All threads
//! share one load of the library (a *generation*), which is dropped with the last of them and replaced when the driver
//! is reloaded.
//!
//! While the library is held, the driver keeps the GPUs initialised, as `nvidia-persistenced` would: idle GPUs start
//! work without the seconds that initialisation takes, and the kernel module cannot be unloaded.
//!
//! The calls need NVML of driver 510 or later (`nvmlDeviceGetMemoryInfo_v2`, the `_v3` process lists); an older one
//! leaves those readings absent.

mod absent;
mod busy;
mod calls;
mod clock_events;
mod control;
pub mod fields;
mod raw;
mod reader;
mod shared;
mod single;
mod time;
mod values;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::catalog::dcgm::Selection;
pub use absent::{Absent, Reading};
pub use busy::Busy;
pub use clock_events::{CLOCK_EVENTS, ClockEvents};
use fields::Plan;
use shared::Shared;
use time::Time;
pub use values::{Totals, Values};

/// How long an orderly stop waits for reader threads: a healthy one needs up to one cycle.
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// Everything known of the node's GPUs at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// When the snapshot was made; ages are counted from here.
    pub at: Instant,
    /// The driver, or why there is none.
    pub driver: Driver,
    /// One entry per GPU that this driver generation has identified, in index order.
    pub gpus: Vec<Gpu>,
    /// GPUs that the driver counts but that have not told who they are, by index.
    pub unidentified: Vec<(u32, State)>,
    /// NVML calls made since the exporter's start.
    pub calls: u64,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self { at: Instant::now(), driver: Driver::default(), gpus: Vec::new(), unidentified: Vec::new(), calls: 0 }
    }
}

/// State of the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// How reading a GPU goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not read yet.
    Starting,
    /// Every cycle comes back.
    Ok,
    /// A driver call has not come back for this long.
    Stale(Duration),
    /// The GPU has fallen off the bus or is otherwise inaccessible.
    Lost,
    /// The driver answers that it cannot be read.
    Failing(Absent),
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
    /// Serial number of the board.
    pub serial: Reading<String>,
    /// When `values` were taken; `None` before the first.
    pub taken: Option<Instant>,
    /// How reading it goes.
    pub state: State,
    /// The processes that hold the GPU, by pid.
    pub processes: Reading<Vec<Process>>,
    /// The newest readings.
    pub values: Arc<Values>,
    /// Totals since the exporter's start.
    pub totals: Totals,
}

/// A GPU of which nothing is known yet.
impl Default for Gpu {
    fn default() -> Self {
        Self {
            index: 0,
            uuid: String::new(),
            pci_bus_id: String::new(),
            minor: Err(Absent::NotSupported),
            model: String::new(),
            serial: Err(Absent::NotSupported),
            taken: None,
            state: State::Starting,
            processes: Err(Absent::NotSupported),
            values: Arc::default(),
            totals: Totals::default(),
        }
    }
}

/// A process with a context on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id in the exporter's pid namespace.
    pub pid: u32,
    /// Device memory; absent under WDDM and some MIG modes.
    pub used_bytes: Option<u64>,
}

/// One entry per pid. A process with contexts of several kinds is in several of the driver's lists, with the same
/// memory in each.
fn merge(compute: &[Process], others: &[Process]) -> Vec<Process> {
    let mut by_pid = BTreeMap::new();
    for process in compute.iter().chain(others) {
        let used = by_pid.entry(process.pid).or_insert(process.used_bytes);
        *used = (*used).max(process.used_bytes);
    }
    by_pid.into_iter().map(|(pid, used_bytes)| Process { pid, used_bytes }).collect()
}

/// A running reader of NVML. Dropping it stops the threads.
pub struct Nvml {
    shared: Arc<Shared>,
}

impl Nvml {
    /// Starts the reader. A missing library or driver is a state of the snapshot, never an error: the reader keeps
    /// looking, so that a driver loaded later is found.
    #[must_use]
    pub fn start(library: Option<PathBuf>) -> Self {
        Self::reading(library, &Selection::default())
    }

    /// As [`Nvml::start`], reading these fields of DCGM and what the exporter's own metrics need.
    #[must_use]
    pub fn reading(library: Option<PathBuf>, selection: &Selection) -> Self {
        Self::start_with(library, Time::Wall, selection)
    }

    /// As [`Nvml::start`], under a clock that stands still until [`Nvml::step`] moves it: for making history of a
    /// simulated driver. What is due at the start is read before this returns.
    #[must_use]
    pub fn stepped(library: Option<PathBuf>) -> Self {
        let nvml = Self::start_with(library, Time::stepped(), &Selection::default());
        nvml.step(Duration::ZERO);
        nvml
    }

    /// Moves the clock of [`Nvml::stepped`] on, and waits until the threads have read all that is due by then. One cycle
    /// makes up for all that lie within the step. Does nothing to a reader with the wall clock.
    pub fn step(&self, by: Duration) {
        self.shared.step(by);
    }

    fn start_with(library: Option<PathBuf>, time: Time, selection: &Selection) -> Self {
        let shared = Arc::new(Shared::new(time, Plan::new(selection)));
        let control = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("nvml-control".to_owned());
        if let Err(error) = thread.spawn(move || control::run(&control, library.as_deref())) {
            let reason = format!("cannot start the thread that talks to the nvidia driver: {error}");
            shared.set_driver(Driver::Absent { reason });
            shared.stop();
        }
        Self { shared }
    }

    /// The newest readings; never waits for the driver.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::new(self.shared.snapshot())
    }

    /// The first complete snapshot: waits until the driver's state is known and every GPU was read or has failed, but
    /// no longer than `limit`. For callers that look once.
    #[must_use]
    pub fn settled(&self, limit: Duration) -> Arc<Snapshot> {
        self.shared.wait_settled(limit);
        self.snapshot()
    }

    /// Stops the threads and releases the library, as far as the driver lets: a thread stuck in it is left behind
    /// after a bounded wait.
    pub fn shutdown(&self) {
        self.shared.stop();
        self.shared.wait_readers(STOP_LIMIT);
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        self.shutdown();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_in_several_lists_counts_once() {
        let process = |pid, used_bytes| Process { pid, used_bytes };
        let merged = merge(&[process(7, Some(10)), process(3, None)], &[process(7, Some(10)), process(3, Some(5))]);
        assert_eq!(merged, [process(3, Some(5)), process(7, Some(10))]);
    }

    #[test]
    fn a_wrong_path_is_named_with_what_to_do() {
        let nvml = Nvml::start(Some("/nowhere/libnvidia-ml.so.1".into()));
        let snapshot = nvml.settled(Duration::from_secs(20));
        let Driver::Absent { reason } = &snapshot.driver else { panic!("{:?}", snapshot.driver) };
        assert!(reason.contains("/nowhere/libnvidia-ml.so.1") && reason.contains("--nvml.library"), "{reason}");
        assert!(reason.contains("No such file"), "{reason}");
        assert!(snapshot.gpus.is_empty());
    }

    #[test]
    fn a_library_that_is_not_nvml_is_called_so() {
        let nvml = Nvml::start(Some("libc.so.6".into()));
        let snapshot = nvml.settled(Duration::from_secs(20));
        let Driver::Absent { reason } = &snapshot.driver else { panic!("{:?}", snapshot.driver) };
        assert_eq!(reason, "libc.so.6 is not the nvidia management library: it lacks nvmlInit_v2");
    }
}
