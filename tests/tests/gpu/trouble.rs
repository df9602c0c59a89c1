//! Drivers and GPUs that come, go, move and answer badly.

use std::time::Duration;

use goodput_lab::gpu::{Calls, FakeNvml};

use super::node;
use super::probe::{Probe, Scrape};

fn uuid(place: usize) -> String {
    format!("GPU-00002330-0000-4000-8000-{place:012x}")
}

fn failures(scrape: &Scrape, gpu: usize) -> f64 {
    scrape.of("goodput_gpu_read_failures_total", gpu).unwrap_or_default()
}

#[test]
fn an_unbound_gpu_is_lost_until_it_is_bound_again_and_the_others_move_up() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    let before = probe.until_all_ok();
    let cycles = |s: &Scrape, place| {
        let uuid = uuid(place);
        s.get("goodput_gpu_read_cycles_total", &[("UUID", &uuid)]).unwrap_or_default()
    };
    node.unbind(2).unwrap();
    let indices: Vec<_> = (0..8).map(|place| (place, if place > 2 { place - 1 } else { place }.to_string())).collect();
    let at = |s: &Scrape, place, gpu: &str| {
        s.get("goodput_gpu_state", &[("UUID", &uuid(place)), ("gpu", gpu), ("state", "ok")]) == Some(1.0)
    };
    let moved = probe.until("GPU 2 is lost and those behind it have moved", |s| {
        s.state_of(&uuid(2)) == Some("lost") && indices.iter().filter(|(p, _)| *p != 2).all(|(p, gpu)| at(s, *p, gpu))
    });
    assert!(moved.get("goodput_gpu_reading_age_seconds", &[("UUID", &uuid(2))]).is_some());
    assert_eq!(moved.get("DCGM_FI_DEV_GPU_TEMP", &[("UUID", &uuid(2))]), None);
    assert_eq!(
        moved.0.lines().filter(|l| l.starts_with("goodput_gpu_info{")).count(),
        8,
        "each GPU once:\n{}",
        moved.0
    );
    assert!((0..8).all(|place| cycles(&moved, place) >= cycles(&before, place)), "{}", moved.0);

    node.bind(2).unwrap();
    let all_back = |s: &Scrape| (0..8).all(|place| at(s, place, &place.to_string()));
    let after = probe.until("all are where they were", all_back);
    assert_eq!(after.0.lines().filter(|l| l.starts_with("goodput_gpu_info{")).count(), 8, "{}", after.0);
    assert!((0..8).all(|place| cycles(&after, place) >= cycles(&moved, place)), "{}", after.0);
}

#[test]
fn a_library_of_another_version_takes_the_place_of_the_old_one() {
    let (folder, node) = node();
    let path = folder.path().join("libnvidia-ml.so.1");
    let install = |version: &str| {
        let file = folder.path().join(version);
        std::fs::copy(FakeNvml::build().unwrap().path(), &file).unwrap();
        std::fs::rename(&file, &path).unwrap();
    };
    install("580");
    let mut probe = Probe::loading(&node, &path);
    let before = probe.until_all_ok();
    let old = probe.mapped("libnvidia-ml");
    install("590");
    let mismatch = Calls::all();
    node.fault(&mismatch, "LIB_RM_VERSION_MISMATCH").unwrap();
    let during = probe.until("the driver is gone", |s| s.plain("goodput_gpu_driver_up") == Some(0.0));
    assert!(during.reason().is_some_and(|r| r.contains("differ in version")), "{:?}", during.reason());
    node.load(Some("590.48.01")).unwrap();
    node.clear(&mismatch).unwrap();
    let after = probe.until_all_ok();
    assert_eq!(after.get("goodput_gpu_driver_info", &[("version", "590.48.01")]), Some(1.0));
    assert!((0..8).all(|gpu| after.cycles(gpu) >= before.cycles(gpu)));
    let new = probe.mapped("libnvidia-ml");
    assert!(new.len() == 1 && new.is_disjoint(&old), "{old:?} was replaced by {new:?}");
}

