//! A kernel with two NUMA nodes and a GPU on each: a process pinned off its GPU's node is advised against, and charged
//! with the GPU-time that it waits; the same process on its node is neither. Interrupts on the wrong node are seen, and
//! limits of cgroup v2, which not every machine that runs tests has, are counted as that kernel counts them.
//!
//! The kernel, its processes, affinities, memory and interrupts are real; the GPUs are those of the fake library, at
//! the addresses of PCI devices of the guest. Remote memory is as fast as any there, so the waits of the misplaced
//! process are additional CPU work.

#![allow(clippy::unwrap_used, reason = "helpers of a test are test code")]

mod guest;

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use goodput_analyzer::ingest::scrape::{Seen, Target, succeeded};
use goodput_analyzer::ingest::{Limits, Rules};
use goodput_exposition::sample::{Batch, Sample, Series, SeriesRef, TimeMs};
use goodput_exposition::{Format, parse};
use goodput_lab::remote_write::{self, Label, TimeSeries, WriteRequest};
use goodput_lab::report::Interval;
use goodput_tests::programs::Analyzer;

use guest::Story;
use serde_json::Value;

/// Two GPUs, by index.
const GPUS: [&str; 2] = ["0", "1"];
/// The owner is the unit in whose cgroup the processes are.
const OWNER: &str = "train.service";
/// The NIC of node 1.
const NIC: &str = "0000:41:00.0";
/// Memory held in addition to each process, on the node that it first ran on.
const HELD_BYTES: f64 = (64 << 20) as f64;

/// The phases of `story.sh`.
const ON_NODE: &str = "on-node";
const OFF_NODE: &str = "off-node";
const WAITING: &str = "off-node-waiting";

#[test]
fn the_exporter_sees_where_gpus_processes_and_memory_are() -> Result<()> {
    let story = Story::get()?;
    for (phase, cpus_of_gpu_1, memory) in
        [(ON_NODE, [0.0, 2.0], [1, 1]), (OFF_NODE, [2.0, 0.0], [2, 0]), (WAITING, [2.0, 0.0], [2, 0])]
    {
        let scrape = story.last_scrape(&story.minutes(phase)?)?;
        let by_node = |metric, labels: &[(&str, &str)]| {
            ["0", "1"].map(|node| value(scrape, metric, &[labels, &[("node", node)]].concat()))
        };
        let placed = GPUS.map(|gpu| by_node("goodput_gpu_numa_info", &[("gpu", gpu)]));
        assert_eq!(placed, [[Some(1.0), None], [None, Some(1.0)]], "{phase}: nodes of the GPUs");
        let cpus =
            GPUS.map(|gpu| by_node("goodput_gpu_numa_allowed_cpus", &[("gpu", gpu)]).map(Option::unwrap_or_default));
        assert_eq!(cpus, [[2.0, 0.0], cpus_of_gpu_1], "{phase}: CPUs that the processes may use");
        let bytes = by_node("goodput_cgroup_numa_anon_shmem_bytes", &[("owner", OWNER)]);
        for (node, (bytes, held)) in bytes.into_iter().zip(memory).enumerate() {
            // In addition to what is held, the four processes have a few MiB of their own.
            let held = f64::from(held) * HELD_BYTES;
            let found = bytes.with_context(|| format!("{phase}: no memory of {OWNER} on node {node}"))?;
            assert!(
                (held..held + HELD_BYTES / 2.0).contains(&found),
                "{phase}: {found} bytes on node {node}, held {held}"
            );
        }
    }
    Ok(())
}

#[test]
fn only_waiting_off_node_is_charged_and_merely_being_there_advised_against() -> Result<()> {
    let story = Story::get()?;
    let batches = batches(story)?;
    let first = story.last_scrape(&story.minutes(ON_NODE)?)?;
    let uuids = GPUS.map(|gpu| label(first, "goodput_gpu_info", &[("gpu", gpu)], "UUID").unwrap());
    let phases = [ON_NODE, OFF_NODE, WAITING].map(|phase| story.minutes(phase).unwrap());
    let (intervals, report) = reported(&batches, phases[0].start..phases[2].end)?;
    for (phase, time) in [ON_NODE, OFF_NODE, WAITING].into_iter().zip(phases) {
        for (gpu, uuid) in GPUS.into_iter().zip(&uuids) {
            let charged = share(&intervals, uuid, "cross_numa", &time);
            let advised = advised_ms(&report, uuid, &time);
            let whole = time.end - time.start;
            let (is_charged, is_advised) = match (phase, gpu) {
                (OFF_NODE, "1") => (0.0..0.0, whole),
                // It prepares a batch for two seconds or more and trains on it for one, so that it waits for at least
                // half of the time; the other, which never waits, loses a few percent between batches.
                (WAITING, "1") => (0.35..0.7, 0),
                _ => (0.0..0.0, 0),
            };
            assert!(
                charged == is_charged.start || is_charged.contains(&charged),
                "{phase}, GPU {gpu}: {charged} of {time:?} is cross_numa, expected {is_charged:?}: {intervals:#?}"
            );
            assert_eq!(advised, is_advised, "{phase}, GPU {gpu}: advised for {time:?}: {:#}", report["advisories"]);
        }
    }
    Ok(())
}

