//! Disks that fail or are full, clocks that jump and files that rot, under remote-write load: every acknowledged sample is
//! there exactly once, or set aside with a reason and everything else served.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test, in helpers too")]

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use goodput_lab::process::until;
use goodput_lab::remote_write::{TimeSeries, send};
use goodput_store::wall_clock;
use goodput_tests::numbered::Load;
use goodput_tests::programs::Analyzer;
use goodput_tests::scrape::serve;
use goodput_tests::tmpfs::Tmpfs;

const CONFIG: &str = "store: {head_bytes: 8192}\n";

/// What the preloaded library does to the analyzer.
struct Faults(tempfile::TempDir);

impl Faults {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn begin(&self, fault: &str, how: &str) {
        // At once, as a reader may look at any instant.
        let new = self.0.path().join("new");
        fs::write(&new, how).unwrap();
        fs::rename(new, self.0.path().join(fault)).unwrap();
    }

    fn end(&self, fault: &str) {
        fs::remove_file(self.0.path().join(fault)).unwrap();
    }

    fn start(&self, dir: &Path) -> Analyzer {
        Analyzer::start_with_faults(dir, CONFIG, self.0.path()).unwrap()
    }
}

/// The value of one of the store's metrics.
fn metric(analyzer: &Analyzer, name: &str) -> f64 {
    analyzer.metric(&format!("goodput_analyzer_store_{name}")).unwrap().unwrap_or(0.0)
}

#[test]
fn a_disk_that_fails_loses_nothing_and_heals() {
    for fault in ["fsync", "rename", "full"] {
        let (dir, faults, load) = (tempfile::tempdir().unwrap(), Faults::new(), Load::default());
        thread::scope(|scope| {
            let _stop = load.start(scope);
            for kill in [false, true] {
                let analyzer = faults.start(dir.path());
                load.connect(analyzer.address);
                load.wait_for_acks(40).unwrap();
                faults.begin(fault, "");
                // Commits fail, or, where they need none of what fails, flushes, and then the head is full.
                load.wait_for_refusals(20).unwrap();
                let data = analyzer.data.clone();
                if kill {
                    analyzer.running.kill().unwrap();
                    faults.end(fault);
                } else {
                    faults.end(fault);
                    load.wait_for_acks(40).unwrap();
                    analyzer.running.terminate().unwrap();
                }
                load.disconnect();
                let stats = load.check(&data).unwrap_or_else(|error| panic!("{fault}, killed: {kill}: {error:#}"));
                assert_eq!(stats.quarantined, 0, "{fault}");
            }
        });
    }
}

#[test]
fn a_disk_that_is_nearly_full_is_kept_free_and_heals() {
    const CONFIG: &str = "store: {head_bytes: 8192, min_free_disk_space_bytes: 16000000}\n";
    let (disk, load) = (Tmpfs::new(64 << 20).unwrap(), Load::default());
    thread::scope(|scope| {
        let _stop = load.start(scope);
        let analyzer = Analyzer::start_with(disk.path(), CONFIG).unwrap();
        load.connect(analyzer.address);
        load.wait_for_acks(40).unwrap();
        let ballast = disk.path().join("ballast");
        let free = metric(&analyzer, "free_bytes") as usize;
        fs::write(&ballast, vec![0; free - 8_000_000]).unwrap();
        load.wait_for_refusals(20).unwrap();
        assert_eq!(metric(&analyzer, "short_of_space"), 1.0);
        let refused = "goodput_analyzer_remote_write_requests_total{version=\"1.0\",outcome=\"no_space\"}";
        assert!(analyzer.metric(refused).unwrap() >= Some(20.0));
        assert!(analyzer.get("/state").unwrap().contains("<h2>No samples are taken</h2>"));
        assert_eq!(analyzer.get("/-/ready").unwrap(), "ready\n");
        fs::remove_file(ballast).unwrap();
        load.wait_for_acks(40).unwrap();
        assert_eq!(metric(&analyzer, "short_of_space"), 0.0);
        assert!(!analyzer.get("/state").unwrap().contains("No samples are taken"));
        let data = analyzer.data.clone();
        analyzer.running.terminate().unwrap();
        load.disconnect();
        assert_eq!(load.check(&data).unwrap().quarantined, 0);
    });
}

