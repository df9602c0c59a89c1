//! Names of machines: two that have one, one that gets another, and agents that call every machine `localhost`.

use std::collections::BTreeSet;
use std::ops::Range;

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Judged, Thresholds, judge_series};
use goodput_rules::frame::{UNJOINED_NODE, Unjoined};
use goodput_verdict::Class;

const MINUTE: TimeMs = 60_000;
const HOUR: TimeMs = 60 * MINUTE;

fn series(labels: &[&[(&str, &str)]], span: &Range<TimeMs>, value: impl Fn(TimeMs) -> f64) -> Series {
    let times = (span.start..span.end).step_by(30_000);
    let samples = times.map(|time_ms| Sample { time_ms, value: value(time_ms) }).collect();
    Series { labels: Labels::new(labels.concat()), samples }
}

/// A GPU that waits for its input for most of the time, as dcgm-exporter shows it.
fn gpu(uuid: &str, labels: &[(&str, &str)], span: &Range<TimeMs>) -> Vec<Series> {
    let own = [("UUID", uuid), ("job", "dcgm"), ("exported_pod", uuid), ("exported_namespace", "ml")];
    let of = |name, value: fn(TimeMs) -> f64| series(&[&[("__name__", name)], &own, labels], span, value);
    vec![
        of("DCGM_FI_DEV_GPU_UTIL", |t| if t / 30_000 % 2 == 0 { 40.0 } else { 20.0 }),
        of("DCGM_FI_DEV_POWER_USAGE", |t| 250.0 + (t / 30_000 % 7) as f64),
        of("DCGM_FI_DEV_FB_USED", |_| 60_000.0),
        of("DCGM_FI_DEV_FB_FREE", |_| 20_000.0),
    ]
}

/// Its host; `io` is the share of time in which a task waits for storage.
fn host(nodename: &str, labels: &[(&str, &str)], io: f64, span: &Range<TimeMs>) -> Vec<Series> {
    let own = [("job", "node")];
    let of = |more: &[(&str, &str)], rate: f64| series(&[more, &own, labels], span, |t| rate * t as f64 / 1000.0);
    let mut all =
        vec![series(&[&[("__name__", "node_uname_info"), ("nodename", nodename)], &own, labels], span, |_| 1.0)];
    all.push(of(&[("__name__", "node_pressure_io_waiting_seconds_total")], io));
    all.push(of(&[("__name__", "node_pressure_cpu_waiting_seconds_total")], 0.0));
    all.push(of(&[("__name__", "node_disk_read_bytes_total"), ("device", "sda")], if io > 0.5 { 1e8 } else { 0.0 }));
    for (mode, rate) in [("user", 1.0), ("system", 0.1), ("idle", 14.9), ("iowait", 0.0), ("steal", 0.0)] {
        all.push(of(&[("__name__", "node_cpu_seconds_total"), ("cpu", "0"), ("mode", mode)], rate / 16.0));
    }
    all
}

fn judge(series: &[Series], window: Range<TimeMs>) -> Judged {
    judge_series(series, window, &Thresholds::default()).unwrap()
}

fn ms(judged: &Judged, gpu: &str, class: Class) -> i64 {
    judged.intervals.iter().filter(|i| i.gpu == gpu && i.class == class).map(|i| i.ms).sum()
}

fn nodes<'j>(judged: &'j Judged, gpu: &str) -> BTreeSet<&'j str> {
    judged.intervals.iter().filter(|i| i.gpu == gpu).map(|i| i.node.as_str()).collect()
}

const DAY: Range<TimeMs> = 0..4 * HOUR;

/// Two machines that are called `localhost`; storage is late on the first.
fn one_name(hosts: [&[(&str, &str)]; 2], spans: [Range<TimeMs>; 2]) -> Vec<Series> {
    let mut all = Vec::new();
    for (n, (address, span)) in ["10.0.0.1", "10.0.0.2"].into_iter().zip(&spans).enumerate() {
        let (gpus, hosted) = (format!("{address}:9400"), format!("{address}:9100"));
        let labels = [("instance", gpus.as_str()), ("Hostname", "localhost")];
        all.extend(gpu(["GPU-0", "GPU-1"][n], &labels, span));
        let labels = [&[("instance", hosted.as_str())], hosts[n]].concat();
        all.extend(host("localhost", &labels, [0.95, 0.0][n], span));
    }
    all
}

fn is_contested(judged: &Judged) -> bool {
    judged.unjoined.iter().any(|u| matches!(u, Unjoined::NameOfSeveral { node, .. } if node == "localhost"))
}

#[test]
fn two_machines_of_one_name_are_two_nodes_and_that_is_told() {
    let judged = judge(&one_name([&[], &[]], [DAY, DAY]), HOUR..2 * HOUR);
    assert!(is_contested(&judged), "{:?}", judged.unjoined);
    assert!(ms(&judged, "GPU-0", Class::DataloaderStorage) > 30 * MINUTE, "{:?}", judged.intervals);
    assert_eq!(ms(&judged, "GPU-1", Class::DataloaderStorage), 0, "the other one's disk");
    let names = (nodes(&judged, "GPU-0"), nodes(&judged, "GPU-1"));
    assert_eq!(names, (["localhost (10.0.0.1)"].into(), ["localhost (10.0.0.2)"].into()));
}

#[test]
fn an_exporter_that_moves_to_another_address_is_one_machine() {
    let judged = judge(&one_name([&[], &[]], [0..2 * HOUR, 2 * HOUR..4 * HOUR]), HOUR..3 * HOUR);
    assert!(!is_contested(&judged), "{:?}", judged.unjoined);
    assert_eq!(nodes(&judged, "GPU-0"), ["localhost"].into());
}

