//! Files of NCCL's Inspector, as they are recorded.

mod hostile;
mod once;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{chown, symlink};
use std::time::{Duration, Instant, SystemTime};

use goodput_exporter::collect::{Collector, Done};
use goodput_exporter::parse::inspector::json::{Line, Records};
use goodput_exporter::source::inspector::folder::{ENTRIES, FILES};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{Collected, Machine, collector, facts, shared};

const FIXTURE: &str = "net-nccl-inspector";
const SECONDS: &str = "goodput_nccl_collective_seconds_total";
const COLLECTIVES: &str = "goodput_nccl_collectives_total";
/// Series of each GPU, with those of its owner.
const BUDGET: usize = 112;

/// A node on which processes of jobs write files.
struct Node {
    machine: Machine,
    collector: Box<dyn Collector>,
    begin: Instant,
}

impl Node {
    fn new() -> Self {
        let machine = Machine::empty();
        machine.write("proc/uptime", "5000.00 1.00\n");
        Self { machine, collector: collector("nccl"), begin: Instant::now() }
    }

    /// A process of a job on a GPU of its own, which is called GPU-N in order; it began 4,000 s ago.
    fn process(&mut self, pid: u32, inner: u32, job: &str) {
        self.machine.gpu(&format!("00000000:{pid:02X}:00.0"), &[pid]);
        self.began(pid, 1000);
        self.machine.write(&format!("proc/{pid}/status"), &format!("NSpid:\t{pid}\t{inner}\n"));
        self.machine.write(&format!("proc/{pid}/cgroup"), &format!("0::/{job}\n"));
        fs::create_dir_all(self.machine.path(&format!("proc/{pid}/fd"))).unwrap();
    }

    fn began(&self, pid: u32, seconds: u32) {
        let stat = format!("{pid} (python) S 1 1 1 0 -1 0 1 1 1 1 1 1 1 1 20 0 1 0 {} 1 1\n", 100 * seconds);
        self.machine.write(&format!("proc/{pid}/stat"), &stat);
    }

    /// Writes a file that the process has open.
    fn log(&self, pid: u32, name: &str, text: &str) {
        let path = self.machine.path(&format!("run/nccl/{name}"));
        self.machine.write(&format!("run/nccl/{name}"), text);
        let fd = self.machine.path(&format!("proc/{pid}/fd/7"));
        if !fd.is_symlink() {
            symlink(path, fd).unwrap();
        }
    }

    /// What a first scrape shows.
    fn scrape(&mut self) -> Collected {
        self.later(0, |_| true)
    }

    /// The first scrape this many seconds later that shows an answer which is as expected.
    fn later(&mut self, seconds: u64, is_expected: impl Fn(&Collected) -> bool) -> Collected {
        let at = self.begin + Duration::from_secs(seconds);
        let mut scrapes = (0..1_000_000).map(|_| self.machine.collect_at(self.collector.as_mut(), at));
        scrapes.find(|scrape| scrape.count("goodput_nccl_files") == 4 && is_expected(scrape)).unwrap().ok()
    }
}

fn files(scrape: &Collected, state: &str) -> f64 {
    scrape.value(&format!("goodput_nccl_files{{state=\"{state}\"}}"))
}

fn lost(scrape: &Collected, owner: &str, reason: &str) -> f64 {
    scrape.value(&format!("goodput_nccl_lost_records_total{{owner=\"/{owner}\",reason=\"{reason}\"}}"))
}

/// The sum over the series of a metric.
fn sum(scrape: &Collected, metric: &str) -> f64 {
    let is_of = |series: &String| series.split('{').next() == Some(metric);
    scrape.samples().iter().filter(|(series, _)| is_of(series)).map(|(_, value)| value).sum()
}

/// A line of JSON v4.0 about an AllReduce of 8 KiB in 1 ms by rank 0 of 2.
fn record(pid: u32, sequence: u64) -> String {
    format!(
        "{{\"header\":{{\"id\":\"0xab\",\"rank\":0,\"n_ranks\":2,\"nnodes\":1}},\"metadata\":{{\"inspector_output_format_version\":\"v4.0\",\"pid\":{pid}}},\"coll_perf\":{{\"coll\":\"AllReduce\",\"coll_sn\":{sequence},\"coll_msg_size_bytes\":8192,\"coll_exec_time_us\":1000}}}}\n"
    )
}

/// As it was recorded, but written in the year 2100: what was written before the exporter began is not counted.
fn recorded(name: &str) -> String {
    fs::read_to_string(shared(&format!("{FIXTURE}/{name}")))
        .unwrap()
        .replace("\"dump_timestamp_us\":1", "\"dump_timestamp_us\":4")
}

/// The line, written at this time.
fn written(line: &str, time: SystemTime) -> String {
    let us = time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
    line.replace("\"pid\"", &format!("\"dump_timestamp_us\":{us},\"pid\""))
}

