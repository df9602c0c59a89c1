//! Files of NCCL's Inspector: those that are recorded, and those that a user makes to do harm.

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

fn recorded(name: &str) -> String {
    fs::read_to_string(shared(&format!("{FIXTURE}/{name}"))).unwrap()
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
fn links_and_pipes_are_refused() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.log(100, "a/node-pid7.log", &record(7, 1));
    let path = |name: &str| node.machine.path(&format!("run/nccl/a/{name}"));
    let secret = node.machine.path("secret");
    fs::write(&secret, record(7, 2)).unwrap();
    symlink(&secret, path("link-pid7.log")).unwrap();
    fs::hard_link(&secret, path("hard-pid7.log")).unwrap();
    mknodat(CWD, path("pipe-pid7.log"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    fs::create_dir(path("folder-pid7.log")).unwrap();
    symlink(node.machine.path(""), path("out")).unwrap();
    symlink(node.machine.path(""), node.machine.path("run/nccl/out")).unwrap();
    let scrape = node.scrape();
    assert_eq!((files(&scrape, "refused"), files(&scrape, "read")), (4.0, 1.0));
    assert_eq!(sum(&scrape, COLLECTIVES), 1.0);
    assert!(scrape.left().contains("pid7.log: expected a plain file with one name"), "{}", scrape.left());
}

/// Needs root, which alone gives files away.
#[test]
fn another_users_file_is_not_read() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.process(101, 8, "b");
    node.log(100, "a/node-pid7.log", &record(7, 1));
    chown(node.machine.path("run/nccl/a/node-pid7.log"), Some(1000), None).unwrap();
    node.machine.write("run/nccl/a/nccl_inspector_metrics_1.prom", &recorded("v5.1.prom"));
    chown(node.machine.path("run/nccl/a/nccl_inspector_metrics_1.prom"), Some(1000), None).unwrap();
    let strangers = node.scrape();
    assert_eq!((files(&strangers, "unowned"), strangers.count(COLLECTIVES)), (2.0, 0));
    // The user has a process on a GPU now: the file is still not that of the one that has it open.
    chown(node.machine.path("proc/101"), Some(1000), None).unwrap();
    let other = node.later(15, |scrape| files(scrape, "read") > 0.0);
    assert_eq!((files(&other, "read"), files(&other, "unowned"), other.count(COLLECTIVES)), (1.0, 1.0, 0));
    assert_eq!(other.count("goodput_nccl_mean_seconds"), 2, "the means are of its own GPU");
}

/// As a million would: no more than these are looked at.
#[test]
fn many_files_cost_their_folder() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    fs::create_dir_all(node.machine.path("run/nccl/many")).unwrap();
    for at in 0..ENTRIES + 10 {
        fs::write(node.machine.path(&format!("run/nccl/many/x{at}")), "").unwrap();
    }
    node.log(100, "z/node-pid7.log", &record(7, 1));
    let scrape = node.scrape();
    assert_eq!((files(&scrape, "beyond"), files(&scrape, "read")), (1.0, 1.0));
    for at in 0..FILES + 6 {
        node.machine.write(&format!("run/nccl/b/node{at}-pid9.log"), "");
    }
    let full = node.later(15, |scrape| files(scrape, "beyond") > 1.0);
    assert_eq!(files(&full, "beyond"), 1.0 + 7.0);
}

#[test]
fn a_line_of_ten_gigabytes_is_passed_over() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.log(100, "a/node-pid7.log", "");
    let path = node.machine.path("run/nccl/a/node-pid7.log");
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(10_000_000_000).unwrap();
    let mut text = fs::OpenOptions::new().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut text, format!("\n{}", record(7, 3)).as_bytes()).unwrap();
    assert_eq!(sum(&node.scrape(), COLLECTIVES), 1.0);
    // It grows by more than may be read in 15 s: what is passed over is counted by the numbers that are missing.
    file.set_len(10_020_000_000).unwrap();
    std::io::Write::write_all(&mut text, format!("\n{}", record(7, 13)).as_bytes()).unwrap();
    let behind = node.later(15, |scrape| sum(scrape, COLLECTIVES) == 2.0);
    assert_eq!((lost(&behind, "a", "behind"), lost(&behind, "a", "gap")), (9.0, 0.0));
}

#[test]
fn short_lines_are_bounded_as_long_ones_are() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.log(100, "a/node-pid7.log", &(record(7, 1) + &"x\n".repeat(2_000_000)));
    let scrape = node.later(0, |scrape| files(scrape, "read") == 1.0);
    let rejected = lost(&scrape, "a", "rejected");
    assert!((1.0..500_000.0).contains(&rejected), "{rejected}");
}

#[test]
fn a_time_of_a_file_that_no_clock_reaches_costs_nothing() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.machine.write("run/nccl/a/node-pid7.log", &record(7, 1));
    let file = File::options().write(true).open(node.machine.path("run/nccl/a/node-pid7.log")).unwrap();
    // What a file system cannot keep it refuses, or makes less.
    let _ = file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(i64::MAX as u64));
    assert_eq!(sum(&node.scrape(), COLLECTIVES), 1.0);
}

#[test]
fn a_file_that_is_cut_counts_nothing_twice() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    let lines: String = (1..=3).map(|sequence| record(7, sequence)).collect();
    node.log(100, "a/node-pid7.log", &lines);
    assert_eq!(sum(&node.scrape(), COLLECTIVES), 3.0);
    node.log(100, "a/node-pid7.log", &record(7, 2));
    let cut = node.later(15, |scrape| lost(scrape, "a", "rejected") > 0.0);
    assert_eq!((sum(&cut, COLLECTIVES), lost(&cut, "a", "rejected")), (3.0, 1.0));
    node.log(100, "a/node-pid7.log", &(record(7, 2) + &record(7, 4)));
    assert_eq!(sum(&node.later(30, |scrape| sum(scrape, COLLECTIVES) > 3.0), COLLECTIVES), 4.0);
}

