//! The program under test, and how to talk to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use goodput_catalog::dcgm::{Names, ROWS, Selection};
use goodput_exporter::attribute::Owners;
use goodput_exporter::collect::Done;
use goodput_exporter::context::{Context, Dcgm};
use goodput_exporter::registry::REGISTRY;
use goodput_exporter::source::files::Roots;
use goodput_exporter::source::nvml::{Nvml, Search};
use goodput_exposition::{Families, Format, encode};
use goodput_lab::gpu::{FakeNode, FakeNvml, KernelLog, counts_env};
use tempfile::TempDir;

/// How long a condition may take to come true on a busy machine; none takes longer than a third of it on an idle one.
const PATIENCE: Duration = Duration::from_secs(90);

/// Where the probe finds the path of the library.
const LIBRARY: &str = "PROBE_LIBRARY";

/// Set for a probe whose clock stands still until a line moves it.
const STEPPED: &str = "PROBE_STEPPED";

/// Where the probe finds the path of the kernel log, if it is to follow one.
const KERNEL_LOG: &str = "PROBE_KERNEL_LOG";

/// Set where every field of DCGM is to be read and written in both spellings.
const EVERYTHING: &str = "PROBE_EVERYTHING";

fn settings() -> Dcgm {
    match std::env::var_os(EVERYTHING) {
        Some(_) => {
            Dcgm { names: Names::Both, fields: Selection::new(ROWS.iter().map(|row| row.id)), ..Dcgm::default() }
        }
        None => Dcgm::default(),
    }
}

/// Not a test: the program that the tests start. Scrapes once per line of its standard input, after doing what the line
/// says: `step` or `release` with seconds, `acquire`, `count`, or nothing.
#[test]
#[ignore = "started by the other tests"]
fn program() {
    let library = PathBuf::from(std::env::var_os(LIBRARY).unwrap());
    let dcgm = Arc::new(settings());
    let nvml = match std::env::var_os(STEPPED) {
        Some(_) => Nvml::stepped(Search::File(library.clone()), SystemTime::now()),
        None => Nvml::reading(Search::File(library.clone()), &dcgm.fields),
    };
    if std::env::var_os(EVERYTHING).is_some() {
        nvml.select(&dcgm.fields);
    }
    if let Some(log) = std::env::var_os(KERNEL_LOG) {
        nvml.follow_kernel_log(log.into());
    }
    let mut collector = (REGISTRY.iter().find(|e| e.name == "gpu").unwrap().new)();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (what, seconds) = line.split_once(' ').unwrap_or((&line, "0"));
        let time = Duration::from_secs_f64(seconds.parse().unwrap());
        let mut released = true;
        match what {
            "step" => nvml.step(time),
            "release" => released = nvml.release(time),
            "acquire" => nvml.acquire(),
            // A call of our own makes the fake write its counts while there are no other calls.
            "count" => _ = nvml_wrapper::Nvml::builder().lib_path(library.as_os_str()).init().unwrap(),
            _ => {}
        }
        let nowhere = || "/nowhere".into();
        let context = Context {
            roots: Arc::new(Roots {
                proc: nowhere(),
                sys: nowhere(),
                cgroup: nowhere(),
                root: nowhere(),
                programs: None,
            }),
            common: Arc::default(),
            gpus: nvml.snapshot(),
            owners: Arc::new(Owners::default()),
            hostname: "node-1".into(),
            dcgm: dcgm.clone(),
            nccl: Arc::default(),
        };
        let mut families = Families::default();
        let done = collector.collect(&context, &mut families).unwrap();
        let mut out = std::io::stdout().lock();
        if !released {
            writeln!(out, "# still held").unwrap();
        }
        if let Done::NotApplicable(reason) = done {
            writeln!(out, "# reason {reason}").unwrap();
        }
        out.write_all(encode(&families, Format::OpenMetrics).as_bytes()).unwrap();
        out.flush().unwrap();
    }
}

/// A running probe; killed when dropped.
pub(crate) struct Probe {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    counts: PathBuf,
    /// The driver's clock, where it is moved by the scrapes.
    clock: Option<(FakeNode, SystemTime)>,
    _folder: TempDir,
}

impl Probe {
    pub(crate) fn start(node: &FakeNode) -> Self {
        Self::with(node, FakeNvml::build().unwrap().path(), &[])
    }

