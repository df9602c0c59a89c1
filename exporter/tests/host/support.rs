//! Fixtures, contexts and golden files for the collectors' tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use goodput_exporter::attribute::{Owners, resolve};
use goodput_exporter::collect::{CollectError, Collector, Done};
use goodput_exporter::context::{Context, Nccl};
use goodput_exporter::registry::REGISTRY;
use goodput_exporter::source::files::Roots;
use goodput_exporter::source::left_out::{self, LeftOut};
use goodput_exporter::source::nvml::{Driver, Gpu, Process, Snapshot, Values, Virtualization};
use goodput_exporter::source::xid::Journal;
use goodput_exposition::{Families, Format, encode};

/// A machine's kernel files in a temporary folder, and the GPUs that are said to be in it.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
    gpus: Vec<(String, Vec<u32>)>,
    patterns: Vec<String>,
    /// The driver, as NVML tells it.
    pub(crate) driver: Driver,
    /// What NVML says of every GPU.
    pub(crate) values: Values,
    /// What it says of virtualization.
    pub(crate) virtualization: Virtualization,
    /// What was heard from the kernel log.
    pub(crate) heard: Journal,
}

/// What a collector wrote, and how it ended.
pub(crate) struct Collected {
    pub(crate) families: Families,
    pub(crate) result: Result<Done, CollectError>,
    /// What it could not read and did without.
    pub(crate) left_out: LeftOut,
}