#[test]
fn a_disk_that_is_full_at_the_start_is_read_and_heals() {
    let (disk, dir, load) = (Tmpfs::new(32 << 20).unwrap(), tempfile::tempdir().unwrap(), Load::default());
    // Log and configuration are elsewhere: they need room too.
    std::os::unix::fs::symlink(disk.path(), dir.path().join("analyzer")).unwrap();
    let ballast = disk.path().join("ballast");
    thread::scope(|scope| {
        let _stop = load.start(scope);
        let kept_free = "store: {head_bytes: 8192, min_free_disk_space_bytes: 4000000}\n";
        let mut analyzer = Analyzer::start_with(dir.path(), kept_free).unwrap();
        for kill in [false, true, false] {
            load.connect(analyzer.address);
            load.wait_for_acks(40).unwrap();
            if kill {
                analyzer.running.kill().unwrap();
            } else {
                assert!(analyzer.running.terminate().unwrap().success());
            }
            load.disconnect();
            fill(&ballast);
            analyzer = Analyzer::start_with(dir.path(), kept_free).unwrap();
            for path in ["/", "/report", "/nodes/none?period=24h", "/api/v1/nodes", "/metrics", "/-/ready"] {
                let status = status(&analyzer, path);
                assert!(status == 200 || path.contains("none") && status == 404, "{path}: {status}, killed: {kill}");
            }
            assert!(analyzer.get("/state").unwrap().contains("<h2>No samples are taken</h2>"));
            let health = analyzer.get("/api/v1/health").unwrap();
            assert!(health.contains("{\"name\":\"short_of_space\",\"active\":true"), "{health}");
            assert_eq!(metric(&analyzer, "short_of_space"), 1.0);
            load.connect(analyzer.address);
            load.wait_for_refusals(8).unwrap();
            let refused = "goodput_analyzer_remote_write_requests_total{version=\"1.0\",outcome=\"no_space\"}";
            assert!(analyzer.metric(refused).unwrap() >= Some(8.0));
            fs::remove_file(&ballast).unwrap();
            load.wait_for_acks(40).unwrap();
        }
        let data = analyzer.data.clone();
        assert!(analyzer.running.terminate().unwrap().success());
        load.disconnect();
        assert_eq!(load.check(&data).unwrap().quarantined, 0);
    });
}

/// Writes until there is no room at all.
fn fill(ballast: &Path) {
    use std::io::Write as _;
    let mut file = fs::File::create(ballast).unwrap();
    for bytes in [vec![0; 1 << 20], vec![0; 4096], vec![0; 1]] {
        while file.write_all(&bytes).is_ok() {}
    }
}

fn status(analyzer: &Analyzer, path: &str) -> u16 {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    agent.get(format!("http://{}{path}", analyzer.address)).call().unwrap().status().as_u16()
}

#[test]
fn a_clock_that_jumps_loses_nothing() {
    const YEAR_S: i64 = 365 * 24 * 3600;
    let (dir, faults, load) = (tempfile::tempdir().unwrap(), Faults::new(), Load::default());
    thread::scope(|scope| {
        let _stop = load.start(scope);
        let analyzer = faults.start(dir.path());
        load.connect(analyzer.address);
        for seconds in [0, 20 * YEAR_S, -YEAR_S, 3600, 0] {
            faults.begin("clock", &seconds.to_string());
            load.wait_for_acks(60).unwrap();
        }
        let data = analyzer.data.clone();
        analyzer.running.terminate().unwrap();
        load.disconnect();
        let stats = load.check(&data).unwrap();
        assert!(stats.segments > 0 && stats.quarantined == 0 && stats.raw_from.is_none());
    });
}