    /// With a clock that stands still between the steps of [`Probe::step`]; the node's clock is to be fixed.
    pub(crate) fn stepped(node: &FakeNode) -> Self {
        Self::with(node, FakeNvml::build().unwrap().path(), &[(STEPPED, "1".into())])
    }

    /// One whose time, and that of the driver, goes on by one second with each scrape and not otherwise.
    pub(crate) fn ticking(node: &FakeNode) -> Self {
        let now = SystemTime::now();
        node.fix_clock(now).unwrap();
        let mut probe = Self::stepped(node);
        probe.clock = Some((FakeNode::open(node.env().1).unwrap(), now));
        probe
    }

    /// Together with a kernel log.
    pub(crate) fn with_kernel_log(node: &FakeNode, log: &KernelLog) -> Self {
        Self::with(node, FakeNvml::build().unwrap().path(), &[(KERNEL_LOG, log.path().into())])
    }

    /// One that loads this library.
    pub(crate) fn loading(node: &FakeNode, library: &Path) -> Self {
        Self::with(node, library, &[])
    }

    /// One that reads every field of DCGM and writes both spellings.
    pub(crate) fn of_everything(node: &FakeNode) -> Self {
        Self::with(node, FakeNvml::build().unwrap().path(), &[(EVERYTHING, "1".into())])
    }

    /// As [`Probe::ticking`], with every field of DCGM and this library.
    pub(crate) fn ticking_with(node: &FakeNode, library: &Path) -> Self {
        let now = SystemTime::now();
        node.fix_clock(now).unwrap();
        let mut probe = Self::with(node, library, &[(STEPPED, "1".into()), (EVERYTHING, "1".into())]);
        probe.clock = Some((FakeNode::open(node.env().1).unwrap(), now));
        probe
    }

    #[allow(clippy::disallowed_methods, reason = "tests run programs; this one is killed when the probe is dropped")]
    fn with(node: &FakeNode, library: &Path, env: &[(&str, OsString)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let counts = folder.path().join("calls.json");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "probe::program", "--nocapture", "--quiet"])
            .env(LIBRARY, library)
            .envs([node.env(), counts_env(&counts)])
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, counts, clock: None, _folder: folder }
    }

    pub(crate) fn scrape(&mut self) -> Scrape {
        if let Some((node, now)) = &mut self.clock {
            *now += Duration::from_secs(1);
            node.fix_clock(*now).unwrap();
            return self.step(Duration::from_secs(1));
        }
        self.tell("")
    }

    /// Moves the clock of a stepped probe, has it read all that is due, and scrapes.
    pub(crate) fn step(&mut self, by: Duration) -> Scrape {
        self.tell(&format!("step {}", by.as_secs_f64()))
    }

    /// Has it do something, then scrape.
    pub(crate) fn tell(&mut self, what: &str) -> Scrape {
        writeln!(self.input, "{what}").unwrap();
        let (mut text, mut line) = (String::new(), String::new());
        while line != "# EOF\n" {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the probe ended:\n{text}");
            // The harness has its say too: that it runs a test, and after a minute that it still does.
            if !line.starts_with("running ") && !line.starts_with("test ") {
                text.push_str(&line);
            }
        }
        Scrape(text)
    }

    /// Scrapes until the condition holds.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&Scrape) -> bool) -> Scrape {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let scrape = self.scrape();
            if holds(&scrape) {
                return scrape;
            }
            assert!(Instant::now() < deadline, "never: {what}\n{}", scrape.0);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Scrapes until the condition holds, but no more than this many times: seconds, where the clock is stepped.
    pub(crate) fn within(&mut self, scrapes: usize, what: &str, mut holds: impl FnMut(&Scrape) -> bool) -> Scrape {
        let mut last = String::new();
        for _ in 0..scrapes {
            let scrape = self.scrape();
            if holds(&scrape) {
                return scrape;
            }
            last = scrape.0;
        }
        panic!("not within {scrapes} scrapes: {what}\n{last}");
    }

    /// Scrapes until the condition holds, or for so long that it will not any more.
    pub(crate) fn until_or_last(&mut self, holds: impl Fn(&Scrape) -> bool) -> Scrape {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let scrape = self.scrape();
            if holds(&scrape) || Instant::now() >= deadline {
                return scrape;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn until_all_ok(&mut self) -> Scrape {
        self.until("all eight GPUs are read", |s| (0..8).all(|gpu| s.is(gpu, "ok") && s.cycles(gpu) > 0.0))
    }

    /// Number of its threads of that name.
    pub(crate) fn threads(&self, name: &str) -> usize {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let comm =
            |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.ok()?.path().join("comm")).ok();
        tasks.filter_map(comm).filter(|comm| comm.trim_end() == name).count()
    }

    /// Number of its threads that read GPUs.
    pub(crate) fn readers(&self) -> usize {
        self.threads("nvml-reader")
    }

    /// Waits until this many threads read GPUs: they come and go with the turn that shows that they are needed, or not.
    pub(crate) fn until_readers(&self, count: usize, what: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.readers() != count {
            assert!(Instant::now() < deadline, "{} threads read GPUs, not {count}: {what}", self.readers());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Number of all its threads.
    pub(crate) fn all_threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().count()
    }

    /// The files of that name part that it has mapped, by inode.
    pub(crate) fn mapped(&self, part: &str) -> BTreeSet<String> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap();
        let inode = |line: &str| line.split_whitespace().nth(4).unwrap().to_owned();
        maps.lines().filter(|line| line.contains(part)).map(inode).collect()
    }

    /// Number of its open descriptors of files whose path has this part.
    pub(crate) fn open(&self, part: &str) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let path = |file: std::io::Result<std::fs::DirEntry>| std::fs::read_link(file.ok()?.path()).ok();
        files.filter_map(path).filter(|path| path.to_string_lossy().contains(part)).count()
    }

    /// Its resident memory.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// The calls that the fake has seen, by its own count.
    pub(crate) fn calls_made(&self, node: &FakeNode) -> u64 {
        _ = std::fs::remove_file(&self.counts);
        node.count().unwrap();
        self.counts().values().sum()
    }

    /// They by name, of a stepped probe.
    pub(crate) fn calls_by_name(&mut self, node: &FakeNode) -> BTreeMap<String, u64> {
        _ = std::fs::remove_file(&self.counts);
        node.count().unwrap();
        self.tell("count");
        self.counts()
    }

    /// The same, as the fake has written it last or does now.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        wait_for(&self.counts);
        serde_json::from_slice(&std::fs::read(&self.counts).unwrap()).unwrap()
    }
}

