//! Fake GPUs: the library that programs load, and the node it shows them.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use goodput_lab::gpu::{FakeNode, FakeNvml, NodeSpec};
//! let library = FakeNvml::build()?;
//! let dir = tempfile::tempdir()?;
//! let node = FakeNode::new(dir.path(), &NodeSpec::h100(8))?;
//! // Start the program under test with `--nvml.library <library.path()>` and the environment `node.env()`, then:
//! let work = node.work(0, Some(std::process::id()))?;
//! work.stop()?;
//! # Ok(())
//! # }
//! ```
//! The lines that these methods append are documented in the crate `fake-nvml`.

mod driver;

use crate::artifacts::artifact;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The fake `libnvidia-ml.so.1`.
#[derive(Debug)]
pub struct FakeNvml {
    path: PathBuf,
}

impl FakeNvml {
    /// Builds it, once per test process, with the cargo that runs the tests.
    pub fn build() -> Result<Self> {
        Ok(Self { path: artifact("fake_nvml")? })
    }

    /// The shared object, for `--nvml.library`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Links it into the folder under the name that programs without such an option look for; the folder belongs into their
    /// `LD_LIBRARY_PATH`.
    pub fn link_into(&self, dir: &Path) -> Result<()> {
        let link = dir.join("libnvidia-ml.so.1");
        std::os::unix::fs::symlink(&self.path, &link).with_context(|| format!("cannot link {}", link.display()))
    }
}

/// Microseconds of the wall clock since 1970: the time of NVML's samples and of the event log.
pub fn now_us() -> u64 {
    us(SystemTime::now())
}

fn us(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// What the node is; the library's defaults stand for what is left out.
#[derive(Debug, Clone)]
pub struct NodeSpec(Value);

impl NodeSpec {
    /// A node of `count` GPUs of the model, by its NVML name; the driver was loaded just now.
    pub fn new(model: &str, count: usize) -> Self {
        NodeSpec(json!({ "model": model, "count": count, "loaded_us": now_us() }))
    }

    /// Up to eight `NVIDIA H100 80GB HBM3` at the addresses of the recorded Dell XE9680.
    pub fn h100(count: usize) -> Self {
        Self::new("NVIDIA H100 80GB HBM3", count)
    }

    /// With this key of the `node` line.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0[key] = value.into();
        self
    }
}

/// A node of fake GPUs: the writer of its event log.
#[derive(Debug)]
pub struct FakeNode {
    log: PathBuf,
    file: File,
}

/// Which calls fail or hang; see [`Calls::all`] and its refinements.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    call: Option<String>,
    gpu: Option<usize>,
}

impl Calls {
    /// Every call about every GPU.
    pub fn all() -> Self {
        Self::default()
    }

    /// The calls of this name; a trailing `*` stands for any ending, `field:82` for one field value.
    pub fn named(mut self, name: &str) -> Self {
        self.call = Some(name.to_owned());
        self
    }

    /// The calls about this GPU.
    pub fn on(mut self, gpu: usize) -> Self {
        self.gpu = Some(gpu);
        self
    }

    fn line(&self, kind: &str, more: Value) -> Value {
        let mut body = json!({ "call": self.call, "gpu": self.gpu });
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        json!({ kind: body })
    }
}

impl FakeNode {
    /// A node whose event log is `dir/gpus.jsonl`.
    pub fn new(dir: &Path, spec: &NodeSpec) -> Result<Self> {
        let node = Self::open(&dir.join("gpus.jsonl"))?;
        node.append(&json!({ "node": spec.0 }))?;
        Ok(node)
    }

    /// One more writer of a log, made if need be.
    pub fn open(log: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(log);
        let file = file.with_context(|| format!("cannot open event log {}", log.display()))?;
        Ok(FakeNode { log: log.to_owned(), file })
    }

    /// The environment that shows this node to a program.
    pub fn env(&self) -> (&'static str, &Path) {
        ("FAKE_NVML", &self.log)
    }

    /// Appends a line as it is.
    pub fn append(&self, line: &Value) -> Result<()> {
        let line = format!("{line}\n");
        (&self.file).write_all(line.as_bytes()).with_context(|| format!("cannot append to {}", self.log.display()))
    }

    /// The GPU is fully used by the process from `from` for `time`.
    pub fn busy(&self, gpu: usize, from: SystemTime, time: Duration, pid: Option<u32>) -> Result<()> {
        let to = us(from + time);
        self.append(&json!({ "busy": { "gpu": gpu, "from_us": us(from), "to_us": to, "pid": pid } }))
    }

