//! Every return code of NVML for every call that the reader makes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use goodput_lab::gpu::{Calls, FakeNode, NodeSpec};
use serde_json::json;
use tempfile::TempDir;

use super::probe::{Probe, Scrape};

/// The codes of `nvml.h`, `NVML_ERROR_UNKNOWN`, and one that no header knows.
fn codes() -> impl Iterator<Item = u32> {
    (1..=29).chain([999, 4242])
}

/// The code that says no more than that there is no such value.
const NOT_SUPPORTED: u32 = 3;

/// Those at which the library is reloaded, for all GPUs: not initialised, no driver, another version.
const RELOADING: [u32; 3] = [1, 9, 18];

/// Those that are believed until the library is reloaded: not supported, no such function, another version of a struct,
/// deprecated.
const FINAL: [u32; 4] = [3, 13, 25, 26];

/// Longer than all pauses and cadences of the reader.
const STEP: Duration = Duration::from_secs(61);

/// GPU with the faults; the other must not notice.
const FAULTY: usize = 1;

/// Two busy GPUs, so that almost no reading is zero.
fn node() -> (TempDir, FakeNode) {
    let folder = tempfile::tempdir().unwrap();
    let node = FakeNode::new(folder.path(), &NodeSpec::h100(2)).unwrap();
    for gpu in 0..2 {
        node.process(gpu, 4711, 1 << 30).unwrap();
        node.append(&json!({"busy": {"gpu": gpu, "from_us": 0, "to_us": 4_000_000_000_000_000_u64}})).unwrap();
        for reading in ["pcie_replays", "ecc_corrected_volatile", "remapped_correctable", "recovery_action"] {
            node.append(&json!({"set": {"gpu": gpu, "at_us": 0, "reading": reading, "value": 2}})).unwrap();
        }
    }
    (folder, node)
}

/// Value by series; whatever is not a line of a finite number ends the test.
fn series(scrape: &Scrape) -> BTreeMap<&str, f64> {
    let lines = scrape.0.lines().filter(|line| !line.starts_with('#'));
    let parsed = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        assert!(value.is_finite() && value >= 0.0, "{line}");
        (name, value)
    });
    parsed.collect()
}

/// Names of what a scrape has about a GPU.
fn families(scrape: &Scrape, gpu: usize) -> BTreeSet<String> {
    let label = format!("{{gpu=\"{gpu}\"");
    series(scrape).into_keys().filter_map(|name| Some(name.split_once(&label)?.0.to_owned())).collect()
}

/// Totals of our own, which go on whatever the driver does.
fn is_own_total(series: &str) -> bool {
    series.starts_with("goodput_gpu_") && series.contains("_total{") && !RESTARTED.iter().any(|r| series.starts_with(r))
}

/// What the driver counts from zero when it is loaded again.
const RESTARTED: [&str; 2] = ["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "goodput_gpu_nvlink_bytes_total"];

/// Zero is an answer of theirs.
const MAY_BE_ZERO: [&str; 5] = [
    "goodput_gpu_state",
    "goodput_gpu_driver_up",
    "goodput_gpu_reading_age_seconds",
    "goodput_gpu_xid_channel_state",
    "goodput_gpu_xid_watched",
];

/// Is it about one GPU? The others answer for all.
fn of_one_gpu(call: &str) -> bool {
    let device = call.starts_with("nvmlDevice") && !call.starts_with("nvmlDeviceGetCount");
    device || call.starts_with("field:") || ["nvmlGpmQueryDeviceSupport", "nvmlGpmSampleGet"].contains(&call)
}

/// One call, answering each code in turn.
struct Row<'a> {
    call: &'a str,
    calls: Calls,
    node: FakeNode,
    probe: Probe,
    at: SystemTime,
    /// When all is well.
    whole: Scrape,
    /// What the faulty GPU still has when the call is not supported.
    unsupported: BTreeSet<String>,
    _folder: TempDir,
}