impl Machine {
    /// A machine without any files.
    pub(crate) fn empty() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            gpus: Vec::new(),
            patterns: Vec::new(),
            driver: Driver::default(),
            values: Values::default(),
            virtualization: Virtualization::None,
            heard: Journal::default(),
        }
    }

    /// These parts of a recorded machine; a whole one may be 40,000 files.
    pub(crate) fn recorded(fixture: &str, parts: &[&str]) -> Self {
        let machine = Self::empty();
        machine.unpack(&format!("{fixture}/tree.tar.gz"), "", parts);
        machine
    }

    /// Unpacks parts of an archive of the shared fixtures, or all of it, into a folder of the machine.
    pub(crate) fn unpack(&self, archive: &str, folder: &str, parts: &[&str]) {
        let target = self.path(folder);
        std::fs::create_dir_all(&target).unwrap();
        let parts: Vec<String> = parts.iter().map(|part| format!("./{part}")).collect();
        tar(&shared(archive), &target, &parts);
    }

    /// Unpacks an archive of the shared fixtures without what matches these patterns.
    pub(crate) fn unpack_without(&self, archive: &str, folder: &str, patterns: &[&str]) {
        let target = self.path(folder);
        std::fs::create_dir_all(&target).unwrap();
        let excluded: Vec<String> = patterns.iter().map(|pattern| format!("--exclude={pattern}")).collect();
        tar(&shared(archive), &target, &excluded);
    }

    /// A file or folder of the machine.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Writes one file.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Has a program of the system print this for these arguments.
    pub(crate) fn prints(&self, program: &str, arguments: &str, text: &str) {
        self.write(&format!("output/{program} {arguments}"), text);
        self.program(program);
    }

    /// Puts a program into the machine that prints what is recorded of it: the file `output/NAME ARGUMENTS`.
    pub(crate) fn program(&self, name: &str) {
        let link = self.path("usr/sbin").join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        if !link.is_symlink() {
            let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/program");
            std::os::unix::fs::symlink(program, link).unwrap();
        }
    }

    /// Unpacks node_exporter's sys tree, which is in a format of its own: text files with their paths and line counts.
    pub(crate) fn unpack_ttar(&self, archive: &str) {
        let text = std::fs::read_to_string(shared(archive)).unwrap();
        let mut lines = text.lines();
        let mut path = "";
        while let Some(line) = lines.next() {
            if let Some(name) = line.strip_prefix("Path: ") {
                path = name;
            } else if let Some(folder) = line.strip_prefix("Directory: ") {
                std::fs::create_dir_all(self.path(folder)).unwrap();
            } else if let Some(target) = line.strip_prefix("SymlinkTo: ") {
                std::fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(target, self.path(path)).unwrap();
            } else if let Some(count) = line.strip_prefix("Lines: ") {
                let content: Vec<&str> = lines.by_ref().take(count.parse().unwrap()).collect();
                self.write(path, &(content.join("\n").trim_end_matches("EOF").to_owned() + "\n"));
            }
        }
    }

    /// Makes a link to a device's folder below `/sys/devices`, and the folder.
    pub(crate) fn slot(&self, link: &str, path: &str) {
        std::fs::create_dir_all(self.path("sys/devices").join(path)).unwrap();
        let link_path = self.path(link);
        std::fs::create_dir_all(link_path.parent().unwrap()).unwrap();
        if !link_path.is_symlink() {
            let up = "../".repeat(link.matches('/').count() - 1);
            std::os::unix::fs::symlink(format!("{up}devices/{path}"), link_path).unwrap();
        }
    }

    /// Makes a file unreadable, for root too: a setting of this kernel that can only be written.
    pub(crate) fn deny(&self, path: &str) {
        let path = self.path(path);
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink("/proc/sys/vm/compact_memory", path).unwrap();
    }

    /// Adds a GPU at a PCI address, as NVML prints it, with these processes on it.
    pub(crate) fn gpu(&mut self, pci_bus_id: &str, pids: &[u32]) {
        self.gpus.push((pci_bus_id.to_owned(), pids.to_vec()));
    }

    /// Adds a pattern of cgroups to read.
    pub(crate) fn pattern(&mut self, pattern: &str) {
        self.patterns.push(pattern.to_owned());
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots {
            proc: self.path("proc"),
            sys: self.path("sys"),
            cgroup: self.path("sys/fs/cgroup"),
            root: self.path(""),
            programs: Some(self.path("usr/sbin")),
        }
    }

    pub(crate) fn owners(&self) -> Owners {
        let mut owners = resolve(&self.roots(), &self.snapshot());
        owners.add_matching(&self.roots(), &self.patterns);
        owners
    }

    /// Runs a new collector of the registry.
    pub(crate) fn collect(&self, name: &str) -> Collected {
        self.collect_with(collector(name).as_mut())
    }

    /// Runs a collector that may have run before.
    pub(crate) fn collect_with(&self, collector: &mut dyn Collector) -> Collected {
        self.collect_at(collector, Instant::now())
    }

    /// As `collect_with`, at a moment of the readers' clock.
    pub(crate) fn collect_at(&self, collector: &mut dyn Collector, at: Instant) -> Collected {
        let mut families = Families::default();
        let gpus = Arc::new(Snapshot { at, ..self.snapshot() });
        let result = collector.collect(&Context { gpus, ..self.context() }, &mut families);
        Collected { families, result, left_out: left_out::take() }
    }

    /// Runs a collector over these owners.
    pub(crate) fn collect_of(&self, collector: &mut dyn Collector, owners: Owners, gpus: Snapshot) -> Collected {
        let context = Context { owners: Arc::new(owners), gpus: Arc::new(gpus), ..self.context() };
        let mut families = Families::default();
        let result = collector.collect(&context, &mut families);
        Collected { families, result, left_out: left_out::take() }
    }

    /// What collectors and the audit look at.
    pub(crate) fn context(&self) -> Context {
        Context {
            roots: Arc::new(self.roots()),
            common: Arc::default(),
            gpus: Arc::new(self.snapshot()),
            owners: Arc::new(self.owners()),
            hostname: "node-1".into(),
            dcgm: Arc::default(),
            nccl: Arc::new(Nccl { folders: vec![format!("{}/*", self.path("run/nccl").display())], has_names: true }),
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let values = Arc::new(self.values.clone());
        let gpus = self.gpus.iter().enumerate();
        let gpus = gpus
            .map(|(index, (bus_id, pids))| Gpu {
                values: Arc::clone(&values),
                virtualization: Ok(self.virtualization),
                ..gpu(index, bus_id, pids)
            })
            .collect();
        Snapshot { gpus, driver: self.driver.clone(), xids: self.heard.clone(), ..Snapshot::default() }
    }
}

/// A new collector of the registry.
pub(crate) fn collector(name: &str) -> Box<dyn Collector> {
    let entry = REGISTRY.iter().find(|entry| entry.name == name).unwrap();
    (entry.new)()
}

