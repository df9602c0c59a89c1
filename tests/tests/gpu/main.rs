//! The exporter's GPU half against the fake NVML: what it reads, and what it survives.
//!
//! A library is loaded once per process, so each test has a process of its own: this very binary again, running only
//! [`probe::program`], which scrapes when told to.

#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy spares tests, but not the helpers beside them")]
#![allow(clippy::print_stdout, reason = "measured figures, for whoever runs the tests with --nocapture")]

mod codes;
mod drivers;
mod events;
mod judged;
mod mig;
mod parity;
mod probe;
mod release;
mod sampler;
mod trouble;

use std::time::{Duration, SystemTime};

use goodput_lab::gpu::{Calls, FakeNode, NodeSpec};
use goodput_lab::process::until;
use probe::{Probe, Scrape};
use serde_json::json;
use tempfile::TempDir;

/// Eight idle H100, and the folder they live in.
fn node() -> (TempDir, FakeNode) {
    let folder = tempfile::tempdir().unwrap();
    let node = FakeNode::new(folder.path(), &NodeSpec::h100(8)).unwrap();
    (folder, node)
}

#[test]
fn values_are_what_the_driver_says() {
    let (_folder, node) = node();
    for (reading, value) in [
        ("temperature_c", 61.0),
        ("memory_temperature_c", 72.0),
        ("power_mw", 512_345.0),
        ("sm_clock_mhz", 1755.0),
        ("memory_clock_mhz", 2619.0),
        ("used_bytes", 42_949_672_960.0),
        ("clocks_event_reasons", 4.0),
        ("ecc_corrected_volatile", 3.0),
        ("ecc_uncorrected_aggregate", 1.0),
        ("remapped_uncorrectable", 2.0),
        ("remap_pending", 1.0),
        ("pcie_generation", 3.0),
        ("pcie_width", 8.0),
        ("pcie_replays", 17.0),
        ("recovery_action", 1.0),
    ] {
        // For as long as the driver's averages look back.
        node.append(&json!({"set": {"gpu": 3, "at_us": 0, "reading": reading, "value": value}})).unwrap();
    }
    node.process(3, 4711, 1 << 30).unwrap();
    node.append(&json!({"process": {"gpu": 3, "pid": 4712, "used_bytes": 1 << 20, "kind": "mps"}})).unwrap();
    let mut probe = Probe::start(&node);
    let scrape = probe.until("GPU 3 is read", |s| s.cycles(3) > 0.0);
    for (name, value) in [
        ("DCGM_FI_DEV_GPU_TEMP", 61.0),
        ("DCGM_FI_DEV_MEMORY_TEMP", 72.0),
        ("DCGM_FI_DEV_POWER_USAGE", 512.345),
        ("DCGM_FI_DEV_SM_CLOCK", 1755.0),
        ("DCGM_FI_DEV_MEM_CLOCK", 2619.0),
        ("DCGM_FI_DEV_FB_USED", 40960.0),
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 4.0),
        ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 3.0),
        ("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", 1.0),
        ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 2.0),
        ("DCGM_FI_DEV_ROW_REMAP_PENDING", 1.0),
        ("DCGM_FI_DEV_PCIE_LINK_GEN", 3.0),
        ("DCGM_FI_DEV_PCIE_LINK_WIDTH", 8.0),
        ("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", 16.0),
        ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 17.0),
        ("DCGM_FI_DEV_XID_ERRORS", 0.0),
        ("goodput_gpu_recovery_action", 1.0),
        ("goodput_gpu_processes", 2.0),
    ] {
        assert_eq!(scrape.of(name, 3), Some(value), "{name}\n{}", scrape.0);
    }
    let memory = |pid| scrape.get("goodput_gpu_process_memory_bytes", &[("gpu", "3"), ("pid", pid)]);
    assert_eq!((memory("4711"), memory("4712")), (Some(1_073_741_824.0), Some(1_048_576.0)));
    assert_eq!(scrape.plain("goodput_gpu_driver_up"), Some(1.0));
    let series = scrape.0.lines().filter(|l| l.contains("gpu=\"3\"")).count();
    println!("{series} series of one GPU");
    assert!(series <= 250);
    // An H100 has row remapping in the place of page retirement.
    assert_eq!(scrape.of("DCGM_FI_DEV_RETIRED_SBE", 3), None);
}

