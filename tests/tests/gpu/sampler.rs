//! What no scrape sees, under an injected clock: minutes of simulated GPUs pass in seconds, at any phase.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use goodput_lab::gpu::{Calls, FakeNode, NodeSpec};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::probe::{Probe, Scrape};

const SECOND: Duration = Duration::from_secs(1);
/// Watts of the fake's H100 without work and at full work.
const IDLE_WATTS: f64 = 68.92;
const BUSY_WATTS: f64 = 634.0;

/// A node and its reader, whose clocks move together.
struct Machine {
    node: FakeNode,
    probe: Probe,
    now: SystemTime,
    _folder: TempDir,
}

impl Machine {
    fn new(spec: &NodeSpec) -> Self {
        Self::with(spec, |_| ())
    }

    fn with(spec: &NodeSpec, prepare: impl FnOnce(&FakeNode)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let node = FakeNode::new(folder.path(), spec).unwrap();
        // A moment of its own, behind that at which the driver was loaded.
        let now = SystemTime::now() + Duration::from_secs(100);
        node.fix_clock(now).unwrap();
        prepare(&node);
        let probe = Probe::stepped(&node);
        Self { node, probe, now, _folder: folder }
    }

    /// Both clocks move on at once, as after a pause of the reader.
    fn leap(&mut self, by: Duration) -> Scrape {
        self.now += by;
        self.node.fix_clock(self.now).unwrap();
        self.probe.step(by)
    }

    /// This many seconds pass, a reading cycle each.
    fn pass(&mut self, seconds: u32) -> Scrape {
        (1..seconds).for_each(|_| _ = self.leap(SECOND));
        self.leap(SECOND)
    }

    fn busy(&self, gpu: usize, from: SystemTime, time: Duration, load: Value) {
        let us = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
        let work = json!({"busy": {"gpu": gpu, "from_us": us(from), "to_us": us(from + time), "load": load}});
        self.node.append(&work).unwrap();
    }
}

/// By how much a GPU's series of that name has grown.
fn grown(name: &str, gpu: usize, before: &Scrape, after: &Scrape) -> f64 {
    let value = after.of(name, gpu);
    assert!(value.is_some(), "{name} of GPU {gpu}\n{}", after.0);
    value.unwrap() - before.of(name, gpu).unwrap_or(0.0)
}

fn mean_and_deviation(gpu: usize, before: &Scrape, after: &Scrape) -> (f64, f64, f64) {
    let [joules, squared, seconds] = [
        "goodput_gpu_power_sampled_joules_total",
        "goodput_gpu_power_squared_watts_seconds_total",
        "goodput_gpu_power_observed_seconds_total",
    ]
    .map(|name| grown(name, gpu, before, after));
    let mean = joules / seconds;
    (mean, (squared / seconds - mean * mean).max(0.0).sqrt(), seconds)
}

/// Numbers below the limit that look like chance, the same in every run.
fn chance(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |limit| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    }
}