#[test]
fn forged_numbers_are_refused_record_by_record() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    let good = record(7, 1);
    let forged = [
        // Longer than the process lives, and faster than any bus.
        good.replace("_us\":1000", "_us\":4002000000").replace("sn\":1", "sn\":2"),
        good.replace("bytes\":8192", "bytes\":8192000000000").replace("sn\":1", "sn\":3"),
        good.replace("\"n_ranks\":2", "\"n_ranks\":4000000000").replace("AllReduce", "AllGather"),
        // A number again, an operation and a version that do not exist.
        good.clone(),
        good.replace("AllReduce", "Everything"),
        good.replace("v4.0", "v7.0"),
    ];
    node.log(100, "a/node-pid7.log", &(good + &forged.concat() + &record(7, 4)));
    let scrape = node.scrape();
    assert_eq!((sum(&scrape, COLLECTIVES), sum(&scrape, SECONDS)), (2.0, 0.002));
    assert_eq!((lost(&scrape, "a", "implausible"), lost(&scrape, "a", "rejected")), (3.0, 3.0));
    assert_eq!(lost(&scrape, "a", "gap"), 0.0, "2 and 3 were written");
}

/// Each record could be, but all together are longer than the process lives.
#[test]
fn a_communicator_has_no_more_seconds_than_its_process() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    let line = |sequence| record(7, sequence).replace("_us\":1000", "_us\":1000000000");
    node.log(100, "a/node-pid7.log", &(1..=9).map(line).collect::<String>());
    let scrape = node.scrape();
    assert_eq!((sum(&scrape, SECONDS), lost(&scrape, "a", "implausible")), (4000.0, 5.0));
}

#[test]
fn a_forged_id_is_not_matched_with_another_owners() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.process(101, 8, "b");
    node.log(100, "a/node-pid7.log", &record(7, 1));
    let forged = record(8, 1).replace("\"rank\":0", "\"rank\":1").replace("_us\":1000", "_us\":1");
    node.log(101, "b/node-pid8.log", &forged.replace("bytes\":8192", "bytes\":1"));
    let scrape = node.scrape();
    let transfer = |owner| {
        scrape.value(&format!(
            "goodput_nccl_transfer_seconds_total{{owner=\"/{owner}\",comm=\"0xab\",operation=\"AllReduce\"}}"
        ))
    };
    assert_eq!((transfer("a"), transfer("b")), (0.001, 1e-6));
    assert_eq!(sum(&scrape, "goodput_nccl_last_total"), 0.0);
}

#[test]
fn a_forged_uuid_leads_to_no_gpu() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    for uuid in ["9", "", "GPU-0", "..%2f0"] {
        node.machine.write(&format!("run/nccl/a/nccl_inspector_metrics_{uuid}.prom"), &recorded("v5.1.prom"));
    }
    let scrape = node.scrape();
    assert_eq!((files(&scrape, "unowned"), scrape.count("goodput_nccl_mean_seconds")), (4.0, 0));
}

#[test]
fn a_pid_that_is_given_again_is_another_process() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.log(100, "a/node-pid7.log", &record(7, 1));
    assert_eq!(sum(&node.scrape(), COLLECTIVES), 1.0);
    fs::remove_file(node.machine.path("proc/100/fd/7")).unwrap();
    node.log(100, "a/node-pid7.log", &(record(7, 1) + &record(7, 2)));
    fs::remove_file(node.machine.path("proc/100/fd/7")).unwrap();
    // The same process, though it has closed the file.
    node.later(15, |scrape| sum(scrape, COLLECTIVES) == 2.0);
    // Another one began 10 s ago, after the file was written last.
    node.began(100, 4990);
    let written = SystemTime::now() - Duration::from_secs(60);
    File::options()
        .write(true)
        .open(node.machine.path("run/nccl/a/node-pid7.log"))
        .unwrap()
        .set_modified(written)
        .unwrap();
    let reused = node.later(30, |scrape| files(scrape, "unowned") == 1.0);
    assert_eq!(reused.count(COLLECTIVES), 0);
}

#[test]
fn two_containers_may_have_a_process_1_each() {
    let mut node = Node::new();
    for (pid, pod) in [(100, "a"), (101, "b")] {
        node.process(pid, 1, pod);
        let lines: String = (0..u64::from(pid - 99)).map(|sequence| record(1, sequence)).collect();
        node.log(pid, &format!("{pod}/node-pid1.log"), &lines);
    }
    let scrape = node.scrape();
    let of = |gpu: u32, owner: &str| {
        let labels =
            format!("gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",owner=\"/{owner}\",comm=\"0xab\",operation=\"AllReduce\"");
        scrape.value(&format!("{COLLECTIVES}{{{labels}}}"))
    };
    assert_eq!((of(0, "a"), of(1, "b")), (1.0, 2.0));
    // By the id alone they cannot be told apart.
    let mut blind = Node::new();
    for (pid, pod) in [(100, "a"), (101, "b")] {
        blind.process(pid, 1, pod);
        blind.machine.write(&format!("run/nccl/{pod}/node-pid1.log"), &record(1, 1));
    }
    let scrape = blind.scrape();
    assert_eq!((files(&scrape, "unowned"), scrape.count(COLLECTIVES)), (2.0, 0));
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