#[test]
fn what_a_model_or_a_caller_cannot_read_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let node = FakeNode::new(folder.path(), &NodeSpec::new("Tesla T4", 1)).unwrap();
    node.fault(&Calls::all().named("nvmlDeviceGetUtilizationRates"), "NO_PERMISSION").unwrap();
    node.fault(&Calls::all().named("nvmlDeviceGetSamples"), "NOT_SUPPORTED").unwrap();
    node.fault(&Calls::all().named("field:94"), "UNKNOWN").unwrap();
    let mut probe = Probe::start(&node);
    let scrape = probe.until("the GPU is read", |s| s.cycles(0) > 0.0);
    for name in [
        "DCGM_FI_DEV_MEMORY_TEMP",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_PROF_SM_ACTIVE",
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "goodput_gpu_busy_seconds_total",
        "goodput_gpu_observed_seconds_total",
    ] {
        assert_eq!(scrape.of(name, 0), None, "{name}");
    }
    assert!(scrape.is(0, "ok") && scrape.of("DCGM_FI_DEV_GPU_TEMP", 0).is_some(), "{}", scrape.0);
}

#[test]
fn profiling_metrics_come_from_pairs_of_samples() {
    let (_folder, node) = node();
    let load = json!({"gpu": 80, "sm": 60, "tensor": 25, "pcie_rx": 1 << 30, "nvlink_tx": 2_000_000_000});
    let _work = node.work_at(0, None, load).unwrap();
    let mut probe = Probe::start(&node);
    let scrape = probe.until("a pair", |s| s.of("DCGM_FI_PROF_SM_ACTIVE", 0).is_some());
    for (name, value) in [
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.8),
        ("DCGM_FI_PROF_SM_ACTIVE", 0.6),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.25),
        ("DCGM_FI_PROF_PCIE_RX_BYTES", 1_073_741_824.0),
        ("DCGM_FI_PROF_NVLINK_TX_BYTES", 2e9),
        ("DCGM_FI_PROF_NVLINK_RX_BYTES", 0.0),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 2000.0),
    ] {
        let got = scrape.of(name, 0).unwrap_or(f64::NAN);
        assert!((got - value).abs() <= value * 0.01, "{name} is {got}, not {value}");
    }
}

#[test]
fn a_two_second_sawtooth_of_work_is_recovered() {
    const PERIODS: u32 = 8;
    let (second, period) = (Duration::from_secs(1), Duration::from_secs(2));
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    let observed = |s: &Scrape| s.of("goodput_gpu_observed_seconds_total", 5).unwrap_or(0.0);
    let before = probe.until("samples", |s| observed(s) > 0.0);
    assert_eq!(before.of("goodput_gpu_busy_seconds_total", 5), Some(0.0));
    let begin = SystemTime::now() + 3 * second;
    for i in 0..PERIODS {
        node.busy(5, begin + i * period, second, None).unwrap();
    }
    // What is to be observed from here on until well behind the end of the work.
    let span = (3 * second + PERIODS * period + 2 * period).as_secs_f64();
    let after = probe.until("all work is behind", |s| observed(s) - observed(&before) > span);
    let (busy, worked) = (after.of("goodput_gpu_busy_seconds_total", 5).unwrap(), f64::from(PERIODS));
    println!("{busy} s busy of {worked} s worked");
    assert!((busy - worked).abs() <= worked * 0.02, "{busy} s busy, not {worked}");
    // Before each of the stretches of work, the first included, there was one gap.
    let gaps = after.of("goodput_gpu_idle_gap_seconds_count", 5).unwrap();
    assert!((gaps - worked).abs() <= 1.0, "{gaps} gaps, not {worked}");
    assert_eq!(after.of("goodput_gpu_sample_overruns_total", 5), Some(0.0));
}

#[test]
fn one_hung_gpu_holds_up_nobody_else() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    let before = probe.until_all_ok();
    node.hang(&Calls::all().on(2), None).unwrap();
    let during = probe.until("GPU 2 is stale and its families are gone", |s| {
        s.is(2, "stale") && s.of("DCGM_FI_DEV_GPU_TEMP", 2).is_none()
    });
    assert!(during.of("goodput_gpu_reading_age_seconds", 2) > Some(10.0));
    for gpu in (0..8).filter(|gpu| *gpu != 2) {
        assert!(during.cycles(gpu) >= before.cycles(gpu) + 5.0, "GPU {gpu} was held up:\n{}", during.0);
        assert!(during.of("DCGM_FI_DEV_GPU_TEMP", gpu).is_some(), "GPU {gpu}");
    }
    probe.until_readers(3, "a hung call holds one thread, beside the two that take turns");
    node.clear(&Calls::all().on(2)).unwrap();
    probe.until("GPU 2 heals", |s| s.is(2, "ok") && s.cycles(2) >= before.cycles(2) + 3.0);
    probe.until_readers(2, "whoever comes back finds its place taken");
}