/// Scrapes 15 s apart see a sawtooth of 2 s at whatever phase it has: 24 phases, a minute of work each.
#[test]
fn a_two_second_sawtooth_is_recovered_at_any_phase() {
    const PERIODS: u32 = 30;
    let worked = f64::from(PERIODS);
    let mut machine = Machine::new(&NodeSpec::h100(8));
    let mut before = machine.pass(15);
    let mut random = chance(11);
    let (mut worst_busy, mut worst_gaps, mut worst_mean, mut worst_deviation) = (0f64, 0f64, 0f64, 0f64);
    for _round in 0..3 {
        for gpu in 0..8 {
            let begin = machine.now + SECOND + Duration::from_micros(random(2_000_000));
            (0..PERIODS).for_each(|i| machine.busy(gpu, begin + i * 2 * SECOND, SECOND, json!({})));
        }
        let working = machine.pass(15);
        let still_working = machine.pass(45);
        let after = machine.pass(30);
        for gpu in 0..8 {
            let busy = grown("goodput_gpu_busy_seconds_total", gpu, &before, &after);
            worst_busy = worst_busy.max((busy - worked).abs() / worked);
            let gaps = grown("goodput_gpu_idle_gap_seconds_count", gpu, &before, &after);
            worst_gaps = worst_gaps.max((gaps - worked).abs());
            assert_eq!(grown("goodput_gpu_sample_overruns_total", gpu, &before, &after), 0.0);
            assert_eq!(grown("goodput_gpu_power_sample_overruns_total", gpu, &before, &after), 0.0);
            // In the middle of it, half of the time at each level: the mean of both, and half of their distance.
            let (mean, deviation, _) = mean_and_deviation(gpu, &working, &still_working);
            worst_mean = worst_mean.max((mean / ((IDLE_WATTS + BUSY_WATTS) / 2.0) - 1.0).abs());
            worst_deviation = worst_deviation.max((deviation / ((BUSY_WATTS - IDLE_WATTS) / 2.0) - 1.0).abs());
        }
        before = after;
    }
    println!(
        "worst of 24 phases: busy {:.2} %, gaps {worst_gaps}, mean power {:.2} %, deviation {:.2} %",
        worst_busy * 100.0,
        worst_mean * 100.0,
        worst_deviation * 100.0
    );
    assert!(worst_busy <= 0.02 && worst_gaps <= 1.0 && worst_mean <= 0.03 && worst_deviation <= 0.03);
}

#[test]
fn constant_work_no_work_and_bursts_are_what_they_are() {
    let mut machine = Machine::new(&NodeSpec::h100(3));
    let begin = machine.now;
    machine.busy(0, begin, Duration::from_secs(600), json!({"gpu": 60, "sm": 50, "tensor": 20}));
    // A tenth of a second of work in every one, far below what a utilization sample can tell apart.
    (0..600).for_each(|i| machine.busy(2, begin + i * SECOND, SECOND / 10, json!({})));
    let before = machine.pass(15);
    let after = machine.pass(120);
    let grown = |name, gpu| grown(name, gpu, &before, &after);
    for (gpu, share) in [(0, 0.6), (1, 0.0), (2, 0.1)] {
        let observed = grown("goodput_gpu_observed_seconds_total", gpu);
        let busy = grown("goodput_gpu_busy_seconds_total", gpu);
        assert!((observed - 120.0).abs() <= 5.0, "GPU {gpu}: {observed} s observed");
        assert!((busy / observed - share).abs() <= 0.005, "GPU {gpu}: {busy} s busy of {observed} s");
    }
    for (gpu, watts) in [(0, (IDLE_WATTS + BUSY_WATTS) / 2.0), (1, IDLE_WATTS)] {
        let (mean, deviation, seconds) = mean_and_deviation(gpu, &before, &after);
        assert!(
            (mean - watts).abs() < 0.1 && deviation < 0.5 && seconds >= 115.0,
            "{mean} W, {deviation} W, {seconds} s"
        );
    }
    let active = |unit| after.get("goodput_gpu_gpm_active_seconds_total", &[("gpu", "0"), ("unit", unit)]).unwrap();
    let covered = after.of("goodput_gpu_gpm_observed_seconds_total", 0).unwrap();
    for (unit, share) in [("graphics", 0.6), ("sm", 0.5), ("tensor", 0.2), ("fp64", 0.0)] {
        assert!((active(unit) / covered - share).abs() < 1e-6, "{unit}: {} of {covered}", active(unit));
    }
    assert_eq!(covered, 135.0 / 5.0 * 5.0, "pairs follow each other without a gap");
}

#[test]
fn a_late_reader_loses_what_the_rings_lost_and_says_so() {
    let mut machine = Machine::new(&NodeSpec::h100(1));
    machine.busy(0, machine.now, Duration::from_secs(3600), json!({}));
    let before = machine.pass(20);
    let after = machine.leap(Duration::from_secs(120));
    let grown = |name| grown(name, 0, &before, &after);
    assert_eq!(grown("goodput_gpu_sample_overruns_total"), 1.0);
    assert_eq!(grown("goodput_gpu_power_sample_overruns_total"), 1.0);
    // The rings hold 20 s of utilization and 2.4 s of power.
    let (observed, busy) = (grown("goodput_gpu_observed_seconds_total"), grown("goodput_gpu_busy_seconds_total"));
    assert!((19.0..=25.0).contains(&observed) && (busy - observed).abs() < 0.01, "{busy} s of {observed} s");
    let power = grown("goodput_gpu_power_observed_seconds_total");
    assert!((2.0..=3.5).contains(&power), "{power} s");
    // Nothing is lost of what is no ring.
    assert_eq!(grown("goodput_gpu_gpm_observed_seconds_total"), 120.0);
}

