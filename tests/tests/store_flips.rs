//! One flipped byte anywhere in a data directory, or `segments/` away at one start: what is damaged is noticed and named,
//! what is sound is kept and served.
//!
//! `GOODPUT_FLIPS` is how many bytes are flipped, each in a copy of its own (10 unless set). `GOODPUT_SEED` chooses them.

#![allow(clippy::print_stdout, reason = "the share of flips without effect is a result")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test, in helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use goodput_exposition::sample::{Labels, TimeMs};
use goodput_lab::bin;
use goodput_lab::process::until;
use goodput_lab::remote_write::{TimeSeries, send};
use goodput_store::{Directory, ReadVerdicts, Selection, Snapshot, Verdicts, wall_clock};
use goodput_tests::programs::Analyzer;

/// Small heads make several segments, and segments above half of so few bytes are not merged: a file that is there once
/// stays as it is.
const CONFIG: &str = "store: {head_bytes: 8192, segment_bytes: 1024}\n";
const HOUR_MS: TimeMs = 3_600_000;
const STEP_MS: TimeMs = 30_000;
const PATIENCE: Duration = Duration::from_secs(180);
/// Characters of a failure that are shown.
const SHOWN: usize = 1000;

/// Whole numbers from a seed.
struct Random(u64);

impl Random {
    /// Anything below the bound (SplitMix64).
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Everything that users see of the hours that samples were sent for.
#[derive(PartialEq)]
struct Held {
    samples: BTreeMap<Labels, Vec<(TimeMs, u64)>>,
    verdicts: Verdicts,
}

/// A data directory after `kill -9`: segments, write-ahead, verdicts and events.
struct Master {
    dir: tempfile::TempDir,
    hours: Range<TimeMs>,
    held: Held,
}

/// What became of a flip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The start was refused, with the file and a command.
    Refused,
    /// Said in the log, by `store verify` or on `/state`.
    Noticed,
    /// All samples, verdicts and events are as before.
    WithoutEffect,
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn data(dir: &Path) -> PathBuf {
    dir.join("analyzer")
}

fn is_judged(analyzer: &Analyzer) -> Result<Option<()>> {
    let until = analyzer.metric("goodput_analyzer_judged_timestamp_seconds")?.unwrap_or(0.0);
    let failed = analyzer.metric("goodput_analyzer_judge_failures_total")?.unwrap_or(0.0);
    Ok((until > wall_clock() as f64 / 1000.0 - 300.0 || failed > 0.0).then_some(()))
}

impl Master {
    fn make() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let end = wall_clock().div_euclid(HOUR_MS) * HOUR_MS - HOUR_MS;
        let hours = end - 4 * HOUR_MS..end;
        let analyzer = Analyzer::start_with(dir.path(), CONFIG).unwrap();
        until("the first round", PATIENCE, || is_judged(&analyzer)).unwrap();
        for part in 0..8 {
            let times =
                (hours.start + part * HOUR_MS / 2..hours.start + (part + 1) * HOUR_MS / 2).step_by(STEP_MS as usize);
            assert_eq!(send(analyzer.address, gpus(times.collect())).unwrap(), 204);
        }
        send_events(&analyzer, hours.start);
        let enough = || Ok((analyzer.metric("goodput_analyzer_store_segments")? >= Some(3.0)).then_some(()));
        until("three segments", PATIENCE, enough).unwrap();
        let judged = || Ok((!verdicts(&data(dir.path()), &hours)?.intervals.is_empty()).then_some(()));
        until("verdicts", PATIENCE, judged).unwrap();
        // A clean end puts the journal into goodput.db; the second life's verdicts and samples stay in the journal.
        assert!(analyzer.running.terminate().unwrap().success());
        let analyzer = Analyzer::start_with(dir.path(), CONFIG).unwrap();
        until("the second life's round", PATIENCE, || is_judged(&analyzer)).unwrap();
        assert_eq!(send(analyzer.address, gpus(vec![hours.end - STEP_MS / 2])).unwrap(), 204);
        until("the last samples' verdicts", PATIENCE, || is_judged(&analyzer)).unwrap();
        analyzer.running.kill().unwrap();
        let held = held(&data(dir.path()), &hours).unwrap();
        assert!(held.samples.len() >= 4 && held.verdicts.intervals.len() >= 8, "too little to be damaged");
        assert!(!held.verdicts.history.events.is_empty() && segments(&data(dir.path())).len() >= 3);
        Self { dir, hours, held }
    }

    fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_tree(&data(self.dir.path()), &data(copy.path()));
        copy
    }

    /// Every file of some length, but those that were set aside.
    fn files(&self) -> Vec<(PathBuf, u64)> {
        let root = data(self.dir.path());
        let mut files: Vec<_> = tree(&root)
            .into_iter()
            .map(|path| (path.strip_prefix(&root).unwrap().to_owned(), fs::metadata(&path).unwrap().len()))
            .filter(|(path, length)| *length > 0 && !path.starts_with("quarantine"))
            .collect();
        files.sort();
        files
    }

    /// What becomes of a copy in which this byte is another.
    fn flip(&self, file: &Path, offset: u64, bit: u8) -> Result<Outcome> {
        let copy = self.copy();
        let path = data(copy.path()).join(file);
        let mut bytes = fs::read(&path)?;
        *bytes.get_mut(offset as usize).context("offset")? ^= 1 << bit;
        fs::write(path, bytes)?;
        self.outcome(&copy, file)
    }

    /// What a start makes of a copy with this file damaged.
    fn outcome(&self, copy: &tempfile::TempDir, file: &Path) -> Result<Outcome> {
        let dir = data(copy.path());
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let started = Analyzer::start_with(copy.path(), CONFIG).and_then(|mut analyzer| {
            // It listens before the store is open.
            until("a round", PATIENCE, || {
                analyzer.running.goes_on()?;
                Ok(is_judged(&analyzer).unwrap_or_default())
            })?;
            Ok(analyzer)
        });
        let analyzer = match started {
            Ok(analyzer) => analyzer,
            Err(error) => {
                let said = format!("{error:#}");
                let names = said.contains(&name) || said.contains("goodput.db");
                ensure!(names && said.contains("goodput-analyzer store"), "refused without file and command: {said}");
                self.is_kept(&dir, file)?;
                return Ok(Outcome::Refused);
            }
        };
        for path in ["/", "/state", "/report", "/api/v1/health"] {
            analyzer.get(path).with_context(|| format!("{path}; log: {}", analyzer.running.log_text()))?;
        }
        let health: serde_json::Value = serde_json::from_str(&analyzer.get("/api/v1/health")?)?;
        let conditions = health["conditions"].as_array().context("conditions")?;
        let told = |name: &str| conditions.iter().any(|c| c["name"] == name && c["active"] == true);
        let on_state = ["quarantined", "bad_rows", "unknown_files", "missing_samples"].into_iter().any(told);
        let log = analyzer.running.log_text();
        analyzer.running.terminate()?;
        self.is_kept(&dir, file)?;
        let verified = verify(&dir);
        let in_log = log.lines().any(|line| line.contains(" WARN ") || line.contains("ERROR"));
        if on_state || in_log || verified.is_err() {
            return Ok(Outcome::Noticed);
        }
        ensure!(held(&dir, &self.hours)? == self.held, "samples or verdicts differ and nothing says so");
        Ok(Outcome::WithoutEffect)
    }

    /// Every segment but the damaged one is in `segments/`, `quarantine/` or `unknown/`, byte for byte.
    fn is_kept(&self, dir: &Path, damaged: &Path) -> Result<()> {
        let there: Vec<Vec<u8>> = ["segments", "quarantine", "unknown"]
            .into_iter()
            .flat_map(|folder| tree(&dir.join(folder)))
            .map(fs::read)
            .collect::<Result<_, _>>()?;
        for path in segments(&data(self.dir.path())) {
            let name = path.strip_prefix(data(self.dir.path()))?;
            let bytes = fs::read(&path)?;
            ensure!(name == damaged || there.contains(&bytes), "the sound segment {} is lost", name.display());
        }
        Ok(())
    }
}

