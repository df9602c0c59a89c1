//! One loaded library: the log it follows, and the gate that every call passes.

use crate::code::{Code, Done};
use crate::event::{Event, NodeSpec};
use crate::handle;
use crate::state::{Gpu, Node};
use crate::tail::{News, Tail};
use crate::view::View;
use parking_lot::{Mutex, RwLock};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a hanging call sleeps that nothing clears.
const HANG: Duration = Duration::from_secs(3600);

static LIBRARY: RwLock<Option<Arc<Library>>> = RwLock::new(None);
/// `nvmlInit` calls without their `nvmlShutdown`.
static REFERENCES: Mutex<u32> = Mutex::new(0);
/// Every function called so far.
static CALLED: Mutex<Vec<&'static Call>> = Mutex::new(Vec::new());

/// Between the first `nvmlInit` and the last `nvmlShutdown`.
#[derive(Debug)]
pub(crate) struct Library {
    node: RwLock<Node>,
    tail: Mutex<Option<Tail>>,
    /// Set when the log cannot be understood: a test must not run on a half-read state.
    broken: AtomicBool,
    generation: u64,
    counts_written: AtomicU64,
    pub events: crate::events::EventSets,
    pub gpm: crate::gpm::Samples,
}

/// One exported function: its name in faults and counts.
#[derive(Debug)]
pub(crate) struct Call {
    name: &'static str,
    count: AtomicU64,
}

impl Call {
    pub(crate) const fn new(name: &'static str) -> Self {
        Call { name, count: AtomicU64::new(0) }
    }

    fn count(&'static self) {
        if self.count.fetch_add(1, Ordering::Relaxed) == 0 {
            CALLED.lock().push(self);
        }
    }

    /// A call about no GPU in particular.
    pub(crate) fn run(&'static self, body: impl FnOnce(&Node) -> Done) -> Done {
        self.count();
        let library = current()?;
        library.pass(self.name, |_| Ok(None))?;
        body(&library.node.read())
    }

    /// A call about the GPU that `find` names.
    pub(crate) fn on_gpu(
        &'static self,
        find: impl Fn(&Node) -> Result<usize, Code>,
        body: impl FnOnce(View) -> Done,
    ) -> Done {
        self.on_device(|node| Ok(Target { gpu: find(node)?, mig_device: None }), body)
    }

    /// A call about the GPU or the MIG device that `find` names.
    pub(crate) fn on_device(
        &'static self,
        find: impl Fn(&Node) -> Result<Target, Code>,
        body: impl FnOnce(View) -> Done,
    ) -> Done {
        self.count();
        let library = current()?;
        let of_mig_device = find(&library.node.read()).is_ok_and(|target| target.mig_device.is_some());
        let name = if of_mig_device { format!("mig:{}", self.name).into() } else { Cow::Borrowed(self.name) };
        library.pass(&name, |node| find(node).map(|target| Some(target.gpu)))?;
        let node = library.node.read();
        let target = find(&node)?;
        let gpu = &node.gpus[target.gpu];
        let mig = target.mig_device.and_then(|position| gpu.mig.devices().nth(position));
        body(View { node: &node, gpu, mig, now_us: node.now_us() })
    }

    /// `nvmlInit`: opens the log if no one has since the driver was last loaded.
    pub(crate) fn init(&'static self) -> Done {
        self.count();
        let usable = current().ok().filter(|library| !library.is_stale());
        let library = usable.map_or_else(|| Library::open().map(Arc::new), Ok)?;
        library.pass(self.name, |_| Ok(None))?;
        let mut references = REFERENCES.lock();
        let mut open = LIBRARY.write();
        if open.as_ref().is_none_or(|library| library.is_stale()) {
            *open = Some(library);
        }
        *references += 1;
        Ok(())
    }

    /// `nvmlShutdown`: the last one forgets everything. It can be made to hang and to fail, but needs no driver.
    pub(crate) fn shutdown(&'static self) -> Done {
        self.count();
        let library = current()?;
        library.sit_out(self.name, &|_| Ok(None))?;
        library.node.read().fault(self.name, None).map_or(Ok(()), Err)?;
        let mut references = REFERENCES.lock();
        *references = references.checked_sub(1).ok_or(Code::UNINITIALIZED)?;
        if *references == 0 {
            *LIBRARY.write() = None;
            write_counts();
        }
        Ok(())
    }
}

/// What a handle stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub gpu: usize,
    /// Position of the MIG device among the GPU's.
    pub mig_device: Option<usize>,
}

impl Target {
    /// A GPU or a MIG device that is still there.
    pub(crate) fn of<T>(node: &Node, handle: *mut T) -> Result<Self, Code> {
        let Some(serial) = handle::mig_device(handle) else {
            return Ok(Target { gpu: handle::gpu(handle, node.gpus.len())?, mig_device: None });
        };
        let found = node.gpus.iter().find_map(|gpu| {
            let position = gpu.mig.devices().position(|(_, compute)| compute.serial == serial)?;
            Some(Target { gpu: gpu.index, mig_device: Some(position) })
        });
        found.ok_or(Code::INVALID_ARGUMENT)
    }

    /// A GPU; of a MIG device the call knows nothing.
    pub(crate) fn of_gpu<T>(node: &Node, handle: *mut T) -> Result<usize, Code> {
        let target = Self::of(node, handle)?;
        if target.mig_device.is_some() { Err(Code::NOT_SUPPORTED) } else { Ok(target.gpu) }
    }
}