/// The driver's clock stops, then goes back by an hour. Power goes on from readings, which need no clock of the driver.
#[test]
fn a_clock_that_stops_or_goes_back_adds_nothing_that_was_not_sampled() {
    let mut machine = Machine::new(&NodeSpec::h100(1));
    machine.busy(0, machine.now - Duration::from_secs(7200), Duration::from_secs(9000), json!({}));
    let before = machine.pass(20);
    let stopped = (0..30).map(|_| machine.probe.step(SECOND)).last().unwrap();
    for (name, most) in
        [("goodput_gpu_observed_seconds_total", 5.0), ("goodput_gpu_power_observed_seconds_total", 30.0)]
    {
        let grown = grown(name, 0, &before, &stopped);
        assert!((0.0..=most).contains(&grown), "{name}: {grown} s of a clock that stood");
    }
    machine.now -= Duration::from_secs(3600);
    let set_back = machine.pass(120);
    for name in ["goodput_gpu_observed_seconds_total", "goodput_gpu_power_observed_seconds_total"] {
        let grown = grown(name, 0, &stopped, &set_back);
        assert!((20.0..=120.0).contains(&grown), "{name}: {grown} s of 120 s after the clock went back");
    }
    assert_eq!(set_back.of("goodput_gpu_sample_overruns_total", 0), Some(0.0));
}

#[test]
fn power_comes_from_readings_where_there_are_no_samples() {
    for code in ["NOT_SUPPORTED", "NOT_FOUND", "UNKNOWN"] {
        let mut machine = Machine::with(&NodeSpec::h100(1), |node| {
            node.fault(&Calls::all().named("nvmlDeviceGetSamples"), code).unwrap();
        });
        machine.busy(0, machine.now, Duration::from_secs(3600), json!({}));
        let before = machine.pass(40);
        let after = machine.pass(60);
        let (mean, deviation, seconds) = mean_and_deviation(0, &before, &after);
        assert!((mean - BUSY_WATTS).abs() < 0.1 && deviation < 0.1 && seconds == 60.0, "{code}: {mean} W, {seconds} s");
    }
}

const COUNTERS: [(&str, (&str, &str), f64); 7] = [
    ("goodput_gpu_sm_elapsed_cycles_total", ("gpu", "0"), 1.0),
    ("goodput_gpu_sm_active_cycles_total", ("gpu", "0"), 0.6),
    ("goodput_gpu_pipe_active_cycles_total", ("pipe", "tensor"), 0.25),
    ("goodput_gpu_pipe_active_cycles_total", ("pipe", "tensor_hmma"), 0.25),
    ("goodput_gpu_pipe_active_cycles_total", ("pipe", "fp64"), 0.0),
    ("goodput_gpu_pcie_bytes_total", ("direction", "rx"), 2e9),
    ("goodput_gpu_pcie_bytes_total", ("direction", "tx"), 1e9),
];