#[test]
fn gpus_that_hang_one_after_another_hold_a_thread_each_and_nobody_else() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    probe.until_all_ok();
    let hung = [0, 3, 4, 7];
    for gpu in hung {
        node.hang(&Calls::all().on(gpu), None).unwrap();
    }
    let during = probe.until("four are stale", |s| hung.iter().all(|gpu| s.is(*gpu, "stale")));
    probe.until_readers(6, "one for each and two that take turns");
    let others = [1, 2, 5, 6];
    probe.until("the others are read on", |s| others.iter().all(|gpu| s.cycles(*gpu) >= during.cycles(*gpu) + 3.0));
    for gpu in hung {
        node.clear(&Calls::all().on(gpu)).unwrap();
    }
    probe.until_all_ok();
    probe.until_readers(2, "all are back");
}

#[test]
fn slow_gpus_share_as_many_threads_as_they_need() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    probe.until_all_ok();
    // Four seconds for all of them, one after another.
    let slow = Calls::all().named("nvmlDeviceGetFieldValues");
    node.hang(&slow, Some(Duration::from_millis(500))).unwrap();
    let begin = probe.scrape();
    let enough = || Ok((probe.readers() >= 4).then_some(()));
    until("a thread for each two that are read in a second", Duration::from_secs(90), enough).unwrap();
    let read_on = |s: &Scrape| (0..8).all(|gpu| s.is(gpu, "ok") && s.cycles(gpu) >= begin.cycles(gpu) + 8.0);
    probe.until("eight cycles of each", read_on);
    node.clear(&slow).unwrap();
    probe.until_readers(2, "two are enough again");
}

#[test]
fn a_reload_while_a_gpu_hangs_heals_when_the_call_comes_back() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    let before = probe.until_all_ok();
    node.hang(&Calls::all().on(2), None).unwrap();
    probe.until("GPU 2 is stale", |s| s.is(2, "stale"));
    node.unload().unwrap();
    probe.until("the driver is gone", |s| s.plain("goodput_gpu_driver_up") == Some(0.0));
    probe.until_readers(1, "the one that hangs");
    node.load(None).unwrap();
    node.clear(&Calls::all().on(2)).unwrap();
    let after = probe.until_all_ok();
    assert!((0..8).all(|gpu| after.cycles(gpu) >= before.cycles(gpu)), "{}", after.0);
    probe.until_readers(2, "those of the new load");
}

#[test]
fn a_hang_of_every_call_is_seen_and_heals() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    let before = probe.until_all_ok();
    node.hang(&Calls::all(), None).unwrap();
    probe.until("every GPU is stale, and scrapes go on", |s| (0..8).all(|gpu| s.is(gpu, "stale")));
    node.clear(&Calls::all()).unwrap();
    let healed = |s: &Scrape| (0..8).all(|gpu| s.is(gpu, "ok") && s.cycles(gpu) > before.cycles(gpu) + 2.0);
    let after = probe.until("every GPU heals", healed);
    assert_eq!(after.plain("goodput_gpu_driver_up"), Some(1.0));
}

#[test]
fn a_gpu_that_hangs_from_the_start_has_a_state_and_the_others_are_read() {
    let (_folder, node) = node();
    node.hang(&Calls::all().on(4), None).unwrap();
    let mut probe = Probe::start(&node);
    let others_ok = |s: &Scrape| (0..8).filter(|gpu| *gpu != 4).all(|gpu| s.is(gpu, "ok"));
    let during = probe.until("GPU 4 is stale", |s| s.is(4, "stale") && others_ok(s));
    assert_eq!(during.of("goodput_gpu_info", 4), None);
    node.clear(&Calls::all().on(4)).unwrap();
    probe.until_all_ok();
}

#[test]
fn a_driver_that_does_not_answer_is_reported_and_waited_for() {
    let (_folder, node) = node();
    let init = Calls::all().named("nvmlInit_v2");
    node.hang(&init, None).unwrap();
    let mut probe = Probe::start(&node);
    let during = probe.until("the hang is seen", |s| s.plain("goodput_gpu_driver_up") == Some(0.0));
    assert!(during.reason().is_some_and(|r| r.contains("has not answered for")), "{:?}", during.reason());
    node.clear(&init).unwrap();
    probe.until_all_ok();
}