impl<'a> Row<'a> {
    fn new(call: &'a str) -> Self {
        let (folder, node) = node();
        let probe = Probe::stepped(&node);
        let calls = Calls::all().named(call);
        let calls = if of_one_gpu(call) { calls.on(FAULTY) } else { calls };
        let (whole, unsupported) = (Scrape(String::new()), BTreeSet::new());
        let mut row = Self { call, calls, at: SystemTime::now(), node, probe, whole, unsupported, _folder: folder };
        row.step();
        row.whole = row.step();
        row
    }

    /// Fails the call while the GPUs are opened, and while they are read.
    fn cells(&mut self, code: u32) {
        self.node.unload().unwrap();
        self.step();
        self.node.fault(&self.calls, code).unwrap();
        self.load();
        self.during(code, "opened");
        self.heal(code);
        self.node.fault(&self.calls, code).unwrap();
        self.during(code, "read");
        self.heal(code);
    }

    /// Time goes on for driver and reader.
    fn step(&mut self) -> Scrape {
        self.at += STEP;
        self.node.fix_clock(self.at).unwrap();
        self.probe.tell("step 61")
    }

    /// Loads the driver, by its own clock.
    fn load(&self) {
        let at_us = self.at.duration_since(UNIX_EPOCH).unwrap().as_micros();
        self.node.append(&json!({"load": {"at_us": u64::try_from(at_us).unwrap()}})).unwrap();
    }

    fn during(&mut self, code: u32, when: &str) {
        // Where GPM needs a pair of samples, the second step has one.
        self.step();
        let scrape = self.step();
        let what = format!("{} answers {code} while GPUs are {when}:\n{}", self.call, scrape.0);
        let whole = series(&self.whole);
        for (name, value) in series(&scrape) {
            let before = whole.get(name).copied().unwrap_or_default();
            let may_be_zero = MAY_BE_ZERO.iter().chain(&RESTARTED).any(|family| name.starts_with(family));
            assert!(value > 0.0 || before == 0.0 || may_be_zero, "{name} became {value}\n{what}");
            assert!(value >= before || !is_own_total(name), "{name} fell from {before} to {value}\n{what}");
        }
        if code == NOT_SUPPORTED && when == "opened" && scrape.is(FAULTY, "ok") {
            self.unsupported = families(&scrape, FAULTY);
        }
        if scrape.is(FAULTY, "ok") {
            let gone = &self.unsupported - &families(&scrape, FAULTY);
            assert!(gone.is_empty(), "{gone:?} went too\n{what}");
        }
        if of_one_gpu(self.call) && !RELOADING.contains(&code) {
            let gone = &families(&self.whole, 0) - &families(&scrape, 0);
            assert!(scrape.is(0, "ok") && gone.is_empty(), "the other GPU lost {gone:?}\n{what}");
        }
    }

    fn heal(&mut self, code: u32) {
        self.node.clear(&self.calls).unwrap();
        if FINAL.contains(&code) {
            self.node.unload().unwrap();
            self.step();
            self.load();
        }
        let whole = families(&self.whole, FAULTY);
        let mut healed = |_| {
            let scrape = self.step();
            (0..2).all(|gpu| scrape.is(gpu, "ok")) && whole.is_subset(&families(&scrape, FAULTY))
        };
        assert!(
            (0..5).any(&mut healed),
            "{} has answered {code}, and does not heal:\n{}",
            self.call,
            self.probe.scrape().0
        );
    }
}

/// What the reader calls, by what the fake has seen, and all single values of its batched call.
fn calls() -> Vec<String> {
    let mut row = Row::new("");
    row.node.unload().unwrap();
    row.step();
    row.probe.counts().into_keys().chain(["field:*".to_owned()]).collect()
}

#[test]
fn whatever_a_call_answers_costs_its_own_values_and_heals() {
    let calls = calls();
    assert!(calls.len() > 30, "{calls:?}");
    let rows = Mutex::new(calls.iter());
    let worker = || {
        while let Some(call) = { rows.lock().unwrap().next() } {
            let mut row = Row::new(call);
            std::iter::once(NOT_SUPPORTED).chain(codes()).for_each(|code| row.cells(code));
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(worker)));
    println!("{} calls, {} codes, when opened and when read", calls.len(), codes().count());
}