/// Counters of a driver that has them, over a reload that restarts the driver's own.
#[test]
fn cumulative_counters_are_exact_and_go_on_over_a_reload() {
    const CLOCK: f64 = 1.98e9;
    let mut machine = Machine::new(&NodeSpec::h100(1).with("gpm_counters", true));
    let load = json!({"sm": 60, "tensor": 25, "pcie_rx": 2e9, "pcie_tx": 1e9});
    machine.busy(0, machine.now - 50 * SECOND, Duration::from_secs(3600), load);
    let of = |scrape: &Scrape, name: &str, label| scrape.get(name, &[label]).unwrap_or(f64::NAN);
    let before = machine.pass(15);
    let after = machine.pass(100);
    for (name, label, rate) in COUNTERS {
        let per_second = rate * if name.ends_with("cycles_total") { CLOCK } else { 1.0 };
        let grown = of(&after, name, label) - of(&before, name, label);
        assert!((grown - 100.0 * per_second).abs() <= 100.0, "{name} {label:?} grew by {grown}");
    }
    machine.node.unload().unwrap();
    let down = machine.pass(10);
    assert_eq!(down.plain("goodput_gpu_driver_up"), Some(0.0));
    let us = machine.now.duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    machine.node.append(&json!({"load": {"at_us": us}})).unwrap();
    let again = machine.pass(60);
    let totals = [
        "goodput_gpu_busy_seconds_total",
        "goodput_gpu_observed_seconds_total",
        "goodput_gpu_power_sampled_joules_total",
        "goodput_gpu_power_squared_watts_seconds_total",
        "goodput_gpu_power_observed_seconds_total",
        "goodput_gpu_gpm_observed_seconds_total",
    ];
    for name in totals {
        assert!(again.of(name, 0) > after.of(name, 0), "{name} fell or stopped\n{}", again.0);
    }
    for (name, label, rate) in COUNTERS {
        let grown = of(&again, name, label) - of(&after, name, label);
        let seconds = grown / rate / if name.ends_with("cycles_total") { CLOCK } else { 1.0 };
        // Of the 70 s, those since the driver was loaded, up to the last pair.
        assert!(rate == 0.0 || (40.0..=60.0).contains(&seconds), "{name} {label:?}: {seconds} s");
    }
}

#[test]
fn an_older_driver_is_asked_for_counters_once() {
    let mut machine = Machine::new(&NodeSpec::h100(1));
    let scrape = machine.pass(120);
    assert_eq!(scrape.of("goodput_gpu_sm_elapsed_cycles_total", 0), None);
    assert!(scrape.of("goodput_gpu_gpm_observed_seconds_total", 0) > Some(60.0));
    let calls = machine.probe.calls_by_name(&machine.node);
    assert_eq!(calls["nvmlGpmMetricsGet"], calls["nvmlGpmSampleGet"], "one call more than pairs, for the question");
}

/// What a minute of reading eight GPUs costs, by call: an additional call fails the test until it is in the table. Once
/// for idle GPUs and once for busy ones, of a driver without cumulative counters, which costs the most.
#[test]
fn the_calls_of_a_minute_are_those_of_the_table() {
    let mut table = String::from("NVML calls in 60 cycles of 8 H100\n\nidle   busy\n");
    let mut columns: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    let mut machine = Machine::new(&NodeSpec::h100(8));
    machine.pass(60);
    for column in 0..2 {
        let before = machine.probe.calls_by_name(&machine.node);
        machine.pass(60);
        for (name, count) in machine.probe.calls_by_name(&machine.node) {
            let made = count - before.get(&name).copied().unwrap_or(0);
            // The process that asks for the counts makes these two calls.
            let made = if ["nvmlInit_v2", "nvmlShutdown"].contains(&name.as_str()) { made - 1 } else { made };
            columns.entry(name).or_default()[column] = made;
        }
        (0..8).for_each(|gpu| machine.busy(gpu, machine.now, Duration::from_secs(600), json!({})));
        machine.pass(30);
    }
    assert!(!columns.contains_key("nvmlDeviceGetPcieThroughput"), "it blocks for 20 ms");
    columns.retain(|_, made| *made != [0, 0]);
    for (name, [idle, busy]) in &columns {
        _ = writeln!(table, "{idle:<6} {busy:<6} {name}");
    }
    let per_cycle = [0, 1].map(|i| columns.values().map(|made| made[i]).sum::<u64>() as f64 / 60.0);
    _ = writeln!(table, "\nper cycle: {:.1} idle, {:.1} busy", per_cycle[0], per_cycle[1]);
    println!("{table}");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu/calls.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &table).unwrap();
    }
    assert_eq!(table, std::fs::read_to_string(&golden).unwrap_or_default(), "UPDATE_GOLDEN=1 records it anew");
    assert!(per_cycle.iter().all(|calls| *calls <= 40.0));
}