#[test]
fn a_lost_gpu_is_reported_with_its_xid_and_comes_back() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    let before = probe.until_all_ok();
    node.xid(1, 79).unwrap();
    node.lose(1).unwrap();
    let xids = |s: &Scrape| s.get("DCGM_EXP_XID_ERRORS_TOTAL", &[("gpu", "1"), ("xid", "79")]);
    let lost = probe.until("GPU 1 is lost", |s| s.is(1, "lost") && s.of("DCGM_FI_DEV_GPU_TEMP", 1).is_none());
    assert_eq!((xids(&lost), lost.of("DCGM_FI_DEV_XID_ERRORS", 1)), (Some(1.0), Some(79.0)));
    for gpu in (0..8).filter(|gpu| *gpu != 1) {
        assert!(lost.cycles(gpu) >= before.cycles(gpu) + 5.0, "GPU {gpu} was held up:\n{}", lost.0);
    }
    node.find(1).unwrap();
    let found = probe.until("GPU 1 comes back", |s| s.is(1, "ok") && s.cycles(1) > before.cycles(1));
    assert_eq!(xids(&found), Some(1.0));
    node.xid(1, 79).unwrap();
    probe.until("XIDs are counted on", |s| xids(s) == Some(2.0));
}

#[test]
fn events_that_fail_are_registered_anew() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    probe.until("events are awaited", |s| s.of("DCGM_FI_DEV_XID_ERRORS", 6) == Some(0.0));
    let wait = Calls::all().named("nvmlEventSetWait_v2");
    node.fault(&wait, "UNKNOWN").unwrap();
    probe.until("there are no events", |s| s.cycles(6) > 0.0 && s.of("DCGM_FI_DEV_XID_ERRORS", 6).is_none());
    node.clear(&wait).unwrap();
    probe.until("events are awaited again", |s| s.of("DCGM_FI_DEV_XID_ERRORS", 6) == Some(0.0));
    node.xid(6, 48).unwrap();
    probe.until("the XID comes", |s| s.of("DCGM_FI_DEV_XID_ERRORS", 6) == Some(48.0));
}

#[test]
fn totals_never_fall_when_the_driver_is_reloaded() {
    const TOTALS: [&str; 4] = [
        "goodput_gpu_busy_seconds_total",
        "goodput_gpu_observed_seconds_total",
        "goodput_gpu_read_cycles_total",
        "DCGM_EXP_XID_ERRORS_TOTAL",
    ];
    let (_folder, node) = node();
    let _work = node.work(0, None).unwrap();
    let mut probe = Probe::start(&node);
    probe.until_all_ok();
    node.xid(0, 31).unwrap();
    let before = probe.until("all totals", |s| TOTALS.iter().all(|t| s.of(t, 0).is_some_and(|v| v > 0.0)));
    node.unload().unwrap();
    let down = probe.until("the driver is gone", |s| s.plain("goodput_gpu_driver_up") == Some(0.0));
    assert!(down.reason().is_some_and(|r| r.contains("modprobe nvidia")), "{:?}", down.reason());
    node.load(Some("590.48.01")).unwrap();
    let went_on = |s: &Scrape| TOTALS[..3].iter().all(|t| s.of(t, 0) > before.of(t, 0));
    let after = probe.until("the totals go on", went_on);
    assert_eq!(after.of(TOTALS[3], 0), Some(1.0));
    assert_eq!(after.get("goodput_gpu_driver_info", &[("version", "590.48.01")]), Some(1.0));
    assert!(after.0.contains("DCGM_FI_DRIVER_VERSION=\"590.48.01\""));
}

#[test]
fn forty_calls_a_cycle_are_enough_for_eight_gpus() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    // Between two slow readings, so that twenty cycles hold four of them on every GPU; `sampler` counts by call.
    let between = |s: &Scrape| (0..8).all(|gpu| (1.0..=3.0).contains(&(s.cycles(gpu) % 5.0)));
    let begin = probe.until("all GPUs are between slow readings", between);
    let made_at_begin = probe.calls_made(&node);
    let twenty = |s: &Scrape| (0..8).all(|gpu| s.cycles(gpu) >= begin.cycles(gpu) + 20.0);
    let end = probe.until("twenty cycles", twenty);
    let made = (probe.calls_made(&node) - made_at_begin) as f64;
    let calls = |s: &Scrape| s.plain("goodput_gpu_nvml_calls_total").unwrap_or_default();
    let counted = calls(&end) - calls(&begin);
    assert!((made - counted).abs() <= 40.0, "the fake saw {made} calls, the exporter counted {counted}");
    let cycles = (0..8).map(|gpu| end.cycles(gpu) - begin.cycles(gpu)).sum::<f64>() / 8.0;
    println!("{:.1} NVML calls per cycle of 8 GPUs", counted / cycles);
    assert!(counted / cycles <= 40.0, "{counted} calls in {cycles} cycles");
}
