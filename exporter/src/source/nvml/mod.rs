//! NVML behind one snapshot: threads own the library, everyone else reads plain values.
//!
//! One control thread loads the library and looks after the set of GPUs; two threads take turns in reading all of them.
//! A call that hangs keeps its thread, and another thread takes its place for the other GPUs: so it holds up one GPU,
//! and never a caller that takes a snapshot. All threads share one load of the library (a *generation*), which is
//! dropped with the last of them and replaced when the driver is reloaded.
//!
//! While the library is held, the driver keeps the GPUs initialised, as `nvidia-persistenced` would: idle GPUs start
//! work without the seconds that initialisation takes, and the kernel module cannot be unloaded.
//!
//! Where a driver lacks a call, the one before it is made; what no call of the driver gives is absent. What is lost on which
//! driver is in `docs/reference/supported-machines.md`.

mod absent;
pub mod activity;
mod busy;
mod calls;
mod clock_events;
mod control;
mod events;
pub mod fields;
pub mod health;
mod library;
mod mig;
mod power;
mod raw;
mod reader;
mod readers;
mod retry;
mod ring;
mod search;
mod shared;
mod single;
mod time;
mod values;
mod virtualization;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

pub use absent::{Absent, Reading};
pub use activity::Activity;
pub use busy::Busy;
pub use clock_events::{CLOCK_EVENTS, ClockEvents};
use fields::Plan;
use goodput_catalog::dcgm::Selection;
pub use mig::{Instance, InstanceBusy, InstanceTotals, MigDevice, MigMode};
use parking_lot::Mutex;
pub use power::Power;
pub use search::Search;
use shared::Shared;
use time::Time;
pub use values::{ComputeMode, Totals, Values};
pub use virtualization::Virtualization;

use super::kmsg;
use super::xid::Journal;

/// How long an orderly stop or a release waits for the threads: a healthy one needs up to one cycle.
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// Everything known of the node's GPUs at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// When the snapshot was made; ages are counted from here.
    pub at: Instant,
    /// The driver, or why there is none.
    pub driver: Driver,
    /// One entry per GPU that has told who it is, in index order; those that the driver lists no more are lost.
    pub gpus: Vec<Gpu>,
    /// GPUs that the driver counts but that have not told who they are, by index.
    pub unidentified: Vec<(u32, State)>,
    /// NVML calls made since the exporter's start.
    pub calls: u64,
    /// Is every GPU that was opened also listened to, as far as the driver lets?
    pub listening: bool,
    /// What was heard of XIDs since the exporter's start.
    pub xids: Journal,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            at: Instant::now(),
            driver: Driver::default(),
            gpus: Vec::new(),
            unidentified: Vec::new(),
            calls: 0,
            listening: false,
            xids: Journal::default(),
        }
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
    /// Released on request ([`Nvml::release`]): nothing is known of it.
    Released {
        /// Time until it is loaded again by itself.
        left: Duration,
        /// Its version string before; empty when it was not there.
        version: String,
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
    /// The GPU has fallen off the bus, is otherwise inaccessible, or is not in the driver's list any more.
    Lost,
    /// The driver answers that it cannot be read, or takes seconds for an answer.
    Failing(Absent),
    /// Released on request: no thread reads it.
    Released,
}

/// One GPU.
#[derive(Debug)]
pub struct Gpu {
    /// NVML index, dcgm-exporter's `gpu` label.
    pub index: u32,
    /// `GPU-…`
    pub uuid: String,
    /// As DCGM prints it: `00000000:9B:00.0`; empty where the driver does not tell.
    pub pci_bus_id: String,
    /// N of `/dev/nvidiaN`.
    pub minor: Reading<u32>,
    /// Marketing name, dcgm-exporter's `modelName`; empty where the driver does not tell.
    pub model: String,
    /// Serial number of the board.
    pub serial: Reading<String>,
    /// The machine's own GPU, or one that a hypervisor lends.
    pub virtualization: Reading<Virtualization>,
    /// When `values` were taken; `None` before the first.
    pub taken: Option<Instant>,
    /// How reading it goes.
    pub state: State,
    /// The processes that hold the GPU, by pid.
    pub processes: Reading<Vec<Process>>,
    /// Do the driver's XID events of it come?
    pub events: Reading<()>,
    /// The newest readings.
    pub values: Arc<Values>,
    /// Totals since the exporter's start.
    pub totals: Totals,
    /// Times since the exporter's start that reading it was given up and started again.
    pub failures: u64,
}

/// A GPU about which nothing is known yet.
impl Default for Gpu {
    fn default() -> Self {
        Self {
            index: 0,
            uuid: String::new(),
            pci_bus_id: String::new(),
            minor: Err(Absent::NotSupported),
            model: String::new(),
            serial: Err(Absent::NotSupported),
            virtualization: Err(Absent::NotSupported),
            taken: None,
            state: State::Starting,
            processes: Err(Absent::NotSupported),
            events: Err(Absent::NotSupported),
            values: Arc::default(),
            totals: Totals::default(),
            failures: 0,
        }
    }
}

/// A process with a context on a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Process id: in the exporter's pid namespace, or in the first, as the driver has it.
    pub pid: u32,
    /// Device memory; absent under WDDM and some MIG modes.
    pub used_bytes: Option<u64>,
    /// Id of the GPU instance that it is on, where the GPU is cut up.
    pub instance: Option<u32>,
    /// Does the driver list it as a client of an MPS server?
    pub mps: bool,
}