    /// The GPU is fully used from now on, until the work is stopped or dropped.
    pub fn work(&self, gpu: usize, pid: Option<u32>) -> Result<Work<'_>> {
        self.work_at(gpu, pid, json!({}))
    }

    /// As [`FakeNode::work`], with levels by channel: percent, or bytes per second for links.
    pub fn work_at(&self, gpu: usize, pid: Option<u32>, load: Value) -> Result<Work<'_>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = format!("{} {}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        self.append(&json!({ "start": { "gpu": gpu, "id": id, "at_us": now_us(), "pid": pid, "load": load } }))?;
        Ok(Work { node: self, gpu, id, stopped: Cell::new(false) })
    }

    /// The process computes on the GPU and holds so much memory; again with another amount, it holds that.
    pub fn process(&self, gpu: usize, pid: u32, used_bytes: u64) -> Result<()> {
        self.append(&json!({ "process": { "gpu": gpu, "pid": pid, "used_bytes": used_bytes } }))
    }

    /// The process is gone, and with it the work it had started.
    pub fn exit(&self, gpu: usize, pid: u32) -> Result<()> {
        self.append(&json!({ "exit": { "gpu": gpu, "pid": pid, "at_us": now_us() } }))
    }

    /// The GPU is cut up into these GPU instances, by id and profile, and into nothing else.
    pub fn mig(&self, gpu: usize, instances: &[(u32, &str)]) -> Result<()> {
        let instances: Vec<_> = instances.iter().map(|(id, profile)| json!({ "id": id, "profile": profile })).collect();
        self.append(&json!({ "mig": { "gpu": gpu, "instances": instances } }))
    }

    /// The process computes on the GPU instance and holds so much of its memory.
    pub fn process_in(&self, gpu: usize, instance: u32, pid: u32, used_bytes: u64) -> Result<()> {
        let process = json!({ "gpu": gpu, "instance": instance, "pid": pid, "used_bytes": used_bytes });
        self.append(&json!({ "process": process }))
    }

    /// Fixes a reading from now on.
    pub fn set(&self, gpu: usize, reading: &str, value: f64) -> Result<()> {
        self.append(&json!({ "set": { "gpu": gpu, "at_us": now_us(), "reading": reading, "value": value } }))
    }

    /// Gives a reading back to the model.
    pub fn unset(&self, gpu: usize, reading: &str) -> Result<()> {
        self.append(&json!({ "set": { "gpu": gpu, "at_us": now_us(), "reading": reading, "value": null } }))
    }

    /// An XID for every event set that watches the GPU.
    pub fn xid(&self, gpu: usize, code: u64) -> Result<()> {
        self.append(&json!({ "xid": { "gpu": gpu, "code": code } }))
    }

    /// The GPU falls off the bus.
    pub fn lose(&self, gpu: usize) -> Result<()> {
        self.append(&json!({ "lose": { "gpu": gpu } }))
    }

    /// The GPU is back.
    pub fn find(&self, gpu: usize) -> Result<()> {
        self.append(&json!({ "find": { "gpu": gpu } }))
    }

    /// The driver lets the GPU go and lists it no more.
    pub fn unbind(&self, gpu: usize) -> Result<()> {
        self.append(&json!({ "unbind": { "gpu": gpu } }))
    }

    /// The driver takes the GPU up again.
    pub fn bind(&self, gpu: usize) -> Result<()> {
        self.append(&json!({ "bind": { "gpu": gpu } }))
    }

    /// The driver is unloaded.
    pub fn unload(&self) -> Result<()> {
        self.append(&json!({ "unload": {} }))
    }

    /// The driver is loaded again, in another version if one is given.
    pub fn load(&self, driver: Option<&str>) -> Result<()> {
        self.append(&json!({ "load": { "at_us": now_us(), "driver": driver } }))
    }

    /// The calls answer with the code, such as `GPU_IS_LOST` (a number for one without a name), until cleared.
    pub fn fault(&self, calls: &Calls, code: impl Into<Value>) -> Result<()> {
        self.append(&calls.line("fault", json!({ "code": code.into() })))
    }

    /// Each of the calls blocks for the time, or until cleared.
    pub fn hang(&self, calls: &Calls, time: Option<Duration>) -> Result<()> {
        self.append(&calls.line("hang", json!({ "for_us": time.map(|time| time.as_micros() as u64) })))
    }

    /// Takes back faults and hangs of exactly these calls.
    pub fn clear(&self, calls: &Calls) -> Result<()> {
        self.append(&calls.line("clear", json!({})))
    }

    /// The driver's clock shows this moment until it is fixed at another.
    pub fn fix_clock(&self, at: SystemTime) -> Result<()> {
        self.append(&json!({ "clock": { "now_us": us(at) } }))
    }

    /// The driver's clock is the wall clock again.
    pub fn free_clock(&self) -> Result<()> {
        self.append(&json!({ "clock": {} }))
    }

    /// Has each process write its call counts at its next call; see [`counts_env`].
    pub fn count(&self) -> Result<()> {
        self.append(&json!({ "count": {} }))
    }
}

/// A kernel log for programs that read `dev/kmsg` below a root folder of their own.
#[derive(Debug)]
pub struct KernelLog {
    path: PathBuf,
    file: File,
    lines: Cell<u64>,
}

impl KernelLog {
    /// An empty one: `root/dev/kmsg`.
    pub fn new(root: &Path) -> Result<Self> {
        let folder = root.join("dev");
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join("kmsg");
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        Ok(KernelLog { path, file, lines: Cell::new(0) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel says something, two seconds by its clock after what it said last.
    pub fn say(&self, text: &str) -> Result<()> {
        let n = self.lines.replace(self.lines.get() + 1);
        let record = format!("4,{n},{},-;{text}\n SUBSYSTEM=pci\n", n * 2_000_000);
        (&self.file).write_all(record.as_bytes()).with_context(|| format!("cannot append to {}", self.path.display()))
    }
}

/// The environment that has a program write its number of NVML calls by name, as a JSON object, to the file: when it shuts
/// NVML down, and at its next call after [`FakeNode::count`].
pub fn counts_env(file: &Path) -> (&'static str, &Path) {
    ("FAKE_NVML_CALLS", file)
}

/// Work in progress on a GPU.
#[derive(Debug)]
pub struct Work<'a> {
    node: &'a FakeNode,
    gpu: usize,
    id: String,
    stopped: Cell<bool>,
}

impl Work<'_> {
    /// Ends it now.
    pub fn stop(self) -> Result<()> {
        self.end()
    }

    fn end(&self) -> Result<()> {
        self.stopped.set(true);
        self.node.append(&json!({ "stop": { "gpu": self.gpu, "id": self.id, "at_us": now_us() } }))
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        if !self.stopped.get() {
            // The log of a test that is being torn down may be gone: no process reads it any more.
            let _ = self.end();
        }
    }
}