#[test]
fn a_machine_that_is_scraped_by_two_addresses_is_one() {
    let mut all = Vec::new();
    for address in ["10.0.0.1", "192.168.0.1"] {
        let hosted = format!("{address}:9100");
        all.extend(host("n1", &[("instance", hosted.as_str())], 0.95, &DAY));
        let boot = [("__name__", "node_boot_time_seconds"), ("job", "node"), ("instance", hosted.as_str())];
        all.push(series(&[&boot], &DAY, |_| 1.7e9));
    }
    all.extend(gpu("GPU-0", &[("instance", "10.0.0.1:9400"), ("Hostname", "n1")], &DAY));
    let judged = judge(&all, HOUR..2 * HOUR);
    assert_eq!((judged.unjoined.as_slice(), nodes(&judged, "GPU-0")), (&[][..], ["n1"].into()));
    assert!(ms(&judged, "GPU-0", Class::DataloaderStorage) > 30 * MINUTE);
}

#[test]
fn agents_that_scrape_localhost_are_told_apart_by_their_other_labels() {
    let mut all = Vec::new();
    for (n, (name, io)) in [("n0", 0.95), ("n1", 0.0)].into_iter().enumerate() {
        let agent = ("agent_hostname", name);
        all.extend(gpu(["GPU-0", "GPU-1"][n], &[("instance", "localhost:9400"), ("Hostname", name), agent], &DAY));
        all.extend(host(name, &[("instance", "localhost:9100"), agent], io, &DAY));
    }
    let judged = judge(&all, HOUR..2 * HOUR);
    assert!(ms(&judged, "GPU-0", Class::DataloaderStorage) > 30 * MINUTE, "{:?}", judged.intervals);
    assert_eq!(ms(&judged, "GPU-1", Class::DataloaderStorage), 0);
    assert_eq!(judged.unjoined, []);
}

/// A machine whose name is `n1` and, from this time on, `n2`.
fn renamed(at: TimeMs) -> Vec<Series> {
    let mut all = Vec::new();
    for (name, span) in [("n1", 0..at), ("n2", at..4 * HOUR)] {
        all.extend(gpu("GPU-0", &[("instance", "10.0.0.1:9400"), ("Hostname", name)], &span));
        all.extend(host(name, &[("instance", "10.0.0.1:9100")], 0.95, &span));
    }
    all
}

#[test]
fn each_cell_belongs_to_the_node_that_its_samples_name() {
    let at = HOUR + 30 * MINUTE;
    let judged = judge(&renamed(at), HOUR..2 * HOUR);
    assert!(judged.intervals.iter().all(|i| i.node != UNJOINED_NODE), "{:?}", judged.unjoined);
    let on = |node: &str| judged.intervals.iter().filter(|i| i.node == node).map(|i| i.ms).sum::<i64>();
    assert_eq!((on("n1"), on("n2")), (30 * MINUTE, 30 * MINUTE));
    assert!(judged.intervals.iter().all(|i| if i.node == "n1" { i.end_ms <= at } else { i.start_ms >= at }));
    let late = ms(&judged, "GPU-0", Class::DataloaderStorage);
    assert!(late > 36 * MINUTE, "{late}: the host is known on either side: {:?}", judged.intervals);
    let seen: Vec<(&str, &str)> = judged.seen.iter().map(|s| (s.gpu.as_str(), s.node.as_str())).collect();
    assert_eq!(seen, [("GPU-0", "n2")]);
}

#[test]
fn a_rename_in_the_middle_of_a_cell_shares_it_out() {
    let judged = judge(&renamed(HOUR + 30 * MINUTE + 20_000), HOUR..2 * HOUR);
    let total: i64 = judged.intervals.iter().map(|i| i.ms).sum();
    assert_eq!((total, judged.coverage.total_ms), (HOUR, HOUR));
}

#[test]
fn a_gpu_that_is_moved_is_on_either_node_for_its_time() {
    let mut all = Vec::new();
    for (name, address, span) in [("n1", "10.0.0.1", 0..90 * MINUTE), ("n2", "10.0.0.2", 100 * MINUTE..4 * HOUR)] {
        let (gpus, hosted) = (format!("{address}:9400"), format!("{address}:9100"));
        all.extend(gpu("GPU-0", &[("instance", gpus.as_str()), ("Hostname", name)], &span));
        all.extend(host(name, &[("instance", hosted.as_str())], 0.95, &DAY));
    }
    let judged = judge(&all, HOUR..2 * HOUR);
    let on = |node: &str| judged.intervals.iter().filter(|i| i.node == node).map(|i| i.ms).sum::<i64>();
    assert_eq!((on("n1"), on("n2")), (40 * MINUTE, 20 * MINUTE));
    assert_eq!(ms(&judged, "GPU-0", Class::NoData), 10 * MINUTE, "on its way");
}

#[test]
fn an_exporter_that_calls_itself_after_its_pod_names_no_node() {
    let mut all = gpu("GPU-0", &[("instance", "10.1.0.7:9400"), ("Hostname", "dcgm-exporter-x7k2p")], &DAY);
    let ours = [("UUID", "GPU-0"), ("hostname", "n1"), ("job", "goodput"), ("instance", "10.0.0.1:9401")];
    all.push(series(&[&[("__name__", "goodput_gpu_processes")], &ours], &DAY, |_| 1.0));
    all.extend(host("n1", &[("instance", "10.0.0.1:9100")], 0.95, &DAY));
    let judged = judge(&all, HOUR..2 * HOUR);
    assert_eq!(nodes(&judged, "GPU-0"), ["n1"].into());
    assert!(ms(&judged, "GPU-0", Class::DataloaderStorage) > 30 * MINUTE, "{:?}", judged.intervals);
}