impl Library {
    fn open() -> Result<Self, Code> {
        let tail = std::env::var_os("FAKE_NVML").map(|path| Tail::open(path.into())).transpose().map_err(complain)?;
        let node = Node::new(&NodeSpec::default()).map_err(complain)?;
        let library = Library {
            node: RwLock::new(node),
            tail: Mutex::new(tail),
            broken: AtomicBool::new(false),
            generation: 0,
            counts_written: AtomicU64::new(0),
            events: Default::default(),
            gpm: Default::default(),
        };
        library.refresh()?;
        let generation = library.node.read().generation;
        Ok(Library { generation, ..library })
    }

    /// Brings the state up to the end of the log.
    pub(crate) fn refresh(&self) -> Done {
        if self.broken.load(Ordering::Relaxed) {
            return Err(Code::UNKNOWN);
        }
        let mut tail = self.tail.lock();
        let Some(tail) = tail.as_mut().filter(|tail| tail.has_grown()) else { return Ok(()) };
        let read = tail.read(|first, event| self.apply(first, event));
        read.map_err(|error| {
            self.broken.store(true, Ordering::Relaxed);
            complain(error)
        })?;
        let asked = self.node.read().counts_asked;
        if self.counts_written.swap(asked, Ordering::Relaxed) < asked {
            write_counts();
        }
        Ok(())
    }

    /// Notices new lines of the log; nothing where there is no log.
    pub(crate) fn news(&self) -> Result<Option<News>, Code> {
        let news = self.tail.lock().as_ref().map(Tail::news).transpose();
        news.map_err(|error| complain(format!("cannot watch the event log: {error}")))
    }

    /// Whether the driver has been loaded again since.
    fn is_stale(&self) -> bool {
        self.node.read().generation != self.generation
    }

    fn apply(&self, first: bool, event: Event) -> Result<(), String> {
        let mut node = self.node.write();
        match event {
            Event::Node(spec) if first => *node = Node::new(&spec)?,
            event => node.apply(event)?,
        }
        Ok(())
    }

    /// What happens to every call before its own work: the state is refreshed, hangs are sat out, faults answered.
    fn pass(&self, name: &str, find: impl Fn(&Node) -> Result<Option<usize>, Code>) -> Done {
        self.sit_out(name, &find)?;
        let node = self.node.read();
        self.answer(name, &node, find(&node))
    }

    /// Blocks as long as the call is made to hang, holding nothing meanwhile: like a driver's, it sleeps.
    fn sit_out(&self, name: &str, find: &impl Fn(&Node) -> Result<Option<usize>, Code>) -> Done {
        let begun = Instant::now();
        let mut log = None;
        loop {
            self.refresh()?;
            let hang = {
                let node = self.node.read();
                node.hang(name, find(&node).ok().flatten())
            };
            let Some(time) = hang else { return Ok(()) };
            let left = time.map_or(HANG, |us| Duration::from_micros(us).saturating_sub(begun.elapsed()));
            if left.is_zero() {
                return Ok(());
            }
            match &log {
                // Lines written from now on end the wait; lines written until now are read in another turn.
                None => log = Some(self.news()?.ok_or(Code::UNKNOWN)?),
                Some(log) => log.wait(left),
            }
        }
    }

    fn answer(&self, name: &str, node: &Node, gpu: Result<Option<usize>, Code>) -> Done {
        if !node.loaded {
            return Err(Code::DRIVER_NOT_LOADED);
        }
        if node.generation != self.generation {
            return Err(Code::UNINITIALIZED);
        }
        if let Some(code) = node.fault(name, gpu.ok().flatten()) {
            return Err(code);
        }
        if node.virtualization.hides_call(name) {
            return Err(Code::NOT_SUPPORTED);
        }
        let lost = |gpu: &Gpu| if gpu.lost || !gpu.bound { Err(Code::GPU_IS_LOST) } else { Ok(()) };
        gpu?.map_or(Ok(()), |index| lost(&node.gpus[index]))
    }

    /// The state, for a call that waits and looks again. Taken before anything else of the library, as calls do.
    pub(crate) fn node(&self) -> parking_lot::RwLockReadGuard<'_, Node> {
        self.node.read()
    }
}

/// The library of the calls under way, for those that must not hold the state while they wait.
pub(crate) fn current() -> Result<Arc<Library>, Code> {
    LIBRARY.read().clone().ok_or(Code::UNINITIALIZED)
}

/// Tells the person at the terminal: NVML has no other way to say why.
#[allow(clippy::print_stderr, reason = "a shared library has no other channel to the test that loads it")]
fn complain(error: String) -> Code {
    eprintln!("fake-nvml: {error}");
    Code::UNKNOWN
}

/// Writes the number of calls by name to the file that `FAKE_NVML_CALLS` names.
fn write_counts() {
    let Some(path) = std::env::var_os("FAKE_NVML_CALLS") else { return };
    let counts: BTreeMap<_, _> = CALLED.lock().iter().map(|c| (c.name, c.count.load(Ordering::Relaxed))).collect();
    let partial = std::path::PathBuf::from(&path).with_extension("partial");
    let written = serde_json::to_vec(&counts).map_err(std::io::Error::from);
    let written =
        written.and_then(|json| std::fs::write(&partial, json)).and_then(|()| std::fs::rename(&partial, &path));
    if let Err(error) = written {
        complain(format!("cannot write call counts to {}: {error}", path.display()));
    }
}
