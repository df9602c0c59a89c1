//! The program under test, and how to talk to it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use goodput_exporter::attribute::Owners;
use goodput_exporter::catalog::dcgm::{Names, ROWS, Selection};
use goodput_exporter::collect::{Context, Dcgm, Done, REGISTRY};
use goodput_exporter::encode::{Format, encode};
use goodput_exporter::family::Families;
use goodput_exporter::source::files::Roots;
use goodput_exporter::source::nvml::Nvml;
use goodput_tests::gpu::{FakeNode, FakeNvml, counts_env};
use tempfile::TempDir;

/// How long a condition may take to come true on a busy machine; none takes longer than a third of it on an idle one.
const PATIENCE: Duration = Duration::from_secs(90);

/// Where the probe finds the path of the library.
const LIBRARY: &str = "PROBE_LIBRARY";

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

/// Not a test: the program that the tests start. Scrapes once per line of its standard input.
#[test]
#[ignore = "started by the other tests"]
fn program() {
    let dcgm = Arc::new(settings());
    let nvml = Nvml::reading(std::env::var_os(LIBRARY).map(Into::into), &dcgm.fields);
    let mut collector = (REGISTRY.iter().find(|e| e.name == "gpu").unwrap().new)();
    for _ in std::io::stdin().lines() {
        let nowhere = || "/nowhere".into();
        let context = Context {
            roots: Arc::new(Roots { proc: nowhere(), sys: nowhere(), cgroup: nowhere(), root: nowhere() }),
            gpus: nvml.snapshot(),
            owners: Arc::new(Owners::default()),
            hostname: "node-1".into(),
            dcgm: dcgm.clone(),
        };
        let mut families = Families::default();
        let done = collector.collect(&context, &mut families).unwrap();
        let mut out = std::io::stdout().lock();
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
    _folder: TempDir,
}

impl Probe {
    pub(crate) fn start(node: &FakeNode) -> Self {
        Self::start_with(node, &[])
    }

    /// One that reads every field of DCGM and writes both spellings.
    pub(crate) fn of_everything(node: &FakeNode) -> Self {
        Self::start_with(node, &[(EVERYTHING, "1")])
    }

    #[allow(clippy::disallowed_methods, reason = "tests run programs; this one is killed when the probe is dropped")]
    fn start_with(node: &FakeNode, settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let counts = folder.path().join("calls.json");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "probe::program", "--nocapture", "--quiet"])
            .env(LIBRARY, FakeNvml::build().unwrap().path())
            .envs([node.env(), counts_env(&counts)])
            .envs(settings.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, counts, _folder: folder }
    }

    pub(crate) fn scrape(&mut self) -> Scrape {
        writeln!(self.input).unwrap();
        let mut text = String::new();
        while !text.ends_with("# EOF\n") {
            assert!(self.output.read_line(&mut text).unwrap() > 0, "the probe ended:\n{text}");
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

    /// The calls that the fake has seen, by its own count.
    pub(crate) fn calls_made(&self, node: &FakeNode) -> u64 {
        _ = std::fs::remove_file(&self.counts);
        node.count().unwrap();
        wait_for(&self.counts);
        let counts: serde_json::Value = serde_json::from_slice(&std::fs::read(&self.counts).unwrap()).unwrap();
        counts.as_object().unwrap().values().filter_map(serde_json::Value::as_u64).sum()
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
