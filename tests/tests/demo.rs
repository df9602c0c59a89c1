//! The demonstration: its history is what a live exporter shows, and the analyzer names what the script does.

#![allow(clippy::unwrap_used, reason = "clippy spares tests, but not the helpers beside them")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use goodput_lab::bin;
use goodput_lab::demo::history::{History, STEP, exporter_args};
use goodput_lab::demo::machine::{Machine, Roots};
use goodput_lab::demo::script::Script;
use goodput_lab::gpu::FakeNvml;
use goodput_lab::process::{Running, free_address, until};
use goodput_tests::browser::Browser;

const HOUR: Duration = Duration::from_secs(3600);

/// The last scrape of a history.
const LAST: &str = "last.txt";

fn roots(dir: &Path) -> Roots {
    let [proc, sys, cgroup, root] = ["proc", "sys", "cgroup", "root"].map(|name| dir.join(name));
    Roots { proc, sys, cgroup, root }
}

/// Not a test: the program that [`the_history`] starts, with the GPUs in its environment.
#[test]
#[ignore = "started by another test"]
fn maker() {
    let dir = PathBuf::from(std::env::var_os("MACHINE").unwrap());
    let now = SystemTime::now();
    // In the afternoon of the fifth day all GPUs but one have a job.
    let machine = Machine::new(&dir, Script::week(now + 46 * HOUR)).unwrap();
    let library = FakeNvml::build().unwrap();
    let mut history = History::begin(machine, library.path(), now - 20 * STEP).unwrap();
    let mut text = String::new();
    for step in (0..=20).rev() {
        text = history.scrape(now - step * STEP).unwrap();
    }
    std::fs::write(dir.join(LAST), text).unwrap();
    history.end().unwrap();
}

/// The last scrape of twenty minutes that end now, on the machine in the folder.
#[allow(clippy::disallowed_methods, reason = "starts the maker in a process of its own")]
fn the_history(dir: &Path) -> Result<String> {
    let made = Command::new(std::env::current_exe()?)
        .args(["--ignored", "--exact", "maker", "--nocapture", "--quiet"])
        .env("MACHINE", dir)
        .env("FAKE_NVML", dir.join("gpus.jsonl"))
        .output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(std::fs::read_to_string(dir.join(LAST))?)
}

/// What the text declares of each family (type, unit and help), and the names of its series' labels.
fn families(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut families: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut family = String::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(declared) = line.strip_prefix("# ") {
            let mut words = declared.splitn(3, ' ');
            let (what, name, text) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or_default());
            name.clone_into(&mut family);
            families.entry(family.clone()).or_default().insert(format!("{what} {text}"));
        } else {
            families.entry(family.clone()).or_default().insert(format!("labels {}", label_names(line)));
        }
    }
    families
}

/// A label's name stands before `="`, behind `{` or a comma; values of the machine hold no such thing.
fn label_names(line: &str) -> String {
    let names = line.split("=\"").map(|before| before.rsplit(['{', ',']).next().unwrap_or_default());
    let count = line.matches("=\"").count();
    names.take(count).collect::<Vec<_>>().join(",")
}

/// Of the twenty minutes, on the first GPU.
fn observes_every_second(text: &str) {
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name) && line.contains("gpu=\"0\""));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).unwrap_or(f64::NAN)
    };
    let observed = value("goodput_gpu_observed_seconds_total");
    assert!((observed - 1200.0).abs() <= 2.0, "{observed} s of 20 minutes");
    assert_eq!((value("goodput_gpu_sample_overruns_total"), value("goodput_gpu_reading_age_seconds")), (0.0, 0.0));
}

#[test]
#[allow(clippy::disallowed_methods, reason = "starts the program under test")]
fn history_has_the_families_labels_types_and_units_of_a_live_scrape() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let text = the_history(dir.path())?;
    observes_every_second(&text);
    let history = families(&text);
    assert!(history.len() > 100, "{} families", history.len());

    let address = free_address()?;
    let mut command = Command::new(bin("goodput-exporter")?);
    command.args(exporter_args(&roots(dir.path()), FakeNvml::build()?.path()));
    command.arg(format!("--web.listen-address={address}")).env("FAKE_NVML", dir.path().join("gpus.jsonl"));
    let mut exporter = Running::start(&mut command, &dir.path().join("exporter.log"))?;
    exporter.until_listens(address)?;
    let mut live = BTreeMap::new();
    // What needs two readings is not there at once.
    let same = until("a scrape like the history's", Duration::from_secs(60), || {
        let request = ureq::get(format!("http://{address}/metrics")).header("Accept", "application/openmetrics-text");
        live = families(&request.call()?.body_mut().read_to_string()?);
        Ok((live == history).then_some(()))
    });
    let only = |one: &BTreeMap<String, BTreeSet<String>>, other: &BTreeMap<String, BTreeSet<String>>| {
        one.iter().filter(|(name, about)| other.get(*name) != Some(about)).map(|f| format!("{f:?}")).collect::<Vec<_>>()
    };
    assert!(same.is_ok(), "history: {:#?}\nlive: {:#?}", only(&history, &live), only(&live, &history));
    Ok(())
}

#[test]
#[allow(clippy::disallowed_methods, reason = "starts the demonstration")]
fn a_fault_of_the_script_is_named_for_its_gpus_and_hours() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let demo = Command::new(bin("goodput-demo")?)
        .arg("--dir")
        .arg(dir.path())
        .arg(format!("--exporter={}", free_address()?))
        .arg(format!("--analyzer={}", free_address()?))
        .args(["--hours=19..23", "--check"])
        .output()?;
    let (said, errors) = (String::from_utf8_lossy(&demo.stdout), String::from_utf8_lossy(&demo.stderr));
    assert!(demo.status.success(), "{said}\n{errors}");
    for gpu in ["0", "1"] {
        let named = |line: &&str| line.split_whitespace().take(2).eq(["dataloader_storage", gpu]);
        assert_eq!(said.lines().filter(named).count(), 1, "{said}");
    }
    Ok(())
}

/// `make demo` with `--once --check`: every fault is named, and no class takes half a percent of capacity that is not
/// scripted. The report of this node is six pages on paper.
#[test]
#[allow(clippy::disallowed_methods, reason = "starts the demonstration")]
fn the_whole_week_is_named_and_nothing_else_of_size_is() -> Result<()> {
    // The machine rewrites its files at every step: in memory that takes half the time.
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory)? } else { tempfile::tempdir()? };
    let data = tempfile::tempdir()?;
    let demo = Command::new(bin("goodput-demo")?)
        .arg("--dir")
        .arg(dir.path())
        .arg(format!("--exporter={}", free_address()?))
        .arg(format!("--analyzer={}", free_address()?))
        .arg(format!("--data-dir={}", data.path().display()))
        .args(["--once", "--check"])
        .output()?;
    let (said, errors) = (String::from_utf8_lossy(&demo.stdout), String::from_utf8_lossy(&demo.stderr));
    assert!(demo.status.success(), "{said}\n{errors}");
    let mut browser = Browser::start(dir.path())?;
    browser.open(&format!("file://{}", data.path().join("report.html").display()))?;
    let pages = browser.printed_pages()?;
    // Of less, something would not be printed.
    assert!((4..=6).contains(&pages), "{pages} pages");
    Ok(())
}