/// One entry per pid. A process with contexts of several kinds is in several of the driver's lists, with the same
/// memory in each.
fn merge(compute: &[Process], others: &[Process]) -> Vec<Process> {
    let mut by_pid = BTreeMap::new();
    for process in compute.iter().chain(others) {
        let known = by_pid.entry(process.pid).or_insert_with(|| process.clone());
        known.used_bytes = known.used_bytes.max(process.used_bytes);
        known.mps |= process.mps;
    }
    by_pid.into_values().collect()
}

/// A running reader of NVML. Dropping it stops the threads.
pub struct Nvml {
    shared: Arc<Shared>,
    kernel_log: Arc<kmsg::Stop>,
}

impl Nvml {
    /// Starts the reader. A missing library or driver is a state of the snapshot, never an error: the reader keeps
    /// looking, so that a driver loaded later is found.
    #[must_use]
    pub fn start(library: Search) -> Self {
        Self::reading(library, &Selection::default())
    }

    /// As [`Nvml::start`], reading these fields of DCGM and what the exporter's own metrics need.
    #[must_use]
    pub fn reading(library: Search, selection: &Selection) -> Self {
        Self::start_with(library, Time::Wall, selection)
    }

    /// As [`Nvml::start`], under a clock that stands still until [`Nvml::step`] moves it: for making history of a
    /// simulated driver. `date` is what it shows at first. What is due at the start is read before this returns.
    #[must_use]
    pub fn stepped(library: Search, date: SystemTime) -> Self {
        let nvml = Self::start_with(library, Time::stepped(date), &Selection::default());
        nvml.step(Duration::ZERO);
        nvml
    }

    /// Reads these fields of DCGM from now on, and what the exporter's own metrics need.
    pub fn select(&self, selection: &Selection) {
        self.shared.follow(Plan::new(selection));
    }

    /// Moves the clock of [`Nvml::stepped`] on, and waits until the threads have read all that is due by then. One cycle
    /// makes up for all that lie within the step. Does nothing to a reader with the wall clock.
    pub fn step(&self, by: Duration) {
        self.shared.step(by);
    }

    fn start_with(library: Search, time: Time, selection: &Selection) -> Self {
        let shared = Arc::new(Shared::new(time, Plan::new(selection)));
        let control = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("nvml-control".to_owned());
        if let Err(error) = thread.spawn(move || control::run(&control, &library)) {
            let reason = format!("cannot start the thread that talks to the nvidia driver: {error}");
            shared.set_driver(Driver::Absent { reason });
            shared.stop();
        }
        Self { shared, kernel_log: Arc::default() }
    }

    /// Also counts the XIDs that the kernel log at `path` reports, in addition to those of the driver's events. The
    /// snapshot's state says whether the log may be read.
    pub fn follow_kernel_log(&self, path: PathBuf) {
        let (journal, stop): (Arc<Mutex<Journal>>, _) =
            (Arc::clone(&self.shared.journal), Arc::clone(&self.kernel_log));
        let thread = std::thread::Builder::new().name("kmsg".to_owned());
        if let Err(error) = thread.spawn(move || kmsg::follow(&path, &journal, &stop)) {
            tracing::warn!(%error, "cannot start the thread that follows the kernel log");
        }
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

    /// Releases the library, and with it the driver's device files, so that a GPU can be reset, its MIG mode changed or
    /// the driver unloaded; for this long, or until [`Nvml::acquire`]. Waits a few seconds and says whether all is
    /// released: a thread that is stuck in the driver keeps its share until its call comes back.
    pub fn release(&self, limit: Duration) -> bool {
        self.shared.release(limit);
        self.shared.wait_let_go(STOP_LIMIT)
    }

    /// Takes the driver up again. GPUs that are not there any more are not missed.
    pub fn acquire(&self) {
        self.shared.acquire();
    }

    /// Stops the threads and releases the library, as far as the driver lets: a thread stuck in it is left behind
    /// after a bounded wait.
    pub fn shutdown(&self) {
        self.kernel_log.stop();
        self.shared.stop();
        self.shared.wait_let_go(STOP_LIMIT);
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
        let process = |pid, used_bytes| Process { pid, used_bytes, ..Process::default() };
        let merged = merge(&[process(7, Some(10)), process(3, None)], &[process(7, Some(10)), process(3, Some(5))]);
        assert_eq!(merged, [process(3, Some(5)), process(7, Some(10))]);
    }

    #[test]
    fn a_wrong_path_is_named_with_what_to_do() {
        let nvml = Nvml::start(Search::File("/nowhere/libnvidia-ml.so.1".into()));
        let snapshot = nvml.settled(Duration::from_secs(20));
        let Driver::Absent { reason } = &snapshot.driver else { panic!("{:?}", snapshot.driver) };
        assert!(reason.contains("/nowhere/libnvidia-ml.so.1") && reason.contains("--nvml.library"), "{reason}");
        assert!(reason.contains("No such file"), "{reason}");
        assert!(snapshot.gpus.is_empty());
    }

    #[test]
    fn a_library_that_is_not_nvml_is_called_so() {
        let nvml = Nvml::start(Search::File("libc.so.6".into()));
        let snapshot = nvml.settled(Duration::from_secs(20));
        let Driver::Absent { reason } = &snapshot.driver else { panic!("{:?}", snapshot.driver) };
        assert_eq!(reason, "libc.so.6 is not the nvidia management library: it lacks nvmlInit_v2");
    }
}