#[test]
fn permission_that_is_lost_comes_back() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    probe.until_all_ok();
    let all = Calls::all();
    node.fault(&all, "NO_PERMISSION").unwrap();
    probe.until("no GPU may be read", |s| (0..8).all(|gpu| s.is(gpu, "failing")));
    node.unload().unwrap();
    probe.until("the driver is gone", |s| s.plain("goodput_gpu_driver_up") == Some(0.0));
    node.load(None).unwrap();
    probe.until("it may not be opened", |s| s.reason().is_some_and(|r| r.contains("/dev/nvidiactl")));
    node.clear(&all).unwrap();
    probe.until_all_ok();
}

#[test]
fn a_gpu_that_fails_on_and_off_is_counted() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    probe.until_all_ok();
    let one = Calls::all().on(5);
    for round in 1..=2 {
        node.fault(&one, "UNKNOWN").unwrap();
        let during = probe.until("GPU 5 fails", |s| s.is(5, "failing") && failures(s, 5) >= f64::from(round));
        assert!((0..5).all(|gpu| during.is(gpu, "ok") && failures(&during, gpu) == 0.0));
        node.clear(&one).unwrap();
        probe.until("GPU 5 is read again", |s| s.is(5, "ok"));
    }
    node.unload().unwrap();
    probe.until("the driver is gone", |s| s.plain("goodput_gpu_driver_up") == Some(0.0));
    node.load(None).unwrap();
    assert!(failures(&probe.until_all_ok(), 5) >= 2.0, "failures outlive the driver");
}

#[test]
fn a_gpu_whose_calls_take_seconds_is_left_alone_for_a_while() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    let before = probe.until_all_ok();
    let one = Calls::all().on(6);
    node.hang(&one, Some(Duration::from_secs(4))).unwrap();
    probe.until("GPU 6 is stale", |s| s.is(6, "stale"));
    let slow = probe.until("it is asked no further", |s| s.is(6, "failing"));
    assert_eq!(failures(&slow, 6), 1.0, "after one call, not after all of a cycle");
    assert!((0..6).all(|gpu| slow.is(gpu, "ok") && slow.cycles(gpu) >= before.cycles(gpu) + 3.0), "{}", slow.0);
    node.clear(&one).unwrap();
    probe.until_all_ok();
}

#[test]
fn a_driver_that_hangs_at_a_reload_or_at_its_end_is_reported_and_waited_for() {
    for call in ["nvmlInit_v2", "nvmlShutdown"] {
        let (_folder, node) = node();
        let mut probe = Probe::start(&node);
        probe.until_all_ok();
        let call = Calls::all().named(call);
        node.hang(&call, None).unwrap();
        node.unload().unwrap();
        node.load(None).unwrap();
        let during = probe.until("the hang is seen", |s| s.plain("goodput_gpu_driver_up") == Some(0.0));
        assert!(during.reason().is_some_and(|r| r.contains("has not answered for")), "{:?}", during.reason());
        node.clear(&call).unwrap();
        probe.until_all_ok();
    }
}

/// The number of times that the driver is reloaded, or the metrics are scraped, and what may not grow meanwhile.
fn soak(reloads: u32, scrapes: u32) {
    let (_folder, node) = node();
    let mut probe = Probe::stepped(&node);
    let round = |probe: &mut Probe| {
        node.unload().unwrap();
        probe.tell("step 61");
        node.load(None).unwrap();
        while !(0..8).all(|gpu| probe.tell("step 61").is(gpu, "ok")) {}
    };
    let state =
        |probe: &Probe| (probe.resident_kib(), probe.all_threads(), probe.open(""), probe.mapped("libfake_nvml").len());
    (0..5).for_each(|_| round(&mut probe));
    let before = state(&probe);
    (0..reloads).for_each(|_| round(&mut probe));
    let reloaded = state(&probe);
    (0..scrapes).for_each(|_| drop(probe.scrape()));
    let after = state(&probe);
    println!(
        "KiB resident, threads, descriptors, libraries: {before:?}, after {reloads} reloads {reloaded:?}, after {scrapes} scrapes {after:?}"
    );
    assert_eq!((after.1, after.2, after.3), (before.1, before.2, 1));
    assert!(after.0 <= before.0 + 4096, "{} KiB grew to {}", before.0, after.0);
}

#[test]
fn reloads_and_scrapes_leave_nothing_behind() {
    soak(50, 500);
}

#[test]
#[ignore = "minutes: a thousand reloads, ten thousand scrapes"]
fn a_thousand_reloads_and_ten_thousand_scrapes_leave_nothing_behind() {
    soak(1000, 10_000);
}
