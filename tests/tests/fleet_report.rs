//! Two weeks of a fleet whose verdicts are made without samples: the report and the first page have their sums, and what
//! they cost is printed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test, in helpers too")]
#![allow(clippy::print_stdout, reason = "figures for people")]

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use goodput_lab::bin;
use goodput_store::{Options, Replacement, Results as _, Store};
use goodput_tests::browser::Browser;
use goodput_verdict::{CheckEnd, Class, Energy, Evidence, HOUR_MS, Interval, Outlook, Standing, Version};
use serde_json::Value;

/// Monday 2026-11-02, 00:00 UTC.
const START_MS: i64 = 1_793_577_600_000;
const HOURS: i64 = 14 * 24;
const GPUS_OF_NODE: usize = 8;
/// Jobs run for this long on four nodes.
const JOB_HOURS: i64 = 12;
/// Of `/proc/PID/stat` (proc_pid_stat(5)).
const TICKS_PER_SECOND: f64 = 100.0;

/// 64, unless `GOODPUT_FLEET_GPUS` says otherwise.
fn gpus() -> usize {
    std::env::var("GOODPUT_FLEET_GPUS").map_or(64, |gpus| gpus.parse().unwrap())
}

/// The program of `GOODPUT_ANALYZER`, else that of this build.
fn analyzer() -> PathBuf {
    std::env::var_os("GOODPUT_ANALYZER").map_or_else(|| bin("goodput-analyzer").unwrap(), PathBuf::from)
}

/// What an hour of a node went into: most of it productive, a loss of a class that depends on the job, a start at the
/// beginning of each job; every seventh node is free every third job.
fn hour_of(node: usize, hour: i64) -> Vec<Interval> {
    let start = START_MS + hour * HOUR_MS;
    let job = (node / 4) as i64 * 1000 + hour / JOB_HOURS;
    let is_free = node.is_multiple_of(7) && job % 3 == 0;
    let lossy = [Class::DataloaderStorage, Class::Checkpoint, Class::Unexplained, Class::CrossNuma][job as usize % 4];
    let mut all = Vec::new();
    for gpu in 0..GPUS_OF_NODE {
        let one = |class: Class, span: Range<i64>, ms: i64| Interval {
            gpu: format!("GPU-{node:06}-{gpu:04}-4000-8000-000000000000"),
            node: format!("node-{node:05}"),
            model: Some("NVIDIA H100 80GB HBM3".into()),
            owner: (!is_free).then(|| format!("team-{}/job-{job}-worker-{}", job % 20, node % 4)),
            run: (!is_free).then(|| format!("team-{}/PyTorchJob/job-{job}", job % 20)),
            account: (!is_free).then(|| format!("team-{}", job % 20)),
            start_ms: start + span.start,
            end_ms: start + span.end,
            ms,
            confidence: 0.85,
            busy_signal: Some("gr_engine_active".into()),
            evidence: ["gr_engine_active", "job_io_pressure", "gpu_power"]
                .map(|signal| Evidence { signal: signal.into(), value: 0.75, unit: "ratio".into(), threshold: 0.3 })
                .into(),
            missing: vec!["gpu_busy".into(), "pcie_receive".into()],
            energy: Some(Energy { mj: ms * 500, ms, counted_ms: ms }),
            variance_ms2: Some(250_000),
            version: Some(Version::of(class)),
            ..Interval::untimed(class)
        };
        if is_free {
            all.push(one(Class::Unallocated, 0..HOUR_MS, HOUR_MS));
            continue;
        }
        let start_ms = if hour % JOB_HOURS == 0 { 180_000 } else { 0 };
        let lost = if (hour + gpu as i64) % 3 == 0 { 400_000 } else { 0 };
        all.push(one(Class::Productive, 0..HOUR_MS, HOUR_MS - start_ms - lost));
        all.extend((start_ms > 0).then(|| one(Class::ColdStart, 0..start_ms, start_ms)));
        all.extend((lost > 0).then(|| one(lossy, 1_200_000..2_400_000, lost)));
    }
    all
}

/// How a node is set up, as the audit of every node says each hour.
fn outlook(node: usize, hour: i64) -> Outlook {
    let start_ms = START_MS + hour * HOUR_MS;
    let check = CheckEnd { check: "swap_off".into(), status: "warn".into(), usual: None };
    let standing = Standing {
        node: format!("node-{node:05}"),
        start_ms,
        end_ms: start_ms + HOUR_MS,
        pool: Some("NVIDIA H100 80GB HBM3".into()),
        pool_nodes: 8,
        checks: vec![check],
        ..Standing::default()
    };
    Outlook { standings: vec![standing], ..Outlook::default() }
}