#[test]
fn interrupts_taken_on_the_wrong_node_are_seen() -> Result<()> {
    let story = Story::get()?;
    let [before, away, home] = &story.irq_scrapes;
    let device = [("device", NIC), ("class", "nic")];
    assert_eq!(label(before, "goodput_irq_device_info", &device, "node").as_deref(), Some("1"));
    let taken = |from, to| {
        let by_node = |scrape, node| {
            value(scrape, "goodput_irq_interrupts_total", &[&device[..], &[("node", node)]].concat())
                .unwrap_or_default()
        };
        ["0", "1"].map(|node| by_node(to, node) - by_node(from, node))
    };
    let truth = |pointer| story.irq_truth.pointer(pointer).and_then(serde_json::Value::as_f64).unwrap_or_default();
    // The scrapes lie around the kernel's own counting, so that they may see a little more.
    for (what, taken, off, total, share) in [
        ("away", taken(before, away), truth("/truth/interrupts_off_node"), truth("/truth/interrupts"), 0.95..=1.0),
        ("home", taken(away, home), truth("/truth/home/off_node"), truth("/truth/home/total"), 0.0..=0.05),
    ] {
        let seen: f64 = taken.iter().sum();
        assert!(total >= 100.0 && seen >= total && seen <= total * 1.1, "{what}: {seen} interrupts, truly {total}");
        assert!(taken[0] >= off, "{what}: {} interrupts off node, truly {off}", taken[0]);
        assert!(
            share.contains(&(taken[0] / seen)),
            "{what}: {taken:?} interrupts by node, expected {share:?} on node 0"
        );
    }
    Ok(())
}

#[test]
fn limits_of_cgroup_v2_are_counted_as_the_kernel_counts_them() -> Result<()> {
    let story = Story::get()?;
    let [throttled, killed] = &story.limits_truth;
    // The last is by how much a counter may go on once the cgroup is empty: a timer of the quota that still runs.
    for (truth, cgroup, metric, key, unit, more) in [
        (throttled, "job-throttle", "cpu_usage_seconds_total", "cpu.stat.usage_usec", 1e6, 0.0),
        (throttled, "job-throttle", "cpu_periods_total", "cpu.stat.nr_periods", 1.0, 2.0),
        (throttled, "job-throttle", "cpu_throttled_periods_total", "cpu.stat.nr_throttled", 1.0, 0.0),
        (throttled, "job-throttle", "cpu_throttled_seconds_total", "cpu.stat.throttled_usec", 1e6, 0.0),
        (killed, "job-oom", "memory_max_events_total", "memory.events.max", 1.0, 0.0),
        (killed, "job-oom", "memory_oom_kills_total", "memory.events.oom_kill", 1.0, 0.0),
        (killed, "job-oom", "major_faults_total", "memory.stat.pgmajfault", 1.0, 0.0),
    ] {
        let found = of_owner(&story.limits, metric, cgroup).with_context(|| format!("no {metric} of {cgroup}"))?;
        let counted = truth["after"][format!("cgroup.{cgroup}.{key}")].as_f64().with_context(|| format!("no {key}"))?;
        // Half a unit for what the way from microseconds to seconds rounds.
        let (least, half) = (counted / unit, 0.5 / unit);
        assert!(
            (least - half..=least + more + half).contains(&found),
            "{metric} of {cgroup}: {found}, by the kernel {least}"
        );
    }
    let limits = [("cpu_limit_cores", "job-throttle"), ("memory_max_bytes", "job-oom")];
    let found = limits.map(|(metric, cgroup)| of_owner(&story.limits, metric, cgroup));
    assert_eq!(found, [throttled["truth"]["quota_cpus"].as_f64(), killed["truth"]["limit_bytes"].as_f64()]);
    // The story was told: the quota was met, memory was reclaimed, one process was killed.
    let count = |metric, cgroup| of_owner(&story.limits, metric, cgroup).unwrap_or_default();
    assert!(count("cpu_throttled_periods_total", "job-throttle") > 0.0);
    assert!(count("memory_max_events_total", "job-oom") > 1.0);
    assert_eq!(count("memory_oom_kills_total", "job-oom"), 1.0);
    Ok(())
}