#[test]
fn recorded_lines_of_v4_0() {
    let text = recorded("v4.0.jsonl");
    for (line, expected) in text.lines().zip(facts(FIXTURE)["v4.0"].as_array().unwrap()) {
        let mut node = Node::new();
        node.process(100, expected["pid"].as_u64().unwrap() as u32, "a");
        node.log(100, "a/node-pid1.log", &format!("{line}\n"));
        let scrape = node.scrape();
        let [comm, operation] = ["comm", "operation"].map(|key| expected[key].as_str().unwrap());
        let number = |key: &str| expected[key].as_f64().unwrap();
        let labels = format!("gpu=\"0\",UUID=\"GPU-0\",owner=\"/a\",comm=\"{comm}\"");
        let value =
            |metric: &str| scrape.value(&format!("goodput_nccl_{metric}{{{labels},operation=\"{operation}\"}}"));
        let (seconds, bytes) = (value("collective_seconds_total"), value("bus_bytes_total"));
        assert_eq!((seconds, bytes), (number("seconds"), number("bus_bytes")));
        assert_eq!((value("collectives_total"), value("sequence")), (1.0, number("sequence")));
        assert!((bytes / seconds / 1e9 - number("stated_bus_gb_per_second")).abs() < 1e-5);
        let [ranks, nodes, rank] = ["ranks", "nodes", "rank"].map(|key| expected[key].as_u64().unwrap());
        let about = format!("{labels},ranks=\"{ranks}\",nodes=\"{nodes}\",rank=\"{rank}\"");
        assert_eq!(scrape.value(&format!("goodput_nccl_communicator_info{{{about}}}")), 1.0);
    }
}

#[test]
fn lines_of_v4_3() {
    let (text, expected) = (recorded("v4.3-by-hand.jsonl"), &facts(FIXTURE)["v4.3"]);
    let mut records = Records::default();
    let markers = text.lines().filter(|line| matches!(records.line(line.as_bytes()), Ok(Line::Marker(_)))).count();
    let without = text.lines().filter(|line| !line.contains("\"header\"")).count();
    assert_eq!(
        (expected["markers"].as_u64(), expected["lines_without_header"].as_u64()),
        (Some(markers as u64), Some(without as u64))
    );
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.log(100, "a/node-pid7.log", &text);
    let scrape = node.scrape();
    assert_eq!(sum(&scrape, COLLECTIVES), expected["collectives"].as_f64().unwrap());
    assert!((sum(&scrape, SECONDS) - expected["seconds"].as_f64().unwrap()).abs() < 1e-9);
    assert_eq!(lost(&scrape, "a", "overwritten"), expected["lost_total"].as_f64().unwrap());
}

#[test]
fn text_of_v5_1() {
    let (text, expected) = (recorded("v5.1.prom"), &facts(FIXTURE)["v5.1"]);
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.machine.write("run/nccl/a/nccl_inspector_metrics_0.prom", &text);
    let scrape = node.scrape();
    let series = ["bus_bandwidth_bytes", "mean_seconds"].map(|name| scrape.count(&format!("goodput_nccl_{name}")));
    assert_eq!(series.iter().sum::<usize>() as u64, expected["series"].as_u64().unwrap());
    let labels = "gpu=\"0\",UUID=\"GPU-0\",owner=\"/a\",operation=\"AllReduce\",size=\"4-5GB\",nodes=\"1\"";
    assert!((scrape.value(&format!("goodput_nccl_bus_bandwidth_bytes{{{labels}}}")) - 678.263e9).abs() < 1.0);
    assert_eq!((expected["gpu_label"].as_str(), text.contains("GPU-")), (Some("GPU0"), false));
    // Two intervals without a change: it is told no more.
    let is_gone = |scrape: &Collected| scrape.count("goodput_nccl_mean_seconds") == 0;
    assert_eq!(files(&node.later(300, is_gone), "read"), 1.0);
}

#[test]
fn series_of_a_gpu_are_bounded() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    let operations =
        ["AllReduce", "AllGather", "ReduceScatter", "AllToAll", "Broadcast", "Reduce", "Gather", "Scatter"];
    let mut text = String::new();
    for comm in 1..40 {
        for operation in operations {
            for sequence in 0..8 {
                let line = record(7, 16 * sequence).replace("0xab", &format!("{comm:#x}"));
                text += &line.replace("AllReduce", operation);
            }
        }
    }
    node.log(100, "a/node-pid7.log", &text);
    node.machine.write("run/nccl/a/nccl_inspector_metrics_0.prom", &recorded("v5.1.prom"));
    let scrape = node.scrape();
    let mut series = BTreeMap::new();
    for name in scrape.samples().into_keys().filter(|series| !series.starts_with("goodput_nccl_files")) {
        *series.entry(name.split('{').next().unwrap().to_owned()).or_insert(0) += 1;
    }
    let total: usize = series.values().sum();
    assert!((100..=BUDGET).contains(&total), "{total} series: {series:#?}");
    assert_eq!(sum(&scrape, COLLECTIVES), 39.0 * 64.0, "none is lost");
}

#[test]
fn without_a_folder_there_is_nothing_to_read() {
    let mut node = Node::new();
    let context = goodput_exporter::context::Context { nccl: std::sync::Arc::default(), ..node.machine.context() };
    let mut families = goodput_exposition::Families::default();
    let done = node.collector.collect(&context, &mut families);
    assert!(matches!(done, Ok(Done::NotApplicable(_))) && families.samples() == 0);
}
