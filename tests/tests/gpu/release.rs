//! Releasing the driver on request.

use std::time::Duration;

use goodput_lab::gpu::Calls;
use goodput_lab::process::until;
use goodput_tests::programs::Exporter;

use super::node;
use super::probe::{Probe, Scrape};

/// Part of the library's path.
const LIBRARY: &str = "libfake_nvml";

/// The fake's only file, which stands for the driver's device files.
const DEVICE: &str = "gpus.jsonl";

fn xids(scrape: &Scrape) -> Option<f64> {
    scrape.of("DCGM_EXP_XID_ERRORS_TOTAL", 3)
}

#[test]
fn a_release_lets_go_of_everything_until_it_is_taken_back() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    probe.until_all_ok();
    node.xid(3, 31).unwrap();
    let before = probe.until("the XID is counted", |s| xids(s) == Some(1.0));
    assert_eq!((probe.mapped(LIBRARY).len(), probe.open(DEVICE)), (1, 1));

    let released = probe.tell("release 600");
    assert!(!released.0.contains("# still held"), "{}", released.0);
    assert_eq!(probe.open(DEVICE), 0, "closed");
    assert!((0..8).all(|gpu| released.is(gpu, "released")));
    // Threads that have let go may still be ending, and a library with variables of theirs is unmapped with the last.
    until("the readers and the library to be gone", Duration::from_secs(90), || {
        Ok((probe.readers() == 0 && probe.mapped(LIBRARY).is_empty()).then_some(()))
    })
    .unwrap();
    assert!(released.plain("goodput_gpu_release_remaining_seconds") > Some(500.0));
    assert_eq!(released.plain("goodput_gpu_driver_up"), None, "who let go of it cannot know");
    assert_eq!((released.of("DCGM_FI_DEV_GPU_TEMP", 3), xids(&released)), (None, Some(1.0)));

    node.unload().unwrap();
    node.load(None).unwrap();
    probe.tell("acquire");
    let after = probe.until_all_ok();
    assert_eq!((after.plain("goodput_gpu_release_remaining_seconds"), xids(&after)), (None, Some(1.0)));
    assert!((0..8).all(|gpu| after.cycles(gpu) >= before.cycles(gpu)), "{}", after.0);
}

#[test]
fn a_release_ends_by_itself() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    probe.until_all_ok();
    // Longer than letting go itself may take.
    assert!(probe.tell("release 6").is(0, "released"));
    probe.until_all_ok();
}

#[test]
fn what_hangs_during_a_release_is_told_and_goes_when_it_comes_back() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    probe.until_all_ok();
    node.hang(&Calls::all().on(2), None).unwrap();
    probe.until("GPU 2 is stale", |s| s.is(2, "stale"));
    let released = probe.tell("release 600");
    assert!(
        released.0.contains("# still held") && released.is(1, "released") && released.is(2, "stale"),
        "{}",
        released.0
    );
    assert_eq!(probe.open(DEVICE), 1);
    probe.until_readers(1, "the one that hangs");
    node.clear(&Calls::all().on(2)).unwrap();
    probe.until("GPU 2 is let go of", |s| s.is(2, "released"));
    assert!(!probe.tell("release 600").0.contains("# still held"));
    assert_eq!(probe.open(DEVICE), 0);
    probe.tell("acquire");
    probe.until_all_ok();
    probe.tell("release 600");
    assert_eq!(probe.open(DEVICE), 0);
    until("nothing of the older load to be left either", Duration::from_secs(90), || {
        Ok(probe.mapped(LIBRARY).is_empty().then_some(()))
    })
    .unwrap();
}

#[test]
fn a_gpu_taken_away_during_a_release_is_not_missed() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    probe.until_all_ok();
    probe.tell("release 600");
    node.unbind(7).unwrap();
    probe.tell("acquire");
    let after = probe.until("seven are read", |s| (0..7).all(|gpu| s.is(gpu, "ok")));
    assert_eq!(after.state_of("GPU-00002330-0000-4000-8000-000000000007"), None, "{}", after.0);
}

/// What the exporter has of the driver.
fn holds(exporter: &Exporter) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", exporter.running.pid())).unwrap();
    maps.contains(LIBRARY)
}

fn get(exporter: &Exporter, path: &str) -> String {
    let answer = ureq::get(format!("http://{}{path}", exporter.address)).call().unwrap();
    answer.into_body().read_to_string().unwrap()
}

fn until_driver(exporter: &Exporter, what: &str, up: Option<&str>) -> String {
    until(what, Duration::from_secs(90), || {
        let page = get(exporter, "/metrics");
        let found = page.lines().find_map(|line| line.strip_prefix("goodput_gpu_driver_up ").map(str::to_owned));
        Ok((found.as_deref() == up).then_some(page))
    })
    .unwrap()
}

#[test]
fn the_program_releases_on_requests_and_signals_and_serves_on() {
    let (folder, node) = node();
    let exporter = Exporter::start_with(folder.path(), &node, &["--nvml.enable-release".to_owned()]).unwrap();
    let post = |path: &str| {
        let answer = ureq::post(format!("http://{}{path}", exporter.address)).send_empty().unwrap();
        answer.status().as_u16()
    };
    until_driver(&exporter, "the driver", Some("1"));
    assert!(holds(&exporter));
    assert_eq!(post("/-/release?seconds=600"), 200);
    until("the library is unmapped", Duration::from_secs(90), || Ok((!holds(&exporter)).then_some(()))).unwrap();
    let page = until_driver(&exporter, "a scrape after the release", None);
    let line = |start: &str| page.lines().find(|line| line.starts_with(start)).map(str::to_owned);
    assert!(line("goodput_node_").is_some(), "the host half goes on:\n{page}");
    assert!(line("goodput_gpu_release_remaining_seconds ").is_some(), "{page}");
    assert_eq!(get(&exporter, "/health"), "ok\n");
    assert_eq!(post("/-/acquire"), 200);
    until_driver(&exporter, "the driver again", Some("1"));

    exporter.running.signal(libc::SIGUSR1);
    until_driver(&exporter, "the signal's release", None);
    until("the library is closed", Duration::from_secs(90), || Ok((!holds(&exporter)).then_some(()))).unwrap();
    exporter.running.signal(libc::SIGUSR2);
    until_driver(&exporter, "the driver after the signal", Some("1"));
}