#[test]
fn scrapes_are_stored_at_once_when_a_clock_that_was_ahead_is_right_again() {
    const DAYS_400_S: i64 = 400 * 24 * 3600;
    let (dir, faults) = (tempfile::tempdir().unwrap(), Faults::new());
    let config = format!(
        "store: {{head_bytes: 2048, retention: 1d}}\n\
         scrape: [{{name: gpu, targets: ['{}'], interval: 1s, timeout: 1s}}]\n",
        serve("DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-1\",gpu=\"0\",Hostname=\"n1\"} 50\n").unwrap()
    );
    let start = || Analyzer::start_with_faults(dir.path(), &config, faults.0.path()).unwrap();
    let samples = |analyzer: &Analyzer, outcome: &str| {
        let name = format!("goodput_analyzer_received_samples_total{{outcome=\"{outcome}\"}}");
        analyzer.metric(&name).unwrap().unwrap_or(0.0)
    };
    let stores_more = |analyzer: &Analyzer| {
        let enough = samples(analyzer, "stored") + 8.0;
        let stored = || Ok((samples(analyzer, "stored") >= enough).then_some(()));
        until("four scrapes to be stored", Duration::from_secs(60), stored).unwrap();
    };
    let in_doubt = |analyzer: &Analyzer| analyzer.metric("goodput_analyzer_clock_in_doubt").unwrap();
    faults.begin("clock", "0");
    let analyzer = start();
    stores_more(&analyzer);
    assert_eq!(in_doubt(&analyzer), Some(0.0));
    faults.begin("clock", &DAYS_400_S.to_string());
    stores_more(&analyzer);
    assert_eq!(in_doubt(&analyzer), Some(1.0));
    faults.begin("clock", "0");
    stores_more(&analyzer);
    assert_eq!((in_doubt(&analyzer), samples(&analyzer, "out_of_bounds")), (Some(0.0), 0.0));
    let log = analyzer.running.log_text();
    assert!(log.contains("stepped and is in doubt") && log.contains("no longer in doubt"), "{log}");
    analyzer.running.terminate().unwrap();
    let analyzer = start();
    stores_more(&analyzer);
    assert_eq!(samples(&analyzer, "out_of_bounds"), 0.0);
    let raw_from = analyzer.metric("goodput_analyzer_store_raw_from_timestamp_seconds").unwrap();
    assert_eq!((raw_from, metric(&analyzer, "removed_segments_total")), (None, 0.0));
}

#[test]
fn a_sender_keeps_what_lies_ahead_of_a_clock_that_stepped_back() {
    let (dir, faults) = (tempfile::tempdir().unwrap(), Faults::new());
    faults.begin("clock", "0");
    let analyzer = faults.start(dir.path());
    let labels = [("__name__", "DCGM_FI_DEV_GPU_UTIL"), ("UUID", "GPU-1"), ("instance", "n1")];
    let now = wall_clock();
    let write = |time| send(analyzer.address, vec![TimeSeries::new(&labels, [(time, 1.0)])]).unwrap();
    assert_eq!(write(now), 204);
    faults.begin("clock", "-900");
    assert_eq!(write(now + 1000), 503);
    assert_eq!(analyzer.metric("goodput_analyzer_clock_in_doubt").unwrap(), Some(1.0));
    faults.begin("clock", "0");
    assert_eq!(write(now + 1000), 204);
    assert_eq!(write(now + 3_600_000), 400, "one sender ahead of a clock that is right");
    assert_eq!(write(i64::MIN), 400);
    let refused = "goodput_analyzer_received_samples_total{outcome=\"out_of_bounds\"}";
    assert_eq!(analyzer.metric(refused).unwrap(), Some(2.0));
}

#[test]
fn segments_that_rot_are_set_aside_with_a_reason_and_the_rest_is_served() {
    let (dir, faults, load) = (tempfile::tempdir().unwrap(), Faults::new(), Load::default());
    thread::scope(|scope| {
        let _stop = load.start(scope);
        let analyzer = faults.start(dir.path());
        load.connect(analyzer.address);
        let enough = || Ok((metric(&analyzer, "segments") >= 3.0).then_some(()));
        until("three segments", Duration::from_secs(90), enough).unwrap();
        let data = analyzer.data.clone();
        analyzer.running.kill().unwrap();
        load.disconnect();
        let mut segments: Vec<_> =
            fs::read_dir(data.join("segments")).unwrap().map(|entry| entry.unwrap().path()).collect();
        segments.retain(|path| path.extension().is_some_and(|end| end == "parquet"));
        let (flipped, torn) = (&segments[0], &segments[1]);
        let mut bytes = fs::read(flipped).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(flipped, &bytes).unwrap();
        fs::File::options().write(true).open(torn).unwrap().set_len(bytes.len() as u64 / 3).unwrap();
        // The first read finds the flipped byte, the start the missing ones.
        let stats = load.check(&data).unwrap();
        assert!(stats.segments >= 1, "the others are served");
        assert_eq!(fs::read_dir(data.join("quarantine")).unwrap().count(), 2);
        let analyzer = faults.start(dir.path());
        assert_eq!(metric(&analyzer, "quarantined"), 2.0);
        load.connect(analyzer.address);
        load.wait_for_acks(10).unwrap();
    });
}
