//! The folder of a collector, `tests/fixtures/collectors/NAME`: a small machine (`tree.txt`), what has changed on it a
//! minute later (`later.txt`, for what counts between scrapes), and what the collector writes of it then (`golden.prom`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use goodput_exporter::collect::Entry;
use goodput_exporter::registry::REGISTRY;
use goodput_exposition::{Format, encode};

use crate::support::{Machine, collector, folders};

/// Scrapes that wait for an answer: more than a slow machine needs.
const TRIES: usize = 1_000_000;

/// The collectors that read NVML. Their fixture is the fake driver (`tests/fake-nvml`), their golden
/// `tests/tests/gpu/parity.csv`.
pub(crate) const OF_NVML: [&str; 1] = ["gpu"];

/// The collectors that read files of the kernel, or of daemons.
pub(crate) fn of_kernel() -> impl Iterator<Item = &'static Entry> {
    REGISTRY.iter().filter(|entry| !OF_NVML.contains(&entry.name))
}

/// A file of the machine, and what is done to it.
#[derive(Clone, Debug)]
pub(crate) enum File {
    Text(String),
    /// It is not there.
    Absent,
    /// Its read fails, as that of an offline CPU's file does.
    Folder,
    /// It may not be read.
    Denied,
}

/// What two scrapes of the machine gave.
pub(crate) struct Run {
    /// The series of the second one, with their values.
    pub(crate) series: BTreeMap<String, f64>,
    /// All that either named.
    pub(crate) named: Vec<String>,
    /// The second one's text.
    pub(crate) text: String,
}

impl Run {
    /// Names of the metrics that have series.
    pub(crate) fn families(&self) -> BTreeSet<&str> {
        self.series.keys().filter_map(|series| series.split('{').next()).collect()
    }

    /// The series that another run does not have, or not with this value.
    pub(crate) fn not_in(&self, other: &Run) -> BTreeSet<&str> {
        let lost = self.series.iter().filter(|(series, value)| other.series.get(*series) != Some(*value));
        lost.map(|(series, _)| series.as_str()).collect()
    }
}

/// The machine of a collector's folder.
pub(crate) struct Fixture {
    pub(crate) name: &'static str,
    machine: Machine,
    /// Path and text of every file.
    pub(crate) files: Vec<(String, String)>,
    later: Vec<(String, String)>,
}

impl Fixture {
    /// Reads the folder of the collector.
    #[track_caller]
    pub(crate) fn of(name: &'static str) -> Self {
        let folder = folders().join(name);
        let tree = fs::read_to_string(folder.join("tree.txt")).unwrap_or_else(|error| {
            panic!(
                "collector {name}: no fixture: {error}: {}/tree.txt has to hold the files of a small machine on which \
                 the collector writes all of its rows; the README.md beside the folder says how",
                folder.display()
            )
        });
        let later = fs::read_to_string(folder.join("later.txt")).unwrap_or_default();
        let mut machine = Machine::empty();
        let (head, _) = tree.split_once("==> ").unwrap();
        for line in head.lines() {
            let mut words = line.split(' ').skip(1);
            let address = words.next().unwrap();
            machine.gpu(address, &words.map(|pid| pid.parse().unwrap()).collect::<Vec<_>>());
        }
        let mut all = Vec::new();
        for (path, text) in files(&tree) {
            match path.split_once(" -> ") {
                Some((link, target)) => {
                    fs::create_dir_all(machine.path(link).parent().unwrap()).unwrap();
                    std::os::unix::fs::symlink(target, machine.path(link)).unwrap();
                }
                None if path.ends_with('/') => fs::create_dir_all(machine.path(path)).unwrap(),
                None => all.push((path.to_owned(), text.to_owned())),
            }
        }
        let later = files(&later).map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
        all.iter().for_each(|(path, text)| machine.write(path, text));
        let programs = all.iter().filter_map(|(path, _)| path.strip_prefix("output/")?.split(' ').next());
        programs.for_each(|name| machine.program(name));
        Self { name, machine, files: all, later }
    }

    /// Scrapes it twice, a minute apart.
    pub(crate) fn run(&self) -> Run {
        self.run_with("", |_| unreachable!("there is no such file"))
    }

    /// As [`Fixture::run`], with this done to a file whenever it is written.
    pub(crate) fn run_with(&self, path: &str, change: impl Fn(&str) -> File) -> Run {
        self.files.iter().filter(|(file, _)| file == path).for_each(|(_, text)| self.put(path, change(text)));
        let (mut collector, begin) = (collector(self.name), Instant::now());
        let mut scrape = |at| {
            let collected = self.machine.collect_at(collector.as_mut(), at);
            let named = collected.left_out.errors.iter().map(ToString::to_string);
            let failed = collected.result.as_ref().err().map(ToString::to_string);
            (named.chain(failed).collect::<Vec<_>>(), encode(&collected.families, Format::Text))
        };
        let (mut named, text) = scrape(begin);
        // A collector with a thread of its own shows an answer once it is there.
        let reads_beside = self.name == "nccl";
        if reads_beside && !text.contains("goodput_nccl_files") {
            let answered = (0..TRIES).map(|_| scrape(begin)).find(|(_, text)| text.contains("goodput_nccl_files"));
            named.extend(answered.unwrap().0);
        }
        for (file, text) in &self.later {
            self.put(file, if file == path { change(text) } else { File::Text(text.clone()) });
        }
        let (also, mut text) = scrape(begin + Duration::from_secs(60));
        named.extend(also);
        if reads_beside {
            // By then it fails for want of an answer to the question of that scrape, until there is one.
            let late = begin + Duration::from_secs(60 + 120);
            let is_answered =
                |(named, _): &(Vec<String>, String)| !named.iter().any(|error| error.contains("not read for"));
            let answered = (0..TRIES).map(|_| scrape(late)).find(is_answered).unwrap();
            named.extend(answered.0);
            text = answered.1;
        }
        // As it was, for the next run.
        let was_later = |file: &String| self.later.iter().any(|(later, _)| later == file);
        let written = self.files.iter().filter(|(file, _)| file == path || was_later(file));
        written.for_each(|(file, text)| self.put(file, File::Text(text.clone())));
        Run { series: series(self.name, &text), named, text }
    }

    fn put(&self, path: &str, file: File) {
        let full = self.machine.path(path);
        if full.is_dir() {
            fs::remove_dir(&full).unwrap();
        } else if !matches!(file, File::Text(_)) || full.is_symlink() {
            let _ = fs::remove_file(&full);
        }
        match file {
            File::Text(text) => fs::write(full, text).unwrap(),
            File::Absent => {}
            File::Folder => fs::create_dir(full).unwrap(),
            File::Denied => self.machine.deny(path),
        }
    }
}

/// `==> PATH` begins each file of a tree.
fn files(tree: &str) -> impl Iterator<Item = (&str, &str)> {
    tree.split("==> ").skip(1).filter_map(|file| file.split_once('\n'))
}

/// The samples of a text, in which none may stand twice.
fn series(name: &str, text: &str) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let twice = all.insert(series.to_owned(), value.parse().unwrap());
        assert!(twice.is_none(), "collector {name}: {series} twice");
    }
    all
}