fn wait_for(file: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while !file.try_exists().unwrap() {
        assert!(Instant::now() < deadline, "{} never came", file.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// One scrape, as text.
pub(crate) struct Scrape(pub(crate) String);

impl Scrape {
    /// Value of the only series of that name that has all of the label pairs.
    pub(crate) fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let start = format!("{name}{{");
        let pairs: Vec<_> = labels.iter().map(|(n, v)| format!("{n}=\"{v}\"")).collect();
        let mut lines = self.0.lines().filter(|l| l.starts_with(&start) && pairs.iter().all(|p| l.contains(p)));
        let value = lines.next()?.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(lines.next().is_none(), "{name} {labels:?} is more than one series");
        Some(value)
    }

    /// Value of the GPU's only series of that name.
    pub(crate) fn of(&self, name: &str, gpu: usize) -> Option<f64> {
        self.get(name, &[("gpu", &gpu.to_string())])
    }

    /// Value of a series without labels.
    pub(crate) fn plain(&self, name: &str) -> Option<f64> {
        self.0.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// State of the GPU of that UUID.
    pub(crate) fn state_of(&self, uuid: &str) -> Option<&str> {
        let uuid = format!("UUID=\"{uuid}\",state=\"");
        let line =
            self.0.lines().find(|l| l.starts_with("goodput_gpu_state{") && l.contains(&uuid) && l.ends_with(" 1"))?;
        line.split(&uuid).nth(1)?.split('"').next()
    }

    pub(crate) fn is(&self, gpu: usize, state: &str) -> bool {
        self.get("goodput_gpu_state", &[("gpu", &gpu.to_string()), ("state", state)]) == Some(1.0)
    }

    pub(crate) fn cycles(&self, gpu: usize) -> f64 {
        self.of("goodput_gpu_read_cycles_total", gpu).unwrap_or(0.0)
    }

    /// Why the collector was not applicable.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.0.lines().find_map(|l| l.strip_prefix("# reason "))
    }
}
