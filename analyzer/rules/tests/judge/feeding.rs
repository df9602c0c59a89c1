//! A GPU that works for three tenths of the time, on nodes that export more or less.

use std::collections::BTreeMap;

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Thresholds, judge_series};

const MINUTE: TimeMs = 60_000;

fn series(name: &str, labels: &[(&str, &str)], value: impl Fn(TimeMs) -> f64) -> Series {
    let all = [("__name__", name), ("node", "n1")];
    let samples = (0..40).map(|i| Sample { time_ms: i * 30_000, value: value(i * 30_000) }).collect();
    Series { labels: Labels::new(all.into_iter().chain(labels.iter().copied())), samples }
}

/// A counter that grows by so much a second.
fn counter(name: &str, labels: &[(&str, &str)], rate: f64) -> Series {
    series(name, labels, |t| rate * t as f64 / 1000.0)
}

/// What the rest of the GPU's time is, with these series in addition to its own.
fn lost_to(more: impl IntoIterator<Item = Series>) -> &'static str {
    let device = [("UUID", "GPU-1"), ("pod", "train-0"), ("namespace", "ml")];
    let mut all = vec![series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &device, |_| 0.3)];
    all.push(series("DCGM_FI_DEV_FB_USED", &device, |_| 40_000.0));
    all.extend(more);
    let judged = judge_series(&all, 8 * MINUTE..12 * MINUTE, &Thresholds::default()).unwrap();
    let mut sums = BTreeMap::new();
    for interval in &judged.intervals {
        *sums.entry(interval.class.name()).or_insert(0) += interval.ms;
    }
    assert_eq!(sums.remove("productive"), Some(72_000));
    let (class, ms) = sums.pop_first().unwrap();
    assert!(sums.is_empty() && ms == 168_000, "{class}: {ms} ms, and {sums:?}");
    class
}

/// The CPUs of a node of 64; the job uses few of them.
fn cpus(iowait: f64) -> Vec<Series> {
    let mode = |mode, rate| counter("node_cpu_seconds_total", &[("cpu", "0"), ("mode", mode)], rate);
    vec![
        mode("user", 4.0),
        mode("system", 1.0),
        mode("iowait", iowait),
        mode("idle", 59.0 - iowait),
        mode("steal", 0.0),
    ]
}

fn pressure(resource: &str, rate: f64) -> Series {
    counter(&format!("node_pressure_{resource}_waiting_seconds_total"), &[], rate)
}

#[test]
fn cpus_that_a_job_may_not_use_are_not_seen_in_the_use_of_the_node() {
    assert_eq!(lost_to([]), "unexplained", "nothing tells that anything feeds it");
    let fed = || cpus(0.0).into_iter().chain([counter("node_disk_read_bytes_total", &[("device", "sda")], 5e8)]);
    assert_eq!(lost_to(fed()), "feeding_unsplit");
    let of_job = counter("goodput_cgroup_cpu_usage_seconds_total", &[("owner", "ml/train-0")], 1.0);
    assert_eq!(lost_to(cpus(0.0).into_iter().chain([of_job])), "unexplained");
    assert_eq!(lost_to(cpus(4.0)), "dataloader_storage", "iowait tells of reads all the same");
}

#[test]
fn pressure_of_the_node_tells_of_them() {
    let with = |cpu, io| lost_to(cpus(0.0).into_iter().chain([pressure("cpu", cpu), pressure("io", io)]));
    assert_eq!(with(0.9, 0.0), "dataloader_cpu");
    assert_eq!(with(0.1, 0.0), "unexplained", "CPUs are told, and not short");
    assert_eq!(with(0.9, 0.9), "dataloader_cpu", "of many workers one nearly always waits for reads");
}

#[test]
fn pressure_of_the_node_is_not_the_jobs_where_that_is_told() {
    let of_job = counter("container_cpu_usage_seconds_total", &POD, 1.0);
    assert_eq!(lost_to(cpus(0.0).into_iter().chain([of_job, pressure("cpu", 0.9)])), "unexplained");
}

#[test]
fn a_server_waits_for_requests() {
    let requests = series("vllm:num_requests_running", &POD, |_| 1.0);
    assert_eq!(lost_to([requests]), "unexplained");
}

#[test]
fn a_process_that_computes_while_its_gpu_is_idle_prepares_batches() {
    let owner = [("owner", "ml/train-0")];
    let with = |holders, all, more: Option<Series>| {
        let counted = [
            counter("goodput_process_holders_cpu_seconds_total", &owner, holders),
            counter("goodput_cgroup_cpu_usage_seconds_total", &owner, all),
        ];
        lost_to(cpus(0.0).into_iter().chain(counted).chain(more))
    };
    assert_eq!(with(1.0, 1.05, None), "unexplained", "a notebook, or a server that polls");
    let read = || counter("goodput_cgroup_io_read_bytes_total", &owner, 5e8);
    assert_eq!(with(1.0, 1.05, Some(read())), "dataloader_cpu");
    assert_eq!(with(0.5, 0.55, Some(read())), "unexplained", "it also waits");
    assert_eq!(with(1.0, 3.0, Some(read())), "unexplained", "others do more of the work");
    let requests = series("vllm:num_requests_running", &POD, |_| 1.0);
    assert_eq!(with(1.0, 1.05, Some(requests)), "unexplained", "a server that asks for requests all the time");
    let reads = counter("goodput_cgroup_pressure_waiting_seconds_total", &[owner[0], ("resource", "io")], 0.9);
    assert_eq!(with(1.0, 1.05, Some(reads)), "dataloader_storage");
}

const POD: [(&str, &str); 3] = [("namespace", "ml"), ("pod", "train-0"), ("container", "main")];

/// The limit is doubled within every minute, as when a pod is resized in place: what the job then holds is half of it.
#[test]
fn a_job_is_at_the_limit_that_it_had_for_a_part_of_the_minute() {
    const MIB: f64 = 1024.0 * 1024.0;
    let of_job = [("owner", "ml/train-0")];
    let level = |name, low: f64, high: f64| {
        series(name, &of_job, move |t| if t % MINUTE == 0 { low * MIB } else { high * MIB })
    };
    let at = |held: f64| {
        let waits = [("owner", "ml/train-0"), ("resource", "io")];
        let cached = [("owner", "ml/train-0"), ("kind", "file")];
        let more = [
            counter("goodput_cgroup_pressure_waiting_seconds_total", &waits, 0.9),
            counter("goodput_cgroup_pressure_waiting_seconds_total", &[of_job[0], ("resource", "memory")], 0.01),
            counter("goodput_cgroup_refault_pages_total", &cached, 8000.0),
            counter("goodput_cgroup_io_read_bytes_total", &of_job, 8000.0 * 4096.0),
            counter("goodput_cgroup_cpu_usage_seconds_total", &of_job, 0.5),
            level("goodput_cgroup_memory_current_bytes", held, held),
            level("goodput_cgroup_memory_max_bytes", 64.0, 128.0),
        ];
        lost_to(cpus(0.0).into_iter().chain(more))
    };
    assert_eq!(at(64.0), "memory_pressure");
    assert_eq!(at(50.0), "dataloader_storage", "at neither");
}