/// Stores them; returns the GPU-milliseconds of the second week, of all classes and productive ones, and the rows.
async fn fill(dir: &Path, nodes: usize) -> (i64, i64, usize) {
    let options = Options { now: || START_MS + HOURS * HOUR_MS, ..Options::new(dir, |_| true) };
    let store = Store::open(options).await.unwrap();
    let (mut capacity, mut productive, mut rows) = (0, 0, 0);
    for hour in 0..HOURS {
        let by_node: Vec<(String, Vec<Interval>, Outlook)> =
            (0..nodes).map(|node| (format!("node-{node:05}"), hour_of(node, hour), outlook(node, hour))).collect();
        let new: Vec<Replacement<'_>> = by_node
            .iter()
            .map(|(node, intervals, outlook)| Replacement {
                place: node.as_str().into(),
                intervals: Some(intervals),
                outlook: Some(outlook),
            })
            .collect();
        let window = START_MS + hour * HOUR_MS..START_MS + (hour + 1) * HOUR_MS;
        assert!(store.replace_window(window, &new).await.unwrap().is_empty());
        for i in by_node.iter().flat_map(|(_, intervals, _)| intervals) {
            rows += 1;
            let ms = if hour >= HOURS / 2 { i.ms } else { 0 };
            capacity += ms;
            productive += if i.class == Class::Productive { ms } else { 0 };
        }
    }
    store.roll_up_days().await.unwrap();
    store.close().await;
    (capacity, productive, rows)
}

/// CPU seconds of a process, and the most memory that it had, in MiB; none when it is gone.
fn usage(pid: u32) -> Option<(f64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some((ticks / TICKS_PER_SECOND, peak.trim().trim_end_matches(" kB").parse::<u64>().ok()? / 1024))
}

#[allow(clippy::disallowed_methods, reason = "runs the program under test")]
fn report(dir: &Path, format: &str) -> String {
    let (data, out) = (dir.join("data"), dir.join(format));
    let mut child = Command::new(analyzer())
        .args(["--data.dir".as_ref(), data.as_os_str(), "report".as_ref(), "--week=2026-W46".as_ref()])
        .args([format!("--format={format}").as_ref(), "--out".as_ref(), out.as_os_str()])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut last = (0.0, 0);
    let status = loop {
        last = usage(child.id()).unwrap_or(last);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
    println!("report --format {format}: {:.2} s of CPU, {} MiB at most", last.0, last.1);
    fs::read_to_string(out).unwrap()
}

#[tokio::test]
async fn a_report_over_two_weeks_has_the_sums_of_the_intervals() {
    let (dir, nodes) = (tempfile::tempdir().unwrap(), gpus() / GPUS_OF_NODE);
    let (capacity, productive, rows) = fill(&dir.path().join("data"), nodes).await;
    println!("{} GPUs, {rows} intervals", nodes * GPUS_OF_NODE);
    let told: Value = serde_json::from_str(&report(dir.path(), "json")).unwrap();
    assert_eq!(told["fleet"]["capacity"]["gpu_ms"], capacity);
    assert_eq!(told["fleet"]["productive"]["gpu_ms"], productive);
    assert_eq!(told["fleet"]["gpus"], nodes * GPUS_OF_NODE);
    for rows in ["nodes", "gpus", "models"] {
        let sum: i64 = told[rows].as_array().unwrap().iter().map(|row| row["total"]["gpu_ms"].as_i64().unwrap()).sum();
        assert_eq!(sum, capacity, "{rows}");
    }
    let losses = || told["findings"].as_array().unwrap().iter().chain(told["unjudged"].as_array().unwrap());
    let lost: i64 = losses().map(|finding| finding["lost"]["gpu_ms"].as_i64().unwrap()).sum();
    assert_eq!(lost, capacity - productive);
    // The first 30 findings, the largest of each of the first 30 groups, and the first 30 that could not be judged.
    let largest =
        told["groups"].as_array().unwrap().iter().take(30).map(|group| group["findings"][0].as_u64().unwrap());
    let shown: BTreeSet<u64> =
        largest.chain(0..30).filter(|n| (*n as usize) < told["findings"].as_array().unwrap().len()).collect();
    let proven = losses().filter(|finding| !finding["evidence"].as_array().unwrap().is_empty()).count();
    assert_eq!(proven, shown.len() + told["unjudged"].as_array().unwrap().len().min(30));
    let html = report(dir.path(), "html");
    assert!(html.contains("job_io_pressure"));
    fits_a_telephone(dir.path(), &html).unwrap();
}

/// A telephone is 390 x 844 pixels of CSS.
const WIDTH: u32 = 390;
/// 30 screens: five findings in full, 25 more and 30 that could not be judged in some lines each.
const MAX_HEIGHT: f64 = 30.0 * 844.0;

/// Rows of tables and smaller findings are short there. The file is kept for the eye.
fn fits_a_telephone(dir: &Path, html: &str) -> anyhow::Result<()> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fleet-report.html");
    fs::write(&file, html)?;
    let mut browser = Browser::start(dir)?;
    browser.look(WIDTH, false)?;
    browser.open(&format!("file://{}", file.display()))?;
    let height = browser.eval("document.documentElement.scrollHeight")?.as_f64().unwrap();
    println!("the report on a telephone: {height} px");
    let wide = browser.eval("document.documentElement.scrollWidth")?;
    assert!(height <= MAX_HEIGHT && wide == WIDTH, "{height} px high, {wide} px wide");
    Ok(())
}