#[test]
fn a_flipped_byte_is_noticed_and_costs_no_sound_file() {
    let (flips, seed) = (number("GOODPUT_FLIPS", 10), number("GOODPUT_SEED", 1));
    let (master, mut random) = (Master::make(), Random(seed));
    let files = master.files();
    let control = master.outcome(&master.copy(), Path::new("")).unwrap();
    assert_eq!(control, Outcome::WithoutEffect, "a sound directory");
    let (mut outcomes, mut failures) = (BTreeMap::<(String, Outcome), u32>::new(), Vec::new());
    for flip in 0..flips {
        // Every second one by files, so that small ones have their share; the others by bytes.
        let all: u64 = files.iter().map(|(_, length)| length).sum();
        let mut place = if flip % 2 == 0 { 0 } else { random.below(all) };
        let by_bytes = files.iter().find(|(_, length)| {
            let found = place < *length;
            place = if found { place } else { place - length };
            found
        });
        let (file, length) = match flip % 2 {
            0 => &files[random.below(files.len() as u64) as usize],
            _ => by_bytes.unwrap(),
        };
        let offset = if flip % 2 == 0 { random.below(*length) } else { place };
        let bit = random.below(8) as u8;
        let kind = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(file);
        match master.flip(file, offset, bit) {
            Ok(outcome) => *outcomes.entry((kind.display().to_string(), outcome)).or_default() += 1,
            Err(error) => {
                let what = format!("flip {flip}: byte {offset}, bit {bit} of {}: {error:#}", file.display());
                failures.push(what.chars().take(SHOWN).collect::<String>());
            }
        }
    }
    println!("{flips} flips, seed {seed}: {outcomes:?}");
    assert!(
        failures.is_empty(),
        "GOODPUT_SEED={seed} GOODPUT_FLIPS={flips}: {} of {flips} fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn segments_that_are_away_at_one_start_are_back_at_the_next() {
    let master = Master::make();
    let copy = master.copy();
    let dir = data(copy.path());
    let (home, away) = (dir.join("segments"), copy.path().join("away"));
    fs::rename(&home, &away).unwrap();
    // The start may be refused, also when it listens already.
    if let Ok(mut analyzer) = Analyzer::start_with(copy.path(), CONFIG) {
        let judged = until("a round, or the end", PATIENCE, || {
            analyzer.running.goes_on()?;
            Ok(is_judged(&analyzer).unwrap_or_default())
        });
        if judged.is_ok() {
            analyzer.running.terminate().unwrap();
        }
    }
    // What a volume is mounted over is out of sight.
    if home.try_exists().unwrap() {
        fs::rename(&home, copy.path().join("below")).unwrap();
    }
    fs::rename(&away, &home).unwrap();
    let analyzer = Analyzer::start_with(copy.path(), CONFIG).unwrap();
    until("a round", PATIENCE, || is_judged(&analyzer)).unwrap();
    analyzer.running.terminate().unwrap();
    master.is_kept(&dir, Path::new("")).unwrap();
    let held = held(&dir, &master.hours).unwrap();
    assert!(held.samples == master.held.samples, "samples are lost");
    assert!(held.verdicts == master.held.verdicts, "verdicts have changed");
    verify(&dir).unwrap();
}

/// Two metrics of two GPUs.
fn gpus(times: Vec<TimeMs>) -> Vec<TimeSeries> {
    let series = |gpu: usize, metric: &str, value: f64| {
        let (uuid, gpu) = (format!("GPU-{gpu}"), gpu.to_string());
        let labels =
            [("__name__", metric), ("UUID", &uuid), ("gpu", &gpu), ("Hostname", "n1"), ("instance", "n1:9400")];
        let labels = [&labels[..], &[("job", "dcgm"), ("exported_pod", "train")]].concat();
        // Noise, so that values take room in segments.
        let at = |time: &TimeMs| (*time, value + (time.wrapping_mul(2_654_435_761) >> 7 & 0xff) as f64 / 64.0);
        TimeSeries::new(&labels, times.iter().map(at).collect::<Vec<_>>())
    };
    let of = |gpu| [series(gpu, "DCGM_FI_DEV_GPU_UTIL", 90.0), series(gpu, "DCGM_FI_DEV_POWER_USAGE", 500.0)];
    (0..2).flat_map(of).collect()
}

fn send_events(analyzer: &Analyzer, start: TimeMs) {
    let show = |time| jiff::Timestamp::from_millisecond(time).unwrap().to_string();
    let events = serde_json::json!([
        {"id": "a", "time": show(start + 60_000), "run": "r", "attempt": 0, "rank": 0, "kind": "start",
         "labels": {"node": "n1"}},
        {"id": "b", "time": show(start + HOUR_MS), "run": "r", "attempt": 0, "rank": 0, "kind": "checkpoint", "step": 7,
         "seconds": 30, "labels": {"node": "n1"}},
    ]);
    let answer = ureq::post(format!("http://{}/api/v1/events", analyzer.address))
        .header("content-type", "application/json")
        .send(events.to_string());
    answer.unwrap();
}

fn held(dir: &Path, hours: &Range<TimeMs>) -> Result<Held> {
    let runtime = tokio::runtime::Runtime::new()?;
    let snapshot = runtime.block_on(Snapshot::take(dir, hours))?;
    let series = snapshot.select(&Selection { range: hours.clone(), ..Selection::default() })?;
    let bits = |samples: Vec<goodput_exposition::sample::Sample>| {
        samples.into_iter().map(|sample| (sample.time_ms, sample.value.to_bits())).collect()
    };
    let samples = series.into_iter().map(|series| (series.labels, bits(series.samples))).collect();
    Ok(Held { samples, verdicts: verdicts(dir, hours)? })
}

fn verdicts(dir: &Path, hours: &Range<TimeMs>) -> Result<Verdicts> {
    Ok(tokio::runtime::Runtime::new()?.block_on(Directory::new(dir).verdicts(hours.clone()))?)
}

/// Everything that is wrong is an error.
#[allow(clippy::disallowed_methods, reason = "starts the program under test")]
fn verify(dir: &Path) -> Result<()> {
    let output = Command::new(bin("goodput-analyzer")?).args(["store", "verify", "--data.dir"]).arg(dir).output()?;
    if output.status.success() {
        return Ok(());
    }
    bail!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    tree(&dir.join("segments"))
}

/// All files below a folder; none where there is no such folder.
fn tree(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { tree(&path) } else { vec![path] }).collect()
}

fn copy_tree(from: &Path, to: &Path) {
    for path in tree(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&path, target).unwrap();
    }
}