/// One GPU with these processes on it, and who owns them.
pub(crate) fn owners_and_gpus(roots: &Roots, pids: &[u32]) -> (Owners, Snapshot) {
    let snapshot = Snapshot { gpus: vec![gpu(0, "00000000:1A:00.0", pids)], ..Snapshot::default() };
    (resolve(roots, &snapshot), snapshot)
}

fn gpu(index: usize, pci_bus_id: &str, pids: &[u32]) -> Gpu {
    Gpu {
        index: index as u32,
        uuid: format!("GPU-{index}"),
        pci_bus_id: pci_bus_id.to_owned(),
        processes: Ok(pids.iter().map(|pid| Process { pid: *pid, ..Process::default() }).collect()),
        ..Gpu::default()
    }
}

impl Collected {
    /// The first thing that was left out.
    pub(crate) fn left(&self) -> String {
        self.left_out.errors.first().map(ToString::to_string).unwrap_or_default()
    }

    /// The samples by their line up to the value, as in `name{label="value"}`.
    pub(crate) fn samples(&self) -> BTreeMap<String, f64> {
        let text = encode(&self.families, Format::Text);
        let samples = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        });
        samples.collect()
    }

    /// The value of one series.
    #[track_caller]
    pub(crate) fn value(&self, series: &str) -> f64 {
        let samples = self.samples();
        *samples.get(series).unwrap_or_else(|| panic!("no {series} among {:#?}", samples.keys()))
    }

    /// How many series of one metric there are.
    pub(crate) fn count(&self, metric: &str) -> usize {
        self.samples().keys().filter(|series| series.split('{').next() == Some(metric)).count()
    }

    /// Asserts that it ended well.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!(matches!(self.result, Ok(Done::Ok)), "{:?}", self.result);
        self
    }

    /// Compares the text with a file of the collector's folder, or rewrites that when `UPDATE_GOLDEN` is set.
    #[track_caller]
    pub(crate) fn golden(&self, name: &str) {
        golden(&format!("{name}.prom"), &encode(&self.families, Format::Text));
    }
}

/// The folders of the collectors, each of its collector's name.
pub(crate) fn folders() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/collectors")
}

/// Compares a text with a file of a collector's folder, or rewrites that when `UPDATE_GOLDEN` is set.
#[track_caller]
pub(crate) fn golden(name: &str, text: &str) {
    let path = folders().join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((at, (new, old))) = text.lines().zip(golden.lines()).enumerate().find(|(_, (new, old))| new != old) {
        panic!("{}: line {}: golden {old:?}, now {new:?}; UPDATE_GOLDEN=1 rewrites", path.display(), at + 1);
    }
    assert_eq!(text.lines().count(), golden.lines().count(), "{}: UPDATE_GOLDEN=1 rewrites", path.display());
}

/// Every row a collector may write.
pub(crate) fn rows_of(collector: &str) -> Vec<&'static str> {
    goodput_catalog::all().filter(|row| row.collector == collector).map(|row| row.name).collect()
}

/// Expected facts of a fixture, computed by an independent reader.
pub(crate) fn facts(fixture: &str) -> serde_json::Value {
    let path = shared(&format!("{fixture}/facts.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What node_exporter says of its own fixtures, by series.
pub(crate) fn oracle() -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(shared("node-exporter-e2e/e2e-output.txt")).unwrap();
    let samples = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        (series.to_owned(), value.parse().unwrap())
    });
    samples.collect()
}

/// A file of the shared fixtures, which lie next to the repository.
pub(crate) fn shared(path: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures");
    assert!(
        fixtures.is_dir(),
        "the shared fixtures are not at {}: this test reads recorded machines",
        fixtures.display()
    );
    fixtures.join(path)
}

#[allow(clippy::disallowed_methods, reason = "tests may run programs")]
fn tar(archive: &Path, target: &Path, arguments: &[String]) {
    let mut tar = std::process::Command::new("tar");
    tar.arg("-xzf").arg(archive).arg("--no-same-owner").arg("-C").arg(target).args(arguments);
    let status = tar.status().unwrap();
    assert!(status.success(), "tar could not unpack {}", archive.display());
}