/// A figure of a cgroup at the root.
fn of_owner(scrape: &str, metric: &str, cgroup: &str) -> Option<f64> {
    value(scrape, &format!("goodput_cgroup_{metric}"), &[("owner", &format!("/{cgroup}"))])
}

/// The scrapes as the analyzer's own scraper would have handed them on.
fn batches(story: &Story) -> Result<Vec<Batch>> {
    let target = Target::new("goodput", "guest:9400");
    let mut seen = Seen::default();
    let limits = Limits::default();
    let rules = Rules::of_all(&limits);
    let batch = |(at, body): &(TimeMs, String)| {
        succeeded(body, Format::Text, &rules, &target, *at, &mut seen).map(|(batch, _)| batch)
    };
    Ok(story.scrapes.iter().map(batch).collect::<Result<_, _>>()?)
}

/// The verdicts of the real analyzer on the scrapes, which it receives by remote write.
fn reported(batches: &[Batch], time: Range<TimeMs>) -> Result<(Vec<Interval>, Value)> {
    let dir = tempfile::tempdir()?;
    let analyzer = Analyzer::start(dir.path())?;
    for batch in batches {
        let status = remote_write::post(analyzer.address, &request(batch).body()?)?;
        assert_eq!(status, 204, "remote write");
    }
    analyzer.judged(system_time(time.start), system_time(time.end))
}

fn request(batch: &Batch) -> WriteRequest {
    let label = |(name, value): (&str, &str)| Label { name: name.to_owned(), value: value.to_owned() };
    let sample = |s: &Sample| remote_write::Sample { value: s.value, timestamp: s.time_ms };
    let series = |s: SeriesRef<'_>| TimeSeries {
        labels: s.labels.iter().map(label).collect(),
        samples: s.samples.iter().map(sample).collect(),
    };
    WriteRequest { timeseries: batch.series().map(series).collect() }
}

/// Share of the time that a class has on a GPU; an interval's milliseconds are taken as spread evenly over it.
fn share(intervals: &[Interval], gpu: &str, class: &str, time: &Range<TimeMs>) -> f64 {
    let seconds = |from: SystemTime, to: SystemTime| to.duration_since(from).unwrap_or_default().as_secs_f64();
    let (from, to) = (system_time(time.start), system_time(time.end));
    let within = intervals.iter().filter(|i| i.gpu == gpu && i.class == class);
    let sum: f64 =
        within.map(|i| i.gpu_seconds * seconds(i.start.max(from), i.end.min(to)) / seconds(i.start, i.end)).sum();
    sum / seconds(from, to)
}

/// For how much of the time the report advises the owner of the GPU to bind its processes.
fn advised_ms(report: &Value, gpu: &str, time: &Range<TimeMs>) -> i64 {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_of_gpu = |row: &Value| row["advice"] == "cross_numa" && list(&row["places"]).iter().any(|p| p["gpu"] == gpu);
    let rows = list(&report["advisories"]);
    let stretches = rows.iter().filter(|row| is_of_gpu(row)).flat_map(|row| list(&row["stretches"]));
    let ms = |stretch: &Value, name: &str| stretch[name].as_i64().unwrap();
    stretches.map(|s| (ms(&s, "end_ms").min(time.end) - ms(&s, "start_ms").max(time.start)).max(0)).sum()
}

fn system_time(time: TimeMs) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(time.unsigned_abs())
}

/// The value of the metric's first series with these labels.
fn value(scrape: &str, metric: &str, labels: &[(&str, &str)]) -> Option<f64> {
    find(scrape, metric, labels).and_then(|series| Some(series.samples.first()?.value))
}

/// A label of it.
fn label(scrape: &str, metric: &str, labels: &[(&str, &str)], name: &str) -> Option<String> {
    find(scrape, metric, labels)?.labels.get(name).map(str::to_owned)
}

fn find(scrape: &str, metric: &str, labels: &[(&str, &str)]) -> Option<Series> {
    let batch = parse(scrape, Format::Text, goodput_exposition::Limits::NONE, 0).unwrap();
    let is_it = |s: &Series| s.labels.metric() == metric && labels.iter().all(|(n, v)| s.labels.get(n) == Some(*v));
    batch.into_iter().find(is_it)
}
